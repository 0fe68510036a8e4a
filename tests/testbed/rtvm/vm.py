# SPDX-License-Identifier: Apache-2.0

"""A virtual compute host: start it, run commands in it, stop it."""

import pathlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import errors
from tests.testbed.paths import Paths
from tests.testbed.rtvm import assets
from tests.testbed.rtvm import commands
from tests.testbed.rtvm.channel import Channel
from tests.testbed.rtvm.machine import Machine
from tests.testbed.rtvm.processes import Processes
from tests.testbed.rtvm.processes import Pulse
from tests.testbed.rtvm.results import Job
from tests.testbed.rtvm.results import Result
from tests.testbed.waiting import wait_for

#: Seconds from start to ready: 40 on an idle machine of two cores, 180
#: on one with seven processes for each core.
READY_SECONDS = 600.0

#: How often a machine whose kernel hangs is started again.
RESTARTS = 2


class RtVm:
    """One virtual compute host and its processes.

    Everything under the state directory is the same inside and outside,
    readable and writable. The rest of the outer machine's files can be
    read inside; what is written there stays in the machine's memory.

    :param paths: the harness's directories.
    :param machine: what the host is.
    """

    def __init__(self, paths: Paths, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self._paths = paths
        self._files = commands.Files(paths.state / "vm" / self.machine.name)
        self._processes = Processes(paths, self.machine, self._files)
        self._channel = Channel(self._files, self._processes)

    @staticmethod
    def packages() -> tuple[str, ...]:
        """Return the Debian packages that have to be installed."""
        return assets.PACKAGES

    def prepare(self) -> assets.Assets:
        """Put into the cache what the machine is started with.

        :raises errors.TestbedError: when it can't be had.
        """
        return assets.prepare(
            self._paths.cache,
            self.machine.kernel,
            backport=self.machine.backport,
        )

    @property
    def console(self) -> pathlib.Path:
        """The file with what the kernel and the start scripts print."""
        return self._files.console

    @property
    def running(self) -> bool:
        """Whether QEMU runs."""
        return self._processes.running

    def start(self) -> None:
        """Start the machine, and return while it boots.

        :raises errors.TestbedError: when it runs already, or QEMU ends at
            once.
        """
        if self.running:
            raise errors.TestbedError(
                f"{self.machine.name} runs already; stop it first"
            )
        self._processes.start(self.prepare())

    def wait_ready(
        self,
        progress: Callable[[str], None] | None = None,
        timeout: float = READY_SECONDS,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        """Wait until the VFs are there and libvirtd answers.

        :param progress: called with a line for each stage that is done.
        :param timeout: seconds to wait at most after a start.
        :param warn: called with a line when it is started again; progress by
            default.
        :raises errors.ProcessDied: when the machine stopped.
        :raises errors.MachineHangs: when it hangs each time.
        :raises errors.TestbedError: when a start script failed.
        :raises errors.TimedOut: when it takes longer.
        """
        say = progress or (lambda text: None)
        name = self.machine.name
        for _ in range(RESTARTS):
            try:
                self._boot(say, timeout)
            except errors.MachineHangs as error:
                why = str(error)
            except errors.ProcessDied:
                why = f"{name} has ended"
            else:
                return
            (warn or say)(f"{why}; it is started again")
            self.stop()
            self.start()
        self._boot(say, timeout)

    def _boot(self, say: Callable[[str], None], timeout: float) -> None:
        """Wait until the machine is ready.

        QEMU 10.0 can lose the timer of a CPU here, and nothing on that CPU
        goes on: 1 of 12 boots before the kernel was told the frequency of
        its counter (tsc.py), and seldom since. Or it ends itself, as its
        CPUs race with a change of the memory map (1 of 12).
        """
        name = self.machine.name
        seen = 0
        pulse: Pulse | None = None

        def ready() -> bool:
            nonlocal seen, pulse
            pulse = pulse or Pulse(self._processes, new=True)
            lines = self._processes.stages
            for line in lines[seen:]:
                pulse.restart()
                uptime, _, stage = line.partition(" ")
                if stage.startswith("failed"):
                    raise errors.TestbedError(
                        f"{name} {stage}\n{errors.tail(self.console)}"
                    )
                say(f"{name} at {uptime} s: {stage}")
            seen = len(lines)
            if lines and lines[-1].endswith(" ready"):
                return True
            if not self.running:
                raise errors.ProcessDied(name, self.console)
            if why := pulse.complaint or pulse.silence:
                raise errors.MachineHangs(name, why)
            return False

        wait_for(f"{name} is ready", ready, timeout=timeout)

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float = 60.0,
        check: bool = True,
        environment: Mapping[str, str] | None = None,
        directory: str = "/",
        stdin: bytes = b"",
    ) -> Result:
        """Run a command in the machine to its end.

        :param command: program and arguments.
        :param timeout: seconds it may take; it is killed then.
        :param check: whether an exit status other than 0 is an error.
        :param environment: variables to set.
        :param directory: where it runs.
        :param stdin: what it reads.
        :raises errors.CommandFailed: when check is set and it failed.
        :raises errors.TimedOut: when it took too long.
        :raises errors.MachineHangs: when the machine has no timer any more.
        """
        result = self._channel.run(
            command,
            timeout=timeout,
            environment=environment or {},
            directory=directory,
            stdin=stdin,
        )
        if check and result.status != 0:
            output = (result.text + result.complaint)[-4000:]
            raise errors.CommandFailed(tuple(command), result.status, output)
        return result

    def spawn(
        self,
        command: Sequence[str],
        *,
        log: pathlib.Path,
        environment: Mapping[str, str] | None = None,
        directory: str = "/",
    ) -> Job:
        """Start a command in the machine and leave it running.

        :param command: program and arguments.
        :param log: takes its output; put it under the state directory to
            see it outside.
        :param environment: variables to set.
        :param directory: where it runs.
        """
        return self._channel.spawn(
            command,
            log=log,
            environment=environment or {},
            directory=directory,
        )

    def status(self, job: Job) -> int | None:
        """Return the exit status of a job, or None while it runs.

        :param job: what spawn() returned.
        """
        return self._channel.status(job)

    def kill(self, job: Job, grace: float = 10.0) -> None:
        """End a job and its session.

        :param job: what spawn() returned.
        :param grace: seconds between SIGTERM and SIGKILL.
        """
        self._channel.kill(job, grace)

    def check(self) -> None:
        """See that the machine answers.

        :raises errors.ProcessDied: when it has ended.
        :raises errors.MachineHangs: when it does not, and QEMU does nothing.
        :raises errors.TimedOut: when it does not, and QEMU is busy.
        """
        self._channel.check()

    def push(self, content: bytes, target: str) -> None:
        """Write a file in the machine, and the directories to it.

        :param content: what it holds.
        :param target: its path.
        """
        parent = str(pathlib.PurePosixPath(target).parent)
        self.run(["mkdir", "-p", parent])
        self.run(["dd", f"of={target}", "status=none"], stdin=content)

    def read_file(self, path: str) -> str:
        """Return the content of a text file in the machine.

        :param path: the file.
        :raises errors.CommandFailed: when it can't be read.
        """
        return self.run(["cat", "--", path]).text

    def stop(self) -> None:
        """End the machine and its helpers; do nothing if none runs.

        The machine has nothing to save, so nothing inside is asked.

        :raises errors.TimedOut: when a process can't be ended.
        """
        self._processes.stop()
