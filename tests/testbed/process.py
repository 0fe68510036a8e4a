# SPDX-License-Identifier: Apache-2.0

"""Start processes, identify them later, and stop them with all children."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import time
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed.identity import ProcessId
from tests.testbed.identity import family
from tests.testbed.waiting import wait_for


@dataclasses.dataclass(frozen=True)
class Record:
    """A process with everything needed to start it again.

    :param name: unique in a state directory, as in "nova-api".
    :param identity: the process.
    :param command: program and arguments.
    :param environment: its whole environment.
    :param log: the file that takes its output.
    """

    name: str
    identity: ProcessId
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: pathlib.Path

    def save(self, directory: pathlib.Path) -> None:
        """Write the record to NAME.json.

        :param directory: the run directory of a state directory.
        """
        path = directory / f"{self.name}.json"
        draft = path.with_suffix(".new")
        draft.write_text(
            json.dumps(dataclasses.asdict(self), default=str, indent=1)
        )
        draft.replace(path)

    @classmethod
    def load(cls, path: pathlib.Path) -> "Record":
        """Read a record back.

        :param path: the NAME.json file.
        :raises FileNotFoundError: when nothing of that name was started.
        """
        fields = json.loads(path.read_text())
        return cls(
            name=fields["name"],
            identity=ProcessId(**fields["identity"]),
            command=tuple(fields["command"]),
            environment=fields["environment"],
            log=pathlib.Path(fields["log"]),
        )


def start(
    name: str,
    command: Sequence[str],
    *,
    log: pathlib.Path,
    environment: Mapping[str, str] | None = None,
) -> Record:
    """Start a process in its own session, which outlives ours.

    :param name: what to call it.
    :param command: program and arguments.
    :param log: file that its output is appended to.
    :param environment: its environment; ours when None.
    :raises OSError: when the program can't be started.
    """
    environment = os.environ if environment is None else environment
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise FileNotFoundError(f"no program {command[0]} to start {name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        program,
        list(command),
        environment,
        setsid=True,
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
    )
    return Record(
        name=name,
        identity=ProcessId.of(pid),
        command=tuple(command),
        environment=dict(environment),
        log=log,
    )


def stop(
    identity: ProcessId,
    *,
    grace: float = 10.0,
    first: signal.Signals = signal.SIGTERM,
) -> None:
    """Stop a process and all that it started.

    :param identity: a process that was started by start().
    :param grace: seconds between the first signal and SIGKILL.
    :param first: the signal that is sent first.
    :raises errors.TimedOut: when SIGKILL doesn't end it within 10 s.
    """
    members = family(identity)
    identity.signal(first)
    deadline = time.monotonic() + grace
    while identity.alive and time.monotonic() < deadline:
        _reap(identity.pid)
        time.sleep(0.05)
    remaining = {*members, *family(identity)}
    for member in remaining:
        member.signal(signal.SIGKILL)
    _reap(identity.pid)
    wait_for(
        f"process {identity.pid} and its children end",
        lambda: not any(member.alive for member in remaining),
        timeout=10,
        interval=0.05,
    )
    _reap(identity.pid)


def _reap(pid: int) -> None:
    """Reap a zombie, if it is our child."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
