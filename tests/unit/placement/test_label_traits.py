# SPDX-License-Identifier: Apache-2.0

import re
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.codec import Unknown
from sriov_rt.facts import LabelFacts
from sriov_rt.placement import label_traits
from tests.periodic import wanted

NFD = "feature.node.kubernetes.io/"
LEGAL = re.compile("CUSTOM_NFD_[A-Z0-9_]{1,244}")

WORDS = strategies.text("aB0_.-", min_size=1, max_size=6)
KEYS = strategies.one_of(
    strategies.from_regex(label_traits.FLAGS, fullmatch=True),
    strategies.from_regex(label_traits.NUMBERS, fullmatch=True),
    strategies.builds("pci-{}.present".format, WORDS),
    strategies.builds("kernel-config.{}".format, WORDS),
    WORDS,
)
LABELS = strategies.tuples(
    strategies.builds(str.__add__, strategies.sampled_from((NFD, "a/")), KEYS),
    strategies.sampled_from(("true", "false", "", "6", "06"))
    | strategies.text("aB0_.-", max_size=3),
)


class NameTest(unittest.TestCase):
    def test_labels_of_a_known_form_keep_their_letters(self):
        for label, value, expected in (
            ("pci-1924.present", "true", "PCI_1924_PRESENT"),
            ("pci-0200_1924.present", "true", "PCI_0200_1924_PRESENT"),
            ("pci-8086.sriov.capable", "true", "PCI_8086_SRIOV_CAPABLE"),
            ("kernel-config.PREEMPT_RT", "true", "KERNEL_CONFIG_PREEMPT_RT"),
            ("network-sriov.capable", "true", "NETWORK_SRIOV_CAPABLE"),
            ("kernel-version.major", "6", "KERNEL_VERSION_MAJOR_6"),
            ("cpu-cpuid.AVX512F", "true", "CPU_CPUID_AVX512F"),
        ):
            with self.subTest(label=label):
                found = label_traits.name(NFD + label, value)
                self.assertEqual("CUSTOM_NFD_" + expected, found)

    def test_all_others_are_told_apart_by_a_hash(self):
        for key, value in (
            (NFD + "pci-1924.present", "false"),
            (NFD + "pci_1924.present", "true"),
            (NFD + "pci-1924-present", "true"),
            (NFD + "kernel-config.preempt_rt", "true"),
            (NFD + "kernel-config.HZ", "250"),
            (NFD + "kernel-version.major", "06"),
            ("x.example/pci-1924.present", "true"),
            ("pci-1924.present", "true"),
        ):
            with self.subTest(key=key, value=value):
                found = label_traits.name(key, value)
                self.assertRegex(found, "^CUSTOM_NFD_.*__[0-9A-F]{10}$")

    def test_the_longest_label(self):
        key = f"{'a' * 63}." * 3 + "b" * 61 + "/" + "c" * 63
        found = label_traits.name(key, "d" * 63)
        self.assertEqual(label_traits.MAX_TRAIT, len(found))
        self.assertRegex(found, LEGAL)

    @hypothesis.settings(
        derandomize=True,
        deadline=None,
        max_examples=500 if wanted() else 200,
    )
    @hypothesis.given(LABELS, LABELS)
    def test_legal_and_never_shared(self, one, other):
        self.assertIsNotNone(LEGAL.fullmatch(label_traits.name(*one)))
        if one != other:
            self.assertNotEqual(
                label_traits.name(*one), label_traits.name(*other)
            )


class AllowedTest(unittest.TestCase):
    def of(self, allowed, stale=(), **parts):
        labels = {
            "values": {
                NFD + "pci-1924.present": "true",
                NFD + "kernel-config.PREEMPT_RT": "true",
                "x.example/fast": "true",
            },
            "sources": {
                NFD + "pci-1924.present": "kubernetes",
                NFD + "kernel-config.PREEMPT_RT": "kernel",
                "x.example/fast": "kubernetes",
            },
            "stale": stale,
        }
        return label_traits.of(LabelFacts(**labels | parts), allowed)

    def test_patterns(self):
        pci, rt = (
            "CUSTOM_NFD_PCI_1924_PRESENT",
            "CUSTOM_NFD_KERNEL_CONFIG_PREEMPT_RT",
        )
        for allowed, expected in (
            ([], set()),
            (["pci-*.present"], {pci}),
            (["*"], {pci, rt}),
            (["kernel-config.preempt_rt"], set()),
        ):
            with self.subTest(allowed=allowed):
                self.assertEqual(expected, self.of(allowed))
        (found,) = self.of(["x.example/*"])
        self.assertRegex(found, "^CUSTOM_NFD_X_EXAMPLE_FAST__")

    def test_labels_that_are_stale_have_no_trait(self):
        self.assertEqual(
            {"CUSTOM_NFD_KERNEL_CONFIG_PREEMPT_RT"},
            self.of(["*"], stale=("kubernetes",)),
        )

    def test_unknown_labels_have_none(self):
        for name in ("values", "sources", "stale"):
            with self.subTest(name=name):
                unknown = {name: Unknown("garbled")}
                self.assertEqual(set(), self.of(["*"], **unknown))

    def test_too_many_are_said_and_cut(self):
        many = {f"{NFD}kernel-config.N{n}": "true" for n in range(300)}
        with self.assertLogs("sriov_rt.placement.label_traits"):
            found = self.of(["*"], values=many, sources={})
        self.assertEqual(label_traits.MAX_TRAITS, len(found))
