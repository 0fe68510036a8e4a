# SPDX-License-Identifier: Apache-2.0

"""Bounded waits for conditions and for programs."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import errors

#: Time until the outputs of a killed program end.
_KILLED_SECONDS = 5.0


def wait_for(
    what: str,
    probe: Callable[[], object],
    *,
    timeout: float,
    interval: float = 0.25,
    unanswered: type[Exception] | tuple[type[Exception], ...] = OSError,
) -> None:
    """Call a function until it returns something true.

    :param what: the expected state for the message: a clause after "until",
        as in "rabbitmq listens".
    :param probe: the function.
    :param timeout: seconds to wait at most.
    :param interval: seconds between two calls.
    :param unanswered: exceptions of the function that count as false, since
        nobody listens yet. Other exceptions end the wait.
    :raises errors.TimedOut: when it never does.
    """
    deadline = time.monotonic() + timeout
    while True:
        detail = ""
        try:
            if probe():
                return
        except unanswered as error:
            detail = str(error)
        if time.monotonic() >= deadline:
            raise errors.TimedOut(what, timeout, detail)
        time.sleep(interval)


def run(
    command: Sequence[str],
    *,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
) -> str:
    """Run a program to its end and return its standard output.

    It has no terminal: at one, virsh(1) starts pkttyagent(1), which writes to
    it.

    :param command: program and arguments.
    :param timeout: seconds it may take.
    :param environment: its environment; ours when None.
    :param stdin: what it reads; nothing when None.
    :raises errors.CommandFailed: when it exits with another status than 0.
    :raises errors.TimedOut: when it takes longer; it is killed then.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        output, complaint = child.communicate(stdin or b"", timeout)
    except subprocess.TimeoutExpired as expired:
        output, complaint = _kill(child)
        seen = _end(output, complaint, 2000)
        what = f"'{' '.join(command)}' has ended"
        raise errors.TimedOut(what, timeout, seen) from expired
    except BaseException:
        # Only we get Ctrl-C: the program has another session.
        _kill(child)
        raise
    if child.returncode != 0:
        end = _end(output, complaint, 4000)
        raise errors.CommandFailed(tuple(command), child.returncode, end)
    return output.decode(errors="replace")


def run_logged(
    command: Sequence[str],
    *,
    timeout: float,
    log: pathlib.Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a program to its end, with all its output in a log.

    It stays in our session, so that Ctrl-C ends it, too.

    :param command: program and arguments.
    :param timeout: seconds it may take.
    :param log: file that its output is appended to.
    :param environment: its environment; ours when None.
    :raises errors.CommandFailed: when it exits with another status than 0.
    :raises errors.TimedOut: when it takes longer; it is killed then.
    """
    with log.open("ab") as stream:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            what = f"'{' '.join(command)}' has ended"
            raise errors.TimedOut(what, timeout, errors.tail(log)) from expired
    if done.returncode != 0:
        raise errors.CommandFailed(
            tuple(command), done.returncode, errors.tail(log, 40)
        )


def _kill(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Kill a program and its session; return both outputs."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        return child.communicate(timeout=_KILLED_SECONDS)
    except subprocess.TimeoutExpired:
        # A daemon in another session has them open.
        return b"", b""


def _end(output: bytes, complaint: bytes, length: int) -> str:
    return (output + complaint).decode(errors="replace")[-length:]
