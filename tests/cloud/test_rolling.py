# SPDX-License-Identifier: Apache-2.0

"""A cloud that goes back to the state that landed last, and forth again.

Each step is one of doc/source/admin/upgrade.rst, which has what was seen.
"""

import functools
import json
import pathlib
import shutil
import time
from collections.abc import Callable
from typing import Any
from typing import ClassVar

from tests.cloud import guests
from tests.cloud.base import AGENT
from tests.cloud.base import COMPUTE_WORKS
from tests.cloud.base import KERNEL
from tests.cloud.base import NO_VALID_HOST
from tests.cloud.base import REALTIME
from tests.cloud.base import SCHEDULER_LOG
from tests.cloud.base import say
from tests.cloud.test_vif import NORMAL
from tests.cloud.test_vif import PortsTestCase
from tests.periodic import periodic
from tests.testbed import earlier
from tests.testbed import joining
from tests.testbed import programs
from tests.testbed import realtime_host
from tests.testbed.progress import Progress
from tests.testbed.realtime_host import COMPUTE
from tests.testbed.realtime_host import NEUTRON_AGENT
from tests.testbed.realtime_host import PORT_AGENTS
from tests.testbed.realtime_host import SRIOV_AGENT
from tests.testbed.seed import ORDINARY_FLAVOR
from tests.testbed.servers import Server
from tests.testbed.services import RT
from tests.testbed.services import STD

API = "nova-api"
SCHEDULER = "nova-scheduler"
NEUTRON = ("neutron", "neutron-rpc-server")
#: What a compute host has of ours, in the order of an upgrade.
HOST = {
    RT: (SRIOV_AGENT, COMPUTE, AGENT, NEUTRON_AGENT),
    STD: (COMPUTE, AGENT),
}
#: What a service says in its log once it does its work.
SAYS = {
    COMPUTE: COMPUTE_WORKS,
    AGENT: "facts changed: ",
}

#: One dedicated CPU of the two that rt-1 has.
SMALL = {"ram": 128, "vcpus": 1}
#: MiB of memory that rt-1 hasn't and std-1 has.
MORE_THAN_RT = 3072

#: Seconds of the services of a host that is emulated, until they work.
START_SECONDS = 720.0
#: Seconds of a command on such a host, beside guests that boot.
COMMAND_SECONDS = 600.0
#: Seconds in which schedulers know of a host that works again.
KNOWN_SECONDS = 300.0


