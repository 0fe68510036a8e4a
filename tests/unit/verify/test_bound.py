# SPDX-License-Identifier: Apache-2.0

import random
import unittest

from sriov_rt.verify import bound


def normal(count, seed=1):
    source = random.Random(seed)
    return [round(source.gauss(30, 4)) for _ in range(count)]


class BoundTest(unittest.TestCase):
    def test_rule_of_three(self):
        found = bound.of(18, 4_500_000, 900.0)
        self.assertAlmostEqual(6.66e-7, found.probability, delta=1e-9)
        # A third of the run: 15 minutes at 5 kHz say once in 5 minutes.
        self.assertAlmostEqual(300.4, found.once_in_s, delta=0.1)

    def test_too_few_blocks(self):
        found = bound.estimate(normal(99), 40)
        self.assertIsNone(found.bound_us)
        self.assertEqual(
            "it takes 100 maxima of a second, and there are 99", found.refused
        )
        # oslat keeps its CPU and reports at its end.
        found = bound.estimate((), 40)
        self.assertIn("reports no maximum of each second", found.refused)

    def test_never_below_what_was_measured(self):
        maxima = normal(900)
        self.assertGreaterEqual(
            bound.estimate(maxima, max(maxima)).bound_us, max(maxima)
        )
        self.assertEqual(10**6, bound.estimate(maxima, 10**6).bound_us)

    def test_no_estimate_of_a_heavy_tail(self):
        source = random.Random(2)
        maxima = [int(10 + source.paretovariate(1.5)) for _ in range(900)]
        self.assertEqual(
            bound.Estimate(None, "the tail is heavy"),
            bound.estimate(maxima, max(maxima)),
        )

    def test_no_estimate_of_what_changes_with_time(self):
        rising = [20 + i // 50 for i in range(900)]
        self.assertEqual(
            "the maxima rise with time", bound.estimate(rising, 40).refused
        )
        self.assertEqual(
            "the maxima fall with time",
            bound.estimate(rising[::-1], 40).refused,
        )

    def test_no_estimate_of_maxima_that_depend_on_one_another(self):
        waves = [20 + i % 3 + 5 * (i // 30 % 2) for i in range(900)]
        self.assertEqual(
            "the maxima depend on one another",
            bound.estimate(waves, 27).refused,
        )

    def test_all_the_same(self):
        self.assertIsNone(bound.estimate([18] * 900, 18).bound_us)

    def test_fit_finds_what_was_drawn(self):
        source = random.Random(3)
        for shape in (0.2, 0.05):
            drawn = sorted(
                bound.quantile(source.random(), 50.0, 5.0, shape)
                for _ in range(20000)
            )
            location, scale, found = bound.fit(drawn)
            self.assertAlmostEqual(50.0, location, delta=0.2)
            self.assertAlmostEqual(5.0, scale, delta=0.2)
            self.assertAlmostEqual(shape, found, delta=0.03)

    def test_half_a_day_takes_no_time(self):
        maxima = normal(43200)
        self.assertIsNotNone(bound.estimate(maxima, max(maxima)))
