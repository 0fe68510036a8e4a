# SPDX-License-Identifier: Apache-2.0

"""What comes of commands inside a machine."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Result:
    """How a command inside ended.

    :param command: the program and its arguments.
    :param status: its exit status; negative for a signal.
    :param stdout: what it printed.
    :param stderr: what it complained about.
    """

    command: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """What it printed, as text."""
        return self.stdout.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """What it complained about, as text."""
        return self.stderr.decode(errors="replace")


@dataclasses.dataclass(frozen=True)
class Job:
    """A command that was started inside and not waited for.

    :param number: its request's.
    :param pid: its pid inside; also its session and process group.
    """

    number: str
    pid: int
