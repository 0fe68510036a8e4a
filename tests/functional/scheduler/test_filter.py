# SPDX-License-Identifier: Apache-2.0

import logging
from typing import Any
from unittest import mock

import nova.conf
from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from nova import objects
from nova import test
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from nova.scheduler import weights as nova_weights
from oslo_config import cfg

from sriov_rt.nova import filters
from sriov_rt.nova import request_spec
from sriov_rt.nova import weights
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.unit import builders
from tests.unit.scheduler.fakes import put

REALTIME = {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}


class HandlerTest(test.NoDBTestCase):
    """Through Nova's own handlers, over its own HostStates."""

    def setUp(self):
        super().setUp()
        self.addCleanup(mock.patch.stopall)
        # It was started long ago: there is nobody to wait for.
        self.worker = worker.Worker(cfg.CONF)
        self.started = mock.patch.object(self.worker, "start").start()
        self.warm_up = mock.patch.object(self.worker, "warm_up").start()
        mock.patch.object(
            worker, "of_this_process", lambda: self.worker
        ).start()
        self.states = [
            host_manager.HostState(name, f"{name}.example.org", "cell")
            for name in ("rt-1", "ksm-1", "ksm-2", "dumb-1")
        ]
        put(self.worker.table, builders.realtime_host("rt-1"))
        for name in ("ksm-1", "ksm-2"):
            spoilt = builders.realtime_host(name, memory={"ksm_run": 1})
            put(self.worker.table, spoilt)

    def _spec(self, specs: dict[str, str], **hints: Any) -> Any:
        return objects.RequestSpec(
            flavor=objects.Flavor(name="f", extra_specs=specs),
            instance_uuid="6a7a3c1e-4b0d-4f0e-9d4c-111111111111",
            scheduler_hints=hints,
        )

    def _pass(self, spec: Any, index: int = 0) -> list[str]:
        handler = nova_filters.HostFilterHandler()
        found = handler.get_filtered_objects(
            [filters.RealtimeSriovFilter()], self.states, spec, index
        )
        return [each.host for each in found]

    def _names(self) -> list[str]:
        return [each.host for each in self.states]


class FilterTest(HandlerTest):
    def test_hosts_that_satisfy_pass(self):
        self.assertEqual(["rt-1"], self._pass(self._spec(REALTIME)))
        self.warm_up.assert_called_once()

    def test_a_flavor_without_our_extra_specs_passes_untouched(self):
        spec = self._spec({"hw:cpu_policy": "dedicated"})
        found = filters.RealtimeSriovFilter().filter_all(self.states, spec)
        self.assertIs(self.states, found)
        self.warm_up.assert_not_called()

    def test_a_flavor_whose_extra_specs_are_not_set(self):
        spec = self._spec({})
        spec.flavor = objects.Flavor(name="f")
        self.assertEqual(self._names(), self._pass(spec))

    def test_a_flavor_that_asks_for_nothing_starts_nothing(self):
        self._pass(self._spec({}))
        self.started.assert_not_called()
        self.warm_up.assert_not_called()

    def test_a_rebuild_stays_where_it_is(self):
        spec = self._spec(REALTIME, _nova_check_type=["rebuild"])
        self.assertEqual(self._names(), self._pass(spec))

    def test_each_instance_of_a_request_is_judged(self):
        self.assertEqual(["rt-1"], self._pass(self._spec(REALTIME), index=1))

    def test_extra_specs_that_cannot_be(self):
        spec = self._spec({"sriov_rt:kernel": "rt"})
        # The server's fault names the value: no host is to blame.
        with (
            self.assertLogs(filters.LOG, "INFO") as logged,
            self.assertRaisesRegex(
                exception.NoValidHost, "sriov_rt:kernel: Invalid value 'rt'"
            ),
        ):
            self._pass(spec)
        (line,) = logged.output
        self.assertIn("request_invalid × 4", line)
        self.assertIn("sriov_rt:kernel", line)

    def test_no_hosts_at_all_is_no_news(self):
        self.states = []
        with self.assertNoLogs(filters.LOG, "DEBUG"):
            self.assertEqual([], self._pass(self._spec(REALTIME)))


