# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt explain`` agrees with nova-scheduler."""

from tempest import config
from tempest.lib import decorators

from sriov_rt_tempest_plugin.tests import base

CONF = config.CONF


class ExplainTest(base.ExclusiveTest):
    """Flavors are explained, and then booted."""

    @classmethod
    def skip_checks(cls) -> None:
        """Skip if no command explains flavors."""
        super().skip_checks()
        if not CONF.sriov_rt.explain_command:
            raise cls.skipException("[sriov_rt] explain_command is not set")

    @decorators.idempotent_id("cb1a826a-fbc2-4a89-ad55-a9980e3bf2e6")
    def test_a_server_lands_on_a_host_that_passes(self) -> None:
        if not CONF.sriov_rt_feature_enabled.realtime:
            self.skipTest("[sriov_rt-feature-enabled] realtime is off")
        flavor = self.realtime_flavor()
        verdicts = self.explain(flavor["name"])
        passing = {each["host"] for each in verdicts if each["passes"]}
        self.assertEqual(self.realtime_hosts(), passing)
        server = self.boot(flavor)
        self.assertIn(server["OS-EXT-SRV-ATTR:host"], passing)

    @decorators.attr(type="negative")
    @decorators.idempotent_id("095724a4-19cf-4999-9744-3d1c7bed9116")
    def test_a_host_that_fails_takes_no_server_and_says_why(self) -> None:
        flavor = self.realtime_flavor()
        failing = [
            each for each in self.explain(flavor["name"]) if not each["passes"]
        ]
        if not failing:
            self.skipTest("every compute host is a realtime one")
        for each in failing:
            self.assertNotEqual([], each["reasons"])
            for reason in each["reasons"]:
                self.assertNotEqual("", reason["code"])
                self.assertNotEqual("", reason["message"])
        server = self.try_to_boot(flavor, host=failing[0]["host"])
        self.assertIn(base.NO_VALID_HOST, self.assert_refused(server))

    def explain(self, flavor: str) -> list[dict]:
        """Return a verdict for each host.

        :param flavor: the name of a flavor.
        """
        found: list[dict] = base.run_json("explain_command", flavor=flavor)
        self.assertEqual(self.hosts().keys(), {each["host"] for each in found})
        return found
