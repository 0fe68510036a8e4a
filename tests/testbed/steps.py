# SPDX-License-Identifier: Apache-2.0

"""The steps of the demonstration, from a bare machine to its result.

A program that runs a step prints the step's title on a line of standard output
when it begins, and a note where a person would wonder. Other output goes to
standard error.
"""

import dataclasses
import enum


@dataclasses.dataclass(frozen=True)
class _Step:
    title: str
    seconds: int


class Step(enum.Enum):
    """A step, with the seconds it takes on two idle cores."""

    PREPARE = _Step("install OpenStack, QEMU and sriov-rt", 5)
    START = _Step("start the controller, boot realtime host rt-1", 45)
    JOIN = _Step("start nova-compute and agents on rt-1", 90)
    EXPLAIN = _Step("ask which hosts fit the flavor rt.small", 5)
    BOOT = _Step("create a realtime and an ordinary server", 100)
    CONSOLE = _Step("wait until their systems are up", 15)
    DELETE = _Step("delete both, look for what is left", 20)

    def begin(self) -> None:
        """Report that it begins, and that the previous one has ended."""
        print(self.value.title, flush=True)


#: Additional time of PREPARE the first time, when it downloads and builds.
FIRST_SECONDS = 170


_NOTE = "note: "


def note(text: str) -> None:
    """Show a note on the step to the person at the screen.

    :param text: one line.
    """
    print(f"{_NOTE}{text}", flush=True)


def of_note(line: str) -> str | None:
    """Return the text of a note; None for any other line.

    :param line: a line that a step printed.
    """
    return line.removeprefix(_NOTE) if line.startswith(_NOTE) else None


def of_title(title: str) -> Step | None:
    """Return the step with a title; None if there is none.

    :param title: a line that a step printed.
    """
    for step in Step:
        if step.value.title == title:
            return step
    return None


def total_seconds(begin: Step = Step.PREPARE) -> int:
    """Return the seconds that steps take together.

    :param begin: the first of them.
    """
    every = list(Step)
    return sum(step.value.seconds for step in every[every.index(begin) :])
