# SPDX-License-Identifier: Apache-2.0

"""Onload's same-host rule: real API, conductor, scheduler and Placement."""

from typing import Any
from unittest import mock

from neutronclient.common import exceptions as neutron_exceptions
from nova import exception

from sriov_rt.nova import request_spec
from sriov_rt.nova import vif
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
        request_spec.network_of.cache_clear()
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
        found = self.host_of(self._wait_for_state_change(server, state))
        if found is not None:
            # Its agent reports the port that was plugged.
            own = builders.endpoint(self.network, instance=server["id"])
            self.report(builders.onload_host(found, own))
        return found

    def refused(self, **more: Any) -> None:
        """See that a server is refused by the rule."""
        self.assertIsNone(self.on("ERROR", **more))
        self.assertIn("onload_same_host × ", self.logged())


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

    def test_without_neutron_the_compute_hosts_keep_ports_apart(self) -> None:
        request_spec._warn.cache_clear()
        port = self.neutron.port_1["id"]
        problem = neutron_exceptions.Unauthorized(message="no credentials")
        with mock.patch.object(
            request_spec, "network_of", side_effect=problem
        ):
            self.assertIsNotNone(self.on(networks=[{"port": port}]))
            self.assertEqual([], list(request_spec._of_port(port)))
        phrase = "Neutron does not return the network of a port (Unauthorized)"
        self.assertEqual(1, self.logged().count(phrase))

    def test_a_place_is_free_when_the_facts_say_so(self) -> None:
        server = self.api.post_server(self.body())
        host = self.host_of(self._wait_for_state_change(server, "ACTIVE"))
        own = builders.endpoint(self.network, instance=server["id"])
        self.report(builders.onload_host(host, own))
        self.assertNotEqual(host, self.on())
        self._delete_server(server)
        self.report(builders.onload_host(host))
        self.assertEqual(host, self.on())

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


class LateCheckTest(OnloadCloudTest):
    """Two that were scheduled before either was reported."""

    def test_the_compute_host_refuses_and_another_one_is_tried(self) -> None:
        driver = vif.RealtimeVifDriver
        taken: set[str] = set()
        plug = driver.plug

        def refuse_the_second(self_: Any, instance: Any, port: Any) -> None:
            if instance.host in taken:
                raise exception.VirtualInterfacePlugException("no NIC left")
            taken.add(instance.host)
            plug(self_, instance, port)

        with mock.patch.object(driver, "plug", refuse_the_second):
            bodies = [self.api.post_server(self.body()) for _ in range(2)]
            hosts = {
                self.host_of(self._wait_for_state_change(each, "ACTIVE"))
                for each in bodies
            }
        self.assertEqual({"fast-0", "fast-1"}, hosts)


class OneHostTest(OnloadCloudTest):
    HOSTS = 1

    def test_a_single_host_is_judged_too(self) -> None:
        self.assertEqual("fast-0", self.on())
        self.refused()
