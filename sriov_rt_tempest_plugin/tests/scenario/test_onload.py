# SPDX-License-Identifier: Apache-2.0

"""Onload requested on hosts without it."""

from tempest.lib import decorators

from sriov_rt_tempest_plugin.tests import base


class OnloadTest(base.ServerTest):
    """A flavor with Onload, and hosts without Onload."""

    @decorators.attr(type="negative")
    @decorators.idempotent_id("1bbf3d21-a17c-4967-bdd2-ba3861879ae0")
    def test_a_host_without_onload_is_refused(self) -> None:
        without = sorted(
            host
            for host, traits in self.hosts().items()
            if base.ONLOAD_TRAIT not in traits
        )
        if not without:
            self.skipTest("every compute host has Onload")
        flavor = self.flavor({"sriov_rt:onload": "required"})
        server = self.try_to_boot(flavor, host=without[0])
        self.assertIn(base.NO_VALID_HOST, self.assert_refused(server))
