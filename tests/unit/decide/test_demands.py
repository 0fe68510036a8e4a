# SPDX-License-Identifier: Apache-2.0

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.facts.parts import NOT_REPORTED
from tests.unit import builders
from tests.unit.decide.case import NOW
from tests.unit.decide.case import DecideTestCase


class DemandTest(DecideTestCase):
    def test_the_kernel_of_the_distribution(self):
        for distribution, package in (
            ("debian", "(Debian: linux-image-rt-amd64)"),
            (NOT_REPORTED, "(of its distribution)"),
            ("ubuntu", "(by 'pro enable realtime-kernel')"),
            ("rocky", "(kernel-rt, of the repository rt)"),
            ("gentoo", "(of its distribution)"),
        ):
            kernel = {"preempt_rt": False, "distribution": distribution}
            with self.subTest(distribution):
                said = self.message("kernel_not_rt", kernel=kernel)
                self.assertTrue(
                    said.endswith(f"boot a realtime kernel {package}"), said
                )

    def test_labels(self):
        ask = "sriov_rt:node_selector"
        self.assertEqual([], self.codes({ask: "pci-8086.present=true"}))
        specs = {ask: "pci-8086.present,pci-1924.present=true"}
        self.assertEqual(["labels_mismatch"], self.codes(specs))
        told = self.message("labels_mismatch", specs)
        self.assertIn("finds no such label", told)

    def test_labels_of_a_source_that_is_down(self):
        prefix = "feature.node.kubernetes.io/"
        labels = {
            "values": {prefix + "pci-1924.present": "true", "zone": "a"},
            "sources": {
                prefix + "pci-1924.present": "kubernetes",
                prefix + "kernel-config.PREEMPT_RT": "kernel",
                "zone": "other",
            },
            "stale": ("kubernetes", "nfd_local"),
        }
        stale, mismatch = ["labels_stale"], ["labels_mismatch"]
        for selector, expected in (
            ("pci-1924.present=true", stale),
            ("pci-1924.present!=true", stale),
            ("pci-1924.present>5", stale),
            ("pci-8086.present", stale),
            # A missing key is neither a match of a negation nor a mismatch.
            ("!pci-8086.present", stale),
            ("pci-8086.present notin (true)", stale),
            # The kernel is never down, also where it says that there is no
            # such label.
            ("!kernel-config.PREEMPT_RT", []),
            ("kernel-config.PREEMPT_RT=true", mismatch),
        ):
            with self.subTest(selector=selector):
                specs = {"sriov_rt:node_selector": selector}
                self.assertEqual(expected, self.codes(specs, labels=labels))
        specs = {"sriov_rt:node_selector": "pci-1924.present"}
        told = self.message("labels_stale", specs, labels=labels)
        self.assertIn("label source kubernetes for longer", told)
        specs = {"sriov_rt:node_selector": "!pci-8086.present"}
        told = self.message("labels_stale", specs, labels=labels)
        self.assertIn("label source kubernetes, nfd_local for", told)

    def test_labels_whose_part_is_unknown(self):
        specs = {"sriov_rt:node_selector": "!pci-1924.present"}
        for name in ("values", "sources", "stale"):
            with self.subTest(fact=name):
                spoilt = {name: Unknown("garbled")}
                self.assertEqual(
                    ["fact_unknown"], self.codes(specs, labels=spoilt)
                )

    def test_nics(self):
        for wanted in ("any", "intel", "8086", "8086:10c9", "8086:10ca"):
            with self.subTest(nic=wanted):
                self.assertEqual([], self.codes({"sriov_rt:nic": wanted}))
        for wanted in ("solarflare", "8086:1572"):
            with self.subTest(nic=wanted):
                self.assertEqual(
                    ["nic_missing"], self.codes({"sriov_rt:nic": wanted})
                )

    def test_nic_that_is_not_on_ethernet(self):
        other = builders.nic(name="ib0", link="infiniband")
        nics = {"nics": (other,)}
        for specs in (
            {"sriov_rt:nic": "any"},
            {"sriov_rt:nic": "intel"},
            {"sriov_rt:vif": "vf"},
            {"sriov_rt:vif": "macvlan"},
        ):
            with self.subTest(specs):
                codes = self.codes(specs, nics=nics)
                self.assertEqual(["nic_not_ethernet"], codes)
        nics = {"nics": (other, builders.nic(link=NOT_REPORTED))}
        self.assertEqual([], self.codes({"sriov_rt:vif": "vf"}, nics=nics))

    def test_no_nic_at_all(self):
        told = self.message(
            "nic_missing", {"sriov_rt:nic": "any"}, nics={"nics": ()}
        )
        self.assertIn("no PCI NIC; add one", told)

    def test_nic_of_unknown_make(self):
        specs = {"sriov_rt:nic": "8086:1572"}
        for changes, wanted in (
            ({"vendor": Unknown("garbled")}, "fact_unknown"),
            ({"device": Unknown("garbled")}, "fact_unknown"),
            ({"vf_device": Unknown("garbled")}, "fact_unknown"),
            (
                {"vendor": "1924", "device": Unknown("garbled")},
                "nic_missing",
            ),
        ):
            with self.subTest(changes):
                nics = {"nics": (builders.nic(**changes),)}
                self.assertEqual([wanted], self.codes(specs, nics=nics))

    def test_vfs(self):
        specs = {"sriov_rt:vif": "vf"}
        self.assertEqual([], self.codes(specs))
        none = builders.nic(sriov_numvfs=0)
        self.assertEqual(["no_vfs"], self.codes(specs, nics={"nics": (none,)}))
        dark = builders.nic(sriov_numvfs=Unknown("garbled"))
        self.assertEqual(
            ["fact_unknown"], self.codes(specs, nics={"nics": (dark,)})
        )

    def test_parents_that_are_configured_and_not_there(self):
        """After a boot that made neither its veths nor its VFs."""
        specs = {"sriov_rt:vif": "macvlan"}
        gone = {"physnet2": ("veth0", "pf:ens9")}
        for pools, missing, expected in (
            ({}, {}, []),
            ({"physnet2": ("ens1",)}, {}, []),
            ({"physnet2": ()}, gone, ["parents_missing"]),
            # A port may be on the other one.
            ({"physnet1": ("ens1",), "physnet2": ()}, gone, []),
            ({"physnet2": ()}, Unknown("an older agent"), []),
            (Unknown("no configuration"), gone, []),
        ):
            vifs = {"pools": pools, "missing": missing}
            with self.subTest(vifs):
                self.assertEqual(expected, self.codes(specs, vifs=vifs))
                self.assertEqual([], self.codes({}, vifs=vifs))

    def test_modules(self):
        self.assertEqual([], self.codes({"sriov_rt:vif": "macvlan"}))
        self.assertEqual(
            ["module_missing"], self.codes({"sriov_rt:vif": "ipvlan:l3"})
        )

    def test_latency(self):
        specs = {"sriov_rt:max_latency_us": "20"}
        kernel = "6.1.0-44-rt-amd64"

        def holds(*fields):
            return {"certificate": facts.LatencyCertificate(*fields)}

        self.assertEqual(["latency_uncertified"], self.codes(specs))
        for expected, fields in (
            ([], (20, kernel, NOW + 1)),
            (["latency_above"], (21, kernel, NOW + 1)),
            (["latency_expired"], (20, kernel, NOW)),
            (["latency_other_kernel"], (20, "6.1.0-1", NOW + 1)),
        ):
            with self.subTest(expected=expected):
                self.assertEqual(
                    expected, self.codes(specs, latency=holds(*fields))
                )
