# SPDX-License-Identifier: Apache-2.0

"""Which nodes take a pod: each Reason, and what comes near it and is none.

What kube-scheduler judges is no Reason here: a Node without room, with a taint
or cordoned passes.
"""

import json
import unittest

from sriov_rt.kubernetes import errors
from sriov_rt.pods import cluster as clusters
from sriov_rt.pods import feasible_nodes
from sriov_rt.pods import pod as pods
from sriov_rt.pods import pod_request
from sriov_rt.pods import sentences

NFD = "feature.node.kubernetes.io"
CARD = f"{NFD}/pci-1924.present"
MULTUS = "k8s.v1.cni.cncf.io"
VFS = "intel.com/fast"
NOW = 1790000000.0


def node(name="n1", labels=None, taints=None, **allocatable):
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "spec": {"taints": taints or []},
        "status": {
            "allocatable": {
                "cpu": "4",
                "memory": "8Gi",
                "pods": "110",
                **allocatable,
            },
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name="p", limits=None, annotations=None, labels=None, **spec):
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": annotations or {},
            "labels": labels or {},
        },
        "spec": {
            "containers": [
                {"name": "c", "resources": {"limits": limits or {}}}
            ],
            **spec,
        },
    }


def running(given, on="n1"):
    return {**given, "spec": {**given["spec"], "nodeName": on}}


def network(name="fast", **annotations):
    return {
        "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": annotations,
        },
    }


def runtime_class(name, handler, **more):
    return {
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler,
        **more,
    }


def zone(number, **available):
    return {
        "name": f"node-{number}",
        "type": "Node",
        "resources": [
            {"name": key, "available": value}
            for key, value in available.items()
        ],
    }


def topology(*zones, policy="single-numa-node", scope=None, name="n1"):
    attributes = {
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
    }
    return {
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": key, "value": value}
            for key, value in attributes.items()
            if value is not None
        ],
        "zones": list(zones),
    }


def judged(given, *objects):
    found = clusters.of_objects([{"kind": "List", "items": list(objects)}])
    known = feasible_nodes.find_class(given, found)
    return feasible_nodes.judge(pod_request.read(given, known), found, NOW)


