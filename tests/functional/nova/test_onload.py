# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""Onload's same-host rule: real API, conductor, scheduler and Placement."""

import concurrent.futures
import itertools
import threading
from typing import Any
from unittest import mock

from nova import context
from nova import exception
from nova.conductor import manager as conductor
from nova.scheduler.client import query

from sriov_rt.nova import filters
from sriov_rt.nova import requested
from sriov_rt.scheduler import worker
from tests.functional.nova import base
from tests.unit import builders

CONF = base.CONF

ONLOAD = {"sriov_rt:onload": "required"}


class OnloadCloudTest(base.CloudTest):
    """A cloud of hosts with one NIC each that Onload can use."""

    HOSTS = 2

    def setUp(self) -> None:
        super().setUp()
        for name in ("instances", "cores", "ram"):
            self.flags(**{name: -1}, group="quota")
        self.network = self.neutron.network_1["id"]
        self.place_network("fast")
        self.worker._settle_s = 0.0
        requested._network_of.cache_clear()
        for number in range(self.HOSTS):
            self.start_host(builders.onload_host(f"fast-{number}"))
        self.made = self._create_flavor(
            vcpu=1, memory_mb=64, extra_spec=ONLOAD
        )

    def place_network(self, physical: str | None) -> None:
        """Put the network on a physical one."""
        # A copy: the fixture's own is that of its class, for all tests.
        self.neutron._networks[self.network] = {
            **self.neutron._networks[self.network],
            "provider:physical_network": physical,
        }

    def body(self, **more: Any) -> dict[str, Any]:
        """Return what asks for a server on the network."""
        found = self._build_server(
            flavor_id=self.made, networks=[{"uuid": self.network}]
        )
        return {"server": {**found, **more}}

    def on(self, state: str = "ACTIVE", **more: Any) -> str | None:
        """Boot a server, and return the host that it is on.

        :param state: the one that it has to come to.
        """
        server = self.api.post_server(self.body(**more))
        return self.host_of(self._wait_for_state_change(server, state))

    def refused(self, **more: Any) -> None:
        """See that a server is refused by the rule."""
        self.assertIsNone(self.on("ERROR", **more))
        self.assertIn("onload_same_host × ", self.logged())


class ParallelTest(OnloadCloudTest):
    """What nova-api makes of 20 requests, sent to nova-scheduler at once.

    The conductor is left out: Nova's test base has one cell at a time, which
    20 threads of it would fight for.
    """

    HOSTS = 8
    REQUESTS = 20

    def test_at_once(self) -> None:
        self._see_why(self._show("20 requests at once"))

    def test_when_all_have_passed_the_filter_before_any_is_placed(
        self,
    ) -> None:
        # Each has seen all hosts free: the weigher alone tells them apart.
        together = threading.Barrier(self.REQUESTS)
        passed: list[int] = []
        original = filters.RealtimeSriovFilter.filter_all

        def filter_all(self_: Any, hosts: Any, spec: Any) -> Any:
            found = original(self_, hosts, spec)
            passed.append(len(found))
            together.wait(60)
            return found

        patched = mock.patch.object(
            filters.RealtimeSriovFilter, "filter_all", filter_all
        )
        patched.start()
        self.addCleanup(patched.stop)
        what = "20 requests, each past the filter before any is placed"
        self._see_why(self._show(what))
        self.assertEqual([self.HOSTS] * self.REQUESTS, passed)

    def test_at_once_between_two_workers(self) -> None:
        other = worker.Worker(CONF, server="other")
        self.addCleanup(other.stop)
        other.start()
        # This machine may be busy: messages take their time.
        self.worker._settle_s = other._settle_s = 3.0
        for host in self.worker.table.entries:
            self.agents.known[host] = builders.onload_host(host)
        self._wait_for_assert(
            lambda: self.assertEqual(self.HOSTS, len(other.table.entries))
        )
        # Each thread of nova-scheduler is one worker's for the whole request.
        ours, turn = threading.local(), itertools.cycle((self.worker, other))

        def of_this_process() -> worker.Worker:
            if not hasattr(ours, "worker"):
                ours.worker = next(turn)
            found: worker.Worker = ours.worker
            return found

        patched = mock.patch.object(worker, "of_this_process", of_this_process)
        patched.start()
        self.addCleanup(patched.stop)
        self._show("20 requests at once, between two workers")

    def _show(self, what: str) -> list[str]:
        specs = self._requests()
        with concurrent.futures.ThreadPoolExecutor(self.REQUESTS) as pool:
            asked = pool.map(self._select, specs, specs.values())
            found = dict(zip(specs, asked, strict=True))
        hosts = [host for host in found.values() if host is not None]
        refused = [each for each, host in found.items() if host is None]
        print(f"\n{what}; {self.HOSTS} hosts, one network {self.network}")
        for instance in sorted(found, key=lambda each: found[each] or "~"):
            print(f"  instance={instance} host={found[instance]}")
        for line in self.told("onload_same_host"):
            print(f"  {line}")
        print(
            f"  placed {len(hosts)} on {len(set(hosts))} hosts, "
            f"NoValidHost {len(refused)}"
        )
        self.assertEqual(self.HOSTS, len(hosts))
        self.assertEqual(self.HOSTS, len(set(hosts)))
        return refused

    def _see_why(self, refused: list[str]) -> None:
        for instance in refused:
            (line,) = (
                line
                for line in self.told("onload_same_host")
                if instance in line
            )
            # The weigher sees those alone that were free at the filter.
            self.assertRegex(line, r": onload_same_host × [1-8]\. ")

    def told(self, phrase: str) -> list[str]:
        """Return the lines of the log that have a phrase."""
        return [line for line in self.logged().splitlines() if phrase in line]

    def _requests(self) -> dict[str, Any]:
        """Return by instance what nova-api asks the conductor to schedule."""
        specs: dict[str, Any] = {}

        def record(self_: Any, context: Any, **asked: Any) -> None:
            for spec in asked["request_specs"]:
                specs[spec.instance_uuid] = spec

        with mock.patch.object(
            conductor.ComputeTaskManager,
            "schedule_and_build_instances",
            record,
        ):
            for _ in range(self.REQUESTS):
                self.api.post_server(self.body())
            self._wait_for_assert(
                lambda: self.assertEqual(self.REQUESTS, len(specs))
            )
        return specs

    def _select(self, instance: str, spec: Any) -> str | None:
        try:
            found = query.SchedulerQueryClient().select_destinations(
                context.get_admin_context(),
                spec,
                [instance],
                return_objects=True,
                return_alternates=True,
            )
        except exception.NoValidHost:
            return None
        host: str = found[0][0].service_host
        return host