class LogTest(HandlerTest):
    def test_at_debug_each_host_that_fails_is_named_once(self):
        with self.assertLogs(filters.LOG, "DEBUG") as logged:
            self._pass(self._spec(REALTIME))
        self.assertEqual(
            [logging.DEBUG] * 2, [each.levelno for each in logged.records]
        )
        alike, other = logged.output
        self.assertIn("ksm-1, ksm-2: ksm_running: KSM merges", alike)
        self.assertIn("dumb-1: facts_missing: no facts", other)

    def test_at_info_nothing_is_said_while_a_host_is_left(self):
        with self.assertNoLogs(filters.LOG, "INFO"):
            self._pass(self._spec(REALTIME))

    def test_at_info_one_line_sums_up_when_none_is_left(self):
        del self.states[0]
        with self.assertLogs(filters.LOG, "INFO") as logged:
            self.assertEqual([], self._pass(self._spec(REALTIME)))
        (line,) = logged.output
        self.assertIn("ksm_running × 2, facts_missing × 1.", line)
        self.assertIn("6a7a3c1e", line)
        self.assertIn("--flavor f'", line)


class FaultTest(HandlerTest):
    def test_it_begins_with_the_host_that_comes_nearest(self):
        # What Nova cuts off is that of an ordinary host, not of the one whose
        # agent has stopped.
        del self.states[:-1]
        ordinary = builders.realtime_host(
            "a-far",
            memory={"ksm_run": 1, "swap": ("/dev/sda2",)},
            compute={"dedicated": None},
        )
        put(self.worker.table, ordinary)
        state = host_manager.HostState("a-far", "a-far", "cell")
        self.states.insert(0, state)
        spec = self._spec(REALTIME)
        spec.num_instances = 1
        with self.assertRaises(exception.NoValidHost) as caught:
            self._pass(spec)
        codes = str(caught.exception).rpartition(": ")[2].split(", ")
        self.assertEqual("facts_missing", codes[0])
        self.assertIn("ksm_running", codes)


class WeigherTest(HandlerTest):
    def _order(self, specs: dict[str, str]) -> dict[str, float]:
        handler = nova_weights.HostWeightHandler()
        found = handler.get_weighed_objects(
            [weights.RealtimeHostWeigher()], self.states, self._spec(specs)
        )
        return {each.obj.host: each.weight for each in found}

    def test_a_realtime_host_weighs_less_for_other_instances(self):
        found = self._order({})
        self.assertEqual(0.0, found.pop("rt-1"))
        self.assertEqual({10.0}, set(found.values()))

    def test_all_weigh_the_same_for_realtime_instances(self):
        for specs in (REALTIME, {"hw:cpu_realtime": "yes"}):
            self.assertEqual({0.0}, set(self._order(specs).values()))

    def test_realtime_hosts_alone_weigh_the_same(self):
        del self.states[1:]
        self.states.append(host_manager.HostState("rt-2", "rt-2", "cell"))
        put(self.worker.table, builders.realtime_host("rt-2"))
        self.assertEqual({0.0}, set(self._order({}).values()))

    def test_it_waits_for_nothing(self):
        self._order({})
        self.warm_up.assert_not_called()


NETWORK = "3cb9bc59-5699-4588-a4b1-b87f96708bc6"
OTHER_NETWORK = "1b70879f-fd00-411e-8ea9-143e7820e61d"
PORT = "ce531f90-199f-48c0-816c-13e38010b442"
ONLOAD = {"sriov_rt:onload": "required"}


class OnloadCase(HandlerTest):
    HOSTS = ("a", "b", "c")

    def setUp(self):
        super().setUp()
        options.register(nova.conf.CONF)
        request_spec.network_of.cache_clear()
        self.show_port = mock.patch.object(
            request_spec.neutron.API,
            "show_port",
            return_value={"port": {"network_id": NETWORK}},
        ).start()
        self.states = []
        for name in self.HOSTS:
            state = host_manager.HostState(name, name, "cell")
            state.allocation_candidates = ["one"]
            self.states.append(state)
            put(self.worker.table, builders.onload_host(name))

    def spec(self, instance: str = "1", **fields: Any) -> Any:
        asked = {
            "requested_networks": networks({"network_id": NETWORK}),
            "network_metadata": metadata("fast"),
            **fields,
        }
        return objects.RequestSpec(
            flavor=objects.Flavor(name="f", extra_specs=ONLOAD),
            instance_uuid=f"6a7a3c1e-4b0d-4f0e-9d4c-{instance:>012}",
            scheduler_hints={},
            **{name: each for name, each in asked.items() if each is not None},
        )


