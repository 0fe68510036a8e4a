# SPDX-License-Identifier: Apache-2.0

import math
import pathlib
import re
import tempfile
import unittest

from sriov_rt.facts import LabelFacts
from sriov_rt.labels import store
from sriov_rt.labels.label_source import Answer
from sriov_rt.labels.last_known import MAX_LABELS
from sriov_rt.labels.last_known import LastKnown
from tests.unit.labels import fakes

LOGGER = "sriov_rt.labels.last_known"
KERNEL = LabelFacts({"k": "1"}, {"k": "kernel", "gone": "kernel"}, ())
LIMIT_S = 300.0


class LastKnownTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name) / "labels.json"
        self.clock = fakes.Clock()
        self.source = fakes.Source(self.clock)
        self.last_known = self.make()

    def make(self, boot_id="boot-1", host="h", **changes):
        last_known = LastKnown(
            {"kubernetes": self.source},
            LIMIT_S,
            changes.get("ignored"),
            changes.get("path", self.path),
            store.Origin(host, boot_id),
            monotonic=self.clock.monotonic,
            wall=self.clock.wall,
        )
        last_known.recall()
        return last_known

    def labels(self, last_known=None):
        last_known = last_known or self.last_known
        found = last_known.apply(KERNEL)
        last_known.write(last_known.due())
        return {
            key.removeprefix("x.example/"): value
            for key, value in found.values.items()
            if key != "k"
        }

    def stale(self, last_known=None):
        return (last_known or self.last_known).apply(KERNEL).stale

    def restarted(self, **changes):
        self.source = fakes.Source(self.clock)
        return self.make(**changes)

    def test_a_source_that_never_answered_is_stale(self):
        self.assertEqual({}, self.labels())
        self.assertEqual(("kubernetes",), self.stale())

    def test_a_source_that_never_answered_is_stored_as_such(self):
        self.labels()
        record = store.load(self.path)
        found = list(record.ages(store.Origin("h", "boot-1"), 2e9))
        self.assertEqual([("kubernetes", store.Aged({}, math.inf))], found)
        with self.assertNoLogs(LOGGER, "WARNING"):
            self.assertEqual(("kubernetes",), self.stale(self.restarted()))

    def test_labels_of_a_source(self):
        self.source.says(a="1")
        self.assertEqual({"a": "1"}, self.labels())
        self.source.says(b="2")
        self.assertEqual({"b": "2"}, self.labels())
        self.assertEqual((), self.stale())

    def test_an_outage_keeps_the_labels_and_then_makes_them_stale(self):
        self.source.says(a="1")
        self.labels()
        with self.assertLogs(LOGGER, "WARNING") as logged:
            self.source.fails("API server down; start it")
            self.assertEqual({"a": "1"}, self.labels())
            self.assertEqual((), self.stale())
        self.assertEqual(1, len(logged.output))
        self.clock.now += LIMIT_S
        self.assertEqual((), self.stale())
        self.clock.now += 1
        with self.assertLogs(LOGGER, "WARNING") as logged:
            self.assertEqual(("kubernetes",), self.stale())
            self.assertEqual({"a": "1"}, self.labels())
        self.assertEqual(1, len(logged.output))
        with self.assertLogs(LOGGER, "INFO") as logged:
            self.source.says(a="1")
            self.assertEqual((), self.stale())
        self.assertIn("answers again", logged.output[0])

    def test_a_restart_in_an_outage_keeps_labels_and_age(self):
        self.source.says(a="1")
        self.labels()
        self.clock.now += LIMIT_S - 10
        again = self.restarted()
        again.start()
        self.assertEqual({"x.example/a": "1"}, self.source.known)
        self.assertEqual({"a": "1"}, self.labels(again))
        self.assertEqual((), self.stale(again))
        self.clock.now += 20
        self.assertEqual(("kubernetes",), self.stale(again))

    def test_ages_on_disk_follow_a_source_that_says_the_same(self):
        for _ in range(10):
            self.source.says(a="1")
            self.labels()
            self.clock.now += LIMIT_S / 5
        self.assertEqual((), self.stale(self.restarted()))

    def test_labels_from_before_a_boot_are_stale_until_confirmed(self):
        self.source.says(a="1")
        self.labels()
        again = self.restarted(boot_id="boot-2")
        self.assertEqual({"a": "1"}, self.labels(again))
        self.assertEqual(("kubernetes",), self.stale(again))
        self.source.says(a="1")
        self.assertEqual((), self.stale(again))

    def test_labels_of_another_host_are_nobodys(self):
        self.source.says(a="1")
        self.labels()
        self.assertEqual({}, self.labels(self.restarted(host="clone")))

    def test_a_store_that_cannot_be_written_is_said_once(self):
        last_known = self.make(path=self.path / "no" / "such")
        with self.assertLogs(LOGGER, "WARNING") as logged:
            for number in range(3):
                self.source.says(a=str(number))
                self.assertEqual({"a": str(number)}, self.labels(last_known))
        self.assertEqual(1, len(logged.output))

    def test_no_store(self):
        last_known = self.make(path=None)
        self.source.says(a="1")
        self.assertEqual({"a": "1"}, self.labels(last_known))
        last_known.write(last_known.record())
        self.assertFalse(self.path.exists())

    def test_ignored_keys(self):
        last_known = self.make(ignored=re.compile(r"x\.example/serial.*"))
        self.source.says(a="1", serial="77", serials="78")
        self.assertEqual({"a": "1"}, self.labels(last_known))

    def test_too_many_labels_are_a_problem(self):
        self.source.says(a="1")
        self.labels()
        many = {f"x.example/n{n}": "" for n in range(MAX_LABELS + 1)}
        self.source.answer = Answer(many, self.clock.now + 1)
        with self.assertLogs(LOGGER, "WARNING") as logged:
            self.assertEqual({"a": "1"}, self.labels())
        self.assertIn("remove some", logged.output[0])

    def test_contradictions_are_logged_when_new_and_counted(self):
        def say(labels):
            self.clock.now += 1
            self.source.answer = Answer(labels, self.clock.now)
            self.last_known.apply(KERNEL)
            self.last_known.write(self.last_known.due())

        with self.assertLogs(LOGGER, "WARNING") as logged:
            for labels in ({"gone": "true"}, {"gone": "true"}, {}):
                say(labels)
            say({"gone": "true", "k": "2"})
        self.assertEqual(3, len(logged.output))
        self.assertIn("but absent from the kernel", logged.output[0])
        self.assertIn("but '1' from the kernel", logged.output[2])
        self.last_known.write(self.last_known.record())
        self.assertEqual(
            {"gone": 2, "k": 1}, store.load(self.path).contradicted
        )
        self.last_known = self.restarted()
        say({"gone": "true"})
        self.assertEqual(3, store.load(self.path).contradicted["gone"])

    def test_stop(self):
        self.last_known.stop()
        self.assertTrue(self.source.stopped)
