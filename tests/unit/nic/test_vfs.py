# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import errno
import pathlib
import types
import unittest
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import errors
from sriov_rt.nic import families
from sriov_rt.nic import table
from sriov_rt.nic.model import ADDRESS_SET
from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.tenancy import Reset
from sriov_rt.nic.use import Use
from sriov_rt.nic.vfs import Vfs
from tests.unit.nic import fakes
from tests.unit.nic.fakes import vf_id


class VfsTest(unittest.TestCase):
    def setUp(self):
        self.kernel = fakes.FakeKernel()
        self.vfs = fakes.vfs(self.kernel)
        self.vf = vf_id(0)

    def use(self, driver, **options):
        self.kernel = fakes.FakeKernel(driver, **options)
        self.vfs = fakes.vfs(self.kernel)

    def set(self, **settings):
        return self.vfs.apply(self.vfs.plan(self.vf, VfSettings(**settings)))

    def refused(self, kind, **settings):
        with self.assertRaises(kind) as caught:
            self.set(**settings)
        return caught.exception


class NamingTest(VfsTest):
    def test_three_ways_to_name_a_vf(self):
        for name in ("0000:01:10.1", "01:10.1", "enp1s0/1", "enp1s0v1"):
            with self.subTest(name=name):
                self.assertEqual(vf_id(1), self.vfs.locate(name))

    def test_what_names_nothing(self):
        for name, kind in (
            ("enp1s0/7", errors.NoSuchDevice),
            ("enp9s0/0", errors.NoSuchDevice),
            ("0000:01:1f.9", errors.BadName),
            ("eth0/../../x", errors.BadName),
            ("enp1s0", errors.NotAVf),
            ("", errors.BadName),
        ):
            with self.subTest(name=name), self.assertRaises(kind):
                self.vfs.locate(name)


class ObserveTest(VfsTest):
    def test_the_vf_of_an_interface(self):
        self.assertEqual(self.vfs.list()[1], self.vfs.of("enp1s0v1"))
        for name in ("enp1s0", "eth7"):
            with self.subTest(name=name):
                self.assertIsNone(self.vfs.of(name))

    def test_made_up_mac_is_no_administrative_one(self):
        self.kernel.change(0, mac=self.kernel.devices[0].mac)
        self.assertEqual(NO_MAC, self.vfs.observe(self.vf).settings.mac)

    def test_mac_that_was_set_inside_shows(self):
        self.kernel.dirty(0)
        state = self.vfs.observe(self.vf)
        self.assertEqual("66:66:66:66:66:66", state.settings.mac)

    def test_all_vfs_of_a_pf_by_one_request(self):
        self.use("igb", vfs=7)
        self.assertEqual(7, len(self.vfs.list()))
        self.assertEqual(1, self.kernel.reads)

    def test_pf_without_vfs(self):
        self.use("igb", vfs=0)
        self.assertEqual((), self.vfs.list("enp1s0"))
        self.assertEqual(0, self.kernel.reads)

    def test_vf_that_goes_while_it_is_read(self):
        def read(pf):
            self.kernel.devices.clear()
            return {}

        self.kernel.read = read
        with self.assertRaises(errors.NoSuchDevice):
            self.vfs.observe(self.vf)

    def test_vf_that_its_pf_does_not_tell_of_is_resetting(self):
        self.kernel.untold = {0: 3}
        self.assertEqual(0, self.vfs.observe(self.vf).settings.vlan)
        self.assertEqual(4, self.kernel.reads)
        self.kernel.untold = {0: 10**6}
        with self.assertRaises(errors.TryAgain) as caught:
            self.vfs.observe(self.vf)
        self.assertIn(
            "enp1s0/0: enp1s0 does not report", str(caught.exception)
        )
        self.assertEqual(0, self.vfs.observe(vf_id(1)).settings.vlan)

    def test_list_waits_for_nobody(self):
        self.kernel.untold = {0: 10**6}
        first, second = self.vfs.list()
        self.assertIsNone(first.settings.vlan)
        self.assertEqual("igbvf", first.settings.driver)
        self.assertEqual(0, second.settings.vlan)
        self.assertEqual([], self.vfs.clock.slept)

    def test_what_cannot_be_read_may_be_there(self):
        for found, expected in (
            (True, True),
            (False, False),
            (Unknown("EACCES"), True),
        ):
            with mock.patch.object(self.kernel, "is_vf", return_value=found):
                self.assertIs(expected, self.vfs.is_present("0000:01:10.0"))

    def test_vf_that_is_gone(self):
        with self.assertRaises(errors.NoSuchDevice):
            self.vfs.observe(vf_id(5))

    def test_mac_budget_is_what_a_vf_can_count_on(self):
        for driver, vfs, budget in (
            ("igb", 2, 3),
            ("igb", 7, 1),
            ("ixgbe", 8, 13),
            ("i40e", 4, 16),
            ("sfc", 4, 31),
            ("nobody", 4, None),
        ):
            with self.subTest(driver=driver, vfs=vfs):
                self.use(driver, vfs=vfs)
                self.assertEqual(budget, self.vfs.observe(self.vf).mac_budget)


