# SPDX-License-Identifier: Apache-2.0

"""Each check of an upgrade comes to success, warning and failure."""

import pathlib
import unittest

import yaml
from oslo_upgradecheck.upgradecheck import Code

from sriov_rt.cmd import upgrade_checks as checks
from sriov_rt.codec import Unknown

ROOT = pathlib.Path(__file__).parents[3]
OURS = checks.FILTER
OPTION = "CapabilityBoundingSet"
UNIT = f"[Service]\n{OPTION}=CAP_SYS_PTRACE CAP_DAC_READ_SEARCH\n"
AMBIENT = UNIT + "AmbientCapabilities=CAP_SYS_PTRACE\n"


class CheckTest(unittest.TestCase):
    def succeeds(self, result, details=""):
        self.assertEqual(Code.SUCCESS, result.code, result.details)
        self.assertIn(details, result.details or "")

    def warns(self, result, details):
        self.assertEqual(Code.WARNING, result.code, result.details)
        self.assertIn(details, result.details)

    def fails(self, result, details):
        self.assertEqual(Code.FAILURE, result.code, result.details)
        self.assertIn(details, result.details)


class ConfigurationTest(CheckTest):
    REJECTED = checks.ConfigurationProblem("[vif] parents is rejected")
    UNREADABLE = checks.ConfigurationProblem("nova.conf: denied", True)

    def test_services_would_start(self):
        self.succeeds(checks.configuration(()))

    def test_a_file_that_cannot_be_opened_is_a_warning(self):
        self.warns(checks.configuration((self.UNREADABLE,)), "nova.conf")

    def test_one_that_a_service_rejects_is_a_failure_beside_a_warning(self):
        found = checks.configuration((self.UNREADABLE, self.REJECTED))
        self.fails(found, "[vif] parents")
        self.assertIn("nova.conf", found.details)


class FiltersTest(CheckTest):
    def judged(self, *enabled, available=(checks.AVAILABLE,)):
        return checks.filters(checks.Filters(enabled or None, available))

    def test_it_stands_before_the_costly_ones(self):
        self.succeeds(self.judged("ComputeFilter", OURS, checks.COSTLY[0]))

    def test_a_host_without_nova_scheduler_has_none(self):
        self.succeeds(self.judged(available=()), "does not name")

    def test_behind_a_costly_one_it_is_a_warning(self):
        for costly in checks.COSTLY:
            with self.subTest(costly):
                self.warns(self.judged(costly, OURS), costly)

    def test_what_cannot_be_read_is_a_warning(self):
        self.warns(checks.filters(Unknown("nova.conf: denied")), "denied")

    def test_a_filter_that_is_available_and_not_enabled_is_a_failure(self):
        self.fails(self.judged(), OURS)
        self.fails(self.judged("ComputeFilter"), OURS)

    def test_a_filter_that_nova_does_not_find_is_a_failure(self):
        self.fails(self.judged(OURS, available=()), checks.AVAILABLE)


class AgentsTest(CheckTest):
    def judged(self, versions, refused=(), rivals=()):
        found = checks.Agents(versions, dict(refused), dict(rivals))
        return checks.agents(found, "1.1")

    def test_all_have_this_release(self):
        self.succeeds(self.judged({"rt-1": "1.1", "rt-2": "1.1"}))

    def test_another_release_is_a_warning_that_names_host_and_release(self):
        self.warns(self.judged({"rt-1": "1.1", "rt-2": "1.0"}), "rt-2 (1.0)")

    def test_without_a_queue_or_a_report_it_is_a_warning(self):
        self.warns(checks.agents(Unknown("no transport_url"), "1"), "no tran")
        self.warns(self.judged({}), "no agent")

    def test_facts_of_another_schema_are_a_failure(self):
        refused = {"rt-2": "schema: 1 expected"}
        self.fails(self.judged({"rt-1": "1.1"}, refused), "schema: 1")

    def test_two_agents_of_one_name_are_a_failure(self):
        rivals = {"rt-2": "cmp1/1, cmp2/2"}
        self.fails(
            self.judged({"rt-1": "1.1"}, rivals=rivals),
            "rt-2: two agents report as this host (cmp1/1, cmp2/2)",
        )

    def test_of_many_hosts_a_few_are_named(self):
        versions = {f"rt-{each}": "1.0" for each in range(9)}
        self.warns(self.judged(versions), "and 4 more")


class RecordsTest(CheckTest):
    def judged(self, **fields):
        return checks.records(checks.StoredPorts(**fields))

    def test_there_are_none_or_only_good_ones(self):
        self.succeeds(self.judged())

    def test_what_an_upgrade_would_find_is_a_warning(self):
        for field in ("kept", "in_progress"):
            with self.subTest(field):
                self.warns(self.judged(**{field: ("p1",)}), "p1")

    def test_what_cannot_be_read_is_a_warning(self):
        self.warns(checks.records(Unknown("denied")), "denied")

    def test_damaged_ones_are_a_failure(self):
        found = self.judged(damaged={"p1": "not JSON"})
        self.fails(found, "p1")
        # What it names ends it: see test_records of tests.unit.vif.
        self.fails(found, "sriov-rt vif forget PORT --force")


