# SPDX-License-Identifier: Apache-2.0

import pathlib
import socket
import time
from unittest import mock

import fixtures
from nova import context
from nova import objects
from nova.conf import scheduler as scheduler_conf
from nova.scheduler import host_manager
from nova.scheduler.weights import WeighedHost
from oslo_config import cfg

from sriov_rt import config
from sriov_rt.facts import HostHold
from sriov_rt.host import compute_driver_socket
from sriov_rt.host.root import Root
from sriov_rt.nova import driver
from sriov_rt.nova import filters
from sriov_rt.nova import options as compute_options
from sriov_rt.nova import weights
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.functional.nova import base


class SchedulingTest(base.CloudTest):
    def test_a_realtime_flavor_lands_on_the_realtime_host(self):
        self.start_host(base.ordinary_host())
        self.start_host(base.realtime_host())
        servers = [self.boot(base.REALTIME)]
        self.assertEqual(["rt-1"], [self.host_of(each) for each in servers])
        # Its two pCPUs are taken now: the ordinary host is no way out.
        self.boot(base.REALTIME, state="ERROR")

    def test_an_agent_under_a_name_that_nova_lacks_is_told_once(self):
        facts = base.realtime_host()
        self.start_host(facts)
        self.report(base.realtime_host("ghost"))
        self.boot(base.REALTIME)
        for _ in range(100):
            if "Agents report as ghost" in self.logged():
                break
            time.sleep(0.1)
        said = "Agents report as ghost, and Nova has no such host"
        self.assertEqual(1, self.logged().count(said))
        self.assertNotIn("Agents report as rt-1", self.logged())

    def test_so_does_one_that_claims_its_pcpus_itself(self):
        self.start_host(base.ordinary_host())
        self.start_host(base.realtime_host())
        specs = {"sriov_rt:realtime": "required", "resources:PCPU": "2"}
        self.assertEqual("rt-1", self.host_of(self.boot(specs)))
        (vcpus,) = self.domain().iter("vcpusched")
        self.assertEqual("0-1", vcpus.get("vcpus"))

    def test_no_host_will_do(self):
        self.start_host(base.ordinary_host())
        server = self.boot(base.REALTIME, state="ERROR")
        fault = self.fault(server)
        self.assertIn("No valid host", fault)
        self.assertIn("sriov-rt explain --flavor", fault)
        self.assertIn("cpus_not_isolated", fault)
        told = [
            line
            for line in self.logged().splitlines()
            if "No host satisfies flavor" in line
        ]
        self.assertEqual(1, len(told))
        for code in ("cpus_not_isolated × 1", "kernel_not_rt × 1"):
            self.assertIn(code, told[0])
        self.assertIn("sriov-rt explain --flavor", told[0])

    def test_the_sentence_comes_before_novas_own_verdict(self):
        # NUMATopologyFilter turns the host away as well: it has no such page.
        self.start_host(base.ordinary_host())
        specs = {**base.REALTIME, "hw:mem_page_size": "1GB"}
        self.assertIn(
            "cpus_not_isolated", self.fault(self.boot(specs, "ERROR"))
        )

    def test_a_flavor_that_an_older_microversion_has_spoilt(self):
        self.start_host(base.realtime_host())
        spoilt = {**base.REALTIME, "sriov_rt:realtime": "maybe"}
        with (
            mock.patch.object(self.api, "microversion", "2.85"),
            mock.patch.object(self.admin_api, "microversion", "2.85"),
        ):
            flavor = self.flavor(spoilt)
        server = self._create_server(
            flavor_id=flavor, networks="none", expected_state="ERROR"
        )
        fault = self.fault(server)
        self.assertIn("sriov_rt:realtime", fault)
        self.assertIn("'maybe'", fault)
        self.assertIn(
            "openstack --os-compute-api-version 2.86 flavor set", fault
        )

    def test_a_host_with_novas_own_driver_serves_no_realtime(self):
        self.start_host(base.realtime_host())
        root = Root("/")
        self.assertIsNotNone(compute_driver_socket.observe(root, "rt-1"))
        self.assertIsNone(
            compute_driver_socket.observe(root, "rt-1-of-novas-own")
        )
        self.report(base.realtime_host(compute={"driver": None}))
        fault = self.fault(self.boot(base.LEAN, state="ERROR"))
        self.assertIn("compute_driver_missing", fault)
        self.boot({"sriov_rt:kernel": "preempt_rt"})

    def test_a_host_whose_facts_are_stale_serves_no_realtime(self):
        self.start_host(base.realtime_host())
        age_s = self.worker.verdicts._max_age_s + 1
        self.worker.table.entries["rt-1"].confirmed -= age_s
        self.boot(base.REALTIME, state="ERROR")
        self.assertIn("facts_stale × 1", self.logged())

    def test_a_host_that_degrades_serves_no_more(self):
        self.start_host(base.realtime_host())
        self.report(base.realtime_host(memory={"ksm_run": 1}))
        self.boot(base.REALTIME, state="ERROR")
        self.assertIn("ksm_running × 1", self.logged())

    def test_a_host_on_hold_keeps_its_servers_and_takes_others(self):
        self.start_host(base.realtime_host())
        server = self.boot(base.REALTIME)
        hold = HostHold("alice", "kernel 6.12", 1_790_000_000.0)
        self.report(base.realtime_host(maintenance={"hold": hold}))
        fault = self.fault(self.boot(base.REALTIME, state="ERROR"))
        self.assertIn("host_on_hold", fault)
        self.assertEqual("rt-1", self.host_of(server))
        # Of a flavor that asks for no realtime.
        self.boot({"sriov_rt:kernel": "preempt_rt"})

    def test_a_fresh_worker_waits_for_the_first_reports(self):
        facts = base.realtime_host()
        self.start_host(facts, agent=False)
        self.agents.known["rt-1"] = facts
        self.agents.delay_s = 1.0
        self.assertFalse(self.agents.asked.is_set())
        self.assertEqual("rt-1", self.host_of(self.boot(base.REALTIME)))

    def test_extra_specs_that_contradict_each_other_fail_on_all_hosts(self):
        self.start_host(base.realtime_host())
        server = self.boot(
            {**base.REALTIME, "sriov_rt:onload_profile": "latency"},
            state="ERROR",
        )
        self.assertIn("sriov_rt:onload=required", self.fault(server))
        self.assertIn("request_invalid × 1", self.logged())
        self.assertIn("sriov_rt:onload=required", self.logged())


