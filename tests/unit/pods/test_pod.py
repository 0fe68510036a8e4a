# SPDX-License-Identifier: Apache-2.0

"""A pod is patched once, with what the operator configured."""

import copy
import json
import unittest

import hypothesis
from hypothesis import strategies as st

from sriov_rt.onload import plan
from sriov_rt.pods import pod
from tests.unit.parse.properties import deterministic

ENVIRONMENT = {"LD_PRELOAD": "/o/libonload.so", "EF_POLL_USEC": "9"}

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}

#: Names of classes and handlers with a kernel of their own, and of others.
SANDBOXES = (
    "kata",
    "kata-qemu",
    "kata.qemu",
    "kata_fc",
    "kata2",
    "katacontainers",
    "Kata-Containers",
    "aks-kata-mshv",
    "io.containerd.kata.v2",
    "gvisor",
    "io.containerd.runsc.v1",
)
SHARED = (
    "realtime",
    "runc",
    "nvidia",
    "high-performance",
    "kataribe",
    "my-katana",
    "skata",
    "runscape",
)


def runtime_class(name, handler, **more):
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler,
        **more,
    }


class PatchTest(unittest.TestCase):
    def patched(self, given=POD, **more):
        given = copy.deepcopy(given)
        more = {"resource": "amd.com/onload", "network": "fast", **more}
        ops = pod.patch(given, ENVIRONMENT, **more)
        after = pod.apply(given, ops)
        self.assertEqual([], pod.patch(after, ENVIRONMENT, **more))
        return after

    def container(self, **more):
        given = copy.deepcopy(POD)
        given["spec"]["containers"][0].update(more)
        return given

    def test_a_bare_pod(self):
        after = self.patched()
        container = after["spec"]["containers"][0]
        self.assertEqual(
            [
                {"name": "LD_PRELOAD", "value": "/o/libonload.so"},
                {"name": "EF_POLL_USEC", "value": "9"},
            ],
            container["env"],
        )
        self.assertEqual(
            {
                "limits": {"amd.com/onload": "1"},
                "requests": {"amd.com/onload": "1"},
            },
            container["resources"],
        )
        self.assertEqual({pod.LABEL: "fast"}, after["metadata"]["labels"])
        (term,) = after["spec"]["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        self.assertEqual(
            {pod.LABEL: "fast"}, term["labelSelector"]["matchLabels"]
        )
        self.assertEqual("kubernetes.io/hostname", term["topologyKey"])
        # Of the pod's namespace alone, where the network is.
        self.assertEqual({"labelSelector", "topologyKey"}, term.keys())
        self.assertNotIn("volumes", after["spec"])

    def test_what_the_pod_has_stays(self):
        given = self.container(
            env=[{"name": "A", "value": "1"}],
            resources={"limits": {"cpu": "2"}},
        )
        given["metadata"]["labels"] = {"app": "x"}
        given["spec"]["affinity"] = {"nodeAffinity": {"x": 1}}
        after = self.patched(given)
        container = after["spec"]["containers"][0]
        self.assertEqual("A", container["env"][0]["name"])
        self.assertEqual("2", container["resources"]["limits"]["cpu"])
        self.assertEqual("x", after["metadata"]["labels"]["app"])
        self.assertEqual({"x": 1}, after["spec"]["affinity"]["nodeAffinity"])

    def test_onloads_variables_are_the_operators(self):
        after = self.patched(
            self.container(
                env=[
                    {"name": "LD_PRELOAD", "value": "/tmp/evil.so"},
                    {"name": "EF_LD_PRELOAD", "value": "/tmp/evil.so"},
                    {"name": "EF_POLL_USEC", "valueFrom": {}},
                ]
            )
        )
        self.assertNotIn("evil", json.dumps(after))
        self.assertEqual(2, len(after["spec"]["containers"][0]["env"]))

    def test_a_mount_where_no_device_plugin_is(self):
        after = self.patched(mount=plan.Mount("/opt/onload/lib", "/o"))
        (volume,) = after["spec"]["volumes"]
        self.assertEqual("/opt/onload/lib", volume["hostPath"]["path"])
        (view,) = after["spec"]["containers"][0]["volumeMounts"]
        self.assertEqual(
            (volume["name"], "/o", True),
            (view["name"], view["mountPath"], view["readOnly"]),
        )

    def test_a_template(self):
        given = {
            "kind": "Deployment",
            "spec": {"template": {"spec": POD["spec"]}},
        }
        after = self.patched(given)
        template = after["spec"]["template"]
        self.assertEqual({pod.LABEL: "fast"}, template["metadata"]["labels"])
        self.assertIn("env", template["spec"]["containers"][0])

    def test_a_pod_is_attached_to_the_network(self):
        after = self.patched()
        self.assertEqual(
            {pod.MULTUS: "fast"}, after["metadata"]["annotations"]
        )
        for there in (None, {}, {pod.MULTUS: ""}):
            given = copy.deepcopy(POD)
            given["metadata"]["annotations"] = there
            found = self.patched(given)["metadata"]["annotations"]
            self.assertEqual({pod.MULTUS: "fast"}, found)

    def test_an_attachment_that_is_there_already(self):
        for there, wanted, others in (
            ("fast", "fast", ()),
            ("fast@net1", "fast@net1", ()),
            ("mgmt", "mgmt, fast", ("mgmt",)),
            ("a/fast, mgmt@x", "a/fast, mgmt@x, fast", ("a/fast", "mgmt")),
            (
                '[{"name": "mgmt", "ips": ["1.2.3.4"]}]',
                '[{"name": "mgmt", "ips": ["1.2.3.4"]}, {"name": "fast"}]',
                ("mgmt",),
            ),
            ('[{"name": "fast"}]', '[{"name": "fast"}]', ()),
            (
                '[{"name": "fast", "namespace": "a"}]',
                '[{"name": "fast", "namespace": "a"}, {"name": "fast"}]',
                ("a/fast",),
            ),
        ):
            given = copy.deepcopy(POD)
            given["metadata"]["annotations"] = {pod.MULTUS: there, "x": "y"}
            with self.subTest(there):
                self.assertEqual(others, pod.other_networks(given, "fast"))
                found = self.patched(given)["metadata"]["annotations"]
                self.assertEqual({pod.MULTUS: wanted, "x": "y"}, found)

    def test_the_pods_own_namespace_is_the_same_network(self):
        given = copy.deepcopy(POD)
        given["metadata"] |= {
            "namespace": "a",
            "annotations": {pod.MULTUS: "a/fast"},
        }
        self.assertEqual((), pod.other_networks(given, "fast"))
        found = self.patched(given)["metadata"]["annotations"]
        self.assertEqual({pod.MULTUS: "a/fast"}, found)

    def test_attachments_that_cannot_be_read(self):
        for there in (
            1,
            "[",
            "[1]",
            '[{"name": 1}]',
            '{"name": "x"}',
            "a/b/c",
        ):
            given = copy.deepcopy(POD)
            given["metadata"]["annotations"] = {pod.MULTUS: there}
            with self.subTest(there), self.assertRaises(pod.PodRejected):
                self.patched(given)

    def test_metadata_that_is_null(self):
        for null in ({"metadata": None}, {"metadata": {"labels": None}}):
            after = self.patched({**POD, **null})
            self.assertEqual({pod.LABEL: "fast"}, after["metadata"]["labels"])

    def test_the_patch_of_null_metadata_is_valid(self):
        given = {**POD, "metadata": None}
        ops = pod.patch(
            given, ENVIRONMENT, resource="amd.com/onload", network="fast"
        )
        paths = [each["path"] for each in ops]
        self.assertIn("/metadata", paths)
        self.assertNotIn("/metadata/labels", paths)

    def test_a_runtime_class_into_which_nothing_is_preloaded(self):
        for name in SANDBOXES:
            given = self.of_class(name)
            with (
                self.subTest(name),
                self.assertRaises(pod.PodRejected) as caught,
            ):
                self.patched(given)
            self.assertIn(name, str(caught.exception))
        for name in SHARED:
            with self.subTest(name):
                self.patched(self.of_class(name))

    def of_class(self, name, **more):
        spec = {**POD["spec"], "runtimeClassName": name, **more}
        return {**POD, "spec": spec}

    def why_not(self, given, runtime=None):
        with self.assertRaises(pod.PodRejected) as caught:
            self.patched(given, runtime=runtime)
        return str(caught.exception)

    def test_a_handler_into_which_nothing_is_preloaded(self):
        given = self.of_class("isolated")
        for handler in SANDBOXES:
            with self.subTest(handler):
                found = self.why_not(given, runtime_class("isolated", handler))
                self.assertIn(f"handler '{handler}'", found)
        for handler in SHARED:
            with self.subTest(handler):
                self.patched(given, runtime=runtime_class("isolated", handler))

    def test_an_overhead_is_a_sandboxs(self):
        overhead = {"podFixed": {"memory": "120Mi"}}
        with_it = runtime_class("isolated", "vm", overhead=overhead)
        given = self.of_class("isolated")
        self.assertIn("overhead", self.why_not(given, with_it))
        admitted = self.of_class("isolated", overhead={"memory": "120Mi"})
        self.assertIn("overhead", self.why_not(admitted))
        for handler in ("runc", "crun-realtime"):
            known = runtime_class("isolated", handler, overhead=overhead)
            self.patched(admitted, runtime=known)

    def test_a_runtime_class_that_is_not_the_pods(self):
        other = runtime_class("other", "runc")
        found = self.why_not(self.of_class("isolated"), other)
        self.assertIn("'isolated', and the one that is given 'other'", found)
        self.assertIn("'None'", self.why_not(POD, other))
        for given in (POD, {**other, "metadata": None}):
            self.why_not(self.of_class("isolated"), given)

    def test_an_amount_that_the_pod_states(self):
        name = "amd.com/onload"
        for stated in (
            {"limits": {name: 2}},
            {"requests": {name: "2"}},
            {"limits": {name: "2"}, "requests": {name: 2}},
        ):
            found = self.patched(self.container(resources=stated))
            found = found["spec"]["containers"][0]["resources"]
            self.assertEqual(
                ["2", "2"],
                [str(found[each][name]) for each in ("limits", "requests")],
            )
        for stated in (
            {"limits": {name: "2"}, "requests": {name: "1"}},
            {"limits": {name: "0"}},
        ):
            with self.subTest(stated), self.assertRaises(pod.PodRejected):
                self.patched(self.container(resources=stated))

    def test_one_of_many_containers(self):
        given = copy.deepcopy(POD)
        given["spec"]["containers"].append({"name": "d"})
        after = self.patched(given, container="d")
        first, second = after["spec"]["containers"]
        self.assertNotIn("env", first)
        self.assertIn("env", second)
        for name, told in ((None, "(c, d), name one"), ("e", "'e', there")):
            with self.assertRaises(pod.PodRejected) as caught:
                self.patched(given, container=name)
            self.assertIn(told, str(caught.exception))

    def test_what_is_no_pod(self):
        for given in (
            {},
            {"spec": []},
            {"spec": {}},
            {"spec": {"containers": {}}},
            {"spec": {"containers": ["c"]}},
            {"spec": {"template": 1}},
            {"metadata": 1, "spec": POD["spec"]},
            self.container(env="x"),
            self.container(resources=[1]),
            self.container(resources={"limits": 1}),
            {"spec": {**POD["spec"], "affinity": [1]}},
        ):
            with (
                self.subTest(given=given),
                self.assertRaises(pod.PodRejected),
            ):
                self.patched(given)
        for network in ("", "a b", "-x", "x" * 64, "Fast", "a_b"):
            with self.assertRaises(pod.PodRejected):
                self.patched(network=network)

    def test_documents(self):
        self.assertEqual({}, pod.parse(b"{}"))
        deep = b'{"spec": ' * 900 + b"1" + b"}" * 900
        for text in (
            b"",
            b"[]",
            b"[" * 100_000,
            b"\xff",
            b" " * 1_600_000,
            b'{"spec": NaN}',
            b'{"spec": -Infinity}',
            deep,
        ):
            with self.assertRaises(pod.PodRejected):
                pod.parse(text)

    @deterministic
    @hypothesis.given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        (
                            "spec",
                            "template",
                            "metadata",
                            "labels",
                            "env",
                            "containers",
                            "resources",
                            "limits",
                            "affinity",
                            "podAntiAffinity",
                            "name",
                        )
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=20,
        )
    )
    def test_total(self, given):
        try:
            found = pod.parse(json.dumps({"spec": given}).encode())
            ops = pod.patch(found, ENVIRONMENT, resource="a/b", network="fast")
        except pod.PodRejected as error:
            self.assertTrue(error.problem)
            return
        self.assertTrue(ops)