class SetTest(VfsTest):
    def test_everything_in_one_write(self):
        state = self.set(
            mac=fakes.ADMIN_MAC, vlan=7, spoofchk=False, max_tx_rate=100
        )
        (written,) = self.kernel.writes
        self.assertEqual(
            VfSettings(
                mac=fakes.ADMIN_MAC,
                vlan=7,
                qos=0,
                vlan_protocol="802.1q",
                spoofchk=False,
                min_tx_rate=0,
                max_tx_rate=100,
            ),
            written[0],
        )
        self.assertEqual(7, state.settings.vlan)

    def test_same_again_does_nothing(self):
        self.set(mac=fakes.ADMIN_MAC, vlan=7, trust=True)
        self.kernel.writes.clear()
        self.kernel.binds.clear()
        made = self.vfs.plan(
            self.vf, VfSettings(mac=fakes.ADMIN_MAC, vlan=7, trust=True)
        )
        self.assertEqual((), made.steps)
        self.vfs.apply(made)
        self.assertEqual([], self.kernel.binds)

    def test_mac_that_the_pf_shows_is_written_through_it_all_the_same(self):
        # As igbvf's own write makes it show, which pins nothing.
        self.kernel.change_device(
            0, mac=fakes.ADMIN_MAC, address_type=ADDRESS_SET
        )
        self.kernel.report(0, fakes.ADMIN_MAC)
        self.assertEqual(NO_MAC, self.kernel.admin[0])
        made = self.vfs.plan(self.vf, VfSettings(mac=fakes.ADMIN_MAC))
        self.assertEqual((), made.steps)
        self.assertFalse(made.is_empty)
        self.assertIn(
            f"  set mac {fakes.ADMIN_MAC} through enp1s0", list(made.lines())
        )
        self.vfs.apply(made)
        self.assertEqual(fakes.ADMIN_MAC, self.kernel.admin[0])
        self.assertEqual([], self.kernel.binds)

    def test_igb_has_a_new_mac_after_a_rebind(self):
        state = self.set(mac=fakes.ADMIN_MAC)
        self.assertEqual([(0, "igbvf")], self.kernel.binds)
        self.assertEqual(fakes.ADMIN_MAC, state.device.mac)

    def test_vf_that_came_up_with_a_random_mac_is_bound_again(self):
        self.kernel.change(0, mac=fakes.ADMIN_MAC)
        self.kernel.late_random = 2
        made = self.vfs.plan(self.vf, VfSettings(mac=fakes.ADMIN_MAC))
        self.assertEqual((), made.steps)
        self.assertIn("enp1s0v0 has the MAC be:ef", made.rebind)
        state = self.vfs.apply(made)
        self.assertEqual(fakes.ADMIN_MAC, state.device.mac)
        self.assertEqual(3, len(self.kernel.binds))

    def test_vf_that_stays_random_is_not_handed_out(self):
        self.kernel.late_random = 99
        error = self.refused(errors.NotReady, mac=fakes.ADMIN_MAC)
        self.assertIn("bound 4 times, but its interface has", str(error))

    def test_vf_without_an_answer_of_its_pf_is_bound_again(self):
        self.kernel.bind(self.vf, "vfio-pci")
        self.kernel.binds.clear()
        self.kernel.deaf = 2
        state = self.vfs.reset(self.vf, driver="igbvf")
        self.assertEqual(3, len(self.kernel.binds))
        self.assertEqual(self.kernel.read("enp1s0")[0].mac, state.device.mac)

    def test_vf_whose_pf_stays_deaf_is_not_handed_out(self):
        self.kernel.bind(self.vf, "vfio-pci")
        self.kernel.deaf = 99
        error = self.refused(errors.NotReady, driver="igbvf")
        self.assertIn("bound 4 times, but its PF has not answ", str(error))

    def test_pf_that_is_down_need_not_answer(self):
        self.kernel.bind(self.vf, "vfio-pci")
        self.kernel.deaf, self.kernel.carrier = 99, None
        self.assertEqual("igbvf", self.set(driver="igbvf").driver)

    def test_driver_that_fails_to_bind_at_first(self):
        self.kernel.bind_fails = [errno.EIO, errno.ENODEV]
        with self.assertRaises(errors.NoSuchDevice):
            self.set(mac=fakes.ADMIN_MAC)
        self.kernel.bind_fails = [errno.EIO, errno.EIO]
        self.kernel.change(0, mac=NO_MAC)
        self.set(mac=fakes.ADMIN_MAC)

    def test_interface_that_goes_while_it_is_set(self):
        made = self.vfs.plan(self.vf, VfSettings(mtu=9000))
        self.kernel.change_device(0, netdev=None)
        with self.assertRaises(errors.NoSuchDevice) as caught:
            self.vfs.apply(made)
        self.assertIn("its interface has gone", str(caught.exception))

    def test_driver_that_may_not_be_bound(self):
        self.kernel.bind_fails = [errno.EPERM]
        self.refused(
            (errors.NotPermitted, errors.RefusedByDriver), mac=fakes.ADMIN_MAC
        )
        self.assertEqual(1, len(self.kernel.binds))

    def test_driver_that_there_is_not(self):
        missing = errors.DriverMissing("enp1s0/0", "driver", "no driver")
        with (
            mock.patch.object(self.kernel, "bind", side_effect=missing),
            self.assertRaises(errors.DriverMissing),
        ):
            self.set(driver="vfio-pci")
        self.assertEqual([], self.vfs.clock.slept)

    def test_driver_of_other_devices_is_refused_before_it_is_unbound(self):
        error = self.refused(errors.UnsupportedByNic, driver="igb", vlan=7)
        self.assertIn("for other devices", str(error))
        self.assertEqual([], self.kernel.binds + self.kernel.writes)

    def test_driver_that_cannot_be_bound_leaves_the_one_before(self):
        bind = self.kernel.bind

        def fail(vf, driver):
            if driver == "vfio-pci":
                self.kernel.devices[0] = VfDevice(None)
                raise errors.from_errno(errno.EINVAL, f"{vf}", "driver")
            bind(vf, driver)

        self.kernel.bind = fail
        self.refused(errors.NotReady, driver="vfio-pci")
        self.assertEqual("igbvf", self.kernel.devices[0].driver)

    def test_mtu_that_its_driver_does_not_take_is_refused_at_once(self):
        error = self.refused(errors.OutOfRange, mtu=9500, vlan=7)
        self.assertIn("9500 is not within 68 to 9216", str(error))
        self.assertEqual([], self.kernel.writes)
        self.kernel.mtu_bounds = None
        self.set(mtu=9500)

    def test_driver_that_makes_no_interface(self):
        self.kernel.bind = lambda vf, driver: self.kernel.change_device(
            0, netdev=None
        )
        error = self.refused(errors.NotReady, mac=fakes.ADMIN_MAC)
        self.assertIn("it has no interface", str(error))
        self.kernel.bind = lambda vf, driver: None
        self.refused(errors.NotReady, driver="vfio-pci")

    def test_made_up_mac_can_be_made_the_administrative_one(self):
        for driver in ("igb", "i40e", "ice"):
            with self.subTest(driver=driver):
                self.use(driver)
                mac = self.kernel.devices[0].mac
                self.kernel.report(0, mac)
                state = self.set(mac=mac)
                self.assertEqual(mac, state.settings.mac)
                self.assertEqual(1, len(self.kernel.binds))
                self.set(mac=mac)
                self.assertEqual(1, len(self.kernel.binds))

    def test_next_mac_of_an_x710_needs_no_rebind(self):
        self.use("i40e")
        self.set(mac=fakes.ADMIN_MAC)
        self.kernel.binds.clear()
        state = self.set(mac="52:54:00:00:00:02")
        self.assertEqual("52:54:00:00:00:02", state.device.mac)
        self.assertEqual([], self.kernel.binds)

    def test_rebind_that_would_take_a_macvlan_away_is_refused(self):
        self.kernel.change_device(0, uppers=("mv0",))
        for wanted in ({"mac": fakes.ADMIN_MAC}, {"driver": "vfio-pci"}):
            error = self.refused(errors.VfBusy, **wanted)
            self.assertIn("would cut off mv0 on enp1s0v0", str(error))
        self.assertEqual([], self.kernel.writes)
        self.set(vlan=7, trust=True)

    def test_driver_of_an_interface_elsewhere_is_left(self):
        self.kernel.change_device(0, netdev=None, elsewhere=True)
        self.refused(errors.VfBusy, driver="vfio-pci")

    def test_link_is_waited_for(self):
        self.kernel.carrier = False
        clock = self.vfs.clock
        sleep = clock.sleep

        def connect(seconds):
            sleep(seconds)
            self.kernel.carrier = clock.now > 1002

        clock.sleep = connect
        wanted = VfSettings(max_tx_rate=100)
        with self.assertRaises(errors.LinkNeeded):
            self.vfs.plan(self.vf, wanted, wait_s=1)
        self.vfs.plan(self.vf, wanted, wait_s=10)

    def test_many_plans_by_one_request(self):
        self.use("igb", vfs=7)
        wanted = {vf_id(n): VfSettings(vlan=5) for n in range(7)}
        self.vfs.apply_all(self.vfs.plan_all(wanted))
        self.assertEqual(2, self.kernel.reads)
        self.assertEqual(1, len(self.kernel.writes))

    def test_interface_elsewhere_is_not_touched(self):
        self.kernel.change_device(0, netdev=None, elsewhere=True, mac=None)
        made = self.vfs.plan(self.vf, VfSettings(mac=fakes.ADMIN_MAC))
        self.assertIsNone(made.rebind)
        self.assertIn("another network namespace", made.notes[0])
        with self.assertRaises(errors.NoSuchDevice):
            self.vfs.plan(self.vf, VfSettings(mtu=9000))

    def test_interface_attributes(self):
        state = self.set(mtu=9000, promisc=True, allmulti=True)
        self.assertEqual(9000, state.settings.mtu)
        self.assertTrue(state.settings.promisc)
        self.assertEqual([], self.kernel.writes)

    def test_another_driver(self):
        state = self.set(driver="vfio-pci", vlan=5)
        self.assertEqual("vfio-pci", state.driver)
        self.assertIsNone(state.netdev)
        self.assertEqual(5, state.settings.vlan)
        state = self.set(driver="igbvf")
        # Nobody knows the name that it had before.
        self.assertEqual("eth0", state.netdev)

    def test_interface_keeps_its_name_through_a_rebind(self):
        state = self.set(mac=fakes.ADMIN_MAC)
        self.assertEqual("enp1s0v0", state.netdev)

    def test_name_that_somebody_else_has(self):
        self.kernel.taken = ("enp1s0v0",)
        with self.assertLogs("sriov_rt.nic", "WARNING") as logs:
            state = self.set(mac=fakes.ADMIN_MAC)
        self.assertEqual("eth0", state.netdev)
        self.assertIn("was enp1s0v0", logs.output[0])

    def test_order_of_many_is_that_of_the_plans(self):
        plans = [
            self.vfs.plan(vf_id(index), VfSettings(vlan=index + 5))
            for index in (1, 0)
        ]
        states = self.vfs.apply_all(plans)
        self.assertEqual([6, 5], [each.settings.vlan for each in states])
        self.assertEqual(1, len(self.kernel.writes))


