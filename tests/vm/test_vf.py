# SPDX-License-Identifier: Apache-2.0

"""sriov-rt vf, on the VFs of an 82576 that QEMU emulates."""

from typing import Any

from tests.periodic import periodic
from tests.vm import base
from tests.vm import network

#: The VF under test; no other test of this module uses another.
VF = f"{network.PF}/2"
INDEX = 2
ADDRESS = "0000:01:10.4"
#: That its PF keeps filters of it.
MARK = f"/run/sriov-rt/vfs/{ADDRESS}"
NETDEV = f"{network.PF}v2"
MAC = "52:54:00:aa:00:02"

#: How the kernel shows a clean VF of an igb, but for the MAC.
CLEAN = {
    "vlan_list": [{}],
    "rate": {"max_tx": 0, "min_tx": 0},
    "spoofchk": True,
    "trust": False,
    "link_state": "auto",
}

#: What a tenant leaves behind who was let do everything.
_DIRTY = f"""
set -e
# First, for it resets the VF, which then takes over a MAC that was set.
ip link set {NETDEV} mtu 1400
ip link set {network.PF} vf {INDEX} mac {MAC}
ip link set {network.PF} vf {INDEX} vlan 100 qos 3
ip link set {network.PF} vf {INDEX} trust on
ip link set {network.PF} vf {INDEX} spoofchk off
ip link set {network.PF} vf {INDEX} max_tx_rate 200
ip link set {NETDEV} promisc on
ip link set {NETDEV} allmulticast on
"""

#: Gives its interface the name and the MTU again that it had.
_RESTORE = f"""
now=$(ls /sys/bus/pci/devices/{ADDRESS}/net)
ip link set "$now" down
[ "$now" = {NETDEV} ] || ip link set "$now" name {NETDEV}
ip link set {NETDEV} mtu 1500
"""


class VfTestCase(network.WireTestCase):
    """A test on a VF that is clean, and down.

    While it is up its driver takes over a MAC that is set, and says of it,
    as before, that it was made up: nobody can tell then.
    """

    @classmethod
    def setUpClass(cls) -> None:
        """Have the VF."""
        super().setUpClass()
        cls.restore()

    @classmethod
    def restore(cls) -> None:
        """Have the VF whatever it was."""
        # Nobody else ever has it.
        cls.vm.run(("rm", "-f", MARK))
        cls.command("vf", "reset", VF, "--driver=igbvf")
        cls.vm.run(("bash", "-c", _RESTORE), timeout=base.PATIENCE)

    def kernel(self) -> dict[str, Any]:
        """Return what the PF says of it."""
        return network.vf_settings(self.vm, INDEX)


class LookTest(VfTestCase):
    """What only looks, and what is refused, changes nothing."""

    def test_list_has_every_vf_of_every_pf(self) -> None:
        """With address, driver, family, IOMMU group and room for MACs."""
        found = self.done("vf", "list")
        self.assertEqual(
            [(each["vf"]["pf"], each["vf"]["index"]) for each in found],
            [(pf, n) for pf in (network.PF, network.FAR) for n in range(4)],
        )
        one = next(each for each in found if each["netdev"] == NETDEV)
        self.assertEqual(one["vf"]["address"], ADDRESS)
        self.assertEqual((one["driver"], one["family"]), ("igbvf", "igb"))
        self.assertIsInstance(one["iommu_group"], int)
        self.assertEqual(one["mac_budget"], 3)
        table = self.command("vf", "list", network.PF).text.splitlines()
        self.assertEqual(len([line for line in table if VF in line]), 1)
        self.assertEqual(len(table), 4 + 4)

    @periodic
    def test_what_the_nic_has_not_is_refused_untouched(self) -> None:
        """Each with the attribute and the reason; nothing was written."""
        before = self.kernel()
        for words, named in (
            (("vlan=100", "vlan_protocol=802.1ad"), "vlan_protocol"),
            (("trust=on", "link_state=enable"), "link_state"),
            (("vlan=100", "min_tx_rate=5"), "min_tx_rate"),
            (("trust=on", "query_rss=on"), "query_rss"),
            (("trust=on", "max_tx_rate=2000"), "max_tx_rate"),
        ):
            with self.subTest(named):
                sentence = self.refused("vf", "set", VF, *words)
                self.assertIn(f"{VF}: {named}: ", sentence)
        self.assertEqual(self.kernel(), before)

    @periodic
    def test_names_of_no_vf_are_refused(self) -> None:
        """Each with what to do instead."""
        for name, told in (
            ("0000:0f:10.0", "no such device"),
            ("0000:01:00.0", "it is no VF"),
            (network.PF, "it is no VF"),
            (f"{network.PF}/9", "has 4 VFs"),
            ("../../etc", "names no VF"),
            ("lo", "not on PCI"),
        ):
            with self.subTest(name):
                self.assertIn(told, self.refused("vf", "show", name))
        self.assertIn("can have no VFs", self.refused("vf", "list", "lo"))

    @periodic
    def test_network_of_vfs_is_one_that_libvirt_takes(self) -> None:
        """And one with more VFs than the PF has is refused (seed 001)."""
        sentence = self.refused(
            *("vf", "xml", "--as", "network", "--pool", "5", network.PF)
        )
        self.assertIn("the PF has 4", sentence)
        made = self.command("vf", "xml", "--as", "network", network.PF)
        self.assertEqual(made.status, 0, made.complaint)
        self.vm.push(made.stdout, "/root/network.xml")
        defined = self.sh("virsh net-define /root/network.xml", check=False)
        self.addCleanup(
            self.sh, f"virsh net-undefine sriov-{network.PF}", check=False
        )
        self.assertEqual(defined.status, 0, defined.complaint)