class PlacementTest(unittest.TestCase):
    def codes(self, given, *objects):
        found = {
            each.node: [reason.code for reason in each.reasons]
            for each in judged(given, *objects)
        }
        return found["n1"]

    def notes(self, given, *objects):
        (found,) = judged(given, *objects)
        self.assertEqual((), found.reasons)
        return [each.code for each in found.notes]

    def test_a_pod_that_needs_nothing_goes_anywhere(self):
        found = judged(pod(), node("b"), node("a"))
        self.assertEqual(["a", "b"], [each.node for each in found])
        self.assertTrue(all(each.passes for each in found))

    def test_labels(self):
        given = pod(nodeSelector={CARD: "true"})
        self.assertEqual([], self.codes(given, node(labels={CARD: "true"})))
        self.assertEqual(
            ["pod_label_differs"],
            self.codes(given, node(labels={CARD: "false"})),
        )
        others = {f"{NFD}/system-os_release.ID": "debian"}
        self.assertEqual(
            ["pod_label_missing"], self.codes(given, node(labels=others))
        )
        # Missing is not absent: NFD itself has gone.
        self.assertEqual(["pod_labels_lost"], self.codes(given, node()))

    def test_affinity_has_to_hold_in_one_of_its_terms(self):
        def given(*terms):
            key = "requiredDuringSchedulingIgnoredDuringExecution"
            found = {key: {"nodeSelectorTerms": list(terms)}}
            return pod(affinity={"nodeAffinity": found})

        def term(*expressions):
            return {
                "matchExpressions": [
                    dict(zip(("key", "operator", "values"), each, strict=True))
                    for each in expressions
                ]
            }

        there = node(labels={"a": "1", "b": "9"})
        for expression, holds in (
            (("a", "In", ["1", "2"]), True),
            (("a", "In", ["2"]), False),
            (("a", "NotIn", ["2"]), True),
            (("c", "NotIn", ["2"]), True),
            (("a", "Exists", []), True),
            (("c", "Exists", []), False),
            (("c", "DoesNotExist", []), True),
            (("b", "Gt", ["5"]), True),
            (("b", "Lt", ["5"]), False),
            (("b", "Gt", ["x"]), False),
            (("c", "Gt", ["5"]), False),
            (("a", "Nonsense", ["1"]), False),
        ):
            with self.subTest(expression):
                found = self.codes(given(term(expression)), there)
                self.assertEqual(holds, not found, found)
        missing = term(("c", "Exists", []))
        self.assertEqual(
            [], self.codes(given(missing, term(("a", "Exists", []))), there)
        )
        # An empty term matches nothing, and no terms ask for nothing.
        self.assertEqual([], self.codes(given(), there))
        self.assertEqual(["pod_term_empty"], self.codes(given({}), there))
        self.assertEqual(
            ["pod_term_empty"],
            self.codes(given({"matchExpressions": []}), there),
        )
        self.assertEqual(
            [], self.codes(given({}, term(("a", "Exists", []))), there)
        )
        self.assertEqual(
            ["pod_label_missing"], self.codes(given({}, missing), there)
        )
        for own, expected in (("n1", []), ("n2", ["pod_of_another_node"])):
            name = {"key": "metadata.name", "operator": "In", "values": [own]}
            self.assertEqual(
                expected, self.codes(given({"matchFields": [name]}), there)
            )

    def test_rules_of_the_scheduler_are_left_to_it(self):
        there = node(taints=[{"key": "rt", "effect": "NoSchedule"}], pods="0")
        there["spec"]["unschedulable"] = True
        there["status"]["conditions"][0]["status"] = "False"
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        term = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
        given = pod(
            limits={"cpu": "64"},
            nodeName="n2",
            affinity={"podAntiAffinity": {key: [term]}},
        )
        other = running(pod("other"))
        self.assertEqual([], self.codes(given, there, other))

    def test_vfs_of_its_networks_have_to_be_on_the_node(self):
        given = pod(
            limits={VFS: "1", "example.com/other": "1"},
            annotations={f"{MULTUS}/networks": "fast"},
        )
        vfs = network(**{f"{MULTUS}/resourceName": VFS})
        self.assertEqual(
            ["pod_resource_missing"], self.codes(given, node(), vfs)
        )
        self.assertEqual([], self.codes(given, node(**{VFS: "1"}), vfs))

    def test_onloads_devices_have_to_be_on_the_node(self):
        for resource in ("amd.com/onload", "solarflare.com/sfc"):
            given = pod(limits={resource: "1"})
            for there, expected in (
                ({}, ["pod_resource_missing"]),
                ({resource: "0"}, ["pod_resource_missing"]),
                ({resource: "8"}, []),
                # The name in the operator's ConfigMap is not in a file.
                ({"solarflare.com/sfc": "8"}, []),
            ):
                with self.subTest(resource, there=there):
                    self.assertEqual(
                        expected, self.codes(given, node(**there))
                    )

    def test_networks_of_one_resource_share_its_vfs(self):
        given = pod(
            limits={VFS: "1"}, annotations={f"{MULTUS}/networks": "fast, slow"}
        )
        both = [
            network(name, **{f"{MULTUS}/resourceName": VFS})
            for name in ("fast", "slow")
        ]
        there = node(**{VFS: "8"})
        self.assertEqual(
            ["pod_vf_not_requested"] * 2, self.codes(given, there, *both)
        )
        given["spec"]["containers"][0]["resources"]["limits"] = {VFS: "2"}
        self.assertEqual([], self.codes(given, there, *both))
        self.assertEqual(
            ["pod_resource_missing"], self.codes(given, node(), *both)
        )

    def test_vfs_of_claims_are_the_schedulers(self):
        """Asking for resources.limits would ask for a second VF."""
        given = pod(
            annotations={f"{MULTUS}/networks": "fast"},
            resourceClaims=[{"name": "vf"}],
        )
        vfs = network(**{f"{MULTUS}/resourceName": VFS})
        for each in (vfs, network()):
            self.assertEqual(["pod_claims"], self.notes(given, node(), each))

    def test_a_network_that_selects_nodes_is_a_note(self):
        """Where network-resources-injector runs the pod selects them."""
        selecting = network(**{f"{MULTUS}/nodeSelector": "fast-net = true"})
        given = pod(annotations={f"{MULTUS}/networks": "fast"})
        self.assertEqual(
            ["pod_network_elsewhere"], self.notes(given, node(), selecting)
        )
        there = node(labels={"fast-net": "true"})
        self.assertEqual([], self.notes(given, there, selecting))
        given["spec"]["nodeSelector"] = {"fast-net": "true"}
        self.assertEqual(
            ["pod_label_missing"], self.codes(given, node(), selecting)
        )

    def test_accelerated_pods_of_one_network_keep_apart(self):
        one = pod("one", labels={pods.LABEL: "fast"})
        other = running(pod("other", labels={pods.LABEL: "fast"}))
        self.assertEqual(["pod_spread"], self.codes(one, node(), other))
        slow = running(pod("slow", labels={pods.LABEL: "slow"}))
        self.assertEqual([], self.codes(one, node(), slow))
        self.assertEqual(
            [], self.codes(one, node(), node("n2"), running(other, on="n2"))
        )
        done = {**other, "status": {"phase": "Succeeded"}}
        self.assertEqual([], self.codes(one, node(), done))
        # The pod that is judged is not in its own way.
        self.assertEqual([], self.codes(one, node(), running(one)))

    def test_a_pod_of_a_file_is_judged_as_the_policy_admits_it(self):
        """By its annotations alone the second pod would seem to fit."""
        annotations = {pods.PROFILE: "latency", pods.NETWORK: "fast"}
        given = pod_request.admitted(pod("new", annotations=annotations))
        there = node(**{"amd.com/onload": "8"})
        other = running(pod("other", labels={pods.LABEL: "fast"}))
        self.assertEqual(
            ["pod_spread"], self.codes(given, there, other, network())
        )
        # What it attaches is what it has to find.
        self.assertEqual(["pod_network_missing"], self.codes(given, there))
        for left in (
            pod(),
            pod(annotations={pods.PROFILE: "latency"}),
            pod(annotations={**annotations, pods.CONTAINER: "none"}),
        ):
            self.assertIs(left, pod_request.admitted(left))
        template = {"kind": "Deployment", "spec": {"template": pod()}}
        template["spec"]["template"]["metadata"]["annotations"] = annotations
        found = pod_request.read(pod_request.admitted(template))
        self.assertEqual("fast", found.onload_network)

    def test_networks_have_to_exist_and_their_vfs_to_be_requested(self):
        given = pod(annotations={f"{MULTUS}/networks": "fast, fast"})
        self.assertEqual(["pod_network_missing"], self.codes(given, node()))
        plain = network()
        self.assertEqual([], self.codes(given, node(), plain))
        vfs = network(**{f"{MULTUS}/resourceName": VFS})
        there = node(**{VFS: "8"})
        self.assertEqual(
            ["pod_vf_not_requested"], self.codes(given, there, vfs)
        )
        resources = given["spec"]["containers"][0]["resources"]
        resources["limits"] = {VFS: "1"}
        self.assertEqual(
            ["pod_vf_not_requested"], self.codes(given, there, vfs)
        )
        # More than its networks attach are its own affair.
        for number in ("2", "3"):
            resources["limits"] = {VFS: number}
            self.assertEqual([], self.codes(given, there, vfs))

    def test_networks_in_the_form_of_json(self):
        attached = {
            "name": "fast",
            "ips": ["192.0.2.7/24"],
            "default-route": ["192.0.2.1"],
        }
        text = json.dumps([attached])
        given = pod(
            limits={VFS: "1"}, annotations={f"{MULTUS}/networks": text}
        )
        vfs = network(**{f"{MULTUS}/resourceName": VFS})
        self.assertEqual([], self.codes(given, node(**{VFS: "1"}), vfs))
        given["spec"]["containers"][0]["resources"] = {}
        self.assertEqual(
            ["pod_vf_not_requested"],
            self.codes(given, node(**{VFS: "1"}), vfs),
        )

    def test_runtime_classes(self):
        given = pod(
            runtimeClassName="kata-rt", limits={"hugepages-2Mi": "2Gi"}
        )
        self.assertEqual(["pod_class_missing"], self.codes(given, node()))
        known = runtime_class("kata-rt", "kata-rt")
        self.assertEqual([], self.codes(given, node(), known))
        there = node()
        there["status"]["runtimeHandlers"] = [{"name": ""}, {"name": "runc"}]
        self.assertEqual(
            ["pod_handler_missing"], self.codes(given, there, known)
        )
        there["status"]["runtimeHandlers"].append({"name": "kata-rt"})
        self.assertEqual([], self.codes(given, there, known))
        selecting = runtime_class(
            "kata-rt",
            "kata-rt",
            scheduling={"nodeSelector": {"kata": "true"}},
        )
        self.assertEqual(
            ["pod_label_missing"], self.codes(given, there, selecting)
        )

    def test_sandboxes_in_huge_pages_have_to_request_them(self):
        known = runtime_class("kata-rt", "kata-rt")
        given = pod(runtimeClassName="kata-rt", limits={"memory": "1Gi"})
        self.assertEqual(
            ["pod_class_without_pages"], self.codes(given, node(), known)
        )
        other = runtime_class("kata-rt", "kata-qemu")
        self.assertEqual([], self.codes(given, node(), other))

    def test_kata_and_onload_refuse_each_other(self):
        known = runtime_class("isolated", "kata-qemu")
        given = pod(
            runtimeClassName="isolated",
            annotations={pods.PROFILE: "latency"},
        )
        self.assertEqual(
            ["pod_class_without_onload"], self.codes(given, node(), known)
        )
        given["metadata"]["annotations"] = {}
        self.assertEqual([], self.codes(given, node(), known))

    def test_a_kata_class_has_to_have_a_port_for_vfs(self):
        given = pod(
            limits={VFS: "1"},
            annotations={f"{MULTUS}/networks": "fast"},
            runtimeClassName="kata-qemu",
        )
        known = runtime_class("kata-qemu", "kata-qemu")
        there, of_vfs = node(**{VFS: "1"}), {f"{MULTUS}/resourceName": VFS}
        self.assertEqual(
            ["pod_class_without_vf"],
            self.codes(given, there, known, network(**of_vfs)),
        )
        named = {feasible_nodes.KATA_CLASSES: "kata-rt, kata-qemu"}
        self.assertEqual(
            [],
            self.codes(given, there, known, network(**of_vfs, **named)),
        )

    def test_vf_and_exclusive_cpus_have_to_be_of_one_numa_node(self):
        limits = {"cpu": "2", "memory": "1Gi", VFS: "1"}
        given = pod(limits=limits)
        there = node(labels={feasible_nodes.ISOLATED: "4"}, **{VFS: "2"})
        split = zone(0, cpu="4", **{VFS: "0"}), zone(1, cpu="0", **{VFS: "2"})
        self.assertEqual(
            ["pod_numa_split"], self.codes(given, there, topology(*split))
        )
        (found,) = judged(given, there, topology(*split))
        for each in ("2 cpu, 1 intel.com/fast", "container c", "scope conta"):
            self.assertIn(each, found.reasons[0].message)
        whole = zone(0, cpu="4", **{VFS: "1"})
        self.assertEqual([], self.notes(given, there, topology(whole)))
        # Another policy takes what it gets, and so do shared CPUs.
        self.assertEqual(
            [],
            self.notes(given, there, topology(*split, policy="best-effort")),
        )
        shared = pod(limits={**limits, "cpu": "1500m"})
        self.assertEqual([], self.notes(shared, there, topology(*split)))
        self.assertEqual(["pod_numa_unknown"], self.notes(given, there))

    def test_exclusive_cpus_that_are_not_known_to_be_isolated(self):
        given = pod(limits={"cpu": "2", "memory": "1Gi"})
        for text, noted in (("4", 0), ("2", 0), ("1", 1), ("x", 1)):
            with self.subTest(text):
                labels = {feasible_nodes.ISOLATED: text}
                found = self.notes(given, node(labels=labels))
                self.assertEqual(noted, len(found))
        self.assertEqual(["pod_cpus_not_isolated"], self.notes(given, node()))
        self.assertEqual([], self.notes(pod(limits={"cpu": "2"}), node()))

    def test_cpus_that_a_nodegroup_of_magnum_has_isolated(self):
        given = pod(limits={"cpu": "2", "memory": "1Gi"})
        for text, noted in (("2", 0), ("1", 1)):
            labels = {feasible_nodes.REALTIME_CPUS: text}
            with self.subTest(text):
                found = self.notes(given, node(labels=labels))
                self.assertEqual(noted, len(found))
        # Figures of the agent come first.
        labels = {
            feasible_nodes.ISOLATED: "1",
            feasible_nodes.REALTIME_CPUS: "2",
        }
        self.assertEqual(
            ["pod_cpus_not_isolated"], self.notes(given, node(labels=labels))
        )

    def test_the_age_of_labels_is_of_those_that_the_pod_needs(self):
        there = node(labels={CARD: "true", f"{NFD}/x": "1"})
        there["metadata"]["managedFields"] = [
            {
                "manager": "nfd-master",
                "time": "2026-09-21T14:13:00Z",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{CARD}": {}}}},
            },
            {
                "manager": "other",
                "time": "2026-09-21T14:13:19Z",
                "fieldsV1": {"f:metadata": {"f:labels": {f"f:{NFD}/x": {}}}},
            },
            {"manager": "odd", "time": "x", "fieldsV1": 1},
        ]
        (found,) = judged(pod(nodeSelector={CARD: "true"}), there)
        self.assertEqual(20, found.label_age_s)
        (found,) = judged(pod(), there)
        self.assertIsNone(found.label_age_s)

    def test_every_sentence_says_what_to_do(self):
        for code, sentence in sentences.SENTENCES.items():
            with self.subTest(code):
                self.assertIn("; ", sentence)


