# SPDX-License-Identifier: Apache-2.0

"""Sudden death of a program, as by SIGKILL.

It needs only the standard library, so that it runs in a virtual machine, too.
"""

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from unittest import mock

_WRITES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chown")


class _Fate:
    """Counts what a child process changes.

    :ivar left: changes until its death; None for a program that lives.
    """

    left: int | None = None


def point() -> None:
    """Die at this point, if it is the one."""
    if _Fate.left is not None:
        _Fate.left -= 1
        if _Fate.left < 0:
            os._exit(9)


def is_next() -> bool:
    """Return whether the next point is the one."""
    return _Fate.left == 0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Count several changes as one."""
    left, _Fate.left = _Fate.left, None
    try:
        yield
    finally:
        _Fate.left = left


def _audit(event: str, args: tuple[Any, ...]) -> None:
    flags = args[2] if event == "open" and len(args) > 2 else 0
    is_write = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
    if event in _WRITES or is_write:
        point()


def killed(program: Callable[[], object], at: int) -> bool:
    """Run a program in a child that is killed before its n-th change.

    A write counts as several: before it, in the middle of it and after it.

    :returns: whether it was killed.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 9):
            raise AssertionError(f"the child failed with {code}")
        return code == 9
    code = 1
    try:
        real = os.write

        def write(descriptor: int, data: bytes) -> int:
            if _Fate.left is None:
                return real(descriptor, data)
            point()
            half = len(data) // 2
            done = real(descriptor, data[:half]) if half else 0
            point()
            done += real(descriptor, data[half:])
            point()
            return done

        sys.addaudithook(_audit)
        with mock.patch("os.write", write):
            _Fate.left = at
            program()
            _Fate.left = None
        code = 0
    except BaseException:
        # Print the error here: the parent only gets the exit code.
        traceback.print_exc()
        sys.stderr.flush()
        raise
    finally:
        os._exit(code)
