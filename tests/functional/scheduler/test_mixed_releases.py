# SPDX-License-Identifier: Apache-2.0

"""This release and the last one that landed read what the other writes."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests.functional.scheduler import release_peer
from tests.testbed import earlier
from tests.testbed import paths

NOTHING = {"messages": [], "written": []}
#: What a record of each release says by the same name.
COMMON = ("port", "owner", "kind", "interface", "index", "vf", "mac", "state")


class MixedReleasesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        old = pathlib.Path(scratch.name, "earlier")
        earlier.unpack(earlier.commit(), old, paths.CHECKOUT)
        cls.trees = {"old": old, "new": paths.CHECKOUT}
        cls.own = {name: cls.run_peer(name, NOTHING) for name in cls.trees}
        given = {
            what: [each for own in cls.own.values() for each in own[what]]
            for what in NOTHING
        }
        cls.found = {name: cls.run_peer(name, given) for name in cls.trees}
        cls.reads = {
            name: iter(each["read"]) for name, each in cls.found.items()
        }

    @classmethod
    def run_peer(cls, name, given):
        """Have a release read and write."""
        # Without -P the directory of the program would come first.
        done = subprocess.run(
            (sys.executable, "-P", release_peer.__file__),
            env={**os.environ, "PYTHONPATH": str(cls.trees[name])},
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{name}: {done.stderr}")
        return json.loads(done.stdout)

    def test_each_is_the_release_that_it_is_taken_for(self):
        for name, tree in self.trees.items():
            with self.subTest(name):
                self.assertEqual(
                    str(tree / "sriov_rt/__init__.py"),
                    self.own[name]["package"],
                )

    def test_schedulers_decide_by_the_facts_of_either(self):
        for scheduler, found in self.found.items():
            decisions = iter(found["decisions"])
            for agent in self.trees:
                fit, unfit = next(decisions), next(decisions)
                with self.subTest(agent=agent, scheduler=scheduler):
                    self.assertEqual({"codes": [], "unknown": []}, fit)
                    self.assertIn("cpus_not_isolated", unfit["codes"])
                    self.assertEqual([], unfit["unknown"])

    def test_a_record_is_read_by_its_release_and_each_newer_one(self):
        for writer, own in self.own.items():
            for each in own["written"]:
                port = json.loads(each)
                for reader, found in self.found.items():
                    with self.subTest(
                        f"{port['state']} of {writer} by {reader}"
                    ):
                        self.check(port, next(self.reads[reader]), found)

    def check(self, written, read, reader):
        if written["schema"] > reader["schema"]:
            self.assertIsNone(read)
            return
        self.assertEqual(
            {name: written[name] for name in COMMON},
            {name: read[name] for name in COMMON},
        )
