# SPDX-License-Identifier: Apache-2.0

"""A PF that goes and comes back while a container has its VF."""

from typing import ClassVar

from tests.periodic import periodic
from tests.vm import base
from tests.vm import network
from tests.vm import test_vif_kinds
from tests.vm.test_vif_kinds import MAC
from tests.vm.test_vif_kinds import NAMESPACE
from tests.vm.test_vif_kinds import PEER

_DEVICE = "0000:01:00.0"
_PLACE = f"/sys/bus/pci/devices/{_DEVICE}"

#: Ways in which the VFs of a PF are destroyed.
_WAYS = {
    "another sriov_numvfs": f"echo 0 > {_PLACE}/sriov_numvfs",
    "a reload of the PF's driver": (
        f"echo {_DEVICE} > {_PLACE}/driver/unbind\n"
        f"echo {_DEVICE} > /sys/bus/pci/drivers/igb/bind"
    ),
    "a removal and a rescan": (
        f"echo 1 > {_PLACE}/remove\necho 1 > /sys/bus/pci/rescan"
    ),
}

#: There is no udev that would name and set up the PF.
_BACK = f"""
set -e
for try in $(seq 100); do
    [ -e {_PLACE}/net ] && break
    sleep 0.2
done
now=$(ls {_PLACE}/net)
[ "$now" = {network.PF} ] || {{
    ip link set "$now" down; ip link set "$now" name {network.PF}
}}
ip link set {network.PF} up
"""


@periodic
class ReloadTest(test_vif_kinds.PortTestCase):
    """Its VFs are made again, and its port is plugged again."""

    number: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Configure as many VFs as there are."""
        super().setUpClass()
        numvfs = cls.vm.run(("cat", f"{_PLACE}/sriov_numvfs")).text.strip()
        config = (
            f"[vif]\nparents = physnet1:pf:{network.PF}\n"
            f"[nic]\nvfs = {network.PF}:{numvfs}:host\n"
        )
        cls.vm.push(config.encode(), test_vif_kinds.CONFIG)

    def _destroy(self, script: str) -> None:
        self.vm.run(("bash", "-c", script), timeout=base.PATIENCE)
        self.vm.run(("bash", "-c", _BACK), timeout=base.PATIENCE)
        network.serve_mailboxes(self.vm, network.MAILBOX_CPU)

    def _check(self, kind: str, *more: str) -> None:
        """Destroy the VFs of a container in each way, and see it answer."""
        words = self.words(kind, *more)
        plugged = self.plug(*words)
        self.assert_answers(PEER)
        nothing: dict[str, list[str]] = {
            "restored": [],
            "left": [],
            "ended": [],
        }
        self.assertEqual(self.done("vif", "restore"), nothing)
        for way, script in _WAYS.items():
            with self.subTest(kind, way=way):
                self._destroy(script)
                self.assertIsNone(network.link(self.vm, "p0", NAMESPACE))
                result = self.command("vif", "restore", "--json")
                self.assertEqual(result.status, 1, result.text)
                self.done("vf", "provision")
                network.serve_mailboxes(self.vm, network.MAILBOX_CPU)
                found = self.done("vif", "restore")
                port = plugged["port"]
                self.assertEqual({**nothing, "restored": [port]}, found)
                link = network.link(self.vm, "p0", NAMESPACE) or {}
                if kind == "vf":
                    self.assertEqual(MAC, link["address"])
                self.assertIn(port, link["ifalias"])
                (shown,) = self.done("vif", "show")
                self.assertEqual("plugged", shown["state"])
                self.assert_answers(PEER)
                self.assertEqual(self.done("vif", "restore"), nothing)
        self.assertTrue(self.unplug(plugged["port"]))

    def test_a_whole_vf(self) -> None:
        """It has its MAC, and answers, whatever became of its VF."""
        self._check("vf", "--mac", MAC)

    def test_an_ipvlan(self) -> None:
        """It is on another VF, and answers."""
        self._check("ipvlan")
