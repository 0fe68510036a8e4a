# SPDX-License-Identifier: Apache-2.0

"""Clusters through Magnum's conductor, Helm and a management cluster."""

import os
import pathlib
import signal
import stat
import threading
import time

import conductor
import fixtures
from magnum.objects import fields
from magnum_capi_helm import driver_utils
from magnum_capi_helm import kubernetes

from sriov_rt.magnum import helm

Status = fields.ClusterStatus

NOW = "2026-01-01T00:00:00Z"

CAPI = "/apis/cluster.x-k8s.io/v1beta1"
BOOTSTRAP = "/apis/bootstrap.cluster.x-k8s.io/v1beta1"
CONTROL_PLANE = "/apis/controlplane.cluster.x-k8s.io/v1beta1"
INFRASTRUCTURE = "/apis/infrastructure.cluster.x-k8s.io/v1beta1"
ADDONS = "/apis/addons.stackhpc.com/v1alpha1"
RESOURCE_SETS = "/apis/addons.cluster.x-k8s.io/v1beta1"

#: Where something of a cluster can be.
PLACES = (
    f"{CAPI}/clusters",
    f"{CAPI}/machinedeployments",
    f"{BOOTSTRAP}/kubeadmconfigtemplates",
    f"{CONTROL_PLANE}/kubeadmcontrolplanes",
    f"{INFRASTRUCTURE}/openstackclusters",
    f"{INFRASTRUCTURE}/openstackmachinetemplates",
    f"{ADDONS}/manifests",
    f"{RESOURCE_SETS}/clusterresourcesets",
    "/api/v1/secrets",
)

REALTIME = {
    "flavor": "rt.large",
    "labels": {
        "sriov_rt_networks": "fast0",
        "sriov_rt_pod_vif": "vf",
        "sriov_rt_pod_subnets": "172.20.0.0/16",
        "sriov_rt_huge_pages": "1G:2",
        "sriov_rt_runtimes": "kata-rt",
    },
}


class RealCase(conductor.ConductorCase):
    REAL_HTTP = True

    def setUp(self):
        super().setUp()
        self._override(
            "kubeconfig_file",
            os.environ["SRIOV_RT_TEST_KUBECONFIG"],
            "capi_helm",
        )
        self._override("helm_chart_repo", "", "capi_helm")
        self._override(
            "helm_chart_name", os.environ["SRIOV_RT_TEST_CHART"], "capi_helm"
        )
        home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.pid = home / "pid"
        self.slow = home / "slow"
        program = home / "helm"
        # Known by its pid, as long as it upgrades.
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = upgrade ] && echo $$ >{self.pid}\n'
            f'exec {os.environ["SRIOV_RT_TEST_HELM"]} "$@"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        path = f"{home}{os.pathsep}{os.environ['PATH']}"
        self.useFixture(fixtures.EnvironmentVariable("PATH", path))
        self.client = kubernetes.Client.load()
        self.addCleanup(self._clean)

    def _clean(self):
        if self.failure or self.left():
            self.delete()

    @property
    def release(self):
        return driver_utils.chart_release_name(self.cluster())

    @property
    def namespace(self):
        return driver_utils.cluster_namespace(self.cluster())

    def objects(self, place):
        """Return the objects of a kind, by name."""
        group, plural = place.rsplit("/", 1)
        found = self.client.get(
            f"{group}/namespaces/{self.namespace}/{plural}"
        )
        found.raise_for_status()
        return {
            each["metadata"]["name"]: each for each in found.json()["items"]
        }

    def left(self):
        """Return what there is of the cluster, kind and name."""
        return {
            (place.rsplit("/", 1)[1], name)
            for place in PLACES
            for name in self.objects(place)
        }

    def spec(self, group, place=INFRASTRUCTURE):
        """Return the spec of a nodegroup's machines, or of their bootstrap."""
        deployment = self.objects(f"{CAPI}/machinedeployments")[
            f"{self.release}-{group}"
        ]
        machine = deployment["spec"]["template"]["spec"]
        if place == INFRASTRUCTURE:
            name = machine["infrastructureRef"]["name"]
            found = self.objects(f"{place}/openstackmachinetemplates")
        else:
            name = machine["bootstrap"]["configRef"]["name"]
            found = self.objects(f"{place}/kubeadmconfigtemplates")
        return found[name]["spec"]["template"]["spec"]

    def counts(self):
        """Return the number of machines of each nodegroup."""
        found = self.objects(f"{CAPI}/machinedeployments")
        return {
            name.removeprefix(f"{self.release}-"): each["spec"]["replicas"]
            for name, each in found.items()
        }

    def settle(self):
        """Play the controllers until everything is ready."""
        settings = conductor.CONF.capi_helm
        ready = [
            {"type": each, "status": "True", "lastTransitionTime": NOW}
            for each in ("InfrastructureReady", "ControlPlaneReady", "Ready")
        ]
        healthy = [
            {"type": each, "status": "True", "lastTransitionTime": NOW}
            for each in settings.k8s_control_plane_resource_conditions
        ]
        endpoint = {"host": "192.0.2.1", "port": 6443}
        cluster = f"{CAPI}/clusters"
        self._merge(
            cluster, self.release, {"spec": {"controlPlaneEndpoint": endpoint}}
        )
        self._status(cluster, self.release, conditions=ready)
        self._status(
            f"{CONTROL_PLANE}/kubeadmcontrolplanes",
            f"{self.release}-control-plane",
            conditions=healthy,
            replicas=1,
            updatedReplicas=1,
            readyReplicas=1,
        )
        deployments = f"{CAPI}/machinedeployments"
        for name in self.objects(deployments):
            self._status(deployments, name, phase="Running")
        manifests = f"{ADDONS}/manifests"
        label = {"addons.stackhpc.com/cluster": self.release}
        for name in self.objects(manifests):
            self._merge(manifests, name, {"metadata": {"labels": label}})
            self._status(manifests, name, phase="Deployed")
        self.poll()

    def _status(self, place, name, **status):
        self._merge(place, name, {"status": status}, "/status")

    def _merge(self, place, name, body, part=""):
        group, plural = place.rsplit("/", 1)
        found = self.client.patch(
            f"{group}/namespaces/{self.namespace}/{plural}/{name}{part}",
            json=body,
            headers={"Content-Type": "application/merge-patch+json"},
        )
        self.assertLess(found.status_code, 300, found.text)


