# SPDX-License-Identifier: Apache-2.0

"""Maintenance: why a host on hold takes no realtime guest."""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.decide.unknown_facts import unread
from sriov_rt.facts import DecisiveFacts
from sriov_rt.parse import timestamp
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.request import Request


def concerns(request: Request) -> bool:
    """Return whether a hold keeps a request off a host.

    It does so for realtime and latency requests, for which a host is changed
    and measured. A flavor that needs only a NIC is left to Nova's own
    services.
    """
    return request.realtime or request.max_latency_us is not None


def reasons(facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield the Reason of a host on hold.

    An expired hold is not in the facts: the host's clock decides.
    """
    found = facts.maintenance.hold
    if isinstance(found, Unknown):
        yield from unread("maintenance.hold", found)
    elif found is not None:
        until = found.until
        yield reason(
            "host_on_hold",
            who=found.who,
            why=found.why,
            since=timestamp.text(found.since),
            end=(
                "without an end"
                if until is None
                else f"until {timestamp.text(until)}"
            ),
        )
