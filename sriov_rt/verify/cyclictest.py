# SPDX-License-Identifier: Apache-2.0

"""cyclictest of rt-tests: how late a thread wakes up.

Its JSON is that of rt-tests 2.x (``file_version`` 1). With ``-v`` it also
prints each sample as ``thread:cycle:latency``. The worst of each second is
kept, since the histogram has no times.
"""

import contextlib
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.facts import culprit
from sriov_rt.facts.culprit import Culprit
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.verify import blame
from sriov_rt.verify import recorder
from sriov_rt.verify import rt_tests
from sriov_rt.verify.latency_tool import Parsed
from sriov_rt.verify.latency_tool import ProgramTool
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step

#: The most traces that are read in one run: each takes a second of a
#: housekeeping CPU.
MAX_SNAPSHOTS = 32

#: A thread, a cycle and a latency in µs, as printed with -v.
_SAMPLE = re.compile(rb"\s*(\d{1,5}):\s*\d{1,15}:\s*(\d{1,10})")

_NO_TRACE = "there is no tracefs at /sys/kernel/tracing to trace it with"
_NOT_TRACED = "the sample was not seen in time to keep its trace"


class Maxima:
    """Worst sample of each second and thread, from the output with -v.

    Lines that are not samples are ignored.

    :param interval_us: time between two samples.
    """

    def __init__(self, interval_us: int) -> None:
        self._per_second = max(1, 1_000_000 // interval_us)
        self._found: dict[int, list[int]] = {}

    def feed(self, lines: Iterable[bytes]) -> None:
        """Process some lines."""
        for line in lines:
            parts = line.split(b":")
            if len(parts) != 3:
                continue
            try:
                thread, cycle, latency = (int(each) for each in parts)
            except ValueError:
                continue
            if thread < 0 or cycle < 0 or latency < 0:
                continue
            found = self._found.setdefault(thread, [])
            second = cycle // self._per_second
            # Samples come in order; a gap is a second without samples.
            if second == len(found):
                found.append(latency)
            elif found and second >= len(found) - 1:
                found[-1] = max(found[-1], latency)

    def of(self, thread: int) -> tuple[int, ...]:
        """Return the worst of each whole second of a thread."""
        return tuple(self._found.get(thread, ())[:-1])


class Cyclictest(ProgramTool):
    """One run of cyclictest."""

    name = "cyclictest"
    measures = "the wake-up of a thread by a timer"
    program = "cyclictest"
    package = "rt-tests"
    certifies = True
    in_guests = True
    has_threads = True
    interval_us = 200

    def __init__(self, step: Step, bound_us: int | None = None) -> None:
        super().__init__(step, bound_us)
        self._maxima = Maxima(step.interval_us or 1)
        self._cpus: tuple[int, ...] = ()
        self._recorder: recorder.Recorder | None = None
        self._named: dict[int, Culprit] = {}
        self._snapshots = 0

    @contextlib.contextmanager
    def beside(self, root: Root, cpus: Cpus) -> Iterator[None]:
        """Trace the measured CPUs if there is a bound."""
        self._cpus = tuple(sorted(cpus.measured))
        if self.bound_us is None:
            yield
            return
        with recorder.running(root, cpus.measured) as self._recorder:
            yield

    def command(self, cpus: Cpus, output: str) -> tuple[str, ...]:
        """Return the command line, with a thread on each measured CPU.

        Its main thread is on the housekeeping CPUs.
        """
        step = self.step
        measured = cpulist.format_cpu_list(cpus.measured)
        housekeeping = cpulist.format_cpu_list(cpus.housekeeping)
        return (
            self.program,
            "--mlockall",
            "--verbose",
            "--policy=fifo",
            f"--priority={step.priority}",
            f"--interval={step.interval_us}",
            "--distance=0",
            f"--histogram={step.buckets}",
            f"--duration={step.duration_s}",
            f"--threads={len(cpus.measured)}",
            f"--affinity={measured}",
            f"--mainaffinity={housekeeping}",
            f"--json={output}",
        )

    def feed(self, lines: list[bytes]) -> None:
        """Process the samples that are printed with -v."""
        self._maxima.feed(lines)
        if self._recorder is None or self.bound_us is None:
            return
        worst: dict[int, int] = {}
        for each in lines:
            if found := _SAMPLE.fullmatch(each):
                thread, latency = int(found[1]), int(found[2])
                worst[thread] = max(worst.get(thread, 0), latency)
        for thread, latency in worst.items():
            if latency > self.bound_us and thread < len(self._cpus):
                self._name(self._recorder, self._cpus[thread], latency)

    def _name(
        self, trace: recorder.Recorder, cpu: int, latency_us: int
    ) -> None:
        """Look for the culprit of a sample that is the worst of its CPU."""
        known = self._named.get(cpu)
        if known is not None and known.latency_us >= latency_us:
            return
        if self._snapshots >= MAX_SNAPSHOTS:
            return
        self._snapshots += 1
        self._named[cpu] = blame.of_schedule(
            trace.snapshot(cpu), self.name, cpu, self.program, latency_us
        )

    def culprits(self, found: Sequence[CpuLatency]) -> tuple[Culprit, ...]:
        """Return the culprit of each CPU's worst sample above the bound."""
        why = _NO_TRACE if self._recorder is None else _NOT_TRACED
        return tuple(
            self._named.get(each.cpu)
            or culprit.unknown(each.cpu, each.max_us, self.name, why)
            for each in found
            if self.bound_us is not None and each.max_us > self.bound_us
        )

    def parse(self, document: bytes) -> Parsed:
        """Return the version and the latencies of each CPU."""
        found = rt_tests.load(self.name, document)
        cpus = []
        for number, thread in found.threads():
            cycles = thread.integer("cycles")
            cpus.append(
                CpuLatency(
                    cpu=thread.integer("cpu"),
                    samples=cycles,
                    max_us=thread.integer("max") if cycles else 0,
                    histogram=thread.histogram(cycles),
                    maxima_us=self._maxima.of(number),
                )
            )
        return Parsed(found.version, cpus)
