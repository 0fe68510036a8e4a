# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import pathlib
import re
import socket
import tempfile
import time
import unittest
import urllib.request
from unittest import mock

import yaml

from sriov_rt import exceptions
from sriov_rt.agent import metrics
from sriov_rt.agent import metrics_server
from sriov_rt.agent import vf_series
from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts import HeldVf
from sriov_rt.facts import HostHold
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import LatencyFacts
from sriov_rt.facts import MaintenanceFacts
from sriov_rt.facts import OccupancyFacts
from sriov_rt.facts import Occupant
from sriov_rt.facts import QuarantinedPort
from sriov_rt.facts import VifFacts
from sriov_rt.facts.culprit import Culprit
from sriov_rt.facts.guests import AuditFacts
from sriov_rt.facts.guests import Drift
from sriov_rt.host import port_counts
from sriov_rt.host.root import Root
from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.nic import errors as nic_errors
from sriov_rt.vif import errors as vif_errors
from sriov_rt.vif import vf_counters
from tests.unit import builders
from tests.unit.agent.test_vf_series import VF

ROOT = pathlib.Path(__file__).parents[3]
DRIFT = Drift("a", "guest_thread_moved", "vcpu 0", "x; y", "y", 1.0)
CERTIFICATE = LatencyCertificate(25, "6.1", 2000.0)
_NAME = re.compile(r"\bsriov_rt_[a-z_]+")
EVERY = metrics.HELP.keys()
#: Those that neither a rule nor a panel needs: they name, and do not judge.
NAMING = {
    "sriov_rt_cpu_occupants",
    "sriov_rt_occupied_cpus",
    *vf_series.HELP,
}


def host(**parts):
    facts = builders.realtime_host(latency={"certificate": CERTIFICATE})
    return dataclasses.replace(
        facts, audit=AuditFacts((DRIFT, DRIFT)), **parts
    )


