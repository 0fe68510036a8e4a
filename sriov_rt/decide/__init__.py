# SPDX-License-Identifier: Apache-2.0

"""The decision: why a host does not satisfy a Request.

Pure: the scheduler's filter, ``sriov-rt explain``, ``sriov-rt host check``
and the agent's traits all call it.
"""

import dataclasses
from collections.abc import Iterator

from sriov_rt.decide import capacity
from sriov_rt.decide import compute_driver
from sriov_rt.decide import demands
from sriov_rt.decide import maintenance
from sriov_rt.decide import realtime
from sriov_rt.facts import DecisiveFacts
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.request import Request


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Circumstances of a decision, besides the facts.

    :param now: Unix time, seconds.
    :param facts_age_s: seconds since the facts were last confirmed; None
        for facts that have no age, such as a file's.
    :param max_age_s: seconds from which facts are stale.
    :param agents: list, as text, of the agents that report alternately as
        the host; empty for one agent.
    :param placed_by_nova: whether Nova picks the pCPUs, from
        ``cpu_dedicated_set`` and by the flavor's ``hw:`` extra specs.
    """

    now: float
    facts_age_s: float | None = None
    max_age_s: float = 0.0
    agents: str = ""
    placed_by_nova: bool = True


def why_not(
    request: Request, facts: DecisiveFacts | None, view: View
) -> tuple[Reason, ...]:
    """Return every Reason why the host does not satisfy the request.

    :param facts: None for a host that was never heard of.
    :returns: empty if the host satisfies the request.
    """
    return tuple(reasons(request, facts, view))


def satisfies(
    request: Request, facts: DecisiveFacts | None, view: View
) -> bool:
    """Return whether the host satisfies the request; stop at a Reason."""
    return next(reasons(request, facts, view), None) is None


def reasons(
    request: Request, facts: DecisiveFacts | None, view: View
) -> Iterator[Reason]:
    """Yield the Reasons of :func:`why_not` one by one."""
    if facts is None:
        yield silent(view.agents)
        return
    if view.facts_age_s is not None and view.facts_age_s > view.max_age_s:
        yield reason(
            "facts_stale",
            age_s=int(view.facts_age_s),
            max_age_s=int(view.max_age_s),
        )
        return
    if maintenance.concerns(request):
        yield from maintenance.reasons(facts)
    if request.realtime:
        if view.placed_by_nova and not request.dedicated_cpus:
            mixed = request.mixed_cpus
            yield reason(
                "cpu_policy_mixed" if mixed else "cpu_policy_not_dedicated"
            )
        yield from realtime.reasons(facts, placed_by_nova=view.placed_by_nova)
    if view.placed_by_nova:
        yield from capacity.huge_pages(request, facts)
        if compute_driver.is_needed(request):
            yield from compute_driver.reasons(facts)
    yield from demands.reasons(request, facts, view.now)


def silent(agents: str) -> Reason:
    """Return the Reason of a host without facts.

    :param agents: see :class:`View`.
    """
    if agents:
        return reason("agents_of_one_name", agents=agents)
    return reason("facts_missing")


def why_never(
    request: Request, vcpus: int, memory_mib: int, facts: DecisiveFacts | None
) -> tuple[Reason, ...]:
    """Return why not even an empty host could hold a flavor.

    For people: Nova judges it itself, and counts other instances too.

    :param vcpus: the flavor's vCPUs.
    :param memory_mib: the flavor's memory, MiB.
    :param facts: None for a host that was never heard of.
    """
    if facts is None:
        return ()
    return tuple(capacity.reasons(request, vcpus, memory_mib, facts))
