# SPDX-License-Identifier: Apache-2.0

import json
import math
import pathlib
import tempfile
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt import codec
from sriov_rt.labels import store

ORIGIN = store.Origin("h", "boot-1")
RECORD = store.Record(
    ORIGIN,
    300.0,
    {
        "kubernetes": store.Known({"a.b/c": "d"}, 100.0, None),
        "nfd_local": store.Known({}, 90.0, "unreadable"),
    },
    {"a.b/c": 3},
)


class StoreTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name) / "labels.json"

    def test_round_trip(self):
        store.save(self.path, RECORD)
        self.assertEqual(RECORD, store.load(self.path))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_no_file(self):
        with self.assertNoLogs("sriov_rt.labels.store"):
            self.assertIsNone(store.load(self.path))

    def test_garbage_is_passed_over(self):
        store.save(self.path, RECORD)
        good = self.path.read_bytes()
        plain = json.loads(good)
        for data in (
            b"",
            good[: len(good) // 2],
            b"\xff\xfe",
            b"[" * 100_000,
            b"[]",
            b"x" * (store.MAX_FILE + 1),
            json.dumps(plain | {"schema": 2}).encode(),
            json.dumps(plain | {"sources": []}).encode(),
            good.replace(b"a.b/c", b"a b/c"),
            good.replace(b'"d"', b'"d d"'),
            good.replace(b"100.0", b"NaN"),
        ):
            with self.subTest(data=data[:20]):
                self.path.write_bytes(data)
                with self.assertLogs("sriov_rt.labels.store") as logged:
                    self.assertIsNone(store.load(self.path))
                self.assertIn("cannot use", logged.output[0])

    def test_a_directory_in_its_place(self):
        self.path.mkdir()
        with self.assertLogs("sriov_rt.labels.store"):
            self.assertIsNone(store.load(self.path))

    def test_a_write_that_fails_leaves_the_old_one(self):
        store.save(self.path, RECORD)
        self.path.with_name(".labels.json.new").mkdir()
        with self.assertRaises(OSError):
            store.save(self.path, RECORD)
        self.assertEqual(RECORD, store.load(self.path))

    def test_a_link_in_the_place_of_the_new_one_is_not_followed(self):
        victim = self.path.with_name("victim")
        victim.write_text("mine")
        self.path.with_name(".labels.json.new").symlink_to(victim)
        with self.assertRaises(OSError):
            store.save(self.path, RECORD)
        self.assertEqual("mine", victim.read_text())

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(strategies.binary(max_size=64))
    def test_any_bytes_are_read_or_refused(self, data):
        try:
            store.parse(data)
        except codec.SchemaError as error:
            self.assertTrue(error.problem)


class AgeTest(unittest.TestCase):
    def ages(self, origin, now):
        return {name: known.age_s for name, known in RECORD.ages(origin, now)}

    def test_of_the_same_boot(self):
        self.assertEqual(
            {"kubernetes": 10.0, "nfd_local": 20.0}, self.ages(ORIGIN, 110.0)
        )

    def test_of_another_boot_or_an_unknown_one(self):
        for boot_id in ("boot-2", ""):
            found = self.ages(store.Origin("h", boot_id), 110.0)
            self.assertEqual({math.inf}, set(found.values()))

    def test_of_a_time_to_come(self):
        self.assertEqual(
            {"kubernetes": math.inf, "nfd_local": 5.0}, self.ages(ORIGIN, 95.0)
        )
