# SPDX-License-Identifier: Apache-2.0

import threading
import unittest
from unittest import mock

from sriov_rt import codec
from sriov_rt.scheduler import facts_table as tables
from sriov_rt.scheduler.facts_table import FactsTable
from tests.unit import builders
from tests.unit.nic.fakes import Taken
from tests.unit.nic.fakes import TakenLock
from tests.unit.scheduler.fakes import MAX_AGE_S
from tests.unit.scheduler.fakes import Clock
from tests.unit.scheduler.fakes import put


class FactsTableTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.table = FactsTable(3, MAX_AGE_S, self.clock)

    def test_facts_are_found_by_host(self):
        host = builders.realtime_host("a")
        self.assertTrue(put(self.table, host))
        entry = self.table.entries["a"]
        self.assertEqual(host.compute, entry.facts.compute)
        self.assertEqual(1000.0, entry.confirmed)

    def test_a_heartbeat_with_the_digest_confirms(self):
        host = builders.realtime_host("a")
        put(self.table, host)
        self.clock.now += 15
        self.assertTrue(self.table.confirm("a", host.digest()))
        self.assertEqual(1015.0, self.table.entries["a"].confirmed)

    def test_a_heartbeat_with_another_digest_does_not(self):
        put(self.table, builders.realtime_host("a"))
        self.clock.now += 15
        self.assertFalse(self.table.confirm("a", "00" * 32))
        self.assertEqual(1000.0, self.table.entries["a"].confirmed)

    def test_a_heartbeat_of_an_unknown_host_does_not(self):
        self.assertFalse(self.table.confirm("a", "00" * 32))

    def test_a_host_that_is_gone_is_forgotten(self):
        put(self.table, builders.realtime_host("a"))
        self.table.forget("a")
        self.table.forget("b")
        self.assertEqual(0, len(self.table))


class FloodTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.table = FactsTable(3, MAX_AGE_S, self.clock)
        for name in ("a", "b", "c"):
            put(self.table, builders.realtime_host(name))

    def test_hosts_beyond_the_limit_are_refused_and_logged_once(self):
        with self.assertLogs(tables.LOG, "ERROR") as logged:
            self.assertFalse(put(self.table, builders.realtime_host("d")))
            self.assertFalse(put(self.table, builders.realtime_host("e")))
        self.assertEqual(1, len(logged.output))
        self.assertIn("facts_max_hosts", logged.output[0])
        self.assertEqual(3, len(self.table))

    def test_hosts_that_are_there_are_still_served(self):
        changed = builders.realtime_host("a", memory={"thp": "always"})
        self.assertTrue(put(self.table, changed))
        facts = self.table.entries["a"].facts
        self.assertEqual("always", facts.memory.thp)

    def test_large_facts_are_bounded_in_all(self):
        values = {f"k{n}": "v" * 100 for n in range(600)}
        large = {"labels": {"values": values}}
        size = codec.size(builders.realtime_host("a", **large))
        self.assertGreater(2 * size, 3 * tables.FACTS_BYTES)
        self.assertTrue(put(self.table, builders.realtime_host("a", **large)))
        with self.assertLogs(tables.LOG, "ERROR"):
            self.assertFalse(
                put(self.table, builders.realtime_host("b", **large))
            )
        # What b was is no longer what it is; c, and a once more, fit.
        self.assertEqual({"a", "c"}, set(self.table.entries))
        self.assertTrue(put(self.table, builders.realtime_host("a", **large)))
        self.table.forget("a")
        self.assertTrue(put(self.table, builders.realtime_host("b", **large)))

    def test_stale_hosts_give_way(self):
        self.clock.now += MAX_AGE_S + 1
        self.assertTrue(put(self.table, builders.realtime_host("d")))
        self.assertEqual(["d"], list(self.table.entries))


class ThreadsTest(unittest.TestCase):
    def test_writers_take_turns(self):
        """Each of them changes the hosts and the sum of their bytes."""
        with mock.patch("threading.Lock", TakenLock):
            table = FactsTable(3, MAX_AGE_S)
        host = builders.realtime_host("a")
        for write in (
            lambda: put(table, host),
            lambda: table.forget("a"),
            lambda: table.refuse("a", "no JSON"),
        ):
            self.assertRaises(Taken, write)

    def test_a_reader_sees_all_of_a_report_or_nothing(self):
        table = FactsTable(3, MAX_AGE_S)
        reports = [
            builders.realtime_host("a"),
            builders.realtime_host("a", kernel={"preempt_rt": False}),
        ]
        expected = {host.digest(): host.kernel.preempt_rt for host in reports}
        put(table, reports[0])
        done = threading.Event()

        def write() -> None:
            for turn in range(400):
                put(table, reports[turn % 2])
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        torn = 0
        while not done.is_set():
            entry = table.entries["a"]
            real = entry.facts.kernel.preempt_rt
            torn += expected[entry.digest.hex()] is not real
        writer.join()
        self.assertEqual(0, torn)
