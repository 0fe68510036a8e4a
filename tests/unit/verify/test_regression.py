# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
import pathlib
import random
import tempfile
import unittest
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.cmd import verify_regression
from sriov_rt.facts import certificate as document
from sriov_rt.host.root import Root
from sriov_rt.verify import certificate
from sriov_rt.verify import collection
from sriov_rt.verify import errors
from sriov_rt.verify import figures
from sriov_rt.verify import regression
from sriov_rt.verify import results
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.regression import Verdict
from tests.unit.verify.test_certificate import GOOD
from tests.unit.verify.test_certificate import NOW
from tests.unit.verify.test_certificate import SUBJECT

SECONDS = 900


def seconds(seed, worse_us=0, number=SECONDS):
    """Return maxima of seconds, µs, of a tail that is not normal."""
    drawn = random.Random(seed)
    return tuple(
        round(8 + worse_us + drawn.expovariate(0.5)) for _ in range(number)
    )


def by_second(cpu, maxima):
    samples = 5000 * len(maxima)
    return CpuLatency(cpu, samples, max(maxima), maxima_us=maxima)


def counted(cpu, seed, worse_us=0, samples=100_000):
    """Return a CPU of a tool that has a histogram alone."""
    drawn = random.Random(seed)
    counts = {}
    for _ in range(samples):
        found = round(2 + worse_us + drawn.expovariate(1))
        counts[found] = counts.get(found, 0) + 1
    return CpuLatency(cpu, samples, max(counts), tuple(sorted(counts.items())))


def result(tool, *cpus, at=NOW, load="compute", machine="a", problems=()):
    run = Measurement(tool, "2.40", tool, at, SECONDS, cpus, problems)
    conditions = {"machine": machine}
    return results.Result(Step(tool, SECONDS, 200), load, conditions, run)


def measured(*found):
    latency = {each.step.tool: each for each in found}
    return collection.Collection("x", latency, (), ())


class JudgeTest(unittest.TestCase):
    BEFORE = measured(
        result(
            "cyclictest", by_second(2, seconds(1)), by_second(3, seconds(2))
        ),
        result("oslat", counted(2, 3), counted(3, 4)),
    )

    def judge(self, *found):
        return regression.judge(self.BEFORE, measured(*found))

    def cyclictest(self, worse_us=0, seed=5, **fields):
        return result(
            "cyclictest",
            by_second(2, seconds(seed)),
            by_second(3, seconds(seed + 1, worse_us)),
            **fields,
        )

    def oslat(self, worse_us=0, **fields):
        return result(
            "oslat", counted(2, 7), counted(3, 8, worse_us), **fields
        )

    def test_the_same_distribution_is_no_worse(self):
        found = self.judge(self.cyclictest(), self.oslat())
        self.assertIs(Verdict.NO_WORSE, found.verdict, found)
        self.assertEqual(8, len(found.figures))

    def test_the_same_is_seldom_called_worse(self):
        # 5 % of 200 are 10; four standard deviations above that are 22.
        before = measured(self.BEFORE.latency["cyclictest"])
        worse = sum(
            regression.judge(
                before, measured(self.cyclictest(seed=100 + 2 * n))
            ).verdict
            is Verdict.WORSE
            for n in range(200)
        )
        self.assertLessEqual(worse, 22)

    def test_a_cpu_that_got_worse_by_seconds(self):
        found = self.judge(self.cyclictest(3), self.oslat())
        self.assertIs(Verdict.WORSE, found.verdict)
        self.assertIn("cyclictest, CPU 3", found.worst.what)
        self.assertAlmostEqual(3, found.worst.change_us, delta=2)

    def test_a_cpu_that_got_worse_by_a_histogram(self):
        found = self.judge(self.cyclictest(), self.oslat(4))
        self.assertIs(Verdict.WORSE, found.verdict)
        self.assertIn("oslat, CPU 3", found.worst.what)
        self.assertAlmostEqual(4, found.worst.change_us, delta=4)

    def test_better_is_no_worse(self):
        after = measured(self.cyclictest(6), self.oslat(6))
        found = regression.judge(
            after, measured(self.cyclictest(), self.oslat())
        )
        self.assertIs(Verdict.NO_WORSE, found.verdict)

    def test_one_outlier_is_none(self):
        maxima = (*seconds(5)[:-1], 400)
        after = result(
            "cyclictest", by_second(2, maxima), by_second(3, seconds(6))
        )
        found = self.judge(after, self.oslat())
        self.assertIs(Verdict.NO_WORSE, found.verdict)

    def test_too_few_samples_do_not_show_that_it_is_no_worse(self):
        short = result(
            "cyclictest",
            *(by_second(n, seconds(n, number=200)) for n in (2, 3)),
        )
        found = self.judge(short, self.oslat())
        self.assertIs(Verdict.TOO_FEW, found.verdict)
        self.assertIn("has 1000000 samples", found.lacking[0])
        # What is worse in them is.
        short = result(
            "cyclictest",
            *(by_second(n, seconds(n, 9, number=200)) for n in (2, 3)),
        )
        self.assertIs(Verdict.WORSE, self.judge(short, self.oslat()).verdict)

    def test_a_maximum_alone_is_too_few(self):
        before = measured(result("oslat", counted(2, 3, samples=30_000)))
        after = measured(result("oslat", counted(2, 4, samples=30_000)))
        found = regression.judge(before, after)
        self.assertIs(Verdict.TOO_FEW, found.verdict)
        self.assertIn("has too few samples", found.lacking[0])

    def test_what_was_not_measured_is_too_few(self):
        for after, why in (
            ((self.cyclictest(),), "oslat was not run"),
            (
                (self.cyclictest(), result("oslat", counted(2, 7))),
                "oslat, CPU 3 was not measured",
            ),
            (
                (self.cyclictest(problems=("steal time",)), self.oslat()),
                "cyclictest: steal time",
            ),
        ):
            with self.subTest(why):
                found = self.judge(*after)
                self.assertIs(Verdict.TOO_FEW, found.verdict)
                self.assertEqual((why,), found.lacking)

    def test_what_cannot_be_compared(self):
        for fields in ({"load": "none"}, {"machine": "b"}):
            with (
                self.subTest(fields),
                self.assertRaises(errors.NotComparable),
            ):
                self.judge(self.cyclictest(**fields), self.oslat())


