# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from sriov_rt import facts
from sriov_rt import request
from sriov_rt.cmd import cloud
from sriov_rt.cmd import collect
from sriov_rt.cmd import main
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.facts import CpuSet
from sriov_rt.scheduler import options
from sriov_rt.service import messaging
from tests.unit import builders
from tests.unit.cmd import hearing
from tests.unit.cmd import tables

REALTIME = (
    "--extra-spec=sriov_rt:realtime=required",
    "--extra-spec=hw:cpu_policy=dedicated",
)


def explain(*words: str) -> tuple[int, str, str]:
    """Run the command; return exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main.main(["explain", *words])
        except SystemExit as ended:
            code = ended.code
    return code, out.getvalue(), err.getvalue()


class OfflineTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name)
        self._write(builders.realtime_host("rt-1"))
        self._write(
            builders.realtime_host(
                "std-1",
                memory={"ksm_run": 1},
                compute={"dedicated": None},
            )
        )

    def _write(self, host: facts.HostFacts) -> None:
        path = self.path / f"{host.host}.json"
        path.write_text(json.dumps(host.to_plain()))

    def _facts(self, name: str = "") -> str:
        return f"--facts={self.path / name}"

    def test_a_table_of_hosts_and_reasons(self):
        code, out, err = explain(*REALTIME, self._facts())
        self.assertEqual((0, ""), (code, err))
        passing, first, second = tables.rows(out)
        self.assertEqual(
            {"Host": "rt-1", "Passes": "yes", "Problem": "-", "Remedy": "-"},
            passing,
        )
        self.assertEqual(
            ("std-1", "no", "no pCPUs are dedicated"),
            (first["Host"], first["Passes"], first["Problem"]),
        )
        self.assertIn("cpu_dedicated_set", first["Remedy"])
        self.assertEqual(
            "KSM merges and unmerges guest pages", second["Problem"]
        )
        self.assertLessEqual(tables.width(out), 80)

    def test_json(self):
        code, out, _ = explain(*REALTIME, self._facts(), "--json")
        self.assertEqual(0, code)
        passing, failing = json.loads(out)
        self.assertEqual(
            {"host": "rt-1", "passes": True, "reasons": []}, passing
        )
        self.assertEqual(["host", "passes", "reasons"], list(failing))
        self.assertIs(False, failing["passes"])
        unset = failing["reasons"][0]
        self.assertEqual("dedicated_unset", unset["code"])
        self.assertEqual("2-3", unset["isolated"])
        self.assertIn("cpu_dedicated_set", unset["message"])

    def test_a_flavor_that_requests_nothing_passes_as_the_filter_has_it(self):
        for spec in ("hw:cpu_policy=dedicated", "quota:cpu_shares=1"):
            with self.subTest(spec):
                code, out, err = explain(f"--extra-spec={spec}", self._facts())
                self.assertEqual((0, ""), (code, err))
                self.assertIn("sriov-rt lets every host pass", out)
                self.assertEqual(
                    ["yes", "yes"], [row["Passes"] for row in tables.rows(out)]
                )

    def test_a_key_that_was_to_be_ours(self):
        for key in (
            "sriov-rt:realtime",
            "sriov_rt.realtime",
            "SRIOV_RT:realtime",
            "sriovrt:realtime",
            " sriov_rt:realtime",
        ):
            with self.subTest(key):
                spec = f"--extra-spec={key}=required"
                code, out, err = explain(spec, self._facts())
                self.assertEqual(0, code)
                self.assertIn(f"nothing reads the extra spec {key!r}", err)
                self.assertIn("sriov-rt lets every host pass", out)
        for key in ("sriov_rt:realtime", "sriov_rtx:a", "hw:sriov_rt", "a"):
            self.assertEqual((), request.misspelt([key]), key)

    def test_memory_that_is_no_whole_number_of_pages(self):
        flavor = cloud.Flavor(
            {"sriov_rt:kernel": "any", "hw:mem_page_size": "1GB"}, 1, 128
        )
        with (
            mock.patch.object(cloud, "connection"),
            mock.patch.object(cloud, "flavor", return_value=flavor),
        ):
            _, out, _ = explain("--flavor=small", self._facts(), "--json")
        codes = {
            r["code"] for each in json.loads(out) for r in each["reasons"]
        }
        self.assertIn("memory_not_whole_pages", codes)

    def test_filters(self):
        for words, expected, code in (
            ((), ["rt-1", "std-1"], 0),
            (("--host=rt-1",), ["rt-1"], 0),
            (("--host=std-1",), ["std-1"], 1),
            (("--host=std-1", "--host=rt-1"), ["rt-1", "std-1"], 0),
            (("--host=nosuch",), [], 1),
            (("--not-passing",), ["std-1"], 0),
            (("--reason=ksm_running",), ["std-1"], 0),
            (("--reason=facts_stale",), [], 0),
        ):
            with self.subTest(words):
                done = explain(*REALTIME, self._facts(), *words, "--json")
                found = [each["host"] for each in json.loads(done[1])]
                self.assertEqual((code, expected), (done[0], found))

    def test_one_if_no_host_passes(self):
        code, _, _ = explain(*REALTIME, self._facts("std-1.json"))
        self.assertEqual(1, code)

    def test_files_and_directories_together(self):
        code, out, _ = explain(
            *REALTIME, self._facts("std-1.json"), self._facts(), "--json"
        )
        self.assertEqual(0, code)
        hosts = [each["host"] for each in json.loads(out)]
        self.assertEqual(["std-1", "rt-1", "std-1"], hosts)

    def test_two_if_the_request_is_invalid(self):
        for spec in ("sriov_rt:kernel=rt", "sriov_rt:x=y", "realtime"):
            with self.subTest(spec=spec):
                code, out, err = explain(
                    f"--extra-spec={spec}", self._facts(), "--json"
                )
                self.assertEqual((2, ""), (code, out))
                self.assertIn("sriov-rt: error: ", err)
                self.assertIn(spec.partition("=")[0], err)

    def test_two_if_facts_cannot_be_used(self):
        (self.path / "bad").mkdir()
        (self.path / "bad" / "x.json").write_text("{")
        (self.path / "empty").mkdir()
        for name in ("bad", "bad/x.json", "empty", "none"):
            with self.subTest(name=name):
                code, out, err = explain(*REALTIME, self._facts(name))
                self.assertEqual((2, ""), (code, out))
                self.assertIn(str(self.path / name), err)
                self.assertIn("sriov-rt host show --json", err)

    def test_a_file_that_is_too_long_is_not_read_whole(self):
        with (self.path / "long.json").open("wb") as file:
            file.truncate(1 << 40)
        code, _, err = explain(*REALTIME, self._facts("long.json"))
        self.assertEqual(2, code)
        self.assertIn("longer than", err)

    def test_nothing_to_explain(self):
        code, _, err = explain(self._facts())
        self.assertEqual(2, code)
        self.assertIn("--flavor", err)

    def test_a_network_asks_for_the_same_host_rule(self):
        network = "3cb9bc59-5699-4588-a4b1-b87f96708bc6"
        self._write(builders.onload_host("a", builders.endpoint(network)))
        self._write(builders.onload_host("b"))
        words = ("--extra-spec=sriov_rt:onload=required", "--json")
        hosts = (self._facts("a.json"), self._facts("b.json"))
        for given, expected in (
            ((), {"a": [], "b": []}),
            ((f"--network={network}",), {"a": ["onload_same_host"], "b": []}),
            (
                (f"--network={network.upper()}:fast",),
                {"a": ["onload_same_host"], "b": []},
            ),
            (
                (f"--network={network}:slow",),
                {"a": ["onload_no_nic"], "b": ["onload_no_nic"]},
            ),
        ):
            with self.subTest(given=given):
                _, out, _ = explain(*words, *given, *hosts)
                found = {
                    each["host"]: [r["code"] for r in each["reasons"]]
                    for each in json.loads(out)
                }
                self.assertEqual(expected, found)

    def test_two_if_a_network_is_none(self):
        for text in ("", "net-a", ":fast", f"{'0' * 32}:"):
            with self.subTest(text=text):
                code, _, err = explain(
                    *REALTIME, f"--network={text}", self._facts()
                )
                self.assertEqual(2, code)
                self.assertIn("UUID[:PHYSNET] expected", err)

    def test_names_cannot_steer_the_terminal(self):
        host = builders.realtime_host("a\x1b[2J")
        (self.path / "x.json").write_text(json.dumps(host.to_plain()))
        _, out, _ = explain(*REALTIME, self._facts("x.json"))
        self.assertNotIn("\x1b", out)


class FakeError(Exception):
    """Stands for errors of openstacksdk."""


class Forbidden(FakeError):
    """Stands for its 403."""


class CloudTest(unittest.TestCase):
    """With a stand-in for openstacksdk, which the core does not need."""

    def setUp(self):
        self.compute = mock.Mock()
        sdk = types.ModuleType("openstack")
        sdk.connect = mock.Mock(return_value=mock.Mock(compute=self.compute))
        sdk.exceptions = types.ModuleType("openstack.exceptions")
        sdk.exceptions.SDKException = FakeError
        sdk.exceptions.ForbiddenException = Forbidden
        patch = mock.patch.dict(
            "sys.modules",
            {"openstack": sdk, "openstack.exceptions": sdk.exceptions},
        )
        patch.start()
        self.addCleanup(patch.stop)
        self.told: list[str] = []

    def test_the_extra_specs_of_a_flavor(self):
        specs = {"sriov_rt:kernel": "any"}
        flavor = mock.Mock(extra_specs=specs, vcpus=2, ram=512)
        self.compute.find_flavor.return_value = flavor
        found = cloud.flavor("rt.small")
        self.assertEqual(cloud.Flavor(specs, 2, 512), found)
        self.assertEqual(
            "rt.small", self.compute.find_flavor.call_args.args[0]
        )

    def test_a_bad_value_that_a_flavor_has_stored(self):
        specs = {"sriov_rt:realtime": "maybe"}
        flavor = mock.Mock(extra_specs=specs, vcpus=2, ram=512)
        self.compute.find_flavor.return_value = flavor
        code, out, err = explain("--flavor=rt.small", "--facts=/")
        self.assertEqual((2, ""), (code, out))
        self.assertIn("flavor 'rt.small' has extra specs", err)
        self.assertIn(
            "sriov_rt:realtime: Invalid value 'maybe': required expected", err
        )
        self.assertIn("flavor unset --property sriov_rt:realtime", err)

    def test_everything_that_has_to_change_for_a_flavor(self):
        flavor = mock.Mock(
            extra_specs={
                "sriov_rt:realtime": "required",
                "hw:cpu_policy": "dedicated",
                "hw:mem_page_size": "large",
            },
            vcpus=4,
            ram=2048,
        )
        self.compute.find_flavor.return_value = flavor
        for parts, expected in (
            (
                {
                    "cpus": {"isolated": CpuSet()},
                    "compute": {"dedicated": None},
                    "memory": {"hugepages": ()},
                },
                ["nothing_isolated", "dedicated_unset", "huge_pages_missing"],
            ),
            ({}, ["pcpus_too_few", "huge_pages_too_few"]),
        ):
            host = builders.realtime_host(**parts)
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(json.dumps(host.to_plain()))
                file.flush()
                code, out, err = explain(
                    "--flavor=rt", f"--facts={file.name}", "--json"
                )
            self.assertEqual((1, ""), (code, err))
            (verdict,) = json.loads(out)
            found = [each["code"] for each in verdict["reasons"]]
            self.assertEqual(expected, found)

    def test_a_flavor_that_does_not_exist(self):
        self.compute.find_flavor.return_value = None
        code, _, err = explain("--flavor=rt.smal")
        self.assertEqual(2, code)
        self.assertIn("'rt.smal'", err)

    def test_a_cloud_that_does_not_answer(self):
        self.compute.find_flavor.side_effect = FakeError("refused")
        code, _, err = explain("--flavor=rt.small")
        self.assertEqual(2, code)
        self.assertIn("refused", err)
        self.assertIn("OS_CLOUD", err)

    def test_the_client_is_not_installed(self):
        with mock.patch.dict("sys.modules", {"openstack": None}):
            code, _, err = explain("--flavor=rt.small")
        self.assertEqual(2, code)
        self.assertIn("sriov-rt[client]", err)

    def test_the_compute_hosts(self):
        self.compute.services.return_value = [
            mock.Mock(host=name, state="up", updated_at="2026-11-23T12:00:00")
            for name in ("b", "a")
        ]
        found = cloud.hosts(self.told.append)
        self.assertEqual(["a", "b"], list(found))
        self.assertEqual("up", found["a"].state)
        self.compute.services.assert_called_once_with(binary="nova-compute")
        self.assertEqual([], self.told)

    def test_who_may_not_list_the_hosts_is_told_so(self):
        self.compute.services.side_effect = Forbidden("403")
        self.assertIsNone(cloud.hosts(self.told.append))
        self.assertIn("administrators", self.told[0])


class Agents:
    """Agents that report whenever they are asked."""

    target = oslo_messaging.Target(version=messaging.VERSION)

    def __init__(self, conf: cfg.ConfigOpts, *hosts: facts.HostFacts) -> None:
        self._hosts = hosts
        transport = messaging.transport(conf)
        self._client = oslo_messaging.get_rpc_client(
            transport, messaging.target(messaging.REPORT_TOPIC)
        )
        self._server = oslo_messaging.get_rpc_server(
            transport, messaging.target(messaging.AGENT_TOPIC, "a"), [self]
        )
        self._server.start()

    def report_now(self, context, hosts=None):
        for host in self._hosts:
            self._client.cast(
                {},
                "facts",
                host=host.host,
                node=host.node,
                digest=host.digest(),
                document=json.dumps(host.to_plain()),
            )

    def stop(self) -> None:
        self._server.stop()
        self._server.wait()


class CollectTest(unittest.TestCase):
    """Over oslo.messaging's in-memory driver."""

    URL = "fake:/explain"

    def setUp(self):
        conf = cfg.CONF
        options.register(conf)
        conf([], default_config_files=[])
        self.addCleanup(conf.reset)
        conf.set_override("transport_url", self.URL, group="sriov_rt")
        self.addCleanup(conf.clear_override, "transport_url", group="sriov_rt")
        agents = Agents(conf, builders.realtime_host("rt-1"))
        self.addCleanup(agents.stop)

    def _explain(self, *words: str) -> tuple[int, str, str]:
        return explain(*words, f"--transport-url={self.URL}", "--json")

    def test_two_agents_of_one_name_are_no_silence(self):
        found = [Candidate("rt-1", None, agents="cmp1/1, cmp2/2")]
        with mock.patch.object(collect, "from_args", return_value=found):
            _, out, _ = self._explain(*REALTIME)
        ((host,),) = (json.loads(out),)
        (why,) = host["reasons"]
        self.assertEqual("agents_of_one_name", why["code"])
        self.assertIn("(cmp1/1, cmp2/2); remove [DEFAULT]", why["message"])

    def test_hosts_that_report_are_shown(self):
        with hearing.over_after("rt-1"):
            code, out, err = self._explain(*REALTIME)
        self.assertEqual(0, code)
        self.assertEqual(["rt-1"], [h["host"] for h in json.loads(out)])
        self.assertEqual("", err)

    def test_hosts_of_the_cloud_that_do_not_report_are_shown_too(self):
        specs = {"sriov_rt:kernel": "preempt_rt"}
        with (
            mock.patch.object(
                cloud, "flavor", return_value=cloud.Flavor(specs, 1, 512)
            ),
            mock.patch.object(
                cloud, "hosts", return_value={"rt-1": None, "std-1": None}
            ),
            hearing.over_after("rt-1"),
        ):
            code, out, err = self._explain("--flavor=rt")
        self.assertEqual(0, code)
        passing, silent = json.loads(out)
        self.assertTrue(passing["passes"])
        self.assertEqual("std-1", silent["host"])
        self.assertEqual(
            ["facts_missing"], [r["code"] for r in silent["reasons"]]
        )
        told = silent["reasons"][0]["message"]
        self.assertIn("does not mean that schedulers have no facts", told)
        self.assertIn("with --wait 60", told)
        self.assertEqual("", err)

    def test_it_ends_as_soon_as_all_have_reported(self):
        conf = cfg.CONF
        found = collect.collect(
            ["rt-1"],
            config_files=[],
            transport_url=self.URL,
            wait_s=600,
            report=lambda text: None,
        )
        self.assertEqual(["rt-1"], [each.host for each in found])
        self.assertEqual(conf.sriov_rt.facts_max_age, found[0].max_age_s)
        self.assertLess(found[0].age_s, 60)

    def test_nobody_reports(self):
        code, out, err = explain(
            *REALTIME, "--transport-url=fake:/", "--wait=0"
        )
        self.assertEqual((2, ""), (code, out))
        self.assertIn("no agent reported within 0 s", err)

    def test_a_queue_that_cannot_be(self):
        for url in ("bogus", "bogus:/"):
            with self.subTest(url=url):
                code, _, err = explain(*REALTIME, f"--transport-url={url}")
                self.assertEqual(2, code)
                self.assertIn("--transport-url", err)

    def test_a_configuration_file_that_is_not_there(self):
        code, _, err = explain(*REALTIME, "--config-file=/does/not/exist")
        self.assertEqual(2, code)
        self.assertIn("/does/not/exist", err)

    def test_no_configuration_at_all(self):
        with mock.patch.object(collect, "CONFIG_FILES", ("/not/there",)):
            code, _, err = explain(*REALTIME)
        self.assertEqual(2, code)
        self.assertIn("/not/there", err)


class CollectorTest(unittest.TestCase):
    def test_heartbeats_keep_facts_fresh_and_a_goodbye_ends_them(self):
        collector = collect.Collector(10)
        host = builders.realtime_host("a")
        collector.put("a", host.digest(), host)
        self.assertTrue(collector.confirm("a", host.digest()))
        self.assertFalse(collector.confirm("a", "00" * 32))
        self.assertFalse(collector.confirm("b", host.digest()))
        self.assertEqual({"a"}, collector.names())
        collector.forget("a")
        self.assertEqual(set(), collector.names())

    def test_all_facts_are_kept_where_they_are_to_be_shown(self):
        host = builders.realtime_host("a")
        for whole, reported in ((False, None), (True, host)):
            collector = collect.Collector(10, whole=whole)
            collector.put("a", host.digest(), host)
            (found,) = collector.candidates(["a"], 300.0)
            self.assertEqual(facts.decisive(host), found.facts)
            self.assertEqual(reported, found.reported)
