# SPDX-License-Identifier: Apache-2.0

"""A latency tool: its properties, its command line and its parser.

Each tool is a class in its own module and a row of ``tools.TOOLS``. An
instance of the class is one run of the tool.
"""

import abc
import contextlib
import dataclasses
import math
import pathlib
import tempfile
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import ClassVar
from typing import NamedTuple

from sriov_rt.codec import Unknown
from sriov_rt.facts import culprit
from sriov_rt.facts.culprit import Culprit
from sriov_rt.host.root import Root
from sriov_rt.verify import process
from sriov_rt.verify import validity
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step

#: File below the root that lists the kernel's tracers, in tracefs.
TRACERS = "sys/kernel/tracing/available_tracers"

#: Seconds that a tool may take on top of its duration.
SLACK_S = 60.0

#: Why a tool names no culprit.
_SILENT = "this tool does not say when a sample was"

#: Seconds after a tool's start at which its threads are first checked.
_STARTED_S = 2.0


class Parsed(NamedTuple):
    """Output of a tool.

    :param version: as the tool prints it; empty if it does not.
    :param duration_s: how long it measured; 0 if the output does not say.
    """

    version: str
    cpus: Sequence[CpuLatency]
    duration_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One run of a tool.

    :param command: its command line, or the tracer's settings.
    :param interrupted: whether Ctrl-C ended it.
    :param problems: why it is not valid, a sentence each.
    :param culprits: culprits of samples above the bound.
    """

    version: str
    command: str
    duration_s: float
    cpus: Sequence[CpuLatency]
    interrupted: bool
    problems: tuple[str, ...] = ()
    culprits: tuple[Culprit, ...] = ()


class LatencyTool(abc.ABC):
    """A program or kernel tracer that measures latency.

    :param bound_us: find the culprits of samples above this, µs; None to find
        none.
    """

    #: Its name in profiles, results and certificates.
    name: ClassVar[str]

    #: What it measures, for the documentation; a clause.
    measures: ClassVar[str]

    #: The program and its package; empty for a tracer of the kernel.
    program: ClassVar[str] = ""
    package: ClassVar[str] = ""

    #: The kernel's tracer that it uses; empty for none.
    tracer: ClassVar[str] = ""

    #: Whether a certificate needs it.
    certifies: ClassVar[bool] = False

    #: Whether guests and pods can run it: it needs nothing but SCHED_FIFO.
    in_guests: ClassVar[bool] = False

    #: Fields of its Step in profiles that run every tool.
    interval_us: ClassVar[int] = 0
    priority: ClassVar[int] = 95
    threshold_us: ClassVar[int] = 0

    def __init__(self, step: Step, bound_us: int | None = None) -> None:
        self.step = step
        self.bound_us = bound_us

    @classmethod
    def default_step(cls, duration_s: int) -> Step:
        """Return its step in profiles that run every tool."""
        return Step(
            cls.name,
            duration_s,
            interval_us=cls.interval_us,
            priority=cls.priority,
            threshold_us=cls.threshold_us,
        )

    def culprits(self, found: Sequence[CpuLatency]) -> tuple[Culprit, ...]:
        """Return a culprit for each CPU with a sample above the bound."""
        return tuple(
            culprit.unknown(each.cpu, each.max_us, self.name, _SILENT)
            for each in found
            if self.bound_us is not None and each.max_us > self.bound_us
        )

    @classmethod
    def unavailable(cls, root: Root) -> str:
        """Return why the kernel cannot run it, a clause; empty if it can."""
        if not cls.tracer:
            return ""
        found = root.read_text(TRACERS, may_be_empty=True)
        if isinstance(found, Unknown):
            return f"{found.reason}; mount tracefs there, as root"
        if cls.tracer in found.split():
            return ""
        return (
            f"the kernel has no {cls.tracer} tracer "
            f"(CONFIG_{cls.tracer.upper()}_TRACER)"
        )

    @abc.abstractmethod
    def run(
        self, cpus: Cpus, root: Root, tick: Callable[[float], object]
    ) -> Run:
        """Measure once.

        :param tick: is called with the seconds that passed.
        :raises RunFailed: if it can't be run.
        :raises OutputInvalid: if its output is not understood.
        """


class ProgramTool(LatencyTool):
    """A latency tool that is a program."""

    #: Whether it writes a JSON file; otherwise its standard output is read.
    writes_file: ClassVar[bool] = True

    #: Whether it has a thread under SCHED_FIFO on each measured CPU.
    has_threads: ClassVar[bool] = False

    @abc.abstractmethod
    def command(self, cpus: Cpus, output: str) -> tuple[str, ...]:
        """Return the command line.

        :param output: path of the JSON file.
        """

    @abc.abstractmethod
    def parse(self, document: bytes) -> Parsed:
        """Return the latencies in its output.

        :param document: the JSON file, or the standard output.
        :raises OutputInvalid: if it is not in the tool's format.
        """

    def feed(self, lines: list[bytes]) -> None:
        """Process lines of standard output, for a tool that writes a file."""

    def run(
        self, cpus: Cpus, root: Root, tick: Callable[[float], object]
    ) -> Run:
        """Measure once; see LatencyTool."""
        step = self.step
        refused: tuple[str, ...] = ()
        checked = not self.has_threads
        lines: list[bytes] = []

        def ticked(pid: int, elapsed: float) -> None:
            nonlocal refused, checked
            # A busy host takes a while to start the threads.
            if not checked and elapsed > _STARTED_S:
                refused = validity.threads(pid, cpus.measured, step.priority)
                checked = not refused
            tick(elapsed)

        with tempfile.TemporaryDirectory(prefix="sriov-rt-verify-") as place:
            output = pathlib.Path(place) / "output.json"
            command = self.command(cpus, str(output))
            began = time.monotonic()
            with self.beside(root, cpus):
                ended = process.run(
                    command,
                    step.duration_s + SLACK_S,
                    self.feed if self.writes_file else lines.extend,
                    ticked,
                    name=self.name,
                )
            elapsed = time.monotonic() - began
            if ended.code != 0 and not ended.interrupted:
                raise RunFailed(self.name, ended.last_line())
            document = b"\n".join(lines)
            if self.writes_file:
                document = _read(output, ended)
        found = self.parse(document)
        expected = 0
        if step.interval_us and not ended.interrupted:
            expected = math.floor(step.duration_s * 1e6 / step.interval_us)
        return Run(
            version=found.version,
            command=" ".join(command),
            duration_s=min(
                elapsed, found.duration_s or elapsed, step.duration_s
            ),
            cpus=found.cpus,
            interrupted=ended.interrupted,
            problems=(
                *refused,
                *validity.samples(found.cpus, cpus.measured, expected),
            ),
            culprits=self.culprits(found.cpus),
        )

    def beside(
        self, root: Root, cpus: Cpus
    ) -> contextlib.AbstractContextManager[object]:
        """Return a context that the tool runs in; empty by default."""
        return contextlib.nullcontext()


def _read(path: pathlib.Path, ended: process.Ended) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise RunFailed(path.name, ended.last_line()) from None
