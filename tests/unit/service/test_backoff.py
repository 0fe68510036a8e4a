# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.service.backoff import Backoff


class BackoffTest(unittest.TestCase):
    def test_delays_double_up_to_the_limit(self):
        backoff = Backoff(1.0, 5.0, lambda low, high: high)
        self.assertEqual([1, 2, 4, 5, 5], [backoff.failed() for _ in range(5)])
        self.assertEqual(5, backoff.failures)

    def test_jitter_takes_up_to_half_of_the_delay_away(self):
        backoff = Backoff(1.0, 5.0, lambda low, high: low)
        self.assertEqual([0.5, 1.0], [backoff.failed() for _ in range(2)])

    def test_success_starts_anew(self):
        backoff = Backoff(1.0, 5.0, lambda low, high: high)
        backoff.failed()
        backoff.failed()
        backoff.succeeded()
        self.assertEqual(0, backoff.failures)
        self.assertEqual(1.0, backoff.failed())

    def test_two_agents_do_not_come_back_together(self):
        delays = {Backoff(1.0, 60.0).failed() for _ in range(20)}
        self.assertGreater(len(delays), 1)
        self.assertTrue(all(0.5 <= delay <= 1.0 for delay in delays))
