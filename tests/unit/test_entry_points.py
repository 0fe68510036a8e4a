# SPDX-License-Identifier: Apache-2.0

import ast
import tomllib
import unittest
from unittest import mock

from stevedore import extension

from sriov_rt import entry_points
from sriov_rt.guest import engine
from tests.unit.documented_host import ROOT


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


def shipped():
    """Yield group, name and place of each entry point of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"scripts": project["scripts"], **project["entry-points"]}
    for group, points in groups.items():
        for name, place in points.items():
            yield group, name, place


class ShippedTest(unittest.TestCase):
    """Of the text: what they name need not be installed beside the tests."""

    def names(self, group):
        return {name for each, name, _ in shipped() if each == group}

    def test_each_names_something(self):
        for group, name, place in shipped():
            module, _, attribute = place.partition(":")
            path = ROOT / module.replace(".", "/")
            with self.subTest(group, name=name):
                tree = ast.parse(path.with_suffix(".py").read_text())
                defined = {
                    name
                    for each in tree.body
                    for name in (
                        getattr(each, "name", ""),
                        *map(ast.unparse, getattr(each, "targets", ())),
                    )
                }
                self.assertIn(attribute, defined | {""})

    def test_each_hook_of_ours_can_be_replaced(self):
        self.assertEqual(
            {*engine.OWN_HOOKS, "onload"}, self.names("sriov_rt.guest_hooks")
        )

    def test_names_that_others_configure_or_look_up(self):
        for group, names in (
            ("os_vif", {"sriov_rt"}),
            ("sriov_rt.label_sources", {"kubernetes", "nfd_local"}),
            ("sriov_rt.scheduler_filters", {"RealtimeSriovFilter"}),
            ("sriov_rt.scheduler_weighers", {"RealtimeHostWeigher"}),
            ("nova.api.extra_spec_validators", {"sriov_rt"}),
            ("neutron.ml2.mechanism_drivers", {"sriov_rt"}),
            ("neutron.agent.l2.extensions", {"sriov_rt"}),
            ("magnum.drivers", {"sriov_rt"}),
        ):
            with self.subTest(group):
                self.assertEqual(names, self.names(group))
