# SPDX-License-Identifier: Apache-2.0

"""Where ports can be, by the configuration; and who is accelerated."""

import dataclasses
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.facts import Endpoint
from sriov_rt.facts import HeldVf
from sriov_rt.facts import LostPort
from sriov_rt.facts import QuarantinedPort
from sriov_rt.facts import VifFacts
from sriov_rt.host.interfaces import DEVICES
from sriov_rt.host.root import BOOT_ID
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.nic import tenancy
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.vif import records
from sriov_rt.vif import vif_facts
from sriov_rt.vif.lost import LostPorts
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from tests.unit.host import trees
from tests.unit.vif import fakes


class PoolsTest(trees.TreeTest):
    def pools(self, *parents):
        text = f"[vif]\nparents = {', '.join(parents)}\n"
        self.tree.write(CONFIG, text)
        return vif_facts.observe(self.root).pools

    def test_without_a_configuration_there_are_none(self):
        self.assertEqual({}, vif_facts.observe(self.root).pools)

    def test_a_vfs_nic_is_its_pf(self):
        self.tree.write("sys/class/net/ens2f0/device/sriov_numvfs", "2\n")
        self.assertEqual(
            {"physnet1": ("eno1", "ens2f0"), "physnet2": ("eth0",)},
            self.pools(
                "physnet1:pf:ens2f0",
                "physnet1:eno1v0",
                "physnet1:eno1v1",
                "physnet2:eth0",
            ),
        )

    def test_what_is_not_here_is_no_nic(self):
        self.assertEqual(
            {"physnet1": (), "physnet2": ("eno1",)},
            self.pools("physnet1:ens9v0", "physnet2:pf:eno1"),
        )

    def missing(self, *parents):
        self.pools(*parents)
        return vif_facts.observe(self.root).missing

    def test_parents_that_are_not_here_are_named(self):
        self.assertEqual({}, self.missing("physnet1:eno1v0", "physnet2:eth0"))
        self.assertEqual(
            {"physnet1": ("ens9v0", "pf:ens9"), "physnet2": ("veth0",)},
            self.missing(
                "physnet1:ens9v0",
                "physnet1:eno1v0",
                "physnet1:pf:ens9",
                "physnet2:veth0",
            ),
        )

    def test_a_pf_without_vfs_has_no_parents(self):
        self.tree.write("sys/class/net/eno1/device/sriov_numvfs", "0\n")
        self.assertEqual(
            {"physnet1": ("pf:eno1",)}, self.missing("physnet1:pf:eno1")
        )
        self.assertEqual({"physnet1": ()}, self.pools("physnet1:pf:eno1"))
        # For itself it is one.
        self.assertEqual({}, self.missing("physnet1:eno1"))

    def test_a_vf_whose_pf_is_in_another_namespace(self):
        vf = f"sys/{trees.X710.rpartition('/')[0]}/0000:3b:02.0"
        self.tree.remove(f"{vf}/physfn")
        (self.tree.path / vf / "physfn").mkdir()
        (self.tree.path / vf / "physfn/net").mkdir()
        self.assertEqual({"physnet1": ()}, self.pools("physnet1:eno1v0"))

    def test_parents_that_are_none_are_told_of(self):
        for parents in (("physnet1",), ("a:eno1", "b:eno1"), ("a:../x",)):
            found = self.pools(*parents)
            self.assertIn("[vif] parents", found.reason)
        self.tree.write(CONFIG, "[vif\n")
        self.assertIsInstance(vif_facts.observe(self.root).pools, Unknown)

    def test_what_cannot_be_read_is_not_known(self):
        for path in ("device/physfn/net", "device/physfn"):
            path = f"sys/class/net/eno1v0/{path}"
            self.tree.remove(path)
            self.tree.link(path, path.rpartition("/")[2])
            self.assertIn("links", self.pools("physnet1:eno1v0").reason)


