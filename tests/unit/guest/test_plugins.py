# SPDX-License-Identifier: Apache-2.0

"""Hooks come from entry points, ours first and in their order."""

import types
import unittest
from unittest import mock

from sriov_rt.guest import plugins


def load(*names: str, fail: str = "") -> dict[str, object]:
    """Return what is loaded where entry points of these names are."""

    def manager(namespace, invoke_on_load, on_load_failure_callback):
        assert namespace == "sriov_rt.guest_hooks"
        assert invoke_on_load
        if fail:
            on_load_failure_callback(
                None, types.SimpleNamespace(name=fail), ImportError("no os")
            )
        extensions = [
            types.SimpleNamespace(name=each, obj=f"{each} of entry point")
            for each in names
        ]
        return types.SimpleNamespace(extensions=extensions)

    with mock.patch("stevedore.ExtensionManager", manager):
        return dict(plugins.load())


class LoadTest(unittest.TestCase):
    def test_ours_first_and_in_order(self):
        found = load("zeta", "strip", "pin", "alpha", "schedule")
        self.assertEqual(
            ["strip", "pin", "schedule", "alpha", "zeta"], list(found)
        )

    def test_one_of_ours_can_be_replaced(self):
        self.assertEqual("pin of entry point", load("pin")["pin"])

    def test_ours_need_no_entry_points(self):
        self.assertEqual(["strip", "pin", "schedule"], list(load()))

    def test_one_that_fails_is_not_passed_over(self):
        with self.assertRaises(plugins.HookUnusable) as caught:
            load(fail="onload")
        self.assertEqual("onload", caught.exception.name)
        self.assertIn("no os", str(caught.exception))
        self.assertIn("repair or remove", str(caught.exception))

    def test_those_that_are_installed_load(self):
        self.assertEqual(
            ["strip", "pin", "schedule"], list(plugins.load())[:3]
        )