class VfTest(VfTestCase):
    """What a command did is what the kernel says."""

    def setUp(self) -> None:
        """Have the VF again afterwards, whatever happens."""
        super().setUp()
        self.addCleanup(self.restore)

    def _netdev(self) -> dict[str, Any]:
        found = network.link(self.vm, NETDEV)
        self.assertIsNotNone(found)
        return found or {}

    def test_dirty_vf_is_clean_after_a_reset(self) -> None:
        """All that a tenant or an operator set is gone."""
        self.sh(_DIRTY)
        shown = self.done("vf", "show", ADDRESS)["settings"]
        self.assertEqual(
            (shown["mac"], shown["vlan"], shown["qos"], shown["promisc"]),
            (MAC, 100, 3, True),
        )
        sentence = self.refused("vf", "reset", VF)
        self.assertIn("keeps MAC filters", sentence)
        self.assertIn(MARK.rpartition("/")[0], sentence)
        # Nobody else ever had it.
        self.sh(f"rm {MARK}")
        self.sh(_DIRTY.replace("trust on", "trust off"))
        before = self.kernel()
        planned = self.done("vf", "reset", VF, "--dry-run")
        self.assertEqual(self.kernel(), before)
        self.assertEqual(
            {step["attribute"] for step in planned[0]["steps"]},
            {
                *("mac", "vlan", "qos", "spoofchk"),
                *("max_tx_rate", "promisc", "allmulti"),
            },
        )
        self.done("vf", "reset", VF)
        self.assertEqual(self.kernel(), {**self.kernel(), **CLEAN})
        netdev = self._netdev()
        self.assertEqual((netdev["promiscuity"], netdev["allmulti"]), (0, 0))
        self.assertNotIn("PROMISC", netdev["flags"])
        self.assertNotEqual(netdev["address"], MAC)
        self.assertEqual(self.done("vf", "reset", VF)[0]["steps"], [])

    def test_what_is_set_is_what_the_kernel_has(self) -> None:
        """By one command, and the VF's own interface has the MAC."""
        words = (
            *(f"mac={MAC}", "vlan=100", "qos=3", "trust=on", "spoofchk=off"),
            *("max_tx_rate=200", "mtu=1400", "promisc=on", "allmulti=on"),
        )
        self.done("vf", "plan", NETDEV, *words)
        self.assertNotEqual(self.kernel()["address"], MAC)
        self.done("vf", "set", NETDEV, *words)
        kernel = self.kernel()
        self.assertEqual(kernel["address"], MAC)
        self.assertEqual(kernel["vlan_list"], [{"vlan": 100, "qos": 3}])
        self.assertEqual(kernel["rate"], {"max_tx": 200, "min_tx": 0})
        self.assertEqual((kernel["trust"], kernel["spoofchk"]), (True, False))
        netdev = self._netdev()
        self.assertEqual((netdev["address"], netdev["mtu"]), (MAC, 1400))
        self.assertIn("PROMISC", netdev["flags"])
        self.assertIn("ALLMULTI", netdev["flags"])

    @periodic
    def test_vf_with_another_mac_than_it_was_given_is_bound_anew(
        self,
    ) -> None:
        """The PF has the MAC, the interface a random one: they agree then."""
        self.sh(f"ip link set {network.PF} vf {INDEX} mac {MAC}")
        self.assertNotEqual(self._netdev()["address"], MAC)
        self.done("vf", "set", VF, f"mac={MAC}")
        self.assertEqual(self._netdev()["address"], MAC)

    @periodic
    def test_vf_goes_to_vfio_and_back(self) -> None:
        """It has a driver and a link again: its PF answered.

        Whichever of its CPUs serves the PF's mailbox, the command binds the
        driver from the other: on the same the PF could not answer, however
        often it is asked.
        """
        self.addCleanup(self.command, "vf", "set", VF, "driver=igbvf")
        self.addCleanup(network.serve_mailboxes, self.vm, network.MAILBOX_CPU)
        for cpu in (0, 1):
            with self.subTest(cpu=cpu):
                network.serve_mailboxes(self.vm, cpu)
                self.done("vf", "set", VF, "driver=vfio-pci")
                self.assertEqual(self._driver(), "vfio-pci")
                self.assertIsNone(self.done("vf", "show", VF)["netdev"])
                self.done("vf", "set", VF, "driver=igbvf")
                self.assertEqual(self._driver(), "igbvf")
                # Its interface has the kernel's name now.
                path = f"/sys/bus/pci/devices/{ADDRESS}/net/*/address"
                self.assertEqual(
                    self.kernel()["address"],
                    self.sh(f"cat {path}").text.strip(),
                )

    def _driver(self) -> str:
        path = f"/sys/bus/pci/devices/{ADDRESS}/driver"
        return self.sh(f"basename $(readlink {path})").text.strip()