class ResetTest(VfsTest):
    def test_what_a_tenant_did_is_undone(self):
        self.use("ixgbe")
        self.kernel.change(0, vlan=9, qos=3, spoofchk=False, trust=True)
        self.kernel.dirty(0)
        state = self.vfs.reset(self.vf)
        self.assertEqual(0, state.settings.vlan)
        self.assertTrue(state.settings.spoofchk)
        self.assertFalse(state.settings.trust)
        self.assertFalse(state.settings.promisc)
        self.assertFalse(state.settings.allmulti)
        self.assertEqual(NO_MAC, state.settings.mac)
        self.assertNotEqual("66:66:66:66:66:66", state.device.mac)

    def test_clean_vf_of_each_family_needs_nothing(self):
        for driver in ("igb", "ixgbe", "i40e", "ice", "nobody"):
            with self.subTest(driver=driver):
                self.use(driver)
                self.assertTrue(self.vfs.plan_reset(self.vf).is_empty)

    def test_what_a_driver_does_not_report_is_tried_each_time(self):
        self.use("sfc")
        (step,) = self.vfs.plan_reset(self.vf).steps
        self.assertEqual("spoofchk unknown -> on", str(step))

    def test_what_is_not_reported_is_written_where_it_is_requested(self):
        self.use("nobody")
        self.kernel.change(0, trust=None)
        self.assertEqual((), self.vfs.plan_reset(self.vf).steps)
        (step,) = self.vfs.plan(self.vf, VfSettings(trust=False)).steps
        self.assertEqual("trust unknown -> off", str(step))

    def test_solarflare_vf_always_has_a_mac(self):
        self.use("sfc")
        with self.assertLogs("sriov_rt.nic", "WARNING"):
            state = self.vfs.reset(self.vf)
        self.assertEqual("02:0f:53:00:00:00", state.settings.mac)
        error = self.refused(errors.UnsupportedByNic, mac=NO_MAC)
        self.assertIn("always has a MAC", str(error))
        self.refused(errors.UnsupportedByNic, vlan=3, qos=1)

    def test_reset_twice_writes_once(self):
        for driver in ("igb", "ixgbe", "i40e", "ice"):
            with self.subTest(driver=driver):
                self.use(driver)
                self.kernel.dirty(0)
                self.kernel.change(0, vlan=9)
                self.vfs.reset(self.vf)
                self.kernel.writes.clear()
                self.kernel.binds.clear()
                self.vfs.reset(self.vf)
                self.assertEqual([], self.kernel.writes + self.kernel.binds)

    def test_a_family_may_have_a_baseline_of_its_own(self):
        row = families.Family(
            name="nobody",
            drivers=frozenset({"igb"}),
            baseline=dataclasses.replace(BASELINE, spoofchk=False),
        )
        known = families.Families((row,))
        found = Vfs(self.kernel, known, fakes.Clock())
        self.kernel.change(0, vlan=9, spoofchk=True)
        state = found.reset(self.vf)
        self.assertEqual(0, state.settings.vlan)
        self.assertIs(False, state.settings.spoofchk)
        self.assertEqual(row.baseline, state.baseline)
        self.assertTrue(found.plan_reset(self.vf).is_empty)
        self.assertNotIn("baseline", table.to_plain(state))

    def test_mac_set_inside_alone_is_undone_by_a_rebind(self):
        self.kernel.change_device(
            0, mac="66:66:66:66:66:66", address_type=ADDRESS_SET
        )
        made = self.vfs.plan_reset(self.vf)
        self.assertIn("66:66:66:66:66:66", made.rebind)

    def test_mac_set_inside_is_undone_with_every_family(self):
        for driver in ("igb", "ixgbe", "i40e", "ice", "nobody"):
            with self.subTest(driver=driver):
                self.use(driver)
                self.kernel.change_device(
                    0, mac="66:66:66:66:66:66", address_type=ADDRESS_SET
                )
                state = self.vfs.reset(self.vf)
                self.assertNotEqual("66:66:66:66:66:66", state.device.mac)
                self.assertEqual(1, len(self.kernel.binds))

    def test_mac_set_inside_gives_way_to_the_ports(self):
        for driver in ("igb", "ixgbe", "i40e", "ice", "sfc", "nobody"):
            with self.subTest(driver=driver):
                self.use(driver)
                self.set(mac=fakes.ADMIN_MAC)
                self.kernel.binds.clear()
                self.kernel.change_device(
                    0, mac="66:66:66:66:66:66", address_type=ADDRESS_SET
                )
                state = self.set(mac=fakes.ADMIN_MAC)
                self.assertEqual(fakes.ADMIN_MAC, state.device.mac)
                self.assertEqual(1, len(self.kernel.binds))

    def test_what_a_nic_lacks_is_left_out(self):
        self.use("sfc")
        self.kernel.change(0, vlan=3)
        with self.assertLogs("sriov_rt.nic", "WARNING") as logs:
            state = self.vfs.reset(self.vf)
        self.assertEqual(0, state.settings.vlan)
        self.assertIn("vf=0000:01:10.0", logs.output[0])
        self.assertIn("spoofchk", logs.output[0])

    def test_right_driver_is_part_of_being_clean(self):
        self.set(driver="vfio-pci")
        self.assertEqual("vfio-pci", self.vfs.reset(self.vf).driver)
        self.assertEqual("igbvf", self.vfs.reset(self.vf, "igbvf").driver)

    def test_interface_elsewhere_is_not_looked_at(self):
        self.kernel.change_device(0, netdev=None, elsewhere=True)
        self.assertTrue(self.vfs.plan_reset(self.vf).is_empty)

    def test_function_reset(self):
        self.vfs.flr(self.vf)
        self.assertEqual([0], self.kernel.flrs)

    def test_fresh_reset_resets_the_function_where_the_family_needs_it(self):
        for driver, flrs in (
            *((each, [0]) for each in ("igb", "ixgbe", "i40e", "ice")),
            *((each, []) for each in ("sfc", "nobody")),
        ):
            with self.subTest(driver=driver):
                self.use(driver)
                made = self.vfs.plan_reset(self.vf, depth=Reset(fresh=True))
                words = "reset its function, whatever its last user has left"
                self.assertEqual(
                    bool(flrs), f"  {words}" in list(made.lines())
                )
                with contextlib.suppress(errors.UnsupportedByNic):
                    self.vfs.apply(made)
                self.assertEqual(flrs, self.kernel.flrs)
                again = self.vfs.plan_reset(self.vf)
                self.assertFalse(again.flr)

    def test_a_function_that_is_not_reset_is_an_error_before_it_is_bound(self):
        self.use("igb")
        made = self.vfs.plan_reset(self.vf, depth=Reset(fresh=True))
        problem = errors.RefusedByNic(f"{self.vf}", None, "no FLR", 25)
        with (
            mock.patch.object(self.kernel, "flr", side_effect=problem),
            self.assertRaises(errors.FunctionNotReset) as caught,
        ):
            self.vfs.apply(made)
        self.assertIn("not reset: no FLR", str(caught.exception))
        self.assertEqual([], self.kernel.binds)

    def test_fresh_reset_binds_the_driver_of_every_family_again(self):
        for driver in ("igb", "ixgbe", "i40e", "ice", "sfc", "nobody"):
            with self.subTest(driver=driver):
                self.use(driver)
                made = self.vfs.plan_reset(self.vf, depth=Reset(fresh=True))
                self.assertIn("as a driver makes it", made.rebind)
                before = self.kernel.devices[0].driver
                with contextlib.suppress(errors.UnsupportedByNic):
                    self.vfs.apply(made)
                self.assertEqual([(0, before)], self.kernel.binds)
                self.assertEqual("enp1s0v0", self.kernel.devices[0].netdev)

    def test_fresh_reset_leaves_what_has_no_interface_of_ours(self):
        for device in (
            VfDevice("vfio-pci", iommu_group=40),
            VfDevice("igbvf", elsewhere=True),
        ):
            with self.subTest(device=device):
                self.kernel.devices[0] = device
                made = self.vfs.plan_reset(self.vf, depth=Reset(fresh=True))
                self.assertIsNone(made.rebind)

    def test_fresh_reset_under_a_macvlan_is_refused(self):
        self.kernel.change_device(0, uppers=("mv0",))
        with self.assertRaises(errors.VfBusy):
            self.vfs.reset(self.vf, depth=Reset(fresh=True))

    def test_vf_without_a_driver_gets_the_one_of_the_kernels_choice(self):
        self.kernel.devices[0] = VfDevice(None)
        made = self.vfs.plan_reset(self.vf)
        self.assertEqual("it has no driver", made.rebind)
        self.assertEqual("igbvf", self.vfs.apply(made).driver)
        self.assertEqual([(0, None)], self.kernel.binds)

    def test_vf_that_gets_a_driver_is_bound_once(self):
        self.kernel.devices[0] = VfDevice(None)
        made = self.vfs.plan_reset(self.vf, "igbvf", depth=Reset(fresh=True))
        self.assertIsNone(made.rebind)
        self.assertEqual("igbvf", self.vfs.apply(made).driver)
        self.assertEqual(1, len(self.kernel.binds))

    def test_vf_that_is_for_guests_stays_without_a_driver(self):
        self.kernel.devices[0] = VfDevice(None)
        self.kernel.probes = False
        self.assertIsNone(
            self.vfs.reset(self.vf, depth=Reset(fresh=True)).driver
        )
        self.assertEqual([], self.kernel.binds)

    def test_trusted_vf_whose_pf_keeps_its_filters_is_marked(self):
        self.kernel.change(0, vlan=9, trust=True)
        for _ in range(2):
            with self.assertRaises(errors.FiltersRemain) as caught:
                self.vfs.reset(self.vf, depth=Reset(fresh=True))
            self.assertIn("enp1s0 keeps MAC filters", str(caught.exception))
            self.assertIn("'sriov-rt vf provision'", str(caught.exception))
            self.assertEqual("enp1s0", caught.exception.pf)
        settings = self.kernel.settings[0]
        self.assertEqual((0, False), (settings.vlan, settings.trust))
        self.assertTrue(self.vfs.observe(self.vf).keeps_filters)
        # It ends when the VFs are made again.
        self.kernel.provision("enp1s0", 0, probe=True)
        self.kernel.provision("enp1s0", 2, probe=True)
        self.vfs.reset(self.vf)

    def test_trusted_parent_of_many_is_for_no_other_tenant(self):
        self.kernel.change(0, vlan=9, trust=True)
        for _ in range(2):
            state = self.vfs.reset(self.vf, depth=Reset(shared=True))
            self.assertIs(False, state.settings.trust)
        with self.assertRaises(errors.FiltersRemain):
            self.vfs.reset(self.vf)

    def test_trust_that_is_taken_away_leaves_filters(self):
        self.set(trust=True)
        self.assertFalse(self.vfs.observe(self.vf).keeps_filters)
        self.set(trust=False)
        self.assertTrue(self.vfs.observe(self.vf).keeps_filters)

    def test_filters_are_marked_before_trust_ends(self):
        for number in range(1, 9):
            self.use("igb")
            self.set(trust=True)
            fakes.killed_at(self.kernel, number, lambda: self.set(trust=False))
            self.assertTrue(
                self.kernel.settings[0].trust
                or self.vfs.observe(self.vf).keeps_filters
            )

    def test_macvlans_set_filters_without_trust(self):
        self.vfs.mark_filters(self.vf)
        with self.assertRaises(errors.FiltersRemain):
            self.vfs.reset(self.vf)
        self.use("i40e")
        self.vfs.mark_filters(self.vf)
        self.assertFalse(self.vfs.observe(self.vf).keeps_filters)
        self.vfs.reset(self.vf)

    def test_trusted_vf_of_other_families_is_bound_again(self):
        for driver in ("ixgbe", "i40e", "ice"):
            with self.subTest(driver=driver):
                self.use(driver)
                self.kernel.change(0, trust=True)
                state = self.vfs.reset(self.vf)
                self.assertIs(False, state.settings.trust)
                self.assertEqual(1, len(self.kernel.binds))


