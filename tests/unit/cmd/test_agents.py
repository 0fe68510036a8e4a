# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt agent`` and ``openstack realtime``, over an in-memory queue."""

import contextlib
import dataclasses
import datetime
import importlib
import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
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
from sriov_rt.cmd import faults
from sriov_rt.cmd import main
from sriov_rt.cmd import openstackclient
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.scheduler import options
from tests.periodic import slow
from tests.unit import builders
from tests.unit.cmd import hearing
from tests.unit.cmd import tables
from tests.unit.cmd.test_explain import Agents

ROOT = pathlib.Path(__file__).resolve().parents[3]


_stop = collect.Hearing.stop


def stop(hearing: collect.Hearing) -> None:
    """Stop hearing, and wait until no message goes there any more."""
    _stop(hearing, 30.0)


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
            (collect.Hearing, "stop", stop),
            # It would drop the queues of the agents as well: all are the
            # class's, and a request in the next 50 ms would be lost.
            (impl_fake.FakeExchangeManager, "cleanup", lambda: None),
        ):
            patch = mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.over = contextlib.ExitStack()
        self.over.enter_context(hearing.over_after("rt-1", "rt-2"))
        self.addCleanup(self.over.close)

    def run_main(self, *words, wait="60", is_terminal=False):
        printed, self.said = io.StringIO(), io.StringIO()
        self.said.isatty = lambda: is_terminal
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
        self.assertEqual("", self.said.getvalue())

    def test_what_cannot_be_known_without_credentials(self):
        with mock.patch.dict("os.environ", {"OS_CLOUD": ""}):
            _, printed = self.run_main("agent", "list", is_terminal=True)
        said = self.said.getvalue()
        self.assertIn("hosts whose agent is silent are not listed", said)
        with (
            mock.patch.dict("os.environ", {"OS_CLOUD": "rt"}),
            mock.patch.object(
                cloud,
                "hosts",
                return_value={"rt-1": cloud.ComputeService("up", None)},
            ),
        ):
            _, printed = self.run_main("agent", "list", is_terminal=True)
        self.assertNotIn("credentials", self.said.getvalue())
        self.assertEqual(
            ["up", "-"],
            [row["nova-compute"] for row in tables.rows(printed)],
        )

    def test_it_ends_when_no_further_host_reports(self):
        self.over.close()
        with mock.patch.object(collect, "_QUIET_S", 0.5):
            _, printed = self.run_main("agent", "list", "--json", wait="600")
        found = {each["host"] for each in json.loads(printed)}
        # On a busy machine the second one may be late.
        self.assertTrue(found)
        self.assertLessEqual(found, {"rt-1", "rt-2"})

    def test_as_json(self):
        _, printed = self.run_main("agent", "list", "--json")
        ready, other = json.loads(printed)
        self.assertEqual(
            {
                *("host", "version", "facts_age_s", "verdict", "reasons"),
                *("nova_compute", "traits", "maintenance"),
            },
            set(ready),
        )
        self.assertIsNone(ready["nova_compute"])
        (found,) = other["reasons"]
        self.assertEqual("ksm_running", found["code"])
        self.assertIn("ksmtuned", found["remedy"])

    def test_filters(self):
        for words, expected in (
            (("--host", "rt-2"), ["rt-2"]),
            (("--host", "rt-2", "--host", "rt-1"), ["rt-1", "rt-2"]),
            (("--not-ready",), ["rt-2"]),
            (("--reason", "ksm_running"), ["rt-2"]),
            (("--reason", "ksm_running", "--host", "rt-1"), []),
        ):
            with self.subTest(words):
                code, printed = self.run_main(
                    "agent", "list", *words, "--json"
                )
                found = [each["host"] for each in json.loads(printed)]
                self.assertEqual((0, expected), (code, found))

    def test_a_reason_that_there_is_not(self):
        with self.assertRaises(SystemExit) as caught:
            self.run_main("agent", "list", "--reason", "ksm_runing")
        self.assertEqual(2, caught.exception.code)
        self.assertIn("did you mean ksm_running?", self.said.getvalue())