class SamplesTest(unittest.TestCase):
    def test_a_host(self):
        found = {
            (name, *labels.values()): value
            for name, labels, value in metrics.samples(host())
        }
        self.assertEqual(
            2.0, found["sriov_rt_guest_drifts", "guest_thread_moved"]
        )
        self.assertEqual(25e-6, found["sriov_rt_certificate_bound_seconds",])
        self.assertEqual(1.0, found["sriov_rt_audit_known",])

    def test_the_kind_of_the_culprit(self):
        named = Culprit("irq", "eth0:54", 2, 433, 420, "timerlat")
        certificate = dataclasses.replace(
            CERTIFICATE, withdrawn="why", culprit=named
        )
        facts = builders.realtime_host(latency={"certificate": certificate})
        kinds = {
            labels["kind"]: value
            for name, labels, value in metrics.samples(facts)
            if name == "sriov_rt_certificate_culprit"
        }
        self.assertEqual(1.0, kinds.pop("irq"))
        self.assertEqual({0.0}, set(kinds.values()))
        self.assertLess(len(kinds), 8)

    def test_a_hold_and_what_could_not_be_read(self):
        unread = Unknown("why")
        for facts, expected in (
            (
                host(vifs=VifFacts({}, (), (), ())),
                {"certificate_known": 1.0, "records_known": 1.0},
            ),
            (
                host(
                    latency=LatencyFacts(unread),
                    vifs=VifFacts({}, (), unread),
                    maintenance=MaintenanceFacts(HostHold("me", "x", 9.0)),
                ),
                {
                    "certificate_known": 0.0,
                    "records_known": 0.0,
                    "host_hold_timestamp_seconds": 9.0,
                },
            ),
        ):
            found = {
                name.removeprefix("sriov_rt_"): value
                for name, _, value in metrics.samples(facts)
            }
            names = ("certificate_known", "records_known")
            kept = (*names, "host_hold_timestamp_seconds")
            self.assertEqual(
                expected,
                {name: found[name] for name in kept if name in found},
            )

    def test_what_is_unknown_is_left_out(self):
        facts = dataclasses.replace(host(), audit=AuditFacts(Unknown("why")))
        names = [name for name, _, _ in metrics.samples(facts)]
        self.assertNotIn("sriov_rt_guest_drifts", names)

    def test_quarantined_ports_by_parent_and_zero_for_the_others(self):
        port = QuarantinedPort("p1", "a", "enp1s0", None, "it is away")
        pools = {"physnet1": ("enp1s0", "enp2s0")}
        for ports, expected in (
            ((port, port), {"enp1s0": 2.0, "enp2s0": 0.0}),
            (Unknown("why"), {}),
        ):
            vifs = VifFacts(pools, (), ports)
            found = {
                labels["parent"]: value
                for name, labels, value in metrics.samples(host(vifs=vifs))
                if name == "sriov_rt_quarantined_ports"
            }
            self.assertEqual(expected, found)

    def test_held_vfs_by_their_holder_and_state(self):
        held = tuple(
            HeldVf(f"0000:01:10.{number}", "e0", "pod", "pod a/b", state, "")
            for number, state in enumerate(("in use", "in use", "leaving"))
        )
        for given, expected in (
            (held, {"in use": 2.0, "leaving": 1.0}),
            (Unknown("why"), {}),
        ):
            vifs = VifFacts({}, (), (), given)
            found = {
                labels["state"]: value
                for name, labels, value in metrics.samples(host(vifs=vifs))
                if name == "sriov_rt_held_vfs"
            }
            self.assertEqual(expected, found)

    def test_who_is_on_the_cpus_for_guests(self):
        rows = (
            Occupant("thread", "pinned", "pmd-1", CpuSet((2, 3)), "ovs"),
            Occupant("interrupt", "runs", "45 (eth0)", CpuSet((3,))),
            Occupant("kernel_thread", "may", "kswapd0", CpuSet((1,))),
        )
        for occupants, taken in ((rows, 2.0), ((), 0.0), (Unknown("x"), None)):
            facts = host(occupancy=OccupancyFacts(occupants))
            found = {
                (name, *labels.values()): value
                for name, labels, value in metrics.samples(facts)
            }
            self.assertEqual(taken, found.get(("sriov_rt_occupied_cpus",)))
            name = "sriov_rt_cpu_occupants"
            self.assertEqual(
                {"ovs", "", "kswapd0"} if occupants == rows else set(),
                {key[3] for key in found if key[0] == name},
            )

    def test_the_files_name_metrics_that_there_are(self):
        rules = yaml.safe_load(
            (ROOT / "etc/prometheus/sriov-rt.rules.yml").read_text()
        )
        board = json.loads((ROOT / "etc/grafana/sriov-rt.json").read_text())
        text = json.dumps([rules, board]).replace(
            "_seconds_bucket", "_seconds"
        )
        self.assertEqual(set(_NAME.findall(text)) | NAMING, EVERY)

    def test_each_sample_has_its_help(self):
        """Without it a scrape ends in a KeyError, and the agent is down."""
        for module in (metrics, vf_series):
            text = pathlib.Path(module.__file__).read_text()
            named = set(re.findall(r'"(sriov_rt_[a-z_]+)"', text))
            self.assertEqual(set(), named - EVERY)

    def rules(self):
        path = ROOT / "etc/prometheus/sriov-rt.rules.yml"
        rules = yaml.safe_load(path.read_text())["groups"][0]["rules"]
        return {each["alert"]: each for each in rules if "alert" in each}

    def test_a_host_of_all_vfs_that_are_counted_is_within_the_limit(self):
        path = ROOT / "etc/prometheus/sriov-rt.prometheus.yml"
        (job,) = yaml.safe_load(path.read_text())["scrape_configs"]
        of_vfs = vf_counters.MAX_VFS * len(vf_series.HELP)
        self.assertGreater(job["sample_limit"], of_vfs + 1000)

    def test_each_alert_has_a_section_that_its_address_names(self):
        page = (ROOT / "doc/source/admin/alerts.rst").read_text()
        titles = re.findall(r"^(SriovRt\w+)\n=+$", page, re.MULTILINE)
        self.assertEqual(sorted(self.rules()), sorted(titles))
        for name, rule in self.rules().items():
            self.assertEqual(
                "https://docs.openstack.org/sriov-rt/latest/admin/alerts.html"
                f"#{name.lower()}",
                rule["annotations"]["runbook_url"],
            )

    def test_no_alert_mixes_hosts(self):
        for name, rule in self.rules().items():
            for labels in re.findall(r"sum by \((.*?)\)", rule["expr"]):
                self.assertIn("instance", labels, name)

    def test_the_dashboard(self):
        """A text on each panel; PFs of equal names are added up nowhere."""
        board = json.loads((ROOT / "etc/grafana/sriov-rt.json").read_text())
        variables = {each["name"] for each in board["templating"]["list"]}
        self.assertEqual({"datasource", "instance", "parent"}, variables)
        self.assertEqual("sriov-rt", board["uid"])
        for panel in board["panels"]:
            self.assertGreater(len(panel["description"]), 40, panel["title"])
            shown = [each["expr"] for each in panel["targets"]]
            for query in shown:
                self.assertIn('instance=~"$instance"', query)
                if "parent" in query:
                    self.assertRegex(query, r"sum by \(instance, parent\b")
                    self.assertIn('parent=~"$parent"', query)
            if any(each.startswith("sum(") for each in shown):
                self.assertTrue(
                    any(each.startswith("count(") for each in shown),
                    f"{panel['title']} has no total",
                )

    def test_whether_a_host_is_meant_to_be_realtime(self):
        for given, expected in (
            (True, "yes"),
            (False, "no"),
            (Unknown("why"), "unknown"),
        ):
            ready = [
                labels
                for name, labels, _ in metrics.samples(host(intended=given))
                if name == "sriov_rt_host_ready"
            ]
            self.assertEqual([{"intended": expected}], ready)

    def test_every_error_of_a_port_is_a_known_result(self):
        """A counter that is born at 1 raises no alert."""
        errors = {
            name
            for module in (kernel_errors, nic_errors, vif_errors)
            for name, each in vars(module).items()
            if isinstance(each, type)
            and issubclass(each, exceptions.SriovRtError)
            and each.__module__ == module.__name__
        }
        self.assertEqual(sorted(errors), sorted(port_counts.ERRORS))

    def test_what_has_not_happened_is_zero(self):
        with tempfile.TemporaryDirectory() as empty:
            found = {
                tuple(labels.values()): value
                for _, labels, value in metrics.operations(Root(empty))
            }
        self.assertEqual({0.0}, set(found.values()))
        for each in (
            ("plug", "ok"),
            ("plug", "NoParent"),
            ("plug", "VfBusy"),
            ("unplug", "LinkRefused"),
            ("recover", "failed"),
        ):
            self.assertIn(each, found)

    def test_each_is_in_the_documentation(self):
        page = (ROOT / "doc/source/admin/metrics.rst").read_text()
        self.assertEqual(set(_NAME.findall(page)), EVERY)
        plain = " ".join(page.split())
        for each in metrics.HELP.values():
            self.assertIn(each, plain)


