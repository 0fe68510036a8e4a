# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""``sriov-rt agent`` and ``openstack realtime``, over an in-memory queue."""

import contextlib
import dataclasses
import importlib
import io
import json
import logging
import pathlib
import tomllib
import types
import unittest
from unittest import mock

from cliff import app
from cliff import commandmanager
from oslo_config import cfg
from oslo_messaging._drivers import impl_fake

from sriov_rt import facts
from sriov_rt.cmd import agents
from sriov_rt.cmd import cloud
from sriov_rt.cmd import collect
from sriov_rt.cmd import main
from sriov_rt.cmd import openstackclient
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.scheduler import options
from tests.unit import builders
from tests.unit.cmd import tables
from tests.unit.cmd.test_explain import Agents

ROOT = pathlib.Path(__file__).resolve().parents[3]


_stop = collect.Hearing.stop


def stop(hearing: collect.Hearing) -> None:
    """Stop hearing, and wait until no message goes there any more."""
    _stop(hearing)
    hearing._thread.join(30)


def host(name: str, **parts) -> facts.HostFacts:
    found = builders.realtime_host(name, **parts)
    return dataclasses.replace(found, version="1.2.3")


class QueueTest(unittest.TestCase):
    URL = "fake:/agents"

    def setUp(self):
        conf = cfg.CONF
        options.register(conf)
        conf([], default_config_files=[])
        self.addCleanup(conf.reset)
        conf.set_override("transport_url", self.URL, group="sriov_rt")
        self.addCleanup(conf.clear_override, "transport_url", group="sriov_rt")
        found = Agents(conf, host("rt-1"), host("rt-2", memory={"ksm_run": 1}))
        self.addCleanup(found.stop)
        for place, name, value in (
            (collect, "_QUIET_S", 0.5),
            (collect.Hearing, "stop", stop),
            # It would drop the queues of the agents as well: all are the
            # class's, and a request in the next 50 ms would be lost.
            (impl_fake.FakeExchangeManager, "cleanup", lambda: None),
        ):
            patch = mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_main(self, *words, wait="60"):
        printed, self.said = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(self.said),
        ):
            code = main.main(
                [*words, f"--transport-url={self.URL}", f"--wait={wait}"]
            )
        return code, printed.getvalue()


class ListTest(QueueTest):
    def test_host_version_age_and_verdict(self):
        code, printed = self.run_main("agent", "list")
        self.assertEqual(0, code)
        ready, other = tables.rows(printed)
        self.assertEqual(
            ["Host", "Version", "Facts age", "Verdict", "Problems"],
            list(ready),
        )
        self.assertEqual(
            ("rt-1", "1.2.3", "ready", "-"),
            (
                ready["Host"],
                ready["Version"],
                ready["Verdict"],
                ready["Problems"],
            ),
        )
        self.assertRegex(ready["Facts age"], r"\A\d s\Z")
        self.assertEqual("not ready", other["Verdict"])
        self.assertEqual("ksm_running", other["Problems"])
        self.assertLessEqual(tables.width(printed), 80)

    def test_as_json(self):
        _, printed = self.run_main("agent", "list", "--json")
        ready, other = json.loads(printed)
        self.assertEqual(
            ["host", "version", "facts_age_s", "verdict", "reasons"],
            list(ready),
        )
        (found,) = other["reasons"]
        self.assertEqual("ksm_running", found["code"])
        self.assertIn("ksmtuned", found["remedy"])


class ShowTest(QueueTest):
    def test_all_facts_of_one_host(self):
        code, printed = self.run_main("agent", "show", "rt-1")
        self.assertEqual(0, code)
        shown = tables.fields(printed)
        self.assertEqual(
            ("rt-1", "1.2.3", "ready"),
            (shown["host"], shown["version"], shown["verdict"]),
        )
        self.assertIn("kernel.command_line", shown)
        code, printed = self.run_main("agent", "show", "rt-2", "--json")
        self.assertEqual(1, code, self.said.getvalue())
        found = json.loads(printed)
        self.assertEqual("not ready", found["verdict"])
        self.assertEqual(
            host("rt-2", memory={"ksm_run": 1}).to_plain(), found["facts"]
        )

    def test_a_host_that_is_silent(self):
        code, printed = self.run_main("agent", "show", "rt-9", wait="1")
        self.assertEqual((2, ""), (code, printed))
        self.assertIn("'rt-9' did not report within 1 s", self.said.getvalue())


