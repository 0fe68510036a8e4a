# SPDX-License-Identifier: Apache-2.0

"""The CNI plug-in sriov-rt-vf, on the VFs of an 82576 that QEMU emulates."""

import json
from typing import Any

from tests import periodic
from tests.testbed.rtvm import RtVm
from tests.vm import base
from tests.vm import network
from tests.vm import test_vf

#: The reference plug-in that gives a VF to a pod, by Debian's package
#: containernetworking-plugins.
HOST_DEVICE = "/usr/lib/cni/host-device"

#: What a test that failed has left.
_TAKE = f"""
ip -n pod-rt link set net1 down
ip -n pod-rt link set net1 name {test_vf.NETDEV}
ip -n pod-rt link set {test_vf.NETDEV} netns 1
ip netns del pod-rt
"""

#: What a pod and its network have set.
#: What Kata does with a VF before it starts a guest.
_SANDBOX = f"""
set -e
cd /sys/bus/pci/devices/{test_vf.ADDRESS}
modprobe vfio-pci
echo vfio-pci > driver_override
echo {test_vf.ADDRESS} > driver/unbind
echo {test_vf.ADDRESS} > /sys/bus/pci/drivers_probe
"""

_DIRTY = f"""
set -e
ip link set {network.PF} vf {test_vf.INDEX} vlan 100
ip link set {network.PF} vf {test_vf.INDEX} spoofchk off
ip link set {network.PF} vf {test_vf.INDEX} max_tx_rate 200
"""


def call(
    vm: RtVm,
    address: str,
    verb: str,
    container: str = "c1",
    program: str | None = None,
    **more: Any,
) -> Any:
    """Call a plug-in as a runtime does; return status and answer.

    :param address: of the VF.
    :param program: of the plug-in; ours by default.
    :param more: of its configuration.
    """
    configuration = {
        "cniVersion": "1.0.0",
        "name": "fast",
        "type": "sriov-rt-vf",
        "deviceID": address,
        **more,
    }
    variables = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": container,
        "CNI_IFNAME": "net1",
        "CNI_NETNS": "/run/netns/pod-rt",
        "CNI_PATH": "/usr/lib/cni",
        "CNI_ARGS": "K8S_POD_NAMESPACE=trading;K8S_POD_NAME=web",
    }
    done = vm.run(
        (
            "env",
            *(f"{name}={value}" for name, value in variables.items()),
            program or base.product().program("sriov-rt-vf"),
        ),
        timeout=base.PATIENCE,
        check=False,
        stdin=json.dumps(configuration).encode(),
    )
    answer = json.loads(done.stdout) if done.stdout else None
    return done.status, answer


@periodic.periodic
class PodVfTest(test_vf.VfTestCase):
    """A pod's VF is clean before and after, by the kernel's own account."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.restore)
        self.addCleanup(self.sh, "rm -rf /run/sriov-rt/vfs", check=False)
        self.addCleanup(self.sh, _TAKE, check=False)
        self.sh("ip netns add pod-rt")

    def call(
        self,
        verb: str,
        container: str = "c1",
        program: str | None = None,
        **more: Any,
    ) -> Any:
        """Call a plug-in as a runtime does; see :func:`call`."""
        return call(self.vm, test_vf.ADDRESS, verb, container, program, **more)

    def host_device(self, verb: str, result: Any) -> None:
        """Call the plug-in that comes after ours in the network's list.

        :param result: of the ADD before it.
        """
        status, answer = self.call(
            verb,
            program=HOST_DEVICE,
            type="host-device",
            prevResult=result,
            runtimeConfig={"deviceID": test_vf.ADDRESS},
        )
        self.assertEqual(0, status, answer)

    def assertClean(self) -> None:
        found = self.kernel()
        self.assertEqual(found, {**found, **test_vf.CLEAN})

    def test_a_pods_vf_comes_back_clean(self) -> None:
        self.sh(_DIRTY)
        status, given = self.call("ADD")
        self.assertEqual((0, []), (status, given["interfaces"]), given)
        self.assertClean()
        self.host_device("ADD", given)
        self.sh("ip -n pod-rt link show net1")
        # In the pod it is nobody else's.
        status, answer = self.call("ADD", "c2")
        self.assertEqual((1, 11), (status, answer["code"]), answer)
        self.sh(_DIRTY)
        # A runtime takes the plug-ins in reverse.
        self.host_device("DEL", given)
        for _ in range(2):
            self.assertEqual((0, None), self.call("DEL"))
            self.assertClean()

    def test_a_sandbox_that_failed_leaves_it_on_its_driver(self) -> None:
        status, answer = self.call("ADD")
        self.assertEqual(0, status, answer)
        # What Kata does before it starts a guest.
        self.sh(_SANDBOX)
        self.assertEqual((0, None), self.call("DEL"))
        path = f"/sys/bus/pci/devices/{test_vf.ADDRESS}/driver"
        driver = self.sh(f"basename $(readlink {path})").text.strip()
        self.assertEqual("igbvf", driver)
        self.assertClean()
