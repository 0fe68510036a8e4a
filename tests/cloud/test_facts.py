# SPDX-License-Identifier: Apache-2.0

"""What the schedulers know of a host when its agent or a service ends."""

import base64
import concurrent.futures
import configparser
import functools
import os
import threading
import time

from tests.cloud.base import AGENT
from tests.cloud.base import KERNEL
from tests.cloud.base import NO_VALID_HOST
from tests.cloud.base import NOWHERE
from tests.cloud.base import REALTIME
from tests.cloud.base import REALTIME_TRAIT
from tests.cloud.base import RT_AGENT_LOG
from tests.cloud.base import RT_COMPUTE_LOG
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.cloud.scheduler import warm_up
from tests.periodic import periodic
from tests.testbed import api
from tests.testbed import errors
from tests.testbed import network
from tests.testbed.realtime_host import COMPUTE
from tests.testbed.seed import ORDINARY_FLAVOR
from tests.testbed.services import RT

TRAITS = {REALTIME_TRAIT, "CUSTOM_SRIOV_RT_PREEMPT_RT"}
THROTTLE = "kernel.sched_rt_runtime_us"
#: Of the realtime host, and of the other one's kernel, which is as Linux is.
THROTTLED = "rt_throttled × 2"

#: Where Keystone tells what a token is worth.
TOKENS = "/v3/auth/tokens"

#: Seconds that a service in rt-1, whose CPUs are emulated, needs from its
#: start until it does its work.
START_SECONDS = 540.0
#: Seconds from a change to Placement's knowing it: the agent's interval, and
#: the longest delay before it asks again after an outage.
TRAIT_SECONDS = 240.0
#: Seconds after RabbitMQ's return in which all of the cloud is itself again.
RECOVERY_SECONDS = 480.0
#: Seconds after which a request that was lost with RabbitMQ is made anew.
LOST_SECONDS = 20.0


class FactsTestCase(CloudTestCase):
    """A test that lets the realtime host degrade, and heals it again."""

    def setUp(self) -> None:
        """See that the host has its traits."""
        super().setUp()
        self.wait_traits(TRAITS)

    def wait_traits(self, wanted: set[str]) -> float:
        """Wait until the realtime host has some traits of ours, no others.

        :param wanted: the traits.
        :returns: seconds waited.
        """
        return self.wait_for(
            f"the traits of {RT} are {', '.join(sorted(wanted)) or 'none'}",
            lambda: self.traits() == wanted,
            timeout=TRAIT_SECONDS,
        )

    def traits(self) -> set[str]:
        """Return those of our traits that the realtime host has."""
        found = self.cloud.traits(RT)
        return {each for each in found if each.startswith("CUSTOM_SRIOV_RT_")}

    def throttle(self, *, throttled: bool) -> None:
        """Let the realtime host's kernel throttle realtime tasks, or not.

        :param throttled: whether it shall.
        """
        value = 950000 if throttled else -1
        self.cloud.host(RT).run("sysctl", "-w", f"{THROTTLE}={value}")

    def start_agent(self) -> None:
        """Start the realtime host's agent if it doesn't run, and wait."""
        if f"{AGENT} on {RT}" not in self.ended():
            return
        log = self.log(RT_AGENT_LOG)
        self.cloud.services.start(AGENT, RT)
        self.wait_for(
            f"{AGENT} on {RT} observes",
            lambda: log.lines("facts changed: "),
            timeout=START_SECONDS,
        )