class CompareTest(unittest.TestCase):
    """The command, by what is kept on disk."""

    def setUp(self):
        place = self.enterContext(tempfile.TemporaryDirectory())
        self.root = Root(f"{place}/host")
        self.after = pathlib.Path(place) / "after"
        self.enterContext(
            mock.patch.object(verify_regression, "Root", lambda _: self.root)
        )

    def keep(self, at, worse_us=0):
        found = result(
            "cyclictest", by_second(2, seconds(at, worse_us)), at=at
        )
        figures.keep(self.root.path, at + SECONDS, [found])
        return found

    def run_it(self, worse_us=0, at=NOW, code=0):
        found = result("cyclictest", by_second(2, seconds(9, worse_us)), at=at)
        results.Results(self.after).put(found)
        out, err = io.StringIO(), io.StringIO()
        words = ["verify", "compare", str(self.after)]
        printed = []
        for each in ((), ("--json",)):
            out = io.StringIO()
            with (
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                self.assertEqual(code, main.main([*words, *each]))
            printed.append(out.getvalue())
        self.error = err.getvalue()
        text, plain = printed
        return text, json.loads(plain) if plain else None

    def test_each_verdict(self):
        self.keep(NOW - 9000)
        text, plain = self.run_it()
        label = "the certificate of 2026-09-21T115820Z"
        self.assertIn(f"no worse than {label}", text)
        self.assertEqual("no worse", plain["verdict"])
        self.assertIsNone(plain["worse_by_us"])
        text, plain = self.run_it(5, code=1)
        self.assertIn(f"worse than {label} by ", text)
        self.assertEqual("worse", plain["verdict"])
        self.assertLess(2, plain["worse_by_us"])
        self.assertEqual(2, len(plain["figures"]))

    def test_the_last_certificate_before_it_is_compared_with(self):
        self.keep(NOW - 9000)
        self.keep(NOW - 5000, worse_us=9)
        # That of the measurement itself, and a later one.
        self.keep(NOW)
        self.keep(NOW + 5000)
        _, plain = self.run_it(9)
        self.assertEqual("no worse", plain["verdict"])
        (self.root.path / figures.PATH).joinpath("2026-09-21T1Z").mkdir()
        self.assertEqual(plain, self.run_it(9)[1])

    def test_a_withdrawn_certificate_keeps_its_figures(self):
        self.keep(NOW - 9000)
        issued = certificate.issue(
            SUBJECT, GOOD, "standard", LOADS["compute"], NOW - 8100
        )
        certificate.write(issued, self.root.path)
        certificate.withdraw(issued, "the kernel", self.root.path)
        self.assertEqual("no worse", self.run_it()[1]["verdict"])
        (self.root.path / document.PATH).unlink()
        self.assertEqual("no worse", self.run_it()[1]["verdict"])

    def test_few_are_kept(self):
        for n in range(figures.MOST + 2):
            self.keep(NOW + 1000 * n)
        there = sorted((self.root.path / figures.PATH).iterdir())
        self.assertEqual(figures.MOST, len(there))
        self.assertIn("2026-09-21T", there[0].name)

    def test_a_clock_that_was_ahead_costs_no_later_ones(self):
        for n in range(figures.MOST):
            self.keep(NOW + 1e9 + 1000 * n)
        self.keep(NOW - 9000)
        self.assertEqual("no worse", self.run_it()[1]["verdict"])

    def test_without_figures(self):
        self.run_it(code=2)
        self.assertIn("has no figures of a certificate", self.error)

    def test_figures_that_cannot_be_kept_do_not_cost_the_certificate(self):
        self.root.path.mkdir()
        (self.root.path / "var").write_text("")
        with self.assertLogs("sriov_rt.verify.figures", "WARNING"):
            self.keep(NOW)
