# SPDX-License-Identifier: Apache-2.0

"""A host that turns out not to satisfy a flavor, and what Nova makes of it."""

import pathlib
import threading
import time
from typing import Any
from unittest import mock

import fixtures
from nova import context
from nova import objects

from sriov_rt.host.root import BOOT_ID
from sriov_rt.host.root import Root
from sriov_rt.labels import store
from sriov_rt.nova import local_host
from sriov_rt.nova import refusals
from sriov_rt.nova import weights
from sriov_rt.parse.cpulist import CpuSet
from tests.functional.nova import base
from tests.functional.nova import test_guest

_PREFIX = "feature.node.kubernetes.io/"
_CERTIFIED = {**base.REALTIME, "sriov_rt:max_latency_us": "20"}


def pinned(host: str) -> set[int]:
    """Return the pCPUs of a host that Nova has claimed."""
    node = objects.ComputeNode.get_by_nodename(
        context.get_admin_context(), host
    )
    topology = objects.NUMATopology.obj_from_db_obj(node.numa_topology)
    return set().union(*(each.pinned_cpus for each in topology.cells))


class UnfitTest(test_guest.GuestTest):
    """rt-1 is the scheduler's first choice."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MockPatchObject(
                weights.RealtimeHostWeigher,
                "weigh_objects",
                lambda self_, hosts, spec: [
                    float(each.obj.host == "rt-1") for each in hosts
                ],
            )
        )

    def degrade(self, name: str = "rt-1") -> Any:
        """Let a host lose its isolation after its agent has reported."""
        host = self.computes[name].driver._sriov_rt_host
        host.found = base.realtime_host(name, cpus={"isolated": CpuSet((2,))})
        return host

    def sentences(self, server: Any, kind: str = refusals.EVENT) -> list[str]:
        """Return what the server's events of a kind have as details."""
        shown = self.api.get_instance_actions(server["id"])
        found = []
        for each in shown:
            action = self.admin_api.api_get(
                f"/servers/{server['id']}/os-instance-actions/"
                f"{each['request_id']}"
            ).body["instanceAction"]
            found += [
                event["details"]
                for event in action["events"]
                if event["event"] == kind
            ]
        return found

    def assert_no_domains(self, name: str) -> None:
        connection = self.computes[name].driver._host.get_connection()
        self.assertEqual([], connection.listAllDomains(0))


class BuildTest(UnfitTest):
    def test_another_host_is_tried(self):
        self.start_host(base.realtime_host("rt-2"))
        self.degrade()
        server = self.boot(base.REALTIME)
        self.assertEqual("rt-2", self.host_of(server))
        self.assert_no_domains("rt-1")
        (sentence,) = self.sentences(server)
        self.assertIn("are not isolated", sentence)

    def test_a_host_that_cannot_be_read_in_time(self):
        self.start_host(base.realtime_host("rt-2"))
        stopped = threading.Event()
        self.addCleanup(stopped.set)
        host = local_host.LocalHost(Root("/nonexistent"))
        self.computes["rt-1"].driver._sriov_rt_host = host
        with (
            mock.patch.object(
                local_host, "_compute", lambda _: stopped.wait()
            ),
            mock.patch.object(local_host, "LIMIT_S", 0.5),
        ):
            server = self.boot({"sriov_rt:kernel": "any"})
            plain = self.boot({})
        self.assertEqual("rt-2", self.host_of(server))
        self.assertEqual("rt-1", self.host_of(plain))
        (sentence,) = self.sentences(server)
        self.assertIn("has not ended within 0.5 s; 'cat /proc/", sentence)

    def test_a_hook_of_this_host_that_cannot_be_loaded(self):
        self.start_host(base.realtime_host("rt-2"))
        driver = self.computes["rt-1"].driver
        problem = test_guest.plugins.HookUnusable("theirs", "no such module")
        with mock.patch.object(
            type(driver), "_sriov_rt_hooks", new_callable=mock.PropertyMock
        ) as hooks:
            hooks.side_effect = [problem, {}]
            server = self.boot(base.REALTIME)
        self.assertEqual("rt-2", self.host_of(server))

    def test_a_fault_of_ours_is_a_refusal_of_this_host(self):
        self.start_host(base.realtime_host("rt-2"))
        host = self.computes["rt-1"].driver._sriov_rt_host
        fault = RuntimeError("a mistake of ours")
        with mock.patch.object(host, "facts", side_effect=fault):
            server = self.boot(base.REALTIME)
        self.assertEqual("rt-2", self.host_of(server))
        (sentence,) = self.sentences(server)
        self.assertIn("RuntimeError: a mistake of ours", sentence)

    def test_the_sentence_outlives_the_last_attempt(self):
        self.degrade()
        server = self.boot(base.REALTIME, state="ERROR")
        self.assertIn("Exhausted all hosts", self.fault(server))
        (sentence,) = self.sentences(server)
        self.assertIn("are not isolated", sentence)
        self.assert_no_domains("rt-1")
        usage = self._get_provider_usages(self.compute_rp_uuids["rt-1"])
        self.assertEqual(0, usage["PCPU"])

    def test_the_last_of_the_attempts_has_it_in_the_fault(self):
        for name in ("rt-2", "rt-3", "rt-4"):
            self.start_host(base.realtime_host(name))
        for name in ("rt-1", "rt-2", "rt-3", "rt-4"):
            self.degrade(name)
        server = self.boot(base.REALTIME, state="ERROR")
        self.assertIn("Last exception: dedicated pCPUs", self.fault(server))

    def test_the_pins_themselves_are_checked_too(self):
        self.flags(unfit_host="warn", group="sriov_rt")
        self.start_host(base.realtime_host("rt-2"))
        self.degrade()
        server = self.boot(base.REALTIME)
        self.assertEqual("rt-2", self.host_of(server))
        (sentence,) = self.sentences(server)
        self.assertIn("realtime vCPUs", sentence)


