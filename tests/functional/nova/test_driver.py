# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import tempfile
from unittest import mock

from nova import test
from nova.virt import hardware

from sriov_rt import deadline
from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import PowerManagement
from sriov_rt.host.root import Root
from sriov_rt.nova import local_host
from tests.unit.scheduler.fakes import Clock


class LocalHostTest(test.NoDBTestCase):
    def setUp(self):
        super().setUp()
        self.flags(host="rt-1")
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self._release("6.1.0-44-rt-amd64")
        self.clock = Clock()
        self.host = local_host.LocalHost(Root(scratch.name), self.clock)

    def _release(self, text: str) -> None:
        path = self.root / "proc" / "sys" / "kernel" / "osrelease"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def test_the_host_is_named_as_nova_names_it(self):
        self.assertEqual("rt-1", self.host.facts().host)

    def test_the_cpu_sets_are_those_that_nova_goes_by(self):
        self.flags(
            cpu_dedicated_set="2-5,^3", cpu_shared_set="0,1", group="compute"
        )
        found = self.host.facts().compute
        self.assertEqual(hardware.get_cpu_dedicated_set(), found.dedicated)
        self.assertEqual({2, 4, 5}, found.dedicated)
        self.assertEqual({0, 1}, found.shared)

    def test_no_cpu_sets(self):
        found = self.host.facts().compute
        self.assertIsNone(found.dedicated)
        self.assertIsNone(found.shared)

    def test_power_management_is_that_of_nova(self):
        self.assertIsNone(self.host.facts().compute.power_management)
        self.clock.now += 60
        self.flags(
            cpu_power_management=True,
            cpu_power_management_strategy="governor",
            cpu_power_governor_high="schedutil",
            group="libvirt",
        )
        self.assertEqual(
            PowerManagement("governor", "powersave", "schedutil"),
            self.host.facts().compute.power_management,
        )

    def test_a_cpu_set_that_nova_cannot_read_is_unknown(self):
        self.flags(cpu_dedicated_set="2-", group="compute")
        found = self.host.facts().compute
        self.assertIsInstance(found.dedicated, Unknown)

    def test_the_other_facts_are_read_of_the_host(self):
        found = self.host.facts()
        self.assertEqual("6.1.0-44-rt-amd64", found.kernel.release)
        self.assertIsInstance(found.cpus.online, Unknown)

    def test_what_novas_user_may_not_read_is_left_to_the_agent(self):
        self.assertEqual(NOT_REPORTED, self.host.facts().cpus.idle_states)

    def test_a_read_that_does_not_end_is_waited_for_so_long(self):
        """As of an interface whose rtnl another has, or a process's memory."""
        fifo = self.root / "fifo"
        os.mkfifo(fifo)
        reads = mock.Mock(side_effect=lambda root: fifo.read_text())
        with (
            mock.patch.object(local_host, "_compute", reads),
            mock.patch.object(local_host, "LIMIT_S", 0.5),
        ):
            for _ in range(3):
                with self.assertRaisesRegex(
                    deadline.Expired,
                    "observation of this host has not ended within 0.5 s",
                ):
                    self.host.facts()
        # Whoever comes meanwhile waits for the same thread.
        self.assertEqual(1, reads.call_count)
        fifo.write_text("goes on")
        self.assertEqual("rt-1", self.host.facts().host)

    def test_instances_that_come_together_share_an_observation(self):
        first = self.host.facts()
        self._release("6.1.0-45-rt-amd64")
        self.clock.now += local_host.FACTS_S
        self.assertIs(first, self.host.facts())
        self.clock.now += 0.1
        found = self.host.facts().kernel
        self.assertEqual("6.1.0-45-rt-amd64", found.release)
