# SPDX-License-Identifier: Apache-2.0

"""The outer machine's end of the agent: run commands inside.

Requests go over a virtio-serial port, whose socket takes one client at a
time, so they are short and a lock is held for each. Output and exit status
come back as files, so they can be of any size and outlive a client.
"""

import contextlib
import fcntl
import json
import pathlib
import socket
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import errors
from tests.testbed.rtvm.commands import PORT
from tests.testbed.rtvm.commands import Files
from tests.testbed.rtvm.processes import SILENT_SECONDS
from tests.testbed.rtvm.processes import Processes
from tests.testbed.rtvm.processes import Pulse
from tests.testbed.rtvm.results import Job
from tests.testbed.rtvm.results import Result
from tests.testbed.waiting import wait_for

#: Seconds in which the agent takes a request; it does nothing else, but
#: its CPUs are emulated ones on a busy machine. Longer than it takes to find
#: that the machine hangs.
ANSWER_SECONDS = SILENT_SECONDS + 30.0
#: Seconds between two looks at a result's file.
LOOK_SECONDS = 0.02


class Channel:
    """Talks to the agent of one machine.

    :param files: the machine's files.
    :param processes: which tell whether the machine still runs.
    """

    def __init__(self, files: Files, processes: Processes) -> None:
        self._files = files
        self._processes = processes
        self._pulse: Pulse | None = None

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        environment: Mapping[str, str],
        directory: str,
        stdin: bytes,
    ) -> Result:
        """Run a command to its end.

        :param command: program and arguments.
        :param timeout: seconds it may take; it is killed then.
        :param environment: variables to set beside the agent's own.
        :param directory: where it runs.
        :param stdin: what it reads.
        :raises errors.TimedOut: when it took too long.
        :raises errors.MachineHangs: when the machine has no timer any more.
        :raises errors.TestbedError: when it can't be started, or the
            machine has stopped.
        """
        with tempfile.TemporaryDirectory(dir=self._files.exec) as scratch:
            room = pathlib.Path(scratch)
            (room / "in").write_bytes(stdin)
            number = self._ask(
                verb="start",
                command=list(command),
                stdin=str(room / "in"),
                stdout=str(room / "out"),
                stderr=str(room / "err"),
                directory=directory,
                environment=dict(environment),
                timeout=timeout,
            )
            done = self._await_end(number, command, timeout)
            out, err = (room / "out", room / "err")
            result = Result(
                tuple(command),
                done["status"],
                out.read_bytes(),
                err.read_bytes(),
            )
        if done["late"]:
            seen = (result.text + result.complaint)[-2000:]
            what = f"'{' '.join(command)}' has ended"
            raise errors.TimedOut(what, timeout, seen)
        return result

    def spawn(
        self,
        command: Sequence[str],
        *,
        log: pathlib.Path,
        environment: Mapping[str, str],
        directory: str,
    ) -> Job:
        """Start a command and leave it running.

        :param command: program and arguments.
        :param log: takes its output; seen outside only if it is in the
            state directory.
        :param environment: variables to set beside the agent's own.
        :param directory: where it runs.
        :raises errors.TestbedError: when it can't be started.
        """
        number = self._ask(
            verb="start",
            command=list(command),
            stdin="/dev/null",
            stdout=str(log),
            stderr=str(log),
            directory=directory,
            environment=dict(environment),
            timeout=None,
        )
        started = json.loads(self._file(number, "started").read_text())
        return Job(number, started["pid"])

    def status(self, job: Job) -> int | None:
        """Return the exit status of a job, or None while it runs.

        :param job: what spawn() returned.
        :raises errors.MachineHangs: see check().
        """
        path = self._file(job.number, "done")
        if not path.exists():
            self._pulse = self._pulse or Pulse(self._processes)
            self._listen(self._pulse)
            return None
        return int(json.loads(path.read_text())["status"])

    def kill(self, job: Job, grace: float) -> None:
        """End a job and all that is in its session.

        :param job: what spawn() returned.
        :param grace: seconds between SIGTERM and SIGKILL.
        :raises errors.TimedOut: when it still runs afterwards.
        """
        if self.status(job) is not None:
            return
        number = self._ask(verb="kill", target=job.number, grace=grace)
        self._file(number, "started").unlink()
        wait_for(
            f"process {job.pid} inside has ended",
            lambda: self.status(job) is not None,
            timeout=grace + ANSWER_SECONDS,
        )

    def _ask(self, **request: object) -> str:
        """Send a request, wait until it is taken, return its number."""
        draft = tempfile.mkdtemp(prefix="request-", dir=self._files.exec)
        pathlib.Path(draft).rmdir()
        number = pathlib.Path(draft).name
        line = json.dumps({"number": number, **request})

        def taken() -> bool:
            if any(
                self._file(number, kind).exists()
                for kind in ("started", "done")
            ):
                return True
            self._check_alive(pulse)
            if why := pulse.silence:
                raise errors.MachineHangs(self._name, why)
            return False

        # The newline in front ends what a lost connection left over; the
        # connection is kept, as QEMU drops what it didn't read before.
        with self._connection() as connection:
            pulse = Pulse(self._processes)
            connection.sendall(f"\n{line}\n".encode())
            wait_for(
                "the agent in the machine takes a command",
                taken,
                timeout=ANSWER_SECONDS,
                interval=LOOK_SECONDS,
            )
        done = self._file(number, "done")
        if not self._file(number, "started").exists():
            raise errors.TestbedError(json.loads(done.read_text())["error"])
        return number

    @contextlib.contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        """Connect to the port, alone."""
        with (
            (self._files.directory / "lock").open("w") as lock,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)
            connection.settimeout(ANSWER_SECONDS)
            try:
                connection.connect(str(self._files.socket(PORT)))
            except OSError as error:
                raise errors.TestbedError(
                    f"no machine answers at {self._files.directory}: "
                    f"{error}; start it first"
                ) from error
            yield connection

    def _await_end(
        self, number: str, command: Sequence[str], timeout: float
    ) -> dict[str, int]:
        """Wait for the end of a command, and take its files away."""
        done = self._file(number, "done")
        pulse = Pulse(self._processes)

        def ended() -> bool:
            if done.exists():
                return True
            self._check_alive(pulse)
            self._listen(pulse)
            return False

        wait_for(
            f"'{' '.join(command)}' has ended",
            ended,
            timeout=timeout + ANSWER_SECONDS,
            interval=LOOK_SECONDS,
        )
        content: dict[str, int] = json.loads(done.read_text())
        done.unlink()
        self._file(number, "started").unlink()
        return content

    def check(self) -> None:
        """See that the agent takes a request; see RtVm.check()."""
        number = self._ask(verb="ping")
        self._file(number, "started").unlink()

    def _listen(self, pulse: Pulse) -> None:
        """Check a machine that is idle, or stands still."""
        if pulse.silence:
            self.check()
            pulse.restart()

    def _check_alive(self, pulse: Pulse) -> None:
        if not self._processes.running:
            raise errors.ProcessDied(self._name, self._files.console)
        if why := pulse.complaint:
            raise errors.MachineHangs(self._name, why)

    @property
    def _name(self) -> str:
        return self._files.directory.name

    def _file(self, number: str, kind: str) -> pathlib.Path:
        return self._files.exec / f"{number}.{kind}"
