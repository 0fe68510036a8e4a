# SPDX-License-Identifier: Apache-2.0

"""Errors of the test cloud."""

import pathlib


class TestbedError(Exception):
    """An error that a person has to look at."""

    __test__ = False


class CommandFailed(TestbedError):
    """A program ended with an exit status other than zero.

    :param command: the program and its arguments.
    :param status: its exit status; negative for a signal.
    :param output: the end of what it printed.
    """

    def __init__(
        self, command: tuple[str, ...], status: int, output: str
    ) -> None:
        self.command = command
        self.status = status
        self.output = output
        super().__init__(
            f"{' '.join(command)} exited {status}; its last lines:\n{output}"
        )


class TimedOut(TestbedError):
    """A wait for something has timed out.

    :param what: the expected state, a clause: "rabbitmq listens".
    :param seconds: how long the wait was.
    :param detail: what was seen instead; empty when unknown.
    """

    def __init__(self, what: str, seconds: float, detail: str = "") -> None:
        self.what = what
        self.seconds = seconds
        self.detail = detail
        tail = f": {detail}" if detail else ""
        super().__init__(f"waited {seconds:.0f} s in vain until {what}{tail}")


class ProcessDied(TestbedError):
    """A process ended while it was still needed.

    :param name: the process, as in "nova-compute".
    :param log: the file with its output.
    """

    def __init__(self, name: str, log: pathlib.Path) -> None:
        self.name = name
        self.log = log
        super().__init__(f"{name} died; its log is {log}:\n{tail(log)}")


class MachineHangs(TestbedError):
    """A virtual machine hangs: QEMU has lost the timer of a CPU.

    :param name: the machine.
    :param why: how this was noticed, a clause.
    """

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        super().__init__(f"{name} hangs: {why}")


def tail(path: pathlib.Path, lines: int = 15) -> str:
    """Return the end of a text file, empty when there is none.

    :param path: the file.
    :param lines: how many lines to return at most.
    """
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 32768))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
