# SPDX-License-Identifier: Apache-2.0

"""A short trace of what runs on the measured CPUs, while a tool measures.

It is a tracefs instance with a ring buffer of the last seconds. When a sample
above the bound is seen, the trace is stopped, read and resumed. Its clock is
that of timers. It costs about a µs per wake-up, and runs only if there is a
bound.
"""

import contextlib
import pathlib
from collections.abc import Iterator

from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import blame
from sriov_rt.verify import hwlat

INSTANCE = "sriov_rt_culprit"

#: KiB of each CPU's ring buffer: some seconds with 5,000 wake-ups each.
BUFFER_KIB = 4096

#: The longest trace that is read, in bytes.
_MAX_TRACE = 64 * 1024 * 1024


class Recorder:
    """A running trace.

    :param instance: its directory in tracefs.
    """

    def __init__(self, instance: pathlib.Path) -> None:
        self._instance = instance

    def snapshot(self, cpu: int) -> bytes:
        """Return the last seconds of a CPU; empty if they can't be read."""
        switch = self._instance / "tracing_on"
        path = self._instance / "per_cpu" / f"cpu{cpu}" / "trace"
        with contextlib.suppress(OSError):
            try:
                switch.write_text("0")
                with path.open("rb") as trace:
                    return trace.read(_MAX_TRACE)
            finally:
                (self._instance / "trace").write_text("")
                switch.write_text("1")
        return b""


@contextlib.contextmanager
def running(root: Root, cpus: CpuSet) -> Iterator[Recorder | None]:
    """Trace some CPUs; yield None if the kernel or its tracefs can't."""
    tracing = root.path / hwlat.TRACING
    instance = tracing / "instances" / INSTANCE
    with contextlib.ExitStack() as stack:
        try:
            # A run that was killed left its instance.
            with contextlib.suppress(FileNotFoundError):
                instance.rmdir()
            instance.mkdir()
            stack.callback(_remove, instance)
            (instance / "trace_clock").write_text("mono")
            (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
            (instance / "tracing_cpumask").write_text(hwlat.mask(cpus))
            for event in blame.TRACED:
                enable = instance / "events" / event / "enable"
                with contextlib.suppress(FileNotFoundError):
                    enable.write_text("1")
            (instance / "tracing_on").write_text("1")
        except OSError:
            yield None
            return
        yield Recorder(instance)


def _remove(instance: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        instance.rmdir()
