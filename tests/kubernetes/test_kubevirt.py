# SPDX-License-Identifier: Apache-2.0

"""The policies of etc/kubevirt, judged by a real API server."""

import pathlib
import time
import typing
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import yaml
from kubernetes.client import ApiClient
from kubernetes.client import ApiException
from kubernetes.client import AppsV1Api
from kubernetes.client import CoreV1Api
from kubernetes.client import CustomObjectsApi
from kubernetes.utils import create_from_dict

from tests.kubernetes import base
from tests.kubernetes.base import KubernetesTestCase

ETC = pathlib.Path(__file__).parents[2] / "etc/kubevirt"

GUEST = {"sriov-rt.openstack.org/guest": "lean"}
KINDS = {
    "VirtualMachineInstance": "virtualmachineinstances",
    "VirtualMachine": "virtualmachines",
}
_LIMITS = {"limits": {"cpu": "4", "memory": "2Gi"}}

#: Seconds until a policy is in force.
_SETTLE_S = 60.0


def _crd(kind: str, plural: str) -> dict[str, Any]:
    """Return a definition of a kind that takes everything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kubevirt.io"},
        "spec": {
            "group": "kubevirt.io",
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


class KubeVirtTest(KubernetesTestCase):
    client: typing.ClassVar[ApiClient]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.client = cls.kube.admin()
        for kind, plural in (KINDS | {"KubeVirt": "kubevirts"}).items():
            create_from_dict(cls.client, _crd(kind, plural))
        for name in ("realtime", "default", "kubevirt"):
            cls.make_namespace(name)
        for name in (
            "allow-list.yaml",
            "sidecar.yaml",
            "certified-nodes.yaml",
        ):
            cls.apply(name)

    @classmethod
    def make_namespace(cls, name: str) -> None:
        core = CoreV1Api(cls.client)
        if name != "default":
            core.create_namespace({"metadata": {"name": name}})
        core.create_namespaced_service_account(
            name, {"metadata": {"name": "default"}}
        )

    @classmethod
    def apply(cls, name: str) -> None:
        for each in base.objects(ETC / name):
            group, _, version = each["apiVersion"].partition("/")
            kind = each["kind"]
            plural = (
                f"{kind[:-1].lower()}ies"
                if kind.endswith("y")
                else f"{kind.lower()}s"
            )
            CustomObjectsApi(cls.client).create_cluster_custom_object(
                group, version, plural, each
            )

    def setUp(self) -> None:
        super().setUp()
        self.gates("Plugins", "Snapshot")

    def gates(self, *names: str) -> None:
        """Turn feature gates of KubeVirt on, and all others off."""
        api = CustomObjectsApi(self.client)
        place = ("kubevirt.io", "v1", "kubevirt", "kubevirts")
        body = {
            "apiVersion": "kubevirt.io/v1",
            "kind": "KubeVirt",
            "metadata": {"name": "kubevirt"},
            "spec": {
                "configuration": {
                    "developerConfiguration": {"featureGates": names}
                }
            },
        }
        try:
            api.create_namespaced_custom_object(*place, body)
        except ApiException:
            api.patch_namespaced_custom_object(*place, "kubevirt", body)

    def vm(
        self,
        kind: str,
        namespace: str,
        annotations: Mapping[str, str],
        spec: dict[str, Any] | None = None,
    ) -> None:
        spec = spec or {"domain": {}}
        metadata: dict[str, Any] = {"name": f"vm-{time.monotonic_ns()}"}
        if kind == "VirtualMachineInstance":
            metadata["annotations"] = annotations
        else:
            spec = {
                "template": {
                    "metadata": {"annotations": annotations},
                    "spec": spec,
                }
            }
        CustomObjectsApi(self.client).create_namespaced_custom_object(
            "kubevirt.io",
            "v1",
            namespace,
            KINDS[kind],
            {
                "apiVersion": "kubevirt.io/v1",
                "kind": kind,
                "metadata": metadata,
                "spec": spec,
            },
        )

    def refusal(
        self,
        kind: str,
        namespace: str = "default",
        annotations: Mapping[str, str] = GUEST,
        spec: dict[str, Any] | None = None,
    ) -> str:
        """Return why a VM that asks is refused, once the policy counts."""
        end = time.monotonic() + _SETTLE_S
        while time.monotonic() < end:
            try:
                self.vm(kind, namespace, annotations, spec)
            except ApiException as error:
                return str(error.body)
            time.sleep(0.5)
        raise AssertionError("it was not refused")

    def test_who_asks_elsewhere_is_refused_with_a_sentence(self) -> None:
        for kind in KINDS:
            with self.subTest(kind=kind):
                self.assertIn(
                    "sriov-rt is not for namespace default",
                    self.refusal(kind),
                )

    def test_who_asks_nothing_or_may_ask_is_not(self) -> None:
        for kind in KINDS:
            self.refusal(kind)
            self.vm(kind, "default", {"kubevirt.io/x": "y"})
            self.vm(kind, "realtime", GUEST)

    def test_realtime_vcpus_need_certified_nodes(self) -> None:
        label = "feature.node.kubernetes.io/sriov-rt.certified"
        realtime: dict[str, Any] = {"domain": {"cpu": {"realtime": {}}}}
        for kind in KINDS:
            with self.subTest(kind=kind):
                for selector in ({}, {label: "false"}, {"a": "b"}):
                    spec = realtime | {"nodeSelector": selector}
                    self.assertIn(
                        "need a node whose latency is certified",
                        self.refusal(kind, "default", {}, spec),
                    )
                spec = realtime | {"nodeSelector": {label: "true"}}
                self.vm(kind, "default", {}, spec)
                # Who asks for no realtime may be anywhere.
                self.vm(kind, "default", {}, {"domain": {"cpu": {}}})

    def test_with_the_gate_off_who_asks_is_refused_and_no_other(self) -> None:
        self.gates("Snapshot")
        kind = "VirtualMachineInstance"
        self.assertIn("gate Plugins is off", self.refusal(kind, "realtime"))
        self.vm(kind, "realtime", {"kubevirt.io/x": "y"})
        # A VM may be made before the gate is on; its VMI is what starts.
        self.vm("VirtualMachine", "realtime", GUEST)

    def test_a_pod_that_no_hook_would_be_called_for_is_refused(self) -> None:
        """Wherever the KubeVirt is: the pod has no volume of sockets."""
        self.with_sidecar()
        with self.assertRaises(ApiException) as caught:
            self.pod("realtime", GUEST, has_sockets=False)
        self.assertIn("gate Plugins is off", str(caught.exception.body))
        self.pod("realtime", {}, has_sockets=False)

    def test_the_node_hook_is_a_valid_daemon_set(self) -> None:
        self.make_namespace("sriov-rt")
        _, each = yaml.safe_load_all((ETC / "node-hook.yaml").read_text())
        AppsV1Api(self.client).create_namespaced_daemon_set(
            "sriov-rt", each, dry_run="All", field_validation="Strict"
        )

    def pod(
        self,
        namespace: str,
        annotations: Mapping[str, str],
        before: Sequence[str] = (),
        has_sockets: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> Any:
        """Return a virt-launcher pod, as the API server keeps it.

        :param before: names of its own init containers.
        :param has_sockets: whether KubeVirt's feature gate Plugins is on.
        """
        mount = {"name": "kubevirt-plugin-sockets", "mountPath": "/x"}
        return CoreV1Api(self.client).create_namespaced_pod(
            namespace,
            {
                "metadata": {
                    "generateName": "virt-launcher-rt-",
                    "labels": {
                        "kubevirt.io": "virt-launcher",
                        **(labels or {}),
                    },
                    "annotations": annotations,
                },
                "spec": {
                    "initContainers": [
                        {"name": each, "image": "x", "resources": _LIMITS}
                        for each in before
                    ],
                    "containers": [
                        {
                            "name": "compute",
                            "image": "x",
                            "volumeMounts": [mount] if has_sockets else [],
                            "resources": _LIMITS,
                        }
                    ],
                    "volumes": [
                        {"name": "kubevirt-plugin-sockets", "emptyDir": {}}
                    ]
                    if has_sockets
                    else [],
                },
            },
        )

    def with_sidecar(self) -> Any:
        """Return a pod that asks, once the policy counts."""
        end = time.monotonic() + _SETTLE_S
        while time.monotonic() < end:
            found = self.pod("realtime", GUEST)
            if found.spec.init_containers:
                return found
            time.sleep(0.5)
        raise AssertionError("no sidecar was added")

    def test_the_pod_of_who_asks_gets_the_hook_and_stays_guaranteed(
        self,
    ) -> None:
        pod = self.with_sidecar()
        (sidecar,) = pod.spec.init_containers
        self.assertEqual("Always", sidecar.restart_policy)
        (mount,) = [
            each
            for each in sidecar.volume_mounts
            if each.name == "kubevirt-plugin-sockets"
        ]
        self.assertEqual("sriov-rt", mount.sub_path)
        self.assertEqual("Guaranteed", pod.status.qos_class)

    def test_it_comes_after_the_pods_own_init_containers(self) -> None:
        self.with_sidecar()
        pod = self.pod("realtime", GUEST, before=("disk",))
        names = [each.name for each in pod.spec.init_containers]
        self.assertEqual(["disk", "sriov-rt"], names)

    def test_the_pods_of_others_do_not(self) -> None:
        self.with_sidecar()
        for pod in (
            self.pod("realtime", {}),
            self.pod("default", GUEST),
            self.pod(
                "realtime", GUEST, labels={"kubevirt.io": "hotplug-disk"}
            ),
        ):
            self.assertIsNone(pod.spec.init_containers)
