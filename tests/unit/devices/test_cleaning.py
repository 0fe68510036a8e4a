# SPDX-License-Identifier: Apache-2.0

import contextlib
import unittest

from sriov_rt.devices import cleaning
from sriov_rt.devices.cleaning import State
from sriov_rt.devices.one_time_use import Inventory
from sriov_rt.devices.providers import DeviceProvider
from sriov_rt.devices.providers import DeviceProviders
from sriov_rt.devices.sysfs import Devices
from sriov_rt.host import reserved_devices
from sriov_rt.placement import resource_provider
from tests.unit import signatures
from tests.unit.devices import fakes

NOW = 1_800_000_000.0


class Killed(BaseException):
    """The end of the program, as SIGKILL makes it."""


class MeddledDevices(Devices):
    """Devices that something happens to while they are reset."""

    def __init__(self, root, meddle):
        super().__init__(root)
        self._meddle = meddle

    def reset(self, address):
        found = super().reset(address)
        self._meddle()
        return found


class CleaningTestCase(fakes.DevicesTest):
    def setUp(self):
        super().setUp()

    def run_all(self, dry=False, **parts):
        return [*self.cleaning(**parts).run(dry=dry)]

    def run_one(self, dry=False, **parts):
        (found,) = self.run_all(dry=dry, **parts)
        return found

    def stays(self, code, **parts):
        found = self.run_one(**parts)
        self.assertEqual(State.RESERVED, found.state)
        self.assertEqual(code, found.reason.code)
        self.assertEqual(1, self.placement.reserved)
        self.assertIn(found.reason.message, found.line())
        return found


class CleaningTest(CleaningTestCase):
    def test_a_device_that_is_due_is_reset_and_given_back(self):
        found = self.run_one()
        self.assertEqual(
            (fakes.ADDRESS, State.CLEANED, "flr", None),
            (found.name, found.state, found.method, found.reason),
        )
        self.assertTrue(self.was_reset())
        self.assertEqual(0, self.placement.reserved)
        self.assertEqual(State.AVAILABLE, self.run_one().state)
        self.assertEqual([f"{fakes.ADDRESS}: reset by flr"], self.reports)

    def test_a_dry_run_does_nothing(self):
        found = self.run_one(dry=True)
        self.assertEqual((State.DUE, "flr"), (found.state, found.method))
        self.assertFalse(self.was_reset())
        self.assertEqual([], self.reports)
        self.assertEqual(1, self.placement.reserved)

    def test_what_is_not_chosen_is_left_out(self):
        self.assertEqual(State.LEFT_OUT, self.run_one(chosen=False).state)
        self.assertFalse(self.was_reset())

    def test_a_device_of_an_instance_is_left_alone(self):
        self.placement.allocate()
        for reserved in (1, 0):
            self.placement.set_reserved(reserved)
            self.assertEqual(State.ALLOCATED, self.run_one().state)
        self.assertFalse(self.was_reset())

    def test_what_forbids_a_reset_is_the_reason(self):
        self.tree.write(f"{fakes.DEVICE}/sriov_numvfs", "2\n")
        self.stays("device_has_vfs")
        self.assertFalse(self.was_reset())
        self.tree.link("proc/5151/fd/9", "/dev/vfio/41")
        self.stays("device_held")
        self.assertFalse(self.was_reset())
        self.tree.remove(fakes.DEVICE)
        self.stays("device_missing")

    def test_a_reset_that_fails_is_the_reason(self):
        self.tree.remove(f"{fakes.DEVICE}/reset")
        self.stays("device_not_reset")

    def test_a_device_that_is_lost_by_its_reset_stays_reserved(self):
        def lose():
            self.tree.write(f"{fakes.DEVICE}/config", b"\xff" * 64)

        devices = MeddledDevices(self.tree.root, lose)
        self.stays("device_lost", devices=devices)

    def test_a_device_that_goes_by_its_reset_stays_reserved(self):
        devices = MeddledDevices(
            self.tree.root, lambda: self.tree.remove(fakes.DEVICE)
        )
        self.stays("device_missing", devices=devices)

    def test_a_device_that_counts_errors_stays_reserved(self):
        def fail():
            path = f"{fakes.DEVICE}/aer_dev_fatal"
            self.tree.write(path, "DLP 3\nTOTAL_ERR_FATAL 3\n")

        devices = MeddledDevices(self.tree.root, fail)
        self.stays("device_not_clean", devices=devices)

    def test_a_process_that_comes_meanwhile_has_it(self):
        def open_it():
            self.tree.link("proc/4242/fd/9", "/dev/vfio/41")

        devices = MeddledDevices(self.tree.root, open_it)
        self.stays("device_held", devices=devices)

    def test_one_device_that_fails_does_not_stop_another(self):
        self.placement.add("0000:42:00.0")
        first, second = self.run_all()
        self.assertEqual(State.CLEANED, first.state)
        self.assertEqual("device_missing", second.reason.code)


