# SPDX-License-Identifier: Apache-2.0

"""A worker that boots, joins by kubeadm, and runs a pod as its flavor asks."""

import time
import typing
import urllib.error
import urllib.request

from kubernetes.client import ApiException

from sriov_rt.magnum import nodegroup
from tests.kubernetes import base
from tests.kubernetes import test_worker
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.worker import image
from tests.testbed.kube.worker import machine
from tests.testbed.kube.worker import user_data
from tests.testbed.kube.worker.control_plane import ControlPlane
from tests.testbed.paths import Paths
from tests.testbed.waiting import wait_for

NAME = "worker-0"
PORT = 8080
MIB = 2048
#: In the image from its build on, so that it boots once.
PARAMETERS = (
    "isolcpus=managed_irq,domain,1 nohz_full=1 rcu_nocbs=1 irqaffinity=0"
)
TAINT = "sriov-rt.openstack.org/realtime"

#: An emulated machine on two busy cores.
BOOT_SECONDS = 900.0
POD_SECONDS = 300.0

POD: dict[str, typing.Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "tolerations": [{"key": TAINT, "operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "web",
                "image": image.POD_IMAGE,
                "imagePullPolicy": "Never",
                "command": [
                    "sh",
                    "-c",
                    "mkdir /www; grep Cpus_allowed_list /proc/self/status"
                    " > /www/index.html; "
                    f"exec httpd -f -p {PORT} -h /www",
                ],
                "ports": [{"containerPort": PORT, "hostPort": PORT}],
                "resources": {
                    each: {"cpu": "1", "memory": "32Mi"}
                    for each in ("requests", "limits")
                },
            }
        ],
    },
}


class WorkerCases(base.KubernetesTestCase):
    """One worker, from its user data to an answer of its pod."""

    @classmethod
    def setUpClass(cls) -> None:
        machine.lay_network()
        place = Paths.from_environment()
        cls.kube = Kube(place, machine.GATEWAY)
        cls.addClassCleanup(cls.kube.stop)
        cls.kube.start()
        cls.control = ControlPlane(cls.kube)
        cls.addClassCleanup(cls.control.stop)
        cls.control.start()
        cls.machine = machine.Machine(image.in_cache(place), place.data, NAME)
        cls.addClassCleanup(cls.machine.stop)

    control: typing.ClassVar[ControlPlane]
    machine: typing.ClassVar[machine.Machine]

    def test_a_pod_answers_from_the_cpu_of_its_own(self) -> None:
        rendered = nodegroup.render(
            nodegroup.Nodegroup("realtime", "realtime", {}),
            test_worker.FLAVOR,
            nodegroup.Settings(),
            dict,
        )
        text = user_data.render(rendered.values, self.control.discovery, NAME)
        began = time.monotonic()

        def say(what: str) -> None:
            print(f"{what} after {time.monotonic() - began:.0f} s")

        self.machine.start(text, MIB, PARAMETERS)
        try:
            wait_for(
                "the node is ready",
                self._ready,
                timeout=BOOT_SECONDS,
                interval=2.0,
            )
        except Exception as error:
            error.add_note(self.machine.console[-6000:])
            raise
        say("the node is ready")
        print(self.control.nodes())
        node = self.kube.core.read_node(NAME)
        # reserved-cpus, reserved-memory and evictionHard.
        self.assertEqual("1", node.status.allocatable["cpu"])
        self.assertIn(TAINT, {each.key for each in node.spec.taints})
        self.assertEqual(
            "1", node.metadata.labels["sriov-rt.openstack.org/realtime-cpus"]
        )
        wait_for("pods can be made", self._has_account, timeout=60)
        self.kube.apply(POD)
        wait_for("the pod answers", _get, timeout=POD_SECONDS, interval=1.0)
        say("the pod answers")
        # The CPU that is isolated, and not the one that is reserved.
        self.assertEqual("Cpus_allowed_list:\t1", _get().strip())

    def _ready(self) -> bool:
        return any(
            condition.type == "Ready" and condition.status == "True"
            for each in self.kube.core.list_node().items
            for condition in each.status.conditions or ()
        )

    def _has_account(self) -> bool:
        try:
            self.kube.core.read_namespaced_service_account(
                "default", "default"
            )
        except ApiException as error:
            if error.status != 404:
                raise
            return False
        return True


def _get() -> str:
    """Return what the pod answers over its node's port."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://{machine.ADDRESS}:{PORT}/"
    with opener.open(url, timeout=5) as answer:
        return str(answer.read().decode())