class PublishedTest(unittest.TestCase):
    """An operator with clouds.yaml, and no password of the broker's."""

    def setUp(self):
        self.compute = mock.Mock()
        self.compute.services.return_value = [
            mock.Mock(host="rt-1", state="up", updated_at=None),
            mock.Mock(host="rt-2", state="down", updated_at=None),
        ]
        self.compute.hypervisors.return_value = [
            types.SimpleNamespace(
                name=f"{host}.example.org", service_details={"host": host}
            )
            for host in ("rt-1", "rt-2")
        ]
        self.cloud = mock.Mock(compute=self.compute)
        self.cloud.placement.get.side_effect = self.providers
        # A stand-in for openstacksdk, which the core does not need.
        sdk = types.ModuleType("openstack")
        sdk.connect = mock.Mock(return_value=self.cloud)
        sdk.exceptions = types.ModuleType("openstack.exceptions")
        sdk.exceptions.SDKException = OSError
        sdk.exceptions.ForbiddenException = PermissionError
        sdk.exceptions.raise_from_response = mock.Mock()
        for patch in (
            mock.patch.dict(
                "sys.modules",
                {"openstack": sdk, "openstack.exceptions": sdk.exceptions},
            ),
            mock.patch.object(collect, "CONFIG_FILES", ("/nope",)),
            mock.patch.dict("os.environ", {"OS_CLOUD": "rt"}),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def providers(self, path, *, params, microversion):
        self.assertEqual("/resource_providers", path)
        if params["required"] == "CUSTOM_SRIOV_RT_ONLOAD":
            return mock.Mock(status_code=400)
        names = ["rt-1.example.org", "other"]
        found = {"resource_providers": [{"name": name} for name in names]}
        return mock.Mock(status_code=200, json=lambda: found)

    def run_main(self, *words):
        printed, self.said = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(self.said),
        ):
            code = main.main(words)
        return code, printed.getvalue()

    def test_the_list_has_what_nova_and_placement_know(self):
        code, printed = self.run_main("agent", "list", "--json")
        self.assertEqual(0, code)
        first, second = json.loads(printed)
        self.assertEqual(
            ("rt-1", "ready", "up"),
            (first["host"], first["verdict"], first["nova_compute"]["state"]),
        )
        self.assertIn("CUSTOM_SRIOV_RT_REALTIME", first["traits"])
        self.assertNotIn("CUSTOM_SRIOV_RT_ONLOAD", first["traits"])
        self.assertEqual(
            ("rt-2", "not ready", []),
            (second["host"], second["verdict"], second["traits"]),
        )
        said = self.said.getvalue()
        self.assertEqual(1, said.count("\n"))
        self.assertIn("need --config-file or --transport-url", said)

    def test_one_host(self):
        code, printed = self.run_main("agent", "show", "rt-1")
        self.assertEqual(0, code)
        self.assertEqual("ready", tables.fields(printed)["verdict"])
        self.assertEqual(1, self.run_main("agent", "show", "rt-2")[0])
        self.assertEqual(2, self.run_main("agent", "show", "rt-9")[0])
        self.assertIn("no compute host 'rt-9'", self.said.getvalue())

    def test_without_a_cloud_the_queue_is_needed(self):
        with mock.patch.dict("os.environ", {"OS_CLOUD": ""}):
            code, _ = self.run_main("agent", "list")
        self.assertEqual(2, code)
        self.assertIn(
            "no configuration names the message queue", self.said.getvalue()
        )


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
            (facts.decisive(host("a")), 400.0, agents.STALE, "facts_stale"),
            (None, None, agents.MISSING, "facts_missing"),
        ):
            found = agents.judge(Candidate("a", facts_, age_s, 300.0))
            (reason,) = found.reasons
            self.assertEqual((verdict, code), (found.verdict, reason.code))


class ConfigurationTest(unittest.TestCase):
    def test_each_file_that_was_tried_is_named_with_why(self):
        with (
            mock.patch.object(collect, "CONFIG_FILES", ("/nope", "/proc")),
            self.assertRaises(collect.QueueUnnamed) as raised,
        ):
            collect.collect(
                None,
                config_files=None,
                transport_url=None,
                wait_s=0,
                report=print,
            )
        self.assertIn(
            "/nope (No such file or directory), /proc (Is a directory); run "
            "as a user who may read one of them",
            str(raised.exception),
        )


class ProgressTest(unittest.TestCase):
    def test_hosts_that_nova_does_not_list_are_counted_apart(self):
        for names, expected, said in (
            ({"a"}, None, "1 host has reported"),
            (set(), None, "0 hosts have reported"),
            ({"a", "b"}, ["a"], "1 of 1 host has reported, and 1 beside it"),
            ({"a"}, ["a", "b"], "1 of 2 hosts have reported"),
        ):
            self.assertEqual(said, collect.reported(names, expected))

    def test_it_is_for_who_watches_and_wants_it(self):
        for is_quiet, is_terminal, says in (
            (False, True, True),
            (True, True, False),
            (False, False, False),
        ):
            said = io.StringIO()
            with (
                contextlib.redirect_stderr(said),
                mock.patch.object(said, "isatty", return_value=is_terminal),
            ):
                faults.progress(is_quiet=is_quiet)("1 host has reported")
            self.assertEqual(says, bool(said.getvalue()))


