# SPDX-License-Identifier: Apache-2.0

"""A terminal, and a program that runs in it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import paths

#: Makes its standard input its controlling terminal, and becomes the program.
_TAKE = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)


def run(
    command: Sequence[str],
    *,
    columns: int = 80,
    wait_for: str = "",
    keys: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run a program to its end in its own terminal.

    :param command: program and arguments.
    :param columns: width of the terminal.
    :param wait_for: text to wait for before keys are pressed.
    :param keys: keys that are then typed, once.
    :param environment: its environment; ours if None.
    :returns: its exit status, and all output to the terminal.
    """
    control, terminal = pty.openpty()
    size = struct.pack("HHHH", 50, columns, 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    with subprocess.Popen(
        (sys.executable, "-c", _TAKE, *command),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=paths.CHECKOUT,
        env=environment,
        start_new_session=True,
    ) as child:
        os.close(terminal)
        text = b""
        while part := _read(control):
            text += part
            if keys and wait_for.encode() in text:
                os.write(control, keys)
                keys = b""
        os.close(control)
        return child.wait(), text.decode(errors="replace")


def _read(control: int) -> bytes:
    try:
        return os.read(control, 4096)
    except OSError:
        # EIO: the last process has closed the terminal.
        return b""
