# SPDX-License-Identifier: Apache-2.0

import unittest
from unittest import mock

from stevedore import extension

from sriov_rt import entry_points


def installed(*names, broken=()):
    """Let stevedore find entry points with these names, some broken."""

    def find(namespace, *wanted, on_load_failure_callback):
        for name in broken:
            entry_point = mock.Mock()
            entry_point.name = name
            on_load_failure_callback(None, entry_point, ImportError("no x"))
        return [
            extension.Extension(name, None, f"{namespace}:{name}", None)
            for name in names
            if not wanted or name in wanted[0]
        ]

    return mock.patch.multiple(
        entry_points.stevedore,
        ExtensionManager=find,
        NamedExtensionManager=find,
    )


class LoadTest(unittest.TestCase):
    def test_all_with_those_that_cannot_be_loaded(self):
        with installed("a", "b", broken=["c"]):
            loaded, failed = entry_points.load("ours")
        self.assertEqual({"a": "ours:a", "b": "ours:b"}, loaded)
        self.assertEqual({"c": "ImportError: no x"}, failed)

    def test_those_that_are_wanted(self):
        with installed("a", "b"):
            loaded, failed = entry_points.load("ours", ["b", "d"])
        self.assertEqual({"b": "ours:b"}, loaded)
        self.assertEqual({}, failed)
