# SPDX-License-Identifier: Apache-2.0

import types
import unittest

from sriov_rt.codec import Unknown
from sriov_rt.facts import LabelFacts
from sriov_rt.labels.merge import OWN_PREFIX
from sriov_rt.labels.merge import Contradiction
from sriov_rt.labels.merge import Reading
from sriov_rt.labels.merge import merge

NFD = "feature.node.kubernetes.io/"
RT = NFD + "kernel-config.PREEMPT_RT"
NO_HZ = NFD + "kernel-config.NO_HZ_FULL"


def kernel(values=(), absent=()):
    values = dict(values)
    sources = dict.fromkeys([*values, *absent], "kernel")
    return LabelFacts(values, sources, ())


class MergeTest(unittest.TestCase):
    def test_the_first_source_that_has_a_label_counts(self):
        found = merge(
            kernel({"a": "k"}),
            [
                Reading("one", {"a": "1", "b": "1"}),
                Reading("two", {"b": "2", "c": "2"}),
            ],
        ).labels
        self.assertEqual({"a": "k", "b": "1", "c": "2"}, found.values)
        self.assertEqual(
            {"a": "kernel", "b": "one", "c": "two"}, found.sources
        )
        self.assertEqual((), found.stale)

    def test_a_stale_source_counts_last(self):
        found = merge(
            kernel(),
            [
                Reading("one", {"b": "1", "c": "1"}, stale=True),
                Reading("two", {"b": "2"}),
            ],
        ).labels
        self.assertEqual({"b": "2", "c": "1"}, found.values)
        self.assertEqual({"b": "two", "c": "one"}, found.sources)
        self.assertEqual(("one",), found.stale)

    def test_the_kernel_wins(self):
        found = merge(
            kernel({NFD + "kernel-version.major": "6"}, absent=[RT]),
            [Reading("nfd", {RT: "true", NFD + "kernel-version.major": "5"})],
        )
        self.assertEqual(
            {NFD + "kernel-version.major": "6"}, found.labels.values
        )
        self.assertEqual("kernel", found.labels.sources[RT])
        self.assertEqual(
            (
                Contradiction(RT, "true", "nfd", None),
                Contradiction(NFD + "kernel-version.major", "5", "nfd", "6"),
            ),
            found.contradictions,
        )

    def test_what_is_no_contradiction(self):
        for told, reading in (
            # NFD: the kernel could. The kernel: it does not.
            (kernel(absent=[NO_HZ]), Reading("nfd", {NO_HZ: "true"})),
            # It was so when the source was last heard of.
            (kernel(absent=[RT]), Reading("nfd", {RT: "true"}, stale=True)),
            (kernel({RT: "true"}), Reading("nfd", {RT: "true"})),
        ):
            with self.subTest(reading=reading):
                found = merge(told, [reading])
                self.assertEqual((), found.contradictions)
                self.assertEqual(told.values, found.labels.values)

    def test_echoes_of_the_agent_are_dropped(self):
        reading = Reading("nfd", {OWN_PREFIX + "ready": "true"})
        self.assertEqual({}, merge(kernel(), [reading]).labels.values)

    def test_a_kernel_that_is_unknown_stays_so(self):
        for name in ("values", "sources"):
            parts = {"values": {}, "sources": {}, "stale": ()}
            unknown = LabelFacts(**parts | {name: Unknown("garbled")})
            with self.subTest(name=name):
                found = merge(unknown, [Reading("nfd", {"a": "1"})])
                self.assertEqual(unknown, found.labels)

    def test_facts_cannot_be_changed(self):
        found = merge(kernel(), [Reading("nfd", {"a": "1"})]).labels
        self.assertIsInstance(found.values, types.MappingProxyType)
        self.assertIsInstance(found.sources, types.MappingProxyType)