@periodic
class TestAgent(FactsTestCase):
    """The realtime host's agent is killed, or stopped."""

    def test_killed_its_facts_go_stale(self) -> None:
        flavor = self.flavor(KERNEL)
        config = configparser.ConfigParser(strict=False)
        config.read(self.cloud.place.etc / "nova" / "nova.conf")
        age = config.getfloat("sriov_rt", "facts_max_age")
        # A worker that never heard of the host would find its facts missing.
        nowhere = self.flavor(NOWHERE)
        warm_up(self, lambda: self.assert_no_host(nowhere, "nic_missing × 2"))
        began = time.monotonic()
        self.cloud.services.kill(AGENT, RT)
        self.addCleanup(self.start_agent)
        # The last report may have come at the moment of the kill.
        time.sleep(age + 1)
        self.assert_no_host(flavor, "facts_stale × 1", "kernel_not_rt × 1")
        say(f"refused {time.monotonic() - began:.1f} s after the kill")
        # Killed, it could not withdraw them; that is what facts are for.
        self.assertEqual(TRAITS, self.traits())
        self.start_agent()
        self.wait_chosen(flavor)

    def test_stopped_it_says_goodbye(self) -> None:
        flavor = self.flavor(KERNEL)
        log = self.log(RT_AGENT_LOG)
        began = time.monotonic()
        self.cloud.services.stop(AGENT, RT)
        self.addCleanup(self.start_agent)
        self.assertEqual(set(), self.traits())
        say(f"traits withdrawn {time.monotonic() - began:.1f} s after")
        self.assertTrue(log.lines("traits set: ", "removed="), log.text)
        self.assert_no_host(flavor, "facts_missing × 1", "kernel_not_rt × 1")
        say(f"refused {time.monotonic() - began:.1f} s after the stop")
        self.start_agent()
        self.wait_traits(TRAITS)
        self.wait_chosen(flavor)

    def wait_chosen(self, flavor: str) -> None:
        """Wait until servers land on the host: reports take their time.

        :param flavor: the name of a realtime flavor.
        """
        seconds = self.wait_for(
            f"{RT} is chosen again",
            lambda: self.boot(flavor).host == RT,
            timeout=START_SECONDS,
        )
        say(f"a server booted {seconds:.1f} s after the agent observed")