class DriverThatRefusesTest(VfsTest):
    """Drivers' ways to say no to what a reset writes."""

    TENANT = types.MappingProxyType(
        {"mac": "52:54:00:aa:bb:cc", "vlan": 100, "spoofchk": True}
    )

    def reset_after_a_tenant(self):
        self.kernel.change(0, **self.TENANT)
        return self.vfs.reset(self.vf).settings

    def assert_of_nobody(self, mac):
        self.assertRegex(mac, "^02(:[0-9a-f]{2}){5}$")
        self.assertNotEqual(self.TENANT["mac"], mac)

    def test_zeros_that_are_no_mac(self):
        self.use("bnx2x")
        found = self.reset_after_a_tenant()
        self.assert_of_nobody(found.mac)
        self.assertEqual(0, found.vlan)
        again = self.vfs.reset(self.vf).settings
        self.assert_of_nobody(again.mac)

    def test_no_two_vfs_get_the_same_mac(self):
        self.use("bnx2x")
        found = set()
        for index in range(2):
            self.kernel.change(index, **self.TENANT)
            found.add(self.vfs.reset(vf_id(index)).settings.mac)
        self.assertEqual(2, len(found))

    def test_zeros_that_a_tenant_asks_for_are_refused_still(self):
        self.use("bnx2x")
        self.kernel.change(0, **self.TENANT)
        self.refused(errors.RefusedByNic, mac=NO_MAC)
        self.assertEqual(self.TENANT["mac"], self.kernel.settings[0].mac)

    def test_spoof_checking_that_needs_a_mac(self):
        self.use("mlx4_core")
        self.kernel.change(0, spoofchk=False, trust=None, vlan=4095)
        fresh = self.vfs.reset(self.vf).settings
        self.assertTrue(fresh.spoofchk)
        self.assertEqual(0, fresh.vlan)
        self.assert_of_nobody(fresh.mac)
        found = self.reset_after_a_tenant()
        self.assertTrue(found.spoofchk)
        self.assertEqual(0, found.vlan)
        self.assert_of_nobody(found.mac)

    def test_no_vlan_of_mlx4(self):
        self.use("mlx4_core")
        self.kernel.change(0, vlan=4095)
        self.assertEqual(0, self.vfs.observe(self.vf).settings.vlan)
        self.assertEqual(0, self.set(vlan=0).settings.vlan)

    def test_a_reset_goes_on_after_one_refusal_and_names_it(self):
        for refused, code in (("mac", errno.EIO), ("spoofchk", errno.EBUSY)):
            for driver in ("igb", "nobody"):
                with self.subTest(refused, driver=driver):
                    self.use(driver)
                    self.kernel.change(
                        0, **{**self.TENANT, "spoofchk": False, "trust": True}
                    )
                    self.kernel.fail = {refused: [code, ...]}
                    with self.assertRaises(errors.NicError) as caught:
                        self.vfs.reset(self.vf, depth=Reset(fresh=True))
                    self.assertIn(refused, str(caught.exception))
                    after = self.kernel.settings[0]
                    self.assertEqual((0, False), (after.vlan, after.trust))
                    self.assertTrue(self.kernel.binds)

    def test_a_reset_names_each_refusal(self):
        self.kernel.change(
            0, vlan=100, trust=True, spoofchk=False, max_tx_rate=100
        )
        self.kernel.fail = {
            "max_tx_rate": [errno.EINVAL, ...],
            "spoofchk": [errno.EIO, ...],
        }
        with self.assertRaises(errors.SeveralRefused) as caught:
            self.vfs.reset(self.vf)
        told = str(caught.exception)
        for each in (
            "spoofchk: Input/output error (EIO)",
            "max_tx_rate: Invalid argument (EINVAL)",
            errors.RefusedByNic.remedy,
            errors.NicError.remedy,
        ):
            self.assertIn(each, told)
        after = self.kernel.settings[0]
        self.assertEqual((0, False), (after.vlan, after.trust))

    def test_other_vfs_are_reset_in_spite_of_one(self):
        self.use("nobody")
        self.kernel.change(0, **self.TENANT)
        self.kernel.change(1, **self.TENANT)
        plans = self.vfs.plan_resets((vf_id(0), vf_id(1)))
        self.kernel.fail = {"vlan": [errno.EIO, errno.EIO, 0]}
        with self.assertRaises(errors.NicError):
            self.vfs.apply_all(plans)
        self.assertEqual(0, self.kernel.settings[1].vlan)


