# SPDX-License-Identifier: Apache-2.0

"""Day two, as doc/source/admin/day-two.rst has it: its commands are run.

Another name is given to rt-1 where the page speaks of another host: it is
what Nova, Placement and our agent know it by.
"""

import functools
import re
import shlex
import signal
import time
from collections.abc import Callable
from typing import Any

from tests.cloud.base import AGENT
from tests.cloud.base import REALTIME
from tests.cloud.base import REALTIME_TRAIT
from tests.cloud.base import RT_AGENT_LOG
from tests.cloud.base import RT_COMPUTE_LOG
from tests.cloud.base import SCHEDULER_LOG
from tests.cloud.base import say
from tests.cloud.test_facts import START_SECONDS
from tests.cloud.test_facts import TRAITS
from tests.cloud.test_facts import FactsTestCase
from tests.periodic import periodic
from tests.testbed import infrastructure
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed.process import Record
from tests.testbed.realtime_host import COMPUTE
from tests.testbed.servers import Server
from tests.testbed.services import RT
from tests.testbed.services import STD
from tests.testbed.waiting import run

PAGE = paths.CHECKOUT / "doc/source/admin/day-two.rst"
SCHEDULER = "nova-scheduler"

#: One dedicated CPU of the two that rt-1 has.
SMALL = {"ram": 128, "vcpus": 1}

#: What the agent says where RabbitMQ or Keystone refuses it.
REFUSED = "write a user and password that it accepts into transport_url"
UNAUTHORIZED = "correct them in [placement]"
#: What oslo.config says of an option that a service reads at its start.
IGNORED = "Ignoring change to immutable option"

#: Seconds from a change of passwords to the agent's knowing it.
KNOWN_SECONDS = 120.0
#: Seconds until facts end that nobody sends: facts_max_age is 40 here.
STALE_SECONDS = 45.0

_RABBITMQCTL = ("/usr/lib/rabbitmq/bin/rabbitmqctl", "--silent")
#: In a connection's properties, as oslo.messaging names it.
_PROGRAM = re.compile(r'"connection_name","([^":]+)')
_OTHER = "rt-9"
_COMPUTE_ID = "/var/lib/nova/compute_id"
_KEPT = "/var/lib/sriov-rt-verify"
_BACKUP = "/run/sriov-rt-verify.backup"


def commands(program: str) -> list[list[str]]:
    """Return the words of the page's commands of a program, in order."""
    found = re.findall(rf"(?m)^ *[#$] ({program} .*)$", PAGE.read_text())
    return [shlex.split(each)[1:] for each in found]


class DayTwoTestCase(FactsTestCase):
    """A realtime server runs all the time, and another one comes."""

    def setUp(self) -> None:
        """Boot the one."""
        super().setUp()
        self.realtime = self.flavor(REALTIME, **SMALL)

    def lands(self, when: str, host: str = RT) -> None:
        """Check that a realtime server is placed on rt-1, and delete it.

        Schedulers hear of a host that works again some seconds later.

        :param host: what rt-1 is called.
        """
        began = time.monotonic()
        found: list[Server] = []

        def placed() -> bool:
            found[:] = [self.boot(self.realtime)]
            return found[0].status == "ACTIVE"

        self.wait_for(f"{when}: placed", placed, timeout=START_SECONDS)
        self.assertEqual(host, found[0].host)
        self.delete(found[0].id)
        say(f"{when}: a server after {time.monotonic() - began:.0f} s")

    def restart_agent(self, host: str = RT) -> None:
        """Restart the agent of a host, and wait until it has observed."""
        name = f"{AGENT}.log"
        log = self.log(f"{RT}/{name}" if host == RT else name)
        began = time.monotonic()
        self.cloud.services.restart(AGENT, host)
        self.wait_for(
            f"{AGENT} on {host} observes",
            lambda: log.lines("facts changed: "),
            timeout=START_SECONDS,
        )
        say(f"{AGENT} of {host}: {time.monotonic() - began:.0f} s")

    def reload_agent(self) -> None:
        """Send SIGHUP to the agent of rt-1, and wait until it was seen."""
        log = self.log(RT_AGENT_LOG)
        pid = self.cloud.realtime.pid(AGENT)
        self.cloud.host(RT).run("kill", "-HUP", str(pid))
        self.wait_for(
            "what it says of options that have changed",
            lambda: log.lines(IGNORED),
            timeout=KNOWN_SECONDS,
        )
        say("; ".join(line[-90:] for line in log.lines(IGNORED)))

    def wait_said(self, log: Any, *words: str, timeout: float) -> None:
        """Wait until a log has a line with all words."""
        self.wait_for(
            f"'{' '.join(words)}' in the log",
            lambda: log.lines(*words),
            timeout=timeout,
        )