class LifeTest(RealCase):
    def test_a_realtime_cluster_from_its_creation_to_its_end(self):
        self.create(**REALTIME)
        self.assertIsNone(self.failure)
        machine = self.spec("default-worker")
        self.assertEqual("rt.large", machine["flavor"])
        self.assertIs(True, machine["configDrive"])
        self.assertEqual(
            [
                {},
                {
                    "network": {"id": "id-of-fast0"},
                    "vnicType": "direct",
                    "disablePortSecurity": True,
                },
            ],
            machine["ports"],
        )
        # As the CRD of Cluster API took it: what it does not know is gone.
        config = self.spec("default-worker", BOOTSTRAP)
        arguments = config["joinConfiguration"]["nodeRegistration"][
            "kubeletExtraArgs"
        ]
        self.assertEqual("static", arguments["cpu-manager-policy"])
        self.assertEqual("0-1", arguments["reserved-cpus"])
        self.assertIn(
            "sriov-rt.openstack.org/realtime=true", arguments["node-labels"]
        )
        self.assertEqual(3, len(config["preKubeadmCommands"]))
        self.assertEqual(4, len(config["files"]))
        self.assertLessEqual(
            {
                f"{self.release}-{name}"
                for name in ("multus", "pod-networks", "sriov-device-plugin")
            },
            set(self.objects(f"{ADDONS}/manifests")),
        )
        self.settle()
        self.assertEqual(Status.CREATE_COMPLETE, self.cluster().status)
        self.add("broken", "rt.broken")
        self.assertIn(
            "hw:cpu_policy=mixed", self.nodegroup("broken").status_reason
        )
        self.assertEqual(Status.UPDATE_FAILED, self.cluster().status)
        self.add("plain", "m1.medium")
        self.assertIsNone(self.failure)
        self.assertEqual({"default-worker": 2, "plain": 1}, self.counts())
        self.resize("default-worker", 3)
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertEqual({"default-worker": 3, "plain": 1}, self.counts())
        self.delete()
        self.assertIsNone(self.failure)
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        self.assertEqual(set(), self.left())

    def test_a_cluster_resource_set_is_taken_and_goes(self):
        carrier = "cluster_resource_set"
        self._override("addon_carrier", carrier, "sriov_rt_magnum")
        self.create(**REALTIME)
        self.assertIsNone(self.failure)
        found = self.objects(f"{RESOURCE_SETS}/clusterresourcesets")
        self.assertEqual({f"{self.release}-addons"}, set(found))
        secrets = self.objects("/api/v1/secrets")
        self.assertEqual(
            "addons.cluster.x-k8s.io/resource-set",
            secrets[f"{self.release}-multus-addon"]["type"],
        )
        self.delete()
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        self.assertEqual(set(), self.left())

    def test_names_that_helm_would_refuse_never_reach_it(self):
        self.create()
        self.settle()
        self.add("ab", "m1.medium")
        self.assertIn("choose another name", self.cluster().status_reason)
        self.assertEqual({"default-worker": 2}, self.counts())
        self.delete()


class KillTest(RealCase):
    """Helm is killed in the middle, as with the conductor that started it."""

    def setUp(self):
        super().setUp()
        self.create()
        self.assertIsNone(self.failure)
        self.settle()

    def _kill_at(self, revision):
        """Kill Helm as soon as it has begun a revision of the release."""
        secret = f"sh.helm.release.v1.{self.release}.v{revision}"
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{secret}"
        client = kubernetes.Client.load()
        self.pid.unlink()

        def kill():
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                if client.get(path).status_code == 200:
                    os.kill(int(self.pid.read_text()), signal.SIGKILL)
                    return
                time.sleep(0.002)

        thread = threading.Thread(target=kill)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def test_the_next_operation_repairs_what_it_left(self):
        killer = self._kill_at(2)
        self.resize("default-worker", 3)
        killer.join()
        self.assertEqual(Status.UPDATE_FAILED, self.cluster().status)
        # Helm is certain to be dead after ten minutes, and not yet.
        self.resize("default-worker", 4)
        self.assertIn("at work on release", self.cluster().status_reason)
        self.assertIn("repeat the operation in", self.cluster().status_reason)
        self._patch(helm, "DEAD_S", 0.0)
        self.resize("default-worker", 4)
        self.assertIsNone(self.failure)
        self.assertEqual({"default-worker": 4}, self.counts())
        self.settle()
        self.assertEqual(Status.UPDATE_COMPLETE, self.cluster().status)
        self.assertIsNone(self.cluster().status_reason)
        self.delete()
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        self.assertEqual(set(), self.left())

    def test_a_cluster_that_was_left_so_can_be_deleted(self):
        killer = self._kill_at(2)
        self.resize("default-worker", 3)
        killer.join()
        self.delete()
        self.assertIsNone(self.failure)
        self.assertEqual(Status.DELETE_COMPLETE, self.poll().status)
        self.assertEqual(set(), self.left())