class RequestsTest(unittest.TestCase):
    def test_init_containers_and_sidecars_as_the_scheduler_counts_them(self):
        def container(cpu, **more):
            return {"resources": {"requests": {"cpu": cpu}}, **more}

        for containers, starting, expected in (
            (["1", "2"], [], 3),
            (["1"], [container("3")], 3),
            (["1"], [container("1", restartPolicy="Always")], 2),
            (
                ["1"],
                [container("2", restartPolicy="Always"), container("3")],
                5,
            ),
            (
                ["4"],
                [container("3"), container("1", restartPolicy="Always")],
                5,
            ),
        ):
            spec = {
                "containers": [container(each) for each in containers],
                "initContainers": starting,
            }
            self.assertEqual(
                {"cpu": expected}, dict(pod_request.requests(spec))
            )


class OddTest(unittest.TestCase):
    """What an API server or a file has may be anything."""

    ODD = (None, 0, True, "x", [], [1], {}, {"a": None}, [[]], {"spec": []})

    def test_any_node_and_any_pod_of_a_cluster(self):
        for odd in self.ODD:
            for where in ("metadata", "spec", "status"):
                with self.subTest(odd=odd, where=where):
                    there = {**node(), where: odd}
                    other = {**running(pod("other")), where: odd}
                    judged(pod(), there, other)
        for odd in self.ODD:
            judged(pod(), node(), {"kind": "Pod", "spec": odd}, odd)

    def test_any_pod_is_judged_or_refused(self):
        for key in (
            "affinity",
            "tolerations",
            "nodeSelector",
            "overhead",
            "runtimeClassName",
            "initContainers",
            "nodeName",
        ):
            for odd in self.ODD:
                with self.subTest(key, odd=odd):
                    judged(pod(**{key: odd}), node())
        for odd in self.ODD:
            with self.assertRaises(pods.PodRejected):
                judged({"spec": {"containers": odd}}, node())

    def test_thousand_nodes_and_quantities_out_of_bounds(self):
        for text in ("9" * 50, "-1", "1e99", "0x1", "1 ", "", "१"):
            with self.subTest(text):
                judged(pod(limits={"cpu": text}), node(cpu=text))
        many = [node(f"n{number}") for number in range(1000)]
        self.assertEqual(1000, len(judged(pod(), *many)))


