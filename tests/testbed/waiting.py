# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Wait for things, and for programs, with a bound."""

import pathlib
import subprocess
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import errors


def wait_for(
    what: str,
    probe: Callable[[], object],
    *,
    timeout: float,
    interval: float = 0.25,
    unanswered: type[Exception] | tuple[type[Exception], ...] = OSError,
) -> None:
    """Call a function until it returns something true.

    :param what: what is waited for, for the message.
    :param probe: the function.
    :param timeout: seconds to wait at most.
    :param interval: seconds between two calls.
    :param unanswered: exceptions of the function that count as false: nobody
        listens yet. Another exception ends the wait.
    :raises errors.TimedOut: when it never did.
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
    log: pathlib.Path | None = None,
    stdin: bytes | None = None,
) -> str:
    """Run a program to its end and return what it printed.

    :param command: program and arguments.
    :param timeout: seconds it may take.
    :param environment: its environment; ours when None.
    :param log: file that its output is appended to as well.
    :param stdin: what it reads; nothing when None.
    :raises errors.CommandFailed: when it exits with another status than 0.
    :raises errors.TimedOut: when it takes longer; it is killed then.
    """
    try:
        done = subprocess.run(
            command,
            input=stdin or b"",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        seen = (expired.stdout or b"").decode(errors="replace")
        what = " ".join(command)
        raise errors.TimedOut(what, timeout, seen[-2000:]) from expired
    text = done.stdout.decode(errors="replace")
    if log is not None:
        with log.open("a") as stream:
            stream.write(text)
    if done.returncode != 0:
        end = text[-4000:]
        raise errors.CommandFailed(tuple(command), done.returncode, end)
    return text