@slow
class StandardErrorTest(unittest.TestCase):
    """With an interpreter of its own, as a person starts the commands."""

    def test_the_library_of_threads_says_nothing(self):
        # Where eventlet is installed it warns of itself when it is imported.
        with tempfile.NamedTemporaryFile() as empty:
            done = subprocess.run(
                (
                    sys.executable,
                    *("-m", "sriov_rt.cmd.main", "agent", "list"),
                    *("--transport-url=fake:/", "--wait=0"),
                    f"--config-file={empty.name}",
                ),
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
                env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            )
        self.assertEqual(2, done.returncode)
        (line,) = done.stderr.splitlines()
        self.assertIn("no agent reported within 0 s", line)

    def test_the_library_of_the_protocol_says_nothing(self):
        logger = logging.getLogger("amqp")
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.NOTSET)
        handler = mock.Mock(level=logging.WARNING)
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)

        def wait(*_):
            logger.warning("Received method (60, 30) during closing channel")

        with mock.patch.object(collect, "Hearing") as hearing:
            hearing.return_value.wait = wait
            hearing.return_value.collector.names.return_value = {"a"}
            collect.collect(
                None,
                config_files=[],
                transport_url="fake:/",
                wait_s=0,
                report=print,
            )
        handler.handle.assert_not_called()


class BrokerTest(unittest.TestCase):
    def test_who_is_refused_is_named_with_where_and_no_password(self):
        error = Exception("(0, 0): (403) ACCESS_REFUSED - Login was refused")
        error.reply_code = 403
        error.reply_text = "ACCESS_REFUSED - Login was refused. For details"
        said = io.StringIO()

        def wait(*_):
            raise collect.QueueUnusable(str(error)) from error

        with (
            contextlib.redirect_stderr(said),
            mock.patch.object(collect.Hearing, "wait", wait),
        ):
            code = main.main(
                ["agent", "list", "--transport-url", "fake://a:secret@b:5/v"]
            )
        self.assertEqual(2, code)
        self.assertIn(
            "the message queue b:5 refuses user 'a' on virtual host 'v' "
            "(ACCESS_REFUSED - Login was refused); correct them",
            said.getvalue(),
        )
        self.assertNotIn("secret", said.getvalue())

    def test_the_cause_is_named_and_no_password(self):
        def wait(*args):
            logging.getLogger("oslo.messaging._drivers.x").error(
                "Connection failed: ECONNREFUSED\nand more"
            )

        said = io.StringIO()
        with (
            contextlib.redirect_stderr(said),
            mock.patch.object(collect.Hearing, "wait", wait),
        ):
            url = "fake://a:secret@192.0.2.1:5672/"
            code = main.main(["agent", "list", "--transport-url", url])
        self.assertEqual(2, code)
        self.assertIn(
            "the message queue 192.0.2.1:5672 cannot be reached: Connection "
            "failed: ECONNREFUSED; check that --config-file or "
            "--transport-url names",
            said.getvalue(),
        )
        self.assertNotIn("secret", said.getvalue())


class PluginTest(QueueTest):
    """openstackclient's part: cliff, entry points and a client manager."""

    def setUp(self):
        super().setUp()
        text = (ROOT / "pyproject.toml").read_text()
        self.entries = tomllib.loads(text)["project"]["entry-points"]

    def run_plugin(self, *words):
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
                [*words, f"--transport-url={self.URL}", "--wait=60"]
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
        up = cloud.ComputeService("up", "2026-11-23T12:00:00.000000")
        seen = time.time() - 7260
        down = cloud.ComputeService(
            "down",
            datetime.datetime.fromtimestamp(seen, datetime.UTC)
            .replace(tzinfo=None)
            .isoformat(),
        )
        found = {"rt-1": up, "rt-2": up, "std-1": down, "std-2": up}
        with mock.patch.object(cloud, "hosts", return_value=found) as hosts:
            code, printed = self.run_plugin("realtime", "host", "list")
        self.assertEqual(0, code)
        self.assertIs(self.connection, hosts.call_args.args[1])
        rows = tables.rows(printed)
        self.assertEqual(
            ["ready", "not ready", "down", "down"],
            [row["Verdict"] for row in rows],
        )
        self.assertEqual(
            ["up", "up", "down for 2 h", "up"],
            [row["nova-compute"] for row in rows],
        )
        self.assertEqual("none in 60 s", rows[2]["Facts age"])
        self.assertNotIn("credentials", printed)

    def test_host_show(self):
        code, printed = self.run_plugin(
            "realtime", "host", "show", "rt-1", "-f", "json"
        )
        self.assertEqual((0, "rt-1"), (code, json.loads(printed)["host"]))

    def test_explain_takes_openstackclients_connection(self):
        specs = {"sriov_rt:kernel": "preempt_rt"}
        with (
            mock.patch.object(
                cloud, "flavor", return_value=cloud.Flavor(specs, 1, 512)
            ) as asked,
            mock.patch.object(
                cloud, "hosts", return_value={"rt-1": None, "rt-2": None}
            ),
        ):
            code, printed = self.run_plugin(
                "realtime", "explain", "--flavor", "rt", "--json"
            )
        asked.assert_called_once_with("rt", self.connection)
        self.assertEqual((0, 2), (code, len(json.loads(printed))))
