# SPDX-License-Identifier: Apache-2.0

import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.kubernetes import node
from sriov_rt.kubernetes.errors import Garbled
from sriov_rt.parse import label

NFD = "feature.node.kubernetes.io/"
NODE = {
    "metadata": {
        "name": "h",
        "resourceVersion": "7",
        "labels": {
            NFD + "pci-1924.present": "true",
            "kubernetes.io/os": "linux",
            "x.example/both": "label",
        },
    },
    "status": {
        "allocatable": {
            "cpu": "4",
            "memory": "16Gi",
            "hugepages-2Mi": "0",
            "pods": "110",
            "solarflare.com/sfc": "8",
            "amd.com/onload": "1k",
            "x.example/both": "3",
            "x.example/half": "500m",
            "x.example/number": 2,
            "kubernetes.io/batch": "1",
            "a.kubernetes.io/b": "1",
            "/odd": "1",
        }
    },
}

JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.text(max_size=8),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(
            strategies.sampled_from(
                (
                    "type",
                    "object",
                    "kind",
                    "items",
                    "metadata",
                    "labels",
                    "status",
                    "allocatable",
                    "resourceVersion",
                    "code",
                )
            )
            | strategies.text(max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=16,
)


def event(kind, **changes):
    return {"type": kind, "object": NODE | changes}


class LabelsTest(unittest.TestCase):
    def test_all_labels_and_the_extended_resources(self):
        self.assertEqual(
            {
                NFD + "pci-1924.present": "true",
                "kubernetes.io/os": "linux",
                "x.example/both": "label",
                "solarflare.com/sfc": "8",
                "amd.com/onload": "1000",
                "x.example/number": "2",
            },
            node.labels(NODE),
        )

    def test_a_node_without_any(self):
        for plain in ({}, {"metadata": None, "status": {}}):
            self.assertEqual({}, node.labels(plain))

    def test_a_label_that_can_be_none_is_left_out(self):
        odd = {"metadata": {"labels": {"a b": "1", "a": "x y", "b": "1"}}}
        self.assertEqual({"b": "1"}, node.labels(odd))

    def test_garbled(self):
        for plain in (
            [],
            {"metadata": []},
            {"metadata": {"labels": {"a": 1}}},
            {"status": {"allocatable": "all"}},
        ):
            with self.subTest(plain=plain), self.assertRaises(Garbled):
                node.labels(plain)


class ListingTest(unittest.TestCase):
    def listing(self, **changes):
        plain = {
            "kind": "NodeList",
            "metadata": {"resourceVersion": "9"},
            "items": [NODE],
        }
        return node.listing(plain | changes)

    def test_one_node_or_none(self):
        self.assertEqual(
            "true", self.listing().labels[NFD + "pci-1924.present"]
        )
        for items in ([], None):
            self.assertIsNone(self.listing(items=items).labels)
        self.assertEqual("9", self.listing().version)

    def test_garbled(self):
        for changes in (
            {"kind": "PodList"},
            {"items": [NODE, NODE]},
            {"items": {}, "kind": "Node"},
            {"metadata": {}},
            {"metadata": {"resourceVersion": 9}},
        ):
            with self.subTest(changes=changes):
                self.assertRaises(Garbled, self.listing, **changes)
        for plain in (None, [], "", 5):
            self.assertRaises(Garbled, node.listing, plain)


class EventTest(unittest.TestCase):
    def test_what_happens_to_a_node(self):
        for kind in ("ADDED", "MODIFIED", "DELETED"):
            found = node.event(event(kind))
            self.assertEqual(kind, found.type)
            self.assertEqual("8", found.labels["solarflare.com/sfc"])

    def test_a_bookmark_has_no_labels(self):
        self.assertIsNone(node.event(event("BOOKMARK")).labels)

    def test_garbled(self):
        for plain in (
            None,
            [],
            event("GREEN"),
            {"object": {}},
            {"type": ["ADDED"], "object": {}},
            {"type": "ADDED", "object": []},
        ):
            with self.subTest(plain=str(plain)[:40]):
                self.assertRaises(Garbled, node.event, plain)

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(JSON)
    def test_any_json_is_read_or_refused(self, plain):
        for read in (node.event, node.listing):
            try:
                found = read(plain)
            except Garbled:
                continue
            for key, value in (found.labels or {}).items():
                self.assertIsNone(label.why_not_key(key))
                self.assertIsNone(label.why_not_value(value))
