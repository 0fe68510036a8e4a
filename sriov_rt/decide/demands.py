# SPDX-License-Identifier: Apache-2.0

"""Demands of a Request on a host, besides realtime pCPUs."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.decide import onload
from sriov_rt.decide.unknown_facts import unknown
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import DecisiveNic
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.reason import Reason
from sriov_rt.reason import first_of
from sriov_rt.reason import reason
from sriov_rt.request import Request
from sriov_rt.request import words

#: Parents that one sentence lists.
_LISTED = 8

#: The kernel module that each kind of port needs on the host.
VIF_MODULES = {
    words.VifKind.MACVLAN: "macvlan",
    words.VifKind.IPVLAN: "ipvlan",
}


def reasons(
    request: Request, facts: DecisiveFacts, now: float
) -> Iterator[Reason]:
    """Yield the Reasons why the host lacks a requested thing.

    :param now: Unix time in seconds; certificates expire.
    """
    if request.kernel is words.Kernel.PREEMPT_RT:
        yield from preempt_rt(facts)
    if request.node_selector is not None:
        yield from _labels(request, facts)
    if request.nic is not None or request.vif is not None:
        yield from _nics(request, facts)
    if request.vif is not None:
        yield from module(facts, VIF_MODULES.get(request.vif.kind))
        yield from no_parents(facts)
    if request.onload:
        yield from onload.reasons(request, facts)
    if request.max_latency_us is not None:
        yield from _latency(request.max_latency_us, facts, now)


#: The package of a distribution's realtime kernel, by ID of os-release.
_PACKAGES: Mapping[str, str] = {
    "almalinux": "kernel-rt, of the repository rt",
    "arch": "linux-rt",
    "centos": "kernel-rt, of the repository rt",
    "debian": "Debian: linux-image-rt-amd64",
    "opensuse-tumbleweed": "kernel-rt",
    "rhel": "kernel-rt, of RHEL for Real Time",
    "rocky": "kernel-rt, of the repository rt",
    "sles": "kernel-rt",
    "ubuntu": "by 'pro enable realtime-kernel'",
}


def preempt_rt(facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield a Reason if the kernel is not PREEMPT_RT."""
    preempt_rt, release = facts.kernel.preempt_rt, facts.kernel.release
    if isinstance(preempt_rt, Unknown):
        yield unknown("kernel.preempt_rt", preempt_rt)
    elif not preempt_rt:
        named = "?" if isinstance(release, Unknown) else release
        where = facts.kernel.distribution
        package = "of its distribution"
        if isinstance(where, str):
            package = _PACKAGES.get(where, package)
        yield reason("kernel_not_rt", release=named, package=package)


def _labels(request: Request, facts: DecisiveFacts) -> Iterator[Reason]:
    requested, labels = request.node_selector, facts.labels
    assert requested is not None
    values, sources, stale = labels.values, labels.sources, labels.stale
    for part in (values, sources, stale):
        if isinstance(part, Unknown):
            yield unknown("labels", part)
            return
    assert not isinstance(values, Unknown)
    assert not isinstance(sources, Unknown)
    assert not isinstance(stale, Unknown)
    if not stale and requested.matches(values):
        return
    for requirement in requested.requirements:
        found = values.get(requirement.key)
        source = None if sources is None else sources.get(requirement.key)
        if stale and (down := _down(source, stale)):
            yield reason(
                "labels_stale",
                selector=str(requested),
                requirement=str(requirement),
                source=", ".join(down),
            )
        elif not requirement.matches(values):
            yield reason(
                "labels_mismatch",
                selector=str(requested),
                requirement=str(requirement),
                found="no such label" if found is None else f"'{found}'",
            )


