# SPDX-License-Identifier: Apache-2.0

import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from sriov_rt.codec import Unknown
from sriov_rt.nic import errors
from sriov_rt.nic import provision
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.provision import Amount
from sriov_rt.nic.provision import Mode
from sriov_rt.nic.use import Use
from sriov_rt.parse.errors import ParseError
from tests.unit.nic import fakes


class AmountsTest(unittest.TestCase):
    def test_each_form(self):
        self.assertEqual(
            (
                Amount("enp1s0", 4, Mode.HOST),
                Amount("enp2s0", 8, Mode.GUESTS),
            ),
            provision.parse(["enp1s0:4", " enp2s0:8:guests"], Mode.HOST),
        )

    def test_what_is_refused(self):
        for words in (
            ["enp1s0"],
            ["enp1s0:"],
            ["enp1s0:-1"],
            ["enp1s0:65536"],
            ["enp1s0:1:both"],
            ["a/b:1"],
            ["enp1s0:1", "enp1s0:2"],
            ["e:1:host:x"],
            ["e:" + "0" * 99],
            [f"e{n}:1" for n in range(300)],
        ):
            with self.subTest(words=words), self.assertRaises(ParseError):
                provision.parse(words, Mode.HOST)

    @settings(derandomize=True, max_examples=200, deadline=None)
    @given(st.lists(st.text(max_size=80), max_size=3))
    def test_any_words_are_amounts_or_an_error(self, words):
        try:
            provision.parse(words, Mode.HOST)
        except ParseError as error:
            self.assertLess(len(str(error)), 500)


class MacsTest(unittest.TestCase):
    def parse(self, *words):
        amounts = provision.parse(
            ["enp1s0:4", "enp2s0:2", "enp3s0:2:guests"], Mode.HOST
        )
        return provision.with_macs(amounts, words)

    def test_consecutive(self):
        first, second, third = self.parse(" enp1s0:02:00:5E:10:00:fe")
        self.assertEqual("02:00:5e:10:00:fe", first.mac_of(0))
        self.assertEqual("02:00:5e:10:01:01", first.mac_of(3))
        self.assertIsNone(second.mac_of(0))
        self.assertIsNone(third.mac)

    def test_what_is_refused(self):
        mac = "02:00:5e:10:00:00"
        for words in (
            ["enp1s0"],
            [mac],
            ["enp1s0:02:00:5e:10:00"],
            ["enp1s0:01:00:5e:10:00:00"],
            [f"enp3s0:{mac}"],
            [f"enp9s0:{mac}"],
            [f"enp1s0:{mac}", "enp1s0:02:00:5e:20:00:00"],
            [f"enp1s0:{mac}", "enp2s0:02:00:5e:10:00:03"],
            ["enp1s0:fe:ff:ff:ff:ff:fe", "enp1s0:" + "0" * 99],
            ["enp1s0:fe:ff:ff:ff:ff:ff:ff"],
            # VF 3 would have the MAC of a group, or none.
            ["enp1s0:00:ff:ff:ff:ff:fe"],
            ["enp1s0:fe:ff:ff:ff:ff:fe"],
            ["enp1s0:00:00:00:00:00:00"],
        ):
            with self.subTest(words=words), self.assertRaises(ParseError):
                self.parse(*words)


