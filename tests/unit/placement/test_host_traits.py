# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from sriov_rt.placement import host_traits
from tests.unit import builders

RELEASE = "6.1.0-44-rt-amd64"


def fulfilled(host):
    return host_traits.fulfilled(host_traits.verdicts(host, host.observed_at))


class VerdictsTest(unittest.TestCase):
    def test_a_realtime_host_has_the_traits_of_one(self):
        self.assertEqual(
            {"CUSTOM_SRIOV_RT_REALTIME", "CUSTOM_SRIOV_RT_PREEMPT_RT"},
            fulfilled(builders.realtime_host()),
        )

    def test_a_host_with_onload_has_its_trait(self):
        host = builders.onload_host()
        self.assertIn("CUSTOM_SRIOV_RT_ONLOAD", fulfilled(host))

    def test_onload_without_a_nic_that_it_can_use_is_no_trait(self):
        for nics in ({}, Unknown("no right to read")):
            with self.subTest(nics=nics):
                host = builders.onload_host(onload={"nics": nics})
                self.assertNotIn("CUSTOM_SRIOV_RT_ONLOAD", fulfilled(host))

    def test_a_degraded_host_loses_the_trait_and_keeps_the_others(self):
        host = builders.realtime_host(cpus={"isolated": cpus("2")})
        self.assertEqual({"CUSTOM_SRIOV_RT_PREEMPT_RT"}, fulfilled(host))

    def test_a_host_on_hold_loses_what_a_realtime_guest_needs(self):
        until = 1_900_000_000.0
        certificate = facts.LatencyCertificate(9, RELEASE, until)
        latency = {"certificate": certificate}
        host = builders.realtime_host(latency=latency)
        self.assertIn("CUSTOM_SRIOV_RT_LATENCY_CERTIFIED", fulfilled(host))
        hold = {"hold": facts.HostHold("alice", "kernel", 0.0)}
        host = builders.realtime_host(latency=latency, maintenance=hold)
        self.assertEqual({"CUSTOM_SRIOV_RT_PREEMPT_RT"}, fulfilled(host))

    def test_what_is_unknown_is_no_trait(self):
        host = builders.realtime_host(
            kernel={"preempt_rt": Unknown("unreadable")},
            cpus={"isolated": Unknown("unreadable")},
        )
        self.assertEqual(frozenset(), fulfilled(host))

    def test_every_trait_is_ours(self):
        for name in host_traits.TRAITS:
            self.assertTrue(name.startswith(host_traits.PREFIX))
            self.assertRegex(name, r"\ACUSTOM_[A-Z0-9_]{1,248}\Z")


class MergedTest(unittest.TestCase):
    def test_traits_of_others_stay(self):
        there = {
            "COMPUTE_NODE",
            "CUSTOM_GOLD",
            "CUSTOM_SRIOV_RT_ONLOAD",
            "CUSTOM_NFD_PCI_1924_PRESENT",
        }
        self.assertEqual(
            {"COMPUTE_NODE", "CUSTOM_GOLD", "CUSTOM_SRIOV_RT_REALTIME"},
            host_traits.merged(there, {"CUSTOM_SRIOV_RT_REALTIME"}),
        )

    def test_a_name_that_only_resembles_ours_stays(self):
        there = {"CUSTOM_SRIOV_RTX", "CUSTOM_SRIOV", "CUSTOM_NFDX"}
        self.assertEqual(there, host_traits.merged(there, frozenset()))
