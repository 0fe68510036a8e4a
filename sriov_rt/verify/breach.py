# SPDX-License-Identifier: Apache-2.0

"""Tickets of samples above the bound.

A ticket is written when the sample is seen. It has the bound, the sample, its
culprit, what had changed since the certificate was issued, and the threads on
the CPU. It is kept with the measurements, and ``verify report`` shows it.
"""

import dataclasses
import itertools
import pathlib
import time
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts.certificate import Certificate
from sriov_rt.facts.culprit import Culprit
from sriov_rt.host import conditions
from sriov_rt.host import occupancy
from sriov_rt.host.root import Root
from sriov_rt.verify import machine
from sriov_rt.verify import packages
from sriov_rt.verify import results
from sriov_rt.verify.machine import Machine

PATTERN = "breach-*.json"

#: The longest file, in bytes.
MAX_FILE = 64 * 1024

#: The most threads in a ticket.
MOST_THREADS = 16

#: Tickets that are kept; older ones are removed.
MOST = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Breach:
    """A sample above the bound.

    :param at: Unix time in seconds.
    :param cpu: CPU of the sample.
    :param bound_us: the bound that it exceeds.
    :param sample_us: the sample.
    :param issued_at: when the certificate was issued, Unix time.
    :param changed: what has changed since then, a clause each.
    :param compared: number of conditions and packages that were compared.
    :param on_cpu: threads that were on the CPU, a clause each.
    """

    at: float
    cpu: int
    bound_us: int
    sample_us: int
    culprit: Culprit
    issued_at: float
    changed: tuple[str, ...]
    compared: int
    on_cpu: tuple[str, ...] | Unknown
    machine: Machine
    emulated: bool


def observe(
    root: Root,
    nova: ComputeFacts,
    found: Certificate,
    culprit: Culprit,
    bound_us: int,
) -> Breach:
    """Return the ticket of a sample that has just been seen.

    :param found: the certificate that the sample contradicts.
    """
    changed = [
        f"{name} changed from '{then}' to '{now}'"
        for name, then, now in conditions.changed(found.conditions, root, nova)
    ]
    compared = len(found.conditions)
    installed = packages.observe(root) if found.packages else ()
    if isinstance(installed, Unknown):
        changed.append(f"unknown for the packages ({installed.reason})")
    else:
        changed += packages.changes(found.packages, installed)
        compared += len(found.packages)
    return Breach(
        at=time.time(),
        cpu=culprit.cpu,
        bound_us=bound_us,
        sample_us=culprit.latency_us,
        culprit=culprit,
        issued_at=found.issued_at,
        changed=tuple(changed),
        compared=compared,
        on_cpu=occupants(root, culprit.cpu),
        machine=machine.observe(root),
        emulated=conditions.emulated(root),
    )


def occupants(root: Root, cpu: int) -> tuple[str, ...]:
    """Return the threads that ran on a CPU last, a clause each.

    Threads of the measurement itself are included.
    """
    found = occupancy.on_cpus(root, {}, CpuSet((cpu,)))
    return tuple(
        f"{each.name}:{each.thread}" + (each.owner and f" of {each.owner}")
        for each in itertools.islice(found, MOST_THREADS)
    )


def keep(directory: pathlib.Path, found: Breach) -> pathlib.Path:
    """Keep a ticket, and return its file.

    :raises OSError: if it can't be written.
    """
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(found.at))
    path = directory / PATTERN.replace("*", when)
    results.keep(path, found)
    for each in sorted(directory.glob(PATTERN))[:-MOST]:
        each.unlink(missing_ok=True)
    return path


def every(directory: pathlib.Path) -> tuple[Breach, ...]:
    """Return the tickets of a directory, oldest first."""
    return tuple(results.load_all(Breach, directory, PATTERN, MAX_FILE))


def rows(found: Breach) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line of a ticket."""
    yield "Seen", _date(found.at)
    if found.machine.host:
        yield "Host", found.machine.host
    yield "Bound", f"{found.bound_us} µs, certified {_date(found.issued_at)}"
    yield "Sample", f"{found.sample_us} µs on CPU {found.cpu}"
    yield "Culprit", found.culprit.sentence
    for each in found.culprit.stack:
        yield "Stack", each
    for each in found.changed:
        yield "Changed", each
    if not found.changed:
        yield "Changed", f"none of {found.compared} conditions and packages"
    on_cpu = found.on_cpu
    if isinstance(on_cpu, Unknown):
        yield "On the CPU", f"unknown ({on_cpu.reason})"
    else:
        for each in on_cpu or ("nobody else",):
            yield "On the CPU", each
    if found.emulated:
        yield "Note", "the host is itself a virtual machine"


def _date(seconds: float) -> str:
    # A file may contain any number.
    found = time.gmtime(min(max(seconds, 0), 2**40))
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", found)
