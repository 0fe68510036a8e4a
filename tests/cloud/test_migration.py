# SPDX-License-Identifier: Apache-2.0

"""Realtime guests that move between two realtime hosts."""

from typing import Any

from tests.cloud import guests
from tests.cloud.base import LOGS
from tests.cloud.base import REALTIME
from tests.cloud.base import REALTIME_TRAIT
from tests.cloud.base import SCHEDULER_LOG
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.periodic import periodic
from tests.testbed import guest_image
from tests.testbed import guest_view
from tests.testbed import settings
from tests.testbed import ssh
from tests.testbed import tempest_config
from tests.testbed.progress import Progress
from tests.testbed.realtime_host import DEDICATED_CPUS
from tests.testbed.realtime_host import SHARED_CPUS
from tests.testbed.servers import Server
from tests.testbed.services import RT
from tests.testbed.services import RT2

RT2_COMPUTE_LOG = f"{RT2}/nova-compute.log"

#: Nova alone leaves the emulator on the vCPUs' pCPUs, and writes no scheduler.
OURS = {
    "hw:cpu_policy": "dedicated",
    "hw:mem_page_size": "2MB",
    "sriov_rt:realtime": "required",
    "sriov_rt:guest": "lean",
    "sriov_rt:vcpu_sched": "rr:7",
}
#: Nova itself writes FIFO, and writes it again when the guest moves.
NOVAS = {**REALTIME, "sriov_rt:vcpu_sched": "rr:7"}

#: The last microversion in which a destination can be forced.
FORCING = "2.67"
THROTTLE = "kernel.sched_rt_runtime_us"

#: Seconds of a move of 128 MB of guest between two emulated hosts.
MOVE_SECONDS = 600.0
#: Seconds from a change of the host to Placement's knowing it.
TRAIT_SECONDS = 240.0