class RaceTest(CleaningTestCase):
    """Others write while a device is cleaned."""

    def meddle(self, request, act, times=1):
        """Have something happen before a request, by its number."""
        seen = []

        def before(name):
            if name == request:
                seen.append(name)
                if len(seen) == times:
                    act()

        self.placement.before = before

    def test_an_allocation_at_any_time_keeps_it(self):
        for request, times, code in (
            ("allocations", 2, "device_provider_changed"),
            ("holding", 2, "device_provider_changed"),
            ("unreserve", 1, "device_provider_changed"),
        ):
            with self.subTest(request):
                self.placement = fakes.FakePlacement()
                self.meddle(request, self.placement.allocate, times)
                self.stays(code)

    def test_an_allocation_between_the_first_two_reads_is_seen(self):
        self.meddle("allocations", self.placement.allocate)
        self.assertEqual(State.ALLOCATED, self.run_one().state)
        self.assertFalse(self.was_reset())

    def test_one_that_came_and_went_is_seen_by_the_generation(self):
        def come_and_go():
            self.placement.allocate()
            self.placement.consumers[fakes.UUID].clear()

        self.meddle("allocations", come_and_go)
        self.stays("device_provider_changed")
        self.assertFalse(self.was_reset())
        for request in ("holding", "unreserve"):
            with self.subTest(request):
                times = 2 if request == "holding" else 1
                self.meddle(request, come_and_go, times)
                self.stays("device_provider_changed")

    def test_who_unreserves_it_by_hand_is_not_overruled(self):
        self.meddle("holding", lambda: self.placement.set_reserved(0), 2)
        found = self.run_one()
        self.assertEqual("device_provider_changed", found.reason.code)


class KillTest(CleaningTestCase):
    """Whatever ends the program leaves the device reserved, or clean."""

    def kill_at(self, wanted):
        """End the program before its step of a number."""
        steps = []

        def step(*_):
            steps.append(None)
            if len(steps) == wanted:
                raise Killed

        self.placement.before = step
        devices = Devices(self.tree.root)
        for name in ("observe", "reset"):
            real = getattr(devices, name)
            setattr(
                devices,
                name,
                lambda *args, real=real: [step(), real(*args), step()][1],
            )
        with contextlib.suppress(Killed):
            self.run_all(devices=devices)
        return len(steps)

    def test_a_kill_at_each_step(self):
        every = self.kill_at(0)
        self.assertEqual(0, self.placement.reserved)
        self.assertGreater(every, 8)
        for wanted in range(1, every + 1):
            with self.subTest(wanted):
                self.placement = fakes.FakePlacement()
                self.tree.remove(f"{fakes.DEVICE}/reset")
                self.tree.write(f"{fakes.DEVICE}/reset", "")
                self.kill_at(wanted)
                self.assertEqual(1, self.placement.reserved)
                self.placement.before = lambda request: None
                self.assertEqual(State.CLEANED, self.run_one().state)
                self.assertTrue(self.was_reset())


