# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib
import tomllib
import types
import unittest
from unittest import mock

from sriov_rt import facts
from sriov_rt.agent import withdrawal
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.facts import certificate
from sriov_rt.host import observer
from sriov_rt.host.observer import PARTS
from sriov_rt.host.observer import Observer
from sriov_rt.host.observer import load_sources
from sriov_rt.host.root import Root
from tests.unit.host import trees


class ObserverTest(trees.TreeTest):
    def observer(self, **sources) -> Observer:
        return Observer(
            self.root,
            "rt-1",
            "rt-1.example",
            {**trees.SOURCES, **sources},
            clock=lambda: 1_790_000_000.5,
        )

    def test_all_parts_are_observed_and_survive_json(self):
        found = self.observer().observe()
        self.assertEqual("rt-1", found.host)
        self.assertEqual("rt-1.example", found.node)
        self.assertEqual(1_790_000_000.5, found.observed_at)
        self.assertNotIn("_unknown", str(found.to_plain()["cpus"]))
        self.assertEqual(found, facts.from_plain(found.to_plain()))

    def test_each_fact_is_read_by_its_source(self):
        """One without a reader has its default: an older agent's."""
        found = self.observer().observe()
        left = {
            f"{part}.{field.name}"
            for part in PARTS
            for field in dataclasses.fields(getattr(found, part))
            if getattr(getattr(found, part), field.name) == facts.NOT_REPORTED
        }
        # Without a record of a change nothing is known of its boot.
        self.assertEqual(set(), left - {"maintenance.boot_owed"})

    def test_what_a_host_is_meant_for(self):
        """As an operator says; else by the dedicated pCPUs that Nova has."""
        for given, nova, expected in (
            (None, True, True),
            (None, False, False),
            (False, True, False),
            (True, False, True),
        ):
            if not nova:
                self.tree.write("etc/nova/nova.conf", "[DEFAULT]\n")
            found = Observer(
                self.root, "h", "h", trees.SOURCES, intended=given
            ).observe()
            self.assertIs(expected, found.intended)
            self.tree.write(
                "etc/nova/nova.conf", "[compute]\ncpu_dedicated_set = 2-3\n"
            )
        broken = {**trees.SOURCES, "compute": Unknown("why")}
        found = Observer(self.root, "h", "h", broken).observe()
        self.assertIsInstance(found.intended, Unknown)

    def test_same_host_has_the_same_digest(self):
        observer = self.observer()
        self.assertEqual(
            observer.observe().digest(), observer.observe().digest()
        )

    def assert_unknown(self, found: HostFacts, part: str, why: str) -> None:
        self.assertEqual(facts.unknown(part, why), getattr(found, part))
        for name in set(PARTS) - {part}:
            self.assertNotEqual(facts.unknown(name, why), getattr(found, name))

    def test_source_that_raises_is_logged_once(self):
        observer = self.observer(kernel=mock.Mock(side_effect=KeyError("x")))
        with self.assertLogs("sriov_rt", "WARNING") as logs:
            for _ in range(3):
                found = observer.observe()
        self.assert_unknown(
            found, "kernel", "its source failed: KeyError: 'x'"
        )
        self.assertEqual(1, len(logs.output))
        self.assertIn("Traceback", logs.output[0])

    def test_source_that_failed_and_recovered_is_logged_again(self):
        source = mock.Mock(side_effect=OSError(5, "No"))
        observer = self.observer(virt=source)
        with self.assertLogs("sriov_rt", "WARNING") as logs:
            observer.observe()
            source.side_effect = trees.SOURCES["virt"]
            self.assertTrue(observer.observe().virt.kvm)
            source.side_effect = OSError(5, "No")
            observer.observe()
        self.assertEqual(2, len(logs.output))

    def test_source_that_gives_something_else(self):
        observer = self.observer(memory=trees.SOURCES["virt"])
        with self.assertLogs("sriov_rt", "WARNING"):
            self.assert_unknown(
                observer.observe(),
                "memory",
                "its source failed: TypeError: VirtFacts is not MemoryFacts",
            )

    def test_source_that_gives_what_readers_refuse(self):
        whole = trees.SOURCES["virt"](self.root)
        for changes in (
            {"kvm": "yes"},
            {"iommu_groups": None},
            {"parameters": types.MappingProxyType({"kvm.x": 1})},
            {"parameters": {frozenset({"x"})}},
        ):
            broken = dataclasses.replace(whole, **changes)
            observer = self.observer(virt=mock.Mock(return_value=broken))
            with (
                self.subTest(changes),
                self.assertLogs("sriov_rt", "WARNING"),
            ):
                found = observer.observe()
                self.assertIsInstance(found.virt.kvm, Unknown)
                self.assertEqual(found, facts.from_plain(found.to_plain()))

    def test_source_that_is_missing(self):
        sources = dict(trees.SOURCES)
        del sources["irqs"]
        with self.assertLogs("sriov_rt", "WARNING"):
            found = Observer(self.root, "h", "h", sources).observe()
        self.assert_unknown(found, "irqs", "there is no fact source 'irqs'")

    def test_source_that_could_not_be_loaded(self):
        with self.assertLogs("sriov_rt", "WARNING"):
            found = self.observer(nics=Unknown("not installed")).observe()
        self.assert_unknown(found, "nics", "not installed")

    def test_endless_error_text_is_cut(self):
        source = mock.Mock(side_effect=ValueError("x" * 10**6))
        with self.assertLogs("sriov_rt", "WARNING"):
            found = self.observer(virt=source).observe()
        self.assertEqual(observer.MAX_PROBLEM, len(found.virt.kvm.reason))

    def test_nova_files_are_for_the_compute_source(self):
        self.tree.write("srv/n.conf", "[compute]\ncpu_dedicated_set = 7\n")
        found = Observer(
            self.root,
            "h",
            "h",
            trees.SOURCES,
            nova_files=["/srv/n.conf"],
        ).observe()
        self.assertEqual(frozenset({7}), found.compute.dedicated)

    def test_novas_power_management_is_read_from_its_files(self):
        """A certificate does not end with a guest of that nova-compute."""
        self.tree.write(
            "srv/n.conf",
            "[compute]\ncpu_dedicated_set = 2-3,6-7\n"
            "[libvirt]\ncpu_power_management = true\n",
        )
        nova = Observer(
            self.root, "h", "h", trees.SOURCES, nova_files=["/srv/n.conf"]
        )
        other = Observer(self.root, "h", "h", trees.SOURCES)
        self.assertEqual("", nova.observe().latency.certificate.withdrawn)
        self.tree.take_offline("6-7")
        self.assertEqual("", nova.observe().latency.certificate.withdrawn)
        self.assertIn(
            "online CPUs changed",
            other.observe().latency.certificate.withdrawn,
        )

    def test_no_file_of_a_certificate_or_of_nova_is_read_twice(self):
        read = []

        def counted(method):
            def wrapper(root, path, *limits, **options):
                read.append(path)
                return method(root, path, *limits, **options)

            return wrapper

        with mock.patch.multiple(
            Root,
            open_file=counted(Root.open_file),
            read_text=counted(Root.read_text),
        ):
            Observer(
                self.root,
                "h",
                "h",
                trees.SOURCES,
                keep=withdrawal.Keeper().keep,
            ).observe()
        for path in (certificate.PATH, "etc/nova/nova.conf"):
            with self.subTest(path):
                self.assertEqual(1, read.count(path))


