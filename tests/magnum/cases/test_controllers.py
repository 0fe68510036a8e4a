# SPDX-License-Identifier: Apache-2.0

"""Nodegroups and add-ons as Cluster API's own controllers take them.

The OpenStack provider and the control plane are played: their objects become
ready, and that is all. A second API server is the cluster that was built.
"""

import base64
import os
import pathlib
import time

import yaml
from magnum_capi_helm import kubernetes
from magnum_capi_helm.common import ca_certificates
from test_real import BOOTSTRAP
from test_real import CAPI
from test_real import CONTROL_PLANE
from test_real import INFRASTRUCTURE
from test_real import REALTIME
from test_real import RealCase

#: Seconds that the controllers may take, on a machine that is busy.
PATIENCE_S = 240

NETWORKS = "/apis/k8s.cni.cncf.io/v1"


class ControllersTest(RealCase):
    def setUp(self):
        super().setUp()
        self._override(
            "addon_carrier", "cluster_resource_set", "sriov_rt_magnum"
        )
        self.kubeconfig = pathlib.Path(
            os.environ["SRIOV_RT_TEST_WORKLOAD"]
        ).read_text()
        authority = pathlib.Path(os.environ["SRIOV_RT_TEST_AUTHORITY"])
        # By its hash a node knows the API server that it joins.
        self._patch(
            ca_certificates,
            "get_certificate_string_data",
            lambda *_, **__: {
                "ca": {"tls.crt": authority.read_text(), "tls.key": "none"}
            },
        )
        self.workload = kubernetes.Client(yaml.safe_load(self.kubeconfig))

    def test_a_nodegroups_user_data_and_its_clusters_add_ons(self):
        self.create(**REALTIME)
        self.assertIsNone(self.failure)
        self._play()
        texts = self._eventually(self._user_data)
        for text in texts:
            self._check_user_data(text)
        self._eventually(self._has_addons)
        # What the machines are of is what the OpenStack provider would boot.
        machines = self.objects(f"{INFRASTRUCTURE}/openstackmachines")
        self.assertEqual(2, len(machines))
        for each in machines.values():
            self.assertEqual("rt.large", each["spec"]["flavor"])
            self.assertEqual("direct", each["spec"]["ports"][1]["vnicType"])

    def _clean(self):
        """Leave all to the end of the API server; finalizers take long."""

    def _play(self):
        """Let infrastructure and control plane be ready."""
        self.client.apply_secret(
            f"{self.release}-kubeconfig",
            {
                "metadata": {
                    "labels": {"cluster.x-k8s.io/cluster-name": self.release}
                },
                "type": "cluster.x-k8s.io/secret",
                "stringData": {"value": self.kubeconfig},
            },
            self.namespace,
        )
        endpoint = {"host": "192.0.2.1", "port": 6443}
        place = f"{INFRASTRUCTURE}/openstackclusters"
        self._merge(
            place, self.release, {"spec": {"controlPlaneEndpoint": endpoint}}
        )
        self._status(place, self.release, ready=True)
        self._status(
            f"{CONTROL_PLANE}/kubeadmcontrolplanes",
            f"{self.release}-control-plane",
            initialized=True,
            ready=True,
            version="v1.34.4",
            replicas=1,
            updatedReplicas=1,
            readyReplicas=1,
        )

    def _eventually(self, probe):
        deadline = time.monotonic() + PATIENCE_S
        while not (found := probe()):
            self.assertLess(time.monotonic(), deadline, self._story())
            time.sleep(1)
        return found

    def _story(self):
        """Return how far the controllers have come."""
        return yaml.safe_dump(
            {
                place: {
                    name: each.get("status")
                    for name, each in self.objects(place).items()
                }
                for place in (
                    f"{CAPI}/clusters",
                    f"{CAPI}/machinedeployments",
                    f"{CAPI}/machines",
                    f"{BOOTSTRAP}/kubeadmconfigs",
                    "/apis/addons.cluster.x-k8s.io/v1beta1/"
                    "clusterresourcesets",
                )
            }
        )

    def _user_data(self):
        """Return the user data of each node; empty until all have some."""
        secrets = self.objects("/api/v1/secrets")
        names = [
            each.get("status", {}).get("dataSecretName")
            for each in self.objects(f"{BOOTSTRAP}/kubeadmconfigs").values()
        ]
        if len(names) != 2 or None in names:
            return []
        return [
            base64.b64decode(secrets[name]["data"]["value"]).decode()
            for name in names
        ]

    def _check_user_data(self, text):
        self.assertTrue(text.startswith("## template: jinja\n#cloud-config"))
        found = yaml.safe_load(text)
        files = {each["path"]: each for each in found["write_files"]}
        for name in ("kernel-parameters", "pod-networks"):
            path = f"/usr/local/sbin/sriov-rt-{name}"
            self.assertEqual("0755", files[path]["permissions"])
        compile(
            files["/usr/local/sbin/sriov-rt-pod-networks"]["content"],
            "pod-networks",
            "exec",
        )
        commands = found["runcmd"]
        (join,) = (
            index
            for index, each in enumerate(commands)
            if "kubeadm join" in str(each)
        )
        self.assertEqual(
            [
                f"/usr/local/sbin/sriov-rt-{each} || exit 1"
                for each in (
                    "kernel-parameters",
                    "container-runtimes",
                    "pod-networks",
                )
            ],
            sorted(commands[:join], key=_order),
        )
        (kubeadm,) = (
            each["content"]
            for path, each in files.items()
            if path.endswith("kubeadm-join-config.yaml")
        )
        registration = yaml.safe_load(kubeadm)["nodeRegistration"]
        self.assertEqual(
            "static",
            _argument(registration, "cpu-manager-policy"),
        )
        self.assertEqual("0-1", _argument(registration, "reserved-cpus"))
        self.assertIn(
            "sriov-rt.openstack.org/realtime=true",
            _argument(registration, "node-labels"),
        )

    def _has_addons(self):
        """Return whether the cluster has what its nodegroups need."""
        for path in (
            "/apis/apps/v1/namespaces/kube-system/daemonsets/multus",
            "/apis/apps/v1/namespaces/kube-system/daemonsets/"
            "sriov-device-plugin",
            f"{NETWORKS}/namespaces/default/"
            "network-attachment-definitions/fast0-vf",
        ):
            if self.workload.get(path).status_code != 200:
                return False
        return True


def _order(command):
    """Put the commands of ours in the order in which they are named."""
    names = ("kernel", "container", "pod")
    return [name in command for name in reversed(names)]


def _argument(registration, name):
    """Return an argument of the kubelet, a map or a list to kubeadm."""
    found = registration["kubeletExtraArgs"]
    if isinstance(found, dict):
        return found[name]
    return next(each["value"] for each in found if each["name"] == name)
