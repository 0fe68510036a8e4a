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


"""A pod is patched once, with what the operator configured."""

import copy
import json
import unittest

import hypothesis
from hypothesis import strategies as st

from sriov_rt.onload import plan
from sriov_rt.onload import pod
from tests.unit.parse.properties import deterministic

ENVIRONMENT = {"LD_PRELOAD": "/o/libonload.so", "EF_POLL_USEC": "9"}

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
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
        # Any namespace: the NIC knows none.
        self.assertEqual({}, term["namespaceSelector"])
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
        for network in ("", "a b", "-x", "x" * 64):
            with self.assertRaises(pod.PodRejected):
                self.patched(network=network)

    def test_documents(self):
        self.assertEqual({}, pod.parse(b"{}"))
        for text in (b"", b"[]", b"[" * 100_000, b"\xff", b" " * 1_600_000):
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