class RuleTest(OnloadCloudTest):
    """From the API to the compute host."""

    def test_a_second_instance_of_a_network_goes_to_another_host(self) -> None:
        self.assertEqual({"fast-0", "fast-1"}, {self.on(), self.on()})
        self.refused()

    def test_a_port_is_of_its_network(self) -> None:
        # nova-api tells the scheduler the port's UUID alone.
        port = self.neutron.port_1["id"]
        first = self.on(networks=[{"port": port}])
        self.assertNotEqual(first, self.on())
        self.refused()

    def test_facts_that_tell_of_the_endpoint_end_the_hold(self) -> None:
        server = self.api.post_server(self.body())
        host = self.host_of(self._wait_for_state_change(server, "ACTIVE"))
        own = builders.endpoint(self.network, instance=server["id"])
        self.report(builders.onload_host(host, own))
        self.assertEqual(0, len(self.worker.placements))
        self.assertNotEqual(host, self.on())
        self._delete_server(server)
        self.report(builders.onload_host(host))
        self.assertEqual(host, self.on())

    def test_instances_of_one_request_are_spread(self) -> None:
        self.api.post_server(self.body(min_count=2, max_count=2))
        self._wait_for_assert(
            lambda: self.assertEqual(
                ["ACTIVE"] * 2, [each["status"] for each in self._servers()]
            )
        )
        hosts = {self.host_of(each) for each in self._servers()}
        self.assertEqual({"fast-0", "fast-1"}, hosts)
        # Nova asked once more, for alternates of the last one.
        self.assertEqual(2, len(self.worker.placements))

    def test_more_instances_than_hosts_leave_nothing_behind(self) -> None:
        self.api.post_server(self.body(min_count=3, max_count=3))
        self._wait_for_assert(
            lambda: self.assertEqual(
                ["ERROR"] * 3, [each["status"] for each in self._servers()]
            )
        )
        for uuid in self.compute_rp_uuids.values():
            found = self.placement.get(
                f"/resource_providers/{uuid}/allocations"
            )
            self.assertEqual({}, found.body["allocations"])

    def _servers(self) -> list[Any]:
        found: list[Any] = self.admin_api.get_servers()
        return found

    def test_a_tunnel_is_accelerated_by_nobody(self) -> None:
        self.place_network(None)
        for _ in range(3):
            self.on()

    def test_without_a_network_nothing_is_kept_apart(self) -> None:
        for _ in range(3):
            self.on(networks="none")

    def test_a_physical_network_without_a_nic_for_onload(self) -> None:
        self.place_network("slow")
        self.assertIsNone(self.on("ERROR"))
        self.assertIn("onload_no_nic × 2", self.logged())

    def test_the_second_one_may_be_unaccelerated(self) -> None:
        self.flags(second_endpoint="unaccelerated", group="onload")
        for _ in range(3):
            self.on()
        self.assertEqual(0, len(self.worker.placements))


class OneHostTest(OnloadCloudTest):
    HOSTS = 1

    def test_nova_weighs_no_single_host_and_the_rule_holds(self) -> None:
        self.assertEqual("fast-0", self.on())
        self.refused()


class WorkersTest(OnloadCloudTest):
    """Two workers, each with a table of its own, on one queue."""

    def test_a_worker_knows_what_the_other_placed(self) -> None:
        other = worker.Worker(CONF, server="other")
        self.addCleanup(other.stop)
        other.start()
        self.agents.asked.clear()
        self.assertTrue(self.agents.asked.wait(10))
        for number in range(self.HOSTS):
            self.report(builders.onload_host(f"fast-{number}"))
        self._wait_for_assert(
            lambda: self.assertEqual(self.HOSTS, len(other.table.entries))
        )
        hosts = [self.on()]
        self._wait_for_assert(
            lambda: self.assertEqual(1, len(other.placements))
        )
        # The next request goes to the other worker.
        first, self.worker = self.worker, other
        self.addCleanup(first.stop)
        hosts.append(self.on())
        self.assertEqual({"fast-0", "fast-1"}, set(hosts))
        self._wait_for_assert(
            lambda: self.assertEqual(2, len(first.placements))
        )
        self.worker = first
        self.refused()
