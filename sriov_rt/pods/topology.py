# SPDX-License-Identifier: Apache-2.0

"""Judgement of whether the kubelet's topology manager admits a pod. Pure.

The rules are those of pkg/kubelet/cm/topologymanager of Kubernetes 1.34. Each
resource with NUMA nodes hints at every set of them with enough of it free, and
prefers sets as small as an idle Node would need. A rejecting policy requires
one set that all resources prefer. Memory of NUMA nodes is not judged.
"""

import dataclasses
import fractions
import itertools
import re
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.pods import manifest

Amounts = Mapping[str, fractions.Fraction]

_NONE = fractions.Fraction()

#: The most NUMA nodes of a Node; with more the manager does not start.
MAX_NODES = 8

#: Policies that can reject a pod, and the most NUMA nodes of one set. "none"
#: and "best-effort" never reject.
REJECTING: Mapping[str, int] = {"restricted": MAX_NODES, "single-numa-node": 1}

#: Scope of the alignment: each container in turn, or all of them together.
CONTAINER = "container"
POD = "pod"

#: Prefix of the older topologyPolicies to the policy's name; their suffix is
#: the scope, as in SingleNUMANodePodLevel.
_OLDER = {
    "SingleNUMANode": "single-numa-node",
    "Restricted": "restricted",
    "BestEffort": "best-effort",
}

_NUMBER = re.compile(r"[0-9]+$")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A container of a pod, or all of them.

    :param name: name of the container; None for the whole pod.
    :param needed: exclusive CPUs (of a Guaranteed pod) and devices (of any).
    :param is_initial: whether it ends before the others start, which then
        reuse its resources.
    """

    name: str | None
    needed: Amounts
    is_initial: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A part of a pod that the topology manager rejects.

    :param zones: name and free amounts of each NUMA node before this part.
    """

    part: Part
    policy: str
    scope: str
    zones: tuple[tuple[str, Amounts], ...]


@dataclasses.dataclass(slots=True)
class _Zone:
    name: str
    free: dict[str, fractions.Fraction]
    total: Mapping[str, fractions.Fraction]


def why_not(
    topology: Mapping[str, Any], containers: Sequence[Part], whole: Part
) -> Split | None:
    """Return the part of a pod that a topology manager rejects; None if none.

    :param topology: the Node's NodeResourceTopology.
    :param containers: containers in the kubelet's order of starting them.
    :param whole: the whole pod.
    """
    policy, scope = settings(topology)
    most = REJECTING.get(policy)
    if most is None:
        return None
    zones = list(_zones(topology))
    known = {key for zone in zones for key in zone.total}
    # Amounts of initial containers on each zone, which the others reuse.
    reused: dict[str, dict[int, fractions.Fraction]] = {}
    for part in [whole] if scope == POD else containers:
        needed = {key: n for key, n in part.needed.items() if key in known}
        before = tuple((zone.name, dict(zone.free)) for zone in zones)
        chosen = _set(zones, needed, reused, most)
        if needed and chosen is None:
            return Split(
                dataclasses.replace(part, needed=needed), policy, scope, before
            )
        _take(zones, needed, reused, chosen or (), part.is_initial)
    return None


def settings(topology: Mapping[str, Any]) -> tuple[str, str]:
    """Return the policy and scope of a Node's topology manager.

    If it is not stated, the scope is ``container``, the kubelet's default.
    """
    stated = {
        manifest.text(each, "name"): manifest.text(each, "value")
        for each in manifest.objects(topology, "attributes")
    }
    policy = stated.get("topologyManagerPolicy", "")
    scope = stated.get("topologyManagerScope", "")
    for older in manifest.words(topology, "topologyPolicies"):
        for start, name in _OLDER.items():
            if older.startswith(start):
                policy = policy or name
                scope = scope or (POD if older.endswith("PodLevel") else "")
    return policy or "none", scope or CONTAINER


def _zones(topology: Mapping[str, Any]) -> Iterator[_Zone]:
    found = [
        each
        for each in manifest.objects(topology, "zones")
        if manifest.text(each, "type") in ("Node", "")
    ]
    for each in sorted(found, key=_number)[:MAX_NODES]:
        free, total = {}, {}
        for resource in manifest.objects(each, "resources"):
            amounts = manifest.amounts(resource)
            name = manifest.text(resource, "name")
            free[name] = amounts.get("available", _NONE)
            total[name] = amounts.get(
                "capacity", amounts.get("allocatable", free[name])
            )
        yield _Zone(manifest.text(each, "name"), free, total)


def _number(zone: Mapping[str, Any]) -> int:
    found = _NUMBER.search(manifest.text(zone, "name"))
    return int(found[0]) if found else 0


def _set(
    zones: Sequence[_Zone],
    needed: Amounts,
    reused: Mapping[str, Mapping[int, fractions.Fraction]],
    most: int,
) -> tuple[int, ...] | None:
    """Return the zones that all resources prefer; None if there are none."""
    smallest = {
        _smallest(zones, key, amount) for key, amount in needed.items()
    }
    if len(smallest) != 1:
        # The preferred sets differ in size, and so in their zones.
        return None
    (size,) = smallest
    if size is None or size > most:
        return None
    again = {zone for key in needed for zone in reused.get(key, ())}
    for chosen in itertools.combinations(range(len(zones)), size):
        if again <= set(chosen) and all(
            sum((zones[each].free.get(key, _NONE) for each in chosen), _NONE)
            >= amount
            for key, amount in needed.items()
        ):
            return chosen
    return None


def _smallest(
    zones: Sequence[_Zone], key: str, amount: fractions.Fraction
) -> int | None:
    """Return how many zones an idle Node needs; None if all are too few."""
    totals = sorted(
        (zone.total.get(key, _NONE) for zone in zones), reverse=True
    )
    for size in range(1, len(totals) + 1):
        if sum(totals[:size], _NONE) >= amount:
            return size
    return None


def _take(
    zones: Sequence[_Zone],
    needed: Amounts,
    reused: dict[str, dict[int, fractions.Fraction]],
    chosen: Sequence[int],
    is_initial: bool,
) -> None:
    """Take the needs of a part from zones, reusable amounts first."""
    for key, amount in needed.items():
        again = reused.setdefault(key, {})
        for zone in sorted(chosen, key=lambda each: -again.get(each, _NONE)):
            taken = min(amount, zones[zone].free.get(key, _NONE))
            amount -= taken
            if is_initial:
                again[zone] = max(again.get(zone, _NONE), taken)
                continue
            zones[zone].free[key] -= taken
            left = again.pop(zone, _NONE) - taken
            if left > 0:
                again[zone] = left