class UsersTest(VfsTest):
    def setUp(self):
        super().setUp()
        self.users = {}
        self.vfs = fakes.vfs(self.kernel, lambda states: self.users)

    def _refused_all(self):
        for verb in (
            lambda: self.set(vlan=7),
            lambda: self.set(driver="vfio-pci"),
            lambda: self.vfs.plan(self.vf, VfSettings(vlan=7)),
            lambda: self.vfs.reset(self.vf, depth=Reset(fresh=True)),
            lambda: self.vfs.flr(self.vf),
        ):
            with self.assertRaises(errors.VfBusy) as caught:
                verb()
        self.assertEqual([], self.kernel.writes)
        self.assertEqual([], self.kernel.binds + self.kernel.flrs)
        return str(caught.exception)

    def test_vf_with_users_is_left_alone_by_every_verb(self):
        self.users = {
            self.vf.address: Use(ports=("port p1 of web", "mv0 in red"))
        }
        sentence = self._refused_all()
        self.assertIn("in use: port p1 of web, mv0 in red; unplug", sentence)

    def test_vf_whose_interface_is_elsewhere_is_in_use(self):
        self.kernel.change_device(0, netdev=None, elsewhere=True)
        self.assertIn("another network namespace", self._refused_all())

    def test_vf_under_something_that_nobody_finds_is_in_use(self):
        self.kernel.carrying = {"enp1s0v0"}
        self.assertIn("something that cannot be seen", self._refused_all())

    def test_user_that_comes_after_the_plan(self):
        made = self.vfs.plan(self.vf, VfSettings(vlan=7))
        self.users = {self.vf.address: Use(ports=("port p1 of web",))}
        with self.assertRaises(errors.VfInUse):
            self.vfs.apply(made)
        self.assertEqual([], self.kernel.writes)

    def test_other_vfs_are_not_in_use(self):
        self.users = {vf_id(1).address: Use(ports=("port p1 of web",))}
        self.set(vlan=7)

    def test_restore_takes_it_from_vfio_and_cleans_it(self):
        self.set(driver="vfio-pci", vlan=7)
        found = self.vfs.restore(self.vf)
        self.assertNotEqual("vfio-pci", found.driver)
        self.assertIsNotNone(found.netdev)
        self.assertEqual(0, found.settings.vlan)

    def test_restore_leaves_one_in_use_alone(self):
        self.set(driver="vfio-pci", vlan=7)
        self.users = {
            self.vf.address: Use(guest="instance i1", driver="vfio-pci")
        }
        binds = list(self.kernel.binds)
        with self.assertRaises(errors.VfInUse):
            self.vfs.restore(self.vf)
        self.assertEqual(binds, self.kernel.binds)
        self.assertEqual("vfio-pci", self.vfs.observe(self.vf).driver)

    def test_nothing_to_do_harms_nobody(self):
        self.users = {self.vf.address: Use(ports=("port p1 of web",))}
        self.assertTrue(self.vfs.plan_reset(self.vf).is_empty)


