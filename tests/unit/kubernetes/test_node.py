# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import json
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.kubernetes import node
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
    plain = {"type": kind, "object": NODE | changes}
    return json.dumps(plain).encode()


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
            with self.subTest(plain=plain), self.assertRaises(node.Garbled):
                node.labels(plain)


class ListingTest(unittest.TestCase):
    def listing(self, **changes):
        plain = {
            "kind": "NodeList",
            "metadata": {"resourceVersion": "9"},
            "items": [NODE],
        }
        return node.parse_listing(json.dumps(plain | changes).encode())

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
                self.assertRaises(node.Garbled, self.listing, **changes)
        for data in (b"", b"{", b"[]", b"\xff", b"[" * 100_000):
            self.assertRaises(node.Garbled, node.parse_listing, data)

    def test_too_long(self):
        with self.assertRaises(node.Garbled) as caught:
            node.parse_listing(b" " * (node.MAX_OBJECT + 1))
        self.assertIn("more than", str(caught.exception))


class EventTest(unittest.TestCase):
    def test_what_happens_to_a_node(self):
        for kind in ("ADDED", "MODIFIED", "DELETED"):
            found = node.parse_event(event(kind))
            self.assertEqual((kind, "7"), (found.kind, found.version))
            self.assertEqual("8", found.labels["solarflare.com/sfc"])

    def test_a_bookmark_has_no_labels(self):
        found = node.parse_event(event("BOOKMARK"))
        self.assertEqual(("7", None), (found.version, found.labels))

    def test_an_error(self):
        line = b'{"type":"ERROR","object":{"code":410,"message":"too old"}}'
        found = node.parse_event(line)
        self.assertEqual((410, "too old"), (found.code, found.message))
        line = b'{"type":"ERROR","object":{}}'
        self.assertEqual(500, node.parse_event(line).code)

    def test_garbled(self):
        for line in (
            event("OPENED"),
            event("GREEN"),
            b'{"object":{}}',
            b'{"type":["ADDED"],"object":{}}',
            b'{"type":"ADDED","object":[]}',
            b'{"type":"ADDED","object":{"metadata":{}}}',
        ):
            with self.subTest(line=line[:40]):
                self.assertRaises(node.Garbled, node.parse_event, line)

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(JSON)
    def test_any_json_is_read_or_refused(self, plain):
        data = json.dumps(plain).encode()
        for parse in (node.parse_event, node.parse_listing):
            try:
                found = parse(data)
            except node.Garbled:
                continue
            for key, value in (found.labels or {}).items():
                self.assertIsNone(label.why_not_key(key))
                self.assertIsNone(label.why_not_value(value))
