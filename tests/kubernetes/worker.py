# SPDX-License-Identifier: Apache-2.0

"""What a worker's boot is checked by, whatever machine it boots on."""

import typing
import unittest
import urllib.request
from collections.abc import Callable

from kubernetes.client import ApiException

from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.worker import image
from tests.testbed.kube.worker import machine
from tests.testbed.kube.worker.control_plane import ControlPlane
from tests.testbed.waiting import wait_for

NAME = "worker-0"
PORT = 8080
#: In the image from its build on, so that it boots once.
PARAMETERS = (
    "isolcpus=managed_irq,domain,1 nohz_full=1 rcu_nocbs=1 irqaffinity=0"
)
TAINT = "sriov-rt.openstack.org/realtime"

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


class WorkerTestCase(unittest.TestCase):
    """A test with an API server that a worker joins."""

    kube: typing.ClassVar[Kube]
    control: typing.ClassVar[ControlPlane]

    def assert_joins(self, console: Callable[[], str], seconds: float) -> None:
        """Check that the worker is Ready as its nodegroup has it.

        :param console: what a failure shows of its machine.
        :param seconds: to wait.
        """
        try:
            wait_for(
                "the node is ready",
                self._is_ready,
                timeout=seconds,
                interval=2.0,
            )
        except Exception as error:
            error.add_note(console()[-6000:])
            raise
        # The kubelet looks for it again each ten seconds.
        wait_for("the node has its address", self._has_address, timeout=120)
        node = self.kube.core.read_node(NAME)
        # reserved-cpus, reserved-memory and evictionHard.
        self.assertEqual("1", node.status.allocatable["cpu"])
        self.assertIn(TAINT, {each.key for each in node.spec.taints})
        self.assertEqual(
            "1", node.metadata.labels["sriov-rt.openstack.org/realtime-cpus"]
        )

    def assert_pod_answers(self, seconds: float) -> None:
        """Check that a pod has the isolated CPU, by what it answers.

        :param seconds: to wait.
        """
        wait_for("pods can be made", self._has_account, timeout=60)
        self.kube.apply(POD)
        wait_for("the pod answers", _get, timeout=seconds, interval=1.0)
        # The CPU that is isolated, and not the one that is reserved.
        self.assertEqual("Cpus_allowed_list:\t1", _get().strip())

    def _is_ready(self) -> bool:
        return any(
            condition.type == "Ready" and condition.status == "True"
            for each in self.kube.core.list_node().items
            for condition in each.status.conditions or ()
        )

    def _has_address(self) -> bool:
        """Return whether the kubelet reports the address of the node.

        It takes that of the default route.
        """
        node = self.kube.core.read_node(NAME)
        return machine.ADDRESS in {
            each.address for each in node.status.addresses or ()
        }

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