class NoFactsTest(base.CloudTest):
    WARMUP_S = 0.0

    def test_a_host_without_facts_serves_no_realtime(self):
        self.start_host(base.realtime_host(), agent=False)
        self.boot(base.REALTIME, state="ERROR")
        self.assertIn("facts_missing × 1", self.logged())


class OrdinaryFlavorTest(base.CloudTest):
    def test_nothing_of_ours_can_fail_it(self):
        self.start_host(base.ordinary_host(), agent=False)
        broken = mock.patch.object(
            worker, "of_this_process", side_effect=RuntimeError("broken")
        )
        with broken:
            # Of two hosts at least, which Nova weighs.
            self.start_host(base.ordinary_host("std-2"), agent=False)
            for _ in range(2):
                self.boot({})
        told = "Realtime hosts are not kept free for realtime instances"
        self.assertEqual(1, self.logged().count(told))

    def test_the_filter_touches_nothing_for_it(self):
        filter_ = filters.RealtimeSriovFilter()
        spec = objects.RequestSpec(flavor=objects.Flavor(extra_specs={}))
        broken = mock.patch.object(
            worker, "of_this_process", side_effect=RuntimeError("broken")
        )
        with broken:
            self.assertEqual(["h"], filter_.filter_all(["h"], spec))

    def test_a_fault_of_a_weigher_is_its_own(self):
        # An instance that nobody can read stands for any mistake of ours.
        hosts = [WeighedHost(object(), 0.0) for _ in range(2)]
        for each in weights.all_weighers():
            with self.subTest(each.__name__):
                found = each().weigh_objects(hosts, object())
                self.assertEqual([0.0, 0.0], found)

    def test_it_waits_for_no_facts(self):
        self.start_host(base.ordinary_host(), agent=False)
        self.assertEqual("std-1", self.host_of(self.boot({})))
        self.assertEqual({}, dict(self.worker.table.entries))

    def test_it_keeps_off_the_realtime_host(self):
        self.start_host(base.ordinary_host())
        self.start_host(base.realtime_host())
        hosts = {self.host_of(self.boot({})) for _ in range(3)}
        self.assertEqual({"std-1"}, hosts)

    def test_it_may_have_the_realtime_host_if_there_is_no_other(self):
        self.start_host(base.realtime_host())
        self.assertEqual("rt-1", self.host_of(self.boot({})))

    def _failed(self, host: str, builds: int) -> None:
        """Have a host report failed builds, with Nova's own default."""
        name = "build_failure_weight_multiplier"
        (default,) = (
            each.default
            for each in scheduler_conf.filter_scheduler_opts
            if each.name == name
        )
        self.flags(**{name: default}, group="filter_scheduler")
        node = objects.ComputeNode.get_by_nodename(
            context.get_admin_context(), host
        )
        node.stats = {**node.stats, "failed_builds": str(builds)}
        node.save()

    def test_failed_builds_weigh_more_than_the_preference(self):
        self.start_host(base.ordinary_host())
        self.start_host(base.realtime_host())
        self._failed("std-1", 1)
        self.assertEqual("rt-1", self.host_of(self.boot({})))

    def test_unless_it_outweighs_them(self):
        self.flags(
            realtime_host_weight_multiplier=2_000_000.0, group="sriov_rt"
        )
        self.start_host(base.ordinary_host())
        self.start_host(base.realtime_host())
        self._failed("std-1", 3)
        self.assertEqual("std-1", self.host_of(self.boot({})))

    def test_an_aggregate_may_lift_the_preference(self):
        self.start_host(base.ordinary_host())
        self.start_host(base.realtime_host())
        (host,) = self._states("rt-1")
        weigher = weights.RealtimeHostWeigher()
        self.assertEqual(10.0, weigher.weight_multiplier(host))
        self._create_and_fill_aggregate("rt-1", "0")

        def lifted() -> None:
            (host,) = self._states("rt-1")
            self.assertEqual(0.0, weigher.weight_multiplier(host))

        self._wait_for_assert(lifted)

    def _create_and_fill_aggregate(self, host: str, multiplier: str) -> None:
        aggregate = self.api.post_aggregate({"aggregate": {"name": "rt"}})
        self.api.add_host_to_aggregate(aggregate["id"], host)
        key = "realtime_host_weight_multiplier"
        self.api.post_aggregate_action(
            aggregate["id"], {"set_metadata": {"metadata": {key: multiplier}}}
        )

    def _states(self, name: str) -> list:
        admin = context.get_admin_context()
        manager = self.scheduler.manager.host_manager
        spec = objects.RequestSpec(requested_destination=None)
        states = manager.get_host_states_by_uuids(
            admin, [self.compute_rp_uuids[name]], spec
        )
        return list(states)