def _descriptors() -> int:
    return sum(1 for _ in pathlib.Path("/proc/self/fd").iterdir())


class EndpointTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Root(directory.name)
        counts = self.root.path / port_counts.DIRECTORY
        counts.mkdir(parents=True)
        (counts / "plug.NoParent").write_text("..")

    def test_it_is_served(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        served = metrics.Metrics(
            *("127.0.0.1", port, host, self.root),
            of_agent=lambda: {"sriov_rt_facts_age_seconds": 3.0},
        )
        served.start()
        self.addCleanup(served.stop)
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        self.assertIn("# TYPE sriov_rt_host_ready gauge", text)
        self.assertIn("\nsriov_rt_facts_age_seconds 3.0\n", text)
        self.assertIn("# TYPE sriov_rt_port_operations_total counter", text)
        self.assertIn(
            'sriov_rt_port_operations_total{operation="plug",'
            'result="NoParent"} 2.0',
            text,
        )
        self.assertIn(
            'sriov_rt_guest_drifts{code="guest_thread_moved"} 2.0', text
        )

    def test_vfs_are_counted_and_their_faults_are_their_own(self):
        counted = mock.Mock(return_value=(VF,))
        served = metrics.Metrics("127.0.0.1", 1, host, self.root, counted)
        name = "sriov_rt_vf_receive_bytes"
        found = {each.name: each for each in served.collect()}
        (sample,) = found[name].samples
        self.assertEqual(
            (300.0, "guest-1"), (sample.value, sample.labels["instance_uuid"])
        )
        counted.side_effect = nic_errors.BadState("e0", None, "gone")
        with self.assertLogs("sriov_rt", "WARNING") as logs:
            for _ in range(2):
                found = {each.name: each for each in served.collect()}
        self.assertEqual(1, len(logs.output))
        self.assertNotIn(name, found)
        self.assertIn("sriov_rt_host_ready", found)

    def serve(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        served = metrics.Metrics("127.0.0.1", port, host, self.root)
        served.start()
        self.addCleanup(served.stop)
        return port

    def connect(self, port):
        connection = socket.create_connection(("127.0.0.1", port), 10)
        self.addCleanup(connection.close)
        return connection

    def test_connections_that_send_nothing_take_few_descriptors(self):
        port = self.serve()
        before = _descriptors()
        # More at once would wait for the kernel, which drops their SYN.
        number = 3 * metrics_server.CONNECTIONS
        flood = [self.connect(port) for _ in range(number)]
        # The last ones are closed by the server at once.
        self.assertEqual(b"", flood[-1].recv(1))
        taken = _descriptors() - before - len(flood)
        self.assertLessEqual(taken, metrics_server.CONNECTIONS + 1)

    def test_a_connection_that_sends_little_ends(self):
        began, whole_s = time.monotonic(), metrics_server.WHOLE_S
        with mock.patch.object(metrics_server, "WHOLE_S", 0.2):
            port = self.serve()
            slow = [
                self.connect(port) for _ in range(metrics_server.CONNECTIONS)
            ]
            for each in slow:
                each.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            for each in slow:
                # The answer of one that was cut off, which is none.
                self.assertNotIn(b"200 OK", each.recv(64))
            self.assertLess(time.monotonic() - began, whole_s / 2)
            url = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(url, timeout=10) as answer:
                self.assertEqual(200, answer.status)

    def test_ipv6(self):
        served = metrics_server.Server(("::1", 0), lambda *_: [])
        self.addCleanup(served.stop)
        served.start()
        self.assertEqual(socket.AF_INET6, served.address_family)

    def test_a_port_that_is_taken_is_logged(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            served = metrics.Metrics("127.0.0.1", port, host, self.root)
            with self.assertLogs(metrics.LOG) as logged:
                served.start()
            served.stop()
        self.assertIn("change [metrics]", logged.output[0])
