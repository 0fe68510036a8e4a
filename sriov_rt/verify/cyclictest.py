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

"""cyclictest of rt-tests: how late a thread wakes up.

Its JSON is that of rt-tests 2.x (``file_version`` 1). With ``-v`` it prints
each sample as ``thread:cycle:latency`` besides, of which the worst of each
second is kept: a histogram has lost the time.
"""

from collections.abc import Iterable

from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import rt_tests
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.profiles import Step

TOOL = "cyclictest"


def command(
    step: Step,
    cpus: CpuSet,
    housekeeping: CpuSet,
    output: str,
) -> tuple[str, ...]:
    """Return the command line.

    :param cpus: those to measure; one thread each.
    :param housekeeping: those for its main thread.
    :param output: path of the JSON file.
    """
    return (
        TOOL,
        "--mlockall",
        "--verbose",
        "--policy=fifo",
        f"--priority={step.priority}",
        f"--interval={step.interval_us}",
        "--distance=0",
        f"--histogram={step.buckets}",
        f"--duration={step.duration_s}",
        f"--threads={len(cpus)}",
        f"--affinity={cpulist.format_cpu_list(cpus)}",
        f"--mainaffinity={cpulist.format_cpu_list(housekeeping)}",
        f"--json={output}",
    )


class Maxima:
    """The worst sample of each second and thread, from what -v prints.

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


def parse(document: bytes, maxima: Maxima) -> tuple[str, list[CpuLatency]]:
    """Return the version and what each CPU had.

    :param document: the JSON file.
    :raises OutputInvalid: if it is not in its form.
    """
    found = rt_tests.load(TOOL, document)
    cpus = []
    for number, thread in found.threads():
        cycles = thread.integer("cycles")
        cpus.append(
            CpuLatency(
                cpu=thread.integer("cpu"),
                samples=cycles,
                max_us=thread.integer("max") if cycles else 0,
                histogram=thread.histogram(cycles),
                maxima_us=maxima.of(number),
            )
        )
    return found.version, cpus
