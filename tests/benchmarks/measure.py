# SPDX-License-Identifier: Apache-2.0

"""Timing, and rows of the table."""

import gc
import os
import pathlib
import resource
import time
from collections.abc import Callable
from typing import Any

#: Turns of each subject; the best counts, for the machine is shared.
TURNS = 9

_TICKS = os.sysconf("SC_CLK_TCK")

#: A target that the ratio is to come near to; the reader judges how near.
PARITY = "parity"


def best(
    *subjects: Callable[[], Any],
    turns: int = TURNS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the best time of each subject in seconds.

    They take turns, so that all meet the same load of the machine.

    :param clock: ``time.thread_time`` for what waits for nothing and takes
        so long that other processes are let in meanwhile.
    """
    times = [float("inf")] * len(subjects)
    gc.collect()
    gc.disable()
    try:
        for _ in range(turns):
            for index, subject in enumerate(subjects):
                began = clock()
                subject()
                elapsed = clock() - began
                times[index] = min(times[index], elapsed)
    finally:
        gc.enable()
    return times


def children_s(subject: Callable[[], Any]) -> float:
    """Return the user and system time of the processes that a subject runs.

    A busy machine makes them wait; what they work it changes little.

    :param subject: waits for its processes; nobody else's may end meanwhile.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subject()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    return user + after.ru_stime - before.ru_stime


def processor_s(pid: int) -> float:
    """Return the user and system time of a process so far, in seconds."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    # The second field is the name, which may have blanks: proc(5).
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def row(
    name: str,
    ours: float,
    unit: str,
    *,
    peer: float | None = None,
    target: float | str | None = None,
) -> dict[str, Any]:
    """Return a row.

    :param peer: what ours is held against, in the same unit.
    :param target: what the ratio to the peer may be at most; without a
        peer, what ours may be at most; PARITY is never missed.
    """
    return {
        "name": name,
        "ours": ours,
        "peer": peer,
        "ratio": None if peer is None else ours / peer,
        "target": target,
        "unit": unit,
    }
