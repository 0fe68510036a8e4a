# SPDX-License-Identifier: Apache-2.0

import dataclasses

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.host import labels
from sriov_rt.host.observer import Observer
from tests.unit.host import trees

WANTED = {
    "cpu-hardware_multithreading": "true",
    "kernel-config.NO_HZ_FULL": "true",
    "kernel-config.PREEMPT_RT": "true",
    "kernel-version.full": "6.1.0-44-rt-amd64",
    "kernel-version.major": "6",
    "kernel-version.minor": "1",
    "kernel-version.revision": "0",
    "memory-numa": "true",
    "network-sriov.capable": "true",
    "network-sriov.configured": "true",
    "pci-1924.present": "true",
    "pci-8086.present": "true",
    "pci-8086.sriov.capable": "true",
}


def derive(host: HostFacts) -> dict[str, str]:
    found = labels.derive(host.cpus, host.kernel, host.nics)
    assert found.values.keys() <= found.sources.keys()
    assert found.stale == ()
    return {
        key.removeprefix("feature.node.kubernetes.io/"): value
        for key, value in found.values.items()
    }


class LabelsTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.host = Observer(self.root, "h", "h", trees.SOURCES).observe()

    def replace(self, part: str, **changes) -> HostFacts:
        changed = dataclasses.replace(getattr(self.host, part), **changes)
        return dataclasses.replace(self.host, **{part: changed})

    def test_realtime_host(self):
        self.assertEqual(WANTED, derive(self.host))

    def test_source_of_each_label(self):
        found = self.host.labels.sources
        prefix = "feature.node.kubernetes.io/"
        self.assertEqual("kernel", found[f"{prefix}kernel-version.major"])
        self.assertEqual("nics", found[f"{prefix}pci-1924.present"])
        self.assertEqual("cpus", found[f"{prefix}memory-numa"])

    def test_what_is_not_so_has_no_label(self):
        for part, changes, gone in (
            ("kernel", {"preempt_rt": False}, {"kernel-config.PREEMPT_RT"}),
            (
                "cpus",
                {"nohz_full": frozenset()},
                {"kernel-config.NO_HZ_FULL"},
            ),
            ("cpus", {"numa": self.host.cpus.numa[:1]}, {"memory-numa"}),
            (
                "nics",
                {"nics": self.host.nics.nics[1:]},
                {
                    "network-sriov.capable",
                    "network-sriov.configured",
                    "pci-8086.present",
                    "pci-8086.sriov.capable",
                },
            ),
        ):
            with self.subTest(part=part, gone=gone):
                found = derive(self.replace(part, **changes))
                self.assertEqual(gone, WANTED.keys() - found.keys())

    def test_vendors_alone_are_labels_as_the_page_says(self):
        """NFD's default form, by class and vendor, is left to NFD."""
        self.assertFalse([each for each in WANTED if "pci-0200_" in each])

    def test_a_nic_that_is_down_is_capable_of_vfs(self):
        """NFD's own label leaves it out since 0.11."""
        down = tuple(
            dataclasses.replace(each, carrier=False)
            for each in self.host.nics.nics
        )
        self.assertEqual(WANTED, derive(self.replace("nics", nics=down)))

    def test_one_thread_a_core_has_a_label_as_nfd_sets_it(self):
        host = self.replace("cpus", siblings=(frozenset({0}), frozenset({1})))
        self.assertEqual("false", derive(host)["cpu-hardware_multithreading"])

    def test_what_the_kernel_knows_to_be_absent_has_a_source(self):
        host = self.replace("kernel", preempt_rt=False)
        found = labels.derive(host.cpus, host.kernel, facts.NicFacts(()))
        absent = found.sources.keys() - found.values.keys()
        self.assertEqual(
            {
                "kernel-config.PREEMPT_RT",
                "network-sriov.capable",
                "network-sriov.configured",
            },
            {key.removeprefix(labels.PREFIX) for key in absent},
        )

    def test_unknown_facts_make_no_label(self):
        parts = {
            name: facts.unknown(name, "unreadable")
            for name in ("cpus", "kernel", "nics")
        }
        self.assertEqual({}, derive(dataclasses.replace(self.host, **parts)))

    def test_unknown_facts_of_a_nic_make_no_label(self):
        why = Unknown("unreadable")
        nic = dataclasses.replace(
            self.host.nics.nics[0],
            vendor=why,
            sriov_totalvfs=why,
            sriov_numvfs=why,
        )
        found = derive(self.replace("nics", nics=(nic,)))
        self.assertFalse([key for key in found if key.startswith("pci-")])
        self.assertNotIn("network-sriov.capable", found)
        self.assertNotIn("network-sriov.configured", found)
        host = self.replace("nics", nics=(nic,))
        told = labels.derive(host.cpus, host.kernel, host.nics).sources
        self.assertNotIn(labels.PREFIX + "network-sriov.capable", told)

    def test_release_that_is_none_has_no_version(self):
        found = derive(self.replace("kernel", release="garbled"))
        self.assertNotIn("kernel-version.full", found)
