# SPDX-License-Identifier: Apache-2.0

"""Each loader of a file returns a value or our own error for any content.

Ports' records, facts and certificates have such a test next to their other
tests.
"""

import json
import logging
import pathlib
import tempfile
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt import codec
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.labels import store
from sriov_rt.nic import tenancy
from sriov_rt.verify import disk
from sriov_rt.verify import network
from sriov_rt.verify import results
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Step

RESULT = results.Result(
    step=Step("oslat", 900),
    load="compute",
    conditions={"SMT": "0"},
    measurement=Measurement(
        "oslat",
        "2.40",
        "oslat",
        1.79e9,
        900.0,
        (CpuLatency(2, 3, 18, ((1, 2), (18, 1)), (18,)),),
    ),
)
LABELS = store.Record(
    store.Origin("rt-1", "b"),
    60.0,
    {"kubernetes": store.Known({"a": "b"}, 1.79e9, None)},
    {"a": 1},
)
VF = tenancy.Tenancy(
    "0000:01:10.0",
    7,
    (tenancy.Holder(tenancy.Kind.POD, "c1/net1", driver="iavf"),),
    settings=VfSettings(vlan=7),
)

#: Replacements for any value of a document.
_VALUES = (
    *(None, True, False, 0, -1, 1.5, 10**30, float("nan"), float("inf")),
    *("", "x", "\ud800", "\0", [], [[]], [[[]]], {}, {"_unknown": "x"}),
    *({"_unknown": 1}, "2-3", "0-99999999999", ["a", "b", "c"]),
)


def plain(document):
    """Return a document as its file has it."""
    return {"schema": 1, **codec.to_plain(document)}


def places(value, path=()):
    """Yield the path of each value inside of one."""
    yield path
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from places(value[key], (*path, key))


def changed(value, path, other):
    """Return a value with another one in a place."""
    if not path:
        return other
    first, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[first] = changed(value[first], rest, other)
    return copy


def parse(parser):
    """Return a loader that has to raise nothing but its own error."""

    def load(path):
        try:
            return parser(path.read_bytes())
        except codec.SchemaError:
            return None

    return load


LOADERS = (
    (plain(RESULT), results.read),
    (plain(LABELS), store.load),
    (plain(LABELS), parse(store.parse)),
    (plain(VF), parse(tenancy.parse)),
    *(
        (plain(RESULT), lambda path, cls=cls: results.load(cls, path, 65536))
        for cls in (disk.Measured, network.Measured)
    ),
)


class LoadersTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name) / "file"
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)

    def used(self, found):
        """Use what was loaded as its readers do."""
        if isinstance(found, results.Result):
            for cpu in found.measurement.cpus:
                self.assertIsInstance(cpu.overflows, int)

    def test_they_load_what_is_right(self):
        self.path.write_text(json.dumps(plain(RESULT)))
        self.assertEqual(RESULT, results.read(self.path))
        self.path.write_text(json.dumps(plain(LABELS)))
        self.assertEqual(LABELS, store.load(self.path))
        data = json.dumps(plain(VF)).encode()
        self.assertEqual(VF, tenancy.parse(data))

    def test_a_wrong_value_in_each_place(self):
        for document, load in LOADERS:
            for path in places(document):
                for other in _VALUES:
                    with self.subTest(path=path, other=other):
                        text = json.dumps(changed(document, path, other))
                        self.path.write_text(text)
                        self.used(load(self.path))

    def test_a_histogram_is_of_pairs(self):
        for histogram in ([[]], [[1]], [[1, 2, 3]], [["a", 1]]):
            document = plain(RESULT)
            document["measurement"]["cpus"][0]["histogram"] = histogram
            self.path.write_text(json.dumps(document))
            self.assertIsNone(results.read(self.path))

    @hypothesis.settings(
        derandomize=True, deadline=None, max_examples=200, database=None
    )
    @hypothesis.given(
        place=strategies.integers(0, 600),
        cut=strategies.integers(0, 600),
        other=strategies.binary(max_size=40),
    )
    def test_any_bytes(self, place, cut, other):
        for document, load in LOADERS:
            good = json.dumps(document).encode()
            self.path.write_bytes(good[:place] + other + good[place + cut :])
            self.used(load(self.path))

    def test_no_regular_file(self):
        self.path.mkdir()
        for _, load in LOADERS[:2]:
            self.assertFalse(load(self.path))