def networks(*asked: dict[str, str]) -> Any:
    """Return a NetworkRequestList."""
    return objects.NetworkRequestList(
        objects=[objects.NetworkRequest(**each) for each in asked]
    )


def metadata(*physnets: str, tunneled: bool = False) -> Any:
    """Return a NetworkMetadata."""
    return objects.NetworkMetadata(physnets=set(physnets), tunneled=tunneled)


class RequestedTest(OnloadCase):
    def attached(self, **fields: Any) -> list[tuple[Any, Any]]:
        found = request_spec.request(self.spec(**fields), self.worker.verdicts)
        return [(a.network, a.physical_network) for a in found.attachments]

    def test_a_network_and_its_physical_network(self):
        self.assertEqual([(NETWORK, "fast")], self.attached())

    def test_a_port_is_looked_up_once(self):
        asked = networks({"port_id": PORT})
        for _ in range(2):
            self.assertEqual(
                [(NETWORK, "fast")], self.attached(requested_networks=asked)
            )
        self.show_port.assert_called_once_with(mock.ANY, PORT)

    def test_a_port_that_cannot_be_looked_up(self):
        asked = networks({"port_id": PORT}, {"network_id": OTHER_NETWORK})
        for error in (
            exception.PortNotFound(port_id=PORT),
            ks_exceptions.EndpointNotFound("no neutron"),
        ):
            self.show_port.side_effect = error
            request_spec._warn.cache_clear()  # noqa: SLF001
            with (
                self.subTest(error=error),
                self.assertLogs(request_spec.LOG, "WARNING") as logged,
            ):
                self.assertEqual(
                    [(OTHER_NETWORK, "fast")],
                    self.attached(requested_networks=asked),
                )
            self.assertIn(type(error).__name__, logged.output[0])

    def test_which_of_several_is_where_is_open(self):
        asked = networks(
            {"network_id": NETWORK}, {"network_id": OTHER_NETWORK}
        )
        self.assertEqual(
            [
                (NETWORK, "fast"),
                (NETWORK, "slow"),
                (OTHER_NETWORK, "fast"),
                (OTHER_NETWORK, "slow"),
            ],
            self.attached(
                requested_networks=asked,
                network_metadata=metadata("slow", "fast"),
            ),
        )

    def test_two_ports_of_one_network_are_one_attachment(self):
        asked = networks({"network_id": NETWORK}, {"network_id": NETWORK})
        self.assertEqual(
            [(NETWORK, "fast")], self.attached(requested_networks=asked)
        )

    def test_what_tells_of_no_network(self):
        for asked in (None, networks(), networks({"network_id": "none"})):
            with self.subTest(asked=asked):
                self.assertEqual(
                    [],
                    self.attached(
                        requested_networks=asked, network_metadata=None
                    ),
                )
        auto = networks({"network_id": "auto"})
        self.assertEqual(
            [], self.attached(requested_networks=auto, network_metadata=None)
        )

    def test_a_tunnel(self):
        self.assertEqual(
            [], self.attached(network_metadata=metadata(tunneled=True))
        )

    def test_physical_networks_that_nobody_told(self):
        self.assertEqual(
            [(NETWORK, None)], self.attached(network_metadata=None)
        )

    def test_an_instance_that_moves_has_its_endpoints(self):
        own = builders.endpoint(NETWORK, instance=self.spec().instance_uuid)
        put(self.worker.table, builders.onload_host("a", own))
        self.assertEqual(
            [(NETWORK, "fast")],
            self.attached(requested_networks=None, network_metadata=None),
        )

    def test_nothing_is_kept_apart_where_the_second_is_unaccelerated(self):
        self.flags(second_endpoint="unaccelerated", group="onload")
        self.assertEqual([(None, "fast")], self.attached())
        self.assertEqual(
            [(None, "fast")], self.attached(requested_networks=None)
        )

    def test_other_flavors_ask_neutron_for_nothing(self):
        spec = self.spec(requested_networks=networks({"port_id": PORT}))
        spec.flavor.extra_specs = REALTIME
        found = request_spec.request(spec, self.worker.verdicts)
        self.assertEqual((), found.attachments)
        self.show_port.assert_not_called()
