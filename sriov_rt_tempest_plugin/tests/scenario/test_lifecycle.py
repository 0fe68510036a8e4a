# SPDX-License-Identifier: Apache-2.0

"""A realtime server stays realtime through all operations."""

from typing import Any

from tempest import config
from tempest.common import compute
from tempest.common import waiters
from tempest.lib import decorators

from sriov_rt_tempest_plugin.tests import base
from sriov_rt_tempest_plugin.tests import domain

CONF = config.CONF


class LifecycleTest(base.RealtimeTest):
    """The domain is read before and after each operation."""

    @classmethod
    def skip_checks(cls) -> None:
        """Skip if no command prints a domain."""
        super().skip_checks()
        if not CONF.sriov_rt.domain_xml_command:
            raise cls.skipException("[sriov_rt] domain_xml_command is not set")

    def realtime_server(self) -> dict[str, Any]:
        """Boot a realtime server, and check its domain."""
        server = self.boot(self.realtime_flavor())
        domain.assert_realtime(self, server)
        return server

    def assert_kept(self, server: str) -> dict[str, Any]:
        """Check a server's domain, and that it is on a realtime host.

        :param server: its id.
        :returns: the server, as an administrator sees it.
        """
        found = self.show(server)
        self.assertIn(found["OS-EXT-SRV-ATTR:host"], self.realtime_hosts())
        domain.assert_realtime(self, found)
        return found

    def wait(self, server: str, status: str) -> None:
        """Wait until a server has a status and no task.

        :param server: its id.
        :param status: the status.
        """
        self.wait_until(
            f"server {server} is {status}",
            lambda: self.show(server)["OS-EXT-STS:task_state"] is None,
            CONF.compute.build_timeout,
        )
        found = self.show(server)
        self.assertEqual(
            status, found["status"], found.get("fault", self.events(server))
        )

    def confirm(self, server: str) -> None:
        """Confirm a resize or a migration, and wait until that is done.

        Nova sets no task state while it confirms, so only the status changes.

        :param server: its id.
        """
        self.servers_client.confirm_resize_server(server)
        waiters.wait_for_server_status(
            self.admin_servers_client, server, "ACTIVE"
        )

    def events(self, server: str) -> list[Any]:
        """Return Nova's events of a server's last action.

        :param server: its id.
        """
        client = self.admin_servers_client
        last = client.list_instance_actions(server)["instanceActions"][0]
        shown = client.show_instance_action(server, last["request_id"])
        return list(shown["instanceAction"].get("events", []))

    @decorators.idempotent_id("05f1e806-e589-4c8c-8af6-24e9cd0f8c09")
    def test_hard_reboot(self) -> None:
        server = self.realtime_server()
        before = domain.Domain(server)
        self.reboot_server(server["id"], type="HARD")
        self.wait(server["id"], "ACTIVE")
        self.assert_kept(server["id"])
        after = domain.Domain(server)
        self.assertNotEqual(before.number, after.number)
        self.assertEqual(before.devices, after.devices)
        self.assertEqual(before.guest, after.guest)

    @decorators.idempotent_id("d0c40080-dacd-4c24-aac4-f05b699d50be")
    def test_rescue(self) -> None:
        if not CONF.sriov_rt_feature_enabled.rescue:
            self.skipTest("[sriov_rt-feature-enabled] rescue is off")
        server = self.realtime_server()["id"]
        self.servers_client.rescue_server(server)
        self.wait(server, "RESCUE")
        self.assert_kept(server)
        self.servers_client.unrescue_server(server)
        self.wait(server, "ACTIVE")
        self.assert_kept(server)

    @decorators.idempotent_id("968adba2-a5f7-4e0e-9fee-2eeb8965f6fa")
    def test_resize(self) -> None:
        if not CONF.sriov_rt_feature_enabled.resize:
            self.skipTest("[sriov_rt-feature-enabled] resize is off")
        before = self.realtime_server()
        bigger = self.flavor(
            base.realtime_specs(), ram=before["flavor"]["ram"] + 64
        )
        server = before["id"]
        self.servers_client.resize_server(server, bigger["id"])
        self.wait(server, "VERIFY_RESIZE")
        self.assert_kept(server)
        self.confirm(server)
        after = self.assert_kept(server)
        self.assertEqual(bigger["ram"], after["flavor"]["ram"])

    @decorators.idempotent_id("ed2ecfdd-7511-4cf4-b99b-9f7cd47fb959")
    def test_shelve(self) -> None:
        if not CONF.sriov_rt_feature_enabled.shelve:
            self.skipTest("[sriov_rt-feature-enabled] shelve is off")
        server = self.realtime_server()["id"]
        compute.shelve_server(
            self.servers_client, server, force_shelve_offload=True
        )
        self.servers_client.unshelve_server(server)
        self.wait(server, "ACTIVE")
        self.assert_kept(server)

    @decorators.idempotent_id("cd1012a1-f78f-4914-9596-0c16ca4c4ea4")
    def test_cold_migration(self) -> None:
        self.need_two_hosts("cold_migration")
        before = self.realtime_server()
        server = before["id"]
        self.admin_servers_client.migrate_server(server)
        self.wait(server, "VERIFY_RESIZE")
        after = self.assert_kept(server)
        self.assertNotEqual(*(self.host_of(s) for s in (before, after)))
        self.confirm(server)
        self.assert_kept(server)

    @decorators.idempotent_id("06107e35-2052-4282-9582-0b461933a068")
    def test_live_migration(self) -> None:
        self.need_two_hosts("live_migration")
        before = self.realtime_server()
        server = before["id"]
        self.admin_servers_client.live_migrate_server(
            server, block_migration="auto", host=None
        )
        self.wait(server, "ACTIVE")
        after = self.assert_kept(server)
        self.assertNotEqual(*(self.host_of(s) for s in (before, after)))

    def need_two_hosts(self, feature: str) -> None:
        """Skip if a feature is off or there is only one realtime host.

        :param feature: an option of [sriov_rt-feature-enabled].
        """
        if not getattr(CONF.sriov_rt_feature_enabled, feature):
            self.skipTest(f"[sriov_rt-feature-enabled] {feature} is off")
        if len(self.realtime_hosts()) < 2:
            self.skipTest("there is one realtime host")

    def host_of(self, server: dict[str, Any]) -> str:
        """Return the host that a server is on.

        :param server: the server as an administrator sees it.
        """
        return str(server["OS-EXT-SRV-ATTR:host"])