class ShimTest(CheckTest):
    def judged(self, configured=None, *, is_there=False):
        found = checks.Shim("/nova/virt/sriov_rt.py", is_there)
        return checks.shim(found, configured)

    def test_it_is_there_or_there_is_no_nova(self):
        self.succeeds(self.judged(is_there=True))
        self.succeeds(checks.shim(checks.Shim(None, False), None))

    def test_a_missing_one_fails_where_nova_compute_is_to_load_it(self):
        self.warns(self.judged(), "missing")
        self.fails(self.judged(checks.DRIVER), "missing")


class UnitsTest(CheckTest):
    def judged(self, *installed, shipped=UNIT):
        return checks.units([checks.Unit("a.service", shipped, installed)])

    def test_the_installed_one_may_have_more_or_not_be_there(self):
        self.succeeds(self.judged())
        self.succeeds(self.judged(UNIT))
        self.succeeds(self.judged(UNIT, f"{OPTION}=CAP_NET_ADMIN\n"))

    def test_one_without_a_bound_has_all(self):
        self.succeeds(self.judged("[Service]\n"))

    def test_one_without_ambient_capabilities_has_none(self):
        found = self.judged(UNIT, shipped=AMBIENT)
        self.warns(found, "CAP_SYS_PTRACE in AmbientCapabilities")

    def test_one_that_lacks_a_capability_is_a_warning(self):
        found = self.judged(f"{OPTION} = CAP_SYS_PTRACE\n")
        self.warns(found, "lacks CAP_DAC_READ_SEARCH in Cap")

    def test_an_empty_line_of_a_drop_in_starts_again(self):
        found = self.judged(UNIT, f"{OPTION}=\n{OPTION}=CAP_SYS_PTRACE\n")
        self.warns(found, "CAP_DAC_READ_SEARCH")

    def test_a_line_may_take_away_and_may_be_continued(self):
        self.warns(self.judged(UNIT, f"{OPTION}=~CAP_SYS_PTRACE\n"), "PTRACE")
        continued = UNIT.replace("PTRACE ", "PTRACE \\\n")
        self.succeeds(self.judged(continued))

    def test_one_that_cannot_be_read_is_a_warning(self):
        unit = checks.Unit("a.service", UNIT, Unknown("denied"))
        self.warns(checks.units([unit]), "a.service: denied")


class ComputeDriverTest(CheckTest):
    def judged(self, driver, running=True, configured=None):
        found = checks.Compute(configured, running, driver)
        return checks.compute_driver(found, "1.1")

    def test_it_has_the_driver_of_this_release_or_does_not_run(self):
        self.succeeds(self.judged("1.1"))
        self.succeeds(self.judged(None, running=False), "no nova-compute")

    def test_the_driver_of_another_release_is_a_warning(self):
        self.warns(self.judged("1.0"), "restart nova-compute")

    def test_another_driver_is_a_warning(self):
        self.warns(self.judged(None), "keep off")

    def test_what_cannot_be_read_is_a_warning(self):
        self.warns(self.judged(Unknown("denied")), "denied")

    def test_another_driver_than_nova_conf_says_is_a_warning(self):
        # It may be ours, of a release whose drivers do not say that they run:
        # a failure would stop the very upgrade that mends it.
        self.warns(
            self.judged(None, configured=checks.DRIVER),
            "of an older release; restart it",
        )


class KubeVirtTest(CheckTest):
    def judged(self, file, version="v1.9.0", has_gate=True, **spec):
        text = (ROOT / "etc/kubevirt" / file).read_text()
        plugin = yaml.safe_load(text)["spec"] | spec
        return checks.kubevirt(checks.KubeVirt(version, has_gate, plugin))

    def test_no_cluster_or_no_plugin(self):
        self.succeeds(checks.kubevirt(None), "no kubeconfig")
        self.succeeds(
            checks.kubevirt(checks.KubeVirt("v1.8.0", False, None)), "v1.8.0"
        )

    def test_a_cluster_that_does_not_answer_is_a_warning(self):
        self.warns(checks.kubevirt(Unknown("refused")), "refused")

    def test_each_file_is_for_its_release(self):
        for file, version, other in (
            ("plugin.yaml", "v1.9.3", "v1.10.0"),
            ("plugin-1.10.yaml", "v1.10.0", "v1.9.0"),
        ):
            with self.subTest(file=file):
                self.succeeds(self.judged(file, version), version)
                self.fails(self.judged(file, other), f"KubeVirt {other}")

    def test_a_condition_of_the_plugin_is_a_failure(self):
        found = self.judged("plugin.yaml", condition='vmi.Name == "x"')
        self.fails(found, "KubeVirt v1.9.0 has spec.condition")
        self.assertIn("apply plugin.yaml", found.details)

    def test_the_gate_is_off(self):
        self.warns(self.judged("plugin.yaml", has_gate=False), "v1.9.0 is off")

    def test_a_release_that_is_not_known(self):
        self.warns(self.judged("plugin.yaml", ""), "virt-operator")
