# SPDX-License-Identifier: Apache-2.0

"""cyclictest of rt-tests: how late a thread wakes up.

Its JSON is that of rt-tests 2.x (``file_version`` 1). With ``-v`` it prints
each sample as ``thread:cycle:latency`` besides, of which the worst of each
second is kept: a histogram has lost the time.
"""

from collections.abc import Iterable

from sriov_rt.parse import cpulist
from sriov_rt.verify import rt_tests
from sriov_rt.verify.latency_tool import Parsed
from sriov_rt.verify.latency_tool import ProgramTool
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step


class Maxima:
    """Worst sample of each second and thread, from the output of -v.

    Total: a line that is no sample is passed over.

    :param interval_us: between two samples.
    """

    def __init__(self, interval_us: int) -> None:
        self._per_second = max(1, 1_000_000 // interval_us)
        self._found: dict[int, list[int]] = {}

    def feed(self, lines: Iterable[bytes]) -> None:
        """Take in lines."""
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
            # Samples come in their order; a gap is a second without any.
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

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._maxima = Maxima(step.interval_us or 1)

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
        """Take in the samples that -v prints."""
        self._maxima.feed(lines)

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
