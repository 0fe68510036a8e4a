# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
from unittest import mock

from sriov_rt.cmd import device
from sriov_rt.cmd import main
from sriov_rt.devices import cleaning
from sriov_rt.devices import settings
from sriov_rt.host import reserved_devices
from sriov_rt.placement.resource_provider import PlacementUnreachable
from tests.unit.devices import fakes

OTHER = "0000:42:00.0"


class DeviceCommandTest(fakes.DevicesTest):
    def setUp(self):
        super().setUp()
        self.settings = mock.Mock(node=fakes.NODE, clean=("*",))
        self.settings.placement.side_effect = lambda: self.placement
        for place, name, value in (
            (settings, "configured", lambda files: self.settings),
            (device, "Root", lambda: self.tree.root),
        ):
            self.enterContext(mock.patch.object(place, name, value))

    def run_command(self, *words, code=0):
        printed, self.told = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(self.told),
        ):
            self.assertEqual(
                code, main.main(["device", *words]), self.told.getvalue()
            )
        return printed.getvalue()

    def record(self):
        found = self.tree.path / reserved_devices.PATH
        return json.loads(found.read_text())["devices"]

    def test_clean(self):
        self.assertEqual(
            f"{fakes.ADDRESS}: cleaned by flr, and un-reserved\n",
            self.run_command("clean"),
        )
        self.assertTrue(self.was_reset())
        self.assertEqual(0, self.placement.reserved)
        self.assertEqual([], self.record())

    def test_a_device_that_stays_reserved_is_found(self):
        self.tree.write(f"{fakes.DEVICE}/sriov_numvfs", "2\n")
        printed = self.run_command("clean", code=1)
        self.assertIn(f"{fakes.ADDRESS}: reserved: ", printed)
        (found,) = json.loads(self.run_command("clean", "--json", code=1))
        self.assertEqual("reserved", found["state"])
        self.assertEqual("device_has_vfs", found["reason"]["code"])
        self.assertEqual(2, found["reason"]["vfs"])
        (kept,) = self.record()
        self.assertEqual("device_has_vfs", kept["code"])

    def test_a_dry_run_changes_nothing(self):
        printed = self.run_command("clean", "--dry-run")
        self.assertIn("due: reset by flr", printed)
        self.assertFalse(self.was_reset())
        self.assertFalse((self.tree.path / cleaning.LOCK).exists())
        self.assertFalse((self.tree.path / reserved_devices.PATH).exists())

    def test_nothing_is_cleaned_unless_it_is_named(self):
        self.settings.clean = ()
        self.assertIn("nothing to do", self.run_command("clean"))
        self.settings.placement.assert_not_called()
        printed = self.run_command("clean", "--dry-run")
        self.assertIn("[devices] clean does not name it", printed)
        printed = self.run_command("clean", "41:00.0")
        self.assertIn("cleaned by flr", printed)

    def test_only_what_is_named_is_cleaned(self):
        fakes.put_device(self.tree, OTHER)
        self.placement.add(OTHER)
        printed = self.run_command("clean", OTHER)
        self.assertEqual(
            f"{OTHER}: cleaned by flr, and un-reserved\n", printed
        )
        self.assertFalse(self.was_reset())
        # It knows nothing of the others.
        self.assertFalse((self.tree.path / reserved_devices.PATH).exists())

    def test_a_device_that_placement_does_not_have(self):
        printed = self.run_command("clean", "0000:43:00.0", code=1)
        self.assertIn("no resource provider rt-1_0000:43:00.0", printed)

    def test_no_device(self):
        self.placement.providers.clear()
        self.assertIn("no one-time-use device", self.run_command("clean"))

    def test_what_cannot_be_done_is_an_error(self):
        self.assertEqual("", self.run_command("clean", "enp1s0", code=2))
        self.assertIn("PCI address", self.told.getvalue())
        with cleaning.alone(self.tree.root):
            self.run_command("clean", code=2)
        self.assertIn("another 'sriov-rt device clean'", self.told.getvalue())

        def fail(request):
            raise PlacementUnreachable("no route to host")

        self.placement.before = fail
        self.run_command("clean", code=2)
        self.assertIn("no answer from Placement", self.told.getvalue())
        self.assertFalse(self.was_reset())
