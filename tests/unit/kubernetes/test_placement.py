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

"""Which nodes take a pod: each Reason, and what comes near it and is none."""

import json
import unittest

from sriov_rt.kubernetes import cluster as clusters
from sriov_rt.kubernetes import errors
from sriov_rt.kubernetes import placement
from sriov_rt.kubernetes import pod as pods
from sriov_rt.kubernetes import pod_request
from sriov_rt.kubernetes import sentences

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


def topology(*zones, policy="single-numa-node", name="n1"):
    return {
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": "topologyManagerPolicy", "value": policy}],
        "zones": list(zones),
    }


def spread(network):
    """Return what pod-patch adds, so that pods keep apart."""
    term = {
        "labelSelector": {"matchLabels": {pods.LABEL: network}},
        "topologyKey": "kubernetes.io/hostname",
    }
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"podAntiAffinity": {key: [term]}}


def judged(given, *objects):
    found = clusters.of_objects([{"kind": "List", "items": list(objects)}])
    known = placement.find_class(given, found)
    return placement.judge(pod_request.read(given, known), found, NOW)


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

    def test_taints(self):
        taint = {"key": "rt", "value": "yes", "effect": "NoSchedule"}
        there = node(taints=[taint])
        self.assertEqual(["pod_taint"], self.codes(pod(), there))
        for toleration, holds in (
            ({"operator": "Exists"}, True),
            ({"key": "rt", "operator": "Exists"}, True),
            ({"key": "rt", "value": "yes"}, True),
            ({"key": "rt", "value": "no"}, False),
            ({"key": "rt", "value": "yes", "effect": "NoExecute"}, False),
            ({"key": "other", "operator": "Exists"}, False),
            ({}, False),
        ):
            with self.subTest(toleration):
                found = self.codes(pod(tolerations=[toleration]), there)
                self.assertEqual(holds, not found)
        soft = {**taint, "effect": "PreferNoSchedule"}
        self.assertEqual([], self.codes(pod(), node(taints=[soft])))

    def test_a_node_that_takes_nothing(self):
        there = node()
        there["spec"]["unschedulable"] = True
        self.assertEqual(["pod_node_cordoned"], self.codes(pod(), there))
        there = node()
        there["status"]["conditions"][0].update(
            status="False", message="runtime is down"
        )
        self.assertEqual(["pod_node_not_ready"], self.codes(pod(), there))
        self.assertEqual(
            ["pod_other_node"], self.codes(pod(nodeName="n2"), node())
        )
        # Of one that has never reported, the taint alone says so.
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        there = node(taints=[taint])
        self.assertEqual(["pod_taint"], self.codes(pod(), there))
        there["status"]["conditions"][0]["status"] = "False"
        self.assertEqual(["pod_node_not_ready"], self.codes(pod(), there))

    def test_resources(self):
        given = pod(limits={VFS: "2", "cpu": "500m"})
        self.assertEqual(["pod_resource_missing"], self.codes(given, node()))
        there = node(**{VFS: "3"})
        self.assertEqual([], self.codes(given, there))
        other = running(pod("other", limits={VFS: "2"}))
        self.assertEqual(
            ["pod_resource_taken"], self.codes(given, there, other)
        )
        done = {**other, "status": {"phase": "Succeeded"}}
        self.assertEqual([], self.codes(given, there, done))
        elsewhere = running(pod("other", limits={VFS: "2"}), on="n2")
        self.assertEqual([], self.codes(given, there, elsewhere))
        # The pod that is judged is not in its own way.
        self.assertEqual([], self.codes(given, there, running(given)))

    def test_pods_of_a_node_are_counted(self):
        self.assertEqual(
            ["pod_too_many"],
            self.codes(pod(), node(pods="1"), running(pod("other"))),
        )

    def test_an_overhead_is_counted(self):
        given = pod(limits={"cpu": "4"}, runtimeClassName="kata-rt")
        overhead = {"podFixed": {"cpu": "250m", "memory": "320Mi"}}
        known = runtime_class("kata-rt", "kata-rt", overhead=overhead)
        self.assertEqual(
            ["pod_resource_taken"], self.codes(given, node(), known)
        )
        self.assertEqual([], self.codes(given, node(cpu="5"), known))

    def test_accelerated_pods_of_one_network_keep_apart(self):
        one = pod(
            "one",
            labels={pods.LABEL: "fast"},
            affinity=spread("fast"),
        )
        other = running(pod("other", labels={pods.LABEL: "fast"}))
        self.assertEqual(["pod_spread"], self.codes(one, node(), other))
        # It is the other's affinity as well: the scheduler looks at both.
        plain = pod(labels={pods.LABEL: "fast"})
        self.assertEqual(
            ["pod_spread"], self.codes(plain, node(), running(one))
        )
        slow = running(pod("slow", labels={pods.LABEL: "slow"}))
        self.assertEqual([], self.codes(one, node(), slow))
        self.assertEqual(
            [], self.codes(one, node(), node("n2"), running(other, on="n2"))
        )

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
        given["spec"]["containers"][0]["resources"]["limits"] = {VFS: "2"}
        self.assertEqual([], self.codes(given, there, vfs))

    def test_runtime_classes(self):
        given = pod(runtimeClassName="kata-rt")
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
        named = {placement.KATA_CLASSES: "kata-rt, kata-qemu"}
        self.assertEqual(
            [],
            self.codes(given, there, known, network(**of_vfs, **named)),
        )

    def test_vf_and_exclusive_cpus_have_to_be_of_one_numa_node(self):
        limits = {"cpu": "2", "memory": "1Gi", VFS: "1"}
        given = pod(limits=limits)
        there = node(labels={placement.ISOLATED: "4"}, **{VFS: "2"})
        split = zone(0, cpu="4"), zone(1, **{VFS: "2"})
        self.assertEqual(
            ["pod_numa_split"], self.codes(given, there, topology(*split))
        )
        (found,) = judged(given, there, topology(*split))
        self.assertIn("2 cpu, 1 intel.com/fast", found.reasons[0].message)
        whole = zone(0, cpu="4", **{VFS: "1"})
        self.assertEqual([], self.notes(given, there, topology(whole)))
        # Another policy takes what it gets; without exclusive CPUs it is no
        # matter.
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
                labels = {placement.ISOLATED: text}
                found = self.notes(given, node(labels=labels))
                self.assertEqual(noted, len(found))
        self.assertEqual(["pod_cpus_not_isolated"], self.notes(given, node()))
        self.assertEqual([], self.notes(pod(limits={"cpu": "2"}), node()))

    def test_cpus_that_a_nodegroup_of_magnum_has_isolated(self):
        given = pod(limits={"cpu": "2", "memory": "1Gi"})
        for text, noted in (("2", 0), ("1", 1)):
            labels = {placement.REALTIME_CPUS: text}
            with self.subTest(text):
                found = self.notes(given, node(labels=labels))
                self.assertEqual(noted, len(found))
        # Figures of the agent come first.
        labels = {placement.ISOLATED: "1", placement.REALTIME_CPUS: "2"}
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
