# SPDX-License-Identifier: Apache-2.0

"""A worker that boots, joins by kubeadm, and runs a pod as its flavor asks."""

import time
import typing

from sriov_rt.magnum import nodegroup
from tests.kubernetes import test_worker
from tests.kubernetes import worker
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.worker import image
from tests.testbed.kube.worker import machine
from tests.testbed.kube.worker import user_data
from tests.testbed.kube.worker.control_plane import ControlPlane
from tests.testbed.paths import Paths

MIB = 2048

#: An emulated machine on two busy cores.
BOOT_SECONDS = 900.0
POD_SECONDS = 300.0


class WorkerCases(worker.WorkerTestCase):
    """One worker, from its user data to an answer of its pod."""

    machine: typing.ClassVar[machine.Machine]

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
        cls.machine = machine.Machine(
            image.in_cache(place), place.data, worker.NAME
        )
        cls.addClassCleanup(cls.machine.stop)

    def test_a_pod_answers_from_the_cpu_of_its_own(self) -> None:
        rendered = nodegroup.render(
            nodegroup.Nodegroup("realtime", "realtime", {}),
            test_worker.FLAVOR,
            nodegroup.Settings(),
            dict,
        )
        text = user_data.render(
            rendered.values, self.control.discovery, worker.NAME
        )
        began = time.monotonic()

        def say(what: str) -> None:
            print(f"{what} after {time.monotonic() - began:.0f} s")

        self.machine.start(text, MIB, worker.PARAMETERS)
        self.assert_joins(lambda: self.machine.console, BOOT_SECONDS)
        say("the node is ready")
        print(self.control.nodes())
        self.assert_pod_answers(POD_SECONDS)
        say("the pod answers")
