# SPDX-License-Identifier: Apache-2.0

"""A real API server applies the shipped policies to pods."""

import json
import typing
from typing import Any

from kubernetes.client import ApiException
from kubernetes.client import CoreV1Api
from kubernetes.client import CustomObjectsApi
from kubernetes.client import NodeV1Api

from sriov_rt.pods import pod as pods
from sriov_rt.pods import profiles
from tests.kubernetes import base
from tests.testbed.waiting import wait_for

DOMAIN = "sriov-rt.openstack.org"
MULTUS = "k8s.v1.cni.cncf.io"
VFS = "intel.com/fast"
ENVIRONMENT = {
    "LD_PRELOAD": "/opt/onload/usr/lib64/libonload.so",
    "EF_POLL_USEC": "100000",
    "EF_NAME": "a=b",
}
REQUESTS = {
    f"{DOMAIN}/onload-profile": "latency",
    f"{DOMAIN}/onload-network": "fast",
}


class PoliciesTest(base.KubernetesTestCase):
    """Nothing runs a pod here: the API server is what is tested."""

    core: typing.ClassVar[CoreV1Api]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.core = CoreV1Api(cls.kube.admin())
        cls.kube.apply(base.network_definitions())
        cls.core.create_namespace({"metadata": {"name": "sriov-rt"}})
        cls.kube.apply(
            profiles.config_map({"latency": ENVIRONMENT}, "amd.com/onload")
        )
        for name in ("pod-policies/policies.yaml", "onload-pods/policy.yaml"):
            cls.kube.apply(*base.objects(base.ADDONS / name))
        # What the controller manager would have made.
        account = {"metadata": {"name": "default"}}
        cls.core.create_namespaced_service_account("default", account)
        cls.networks = CustomObjectsApi(cls.kube.admin())
        wait_for("the policies are in force", cls._in_force, timeout=60)

    networks: typing.ClassVar[CustomObjectsApi]

    @classmethod
    def _in_force(cls) -> bool:
        """Return whether both kinds of policy change what is created.

        API servers learn of policies by watching them.
        """
        try:
            found = cls.create(cls.pod(annotations=REQUESTS))
        except ApiException:
            return False
        if pods.LABEL not in found["metadata"].get("labels", {}):
            return False
        try:
            cls.create(
                cls.pod(annotations={**REQUESTS, **cls.of_profile("other")})
            )
        except ApiException as error:
            return bool(error.status == 422)
        return False

    @staticmethod
    def of_profile(name: str) -> dict[str, str]:
        return {f"{DOMAIN}/onload-profile": name}

    @staticmethod
    def pod(
        annotations: Any = None, limits: Any = None, **spec: Any
    ) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x", "annotations": annotations or {}},
            "spec": {
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {"limits": limits or {}},
                    }
                ],
                **spec,
            },
        }

    @classmethod
    def create(cls, given: Any, dry_run: str | None = "All") -> Any:
        """Return a pod as the API server would create it."""
        answer = cls.core.create_namespaced_pod(
            "default", given, dry_run=dry_run, _preload_content=False
        )
        return json.loads(answer.data)

    def refused(self, given: Any) -> str:
        with self.assertRaises(ApiException) as caught:
            self.create(given)
        self.assertEqual(422, caught.exception.status, caught.exception)
        return str(json.loads(caught.exception.body)["message"])

    def test_a_pod_that_requests_a_profile_is_as_pod_patch_makes_it(
        self,
    ) -> None:
        given = self.pod(
            annotations={**REQUESTS, f"{MULTUS}/networks": "plain"}
        )
        given["spec"]["containers"][0]["env"] = [
            {"name": "A", "value": "1"},
            {"name": "LD_PRELOAD", "value": "/tmp/evil.so"},
            {"name": "EF_EVIL", "value": "1"},
        ]
        found = self.create(given)
        ours = pods.apply(
            given,
            pods.patch(
                given,
                ENVIRONMENT,
                resource="amd.com/onload",
                network="fast",
            ),
        )
        (container,) = found["spec"]["containers"]
        (expected,) = ours["spec"]["containers"]
        self.assertEqual(expected["env"], container["env"])
        self.assertEqual(expected["resources"], container["resources"])
        for each in ("labels", "annotations"):
            self.assertEqual(ours["metadata"][each], found["metadata"][each])
        self.assertEqual(ours["spec"]["affinity"], found["spec"]["affinity"])
        # What it has made of a pod, it takes for finished.
        again = self.create(
            {
                **found,
                "metadata": {
                    **given["metadata"],
                    "labels": found["metadata"]["labels"],
                    "annotations": found["metadata"]["annotations"],
                },
            }
        )
        self.assertEqual(found["spec"], again["spec"])

    def test_the_container_that_is_named_gets_it_and_no_other(self) -> None:
        given = self.pod(annotations=REQUESTS)
        given["spec"]["containers"].append({"name": "sidecar", "image": "i"})
        self.assertIn("more than one container", self.refused(given))
        annotations = given["metadata"]["annotations"]
        given["metadata"]["annotations"] = {
            **annotations,
            f"{DOMAIN}/onload-container": "none",
        }
        self.assertIn("names no container", self.refused(given))
        given["metadata"]["annotations"] = {
            **annotations,
            f"{DOMAIN}/onload-container": "sidecar",
        }
        first, second = self.create(given)["spec"]["containers"]
        self.assertNotIn("env", first)
        self.assertEqual(
            ENVIRONMENT,
            {each["name"]: each["value"] for each in second["env"]},
        )

    def test_networks_in_json_get_one_more(self) -> None:
        for text in ('[{"name": "plain"}]', "[]", ""):
            with self.subTest(text):
                found = self.create(
                    self.pod({**REQUESTS, f"{MULTUS}/networks": text})
                )
                self.assertIn("fast", pods.attached(found))

    def test_a_profile_that_the_operator_does_not_allow(self) -> None:
        said = self.refused(self.pod({**REQUESTS, **self.of_profile("fast")}))
        self.assertIn("profile 'fast' is not allowed", said)

    def test_kata_and_onload_refuse_each_other(self) -> None:
        classes = NodeV1Api(self.kube.admin())
        for name, handler in (("kata-rt", "kata-rt"), ("isolated", "runsc")):
            classes.create_runtime_class(
                {"metadata": {"name": name}, "handler": handler}
            )
            self.addCleanup(classes.delete_runtime_class, name)

        def handler_is_known() -> bool:
            try:
                self.create(self.pod(REQUESTS, runtimeClassName="isolated"))
            except ApiException as error:
                return "of handler" in str(error.body)
            return False

        wait_for("the class is known", handler_is_known, timeout=30)
        for name in ("kata-rt", "isolated"):
            said = self.refused(self.pod(REQUESTS, runtimeClassName=name))
            self.assertIn("have a kernel of their own", said)
            # For who requests neither it is as it was.
            self.create(self.pod(runtimeClassName=name))
        with self.assertRaises(ApiException) as caught:
            self.create(self.pod(runtimeClassName="absent"))
        said = json.loads(caught.exception.body)["message"]
        self.assertIn('RuntimeClass "absent" not found', said)

    def test_accelerated_pods_cannot_be_put_on_one_node(self) -> None:
        bare = self.pod(limits={"amd.com/onload": "1"})
        self.assertIn("without saying for which network", self.refused(bare))
        bare["metadata"]["labels"] = {pods.LABEL: "fast"}
        self.assertIn("do not reach each other", self.refused(bare))

    def test_every_kind_of_container_can_request_onload(self) -> None:
        for resource in pods.RESOURCES:
            for policy in (None, "Always"):
                more = {"restartPolicy": policy} if policy else {}
                of_init: dict[str, Any] = {
                    "name": "init",
                    "image": "i",
                    "resources": {"limits": {resource: "1"}},
                    **more,
                }
                given = self.pod(initContainers=[of_init])
                self.assertIn(
                    "without saying for which network", self.refused(given)
                )
                of_init["resources"]["limits"] = {"cpu": "1"}
                self.create(given)

    def test_an_anti_affinity_that_keeps_nobody_apart(self) -> None:
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        selector = {"matchLabels": {pods.LABEL: "fast"}}
        wrong: dict[str, Any] = {
            "namespaceSelector": {"matchLabels": {"of": "nobody"}},
            "namespaces": ["other"],
            "matchLabelKeys": ["pod-template-hash"],
            "mismatchLabelKeys": ["pod-template-hash"],
            "topologyKey": "rack",
            "labelSelector": {
                **selector,
                "matchExpressions": [{"key": "x", "operator": "Exists"}],
            },
        }
        good: tuple[dict[str, Any], ...] = (
            {},
            {"namespaceSelector": {}},
            {"namespaces": ["other", "default"]},
        )

        def given(term: dict[str, Any]) -> dict[str, Any]:
            term = {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": selector,
                **term,
            }
            found = self.pod(
                limits={"amd.com/onload": "1"},
                affinity={"podAntiAffinity": {key: [term]}},
            )
            found["metadata"]["labels"] = {
                pods.LABEL: "fast",
                "pod-template-hash": "x",
            }
            return found

        for name, value in wrong.items():
            with self.subTest(name):
                said = self.refused(given({name: value}))
                self.assertIn("do not reach each other", said)
                # Who requests a profile gets one that does beside it.
                asks = given({name: value})
                asks["metadata"]["annotations"] = REQUESTS
                terms = self.create(asks)["spec"]["affinity"]
                self.assertEqual(2, len(terms["podAntiAffinity"][key]))
        for each in good:
            with self.subTest(each):
                asks = given(each)
                self.create(asks)
                asks["metadata"]["annotations"] = REQUESTS
                terms = self.create(asks)["spec"]["affinity"]
                self.assertEqual(1, len(terms["podAntiAffinity"][key]))

    def test_a_network_is_that_of_its_namespace(self) -> None:
        """Pods of another's network of that name are no obstacle."""
        affinity = self.create(self.pod(REQUESTS))["spec"]["affinity"]
        (term,) = affinity["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        self.assertNotIn("namespaceSelector", term)
        self.assertNotIn("namespaces", term)
        for text, count in (
            ('[{"name": "fast", "namespace": "other"}]', 1),
            ("other/fast", 1),
            ('[{"name": "fast", "namespace": "default"}]', 0),
            ('[{"NAME": "fast", "cni-args": {"name": "x"}}]', 0),
            ('[{"name": "x", "cni-args": {"name": "fast"}}]', 1),
            ("default/fast", 0),
        ):
            with self.subTest(text):
                found = self.create(
                    self.pod({**REQUESTS, f"{MULTUS}/networks": text})
                )
                added = found["metadata"]["annotations"][f"{MULTUS}/networks"]
                self.assertEqual(count, len(added) > len(text))

    def test_accelerated_pods_need_the_scheduler(self) -> None:
        said = self.refused(self.pod(REQUESTS, nodeName="n"))
        self.assertIn("goes past the scheduler", said)

    def test_the_label_that_keeps_them_apart_stays(self) -> None:
        self.create(self.pod(REQUESTS), dry_run=None)
        self.addCleanup(
            self.core.delete_namespaced_pod,
            "x",
            "default",
            grace_period_seconds=0,
        )
        for value in (None, "other"):
            with self.assertRaises(ApiException) as caught:
                self.core.patch_namespaced_pod(
                    "x",
                    "default",
                    {"metadata": {"labels": {pods.LABEL: value}}},
                )
            self.assertIn("cannot be changed", caught.exception.body)
        self.core.patch_namespaced_pod(
            "x", "default", {"metadata": {"labels": {"app": "x"}}}
        )

    def network(self, name: str, config: Any, **annotations: str) -> None:
        if not isinstance(config, str):
            config = json.dumps(config)
        self.networks.create_namespaced_custom_object(
            "k8s.cni.cncf.io",
            "v1",
            "default",
            "network-attachment-definitions",
            {
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"config": config},
            },
        )

    def test_what_a_definition_hides_in_json(self) -> None:
        """The configuration is read as Go's encoding/json reads it."""
        config = {"cniVersion": "1.0.0", "plugins": [{"type": "sriov-rt-vf"}]}
        of_vfs = {f"{MULTUS}/resourceName": VFS}
        text = json.dumps(config)
        for hidden in (
            text.replace("sriov-rt-vf", "sriov\\u002drt-vf"),
            text.replace("sriov-rt-vf", "\\u0073riov-rt-\\u0076f"),
            text.replace("sriov-rt-vf", "sri\\u006Fv-rt-vf"),
        ):
            with (
                self.subTest(hidden),
                self.assertRaises(ApiException) as caught,
            ):
                self.network("vfs", hidden)
            self.assertIn("name their resource", caught.exception.body)
        for key in (
            *(
                "device\\u0049D",
                "DEVICEID",
                "\\u0044\\u0045viceId",
                "deviceid",
            ),
            *("pciBusID", "pciBu\u017fID", "pciBu\\u017FID", "PCI\\u0062usid"),
        ):
            hidden = f'{{"{key}": "01:10.1", {text[1:]}'
            with self.subTest(key), self.assertRaises(ApiException) as caught:
                self.network("vfs", hidden, **of_vfs)
            self.assertIn("names a VF itself", caught.exception.body)
        # Other plug-ins are none of ours, whatever their configuration.
        self.network("plain", '{"type": "host\\u002ddevice", "deviceID": "x"}')

    def check_lists(self) -> None:
        """Multus's own reading of the annotation decides."""
        for text, why in (
            ('[{"name": "v\\u0066s"}]', "JSON escapes"),
            ('[{"n\\u0061me": "vfs"}]', "JSON escapes"),
            ('[{"name": "vfs", "x": {"y": {"z": {}}}}]', "nested too deep"),
        ):
            said = self.refused(self.pod({f"{MULTUS}/networks": text}))
            self.assertIn(why, said)
        for text in (
            '[{"name": "vfs", "namespace": "other"}]',
            '[{"name": "x", "cni-args": {"name": "vfs"}}]',
            '[{"name": "x", "cni-args": {"y": {"z": {"<": "\\u003c"}}}}]',
            "other/vfs, xvfs, vfsx",
        ):
            self.create(self.pod({f"{MULTUS}/networks": text}))

    def check_containers_that_start_before(self) -> None:
        """A sidecar keeps its VF; an init container that ends does not."""
        for policy in ("Always", None):
            of_init = {
                "name": "init",
                "image": "i",
                "resources": {"limits": {VFS: "1"}},
                **({"restartPolicy": policy} if policy else {}),
            }
            given = self.pod(
                {f"{MULTUS}/networks": "vfs"}, initContainers=[of_init]
            )
            if policy:
                self.create(given)
            else:
                self.assertIn(f"VFs of {VFS}", self.refused(given))

    def test_vfs_networks_and_classes_have_to_agree(self) -> None:
        plugins = [{"type": "sriov-rt-vf"}, {"type": "sriov"}]
        config = {"cniVersion": "1.0.0", "name": "vfs", "plugins": plugins}
        with self.assertRaises(ApiException) as caught:
            self.network("vfs", config)
        self.assertIn("name their resource", caught.exception.body)
        of_vfs = {f"{MULTUS}/resourceName": VFS}
        with self.assertRaises(ApiException) as caught:
            self.network("vfs", {**config, "deviceID": "01:10.1"}, **of_vfs)
        self.assertIn("names a VF itself", caught.exception.body)
        self.network(
            "vfs", config, **of_vfs, **{f"{DOMAIN}/kata-classes": "kata-rt"}
        )
        classes = NodeV1Api(self.kube.admin())
        for name in ("kata-rt", "kata-qemu"):
            classes.create_runtime_class(
                {"metadata": {"name": name}, "handler": name}
            )
            self.addCleanup(classes.delete_runtime_class, name)

        def definition_is_known() -> bool:
            try:
                self.create(self.pod({f"{MULTUS}/networks": "vfs"}))
            except ApiException as error:
                return bool(error.status == 422)
            return False

        wait_for("the network is known", definition_is_known, timeout=30)
        for text, count in (
            ("vfs", 0),
            ("vfs, default/vfs@net2", 1),
            ('[{"name": "vfs"}, {"name":"vfs"}]', 1),
            ('[{"name": "vfs", "namespace": "default"}]', 0),
            ('[{"name": "vfs", "namespace": null}]', 0),
            ('[{"Name": "vfs", "cni-args": {"namespace": "x"}}]', 0),
            ('[{"name": "x", "namespace": "x"}, {"name": "vfs"}]', 0),
        ):
            limits = {VFS: str(count)} if count else {}
            said = self.refused(self.pod({f"{MULTUS}/networks": text}, limits))
            self.assertIn(f"VFs of {VFS}", said)
        one = ({f"{MULTUS}/networks": "vfs"}, {VFS: "1"})
        self.create(self.pod(*one))
        self.create(self.pod({f"{MULTUS}/networks": "other"}))
        self.check_lists()
        self.check_containers_that_start_before()

        def class_is_known() -> bool:
            try:
                self.create(self.pod(runtimeClassName="kata-qemu"))
            except ApiException:
                return False
            return True

        wait_for("the class is known", class_is_known, timeout=30)
        said = self.refused(self.pod(*one, runtimeClassName="kata-qemu"))
        self.assertIn("cold_plug_vfio", said)
        self.create(self.pod(*one, runtimeClassName="kata-rt"))

    def test_pods_that_request_nothing_are_left_alone(self) -> None:
        given = self.pod()
        given["metadata"].pop("annotations")
        found = self.create(given)
        self.assertNotIn("affinity", found["spec"])
        self.assertNotIn("labels", found["metadata"])
        self.core.delete_namespaced_config_map(
            "sriov-rt-onload-profiles", "sriov-rt"
        )
        self.addCleanup(
            self.kube.apply,
            profiles.config_map({"latency": ENVIRONMENT}, "amd.com/onload"),
        )

        def unknown() -> bool:
            try:
                self.create(self.pod(REQUESTS))
            except ApiException as error:
                return "is not allowed" in str(error.body)
            return False

        wait_for("the profiles are gone", unknown, timeout=30)
        self.create(self.pod())