class RollingTestCase(PortsTestCase):
    """One service or host after the other runs the other release."""

    old: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Install the state that landed last beside this one."""
        super().setUpClass()
        place = cls.cloud.place
        cls.old = place.data / "earlier"
        earlier.install(cls.cloud.env, cls.old, place.log / "earlier.log")
        cls.addClassCleanup(shutil.rmtree, cls.old)

    def setUp(self) -> None:
        """Note which services run the old release: none."""
        super().setUp()
        self.are_old: set[tuple[str, str]] = set()
        self.rows: list[tuple[str, str, str]] = []
        self.realtime = self.flavor(REALTIME, **SMALL)
        self.addCleanup(self.all_new)
        self.addCleanup(self.print_table)
        self.elsewhere = self.flavor(KERNEL, ram=MORE_THAN_RT, vcpus=1)

    def all_old(self) -> None:
        """Let everything run the old release; no server is there."""
        self.assertEqual({}, self.plugged())
        for name in HOST[RT]:
            self.cloud.services.stop(name, RT)
        self.recover(old=False)
        self.restart(STD, (*NEUTRON, SCHEDULER, API), old=True)
        self.start(RT, HOST[RT], old=True)
        self.restart(STD, HOST[STD], old=True)

    # -- the servers that are there all the time

    def fill(self) -> None:
        """Boot both servers on rt-1: one with a port of ours, one plain."""
        # A host that has just started is known some seconds later.
        self.guest = self.wait_chosen()
        self.domain = self.pinned()
        self.plain = self.boot_on(
            RT,
            ORDINARY_FLAVOR,
            fields={"availability_zone": f"nova:{RT}"},
        )

    def empty(self) -> None:
        """Delete both, and see that nothing of the port is left."""
        self.delete(self.plain.id)
        self.delete(self.guest.id)
        self.assert_nothing_left()
        self.assertEqual({}, self.plugged())

    def pinned(self) -> tuple[object, object]:
        """Return which domain the guest is, and how it is pinned."""
        domain = guests.document(self.cloud.host(RT), self.guest.domain)
        pins = guests.pins(domain)
        self.assertEqual({0}, pins.keys())
        return domain.get("id"), pins

    def stop_and_start(self, server: str) -> None:
        """Stop a server and start it again.

        :param server: its id.
        """
        compute = self.cloud.api.compute
        compute.stop_server(server)
        self.wait_for(
            f"{server} is stopped",
            lambda: self.cloud.servers.get(server).status == "SHUTOFF",
            timeout=KNOWN_SECONDS,
        )
        compute.start_server(server)
        self.assertEqual("ACTIVE", self.cloud.servers.wait(server).status)

    # -- what has to be so in each mix

    def mix(
        self, name: str, seconds: float, left: str = "", *, boots: bool = True
    ) -> None:
        """Check a mix, and note it.

        :param name: what runs which release.
        :param seconds: that the restart took.
        :param left: what is to be noted beside the decisions.
        :param boots: whether a realtime server boots too, which takes its
            time in an emulated host.
        """
        took = f"{seconds:.0f}"
        with self.subTest(name):
            self.delete_left()
            began = time.monotonic()
            if boots:
                server = self.wait_chosen()
                took += f"; realtime server {time.monotonic() - began:.0f}"
                self.delete(server.id)
                self.wait_for(
                    "the port of a server that is gone has no record",
                    lambda: self.ports_of(server).isdisjoint(self.plugged()),
                    timeout=KNOWN_SECONDS,
                )
            text = self.decisions()
            if boots:
                text = f"realtime to {RT}; {text}"
            self.assertEqual(self.domain, self.pinned())
            found = self.cloud.servers.get(self.guest.id)
            self.assertEqual(("ACTIVE", RT), (found.status, found.host))
            (port,) = self.ports_of(self.guest)
            self.assertEqual({port: "plugged"}, self.plugged())
            self.assertEqual(
                "ACTIVE", self.cloud.api.network.get_port(port).status
            )
            self.row(name, text, took)

    def delete_left(self) -> None:
        """Delete what a mix that failed has left: it has a pCPU of rt-1."""
        for each in self.cloud.api.compute.servers():
            if each.id not in {self.guest.id, self.plain.id}:
                self.delete(each.id)

    def decisions(self) -> str:
        """Check whom the scheduler refuses, and return it.

        A plain server is not judged; a host without the kernel is refused,
        even if no other has room.
        """
        log = self.log(SCHEDULER_LOG)
        server = self.boot(ORDINARY_FLAVOR)
        self.assertEqual("ACTIVE", server.status, server.fault)
        self.assertEqual([], log.lines("No host satisfies", server.id))
        self.delete(server.id)
        self.assert_no_host(self.elsewhere, "kernel_not_rt × 1")
        return f"plain to {server.host}; {STD} refused with kernel_not_rt"

    def wait_chosen(self) -> Server:
        """Return a realtime server with a port of ours, on the one host.

        Schedulers hear of a host that works again some seconds later, and
        refuse it until then; no other may take the server.
        """
        began = time.monotonic()
        while True:
            port = self.port(realtime_host.POOL_NETWORK, **NORMAL)
            server = self.boot(self.realtime, ports=[port])
            if server.status == "ACTIVE":
                self.assertEqual(RT, server.host)
                bound = self.cloud.api.network.get_port(port)
                self.assertEqual(
                    ("sriov_rt", "ACTIVE", RT),
                    (
                        bound.binding_vif_type,
                        bound.status,
                        bound.binding_host_id,
                    ),
                )
                self.assertEqual("plugged", self.plugged().get(port))
                return server
            self.assertIn(NO_VALID_HOST, server.fault)
            say(f"not yet: {server.fault}")
            self.delete(server.id)
            if time.monotonic() - began > KNOWN_SECONDS:
                self.fail(f"{RT} is not chosen again: {server.fault}")
            time.sleep(2)

    def ports_of(self, server: Server) -> set[str]:
        """Return the ports that a test made for a server."""
        listed = self.cloud.api.network.ports(device_id=server.id)
        return {each.id for each in listed}

    def plugged(self) -> dict[str, str]:
        """Return the ports of rt-1 and their states, by its own release."""
        found = json.loads(self.ours("vif", "show", "--json"))
        return {each["port"]: each["state"] for each in found}

    def ours(self, *arguments: str) -> str:
        """Return what our command of the release of rt-1 prints there."""
        old = (COMPUTE, RT) in self.are_old
        return self.of_release(old, "sriov-rt", *arguments)

    def of_release(self, old: bool, program: str, *arguments: str) -> str:
        place, env = self.cloud.place, self.cloud.env
        path = programs.environment(place, env, self.old if old else None)
        return self.cloud.host(RT).run(
            "env",
            f"PYTHONPATH={path['PYTHONPATH']}",
            str(env.program(program)),
            *arguments,
            timeout=COMMAND_SECONDS,
        )

    def check_upgrade(self) -> None:
        """See that the new release finds no failure on rt-1 that is old."""
        done = self.cloud.realtime.machine.run(
            (
                str(self.cloud.env.program("sriov-rt-status")),
                *("upgrade", "check", "--json"),
            ),
            timeout=300,
            check=False,
        )
        checks = json.loads(done.text)["checks"]
        for each in checks:
            if each["result"]:
                say(f"upgrade check: {each}")
        self.assertEqual([], [each for each in checks if each["result"] > 1])

    def recover(self, *, old: bool) -> None:
        """See that nothing is in progress: the command exits with 0."""
        self.of_release(old, "sriov-rt", "vif", "recover")

    # -- one release in the place of the other

    def restart(
        self, host: str, names: tuple[str, ...], *, old: bool
    ) -> float:
        """Let services of a host run a release, and wait for them.

        :param host: RT or STD.
        :param names: the services, in the order of their start.
        :param old: which release.
        :returns: seconds from the first one's stop until all work.
        """
        began = time.monotonic()
        for name in reversed(names):
            self.cloud.services.stop(name, host)
        self.start(host, names, old=old)
        seconds = time.monotonic() - began
        release = "old" if old else "new"
        say(f"{', '.join(names)} of {host} {release}: {seconds:.1f} s")
        return seconds

    def start(self, host: str, names: tuple[str, ...], *, old: bool) -> None:
        """Start services that do not run, and wait until they work."""
        since = self.started() if host == RT else {}
        directory = f"{RT}/" if host == RT else ""
        waits: list[tuple[str, Callable[[], object]]] = []
        for name in names:
            if name in SAYS:
                log = self.log(f"{directory}{name}.log")
                waits.append((name, functools.partial(log.lines, SAYS[name])))
            (self.are_old.add if old else self.are_old.discard)((name, host))
            self.cloud.services.start(name, host, self.old if old else None)
        if host == RT:
            waits += [
                (name, functools.partial(self.is_anew, name, since))
                for name in PORT_AGENTS
                if name in names
            ]
        if COMPUTE in names:
            waits.append(
                (
                    f"{host} is up",
                    lambda: host in joining.hypervisors(self.cloud.api),
                )
            )
        for what, probe in waits:
            self.wait_for(f"{what} works", probe, timeout=START_SECONDS)

    def started(self) -> dict[str, str]:
        """Return when Neutron's agents of rt-1 were started."""
        listed: Any = self.cloud.api.network.agents(host=RT)
        return {each.binary: str(each.started_at) for each in listed}

    def is_anew(self, name: str, since: dict[str, str]) -> bool:
        """Whether an agent of Neutron reports another start."""
        found = self.started().get(name)
        return found is not None and found != since.get(name)

    def reboot(self) -> float:
        """Roll rt-1 back, whose records of ports end with the boot.

        :returns: seconds from the stop of its services until all work.
        """
        began = time.monotonic()
        for name in HOST[RT]:
            self.cloud.services.stop(name, RT)
        self.recover(old=False)
        self.cloud.realtime.machine.stop()
        self.cloud.realtime.boot(Progress())
        say(f"{RT} has booted after {time.monotonic() - began:.0f} s")
        self.start(RT, HOST[RT], old=True)
        return time.monotonic() - began

    def all_new(self) -> None:
        """Let everything run the new release again."""
        if not self.cloud.realtime.machine.running:
            self.cloud.realtime.boot(Progress())
            self.start(RT, HOST[RT], old=False)
        for host in (RT, STD):
            names = [name for name, where in self.are_old if where == host]
            if names:
                self.restart(host, tuple(names), old=False)

    # -- what is told

    def row(self, *row: str) -> None:
        """Note a row of the table, and say it."""
        mix, decided, seconds = row
        self.rows.append((mix, decided, seconds))
        say(" | ".join(row))

    def print_table(self) -> None:
        """Print the table as upgrade.rst has it."""
        for row in self.rows:
            lines = [
                f"{'*' if not n else ' '} - {cell}"
                for n, cell in enumerate(row)
            ]
            say("table\n" + "\n".join(f"   {line}" for line in lines))


