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

import logging
from typing import Any
from unittest import mock

from nova import objects
from nova import test
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from nova.scheduler import weights as nova_weights
from oslo_config import cfg

from sriov_rt.nova import filters
from sriov_rt.nova import plugins
from sriov_rt.nova import weights
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

    def test_the_agents_are_heard_from_the_first_request_on(self):
        self._pass(self._spec({}))
        self.started.assert_called_once()

    def test_a_rebuild_stays_where_it_is(self):
        spec = self._spec(REALTIME, _nova_check_type=["rebuild"])
        self.assertEqual(self._names(), self._pass(spec))

    def test_each_instance_of_a_request_is_judged(self):
        self.assertEqual(["rt-1"], self._pass(self._spec(REALTIME), index=1))

    def test_extra_specs_that_cannot_be(self):
        spec = self._spec({"sriov_rt:kernel": "rt"})
        with self.assertLogs(filters.LOG, "INFO") as logged:
            self.assertEqual([], self._pass(spec))
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


class PluginsTest(test.NoDBTestCase):
    def test_what_cannot_be_loaded_is_not_left_out_in_silence(self):
        broken = mock.Mock()
        broken.name = "broken"
        broken.load.side_effect = ImportError("no such module")
        with (
            mock.patch(
                "stevedore._cache.get_group_all", return_value=[broken]
            ),
            self.assertRaises(ImportError),
        ):
            plugins.load("sriov_rt.tests.broken")