@periodic
class TestPasswords(DayTwoTestCase):
    """Of RabbitMQ and Keystone; a realtime server runs all the time."""

    def setUp(self) -> None:
        """Boot it."""
        super().setUp()
        self.guest = self.boot_on(RT, self.realtime)
        place = self.cloud.place
        self.files = {
            SCHEDULER: place.etc / "nova" / "nova.conf",
            RT: place.etc / RT / "sriov_rt" / "sriov-rt.conf",
            STD: place.etc / "sriov_rt" / "sriov-rt.conf",
        }
        self.restarts: dict[str, Callable[[], None]] = {
            SCHEDULER: self.restart_scheduler,
            RT: self.restart_agent,
            STD: functools.partial(self.restart_agent, STD),
        }

    def assert_guest_runs(self) -> None:
        """Check that the server has seen nothing of it all."""
        found = self.cloud.servers.get(self.guest.id)
        self.assertEqual(("ACTIVE", RT), (found.status, found.host))

    def keep(self, *names: str) -> None:
        """Write files as they are now, and restart, when the test ends."""
        for name in names:
            self.addCleanup(self.restarts[name])
            file = self.files[name]
            self.addCleanup(file.write_text, file.read_text())

    def rabbitmqctl(self, *arguments: str) -> str:
        """Return what it prints."""
        place = self.cloud.place
        broker = infrastructure.rabbitmq(
            place, programs.environment(place, self.cloud.env)
        )
        return run(
            (*_RABBITMQCTL, *arguments),
            timeout=60,
            environment=broker.environment,
        )

    def connected(self, user: str) -> set[tuple[str, str]]:
        """Return who has connections of a user: programs and addresses."""
        (command,) = (
            each
            for each in commands("rabbitmqctl")
            if "list_connections" in each
        )
        lines = self.rabbitmqctl(*command).splitlines()
        rows = (line.split("\t", 2) for line in lines)
        return {
            (name[1], address)
            # One that is being closed has fewer columns.
            for whose, address, properties in (
                row for row in rows if len(row) == 3
            )
            if whose == user and (name := _PROGRAM.search(properties))
        }

    def write_url(self, name: str, user: str, password: str) -> None:
        """Write the user into [sriov_rt] transport_url of a file."""
        url = (
            f"rabbit://{user}:{password}@{network.CONTROLLER_ADDRESS}"
            f":{network.PORTS['rabbitmq']}/"
        )
        text, count = re.subn(
            r"(?m)^\[sriov_rt\]\n(transport_url = .*\n)?",
            f"[sriov_rt]\ntransport_url = {url}\n",
            self.files[name].read_text(),
        )
        self.assertEqual(1, count)
        self.files[name].write_text(text)

    def own_user(self) -> str:
        """Give sriov-rt the user whose password is rotated; return it.

        The cloud's services are Nova's and ours, of one user.
        """
        deleted = next(
            each for each in commands("rabbitmqctl") if "delete_user" in each
        )
        user = deleted[1]
        self.keep(*self.files)
        self.addCleanup(self.delete_user, user)
        self.rabbitmqctl("add_user", user, "OLD")
        self.rabbitmqctl("set_permissions", user, ".*", ".*", ".*")
        for name in self.files:
            self.write_url(name, user, "OLD")
            self.restarts[name]()
        self.lands("with a user of its own")
        self.assertEqual(
            {
                (SCHEDULER, network.CONTROLLER_ADDRESS),
                (AGENT, network.CONTROLLER_ADDRESS),
                (AGENT, network.REALTIME_ADDRESS),
            },
            self.connected(user),
        )
        return user

    def test_rabbitmq(self) -> None:
        old = self.own_user()
        made, rights, deleted = (
            next(each for each in commands("rabbitmqctl") if verb in each)
            for verb in ("add_user", "set_permissions", "delete_user")
        )
        _, new, password = made
        self.addCleanup(self.delete_user, new)
        self.rabbitmqctl(*made)
        self.rabbitmqctl(*rights)
        self.write_url(SCHEDULER, new, password)
        self.reload_scheduler()
        self.lands("nova-scheduler reloaded")
        self.assertEqual(set(), self.connected(new))
        self.restarts[SCHEDULER]()
        self.lands("nova-scheduler of the new user, agents of the old one")
        self.assertEqual(
            {(SCHEDULER, network.CONTROLLER_ADDRESS)}, self.connected(new)
        )
        self.write_url(RT, new, password)
        self.reload_agent()
        self.assertNotIn(
            (AGENT, network.REALTIME_ADDRESS), self.connected(new)
        )
        self.restart_agent()
        self.lands("rt-1 of the new user, too")
        # One host is forgotten: the list has it.
        forgotten = {(AGENT, network.CONTROLLER_ADDRESS)}
        self.assertEqual(forgotten, self.connected(old))
        log = self.log(f"{AGENT}.log")
        self.rabbitmqctl(*deleted)
        self.wait_said(log, "publisher: ", REFUSED, timeout=KNOWN_SECONDS)
        self.assertEqual(set(), self.connected(old))
        self.lands("the old user deleted")
        self.write_url(STD, new, password)
        self.restart_agent(STD)
        self.assertIn((AGENT, network.CONTROLLER_ADDRESS), self.connected(new))
        self.assert_guest_runs()

    def reload_scheduler(self) -> None:
        """Send SIGHUP to nova-scheduler, which starts its workers anew.

        They are children of the process that has read the old file.
        """
        log = self.log(SCHEDULER_LOG)
        record = Record.load(self.cloud.place.run / f"{SCHEDULER}.json")
        record.identity.signal(signal.SIGHUP)
        for words in (IGNORED, "Starting scheduler node"):
            self.wait_said(log, words, timeout=KNOWN_SECONDS)

    def test_rabbitmq_changed_in_place(self) -> None:
        """What the page warns of: nothing fails, until it does."""
        user = self.own_user()
        log = self.log(RT_AGENT_LOG)
        self.rabbitmqctl("change_password", user, "CHANGED")
        # A worker of nova-scheduler that has had no request cannot connect.
        self.lands("the password changed in place")
        self.assertEqual([], log.lines(REFUSED))
        self.rabbitmqctl("close_all_user_connections", user, "as a restart")
        self.wait_said(log, "publisher: ", REFUSED, timeout=KNOWN_SECONDS)
        time.sleep(STALE_SECONDS)
        self.assert_no_host(self.realtime, r"facts_(stale|missing) × 2")
        self.assert_guest_runs()
        # Agents and schedulers come again by themselves.
        self.rabbitmqctl("change_password", user, "OLD")
        self.lands("the password is the old one again")

    def restart_scheduler(self) -> None:
        """Restart it, and wait until it listens.

        Nova deletes no server while no scheduler does: it tells them so by
        an exchange that goes with the last of them.
        """
        self.cloud.services.restart(SCHEDULER)
        self.wait_for(
            f"{SCHEDULER} listens",
            lambda: (
                "scheduler_fanout"
                in self.rabbitmqctl("list_exchanges", "name").split()
            ),
            timeout=START_SECONDS,
        )

    def delete_user(self, user: str) -> None:
        """Delete a user, if it is there."""
        if any(
            line.split("\t")[0] == user
            for line in self.rabbitmqctl("list_users").splitlines()
        ):
            self.rabbitmqctl("delete_user", user)

    def test_keystone(self) -> None:
        made, role, disabled = (
            next(
                each
                for each in commands("openstack")
                if verb == tuple(each[:2])
            )
            for verb in (("user", "create"), ("role", "add"), ("user", "set"))
        )
        new, old = made[-1], disabled[-1]
        identity = self.cloud.api.identity
        self.keep(RT)
        self.addCleanup(self.cloud.run, "openstack", "user", "delete", new)
        self.addCleanup(
            identity.update_user, identity.find_user(old).id, is_enabled=True
        )
        self.change_password_in_place(old)
        # As the page has it.
        self.cloud.run("openstack", *made)
        self.cloud.run("openstack", *role)
        before = self.cloud.traits(RT)
        password = made[made.index("--password") + 1]
        text = self.files[RT].read_text()
        text = re.sub(r"(?m)^username = .*$", f"username = {new}", text)
        text = re.sub(r"(?m)^password = .*$", f"password = {password}", text)
        self.files[RT].write_text(text)
        self.reload_agent()
        self.restart_agent()
        self.wait_traits(TRAITS)
        self.assertEqual(before, self.cloud.traits(RT))
        self.cloud.run("openstack", *disabled)
        # Placement takes a token for five minutes that Keystone has revoked.
        self.cloud.services.restart("placement")
        log = self.log(RT_AGENT_LOG)
        self.degrade_and_heal()
        self.assertEqual([], log.lines(UNAUTHORIZED))
        self.lands("the old user disabled")
        self.assert_guest_runs()

    def change_password_in_place(self, user: str) -> None:
        """See what the page warns of: traits stay as they are."""
        identity = self.cloud.api.identity
        # By its id: of a user that it has read the SDK sends what differs.
        found = identity.find_user(user).id
        text = self.files[RT].read_text()
        (password,) = re.findall(r"(?m)^password = (.*)$", text)
        change = functools.partial(identity.update_user, found)
        self.addCleanup(change, password=password)
        change(password="CHANGED")
        self.cloud.services.restart("placement")
        log = self.log(RT_AGENT_LOG)
        self.addCleanup(self.throttle, throttled=False)
        self.throttle(throttled=True)
        self.wait_said(log, UNAUTHORIZED, timeout=KNOWN_SECONDS)
        self.assertIn(REALTIME_TRAIT, self.traits())
        # But schedulers know: by the message queue.
        self.assert_no_host(self.realtime, "rt_throttled × 2")
        self.assertEqual(1, len(log.lines(UNAUTHORIZED)), log.text)
        self.throttle(throttled=False)
        change(password=password)
        self.wait_said(log, "traits: succeeded", timeout=KNOWN_SECONDS)
        self.wait_traits(TRAITS)
        self.lands("the password is the old one again")

    def degrade_and_heal(self) -> None:
        """See that traits follow the host."""
        self.throttle(throttled=True)
        self.wait_traits(TRAITS - {REALTIME_TRAIT})
        self.throttle(throttled=False)
        self.wait_traits(TRAITS)