class ReadTest(unittest.TestCase):
    def test_pages_are_put_together_and_kinds_not_served_are_empty(self):
        def get(path, **query):
            if "topology" in path:
                return None
            if query.get("continue"):
                return {"items": [node("second")]}
            return {
                "items": [node("first")],
                "metadata": {"continue": "more"},
            }

        found = clusters.read(get)
        self.assertEqual(
            ["first", "second"],
            [each["metadata"]["name"] for each in found.nodes],
        )
        self.assertEqual((), found.topologies)

    def test_nonsense_and_lists_without_end_are_errors(self):
        for answer in (
            [],
            "x",
            {"items": 1},
            {"items": [], "metadata": {"continue": "again"}},
        ):
            with self.subTest(answer), self.assertRaises(errors.Garbled):
                clusters.read(lambda path, answer=answer, **query: answer)

    def test_a_placement_is_json(self):
        found = judged(pod(nodeSelector={CARD: "true"}), node())
        json.dumps([each.to_plain() for each in found])


class SaidTest(unittest.TestCase):
    """What is quoted of a pod that exists."""

    def said(self, **status):
        return feasible_nodes.said({**pod(), "status": status})

    def test_the_schedulers_own_condition(self):
        message = "0/3 nodes are available: 3 Insufficient cpu."
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        found = self.said(phase="Pending", conditions=[condition])
        self.assertEqual(f"kube-scheduler: {message}", found)
        gated = {**condition, "reason": "SchedulingGated", "message": ""}
        self.assertIn("SchedulingGated", self.said(conditions=[gated]))

    def test_the_kubelets_rejection(self):
        found = self.said(
            phase="Failed",
            reason="TopologyAffinityError",
            message="Resources cannot be allocated",
        )
        self.assertEqual(
            "kubelet: TopologyAffinityError: Resources cannot be allocated",
            found,
        )

    def test_a_pod_that_nobody_has_anything_against(self):
        placed = {"type": "PodScheduled", "status": "True"}
        self.assertIsNone(self.said(phase="Running", conditions=[placed]))
        self.assertIsNone(self.said())
        for odd in OddTest.ODD:
            feasible_nodes.said({"status": odd})
            feasible_nodes.said(
                {"status": {"conditions": odd, "message": odd}}
            )