class ForcedTest(UnfitTest):
    """A host that is named passes no filter."""

    def _boot(self, specs: dict[str, str], state: str) -> Any:
        return self._create_server(
            flavor_id=self.flavor(specs),
            networks="none",
            az="nova:rt-1",
            expected_state=state,
        )

    def test_it_is_refused_with_the_sentence_as_its_fault(self):
        server = self._boot(_CERTIFIED, "ERROR")
        self.assertIn("no latency certificate", self.fault(server))
        self.assertIsNone(self.host_of(server))
        self.assert_no_domains("rt-1")
        self.assertEqual([], self.domains)

    def test_it_is_started_all_the_same_if_the_operator_says_so(self):
        self.flags(unfit_host="warn", group="sriov_rt")
        server = self._boot(_CERTIFIED, "ACTIVE")
        self.assertEqual("rt-1", self.host_of(server))
        self.assertIn("This host does not satisfy flavor", self.logged())

    def _store(self, at: float, **labels: str) -> None:
        """Let the agent of rt-1 have stored what Kubernetes says."""
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        boot_id = root / BOOT_ID
        boot_id.parent.mkdir(parents=True)
        boot_id.write_text("boot-1\n")
        path = root / store.PATH.lstrip("/")
        path.parent.mkdir(parents=True)
        known = {"kubernetes": store.Known(labels, at, None)} if at else {}
        origin = store.Origin("rt-1", "boot-1")
        store.save(path, store.Record(origin, 300.0, known, {}))
        driver = self.computes["rt-1"].driver
        driver._sriov_rt_host = base.LocalHost(base.realtime_host(), root)

    def _select(self, selector: str, state: str) -> Any:
        specs = {**base.REALTIME, "sriov_rt:node_selector": selector}
        return self._boot(specs, state)

    def test_labels_are_judged_as_the_agent_has_stored_them(self):
        self._store(time.time(), **{f"{_PREFIX}rack": "r7"})
        server = self._select("rack=r8", "ERROR")
        self.assertIn("'r7'", self.fault(server))
        self.assertEqual([], self.domains)
        self._select("rack=r7,!gone,pci-8086.present", "ACTIVE")

    def test_labels_that_are_stale_are_none(self):
        self._store(time.time() - 400.0, **{f"{_PREFIX}rack": "r7"})
        server = self._select("rack=r7", "ERROR")
        self.assertIn("kubernetes", self.fault(server))

    def test_a_host_that_follows_no_sources_has_no_other_labels(self):
        self._store(0.0)
        server = self._select("rack=r7", "ERROR")
        self.assertIn("no such label", self.fault(server))

    def test_without_stored_labels_the_kernels_are_judged(self):
        server = self._select("!pci-8086.present,rack", "ERROR")
        self.assertIn("pci-8086.present", self.fault(server))

    def test_without_stored_labels_others_are_left_to_the_filter(self):
        server = self._select("no-such-label,pci-8086.present", "ACTIVE")
        self.assertEqual("rt-1", self.host_of(server))
        self._delete_server(server)
        self._select("no-such-label", "ACTIVE")
        said = self.logged().count("No labels of this host are stored")
        self.assertEqual(1, said)

    def test_an_ordinary_flavor_is_not_judged(self):
        host = self.computes["rt-1"].driver._sriov_rt_host
        with mock.patch.object(host, "facts", side_effect=RuntimeError):
            self._boot({}, "ACTIVE")

    def test_a_rebuild_stays_where_it_is(self):
        server = self.boot(base.REALTIME)
        host = self.computes["rt-1"].driver._sriov_rt_host
        host.found = base.realtime_host(memory={"ksm_run": 1})
        self._rebuild_server(server, "a2459075-d96c-40d5-893e-577ff92e721c")