@periodic
class TestReplacement(DayTwoTestCase):
    """rt-1 is drained, dies, and comes again without what it had kept."""

    def sriov_rt(self, *arguments: str) -> str:
        """Return what our command prints on rt-1, which exits with 0."""
        program = str(self.cloud.env.program("sriov-rt"))
        return self.cloud.host(RT).run(program, *arguments, timeout=300)

    def compute_services(self, host: str) -> list[Any]:
        """Return the compute services that Nova has of a host."""
        listed = self.cloud.api.compute.services(host=host, binary=COMPUTE)
        return list(listed)

    def providers(self, name: str) -> list[str]:
        """Return the ids of the providers of a name."""
        listed = self.cloud.api.placement.resource_providers(name=name)
        return [each.id for each in listed]

    def delete_service(self, host: str) -> None:
        """Delete a compute service, and with it the provider."""
        for each in self.compute_services(host):
            self.cloud.api.compute.delete_service(each)

    def start_host(self, name: str) -> None:
        """Start what runs on rt-1 under a name, and wait until it serves."""
        log = self.log(RT_AGENT_LOG)
        began = time.monotonic()
        for service in (AGENT, COMPUTE):
            self.cloud.services.start(service, RT)
        self.wait_said(log, "facts changed: ", timeout=START_SECONDS)
        self.wait_for(
            f"{name} has traits",
            lambda: (
                name in self.cloud.hypervisors()
                and self.providers(name)
                and REALTIME_TRAIT in self.cloud.traits(name)
            ),
            timeout=START_SECONDS,
        )
        say(f"{name} serves after {time.monotonic() - began:.0f} s")

    def stop_host(self) -> None:
        """Stop them."""
        for service in (COMPUTE, AGENT):
            self.cloud.services.stop(service, RT)

    def call(self, name: str) -> None:
        """Give the stopped host a name."""
        self.cloud.host(RT).run("hostname", name)
        etc = self.cloud.place.etc / RT
        for file in (etc / "nova.conf", etc / "sriov_rt" / "sriov-rt.conf"):
            text = file.read_text()
            file.write_text(
                re.sub(r"(?m)^(host|node) = .*$", rf"\1 = {name}", text)
            )

    def back(self) -> None:
        """Let rt-1 be as before, unless it is."""
        services = [f"{each} on {RT}" for each in (AGENT, COMPUTE)]
        if self.providers(RT) and not set(services) & set(self.ended()):
            return
        self.stop_host()
        for name in (_OTHER, RT):
            self.delete_service(name)
        self.cloud.host(RT).run("rm", "-f", _COMPUTE_ID)
        self.call(RT)
        self.start_host(RT)

    def test_with_its_identity(self) -> None:
        """It is drained and dies, its disks with it; Nova knows it still."""
        self.drain()
        host = self.cloud.host(RT)
        (before,) = self.providers(RT)
        for service in (COMPUTE, AGENT):
            self.cloud.services.kill(service, RT)
        self.addCleanup(self.back)
        host.run("cp", "-a", _KEPT, _BACKUP)
        self.addCleanup(host.run, "rm", "-rf", _BACKUP)
        host.run("rm", "-r", _KEPT, _COMPUTE_ID)
        self.assertIn("CUSTOM_SRIOV_RT_PREEMPT_RT", self.cloud.traits(RT))
        self.refuses_to_start()
        host.run("sh", "-c", f"echo {before} > {_COMPUTE_ID}")
        self.start_host(RT)
        self.assertEqual([before], self.providers(RT))
        # The hold went with the disks, and Nova's own is Nova's.
        (service,) = self.compute_services(RT)
        self.assertEqual("disabled", service.status)
        self.assertEqual("ERROR", self.boot(self.realtime).status)
        self.cloud.api.compute.enable_service(service)
        self.lands("the provider is the one of before")
        # What is restored on the same machine counts again.
        host.run("cp", "-aT", _BACKUP, _KEPT)
        self.wait_traits(TRAITS - {REALTIME_TRAIT})
        self.assert_no_host(self.realtime, "host_on_hold × 1")
        self.sriov_rt("host", "release")
        self.wait_traits(TRAITS)

    def test_as_a_new_host(self) -> None:
        """With another name, and then with its own."""
        host = self.cloud.host(RT)
        (before,) = self.providers(RT)
        self.addCleanup(self.back)
        for name, old in ((_OTHER, RT), (RT, _OTHER)):
            self.cloud.services.kill(AGENT, RT)
            self.cloud.services.stop(COMPUTE, RT)
            # The provider goes, and with it what a killed agent has left.
            self.delete_service(old)
            self.assertEqual([], self.providers(old))
            host.run("rm", "-f", _COMPUTE_ID)
            self.call(name)
            self.start_host(name)
            self.lands(f"as {name}, a new host", name)
        self.assertNotEqual([before], self.providers(RT))

    def refuses_to_start(self) -> None:
        """See what Nova says of a host that has lost who it is."""
        log = self.log(RT_COMPUTE_LOG)
        self.cloud.services.start(COMPUTE, RT)
        self.wait_said(
            log, "No local node identity found", timeout=START_SECONDS
        )
        # With threads of the kernel's its process stays, and serves nothing.
        self.cloud.services.stop(COMPUTE, RT)

    def drain(self) -> None:
        """Drain it as the page has it; no server is there."""
        hold, *others = (
            each
            for each in commands("sriov-rt")
            if each[:2] == ["host", "hold"] or each[0] == "vif"
        )
        self.addCleanup(self.sriov_rt, "host", "release")
        self.sriov_rt(*hold)
        (service,) = self.compute_services(RT)
        compute = self.cloud.api.compute
        self.wait_traits(TRAITS - {REALTIME_TRAIT})
        self.assert_no_host(self.realtime, "host_on_hold × 1")
        self.addCleanup(compute.enable_service, service)
        compute.disable_service(service, disabled_reason="disk")
        for each in others:
            say(f"{' '.join(each)}: {self.sriov_rt(*each)!r}")
