# SPDX-License-Identifier: Apache-2.0

"""Watch over a latency certificate: a sample above its bound withdraws it.

timerlat probes one isolated CPU at a time for a few seconds. It takes an idle
one, since a guest's vCPU has its CPU to itself. If guests have all of them, or
none may be disturbed, it probes a housekeeping CPU instead, with a limit of
its own: that shows what the firmware and the kernel do to all CPUs.
"""

import contextlib
import dataclasses
import logging
import pathlib
import time
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts.certificate import Certificate
from sriov_rt.facts.certificate import as_issued
from sriov_rt.facts.culprit import Culprit
from sriov_rt.facts.culprit import unknown
from sriov_rt.host import compute
from sriov_rt.host import latency as host_latency
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import breach
from sriov_rt.verify import certificate
from sriov_rt.verify import results
from sriov_rt.verify import timerlat
from sriov_rt.verify.errors import Busy
from sriov_rt.verify.latency import cpus_of
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.timerlat import Timerlat

LOG = logging.getLogger(__name__)

#: A CPU counts as idle if it was idle for this part of the time.
_IDLE = 0.99

#: Seconds for which idle time is observed.
_LOOK_S = 1.0

#: Tickets are kept with the results of ``verify latency``, below the root.
TICKETS = "var/lib/sriov-rt-verify/results"

_UNNAMED = "this rtla has neither analysed nor traced it"

#: Fields of a cpuN line of /proc/stat, man 5 proc: idle and iowait.
_IDLE_FIELDS = (4, 5)


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """Result of one probe.

    :param cpu: the probed CPU; None if none was probed.
    :param max_us: the worst sample; None if there is none.
    :param said: what happened, a sentence.
    :param withdrawn: whether the probe withdrew the certificate.
    :param culprit: culprit of the sample that withdrew it.
    """

    cpu: int | None
    max_us: int | None
    said: str
    withdrawn: bool = False
    culprit: Culprit | None = None


def probe(
    root: Root,
    duration_s: int,
    lock: pathlib.Path,
    housekeeping_us: int | None = None,
    nova_files: compute.Files = compute.FILES,
) -> Probe:
    """Probe one idle isolated CPU; withdraw a certificate it contradicts.

    :param lock: file that measurements lock; if locked, nothing is probed.
    :param housekeeping_us: probe the most idle housekeeping CPU instead,
        however busy it is; a latency above this, in µs, withdraws.
    :param nova_files: Nova's configuration files below the root.
    :raises NotIsolated: if there is no CPU to probe.
    :raises RunFailed: if timerlat can't run.
    :raises OutputInvalid: if its output is not understood.
    :raises OSError: if the certificate can't be withdrawn.
    """
    found = host_latency.read(root)
    if isinstance(found, Unknown):
        return Probe(None, None, found.reason)
    nova = compute.observe(root, nova_files)
    if found is not None and not found.withdrawn:
        why = host_latency.status(found, root, nova).withdrawal
        if why:
            return record(found, why, root, lock)
    if found is None or not _counts(found, root, nova):
        with contextlib.suppress(Busy), results.exclusive(lock):
            certificate.retry(root)
        return Probe(None, None, "no certificate counts; nothing to watch")
    cpus = cpus_of(root)
    cpu: int | None
    if housekeeping_us is not None:
        cpu = most_idle(root, cpus.housekeeping)
        limit = _Limit(housekeeping_us, "housekeeping CPU", "the limit of")
    else:
        cpu = idle(root, cpus.measured)
        limit = _Limit(found.max_latency_us, "CPU", "the certified")
    if cpu is None:
        return Probe(None, None, "no isolated CPU is idle; none was probed")
    try:
        # No other process may write a certificate meanwhile.
        with results.exclusive(lock):
            return _judge(root, cpu, cpus, duration_s, found, limit, nova)
    except Busy:
        return Probe(None, None, "a measurement is running; none was probed")


def record(
    found: Certificate, why: str, root: Root, lock: pathlib.Path
) -> Probe:
    """Withdraw a certificate for a change that may be undone later.

    :param why: what has changed.
    :param lock: file that measurements lock; if locked, nothing is written.
    :raises OSError: if the certificate can't be withdrawn.
    """
    try:
        with results.exclusive(lock):
            again = host_latency.read(root)
            if isinstance(again, Certificate) and again.digest == found.digest:
                certificate.withdraw(again, why, root.path)
                said = f"certificate withdrawn: {why}"
                return Probe(None, None, said, withdrawn=True)
    except Busy:
        pass
    return Probe(None, None, f"{why}; a measurement is running")


@dataclasses.dataclass(frozen=True, slots=True)
class _Limit:
    """Limit of every sample, µs, and the words that describe it."""

    max_us: int
    whose: str
    name: str


