# SPDX-License-Identifier: Apache-2.0

"""Messages on standard error, and exit codes after a fault."""

import codecs
import contextlib
import errno
import io
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.parse.text import printable

#: Exit code for input or an environment that the command cannot work with.
EXIT_ERROR = 2

#: Exit code after Ctrl-C: 128 plus the number of SIGINT, as in shells.
EXIT_INTERRUPTED = 130

#: Exit code if the reader of a pipe has gone: likewise with SIGPIPE.
EXIT_UNREAD = 141

#: Errors of writing to a full or broken disk, or to a closed file.
_UNWRITABLE = frozenset(
    {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
)

#: Replacements for characters that a locale lacks.
_PLAIN = {"µ": "u", "…": "...", "×": "x", "–": "-"}
_ERRORS = "sriov_rt_plain"


class Interrupt:
    """Lets Ctrl-C end work between two of its steps: a context.

    A second one ends it at once, and so does the first outside of it.

    :ivar is_at_once: whether that was so inside of it.
    """

    def __init__(self) -> None:
        self.is_at_once = False
        self._came = False
        self._before: Any = None

    def came(self) -> bool:
        """Return whether Ctrl-C came."""
        return self._came

    def __enter__(self) -> "Interrupt":
        self._before = signal.getsignal(signal.SIGINT)
        # Who has it ignored, or sees to it, keeps that.
        if self._before is signal.default_int_handler:
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self.is_at_once = isinstance(error, KeyboardInterrupt)
        self._came = self._came or self.is_at_once
        if signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._before)

    def sleep(self, seconds: float) -> None:
        """Sleep until the time is over or Ctrl-C comes."""
        if signal.getsignal(signal.SIGINT) != self._note:
            time.sleep(seconds)
            return
        # A sleep goes on after a signal whose handler returns.
        number = {signal.SIGINT}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, number)
        try:
            if signal.sigtimedwait(number, seconds) is not None:
                self._note(signal.SIGINT, None)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _note(self, _number: int, _frame: object) -> None:
        self._came = True
        signal.signal(signal.SIGINT, self._before)


def say(text: str) -> None:
    """Print lines to standard error, apart from the result."""
    lines = "\n".join(map(printable, exceptions.plain(text).split("\n")))
    print(f"sriov-rt: {lines}", file=sys.stderr, flush=True)


def read_input(what: str, limit: int) -> bytes:
    """Return standard input, at most one byte more than a limit.

    :param what: what is expected, for a user at a terminal.
    :raises ValueError: if standard input is closed.
    """
    if sys.stdin is None:
        raise ValueError(f"standard input is closed; give {what} there")
    if sys.stdin.isatty():
        say(f"reading {what} from the terminal, until Ctrl-D")
    return sys.stdin.buffer.read(limit + 1)


def progress(*, is_quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a command's progress.

    :param is_quiet: whether ``-q`` was given; then, as without a terminal,
        nothing is printed.
    """
    return say if is_watched(is_quiet=is_quiet) else _print_nothing


def is_watched(*, is_quiet: bool) -> bool:
    """Return whether somebody at a terminal sees progress.

    :param is_quiet: whether ``-q`` was given; then nobody does.
    """
    return not is_quiet and sys.stderr.isatty()


def _print_nothing(_text: str) -> None:
    """Print nothing."""


def warn_unless_root(root: str = "/") -> None:
    """Warn that only root may read a host, if another user tries to.

    :param root: the host's root directory; a copy belongs to its maker.
    """
    if root == "/" and os.geteuid() != 0:
        say("run as root: what only root may read is unknown otherwise")


def report(error: BaseException) -> int:
    """Print what went wrong, and return the exit code for it."""
    if isinstance(error, KeyboardInterrupt):
        say("interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of the pipe has seen enough; that is not an error.
        drop_output()
        return EXIT_UNREAD
    if isinstance(error, RecursionError):
        say("error: the input is nested too deep")
    elif isinstance(error, (exceptions.SriovRtError, ValueError)):
        say(f"error: {error}")
    elif not isinstance(error, OSError):
        say(
            f"error: {type(error).__name__}: {error}; 'sriov-rt --debug' "
            "prints the traceback for a bug report"
        )
    elif error.filename is None and error.errno in _UNWRITABLE:
        say(f"error: the output cannot be written: {error.strerror}")
        drop_output()
    else:
        say(f"error: {_os_error(error)}")
    return EXIT_ERROR


def _os_error(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return str(error)
    text = f"{error.filename}: {error.strerror}"
    advice = ""
    if isinstance(error, PermissionError) and os.geteuid():
        advice = "run as root, or as a user who may"
    advice = files.remedy(error, advice)
    return f"{text}; {advice}" if advice else text


def drop_output() -> None:
    """Discard unwritable output so that exit does not fail."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def log_warnings(logger: logging.Logger, level: int = logging.WARNING) -> None:
    """Print log records of a level, instead of what was printed before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler.setLevel(level)
    logger.handlers = [handler]


def print_anything() -> None:
    """Make every character printable, whatever the locale is."""
    codecs.register_error(_ERRORS, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace what cannot be encoded; a handler of :mod:`codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = "".join(
        _PLAIN.get(each) or each.encode("ascii", "backslashreplace").decode()
        for each in text
    )
    return plain, error.end
