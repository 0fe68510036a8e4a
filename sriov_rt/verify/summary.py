# SPDX-License-Identifier: Apache-2.0

"""Verdict on a directory of results: certified or not, and by which bound."""

import dataclasses
import hashlib
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.host import conditions
from sriov_rt.parse import cpulist
from sriov_rt.parse import duration
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.errors import ParseError
from sriov_rt.verify import certificate
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.load import NONE

#: Kernel arguments that latency depends on. Others may name disks and secrets,
#: and are only part of the digest.
ARGUMENTS = frozenset(
    {
        *("clocksource", "cpufreq.default_governor", "default_hugepagesz"),
        *("hugepages", "hugepagesz", "idle", "intel_idle.max_cstate"),
        *("intel_iommu", "intel_pstate", "iommu", "irqaffinity", "isolcpus"),
        *("kthread_cpus", "maxcpus", "mitigations", "nmi_watchdog", "nohz"),
        *("nohz_full", "nosmt", "nosoftlockup", "nowatchdog", "nr_cpus"),
        *(
            "numa_balancing",
            "preempt",
            "processor.max_cstate",
            "rcu_nocb_poll",
        ),
        *("rcu_nocbs", "rcupdate.rcu_normal_after_boot", "skew_tick"),
        *("threadirqs", "transparent_hugepage", "tsc"),
    }
)

#: Conditions that identify a machine; a page has only their digests.
_IDENTITIES = ("machine", conditions.BOOT)
_COMMAND_LINE = "kernel command line"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the latency of one directory.

    :param sentence: the verdict in words.
    :param is_certified: whether the measurements earn a certificate.
    :param reasons: why they do not, a sentence each.
    """

    sentence: str
    is_certified: bool
    reasons: tuple[str, ...] = ()


def of(found: Collection) -> Verdict | None:
    """Return the verdict on results, by the rules of a certificate.

    None where no latency was measured: throughput is not certified.
    """
    if not found.latency:
        return None
    results = list(found.latency.values())
    before, after = results[0].conditions, results[-1].conditions
    try:
        cpus = cpulist.parse_cpu_list(after.get("isolated CPUs", ""))
    except ParseError:
        cpus = CpuSet()
    names = {each.load for each in results}
    known = LOADS.get(results[0].load.partition("+")[0], NONE)
    load = known if len(names) == 1 else NONE
    measured = [each.measurement for each in results]
    subject = certificate.Subject("", "", cpus, before, after, found.emulated)
    reasons = tuple(certificate.refused(subject, measured, load))
    if not cpus:
        reasons = (*reasons, "no CPU was isolated")
    cpus = CpuSet(
        cpu.cpu for run in measured for cpu in run.cpus if cpu.samples
    )
    bounds = [certificate.of_cpu(cpu, measured) for cpu in cpus]
    worst = max((each.max_us for each in measured), default=0)
    often = min((each.once_in_s for each in bounds), default=0.0)
    said = (
        f"at most {worst} µs on CPUs {cpulist.format_cpu_list(cpus)} under "
        f"the load '{', '.join(sorted(names))}'; a worse latency comes less "
        f"than once in {duration.format_duration(int(often))} (95 %)"
    )
    if not bounds:
        said = "no CPU was measured"
    if reasons:
        return Verdict(f"Not certified. Measured: {said}.", False, reasons)
    return Verdict(f"Certified: {said}.", True)


def rows(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of conditions for a page that others read.

    What identifies a machine is replaced by a digest, as is the command line
    except for ARGUMENTS.
    """
    for name, value in found.items():
        if name == _COMMAND_LINE:
            kept = [
                each
                for each in value.split()
                if each.partition("=")[0] in ARGUMENTS
            ]
            yield name, " ".join(kept) or "none that latency hangs on"
        if name in (*_IDENTITIES, _COMMAND_LINE):
            digest = hashlib.sha256(value.encode()).hexdigest()[:16]
            yield f"{name}, digest", digest
        else:
            yield name, value


def preemption(found: Mapping[str, str]) -> str:
    """Return "yes" if the kernel is PREEMPT_RT; "no"; empty if unknown."""
    version = found.get("kernel version", "")
    if not version or version in (conditions.ABSENT, conditions.UNREADABLE):
        return ""
    words = ("PREEMPT_RT", "PREEMPT RT")
    return "yes" if any(each in version for each in words) else "no"
