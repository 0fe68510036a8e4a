# SPDX-License-Identifier: Apache-2.0

"""The kernel's hwlat tracer: time that the hardware takes from CPUs.

Firmware (SMI) and hypervisors stop a CPU without the kernel's knowledge. The
tracer spins with interrupts off for a width of each window and reports every
gap above ``tracing_thresh`` (Documentation/trace/hwlat_detector.rst). It runs
in its own tracefs instance, which is removed at the end or, if this process
was killed, at the next start.
"""

import contextlib
import pathlib
import re
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.facts.culprit import Culprit
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.latency_tool import LatencyTool
from sriov_rt.verify.latency_tool import Run
from sriov_rt.verify.measurement import MAX_LATENCY_US
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step

TOOL = "hwlat"

INSTANCE = "sriov_rt_hwlat"

#: Where tracefs is, below the root.
TRACING = "sys/kernel/tracing"

#: µs for which the tracer spins in each window, and µs of a window: the
#: kernel's defaults (DEFAULT_SAMPLE_WIDTH and _WINDOW in trace_hwlat.c).
WIDTH_US = 500_000
WINDOW_US = 1_000_000

#: The longest trace that is read, in bytes.
_MAX_TRACE = 64 * 1024 * 1024

_LINE = re.compile(
    r"\[(?P<cpu>\d{1,5})\].*?#\d+\s+inner/outer\(us\):\s*"
    r"(?P<inner>\d{1,10})/(?P<outer>\d{1,10})\b"
)


class Hwlat(LatencyTool):
    """One run of the hwlat tracer."""

    name = TOOL
    tracer = TOOL
    measures = "the time that firmware (SMI) and hypervisors take from a CPU"
    threshold_us = 10

    def run(
        self, cpus: Cpus, root: Root, tick: Callable[[float], object]
    ) -> Run:
        """Measure once; its version is the kernel's."""
        step = self.step
        began = time.monotonic()
        found, interrupted = measure(
            step, cpus.measured, root.path / TRACING, tick
        )
        release = root.read_text("proc/sys/kernel/osrelease")
        return Run(
            version=release.strip() if isinstance(release, str) else "",
            command=f"tracing_thresh={step.threshold_us} "
            f"width={WIDTH_US} window={WINDOW_US}",
            duration_s=time.monotonic() - began,
            cpus=found,
            interrupted=interrupted,
            culprits=self.culprits(found),
        )

    def culprits(self, found: Sequence[CpuLatency]) -> tuple[Culprit, ...]:
        """Return firmware as the culprit of each gap above the bound."""
        bound_us = self.bound_us
        return tuple(
            Culprit("firmware", "", x.cpu, x.max_us, x.max_us, self.name)
            for x in found
            if bound_us is not None and x.max_us > bound_us
        )


def measure(
    step: Step,
    cpus: CpuSet,
    tracing: pathlib.Path,
    tick: Callable[[float], object],
) -> tuple[list[CpuLatency], bool]:
    """Measure, and return the CPUs with gaps and whether it was interrupted.

    :param tracing: where tracefs is mounted.
    :param tick: is called with the seconds that passed.
    :raises RunFailed: if the kernel does not have the tracer.
    """
    began = time.monotonic()
    interrupted = False
    with _instance(step, cpus, tracing) as instance:
        try:
            while (elapsed := time.monotonic() - began) < step.duration_s:
                time.sleep(min(0.5, step.duration_s - elapsed))
                tick(elapsed)
        except KeyboardInterrupt:
            interrupted = True
        _write(instance / "tracing_on", "0")
        with (instance / "trace").open("rb") as trace:
            text = trace.read(_MAX_TRACE + 1)
    return parse(text), interrupted


def parse(trace: bytes) -> list[CpuLatency]:
    """Return the CPUs with gaps in a trace.

    :raises OutputInvalid: if it is not a trace, or is too long.
    """
    if len(trace) > _MAX_TRACE:
        raise OutputInvalid(TOOL, "more gaps than fit into a trace")
    text = trace.decode(errors="replace")
    if not text.startswith("# tracer: hwlat"):
        raise OutputInvalid(TOOL, "no trace of hwlat")
    gaps: dict[int, list[int]] = {}
    for found in _LINE.finditer(text):
        worst = max(int(found["inner"]), int(found["outer"]))
        if worst > MAX_LATENCY_US:
            raise OutputInvalid(TOOL, "a gap of more than an hour")
        gaps.setdefault(int(found["cpu"]), []).append(worst)
    return [
        CpuLatency(cpu, len(each), max(each))
        for cpu, each in sorted(gaps.items())
    ]


@contextlib.contextmanager
def _instance(
    step: Step, cpus: CpuSet, tracing: pathlib.Path
) -> Iterator[pathlib.Path]:
    instance = tracing / "instances" / INSTANCE
    detector = tracing / "hwlat_detector"
    threshold = _read(tracing / "tracing_thresh")
    window = {name: _read(detector / name) for name in ("width", "window")}
    remove(tracing)
    instance.mkdir()
    try:
        # The window must never be shorter than the width.
        _write(detector / "window", str(WINDOW_US))
        _write(detector / "width", str(WIDTH_US))
        _write(tracing / "tracing_thresh", str(step.threshold_us))
        _write(instance / "tracing_cpumask", mask(cpus))
        _write(instance / "current_tracer", TOOL)
        _write(instance / "tracing_on", "1")
        yield instance
    finally:
        try:
            remove(tracing)
        finally:
            _write(tracing / "tracing_thresh", threshold)
            for name, value in window.items():
                _write(detector / name, value)


def remove(tracing: pathlib.Path) -> None:
    """Remove the instance, even one of a run that was killed."""
    instance = tracing / "instances" / INSTANCE
    if instance.exists():
        _write(instance / "current_tracer", "nop")
        instance.rmdir()


def mask(cpus: CpuSet) -> str:
    """Return CPUs as the kernel's comma-separated words of 32 bits."""
    whole = sum(1 << each for each in cpus)
    words = [f"{whole & 0xFFFFFFFF:x}"]
    while whole := whole >> 32:
        words.append(f"{whole & 0xFFFFFFFF:08x}")
    head = words[-1].lstrip("0") or "0"
    tail = [each.zfill(8) for each in words[:-1]]
    return ",".join([head, *reversed(tail)])


def _read(path: pathlib.Path) -> str:
    return path.read_text().strip()


def _write(path: pathlib.Path, text: str) -> None:
    path.write_text(text)