def _judge(
    root: Root,
    cpu: int,
    cpus: Cpus,
    duration_s: int,
    found: Certificate,
    limit: _Limit,
    nova: ComputeFacts,
) -> Probe:
    at_once: list[str] = []

    def breached() -> None:
        why = (
            f"{limit.whose} {cpu} had a latency above {limit.name} "
            f"{limit.max_us} µs"
        )
        if _withdraw(root, found, why):
            at_once.append(why)

    found_out: list[Culprit] = []
    worst = measure(
        cpu, cpus, duration_s, limit.max_us, breached, found_out.append
    )
    if not at_once and worst <= limit.max_us:
        return Probe(cpu, worst, f"{limit.whose} {cpu}: at most {worst} µs")
    why = (
        f"{limit.whose} {cpu} had a latency of {worst} µs, above "
        f"{limit.name} {limit.max_us} µs"
    )
    said = f"certificate withdrawn: {why}"
    if at_once:
        (why,) = at_once
        said = f"certificate withdrawn: {why} ({worst} µs)"
    named = next(iter(found_out), unknown(cpu, worst, timerlat.TOOL, _UNNAMED))
    named = dataclasses.replace(named, cpu=cpu)
    if not _withdraw(root, found, why, named) and not at_once:
        return Probe(cpu, worst, f"{why}; there is another certificate now")
    try:
        ticket = breach.observe(root, nova, found, named, limit.max_us)
        breach.keep(root.path / TICKETS, ticket)
    except OSError as error:
        LOG.warning(
            "the ticket is not kept: %s; %s",
            exceptions.plain(error),
            files.remedy(error, "let root write there"),
        )
    return Probe(cpu, worst, said, withdrawn=True, culprit=named)


def _withdraw(
    root: Root, found: Certificate, why: str, named: Culprit | None = None
) -> bool:
    """Withdraw a certificate; return False if it has been replaced.

    It may have been withdrawn already when the sample was seen.
    """
    again = host_latency.read(root)
    if not isinstance(again, Certificate) or as_issued(again) != as_issued(
        found
    ):
        return False
    certificate.withdraw(again, why, root.path, named)
    return True


def watch(
    root: Root,
    duration_s: int,
    interval_s: int,
    lock: pathlib.Path,
    housekeeping_us: int | None = None,
    nova_files: compute.Files = compute.FILES,
) -> None:
    """Probe until Ctrl-C, and log each change.

    :param interval_s: time from the end of a probe to the next one.
    :param housekeeping_us: see :func:`probe`.
    :param nova_files: likewise.
    :raises: as :func:`probe`.
    """
    said = ""
    while True:
        found = probe(root, duration_s, lock, housekeeping_us, nova_files)
        if found.withdrawn:
            named = found.culprit
            LOG.warning(
                "%s%s", found.said, f"; {named.sentence}" if named else ""
            )
        elif found.cpu is None and found.said != said:
            LOG.info("%s", found.said)
        else:
            LOG.debug("%s", found.said)
        said = found.said
        time.sleep(interval_s)


def idle(root: Root, cpus: CpuSet) -> int | None:
    """Return the most idle CPU; None if none counts as idle."""
    shares = _idle_shares(root, cpus)
    best = _best(shares)
    return best if best is not None and shares[best] >= _IDLE else None


def most_idle(root: Root, cpus: CpuSet) -> int:
    """Return the most idle of at least one CPU, however busy it is."""
    best = _best(_idle_shares(root, cpus))
    return min(cpus) if best is None else best


def _best(shares: Mapping[int, float]) -> int | None:
    return max(shares, key=lambda cpu: (shares[cpu], -cpu), default=None)


def _idle_shares(root: Root, cpus: CpuSet) -> Mapping[int, float]:
    """Return the part of the time that each CPU was idle."""
    before = cpu_times(root)
    time.sleep(_LOOK_S)
    after = cpu_times(root)
    shares = {}
    for cpu in sorted(cpus & before.keys() & after.keys()):
        idled, whole = (
            now - then
            for now, then in zip(after[cpu], before[cpu], strict=True)
        )
        # The counters of a CPU without a tick may not advance.
        shares[cpu] = idled / whole if whole > 0 else 1.0
    return shares


def measure(
    cpu: int,
    cpus: Cpus,
    duration_s: int,
    bound_us: int,
    breached: Callable[[], None],
    found_out: Callable[[Culprit], None],
) -> int:
    """Return the worst latency of a CPU; stop at the first above a bound.

    :param breached: called at that sample, before rtla ends, if rtla reports
        it by then.
    :param found_out: called with the culprit, if rtla analyses the sample.
    """
    tool = Timerlat(
        Step(
            Timerlat.name,
            duration_s,
            interval_us=1000,
            priority=95,
            buckets=256,
        )
    )
    worst, named = tool.until_above(
        Cpus(CpuSet((cpu,)), cpus.housekeeping), bound_us, breached
    )
    if named is not None:
        found_out(named)
    return worst


def _counts(found: Certificate, root: Root, nova: ComputeFacts) -> bool:
    expired = found.expires_at <= time.time()
    return not expired and not host_latency.status(found, root, nova).withdrawn


def cpu_times(root: Root) -> Mapping[int, tuple[int, int]]:
    """Return the idle and total ticks of each CPU, from /proc/stat."""
    text = root.read_text("proc/stat", limit=16 * 1024 * 1024)
    found = {}
    for line in "" if isinstance(text, Unknown) else text.splitlines():
        name, *fields = line.split() or [""]
        number = name.removeprefix("cpu")
        if name == number or not number.isdigit() or len(fields) < 8:
            continue
        ticks = [int(each) for each in fields[:8] if each.isdigit()]
        if len(ticks) == 8:
            idled = sum(ticks[place - 1] for place in _IDLE_FIELDS)
            found[int(number)] = (idled, sum(ticks))
    return found
