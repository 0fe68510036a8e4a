# SPDX-License-Identifier: Apache-2.0

"""What the tests of the cloud have in common."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from tests import again
from tests.cloud.logs import Log
from tests.cloud.logs import NotingResult
from tests.testbed import api
from tests.testbed import errors
from tests.testbed import ini
from tests.testbed import programs
from tests.testbed import seed
from tests.testbed import settings
from tests.testbed import tempest_config
from tests.testbed import tempest_run
from tests.testbed.cloud import Cloud
from tests.testbed.servers import BOOT_SECONDS
from tests.testbed.servers import Server
from tests.testbed.services import RT
from tests.testbed.waiting import wait_for

AGENT = "sriov-rt-agent"

SCHEDULER_LOG = "nova-scheduler.log"
RT_AGENT_LOG = f"{RT}/{AGENT}.log"
RT_COMPUTE_LOG = f"{RT}/nova-compute.log"
#: What a failure shows the ends of, below the log directory.
LOGS = (
    SCHEDULER_LOG,
    "nova-compute.log",
    f"{AGENT}.log",
    RT_COMPUTE_LOG,
    RT_AGENT_LOG,
)
#: Lines of each that it shows.
LOG_LINES = 25

#: Seconds in which libvirt and the kernel put a guest's things away after
#: Nova has said that it is gone; or Nova's reaper finds what nobody told it
#: of (nova_config), of which there can be more than one.
LEFTOVER_SECONDS = 180.0

#: What nova-compute says in its log once it does its work.
COMPUTE_WORKS = "Looking for unclaimed instances"

REALTIME_TRAIT = "CUSTOM_SRIOV_RT_REALTIME"

#: Nova's fault of a server for which the scheduler found no host.
NO_VALID_HOST = "No valid host was found"

#: It asks nothing of Nova: only our filter keeps it off a host.
KERNEL = {"sriov_rt:kernel": "preempt_rt"}
#: No host of the cloud has such a card.
NOWHERE = {"sriov_rt:nic": "solarflare"}
#: A realtime guest; Nova itself wants dedicated CPUs for it.
REALTIME = {
    "hw:cpu_policy": "dedicated",
    "hw:cpu_realtime": "yes",
    "hw:emulator_threads_policy": "share",
    "hw:mem_page_size": "2MB",
    "sriov_rt:realtime": "required",
    "sriov_rt:guest": "lean",
}


def say(text: str) -> None:
    """Tell whoever watches; standard output belongs to the test runner."""
    print(f"cloud: {text}", file=sys.stderr, flush=True)


class CloudTestCase(unittest.TestCase):
    """A test in a cloud that is up; it leaves the cloud as it was."""

    maxDiff = None
    cloud: ClassVar[Cloud]

    @classmethod
    def setUpClass(cls) -> None:
        """Find the cloud.

        :raises errors.TestbedError: when we aren't inside one.
        """
        super().setUpClass()
        cls.cloud = Cloud()

    #: What a failure shows the ends of, below the log directory.
    logs: ClassVar[tuple[str, ...]] = LOGS

    #: Why no more tests can be run in this cloud.
    _hangs: ClassVar[str] = ""

    def setUp(self) -> None:
        """Remember where the logs end, and see that all services run."""
        super().setUp()
        if self._hangs:
            self.skipTest(self._hangs)
        self._logs = [self.log(name) for name in self.logs]
        self.assertEqual([], self.ended(), "services have ended")

    def run(self, result: Any = None) -> Any:
        """Run the test; what fails gets the ends of the logs as a note."""
        if result is None:
            result = self.defaultTestResult()
        began = time.monotonic()
        noting: Any = NotingResult(result, self._ends_of_logs, self._why_again)
        super().run(noting)
        say(f"{self.id()}: {time.monotonic() - began:.1f} s")
        return result

    @property
    def name(self) -> str:
        """The name of the test method."""
        return self.id().rpartition(".")[2]

    def log(self, name: str) -> Log:
        """Return what a log will hold from now on.

        :param name: of LOGS.
        """
        return Log.from_now(self.cloud.place.log / name)

    def ended(self) -> list[str]:
        """Return the services that do not run."""
        return [
            f"{name} on {host}"
            for host, services in self.cloud.services.status().items()
            for name, runs in services.items()
            if not runs
        ]

    def wait_compute(self, log: Log, timeout: float) -> None:
        """Wait until the realtime host's nova-compute is up, and seen so.

        What is deleted on a host that is not seen up has to wait for Nova to
        look for what is left of it.

        :param log: of nova-compute, from before its start.
        :param timeout: seconds to wait.
        """
        self.wait_for(
            f"nova-compute on {RT} is up, and seen so",
            lambda: (
                log.lines(COMPUTE_WORKS) and RT in self.cloud.hypervisors()
            ),
            timeout=timeout,
        )

    def wait_realtime(self, timeout: float) -> None:
        """Wait until the agent reports that the realtime host is one.

        :param timeout: seconds to wait.
        """
        self.wait_for(
            f"{RT} has {REALTIME_TRAIT}",
            lambda: REALTIME_TRAIT in self.cloud.traits(RT),
            timeout=timeout,
        )

    def command(
        self, *command: str, timeout: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program of the environment as the administrator.

        :param command: as in ("openstack", "flavor", "list").
        :param timeout: seconds it may take.
        :returns: with its exit code, its output and its complaints apart.
        """
        place, env = self.cloud.place, self.cloud.env
        return subprocess.run(
            ("env", *command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            text=True,
            timeout=timeout,
            check=False,
            env={
                **programs.environment(place, env),
                **settings.client_environment(),
            },
        )

    def reconfigure(
        self,
        file: pathlib.Path,
        change: Callable[[str], str],
        restart: Callable[[], None],
    ) -> None:
        """Change a configuration file for this test.

        :param file: the file.
        :param change: gives its new text.
        :param restart: starts those anew who have read it.
        """
        before = file.read_text()
        self.addCleanup(restart)
        self.addCleanup(file.write_text, before)
        file.write_text(change(before))
        restart()

    def tempest(
        self, regex: str, changes: Mapping[str, ini.Section]
    ) -> dict[str, str]:
        """Run tests of Tempest; return what each has found.

        :param regex: names them.
        :param changes: options that differ, as tempest_config has them.
        """
        log = self.cloud.place.log / f"tempest-{self.name}.log"
        config = tempest_config.write(self.cloud, changes)
        with log.open("w") as sink:
            chosen = ("--regex", regex)
            found = tempest_run.run(self.cloud, config, *chosen, sink=sink)
        say(f"see {log}: {found.tests}")
        return found.tests

    @classmethod
    def upload(
        cls,
        build: Callable[[pathlib.Path], None],
        properties: dict[str, str] | None = None,
    ) -> str:
        """Make an image and upload it; it goes with the class.

        :param build: of container_image.
        :param properties: of the image in Glance.
        :returns: its name.
        """
        api, name = cls.cloud.api, f"container-{uuid.uuid4().hex[:8]}"
        with tempfile.TemporaryDirectory() as scratch:
            file = pathlib.Path(scratch) / "image.raw"
            build(file)
            made = seed.raw_image(api, name, file, properties or {})
        cls.addClassCleanup(api.image.delete_image, made)
        return name

    def flavor(self, specs: Mapping[str, str], **size: int) -> str:
        """Make a flavor that is deleted after the test.

        :param specs: its extra specs.
        :param size: ram in MiB, vcpus.
        :returns: its name.
        """
        name = f"{self.name}-{time.monotonic_ns()}"
        made = self.cloud.create_flavor(name, dict(specs), **size)
        self.addCleanup(self.cloud.api.compute.delete_flavor, made)
        return name

    def boot(
        self, flavor: str, *, timeout: float = BOOT_SECONDS, **options: Any
    ) -> Server:
        """Boot a server that is deleted after the test.

        :param flavor: the name of its flavor.
        :param timeout: seconds to wait.
        :param options: of Servers.create.
        :returns: the server, ACTIVE or in ERROR.
        """
        servers = self.cloud.servers
        server = servers.create(self.name, flavor, **options)
        self.addCleanup(self.delete, server)
        return servers.wait(server, timeout=timeout)

    def boot_on(self, host: str, flavor: str, **options: Any) -> Server:
        """Boot a server and see that it is ACTIVE on a host.

        :param host: STD, RT, RT2 or LXC.
        :param flavor: the name of its flavor.
        :param options: of Servers.create.
        """
        server = self.boot(flavor, **options)
        self.assertEqual(
            ("ACTIVE", host), (server.status, server.host), server.fault
        )
        return server

    def delete(self, server: str) -> None:
        """Delete a server, if it is there still, and wait until it's gone.

        :param server: its id.
        """
        self.cloud.servers.delete(server)

    def assert_nothing_left(self, host: str = RT) -> None:
        """Wait until nothing is on a host because of servers.

        :param host: STD, RT, RT2 or LXC.
        """
        left: list[str] = []

        def clean() -> bool:
            left[:] = self.cloud.host(host).leftovers()
            return not left

        try:
            self.wait_for(f"{host} is empty", clean, timeout=LEFTOVER_SECONDS)
        except errors.TimedOut:
            self.fail(f"left on {host}: {', '.join(left)}")

    def assert_no_host(self, flavor: str, *reasons: str) -> None:
        """Check that the scheduler finds no host, and says why.

        :param flavor: the name of a flavor.
        :param reasons: patterns such as "rt_throttled × 1"; the one line
            about it in nova-scheduler's log has them.
        """
        log = self.log(SCHEDULER_LOG)
        server = self.boot(flavor)
        self.assertEqual("ERROR", server.status, f"on {server.host}")
        self.assertIn(NO_VALID_HOST, server.fault)
        self.delete(server.id)
        lines = log.lines("No host satisfies", flavor, server.id)
        self.assertEqual(1, len(lines), log.text)
        for reason in reasons:
            self.assertRegex(lines[0], reason)

    def wait_for(
        self, what: str, probe: Callable[[], object], *, timeout: float
    ) -> float:
        """Wait until a function returns something true.

        :param what: what is waited for.
        :param probe: the function.
        :param timeout: seconds to wait at most.
        :returns: seconds waited.
        """
        began = time.monotonic()
        wait_for(
            what,
            probe,
            timeout=timeout,
            interval=0.5,
            unanswered=(OSError, api.UNANSWERED),
        )
        return time.monotonic() - began

    def _why_again(self) -> str:
        """Return why a test that failed is run again in a new cloud."""
        if os.environ.get(again.VARIABLE):
            try:
                self.cloud.check()
            except errors.MachineHangs as error:
                CloudTestCase._hangs = f"{error}; {again.REPEATED}"
            except errors.TestbedError as error:
                say(str(error))
        return self._hangs

    def _ends_of_logs(self) -> str:
        return "\n".join(log.end(LOG_LINES) for log in self._logs)
