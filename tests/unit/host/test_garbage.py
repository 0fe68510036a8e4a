# SPDX-License-Identifier: Apache-2.0

"""No content of any file makes an observation raise."""

import json
import random
import re
import shutil
import tempfile
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from sriov_rt import codec
from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.decide import realtime
from sriov_rt.host import readiness
from sriov_rt.host import root as root_module
from sriov_rt.host import table
from sriov_rt.host.observer import Observer
from tests.periodic import slow
from tests.unit.host import trees

#: What is nearly what a parser takes, beside bytes that are nothing at all.
_NEARLY = st.sampled_from(
    [
        b"",
        b"\n",
        b"\0",
        b"(null)\n",
        b"0-4000000000\n",
        b"0-8191\n",
        b"0-3:1/0\n",
        b"-1\n",
        b"1_0\n",
        "١٢\n".encode(),
        b"9" * 5000,
        b"ffffffff,\n",
        b"0x\n",
        b"[always]\n",
        b"[[[[[",
        b'{"max_latency_us": 1e999, "kernel": 0, "expires_at": NaN}',
        b"[compute\n",
        b"[compute]\ncpu_dedicated_set = ^\n  0-\n",
        b'isolcpus=, nohz_full="rcu_nocbs= rcu_nocbs=0-N:1/2',
        b"kernel/..ko: \n:\n",
        b"-name\0",
        b"-name\0guest=\x1b[31m\0",
    ]
)
_CONTENT = st.one_of(st.binary(max_size=200), _NEARLY)


@slow
class GarbageTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.tree = trees.realtime_host(place.name)
        self.whole = {path: path.read_bytes() for path in self.tree.files()}

    def observe(self) -> facts.HostFacts:
        observer = Observer(self.tree.root, "h", "h", trees.SOURCES)
        with self.assertNoLogs("sriov_rt", "WARNING"):
            found = observer.observe()
        text = json.dumps(found.to_plain())
        # What it is comes through; a scheduler has control characters escaped.
        again = codec.from_plain(facts.HostFacts, json.loads(text))
        self.assertEqual(found, again)
        facts.from_json(text)
        self.assertEqual(found.digest(), again.digest())
        self.assertTrue(list(table.rows(found)))
        list(realtime.reasons(facts.decisive(found), placed_by_nova=True))
        for mode in readiness.MODES:
            list(readiness.reasons(mode, found))
        return found

    @hypothesis.settings(deadline=None, max_examples=40)
    @hypothesis.given(st.lists(_CONTENT, min_size=1, max_size=9), st.randoms())
    def test_garbage_in_every_file(self, contents, chance: random.Random):
        for path in self.whole:
            path.write_bytes(chance.choice(contents))
        self.observe()

    @hypothesis.settings(deadline=None, max_examples=60)
    @hypothesis.given(st.data())
    def test_garbage_in_one_file(self, data):
        path = data.draw(st.sampled_from(sorted(self.whole)))
        path.write_bytes(data.draw(_CONTENT))
        try:
            self.observe()
        finally:
            path.write_bytes(self.whole[path])

    def test_each_file_missing_or_a_directory(self):
        # One CPU, one idle state and one device stand for the others.
        kinds = {re.sub(r"\d+", "N", str(path)): path for path in self.whole}
        for path in kinds.values():
            content = self.whole[path]
            with self.subTest(path):
                path.unlink()
                self.observe()
                path.mkdir()
                self.observe()
                path.rmdir()
                path.write_bytes(content)

    def test_nothing_at_all(self):
        shutil.rmtree(self.tree.path / "sys")
        shutil.rmtree(self.tree.path / "proc")
        shutil.rmtree(self.tree.path / "lib")
        found = self.observe()
        for part in ("cpus", "kernel", "memory", "irqs", "nics"):
            self.assertNotIn(
                False,
                [
                    isinstance(value, Unknown)
                    for value in self.values(getattr(found, part))
                ],
            )

    @staticmethod
    def values(part):
        return [getattr(part, name) for name in part.__dataclass_fields__]


class EveryReadFailsTest(trees.TreeTest):
    def test_error_of_every_file(self):
        def fail(path, limit):
            raise PermissionError(13, "Permission denied")

        with mock.patch.object(root_module, "read_file", fail):
            found = Observer(self.root, "h", "h", trees.SOURCES).observe()
        self.assertEqual(found, facts.from_plain(found.to_plain()))
        for part in ("cpus", "kernel", "memory", "irqs", "compute"):
            for name in facts.PARTS[part].__dataclass_fields__:
                value = getattr(getattr(found, part), name)
                with self.subTest(part=part, name=name):
                    self.assertIsInstance(value, Unknown)
                    self.assertIn("Permission denied", value.reason)
