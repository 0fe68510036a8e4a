# SPDX-License-Identifier: Apache-2.0

"""Hosts that servers land on, and faults of servers that cannot."""

from tempest import config
from tempest.lib import decorators

from sriov_rt_tempest_plugin.tests import base

CONF = config.CONF

#: A label that no host has.
NOWHERE = {"sriov_rt:node_selector": "sriov-rt-tempest.nowhere=true"}


class RealtimeServersTest(base.RealtimeTest):
    """Realtime servers land on realtime hosts."""

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("e002d466-ee47-418d-b107-d26d8085e75f")
    def test_the_kernel_alone_is_reason_enough(self) -> None:
        # Nova does not know the kernel: only our filter selects by it.
        server = self.boot(self.flavor({"sriov_rt:kernel": "preempt_rt"}))
        traits = self.hosts()[server["OS-EXT-SRV-ATTR:host"]]
        self.assertIn(base.KERNEL_TRAIT, traits)

    @decorators.idempotent_id("e9df7b7a-9051-42d4-ae1b-2b2c66620f20")
    def test_a_realtime_server_lands_on_a_realtime_host(self) -> None:
        server = self.boot(self.realtime_flavor())
        self.assertIn(server["OS-EXT-SRV-ATTR:host"], self.realtime_hosts())

    @decorators.idempotent_id("bf490499-6490-4ab5-817c-c4ebc9116abf")
    def test_the_trait_alone_finds_one_too(self) -> None:
        flavor = self.flavor({f"trait:{base.REALTIME_TRAIT}": "required"})
        server = self.boot(flavor)
        self.assertIn(server["OS-EXT-SRV-ATTR:host"], self.realtime_hosts())

    @decorators.attr(type="negative")
    @decorators.idempotent_id("2ae7dd47-e7f5-4a4a-881a-0e9911ab74a0")
    def test_an_ordinary_host_is_refused_when_it_is_named(self) -> None:
        others = sorted(self.hosts().keys() - self.realtime_hosts())
        if not others:
            self.skipTest("every compute host is a realtime one")
        server = self.try_to_boot(self.realtime_flavor(), host=others[0])
        self.assertIn(base.NO_VALID_HOST, self.assert_refused(server))


class OrdinaryServersTest(base.ServerTest):
    """Servers without our extra specs, and servers that request too much."""

    @decorators.idempotent_id("3dbe20d0-5f97-45cd-a7a8-5832dbda3615")
    def test_an_ordinary_server_avoids_realtime_hosts(self) -> None:
        if not CONF.sriov_rt_feature_enabled.realtime:
            self.skipTest("[sriov_rt-feature-enabled] realtime is off")
        realtime = self.realtime_hosts()
        if not self.hosts().keys() - realtime:
            self.skipTest("every compute host is a realtime one")
        server = self.boot(self.flavor())
        self.assertNotIn(server["OS-EXT-SRV-ATTR:host"], realtime)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("1559db22-6e35-4185-ab59-c8b9e97e09c2")
    def test_with_no_host_left_the_fault_says_what_to_do(self) -> None:
        server = self.try_to_boot(self.flavor(NOWHERE))
        message = self.assert_refused(server)
        self.assertIn(base.NO_VALID_HOST, message)
        self.assertIn("sriov-rt explain", message)
