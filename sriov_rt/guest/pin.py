# SPDX-License-Identifier: Apache-2.0

"""Guest hook that checks and completes a guest's CPU pins."""

from collections import Counter

from sriov_rt.guest import cpu_placement
from sriov_rt.guest import cputune
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.hook import Context
from sriov_rt.guest.hook import Pinning
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.sentences import reason
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import cpuset
from sriov_rt.guest.xml import cpusets
from sriov_rt.guest.xml import text_of
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list

_NONE = CpuSet()


class Pin:
    """Puts vCPUs on quiet pCPUs and the guest's other threads off them.

    Existing pins are kept and checked: a realtime vCPU that is not on
    isolated and nohz_full pCPUs of its own is refused.
    """

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Pin what is unpinned, and check the pins of realtime vCPUs."""
        if domain.is_container:
            _pin_container(domain, context, report)
            return
        realtime = cputune.realtime_vcpus(domain, context.request)
        if not realtime and not context.pinning:
            return
        pins = domain.pins
        if context.pinning:
            _take(context.pinning, pins, domain, report)
        elif not pins:
            _find(domain, context, report)
        pins = domain.pins
        if pins and not report.refusals:
            checked = {v: pins[v] for v in realtime if v in pins}
            taken = _NONE.union(*(checked or pins).values())
            _check(realtime, checked, domain, context, report)
            _place_others(taken, domain, context, report)


def _take(
    pinning: Pinning,
    pins: cpu_placement.Pins,
    domain: Domain,
    report: Recorder,
) -> None:
    """Write the given pinning."""
    if cpu_placement.beyond(pinning, domain.vcpus, report):
        return
    given = dict(pinning)
    if pins and dict(pins) != given:
        differ = {
            vcpu
            for vcpu in given.keys() | pins.keys()
            if given.get(vcpu) != pins.get(vcpu)
        }
        report.refuse(reason("pins_differ", vcpus=format_cpu_list(differ)))
    elif not pins:
        _write(given, "as the pinning that is given says", domain, report)


def _find(domain: Domain, context: Context, report: Recorder) -> None:
    """Find pCPUs for a domain without pins."""
    if domain.from_nova:
        # Nova would hand the same pCPUs to the next instance.
        report.refuse(reason("cpu_policy_not_dedicated"))
        return
    if context.facts is None:
        report.note("no vCPU was pinned: there are no facts of the host")
        return
    found = cpu_placement.choose(domain, context.facts, report, context.taken)
    if found is None:
        return
    node, pcpus = found
    pins = {
        vcpu: CpuSet((pcpu,))
        for vcpu, pcpu in zip(sorted(domain.vcpus), pcpus, strict=True)
    }
    _write(pins, f"quiet pCPUs of NUMA node {node}", domain, report)


def _write(
    pins: cpu_placement.Pins, why: str, domain: Domain, report: Recorder
) -> None:
    for vcpu, cpus in sorted(pins.items()):
        attributes = {"vcpu": str(vcpu), "cpuset": format_cpu_list(cpus)}
        cputune.add(domain, "vcpupin", attributes, why, report)


def _check(
    realtime: CpuSet,
    checked: cpu_placement.Pins,
    domain: Domain,
    context: Context,
    report: Recorder,
) -> None:
    """Refuse pins that are unfit for realtime vCPUs.

    :param checked: pins of the realtime vCPUs that have any.
    """
    if len(checked) < len(realtime):
        unpinned = realtime - checked.keys()
        report.refuse(
            reason("vcpus_unpinned", vcpus=format_cpu_list(unpinned))
        )
    if shared := shared_pcpus(checked, domain.pins):
        report.refuse(
            reason("vcpus_share_pcpus", cpus=format_cpu_list(shared))
        )
    own = _NONE.union(*checked.values())
    if theirs := own & context.taken:
        report.refuse(reason("pcpus_taken", cpus=format_cpu_list(theirs)))
    if context.facts is not None:
        cpu_placement.check(checked, context.facts, report)
    elif checked:
        report.note("pins were not checked: there are no facts of the host")


def shared_pcpus(
    checked: cpu_placement.Pins, pins: cpu_placement.Pins
) -> CpuSet:
    """Return the pCPUs that a checked vCPU shares with any other vCPU."""
    every = [cpu for cpus in pins.values() for cpu in cpus]
    if len(set(every)) == len(every):
        return _NONE
    users = Counter(every)
    own = _NONE.union(*checked.values())
    return CpuSet(cpu for cpu in own if users[cpu] > 1)


def _place_others(
    taken: CpuSet, domain: Domain, context: Context, report: Recorder
) -> None:
    """Put emulator and I/O threads off the realtime vCPUs' pCPUs.

    With emulator_threads_policy or a realtime mask, Nova has put them
    elsewhere, and they stay there. Otherwise Nova leaves them on the pCPUs of
    the vCPUs, where a FIFO vCPU would starve them.
    """
    astray = _astray(taken, domain)
    if not astray:
        return
    if context.facts is None:
        names = ", ".join(dict.fromkeys(tag for tag, _, _ in astray))
        report.note(
            f"{names} left where they are: there are no facts of the host"
        )
        return
    cpus = cpu_placement.housekeeping(context.facts, taken, report)
    if cpus is None:
        return
    # By default libvirt puts them on the domain's cpuset.
    text = format_cpu_list(cpus & (domain.cpuset or cpus) or cpus)
    for tag, naming, element in astray:
        given = {**naming, "cpuset": text}
        if element is None:
            why = "nothing had placed it"
            cputune.add(domain, tag, given, why, report)
        else:
            why = "it was on pCPUs of realtime vCPUs"
            cputune.alter(element, given, why, report)


def _astray(
    taken: CpuSet, domain: Domain
) -> list[tuple[str, dict[str, str], Element | None]]:
    """Return the threads that are unpinned or on taken pCPUs.

    :returns: for each the tag of its pin, the attributes that name the
        thread, and the pin.
    """
    found: list[tuple[str, dict[str, str], Element | None]] = []
    placed = set()
    emulator, iothreads = (
        domain.tunes("emulatorpin"),
        domain.tunes("iothreadpin"),
    )
    for pin, cpus in cpusets(emulator + iothreads, "cpuset"):
        placed.add(pin.get("iothread"))
        if not taken.isdisjoint(cpus):
            found.append((pin.tag, {}, pin))
    if not emulator:
        found.append(("emulatorpin", {}, None))
    for number in domain.iothreads:
        name = str(number)
        if name not in placed:
            found.append(("iothreadpin", {"iothread": name}, None))
    return found


def _pin_container(domain: Domain, context: Context, report: Recorder) -> None:
    """Confine a container to quiet pCPUs, or check its existing cpuset.

    libvirt binds a container's controller, and so all processes in it, to the
    cpuset of ``<vcpu>`` (virLXCControllerSetupCpuAffinity in its
    src/lxc/lxc_controller.c); ``<vcpupin>`` means nothing to it.
    Nova's own driver assigns no pCPUs to containers (for the reason, and our
    driver, see sriov_rt/nova/containers.py). pCPUs of our choice could belong
    to another guest, so a realtime container from Nova is refused unless its
    caller tracks pCPUs and gives a pinning.
    """
    realtime = context.request.realtime_cpus
    if not realtime and not context.pinning:
        return
    cpus = _cpuset(domain, context, report)
    if cpus is None:
        return
    if not realtime:
        return
    if len(cpus) > 1:
        report.note(
            f"the scheduler moves no task among isolated pCPUs "
            f"{format_cpu_list(cpus)}: the container's own processes have "
            "to choose theirs"
        )
    if context.facts is None:
        report.note("the cpuset was not checked: there are no facts")
    else:
        cpu_placement.check({0: cpus}, context.facts, report)


def _cpuset(
    domain: Domain, context: Context, report: Recorder
) -> CpuSet | None:
    """Return the container's cpuset, set if absent; None after a refusal."""
    vcpu = domain.part("vcpu")
    text = None if vcpu is None else vcpu.get("cpuset")
    had = None if text is None else cpuset(text)
    if context.pinning:
        if cpu_placement.beyond(context.pinning, domain.vcpus, report):
            return None
        cpus = CpuSet().union(*(p for _, p in context.pinning))
        why = "as the pinning that is given says"
    elif domain.from_nova:
        # Its cpuset is Nova's cpu_shared_set, not pCPUs of its own.
        report.refuse(reason("container_unpinned"))
        return None
    elif had is not None:
        return had
    elif context.facts is None:
        report.note("no cpuset was set: there are no facts of the host")
        return None
    else:
        found = cpu_placement.choose(
            domain, context.facts, report, context.taken
        )
        if found is None:
            return None
        node, pcpus = found
        cpus = CpuSet(pcpus)
        why = f"quiet pCPUs of NUMA node {node}"
    if cpus != had:
        element = domain.ensure("vcpu")
        if not text_of(element):
            element.text = str(len(cpus))
        element.set("cpuset", format_cpu_list(cpus))
        now = {"cpuset": format_cpu_list(cpus)}
        report.changed("set", "vcpu", now, why)
    return cpus