PYPROJECT = pathlib.Path(__file__).resolve().parents[3] / "pyproject.toml"


def installed(found, failing=()):
    """Have entry points lead to these, and some not be loaded."""

    def load(namespace):
        assert namespace == "sriov_rt.fact_sources"
        return found, dict.fromkeys(failing, "ImportError: no x")

    return mock.patch.object(observer.entry_points, "load", load)


class SourcesTest(unittest.TestCase):
    def test_entry_points_are_the_sources(self):
        project = tomllib.loads(PYPROJECT.read_text())["project"]
        declared = project["entry-points"][observer.NAMESPACE]
        self.assertEqual(
            {
                name: f"{source.__module__}:{source.__name__}"
                for name, source in trees.SOURCES.items()
            },
            declared,
        )
        self.assertEqual(set(PARTS), declared.keys())

    def test_installed(self):
        with installed(trees.SOURCES):
            self.assertEqual(trees.SOURCES, load_sources())

    def test_not_installed(self):
        with installed({}):
            found = load_sources()
        self.assertEqual(set(PARTS), found.keys())
        self.assertEqual(
            Unknown(
                "no fact source 'cpus' is installed in "
                "sriov_rt.fact_sources; install sriov-rt with pip"
            ),
            found["cpus"],
        )

    def test_source_that_cannot_be_imported(self):
        others = {k: v for k, v in trees.SOURCES.items() if k != "nics"}
        with installed(others, failing=["nics"]):
            found = load_sources()
        self.assertEqual(
            Unknown("its source cannot be loaded: ImportError: no x"),
            found["nics"],
        )
        self.assertIs(trees.SOURCES["cpus"], found["cpus"])

    def test_sources_of_other_names_are_passed_over(self):
        with installed({**trees.SOURCES, "weather": print}):
            self.assertNotIn("weather", load_sources())