class EndpointsTest(fakes.HostTest):
    """The records of the host that runs, as files."""

    def setUp(self):
        super().setUp()
        self.tree = trees.Tree(self.directory.parent)
        self.tree.write(CONFIG, f"[vif]\nrecords = /{self.directory.name}\n")
        # As a container of this host has it.
        self.tree.write(BOOT_ID, Root().read_text(BOOT_ID))

    def found(self):
        return vif_facts.observe(Root(self.tree.path))

    def observe(self):
        return self.found().endpoints

    def test_a_vf_that_a_port_has_to_itself_is_not_missing(self):
        self.plugger.plug(fakes.asked(kind=Kind.VF, mode=None))
        (record,) = records.Records(self.directory).all()
        self.tree.write(
            CONFIG,
            f"[vif]\nrecords = /{self.directory.name}\n"
            f"parents = physnet1:{record.parent}, physnet1:other\n",
        )
        found = self.found()
        self.assertEqual({"physnet1": ("other",)}, found.missing)
        self.assertEqual({"physnet1": (record.nic,)}, found.pools)

    def test_one_that_is_not_there_is_unknown_without_the_records(self):
        """A port may have it: who is not root cannot read that."""
        text = f"[vif]\nrecords = /{self.directory.name}\nparents = a:there"
        self.tree.write("sys/class/net/there/mtu", "1500\n")
        (self.directory / "records").mkdir(parents=True)
        (self.directory / "records").chmod(0o777)
        self.tree.write(CONFIG, f"{text}\n")
        self.assertEqual({"a": ("there",)}, self.found().pools)
        self.tree.write(CONFIG, f"{text}, a:away\n")
        for found in (self.found().pools, self.found().missing):
            self.assertIsInstance(found, Unknown)

    def test_quarantined_ports_are_listed_with_the_reason(self):
        self.plugger.plug(fakes.asked(port=fakes.OTHER, name="eth2"))
        self.assertEqual((), self.found().quarantined)
        self.plugger.plug(fakes.asked())
        store = records.Records(self.directory)
        found = store.get(fakes.PORT)
        store.put(
            dataclasses.replace(
                found, state=State.QUARANTINED, reason="it is away"
            )
        )
        wanted = QuarantinedPort(
            fakes.PORT, found.owner, found.nic, found.vf, "it is away"
        )
        self.assertEqual((wanted,), self.found().quarantined)

    def test_ports_that_have_lost_their_interface(self):
        self.plugger.plug(fakes.asked(kind=Kind.VF, mode=None))
        store = records.Records(self.directory)
        record = store.get(fakes.PORT)
        device = f"{DEVICES}/{record.vf}"
        self.tree.write(f"{device}/uevent", "")
        inode = (self.tree.path / device).stat().st_ino
        lost = LostPort(fakes.PORT, "me", record.interface, False)
        for there, wanted in ((inode, ()), (inode + 1, (lost,)), (0, ())):
            with self.subTest(there=there):
                store.put(dataclasses.replace(record, inode=there))
                self.assertEqual(wanted, self.found().lost)
        store.put(dataclasses.replace(record, inode=inode))
        (self.tree.path / device / "uevent").unlink()
        (self.tree.path / device).rmdir()
        self.assertEqual((lost,), self.found().lost)
        store.end(fakes.PORT)
        self.assertEqual((), self.found().lost)
        # Noted by 'vif restore'; QEMU has a macvtap open.
        tap = dataclasses.replace(record, kind=Kind.MACVTAP)
        LostPorts(records.Records(self.directory)).put(tap)
        found = self.found().lost
        self.assertEqual((dataclasses.replace(lost, of_guest=True),), found)

    def test_notes_of_lost_ports_that_cannot_be_read_are_not_none(self):
        self.assertEqual((), self.found().lost)
        self.directory.mkdir(exist_ok=True)
        LostPorts(records.Records(self.directory)).directory.write_text("")
        self.assertIsInstance(self.found().lost, Unknown)

    def test_vfs_of_other_managers_are_listed_with_their_pf(self):
        address = "0000:01:10.0"
        (self.tree.path / DEVICES / address / "physfn/net/e0").mkdir(
            parents=True
        )
        holder = Holder(tenancy.Kind.POD, "c1/net1", "a/b").quarantined(
            "dirty"
        )
        Tenancies(Root(self.tree.path)).assign(address, holder)
        self.assertEqual(
            (HeldVf(address, "e0", "pod", "pod a/b", "quarantined", "dirty"),),
            self.found().holders,
        )

    def test_a_port_whose_record_is_damaged_is_quarantined(self):
        self.plugger.plug(fakes.asked())
        (self.directory / "records" / fakes.PORT).write_text("{}")
        (found,) = self.found().quarantined
        self.assertEqual(fakes.PORT, found.port)
        self.assertIn("damaged", found.why)

    def test_another_root_has_none_that_run(self):
        self.plugger.plug(fakes.asked())
        for boot in ("0d6a1c7e-0000-4000-8000-000000000000\n", ""):
            with self.subTest(boot):
                self.tree.write(BOOT_ID, boot)
                found = self.found()
                self.assertIsInstance(found, VifFacts)
                self.assertIn("only while it runs", found.endpoints.reason)
                self.assertIn("only while it runs", found.quarantined.reason)

    def test_a_directory_that_cannot_be_reached_is_not_known(self):
        self.tree.write(CONFIG, "[vif]\nrecords = /loop\n")
        self.tree.link("loop", "loop")
        self.assertIn("/loop: Too many levels", self.observe().reason)

    def test_no_port_was_ever_plugged(self):
        self.assertEqual((), self.observe())

    def test_the_accelerated_ones_of_the_records(self):
        self.plugger.plug(fakes.asked(port=fakes.OTHER, name="eth2"))
        self.plugger.plug(fakes.asked(onload=True, network=fakes.NETWORK))
        wanted = Endpoint(fakes.PORT, "me", fakes.NETWORK, "enp1s0")
        self.assertEqual((wanted,), self.observe())

    def test_records_that_cannot_be_read_are_not_known(self):
        self.plugger.plug(fakes.asked())
        refused = PermissionError(13, "Permission denied")
        with mock.patch("os.listdir", side_effect=refused):
            self.assertIn("Permission denied", self.observe().reason)
        (self.directory / "records" / fakes.PORT).write_text("{}")
        self.assertIn("record", self.observe().reason)
