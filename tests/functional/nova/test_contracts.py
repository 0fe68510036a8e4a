# SPDX-License-Identifier: Apache-2.0

import unittest

from tests import releases
from tests.functional.nova import releases as nova
from tests.periodic import periodic

_PACKAGE = "tests.functional.nova"

#: What is run as a whole against each release: each way in which Nova makes
#: a domain, places an instance or reads an extra spec.
_CLOUD = (
    "test_scheduling.SchedulingTest.test_a_realtime_flavor_lands_on_the_"
    "realtime_host",
    "test_scheduling.SchedulingTest.test_no_host_will_do",
    "test_scheduling.OrdinaryFlavorTest.test_it_keeps_off_the_realtime_host",
    "test_guest.LifeTest.test_hard_reboot",
    "test_guest.LifeTest.test_rescue_and_unrescue",
    "test_guest.RefusalTest.test_a_rescue_image_that_will_not_do_leaves_the_"
    "guest_running",
    "test_guest.ResizeTest.test_resize_to_a_lean_flavor_and_back",
    "test_guest.RefusalTest.test_the_sentence_is_the_fault_and_nothing_is_"
    "left",
    "test_vif.VirtualMachineTest.test_it_gets_a_ready_made_macvtap",
    "test_vif.VirtualMachineTest.test_hard_reboot_of_what_is_gone",
    "test_vif.VirtualMachineTest.test_a_bare_guest_gets_none_after_a_reboot_"
    "either",
    "test_vif.LiveMigrationTest.test_the_port_is_plugged_there_first_and_"
    "unplugged_here_after",
    "test_vif.RestartTest.test_what_was_interrupted_is_recovered_first",
    "test_vif_container.ContainerPortTest.test_it_gets_the_macvlan_itself",
    "test_vif_container.ContainerPinningTest.test_a_container_gets_the_pcpus_"
    "that_nova_claimed",
    "test_onload_container.StartTest.test_an_image_of_musl_is_refused_before_"
    "it_starts",
    "test_onload_container.SecondEndpointTest.test_it_is_accelerated_when_"
    "its_place_is_free",
    "test_vif_container.NovaAloneTest.test_a_dedicated_container_fits_nowhere",
    "test_onload.RuleTest.test_a_port_is_of_its_network",
    "test_onload.LateCheckTest.test_the_compute_host_refuses_and_another_"
    "one_is_tried",
    "test_unfit_host.BuildTest.test_another_host_is_tried",
    "test_unfit_host.BuildTest.test_the_sentence_outlives_the_last_attempt",
    "test_unfit_host.ForcedTest.test_it_is_refused_with_the_sentence_as_its_"
    "fault",
    "test_moves.LiveMigrationTest.test_what_was_pinned_and_scheduled_at_the_"
    "spawn_stays_so",
    "test_moves.LiveMigrationTest.test_a_scheduler_that_nova_would_write_anew",
    "test_moves.LiveMigrationTest.test_pins_that_will_not_do_are_given_back",
    "test_moves.ColdMigrationTest.test_an_instance_is_not_stranded",
    "test_moves.LeftHostTest.test_a_refused_evacuation_changes_nothing",
    "test_moves.LeftHostTest.test_nor_does_one_whose_pins_will_not_do",
    "test_moves.LeftHostTest.test_an_unshelve_that_is_refused_binds_nothing",
    "test_moves.RecordedTest.test_a_resize_to_bare_names_a_remedy_that_works",
    "test_mixed_cloud.FromParentsTest.test_by_cold_migration",
    "test_mixed_cloud.FromParentsTest.test_by_evacuation",
    "test_mixed_cloud.FromParentsTest.test_by_live_migration",
    "test_mixed_cloud.FromParentsTest.test_by_unshelve",
    "test_mixed_cloud.ToParentsTest.test_an_evacuation_without_a_parent_left_"
    "changes_nothing",
    "test_mixed_cloud.FaultTest.test_which_leaves_a_running_server_as_it_is",
    "test_validation.ValidationTest.test_values_out_of_the_grammar_are_"
    "refused_with_a_sentence",
)


class ContractsTest(unittest.TestCase):
    """Against a release that can't be had these fail, and are not skipped."""

    maxDiff = None

    def _run(self, number: int, *tests: str) -> None:
        (release,) = (r for r in releases.SUPPORTED if r.nova == number)
        names = [f"{_PACKAGE}.{each}" for each in tests]
        code, output = nova.run(release, *names)
        self.assertEqual(0, code, output[-20000:])
        self.assertRegex(output, r"\nRan [1-9][0-9]* tests? in [^\n]+\nOK\n")

    def test_seams_of_nova_32(self):
        self._run(32, "seams")

    # Between the oldest and the one that is installed.
    @periodic
    def test_seams_of_nova_33(self):
        self._run(33, "seams")

    def test_seams_of_nova_34(self):
        self._run(34, "seams")

    # The gate has the newest one whole, in its own tests.
    @periodic
    def test_a_cloud_of_nova_32(self):
        self._run(32, *_CLOUD)

    @periodic
    def test_a_cloud_of_nova_33(self):
        self._run(33, *_CLOUD)
