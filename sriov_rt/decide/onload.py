# SPDX-License-Identifier: Apache-2.0

"""Onload: its requirements on a host, and the NICs that are free for it.

Accelerated ports bypass the kernel's macvlan. Two of them in one network on
one NIC do not reach each other, and must not be placed there.
"""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.decide.unknown_facts import unknown
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import Endpoint
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.request import Attachment
from sriov_rt.request import Request


def reasons(request: Request, facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield the Reasons against an instance that needs Onload."""
    yield from usable(facts)
    yield from _profile(request, facts)
    yield from nics(facts, request.attachments)
    yield from same_host(facts, request.attachments, facts.vifs.endpoints)


def usable(facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield the Reasons why workloads of a host cannot use Onload."""
    onload = facts.onload
    needed = (
        ("modules", onload.modules, "onload", "kernel module onload"),
        ("devices", onload.devices, "/dev/onload", "/dev/onload"),
    )
    for name, found, item, words_for_it in needed:
        if isinstance(found, Unknown):
            yield unknown(f"onload.{name}", found)
        elif item not in found:
            yield reason("onload_unusable", missing=words_for_it)
    if isinstance(onload.library, Unknown):
        yield unknown("onload.library", onload.library)
    elif onload.library is None:
        yield reason("onload_unusable", missing="libonload.so")
    elif onload.library_fits is False:
        # Older agents do not report it.
        version = onload.version
        known = version if isinstance(version, str) else "unknown"
        yield reason("onload_other_release", version=known)


def nics(
    facts: DecisiveFacts, attachments: Iterable[Attachment] = ()
) -> Iterator[Reason]:
    """Yield a Reason for each physical network without a NIC for Onload.

    Only requested physical networks in the host's ``[vif] parents`` are
    checked: an instance may have a port of another driver on another one, for
    management. If none is in ``[vif] parents``, all are checked.
    """
    able = facts.onload.nics
    if isinstance(able, Unknown):
        yield unknown("onload.nics", able)
        return
    if not able:
        yield reason("onload_no_nic", where="")
        return
    named = {each.physical_network for each in attachments}
    requested = sorted(each for each in named if each is not None)
    if not requested:
        return
    pools = facts.vifs.pools
    if isinstance(pools, Unknown):
        yield unknown("vifs.pools", pools)
        return
    served = [each for each in requested if pools.get(each)]
    for each in served or requested:
        if not any(nic in able for nic in pools.get(each, ())):
            yield reason(
                "onload_no_nic", where=_where(each), physical_network=each
            )


def same_host(
    facts: DecisiveFacts,
    attachments: Collection[Attachment],
    endpoints: Iterable[Endpoint] | Unknown,
) -> Iterator[Reason]:
    """Yield a Reason for each network with no NIC left for Onload.

    Reasons of :func:`nics` are not repeated.

    :param endpoints: the host's accelerated ports, without the instance's own.
    """
    if all(each.network is None for each in attachments):
        return
    if isinstance(endpoints, Unknown):
        yield unknown("vifs.endpoints", endpoints)
        return
    taken: dict[str, set[str]] = {}
    for endpoint in endpoints:
        taken.setdefault(endpoint.network, set()).add(endpoint.nic)
    for each in attachments:
        network, physical = each.network, each.physical_network
        if network is None:
            continue
        gone = taken.get(network)
        if not gone:
            continue
        able = _able(facts, physical)
        if able and able <= gone:
            yield reason(
                "onload_same_host",
                where=_where(physical),
                network=network,
                physical_network=physical,
                nics=sorted(able),
            )


def physical_network(facts: DecisiveFacts, nic: str) -> str | None:
    """Return the physical network that a NIC of a host is on.

    :returns: None if it is not known, or on several.
    """
    pools = facts.vifs.pools
    if isinstance(pools, Unknown):
        return None
    found = [name for name, pool in pools.items() if nic in pool]
    return found[0] if len(found) == 1 else None


def _able(facts: DecisiveFacts, physical_network: str | None) -> set[str]:
    """Return the NICs on a physical network that Onload can use.

    :param physical_network: None for any that the host serves.
    """
    able, pools = facts.onload.nics, facts.vifs.pools
    if isinstance(able, Unknown) or isinstance(pools, Unknown):
        return set()
    if physical_network is None:
        found = {nic for pool in pools.values() for nic in pool}
    else:
        found = set(pools.get(physical_network, ()))
    return found & able.keys()


def _where(physical_network: str | None) -> str:
    if physical_network is None:
        return ""
    return f" on physical network {physical_network}"


def _profile(request: Request, facts: DecisiveFacts) -> Iterator[Reason]:
    onload, profile = facts.onload, request.onload_profile
    if profile is None:
        return
    if isinstance(onload.profiles, Unknown):
        yield unknown("onload.profiles", onload.profiles)
    elif profile not in onload.profiles:
        yield reason("onload_profile_missing", profile=profile)