# Services of an emulated host start again in each of these, which takes a
# quarter of an hour or more: each is a part of the periodic run.
@periodic
class TestUpgradeOfScheduler(RollingTestCase):
    """A nova-scheduler that is upgraded before all others."""

    def test_it_knows_agents_of_the_release_before(self) -> None:
        self.all_old()
        self.fill()
        self.row("all old", self.decisions(), "")
        seconds = self.restart(STD, (SCHEDULER,), old=False)
        self.mix("only nova-scheduler new", seconds)
        self.empty()


@periodic
class TestUpgrade(RollingTestCase):
    """Hosts, then the control plane."""

    def test_servers_outlive_it(self) -> None:
        # Ports of a host would not outlive that; there are none.
        self.all_old()
        self.fill()
        self.check_upgrade()
        self.recover(old=True)
        seconds = self.restart(RT, HOST[RT], old=False)
        self.mix("rt-1 new", seconds)
        seconds = self.restart(STD, HOST[STD], old=False)
        self.mix("rt-1 and std-1 new", seconds, boots=False)
        seconds = self.restart(STD, NEUTRON, old=False)
        seconds += self.restart(STD, (SCHEDULER,), old=False)
        self.mix("all but nova-api new", seconds)
        seconds = self.restart(STD, (API,), old=False)
        self.mix("all new, a port of old", seconds, boots=False)
        self.stop_and_start(self.plain.id)
        # Plugged by the old release, unplugged by the new one.
        self.empty()
        self.wait_clean()


@periodic
class TestRollbackOfServices(RollingTestCase):
    """A control plane that is older than its hosts."""

    def test_servers_outlive_it(self) -> None:
        self.fill()
        self.row("all new", self.decisions(), "")
        seconds = self.restart(STD, (API,), old=True)
        self.mix("nova-api old", seconds, boots=False)
        seconds = self.restart(STD, (SCHEDULER, *NEUTRON), old=True)
        self.mix("nova-api, nova-scheduler, neutron-server old", seconds)
        self.empty()


@periodic
class TestRollback(RollingTestCase):
    """Hosts, after the control plane: rt-1 boots for it."""

    def test_servers_boot_after_it(self) -> None:
        seconds = self.restart(STD, (API, SCHEDULER, *NEUTRON), old=True)
        seconds += self.reboot()
        seconds += self.restart(STD, HOST[STD], old=True)
        self.fill()
        self.row("all old, rt-1 rebooted", self.decisions(), f"{seconds:.0f}")
        self.empty()