@periodic
class TestMigration(CloudTestCase):
    """Two hosts that are fit, until one of them isn't."""

    logs = (*LOGS, RT2_COMPUTE_LOG, f"{RT2}/sriov-rt-agent.log")

    @classmethod
    def setUpClass(cls) -> None:
        """Let the second host join."""
        super().setUpClass()
        cls.addClassCleanup(cls.cloud.leave, cls.cloud.second)
        cls.cloud.join(cls.cloud.second, Progress())

    def setUp(self) -> None:
        """See that the second host is known to be fit."""
        super().setUp()
        self.wait_trait(there=True)

    def test_there_and_back_the_guest_stays_what_it_is(self) -> None:
        servers = [self.start(OURS), self.start(NOVAS)]
        for host in (RT2, RT):
            # The last one first: it finds the pCPU free that the other has.
            for server in reversed(servers):
                self.migrate(server, host)
                self.assert_promise(server, host)
        for server in servers:
            self.delete(server.id)
        for host in (RT, RT2):
            self.assert_nothing_left(host)

    def test_an_unfit_destination_is_refused(self) -> None:
        server = self.start(OURS)
        self.addCleanup(self.throttle, throttled=False)
        self.throttle(throttled=True)
        self.wait_trait(there=False)
        log = self.log(SCHEDULER_LOG)
        self.assert_refused(server)
        lines = log.lines("No host satisfies", server.id, "rt_throttled")
        self.assertEqual(1, len(lines), log.text)
        # Forced, no scheduler is asked: nova-compute has the last word.
        details = self.assert_refused(server, forced=True)
        self.assertIn("Migration pre-check error", details)
        self.assertIn("sched_rt_runtime_us", details)
        say(f"refused: {details.splitlines()[-1]}")
        self.assert_promise(server, RT)
        self.assert_nothing_left(RT2)

    def test_tempest_finds_the_promise_kept(self) -> None:
        for host in map(self.cloud.host, (RT, RT2)):
            ssh.serve(host)
            self.addCleanup(ssh.end, host)
        found = self.tempest(
            r"LifecycleTest\.test_(cold|live)_migration",
            tempest_config.two_hosts(),
        )
        self.assertEqual(["ok", "ok"], list(found.values()))

    def start(self, specs: dict[str, str]) -> Server:
        """Boot a server on the first host, and wait for its userspace.

        :param specs: extra specs of its flavor.
        """
        flavor = self.flavor(specs)
        server = self.boot_on(RT, flavor, fields={"host": RT})
        self.cloud.servers.wait_console(server.id, guest_image.READY)
        self.assert_promise(server, RT)
        return server

    def migrate(self, server: Server, host: str) -> None:
        """Live migrate a server, and see that it runs where it shall.

        :param server: the server.
        :param host: RT or RT2.
        """
        seconds = self.move(server, host, "completed")
        say(f"{server.name} moved to {host} in {seconds:.1f} s")
        found = self.cloud.servers.wait(server.id)
        self.assertEqual(
            ("ACTIVE", host), (found.status, found.host), found.fault
        )

    def assert_refused(self, server: Server, *, forced: bool = False) -> str:
        """Check that a server can't be moved to the second host.

        :param server: a server on the first one.
        :param forced: whether Nova's scheduler is left out.
        :returns: the details that Nova keeps for administrators.
        """
        self.move(server, RT2, "error", forced=forced)
        found = self.cloud.servers.wait(server.id)
        self.assertEqual(("ACTIVE", RT), (found.status, found.host))
        compute = self.cloud.api.compute
        newest = next(
            each
            for each in compute.server_actions(server.id)
            if each.action == "live-migration"
        )
        action = compute.get_server_action(newest.request_id, server.id)
        return "\n".join(each.details or "" for each in action.events)

    def move(
        self, server: Server, host: str, status: str, *, forced: bool = False
    ) -> float:
        """Ask for a live migration, and wait until it is over.

        :param server: the server.
        :param host: RT or RT2.
        :param status: how the migration shall end.
        :param forced: whether Nova's scheduler is left out.
        :returns: seconds that it took.
        """
        compute = self.cloud.api.compute
        before = {each.uuid for each in self.migrations(server)}
        options: dict[str, Any] = {"host": host, "block_migration": "auto"}
        if forced:
            options["force"] = True
        # openstacksdk has a method that asks by 2.30, in which Nova checks
        # before it answers.
        compute.post(
            f"/servers/{server.id}/action",
            json={"os-migrateLive": options},
            microversion=FORCING if forced else settings.COMPUTE_API,
            raise_exc=True,
        )

        def over() -> bool:
            made = [m for m in self.migrations(server) if m.uuid not in before]
            ends = {"completed", "error", "failed", "cancelled"}
            if not made or made[0].status not in ends:
                return False
            self.assertEqual(status, made[0].status)
            return True

        return self.wait_for(
            f"{server.name} moves to {host}", over, timeout=MOVE_SECONDS
        )

    def migrations(self, server: Server) -> list[Any]:
        """Return all migrations of a server.

        :param server: the server.
        """
        return list(self.cloud.api.compute.migrations(server_id=server.id))

    def assert_promise(self, server: Server, name: str) -> None:
        """Check a guest against its flavor, by libvirt and by the kernel.

        :param server: a server of OURS or NOVAS, with one vCPU.
        :param name: the host that it runs on.
        """
        host = self.cloud.host(name)
        domain = guests.document(host, server.domain)
        ours = domain.find(f"metadata/{guests.GUEST}")
        assert ours is not None
        self.assertEqual(
            ("lean", "yes"), (ours.get("class"), ours.get("realtime"))
        )
        pins = guests.pins(domain)
        self.assertEqual({0}, pins.keys())
        self.assertEqual(1, len(pins[0]))
        self.assertLess(pins[0], guest_view.cpus(DEDICATED_CPUS))
        housekeeping = guest_view.cpus(SHARED_CPUS)
        (emulator,) = domain.findall("cputune/emulatorpin")
        self.assertEqual(
            housekeeping, guest_view.cpus(emulator.get("cpuset", ""))
        )
        (sched,) = domain.findall("cputune/vcpusched")
        self.assertEqual(
            {"vcpus": "0", "scheduler": "rr", "priority": "7"}, sched.attrib
        )
        threads = guest_view.threads(host, server.domain)
        (vcpu,) = (each for each in threads if each.vcpu is not None)
        self.assertEqual(
            ("RR", 7, pins[0]), (vcpu.policy, vcpu.priority, vcpu.allowed)
        )
        others = {each.allowed for each in threads if each.vcpu is None}
        self.assertEqual({housekeeping}, others)
        say(
            f"{server.name} on {name}: vCPU 0 is {vcpu.policy} "
            f"{vcpu.priority} on pCPU {', '.join(map(str, vcpu.allowed))}, "
            f"QEMU's {len(threads) - 1} other threads on {SHARED_CPUS}"
        )

    def throttle(self, *, throttled: bool) -> None:
        """Let the second host's kernel throttle realtime tasks, or not.

        :param throttled: whether it shall.
        """
        value = 950000 if throttled else -1
        self.cloud.host(RT2).run("sysctl", "-w", f"{THROTTLE}={value}")

    def wait_trait(self, *, there: bool) -> None:
        """Wait until the control plane takes the second host for fit, or not.

        :param there: whether the trait of realtime shall be there.
        """
        self.wait_for(
            f"{RT2} {'has' if there else 'has lost'} its trait",
            lambda: (REALTIME_TRAIT in self.cloud.traits(RT2)) is there,
            timeout=TRAIT_SECONDS,
        )
