# SPDX-License-Identifier: Apache-2.0

"""A measuring program while it runs: its output, its end, and Ctrl-C."""

import contextlib
import dataclasses
import os
import pathlib
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.verify.errors import RunFailed

#: Seconds between two calls of ``tick``.
TICK_S = 0.5

#: Seconds that a program has to exit after a signal.
GRACE_S = 10.0

#: The longest line and the longest error output that are kept, in bytes.
_MAX_LINE = 4096
_MAX_ERROR = 64 * 1024

_LABEL = re.compile(r"\w+:")


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    :param code: its exit code, negative for a signal.
    :param error: the end of what it wrote to standard error.
    :param interrupted: whether Ctrl-C ended it.
    """

    code: int
    error: str
    interrupted: bool

    def last_line(self) -> str:
        """Return the last line of its errors, or its exit code.

        A line that is only a label, such as oslat's "ERROR:", is skipped.
        """
        lines = [each.strip() for each in self.error.splitlines()]
        said = (
            each
            for each in reversed(lines)
            if each and not _LABEL.fullmatch(each)
        )
        return next(said, f"exit code {self.code}")


class Lines:
    """Lines of an output, up to a limit.

    :param limit: the most bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._found: list[bytes] = []

    def feed(self, lines: list[bytes]) -> None:
        """Keep some lines."""
        for line in lines:
            # One line above the limit shows that there were too many.
            if self._size <= self._limit:
                self._found.append(line)
                self._size += len(line) + 1

    def whole(self) -> bytes:
        """Return the output; it is longer than an exceeded limit."""
        return b"\n".join([*self._found, b""])


def spawn(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program in its own session and discard its output."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextlib.contextmanager
def beside(command: Sequence[str]) -> Iterator[Callable[[], bool]]:
    """Run a program meanwhile; end it by SIGTERM.

    :returns: a function that returns whether it still runs.
    """
    with spawn(command) as child:
        try:
            yield lambda: child.poll() is None
        finally:
            child.terminate()


def run(
    command: Sequence[str],
    limit_s: float,
    lines: Callable[[list[bytes]], object] = lambda found: None,
    tick: Callable[[int, float], object] = lambda pid, elapsed: None,
    directory: pathlib.Path | None = None,
    name: str = "",
) -> Ended:
    """Run a program to its end.

    Ctrl-C is passed on to it and its children as SIGINT, as a terminal does,
    so that it writes its results so far.

    :param limit_s: seconds after which it is ended.
    :param lines: is called with new lines of its standard output.
    :param tick: is called with its pid and the seconds that passed.
    :param directory: its working directory; the current one by default.
    :param name: its name in errors; the command's first word by default.
    :raises RunFailed: if it can't be started or does not end in time.
    """
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd=directory,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise RunFailed(
            name or command[0], error.strerror or str(error)
        ) from None
    with child:
        return _Reader(child, name or command[0], lines, tick).until(limit_s)


class _Reader:
    """Reads both outputs of a program and watches the time."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        name: str,
        lines: Callable[[list[bytes]], object],
        tick: Callable[[int, float], object],
    ) -> None:
        self._child = child
        self._name = name
        self._lines = lines
        self._tick = tick
        self._tail = b""
        self._error = b""
        self._interrupted = False

    def until(self, limit_s: float) -> Ended:
        """Read until both outputs are closed."""
        began = time.monotonic()
        deadline = began + limit_s
        with selectors.DefaultSelector() as selector:
            for pipe in (self._child.stdout, self._child.stderr):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                try:
                    for key, _ in selector.select(TICK_S):
                        if not self._read(key.fd):
                            selector.unregister(key.fileobj)
                    self._tick(self._child.pid, time.monotonic() - began)
                except KeyboardInterrupt:
                    self._interrupted = True
                    self._signal(signal.SIGINT)
                    deadline = time.monotonic() + GRACE_S
                if time.monotonic() > deadline:
                    self._end()
                    if self._interrupted:
                        break  # it did not end on Ctrl-C
                    raise RunFailed(
                        self._name, f"still running after {limit_s:.0f} s"
                    )
        return Ended(
            self._child.wait(),
            self._error.decode(errors="replace"),
            self._interrupted,
        )

    def _read(self, descriptor: int) -> bool:
        """Read the available output; return False at the end."""
        data = os.read(descriptor, 1 << 16)
        assert self._child.stdout is not None
        if descriptor != self._child.stdout.fileno():
            self._error = (self._error + data)[-_MAX_ERROR:]
            return bool(data)
        # The last line may lack a newline.
        *whole, tail = (self._tail + (data or b"\n")).split(b"\n")
        self._tail = tail[-_MAX_LINE:]
        if whole:
            self._lines(whole)
        return bool(data)

    def _signal(self, number: int) -> None:
        """Send a signal to the program and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    def _end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            try:
                self._child.wait(GRACE_S)
                return
            except subprocess.TimeoutExpired:
                continue