@periodic
class TestOutage(FactsTestCase):
    """A service is down while the realtime host changes."""

    def setUp(self) -> None:
        """Make a realtime flavor."""
        super().setUp()
        self.realtime = self.flavor(REALTIME)

    def test_keystone_and_placement_down(self) -> None:
        log = self.log(RT_AGENT_LOG)
        names = ("keystone", "placement")
        for name in names:
            self.addCleanup(self.cloud.services.start, name)
            self.cloud.services.stop(name)
        self.addCleanup(self.throttle, throttled=False)
        self.throttle(throttled=True)
        self.wait_for(
            "the agent sees it, and can't tell Placement",
            lambda: log.lines("traits: ", "trying again"),
            timeout=TRAIT_SECONDS,
        )
        for name in names:
            self.cloud.services.start(name)
        seconds = self.wait_traits(TRAITS - {REALTIME_TRAIT})
        say(f"trait withdrawn {seconds:.1f} s after Placement is back")
        self.heal()

    def test_every_token_ends(self) -> None:
        connection = self.cloud.api
        token = connection.authorize()
        # Not even those that were issued a second ago are valid any more.
        keys = self.cloud.place.data / "keystone" / "fernet-keys"
        for key in keys.iterdir():
            key.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
        asked = connection.session.get(
            f"{network.url('keystone')}{TOKENS}",
            headers={"X-Auth-Token": token, "X-Subject-Token": token},
            authenticated=False,
            raise_exc=False,
        )
        self.assertEqual(401, asked.status_code)
        self.change_and_heal()

    def test_clock_a_day_off(self) -> None:
        self.addCleanup(lambda: self.set_clock(f"@{time.time():.0f}"))
        self.set_clock("tomorrow")
        self.change_and_heal()
        self.set_clock("2 days ago")
        # The agent goes on. nova-compute's sessions wait until the clock is
        # where it was: doc/source/admin/failures.rst says to restart it.
        log = self.log(RT_COMPUTE_LOG)
        self.cloud.services.restart(COMPUTE, RT)
        self.wait_compute(log, START_SECONDS)
        self.wait_traits(TRAITS)
        self.change_and_heal()

    def set_clock(self, date: str) -> None:
        """Set the realtime host's clock.

        :param date: as date(1) reads it.
        """
        self.cloud.host(RT).run("date", "-s", date)

    def change_and_heal(self) -> None:
        """Let the host degrade, and see that its trait is withdrawn."""
        self.addCleanup(self.throttle, throttled=False)
        self.throttle(throttled=True)
        seconds = self.wait_traits(TRAITS - {REALTIME_TRAIT})
        say(f"trait withdrawn {seconds:.1f} s after the change")
        self.heal()

    def heal(self) -> None:
        """See that the host is refused, heal it, and see that it's chosen."""
        self.assert_no_host(self.realtime, THROTTLED)
        self.throttle(throttled=False)
        seconds = self.wait_traits(TRAITS)
        say(f"trait back {seconds:.1f} s after the remedy")
        began = time.monotonic()
        self.delete(self.boot_on(RT, self.realtime).id)
        say(f"realtime server {time.monotonic() - began:.1f} s after that")

    def test_rabbitmq_restarted_under_load(self) -> None:
        # What is built although it was deleted takes what later tests need.
        self.addCleanup(self.assert_nothing_left)
        self.throttle(throttled=True)
        self.addCleanup(self.throttle, throttled=False)
        self.wait_traits(TRAITS - {REALTIME_TRAIT})
        self.assert_no_host(self.realtime, THROTTLED)
        over = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            load = pool.submit(self.load, over)
            try:
                self.cloud.services.stop("rabbitmq")
                self.addCleanup(self.cloud.services.start, "rabbitmq")
                # A change that nobody can hear of.
                self.throttle(throttled=False)
                self.wait_traits(TRAITS)
                self.cloud.services.start("rabbitmq")
                began = time.monotonic()
                seconds = self.until_booted(began)
            finally:
                over.set()
            say(
                f"{load.result()} ordinary servers booted meanwhile; the "
                f"realtime one {seconds:.1f} s after RabbitMQ is back"
            )
        self.assertEqual([], self.ended(), "services have ended")
        # The scheduler's workers take requests in turn.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for each in [
                pool.submit(self.boot_on, RT, self.realtime) for _ in range(2)
            ]:
                each.result()

    def load(self, over: threading.Event) -> int:
        """Boot ordinary servers one after the other.

        :param over: set when it is enough.
        :returns: how many became ACTIVE.
        """
        booted = 0
        while not over.is_set():
            try:
                server = self.boot(ORDINARY_FLAVOR, timeout=LOST_SECONDS)
            except (errors.TestbedError, *api.ERRORS):
                # RabbitMQ is away: an API that gives up, or a server that
                # nobody builds.
                over.wait(1)
                continue
            booted += server.status == "ACTIVE"
            self.delete(server.id)
            # Its guest would take a CPU that the other host is emulated on.
            over.wait(2)
        return booted

    def until_booted(self, began: float) -> float:
        """Boot realtime servers until one is ACTIVE.

        :param began: monotonic time in seconds at which it began.
        :returns: seconds from then until the scheduler had a host for it.
        """
        servers = self.cloud.servers
        while time.monotonic() - began < RECOVERY_SECONDS:
            try:
                server = servers.create(self.name, self.realtime)
            except (errors.TestbedError, *api.ERRORS) as error:
                say(f"not yet: {error}")
                time.sleep(1)
                continue
            self.addCleanup(self.delete, server)
            try:
                self.wait_for(
                    f"server {server} has a host, or none",
                    functools.partial(self.is_decided, server),
                    timeout=LOST_SECONDS,
                )
            except errors.TimedOut as error:
                say(f"not yet: {error}")
                self.delete(server)
                continue
            seconds = time.monotonic() - began
            done = servers.wait(server)
            if done.status == "ACTIVE":
                self.delete(server)
                return seconds
            self.assertIn(NO_VALID_HOST, done.fault)
            self.delete(server)
        raise AssertionError(
            f"no realtime server within {RECOVERY_SECONDS:.0f} s"
        )

    def is_decided(self, server: str) -> bool:
        """Whether a server is on a host, or failed.

        :param server: its id.
        """
        found = self.cloud.servers.get(server)
        return bool(found.host) or found.status == "ERROR"