class ErrorTest(VfsTest):
    def test_transient_error_is_waited_out(self):
        self.use("i40e")
        self.set(trust=True)
        self.assertEqual(3, self.kernel.resetting[0])
        self.set(vlan=7)
        self.assertEqual(0, self.kernel.resetting[0])

    def test_ice_says_ebusy_while_a_vf_resets(self):
        self.use("ice")
        self.kernel.resetting[0] = 2
        self.assertEqual(7, self.set(vlan=7).settings.vlan)

    def test_wait_has_a_bound(self):
        self.use("i40e")
        self.kernel.resetting[0] = 10**6
        error = self.refused(errors.TryAgain, vlan=7)
        self.assertEqual("vlan", error.attribute)
        self.assertEqual(errno.EAGAIN, error.code)

    def test_each_errno_has_its_name_and_attribute(self):
        self.assertIn(
            "(EOPNOTSUPP)", str(errors.from_errno(errno.EOPNOTSUPP, "x"))
        )
        for code, kind in (
            (errno.EROFS, errors.ReadOnly),
            (524, errors.UnsupportedByNic),
            (errno.EBUSY, errors.VfBusy),
            (errno.EOPNOTSUPP, errors.UnsupportedByNic),
            (errno.ENODEV, errors.NoSuchDevice),
            (errno.ERANGE, errors.OutOfRange),
            (errno.EINVAL, errors.RefusedByNic),
            (errno.ENOMEM, errors.NicError),
            (errno.EIO, errors.NicError),
        ):
            with self.subTest(code=code):
                self.use("igb")
                self.kernel.fail = {"spoofchk": [code, ...]}
                error = self.refused(kind, spoofchk=False, vlan=3)
                self.assertEqual("spoofchk", error.attribute)
                self.assertEqual("enp1s0/0", error.device)
                self.assertEqual(code, error.code)
                self.assertIn(kind.remedy, str(error))

    def test_a_privilege_is_missing_only_where_it_is(self):
        for has, kind in (
            (False, errors.NotPermitted),
            (True, errors.RefusedByDriver),
        ):
            for code in (errno.EPERM, errno.EACCES):
                with (
                    self.subTest(has=has, code=code),
                    mock.patch.object(
                        errors, "is_net_admin", return_value=has
                    ),
                ):
                    self.use("igb")
                    self.kernel.fail = {"spoofchk": [code, ...]}
                    self.refused(kind, spoofchk=False)

    def test_who_is_net_admin(self):
        for effective, users, expected in (
            ("0000003fffffffff", "         0          0 4294967295\n", True),
            ("0000000000001000", "         0          0 4294967295\n", True),
            ("0000003fffffefff", "         0          0 4294967295\n", False),
            ("0000003fffffffff", "         0       1000          1\n", False),
        ):
            texts = {"status": f"CapEff:\t{effective}\n", "uid_map": users}

            def read(path, texts=texts):
                return texts[path.name]

            with (
                self.subTest(effective, users=users),
                mock.patch.object(pathlib.Path, "read_text", read),
            ):
                self.assertIs(expected, errors.is_net_admin())

    def test_the_remedy_depends_on_what_was_written(self):
        for code, attribute, words in (
            (errno.ENOSPC, "mac", "free MAC or VLAN filters"),
            (errno.ENOMEM, "vlan", "free MAC or VLAN filters"),
            (errno.ENOSPC, "max_tx_rate", "dmesg"),
            (errno.ENOSPC, "vfs", "make fewer VFs"),
            (errno.ENOMEM, "vfs", "pci=realloc"),
            (errno.EINVAL, "vfs", "sriov_totalvfs"),
            (errno.ENOSYS, "vfs", "num_vfs"),
            (errno.EIO, "vfs", "dmesg"),
            (errno.EBUSY, "vfs", "stop what uses it"),
        ):
            with self.subTest(errno.errorcode[code], attribute=attribute):
                told = str(errors.from_errno(code, "enp1s0", attribute))
                self.assertIn(words, told)

    def test_vf_that_vanishes_is_no_bad_value(self):
        made = self.vfs.plan(self.vf, VfSettings(vlan=3))
        del self.kernel.settings[0], self.kernel.devices[0]
        with self.assertRaises(errors.NoSuchDevice):
            self.vfs.apply(made)

    def test_value_that_does_not_stick(self):
        self.use("truncating")
        error = self.refused(errors.VerifyFailed, max_tx_rate=99)
        self.assertEqual((("max_tx_rate", 99, 50),), error.differences)

    def test_interface_that_does_not_follow_its_mac(self):
        self.use("i40e")
        self.kernel.change_device(0, address_type=0)
        self.kernel.stuck = True
        error = self.refused(errors.VerifyFailed, mac=fakes.ADMIN_MAC)
        ((name, wanted, found),) = error.differences
        self.assertEqual("the interface's mac", name)
        self.assertEqual(fakes.ADMIN_MAC, wanted)
        self.assertEqual("be:ef:00:00:00:00", found)

    def test_one_bad_vf_does_not_hide_behind_another(self):
        plans = [
            self.vfs.plan(vf_id(index), VfSettings(link_state=None, vlan=3))
            for index in (0, 1)
        ]
        del self.kernel.settings[1], self.kernel.devices[1]
        with self.assertRaises(errors.NoSuchDevice) as caught:
            self.vfs.apply_all(plans)
        self.assertEqual("enp1s0/1", caught.exception.device)

    def test_link_state_is_refused_before_anything_is_touched(self):
        error = self.refused(
            errors.UnsupportedByNic, link_state=LinkState.ENABLE
        )
        self.assertEqual([], self.kernel.writes)
        self.assertIn("no ndo_set_vf_link_state", str(error))