class StartTest(base.CloudTest):
    def test_a_queue_that_cannot_be_used_is_named_and_no_more(self):
        closed = socket.socket()
        self.addCleanup(closed.close)
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        for url, named in (
            (f"rabbit://u:secret@{place}/", place),
            ("rubbish://u:secret@h/", "malformed"),
        ):
            self.flags(transport_url=url, group="sriov_rt")
            with self.assertLogs("sriov_rt.nova.filters", "ERROR") as logged:
                host_manager.HostManager()
            (line,) = logged.output
            self.assertIn(named, line)
            self.assertNotIn("secret", line)

    def test_a_costly_filter_before_ours_is_named(self):
        self.flags(
            enabled_filters=["NUMATopologyFilter", "RealtimeSriovFilter"],
            group="filter_scheduler",
        )
        with self.assertLogs("sriov_rt.nova.filters", "WARNING") as logged:
            host_manager.HostManager()
        self.assertIn("comes after NUMATopologyFilter", logged.output[0])

    def test_nova_compute_does_not_start_with_a_bad_option(self):
        path = self.useFixture(fixtures.TempDir()).join("nova.conf")
        pathlib.Path(path).write_text("[sriov_rt]\nunfit_host = ignore\n")
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[path])
        error = self.assertRaises(
            config.OptionRejected, compute_options.check, conf
        )
        self.assertIn("[sriov_rt] unfit_host", str(error))
        self.assertIn("start nova-compute again", str(error))
        with mock.patch.object(compute_options, "check", side_effect=error):
            self.assertRaises(
                config.OptionRejected, driver.RealtimeLibvirtDriver, None
            )

    def test_nova_scheduler_does_not_start_with_a_bad_option(self):
        problem = config.OptionRejected(
            "sriov_rt",
            "warmup_timeout",
            ValueError("60 is too much"),
            "nova-scheduler",
        )
        with mock.patch.object(options, "check", side_effect=problem):
            error = self.assertRaises(
                config.OptionRejected, host_manager.HostManager
            )
            self.assertRaises(
                config.OptionRejected, weights.RealtimeHostWeigher
            )
        self.assertIn("correct it and start nova-scheduler", str(error))