class OddPlacementTest(CleaningTestCase):
    def test_a_provider_of_another_name_is_refused(self):
        for name, parent in (
            ("rt-1", fakes.ROOT),
            (f"rt-2_{fakes.ADDRESS}", fakes.ROOT),
            (f"rt-1_{fakes.ADDRESS}", fakes.UUID),
            (f"rt-1_{fakes.ADDRESS}", None),
        ):
            with self.subTest(name, parent=parent):
                self.placement.providers = {
                    fakes.UUID: DeviceProvider(fakes.UUID, name, parent)
                }
                self.assertEqual(name, self.stays("device_unnamed").name)
        self.assertFalse(self.was_reset())

    def test_an_inventory_of_several_classes_is_refused(self):
        self.placement.inventories[fakes.UUID]["PCPU"] = Inventory(
            1, 1, 1, 1, 1, 1.0
        )
        self.stays("device_inventory_odd")
        self.assertFalse(self.was_reset())

    def test_a_placement_that_goes_silent_is_the_reason(self):
        for request in ("holding", "unreserve"):
            for error in (
                resource_provider.PlacementUnreachable("timed out"),
                resource_provider.PlacementRefused(
                    "GET /x", 404, "it is gone"
                ),
            ):

                def fail(name, request=request, error=error):
                    if name == request:
                        raise error

                self.placement.before = fail
                with self.subTest(request, error=error):
                    self.stays("device_placement_failed")

    def test_a_placement_that_lists_nothing_ends_the_run(self):
        for request in ("find", "list"):

            def fail(name, request=request):
                if name == request:
                    raise resource_provider.PlacementUnreachable("no route")

            self.placement.before = fail
            with self.assertRaises(resource_provider.PlacementUnreachable):
                self.run_all()

    def test_no_device_is_no_result(self):
        self.placement.providers.clear()
        self.assertEqual([], self.run_all())


class AloneTest(fakes.DevicesTest):
    def test_one_run_at_a_time(self):
        with (
            cleaning.alone(self.tree.root),
            self.assertRaisesRegex(cleaning.CleaningRuns, "wait until"),
            cleaning.alone(self.tree.root),
        ):
            pass
        with cleaning.alone(self.tree.root):
            pass

    def test_a_directory_that_is_not_roots_is_refused(self):
        directory = self.tree.path / "run/sriov-rt"
        directory.chmod(0o777)
        with (
            self.assertRaisesRegex(cleaning.RecordUnwritable, "by others"),
            cleaning.alone(self.tree.root),
        ):
            pass
        self.tree.remove("run/sriov-rt")
        with (
            self.assertRaisesRegex(cleaning.RecordUnwritable, "tmpfiles"),
            cleaning.alone(self.tree.root),
        ):
            pass


class RecordTest(CleaningTestCase):
    def test_the_agent_reads_what_stays_reserved(self):
        self.tree.write(f"{fakes.DEVICE}/sriov_numvfs", "2\n")
        outcomes = self.run_all()
        cleaning.keep(self.tree.root, outcomes, NOW)
        (found,) = reserved_devices.observe(self.tree.root, NOW + 60)
        self.assertEqual(
            (fakes.ADDRESS, "device_has_vfs"), (found.address, found.code)
        )
        self.assertIn(found.remedy, found.message)
        self.tree.write(f"{fakes.DEVICE}/sriov_numvfs", "0\n")
        cleaning.keep(self.tree.root, self.run_all(), NOW)
        self.assertEqual((), reserved_devices.observe(self.tree.root, NOW))

    def test_a_record_that_cannot_be_written_is_said(self):
        self.tree.remove("run/sriov-rt")
        with self.assertRaisesRegex(cleaning.RecordUnwritable, "as root"):
            cleaning.keep(self.tree.root, [], NOW)


class FakeTest(unittest.TestCase):
    def test_the_fake_takes_what_placement_takes(self):
        self.assertEqual(
            [], signatures.differences(fakes.FakePlacement, DeviceProviders)
        )
