# SPDX-License-Identifier: Apache-2.0

"""A pod gets a clean VF and leaves a clean one, whoever dies between."""

import errno
import itertools
import pathlib
import tempfile
import threading
import unittest
from concurrent import futures
from unittest import mock

from sriov_rt.cni import protocol
from sriov_rt.cni import vf_baseline
from sriov_rt.host.root import Root
from sriov_rt.nic import errors
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from tests.unit.nic import fakes

ADDRESS = "0000:01:10.1"


class BaselineTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name) / "rt"
        self.kernel = fakes.FakeKernel("ixgbe")
        self.users = {}
        self.baseline = self.over(self.kernel)

    def over(self, kernel):
        self.store = kernel.tenancies
        return vf_baseline.Baseline(
            self.store,
            lambda: fakes.vfs(kernel, lambda states: self.users, Kind.POD),
        )

    def holders(self):
        """Return the pods that have VFs, by their addresses."""
        return {
            each.address: holder
            for each in self.store.all()
            if (holder := each.of(Kind.POD)) is not None
        }

    def holder(self):
        (found,) = self.holders().values()
        return found

    def request(self, command="ADD", **fields):
        given = {
            "network": "fast",
            "attachment": protocol.AttachmentId("c1", "net1"),
            "namespace": "/nonexistent/netns",
            "device": ADDRESS,
            "pod": "team/web-0",
        }
        return protocol.Request(command, "1.1.0", **{**given, **fields})

    def add(self, **fields):
        self.baseline.add(self.request(**fields))

    def delete(self, **fields):
        self.baseline.delete(self.request("DEL", **fields))

    def collect(self, valid=()):
        self.baseline.collect(self.request("GC", valid=frozenset(valid)))

    def refused(self, code, call, *args, **fields):
        with self.assertRaises(protocol.CniError) as caught:
            call(*args, **fields)
        self.assertEqual(code, caught.exception.code, caught.exception)
        return str(caught.exception)

    def settings(self):
        return self.kernel.settings[1]

    def test_a_pod_gets_a_clean_vf_and_leaves_a_clean_one(self):
        self.kernel.change(1, vlan=7, trust=True)
        self.add()
        self.assertEqual(0, self.settings().vlan)
        self.assertFalse(self.settings().trust)
        found = self.holder()
        self.assertEqual("team/web-0", found.name)
        self.assertFalse(found.is_quarantined)
        self.kernel.change(1, vlan=9, max_tx_rate=100)
        self.delete()
        self.assertEqual({}, self.holders())
        self.assertEqual(0, self.settings().vlan)
        self.assertEqual(0, self.settings().max_tx_rate)

    def test_what_a_nic_keeps_of_a_trusted_pod_keeps_the_vf_out(self):
        # An igb's PF keeps MAC filters until the VF is made again.
        kernel = self.kernel = fakes.FakeKernel("igb")
        self.baseline = self.over(kernel)
        self.add()
        kernel.change(1, vlan=100, spoofchk=False, max_tx_rate=200)
        self.delete()
        self.assertEqual({}, self.holders())
        self.assertEqual(
            (0, True), (self.settings().vlan, self.settings().spoofchk)
        )
        self.add()
        kernel.change(1, trust=True)
        with self.assertLogs("sriov_rt", "ERROR"):
            self.delete()
        found = self.holder()
        self.assertIn("keeps MAC filters", found.reason)

    def test_every_command_can_be_said_twice(self):
        self.delete()
        for _ in range(2):
            self.add()
        for _ in range(2):
            self.delete()
        self.collect()
        self.assertEqual({}, self.holders())

    def test_what_a_failed_sandbox_left_on_vfio_gets_its_driver_back(self):
        before = self.kernel.devices[1].driver
        self.add()
        self.kernel.bind(fakes.vf_id(1), "vfio-pci")
        self.assertEqual("vfio-pci", self.kernel.devices[1].driver)
        self.delete()
        self.assertEqual(before, self.kernel.devices[1].driver)

    def test_the_next_pod_gets_it_back_if_del_never_came(self):
        before = self.kernel.devices[1].driver
        self.add()
        self.kernel.bind(fakes.vf_id(1), "vfio-pci")
        self.add(attachment=protocol.AttachmentId("c2", "net1"))
        self.assertEqual(before, self.kernel.devices[1].driver)
        # That of the first pod comes late, and is of no attachment now.
        self.kernel.change(1, vlan=5)
        self.delete()
        self.assertEqual(5, self.settings().vlan)

    def test_a_vf_of_a_pod_that_is_not_gone_is_not_given_to_another(self):
        self.add(namespace=str(self.place.parent))
        said = self.refused(
            protocol.TRY_AGAIN,
            self.add,
            attachment=protocol.AttachmentId("c2", "net1"),
        )
        self.assertIn("team/web-0", said)

    def test_a_vf_in_use_is_neither_touched_nor_given(self):
        self.users = {ADDRESS: Use(ports=("port p1 of web",))}
        self.kernel.change(1, vlan=7)
        said = self.refused(protocol.IN_USE, self.add)
        self.assertIn("port p1 of web", said)
        self.assertEqual(7, self.settings().vlan)
        self.assertEqual({}, self.holders())

    def test_a_vf_that_does_not_come_clean_is_quarantined(self):
        self.add()
        self.kernel.change(1, vlan=7)
        self.kernel.fail["vlan"] = [errno.EIO] * 9
        # The pod's end does not wait for it.
        with self.assertLogs("sriov_rt", "ERROR") as logged:
            self.delete()
        self.assertIn("vf=0000:01:10.1 pod=team/web-0", logged.output[0])
        found = self.holder()
        self.assertTrue(found.is_quarantined)
        other = protocol.AttachmentId("c2", "net1")
        with self.assertLogs("sriov_rt", "ERROR"):
            said = self.refused(
                protocol.QUARANTINED, self.add, attachment=other
            )
        self.assertIn("kept out of use", said)
        # The NIC has recovered.
        self.kernel.fail.clear()
        self.add(attachment=other)
        self.assertEqual(0, self.settings().vlan)
        self.assertFalse(self.holder().is_quarantined)

    def test_a_reset_that_was_interrupted_is_done_again(self):
        class Killed(BaseException):
            """Stands for SIGKILL: no handler of ours runs."""

        def killed(pf, changes):
            raise Killed

        self.kernel.change(1, vlan=7)
        write = self.kernel.write
        self.kernel.write = killed
        with self.assertRaises(Killed):
            self.add()
        self.kernel.write = write
        found = self.holder()
        self.assertIs(State.PREPARING, found.state)
        self.collect(valid={protocol.AttachmentId("c1", "net1")})
        self.assertEqual({}, self.holders())
        self.assertEqual(0, self.settings().vlan)

    def test_gc_takes_what_is_left_over_of_its_network_alone(self):
        self.add()
        self.add(
            device="0000:01:10.0",
            attachment=protocol.AttachmentId("c2", "net1"),
            network="other",
        )
        self.collect(valid={protocol.AttachmentId("c1", "net1")})
        self.assertEqual(2, len(self.holders()))
        self.collect()
        found = self.holder()
        self.assertEqual("other", found.network)

    def test_gc_tries_all_before_it_fails(self):
        self.add()
        self.add(
            device="0000:01:10.0",
            attachment=protocol.AttachmentId("c2", "net1"),
        )
        self.users = {"0000:01:10.0": Use(guest="qemu web", driver="vfio-pci")}
        with self.assertLogs("sriov_rt", "ERROR"):
            said = self.refused(protocol.QUARANTINED, self.collect)
        self.assertIn("qemu web", said)
        self.assertEqual(["0000:01:10.0"], list(self.holders()))

    def test_check(self):
        check = self.request("CHECK")
        said = self.refused(protocol.NOT_ATTACHED, self.baseline.check, check)
        self.assertIn("nobody", said)
        self.add()
        self.baseline.check(check)
        other = self.request(
            "CHECK", attachment=protocol.AttachmentId("c2", "net1")
        )
        said = self.refused(protocol.NOT_ATTACHED, self.baseline.check, other)
        self.assertIn("team/web-0", said)
        found = self.holder()
        self.store.assign(ADDRESS, found.quarantined("dirty"))
        self.refused(protocol.QUARANTINED, self.baseline.check, check)

    def test_vfs_that_were_removed_leave_nothing_to_clean(self):
        self.add()
        self.kernel.provision("enp1s0", 0, probe=True)
        other = protocol.AttachmentId("c2", "net1")
        self.refused(
            protocol.INVALID_CONFIGURATION, self.add, attachment=other
        )
        self.delete()
        self.assertEqual({}, self.holders())

    def test_a_network_without_a_device(self):
        said = self.refused(
            protocol.INVALID_CONFIGURATION, self.add, device=None
        )
        self.assertIn("k8s.v1.cni.cncf.io/resourceName", said)

    def test_what_is_no_vf(self):
        said = self.refused(
            protocol.INVALID_CONFIGURATION, self.add, device="0000:00:01.0"
        )
        self.assertIn("0000:00:01.0", said)
        self.assertEqual({}, self.holders())

    def test_it_has_to_be_the_first_of_its_list(self):
        said = self.refused(
            protocol.INVALID_CONFIGURATION, self.add, is_first=False
        )
        self.assertIn("list it first", said)

    def test_a_damaged_record_keeps_its_vf_out_until_it_is_reset(self):
        self.add()
        path = self.store.directory / ADDRESS
        for data in (b"", b"{}", b"x" * 20000, b"[" * 9999):
            with self.subTest(data[:4]):
                path.write_bytes(data)
                said = self.refused(protocol.IN_USE, self.add)
                self.assertIn("quarantined for somebody unknown", said)
                self.assertIn(f"'sriov-rt vf reset {ADDRESS}'", said)
                self.collect()
                self.delete()
        self.store.reset(ADDRESS)
        self.add()

    def test_a_directory_that_others_may_write_in(self):
        self.add()
        self.store.directory.chmod(0o777)
        self.refused(protocol.NOT_AVAILABLE, self.baseline.status)
        with self.assertRaises(errors.NotRecorded):
            self.add()

    def test_a_clean_vf_with_somebody_on_it_is_not_given(self):
        # There is nothing to be set, so that nothing but this asks.
        device = self.kernel.devices[1].netdev
        for use, clause in (
            (Use(ports=("port p1 of web",)), "port p1"),
            (Use(whole="port p1 of web"), "port p1"),
            (Use(on=("macvlan mv0",)), "mv0"),
            (Use(on=("ipvlan ipvl0 in aa",)), "ipvl0"),
            (Use(on=("br0 on e0",)), "br0"),
            (Use(unseen=True), "cannot be seen"),
            (Use(addressed=device), "address"),
            (Use(elsewhere=True), "another network namespace"),
            (Use(guest="qemu web", driver="vfio-pci"), "qemu web"),
        ):
            with self.subTest(use):
                self.users = {ADDRESS: use}
                binds = list(self.kernel.binds)
                said = self.refused(protocol.IN_USE, self.add)
                self.assertIn(clause, said)
                self.assertEqual({}, self.holders())
                self.assertEqual([], self.kernel.writes)
                self.assertEqual(binds, self.kernel.binds)

    def test_a_vf_of_another_manager_is_not_given(self):
        for kind in (Kind.VMI, Kind.DOMAIN, Kind.PORT):
            for state in State:
                holder = Holder(kind, "x", "realtime/rt", state, "dirty")
                self.store.assign(ADDRESS, holder)
                with self.subTest(holder):
                    said = self.refused(protocol.IN_USE, self.add)
                    self.assertIn(f"{kind} realtime/rt", said)
                self.store.release(ADDRESS, kind)
        self.add()

    def test_what_a_pod_hid_keeps_its_vf_from_the_next(self):
        self.add()
        self.kernel.carrying = {self.kernel.devices[1].netdev}
        with self.assertLogs("sriov_rt", "ERROR"):
            self.delete()
        self.assertIn("cannot be seen", self.holder().reason)
        with self.assertLogs("sriov_rt", "ERROR"):
            self.refused(
                protocol.QUARANTINED,
                self.add,
                attachment=protocol.AttachmentId("c2", "net1"),
            )
        self.assertTrue(self.holder().is_quarantined)

    def test_the_first_use_is_clean_of_what_no_attribute_says(self):
        self.add()
        self.assertEqual([(1, "ixgbevf")], self.kernel.binds)

    def test_each_call_is_refused_while_another_has_the_vf(self):
        self.refused_while_held(self.add)
        self.add()
        self.kernel.change(1, vlan=7)
        self.refused_while_held(self.add)
        self.refused_while_held(self.delete)
        with fakes.locked_by_another(self.store, ADDRESS):
            self.refused(protocol.QUARANTINED, self.collect)
        self.assertEqual(7, self.settings().vlan)
        self.delete()
        self.assertEqual(0, self.settings().vlan)

    def test_the_vf_is_locked_until_it_is_clean_and_recorded(self):
        bind, assign = self.kernel.bind, self.store.assign
        seen = []

        def noted(real):
            def call(*args):
                seen.append(fakes.is_locked(self.store, ADDRESS))
                return real(*args)

            return call

        with (
            mock.patch.object(self.kernel, "bind", noted(bind)),
            mock.patch.object(self.store, "assign", noted(assign)),
        ):
            self.add()
            self.kernel.bind(fakes.vf_id(1), "vfio-pci")
            self.assertEqual([True] * 3 + [False], seen)
            self.delete()
        self.assertEqual([True], seen[4:])

    def refused_while_held(self, act):
        fakes.refused_while_another_holds(self, self.kernel, ADDRESS, act)

    def test_two_at_once_have_one_after_the_other(self):
        got, refused = [], []

        def add(name):
            try:
                self.add(
                    attachment=protocol.AttachmentId(name, "net1"),
                    namespace=str(self.place.parent),
                )
                got.append(name)
            except protocol.CniError as error:
                refused.append(error.code)
            except errors.Locked:
                refused.append(protocol.TRY_AGAIN)

        with futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(add, ("c1", "c2")))
        self.assertEqual(1, len(got))
        self.assertEqual([protocol.TRY_AGAIN], refused)
        self.assertEqual(f"{got[0]}/net1", self.holder().id)

    def test_a_kill_at_any_write_leaves_no_vf_that_passes_for_clean(self):
        other = fakes.vfs(self.kernel, lambda _: {}, Kind.DOMAIN)
        died = 0
        for act, delete in itertools.product((self.add, self.delete), (1, 0)):
            for number in range(1, 99):
                if act == self.delete:
                    self.add()
                self.kernel.change(1, vlan=7, spoofchk=False)
                if not fakes.killed_at(self.kernel, number, act):
                    break
                died += 1
                if self.holders():
                    with self.assertRaises(errors.VfInUse):
                        other.check(fakes.vf_id(1), Act.HAND_OUT)
                else:
                    clean = self.settings().vlan == 0
                    self.assertEqual(act == self.delete, clean, number)
                (self.delete if delete else self.collect)()
                self.assertEqual({}, self.holders())
            else:
                self.fail("it never ends")
            self.delete()
        self.assertGreater(died, 20)

    def test_gc_beside_an_add_leaves_its_vf(self):
        # That waits for the lock as long as it is held.
        self.kernel.tenancies = Tenancies(Root(str(self.kernel.root)))
        self.baseline = self.over(self.kernel)
        bind = self.kernel.bind
        valid = {protocol.AttachmentId("c1", "net1")}
        ended = threading.Event()

        def meanwhile(*args):
            thread = threading.Thread(target=gc)
            thread.start()
            bind(*args)
            # What it would take back is what comes after the reset.
            self.kernel.change_device(1, promisc=False)

        def gc():
            self.collect(valid)
            ended.set()

        with mock.patch.object(self.kernel, "bind", meanwhile):
            self.add()
        self.assertTrue(ended.wait(10))
        self.assertEqual(1, len(self.kernel.binds))
        self.assertIs(State.IN_USE, self.holder().state)
