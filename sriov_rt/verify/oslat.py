# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""oslat of rt-tests: how long the system takes a busy CPU away."""

import math

from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import rt_tests
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.profiles import Step

TOOL = "oslat"


def command(
    step: Step,
    cpus: CpuSet,
    housekeeping: CpuSet,
    output: str,
) -> tuple[str, ...]:
    """Return the command line; see cyclictest.command."""
    load: tuple[str, ...] = ()
    if step.workload:
        name, memory = step.workload
        load = (f"--workload={name}", f"--workload-mem={memory}")
    return (
        TOOL,
        f"--cpu-list={cpulist.format_cpu_list(cpus)}",
        f"--cpu-main-thread={min(housekeeping)}",
        f"--rtprio={step.priority}",
        f"--duration={step.duration_s}",
        *load,
        f"--json={output}",
    )


def parse(document: bytes) -> tuple[str, list[CpuLatency], float]:
    """Return the version, what each CPU had, and the shortest duration, s.

    The last bucket of its histogram holds all that is above, too: it is left
    out, and ``max`` is what counts.

    :raises OutputInvalid: if it is not in its form.
    """
    found = rt_tests.load(TOOL, document)
    cpus = []
    durations = []
    for _, thread in found.threads():
        buckets = thread.histogram()
        samples = sum(count for _, count in buckets)
        worst = math.ceil(thread.real("max"))
        if buckets and buckets[-1][0] < worst:
            buckets = buckets[:-1]
        cpus.append(CpuLatency(thread.integer("cpu"), samples, worst, buckets))
        durations.append(thread.real("duration"))
    return found.version, cpus, min(durations)