class ProvisionTest(unittest.TestCase):
    def setUp(self):
        self.kernel = fakes.FakeKernel(vfs=0)
        self.told = []
        self.held = None
        self.users = {}

    def run_it(self, number, mode=Mode.HOST, mac=None):
        work = provision.Provisioning(
            fakes.vfs(self.kernel),
            lambda vf, device: self.held,
            lambda states: self.users,
            self.told.append,
        )
        plans = work.plan([Amount("enp1s0", number, mode, mac)], 0.0)
        work.apply(plans)
        return plans[0]

    def with_vfs(self, number):
        self.kernel = fakes.FakeKernel(vfs=number)
        return self.kernel

    def test_from_none(self):
        self.run_it(4)
        self.assertEqual([(4, True)], self.kernel.made)
        self.assertEqual(["making 4 VFs of enp1s0"], self.told)

    def test_vf_that_others_use_stays(self):
        kernel = self.with_vfs(2)
        for find in (
            lambda: self.users.update(
                {"0000:01:10.1": Use(ports=("port p1 of web",))}
            ),
            lambda: kernel.carrying.add("enp1s0v1"),
            lambda: kernel.with_address.add("enp1s0v1"),
        ):
            find()
            with self.assertRaises(errors.VfsInUse) as caught:
                self.run_it(4)
            ((vf, user),) = caught.exception.users
            self.assertEqual("enp1s0/1", vf)
            self.assertRegex(
                user, "^port p1 of web$|cannot be seen$|an address$"
            )
            self.users.clear()
            kernel.carrying.clear()
        self.assertEqual([], kernel.made)

    def test_vf_that_another_gives_out_stays(self):
        kernel = self.with_vfs(2)
        fakes.refused_while_another_holds(
            self, kernel, "0000:01:10.1", lambda: self.run_it(4)
        )
        self.assertEqual([], kernel.made)

    def macs(self):
        return [each.mac for each in self.kernel.devices.values()]

    def test_macs_of_the_hosts_own_vfs(self):
        first = "02:00:5e:20:00:00"
        pool = [first, "02:00:5e:20:00:01"]
        made = self.run_it(2, mac=first)
        self.assertIn(f"  MACs of idle VFs: from {first}", made.lines())
        self.assertEqual(pool, self.macs())
        # Its driver was loaded again behind our back.
        self.kernel.change_device(0, mac="66:66:66:66:66:66")
        self.kernel.change_device(1, mac="66:66:66:66:66:67", up=True)
        with self.assertLogs("sriov_rt.nic.provision", "WARNING") as logged:
            self.run_it(2, mac=first)
        self.assertEqual([first, "66:66:66:66:66:67"], self.macs())
        self.assertIn("enp1s0v1 is up", logged.output[0])
        self.kernel.change_device(1, up=False)
        self.run_it(2, mac=first)
        self.assertEqual(pool, self.macs())

    def test_no_mac_of_a_vf_that_another_is_about_to_use(self):
        first = "02:00:5e:20:00:00"
        self.run_it(2, mac=first)
        given = "66:66:66:66:66:66"
        self.kernel.change_device(0, mac=given)
        vf = fakes.vf_id(0).address
        with (
            fakes.locked_by_another(self.kernel.tenancies, vf),
            self.assertRaises(errors.Locked),
        ):
            self.run_it(2, mac=first)
        self.assertEqual(given, self.macs()[0])

    def test_an_interface_that_udev_renames_meanwhile(self):
        """It does so with each one, right after a driver has made it."""
        first = "02:00:5e:10:00:00"
        set_mac = self.kernel.set_mac

        def renamed(netdev, mac):
            number = int(netdev[-1])
            if not netdev.startswith("ens1"):
                self.kernel.change_device(number, netdev=f"ens1v{number}")
                raise errors.NoSuchDevice(netdev)
            set_mac(netdev, mac)

        self.kernel.set_mac = renamed
        self.run_it(2, mac=first)
        self.assertEqual([first, "02:00:5e:10:00:01"], self.macs())

    def test_macs_of_vfs_that_came_up_at_once(self):
        provide = self.kernel.provision

        def provided(*args, **more):
            provide(*args, **more)
            self.kernel.change_device(0, up=True)
            self.users["0000:01:10.1"] = Use(ports=("port p1 of web",))

        self.kernel.provision = provided
        first = "02:00:5e:20:00:00"
        with self.assertLogs("sriov_rt.nic.provision", "WARNING") as logged:
            self.run_it(2, mac=first)
        self.assertEqual(first, self.macs()[0])
        self.assertIn("port p1 of web", logged.output[0])

    def test_for_guests_no_driver_is_bound(self):
        self.run_it(4, Mode.GUESTS)
        self.assertEqual([(4, False)], self.kernel.made)

    def test_again_does_nothing(self):
        self.run_it(4)
        self.assertTrue(self.run_it(4).is_empty)
        self.assertEqual([(4, True)], self.kernel.made)
        self.assertEqual(1, len(self.told))

    def test_another_number_goes_through_none(self):
        self.with_vfs(2)
        made = self.run_it(4)
        self.assertEqual([(0, True), (4, True)], self.kernel.made)
        self.assertEqual(
            ["enp1s0: VFs 2 -> 0 -> 4, for host"], list(made.lines())
        )

    def test_to_none(self):
        self.with_vfs(2)
        self.run_it(0)
        self.assertEqual([(0, True)], self.kernel.made)

    def test_mode_alone_leaves_the_vfs(self):
        self.with_vfs(2)
        made = self.run_it(2, Mode.GUESTS)
        self.assertIn("keep the drivers", made.notes[0])
        self.assertFalse(self.kernel.probes)
        self.assertEqual(2, len(self.kernel.settings))

    def test_vfs_in_use_stay_and_are_named(self):
        for fields, user in (
            ({"netdev": None, "elsewhere": True}, "another network namespace"),
            ({"up": True}, "enp1s0v1 is up"),
            ({"uppers": ("mv0", "mv1")}, "mv0, mv1 on enp1s0v1"),
        ):
            with self.subTest(fields=fields):
                self.with_vfs(2).change_device(1, **fields)
                with self.assertRaises(errors.VfsInUse) as caught:
                    self.run_it(4)
                ((vf, told),) = caught.exception.users
                self.assertEqual("enp1s0/1", vf)
                self.assertIn(user, told)
                self.assertEqual([], self.kernel.made)

    def test_an_alias_keeps_no_vf(self):
        # Root in the container that had it could have set one.
        self.with_vfs(2).change_device(1, alias="sriov-rt:port:vm", up=False)
        self.run_it(4)
        self.assertEqual([(0, True), (4, True)], self.kernel.made)

    def test_vf_of_a_guest_is_in_use_while_a_process_holds_it(self):
        kernel = self.with_vfs(2)
        kernel.devices[0] = VfDevice("vfio-pci", iommu_group=40)
        for held, told in (
            ("pid 7 qemu", "pid 7 qemu"),
            (Unknown("hidden"), "a guest perhaps"),
        ):
            self.held = held
            with self.assertRaises(errors.VfsInUse) as caught:
                self.run_it(4)
            self.assertIn(told, str(caught.exception))
        self.held = None
        self.run_it(4)

    def test_vfs_in_use_do_not_matter_if_their_number_is_right(self):
        self.with_vfs(2).change_device(1, up=True)
        self.assertTrue(self.run_it(2).is_empty)

    def test_more_than_it_can_have(self):
        self.kernel.total = 8
        with self.assertRaises(errors.OutOfRange) as caught:
            self.run_it(8)
        self.assertIn("it can have 7", str(caught.exception))

    def test_pf_that_never_comes(self):
        with self.assertRaises(errors.NoSuchDevice):
            provision.Provisioning(
                fakes.vfs(self.kernel),
                lambda vf, device: None,
                lambda states: {},
                print,
            ).plan([Amount("enp9s0", 1, Mode.HOST)], 5.0)

    def test_pf_that_comes_late(self):
        pf = self.kernel.pf
        answers = [errors.NoSuchDevice("enp1s0")] * 3

        def late(name):
            if answers:
                raise answers.pop()
            return pf(name)

        self.kernel.pf = late
        work = provision.Provisioning(
            fakes.vfs(self.kernel),
            lambda vf, device: None,
            lambda states: {},
            print,
        )
        (made,) = work.plan([Amount("enp1s0", 4, Mode.HOST)], 5.0)
        self.assertEqual((4,), made.numbers)

    def test_vfs_whose_pf_was_deaf_are_bound_again(self):
        self.with_vfs(0).deaf = 2
        self.run_it(4)
        self.assertEqual([(0, None), (1, None)], self.kernel.binds)
        self.assertEqual(
            [device.mac for device in self.kernel.devices.values()],
            [each.mac for each in self.kernel.read("enp1s0").values()],
        )

    def test_vfs_that_were_there_are_not_bound_again(self):
        self.with_vfs(4).probes = False
        self.kernel.change_device(0, mac="66:66:66:66:66:66")
        self.assertEqual((4,), self.run_it(4).numbers)
        self.assertEqual([], self.kernel.binds)

    def test_vfs_that_do_not_come_up(self):
        for spoil, problem in (
            (lambda k: k.change_device(1, netdev=None), "1 VFs have no inter"),
            (lambda k: setattr(k, "carrier", False), "lost its carrier"),
            (lambda k: k.settings.clear(), "it has 0 VFs and not 4"),
        ):
            with self.subTest(problem=problem):
                kernel = self.kernel = fakes.FakeKernel(vfs=0)
                provide = kernel.provision

                def provision_and_spoil(
                    *args, kernel=kernel, provide=provide, spoil=spoil, **more
                ):
                    provide(*args, **more)
                    spoil(kernel)

                kernel.provision = provision_and_spoil
                with self.assertRaises(errors.NotReady) as caught:
                    self.run_it(4)
                self.assertIn(problem, str(caught.exception))

    def test_plan_as_plain_values(self):
        made = provision.make(
            fakes.vfs(self.kernel).families.of(self.kernel.pf("enp1s0")),
            self.kernel.pf("enp1s0"),
            Amount("enp1s0", 0, Mode.GUESTS),
            (),
        )
        self.assertEqual(
            {
                "pf": "enp1s0",
                "now": 0,
                "asked": 0,
                "mode": "guests",
                "mac": None,
                "numbers": [0],
                "notes": [],
            },
            made.to_plain(),
        )