def _down(source: str | None, stale: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stale sources that a label depends on.

    :param source: the label's source; None for an unset label, which any
        stale source may have set.
    """
    if source is None:
        return stale
    return (source,) if source in stale else ()


def serves(nic: DecisiveNic, requested: words.Nic | None) -> bool:
    """Return whether a NIC satisfies the flavor.

    :param requested: None for any NIC.
    """
    if requested is None or not requested.vendors:
        return True
    if nic.vendor not in requested.vendors:
        return False
    return requested.device in (None, nic.device, nic.vf_device)


def not_ethernet(name: str, nics: Iterable[DecisiveNic]) -> Reason:
    """Return the Reason for a host whose NICs are not Ethernet."""
    links = ", ".join(f"{nic.name}: {nic.link}" for nic in nics)
    return reason("nic_not_ethernet", nic=name, links=links)


def _unread(
    nic: DecisiveNic, requested: words.Nic | None
) -> Iterator[Unknown]:
    """Yield the unknown ids that :func:`serves` would need for a NIC."""
    if isinstance(nic.vendor, Unknown):
        yield nic.vendor
    elif requested is not None and nic.vendor in requested.vendors:
        for value in (nic.device, nic.vf_device):
            if isinstance(value, Unknown):
                yield value


def _nics(request: Request, facts: DecisiveFacts) -> Iterator[Reason]:
    nics = facts.nics.nics
    if isinstance(nics, Unknown):
        yield unknown("nics", nics)
        return
    name = "PCI"
    if request.nic is not None and request.nic.vendors:
        name = request.nic.name
    found = [nic for nic in nics if serves(nic, request.nic)]
    serving = [nic for nic in found if nic.is_ethernet]
    if found and not serving:
        yield not_ethernet(name, found)
        return
    if not serving:
        unread = [why for nic in nics for why in _unread(nic, request.nic)]
        if unread:
            yield unknown("nics.device", unread[0])
        else:
            yield reason("nic_missing", nic=name)
        return
    if request.vif is None or request.vif.kind is not words.VifKind.VF:
        return
    counts = [nic.sriov_numvfs for nic in serving]
    if any(not isinstance(count, Unknown) and count for count in counts):
        return
    for count in counts:
        if isinstance(count, Unknown):
            yield unknown("nics.sriov_numvfs", count)
            return
    yield reason("no_vfs", nic=name)


def no_parents(facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield why a host with configured parents has none."""
    pools = facts.vifs.pools
    if not isinstance(pools, Unknown) and not any(pools.values()):
        yield from missing_parents(facts)


def missing_parents(facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield a Reason for each network with a missing configured parent."""
    missing = facts.vifs.missing
    if isinstance(missing, Unknown):
        return  # older agents do not report it
    for network, names in missing.items():
        yield reason(
            "parents_missing",
            physical_network=network,
            parents=first_of(names, _LISTED),
        )


def module(facts: DecisiveFacts, name: str | None) -> Iterator[Reason]:
    """Yield a Reason if the kernel lacks a module."""
    if name is None:
        return
    modules = facts.kernel.modules
    if isinstance(modules, Unknown):
        yield unknown("kernel.modules", modules)
    elif modules.get(name, "absent") == "absent":
        yield reason("module_missing", module=name)


def _latency(
    requested: int, facts: DecisiveFacts, now: float
) -> Iterator[Reason]:
    certificate = facts.latency.certificate
    if isinstance(certificate, Unknown):
        yield unknown("latency.certificate", certificate)
        return
    if certificate is None:
        yield reason("latency_uncertified")
        return
    if certificate.expires_at <= now:
        yield reason(
            "latency_expired", ago_s=int(now - certificate.expires_at)
        )
    if certificate.withdrawn:
        yield reason("latency_withdrawn", why=certificate.withdrawn)
    dedicated = facts.compute.dedicated
    if isinstance(dedicated, CpuSet) and certificate.cpus is not None:
        left = format_cpu_list(dedicated - certificate.cpus)
        if left:
            yield reason("latency_unmeasured", cpus=left)
    release = facts.kernel.release
    if isinstance(release, Unknown):
        yield unknown("kernel.release", release)
    elif release != certificate.kernel:
        yield reason(
            "latency_other_kernel",
            certified=certificate.kernel,
            release=release,
        )
    if certificate.max_latency_us > requested:
        yield reason(
            "latency_above",
            certified_us=certificate.max_latency_us,
            wanted_us=requested,
        )
