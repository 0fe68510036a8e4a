# SPDX-License-Identifier: Apache-2.0

import json
import unittest

import hypothesis
from hypothesis import strategies as st

from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify.cyclictest import Cyclictest
from sriov_rt.verify.cyclictest import Maxima
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.oslat import Oslat
from tests.unit.verify import recorded

CYCLICTEST = recorded.read("cyclictest-2.40.json")
OSLAT = recorded.read("oslat-2.40.json")


def parse_cyclictest(document):
    found = Cyclictest(Cyclictest.default_step(900)).parse(document)
    return found.version, found.cpus


def parse_oslat(document):
    return Oslat(Oslat.default_step(900)).parse(document)


class CyclictestTest(unittest.TestCase):
    def test_recorded(self):
        version, (cpu,) = parse_cyclictest(CYCLICTEST)
        self.assertEqual("2.40", version)
        self.assertEqual((1, 14909, 981), (cpu.cpu, cpu.samples, cpu.max_us))
        # Above the 60 µs of its histogram.
        self.assertEqual(684, cpu.overflows)

    def test_a_later_version(self):
        later = recorded.read("cyclictest-2.60.json")
        version, (cpu,) = parse_cyclictest(later)
        self.assertEqual("2.60", version)
        self.assertEqual((1, 9959, 1260), (cpu.cpu, cpu.samples, cpu.max_us))
        self.assertEqual(91, cpu.overflows)

    def test_a_version_without_the_colon(self):
        document = CYCLICTEST.replace(b"rt_test_version:", b"rt_test_version")
        self.assertEqual("2.40", parse_cyclictest(document)[0])

    def test_maxima_of_seconds(self):
        maxima = Maxima(200_000)
        maxima.feed(
            f"{thread:8}:{cycle:8}:{thread * 100 + cycle:8}".encode()
            for cycle in range(12)
            for thread in (0, 1)
        )
        # Five samples a second; the second that has not ended is left out.
        self.assertEqual((4, 9), maxima.of(0))
        self.assertEqual((104, 109), maxima.of(1))
        self.assertEqual((), maxima.of(2))

    def test_lines_that_are_no_samples(self):
        maxima = Maxima(1_000_000)
        maxima.feed(
            [b"", b"Using 2 cpus.", b"a:b:c", b"0:-1:5", b"0:0:-5", b"1:2"]
        )
        self.assertEqual((), maxima.of(0))

    def test_command(self):
        step = Step("cyclictest", 900, interval_us=200, buckets=60)
        self.assertEqual(
            (
                "cyclictest",
                "--mlockall",
                "--verbose",
                "--policy=fifo",
                "--priority=95",
                "--interval=200",
                "--distance=0",
                "--histogram=60",
                "--duration=900",
                "--threads=2",
                "--affinity=2-3",
                "--mainaffinity=0-1",
                "--json=/x",
            ),
            Cyclictest(step).command(
                Cpus(CpuSet((2, 3)), CpuSet((0, 1))), "/x"
            ),
        )


class OslatTest(unittest.TestCase):
    def test_recorded(self):
        version, (cpu,), duration_s = parse_oslat(OSLAT)
        self.assertEqual("2.40", version)
        self.assertEqual((1, 50757), (cpu.cpu, cpu.max_us))
        self.assertEqual(1.998, duration_s)
        # Its last bucket holds all that is above it.
        self.assertEqual(31, cpu.histogram[-1][0])
        self.assertEqual(378, cpu.overflows)

    def test_a_later_version(self):
        later = recorded.read("oslat-2.60.json")
        version, (cpu,), duration_s = parse_oslat(later)
        self.assertEqual(("2.60", 1.029), (version, duration_s))
        self.assertEqual((1, 13368), (cpu.cpu, cpu.max_us))
        self.assertEqual(36470414, cpu.samples)


class GarbledTest(unittest.TestCase):
    def both(self, document):
        for parse in (parse_cyclictest, parse_oslat):
            with self.assertRaises(OutputInvalid) as caught:
                parse(document)
            self.assertIn("output not understood", str(caught.exception))

    def test_no_documents(self):
        for document in (b"", b"{", b"[]", b"\xff", b"[" * 10**5, b"{}"):
            with self.subTest(document[:20]):
                self.both(document)

    def test_wrong_values(self):
        for recorded_, parse in (
            (CYCLICTEST, parse_cyclictest),
            (OSLAT, parse_oslat),
        ):
            good = json.loads(recorded_)
            for change in (
                {"file_version": 2},
                {"thread": {}},
                {"thread": []},
                {"thread": {"x": {}}},
                {"thread": {"0": {}}},
                {"rt_test_version:": None},
            ):
                with (
                    self.subTest(change=change),
                    self.assertRaises(OutputInvalid),
                ):
                    parse(json.dumps(good | change).encode())
            for key, values in (
                ("max", (-1, None, "1", 2**70, True)),
                ("cpu", (-1, 1.5, None)),
                ("histogram", ([], {"-1": 1}, {"1": -1}, {"1": 1.5})),
            ):
                for value in values:
                    thread = {"0": good["thread"]["0"] | {key: value}}
                    document = json.dumps(good | {"thread": thread}).encode()
                    with (
                        self.subTest(key=key, value=value),
                        self.assertRaises(OutputInvalid),
                    ):
                        parse(document)

    def test_more_in_buckets_than_in_all(self):
        good = json.loads(CYCLICTEST)
        good["thread"]["0"]["cycles"] = 5
        with self.assertRaises(OutputInvalid):
            parse_cyclictest(json.dumps(good).encode())

    @hypothesis.settings(deadline=None)
    @hypothesis.given(st.data())
    def test_cut_anywhere(self, data):
        end = data.draw(st.integers(0, len(CYCLICTEST) - 3))
        with self.assertRaises(OutputInvalid):
            parse_cyclictest(CYCLICTEST[:end])
