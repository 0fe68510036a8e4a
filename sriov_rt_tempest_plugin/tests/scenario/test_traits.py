# SPDX-License-Identifier: Apache-2.0

"""The traits of a host in Placement, which follow its state."""

from tempest import config
from tempest.lib import decorators

from sriov_rt_tempest_plugin.tests import base

CONF = config.CONF


class TraitsTest(base.RealtimeTest):
    """Traits that the agents keep in Placement."""

    @decorators.idempotent_id("32a2fa4f-21f2-4a98-955c-b4dad35819df")
    def test_realtime_hosts_have_their_trait(self) -> None:
        expected = set(CONF.sriov_rt.realtime_hosts)
        if not expected:
            self.skipTest("[sriov_rt] realtime_hosts names no host")
        self.assertEqual(expected, self.realtime_hosts_or_none())


class DegradedHostTest(base.RealtimeTest):
    """A host stops being realtime, and becomes realtime again."""

    @classmethod
    def skip_checks(cls) -> None:
        """Skip if no command degrades a host."""
        super().skip_checks()
        for option in ("degrade_command", "restore_command"):
            if not getattr(CONF.sriov_rt, option):
                raise cls.skipException(f"[sriov_rt] {option} is not set")

    @decorators.idempotent_id("1b5407a9-f63a-4682-a99d-16248a72bdd2")
    def test_the_trait_goes_and_comes_back(self) -> None:
        flavor = self.realtime_flavor()
        host = sorted(self.realtime_hosts_or_none())[0]
        self.addCleanup(self.restore, host)
        base.run("degrade_command", host=host)
        self.wait_until(
            f"{host} loses {base.REALTIME_TRAIT}",
            lambda: host not in self.realtime_hosts_or_none(),
            CONF.sriov_rt.facts_timeout,
        )
        server = self.try_to_boot(flavor, host=host)
        self.assertIn(base.NO_VALID_HOST, self.assert_refused(server))
        self.restore(host)
        server = self.boot(flavor, host=host)
        self.assertEqual(host, server["OS-EXT-SRV-ATTR:host"])

    def restore(self, host: str) -> None:
        """Make a host realtime again, and wait until its trait is back.

        :param host: its name.
        """
        base.run("restore_command", host=host)
        self.wait_until(
            f"{host} has {base.REALTIME_TRAIT} again",
            lambda: host in self.realtime_hosts_or_none(),
            CONF.sriov_rt.facts_timeout,
        )
