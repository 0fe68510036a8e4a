# SPDX-License-Identifier: Apache-2.0

"""The topology manager: policy, scope and class of a pod, as one table."""

import itertools
import unittest

from sriov_rt.pods import pod_request
from sriov_rt.pods import topology
from tests.unit.pods import test_feasible_nodes

VF = "example.com/vf"
NIC = "example.com/nic"


def zone(number, cpu, vf=None, of_cpu=16, of_vf=4, **more):
    """Return a NUMA node with what is free and what it has."""
    resources = {"cpu": (cpu, of_cpu), VF: (vf, of_vf), **more}
    return {
        "name": f"node-{number}",
        "type": "Node",
        "resources": [
            {"name": name, "available": str(free), "capacity": str(total)}
            for name, (free, total) in resources.items()
            if free is not None
        ],
    }


def container(name="c", cpu=None, vf=0, **more):
    limits = {VF: str(vf)} if vf else {}
    if cpu is not None:
        limits |= {"cpu": str(cpu), "memory": "1Gi"}
    return {"name": name, "resources": {"limits": limits}, **more}


#: CPUs are free on one node and VFs on the other.
SPLIT = (zone(0, 12, 0), zone(1, 2, 4))
#: Each node has room for one container of 8 CPUs.
HALVES = (zone(0, 12, 2), zone(1, 12, 2))
SIDECAR = {"restartPolicy": "Always"}


class TopologyTest(unittest.TestCase):
    def why(self, zones, *containers, policy, scope=None, starting=()):
        """Return the part of a pod that is rejected, None if none is."""
        spec = {
            "containers": list(containers),
            "initContainers": list(starting),
        }
        request = pod_request.read({"spec": spec})
        found = topology.why_not(
            test_feasible_nodes.topology(*zones, policy=policy, scope=scope),
            request.parts,
            pod_request.whole(spec),
        )
        return found and (found.part.name or "pod")

    def test_policies_scopes_and_classes(self):
        """By its kubelet a pod passes, or the named part is rejected."""
        whole, fraction = container(cpu=4, vf=1), container(cpu="1500m", vf=1)
        burstable = {**container(vf=2), "name": "c"}
        two = [container("a", 8, 1), container("b", 8, 1)]
        for zones, containers, container_scope, pod_scope in (
            # CPUs of a Guaranteed pod and its VF are on two nodes.
            (SPLIT, [whole], "c", "pod"),
            # Shared CPUs give no hint, in Guaranteed pods as in others.
            (SPLIT, [fraction], None, None),
            # Devices do, in each class: two VFs are not on one node.
            ((zone(0, 8, 1), zone(1, 8, 1)), [burstable], "c", "pod"),
            ((zone(0, 8, 2), zone(1, 8, 1)), [burstable], None, None),
            # Containers in turn, or all of them together.
            (HALVES, two, None, "pod"),
            (HALVES, [*two, container("d", 8, 1)], "d", "pod"),
        ):
            for policy, scope in itertools.product(
                ("none", "best-effort", "restricted", "single-numa-node"),
                (None, "container", "pod"),
            ):
                expected = pod_scope if scope == "pod" else container_scope
                if policy in ("none", "best-effort"):
                    expected = None
                with self.subTest(policy, scope=scope, of=containers):
                    if containers == two and policy == "restricted":
                        # 16 CPUs fit on one idle node, and are not free on it.
                        expected = pod_scope if scope == "pod" else None
                    found = self.why(
                        zones, *containers, policy=policy, scope=scope
                    )
                    self.assertEqual(expected, found)

    def test_restricted_takes_as_few_nodes_as_an_idle_node_would(self):
        large = container(cpu=20, vf=6)
        for policy, expected in (
            ("restricted", None),
            ("single-numa-node", "c"),
        ):
            idle = (zone(0, 16, 4), zone(1, 16, 4))
            self.assertEqual(expected, self.why(idle, large, policy=policy))
        # All that one node has is not more than it has.
        exact = container(cpu=16, vf=4)
        self.assertIsNone(self.why(idle, exact, policy="single-numa-node"))
        # The CPUs need two nodes and the VF one: no set is preferred by both.
        mixed = container(cpu=20, vf=1)
        self.assertEqual("c", self.why(idle, mixed, policy="restricted"))
        # More than there ever is.
        self.assertEqual(
            "c", self.why(idle, container(cpu=40), policy="restricted")
        )

    def test_a_device_without_numa_nodes_gives_no_hint(self):
        zones = (zone(0, 16), zone(1, 16))
        self.assertIsNone(
            self.why(zones, container(cpu=4, vf=1), policy="restricted")
        )

    def test_each_device_by_itself(self):
        zones = (
            zone(0, 16, 4, **{NIC: (0, 1)}),
            zone(1, 16, 0, **{NIC: (1, 1)}),
        )
        both = container(vf=1)
        both["resources"]["limits"][NIC] = "1"
        self.assertEqual("c", self.why(zones, both, policy="single-numa-node"))

    def test_sidecars_keep_what_they_have(self):
        zones = (zone(0, 8, 1), zone(1, 4, 1))
        app = container("app", 6)
        for more, expected in ((SIDECAR, "app"), ({}, None)):
            starting = [container("first", 4, **more)]
            with self.subTest(more):
                found = self.why(
                    zones, app, policy="single-numa-node", starting=starting
                )
                self.assertEqual(expected, found)

    def test_what_an_init_container_had_is_taken_again(self):
        """So the others have to be where it was."""
        first = container("first", 2)
        zones = (zone(0, 4), zone(1, 12))
        self.assertEqual(
            "app",
            self.why(
                zones,
                container("app", 8),
                policy="single-numa-node",
                starting=[first],
            ),
        )
        fits = container("app", 4)
        self.assertIsNone(
            self.why(zones, fits, policy="restricted", starting=[first])
        )

    def test_objects_of_older_releases(self):
        for text, expected in (
            (
                "SingleNUMANodeContainerLevel",
                ("single-numa-node", "container"),
            ),
            ("SingleNUMANodePodLevel", ("single-numa-node", "pod")),
            ("RestrictedContainerLevel", ("restricted", "container")),
            ("RestrictedPodLevel", ("restricted", "pod")),
            ("BestEffortPodLevel", ("best-effort", "pod")),
            ("Restricted", ("restricted", "container")),
            ("None", ("none", "container")),
            ("?", ("none", "container")),
        ):
            with self.subTest(text):
                found = topology.settings({"topologyPolicies": [text]})
                self.assertEqual(expected, found)
        stated = test_feasible_nodes.topology(policy="none", scope="pod")
        stated["topologyPolicies"] = ["SingleNUMANodeContainerLevel"]
        self.assertEqual(("none", "pod"), topology.settings(stated))

    def test_odd_objects(self):
        whole = topology.Part("c", {"cpu": 1})
        for odd in test_feasible_nodes.OddTest.ODD:
            for where in ("attributes", "zones", "topologyPolicies"):
                found = test_feasible_nodes.topology(zone(0, 4))
                topology.why_not({**found, where: odd}, [whole], whole)
