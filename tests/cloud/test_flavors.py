# SPDX-License-Identifier: Apache-2.0

"""Flavors with our extra specs: made, refused, explained."""

import json

from tests.cloud.base import KERNEL
from tests.cloud.base import CloudTestCase
from tests.cloud.scheduler import explain
from tests.testbed.seed import ORDINARY_FLAVOR
from tests.testbed.services import RT
from tests.testbed.services import STD


class TestExplain(CloudTestCase):
    """``sriov-rt explain`` asks Nova for the flavor, the agents for facts."""

    def test_the_table(self) -> None:
        done = explain(self, self.flavor(KERNEL))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, rf"\| {RT} +\| yes ")
        self.assertRegex(done.stdout, rf"\| {STD} +\| no ")
        done = explain(self, self.flavor(KERNEL), "--json")
        passes, fails = json.loads(done.stdout)
        self.assertEqual((RT, True), (passes["host"], passes["passes"]))
        self.assertEqual((STD, False), (fails["host"], fails["passes"]))
        self.assertEqual("kernel_not_rt", fails["reasons"][0]["code"])
        self.assertIn("boot a realtime kernel", fails["reasons"][0]["remedy"])

    def test_a_flavor_that_no_host_satisfies(self) -> None:
        done = explain(
            self,
            self.flavor({**KERNEL, "sriov_rt:nic": "solarflare"}),
            "--json",
        )
        self.assertEqual(1, done.returncode, done.stderr)
        reasons = {
            each["host"]: {reason["code"] for reason in each["reasons"]}
            for each in json.loads(done.stdout)
        }
        self.assertEqual({RT, STD}, reasons.keys())
        for host, codes in reasons.items():
            self.assertIn("nic_missing", codes, host)

    def test_a_flavor_that_asks_nothing(self) -> None:
        done = explain(self, ORDINARY_FLAVOR, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        verdicts = json.loads(done.stdout)
        self.assertEqual([True, True], [each["passes"] for each in verdicts])

    def test_a_flavor_that_is_not_there(self) -> None:
        done = explain(self, "no-such-flavor")
        self.assertEqual(2, done.returncode, done.stdout)
        (line,) = done.stderr.splitlines()
        self.assertTrue(line.startswith("sriov-rt: error: "), line)