class VerdictTest(unittest.TestCase):
    def test_stale_and_missing(self):
        for facts_, age_s, verdict, code in (
            (host("a"), 400.0, agents.STALE, "facts_stale"),
            (None, None, agents.MISSING, "facts_missing"),
        ):
            found = agents.judge(Candidate("a", facts_, age_s, 300.0))
            (reason,) = found.reasons
            self.assertEqual((verdict, code), (found.verdict, reason.code))


class BrokerTest(unittest.TestCase):
    def test_the_cause_is_named_and_no_password(self):
        def wait(*args):
            logging.getLogger(f"{collect._DRIVERS}._drivers.x").error(
                "Connection failed: ECONNREFUSED\nand more"
            )

        said = io.StringIO()
        with (
            contextlib.redirect_stderr(said),
            mock.patch.object(collect.Hearing, "wait", wait),
            mock.patch.object(
                collect, "_broker", return_value="192.0.2.1:5672"
            ),
        ):
            code = main.main(
                ["agent", "list", "--transport-url", "fake://a:secret@b/"]
            )
        self.assertEqual(2, code)
        self.assertIn(
            "the message queue 192.0.2.1:5672 cannot be reached: Connection "
            "failed: ECONNREFUSED; see that --config-file or --transport-url",
            said.getvalue(),
        )
        self.assertNotIn("secret", said.getvalue())

    def test_where_a_broker_is(self):
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf([], default_config_files=[])
        conf.set_override(
            "transport_url",
            "fake://u:secret@192.0.2.1:5672,u:secret@[2001:db8::1]:5671/",
            group="sriov_rt",
        )
        self.assertEqual(
            "192.0.2.1:5672, 2001:db8::1:5671", collect._broker(conf)
        )


class PluginTest(QueueTest):
    """openstackclient's part: cliff, entry points and a client manager."""

    def setUp(self):
        super().setUp()
        text = (ROOT / "pyproject.toml").read_text()
        self.entries = tomllib.loads(text)["project"]["entry-points"]

    def run_plugin(self, *words, wait="60"):
        manager = commandmanager.CommandManager()
        for name, place in self.entries["openstack.realtime.v1"].items():
            module, _, cls = place.partition(":")
            manager.add_command(
                name.replace("_", " "),
                getattr(importlib.import_module(module), cls),
            )
        shell = app.App("", "1", manager)
        shell.configure_logging = lambda: None
        self.connection = mock.Mock()
        shell.client_manager = types.SimpleNamespace(
            sdk_connection=self.connection
        )
        printed = io.StringIO()
        shell.stdout = printed
        with contextlib.redirect_stderr(io.StringIO()):
            code = shell.run(
                [*words, f"--transport-url={self.URL}", f"--wait={wait}"]
            )
        return code, printed.getvalue()

    def test_it_is_found(self):
        (place,) = self.entries["openstack.cli.extension"].values()
        self.assertEqual(openstackclient.__name__, place)
        self.assertEqual(
            f"openstack.{openstackclient.API_NAME}.v"
            f"{openstackclient.DEFAULT_API_VERSION}",
            "openstack.realtime.v1",
        )
        parser = object()
        self.assertIs(parser, openstackclient.build_option_parser(parser))
        self.assertIsNone(openstackclient.make_client(None))

    def test_hosts_that_are_silent_are_listed_too(self):
        names = ["rt-1", "rt-2", "std-1"]
        with mock.patch.object(cloud, "hosts", return_value=names) as hosts:
            code, printed = self.run_plugin(
                "realtime", "host", "list", wait="5"
            )
        self.assertEqual(0, code)
        self.assertIs(self.connection, hosts.call_args.args[1])
        self.assertEqual(
            ["ready", "not ready", "no facts"],
            [row["Verdict"] for row in tables.rows(printed)],
        )

    def test_host_show(self):
        code, printed = self.run_plugin(
            "realtime", "host", "show", "rt-1", "-f", "json"
        )
        self.assertEqual((0, "rt-1"), (code, json.loads(printed)["host"]))

    def test_explain_takes_openstackclients_connection(self):
        specs = {"sriov_rt:kernel": "preempt_rt"}
        with (
            mock.patch.object(
                cloud, "extra_specs", return_value=specs
            ) as asked,
            mock.patch.object(cloud, "hosts", return_value=["rt-1", "rt-2"]),
        ):
            code, printed = self.run_plugin(
                "realtime", "explain", "--flavor", "rt", "--json"
            )
        asked.assert_called_once_with("rt", self.connection)
        self.assertEqual((0, 2), (code, len(json.loads(printed))))
