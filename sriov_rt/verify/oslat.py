# SPDX-License-Identifier: Apache-2.0

"""oslat of rt-tests: how long the system interrupts a busy thread."""

import math

from sriov_rt.parse import cpulist
from sriov_rt.verify import rt_tests
from sriov_rt.verify.latency_tool import Parsed
from sriov_rt.verify.latency_tool import ProgramTool
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus


class Oslat(ProgramTool):
    """One run of oslat."""

    name = "oslat"
    measures = "the time that the system takes from a busy CPU"
    program = "oslat"
    package = "rt-tests"
    certifies = True
    in_guests = True
    has_threads = True
    priority = 1

    def command(self, cpus: Cpus, output: str) -> tuple[str, ...]:
        """Return the command line, with a busy thread on each measured CPU."""
        step = self.step
        load: tuple[str, ...] = ()
        if step.workload:
            workload, memory = step.workload
            load = (f"--workload={workload}", f"--workload-mem={memory}")
        return (
            self.program,
            f"--cpu-list={cpulist.format_cpu_list(cpus.measured)}",
            f"--cpu-main-thread={min(cpus.housekeeping)}",
            f"--rtprio={step.priority}",
            f"--duration={step.duration_s}",
            *load,
            f"--json={output}",
        )

    def parse(self, document: bytes) -> Parsed:
        """Return the version, the latencies of each CPU, and the duration.

        The last bucket of the histogram includes all longer latencies, so it
        is left out, and ``max`` is used. The duration is that of the shortest
        thread.
        """
        found = rt_tests.load(self.name, document)
        cpus = []
        durations = []
        for _, thread in found.threads():
            buckets = thread.histogram()
            samples = sum(count for _, count in buckets)
            worst = math.ceil(thread.real("max"))
            if buckets and buckets[-1][0] < worst:
                buckets = buckets[:-1]
            cpu = thread.integer("cpu")
            cpus.append(CpuLatency(cpu, samples, worst, buckets))
            durations.append(thread.real("duration"))
        return Parsed(found.version, cpus, min(durations))
