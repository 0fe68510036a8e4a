# SPDX-License-Identifier: Apache-2.0

"""sriov-rt's compute driver: which flavors need it, and whether it runs."""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.decide.unknown_facts import unread
from sriov_rt.facts import DecisiveFacts
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.request import Request
from sriov_rt.request import words


def is_needed(request: Request) -> bool:
    """Return whether a flavor requests more than Nova's own driver does.

    Nova's driver silently ignores pinning and scheduling of emulator and I/O
    threads, stripping, ports of ours and Onload. A kernel, labels, a NIC or a
    certificate concern the host alone.
    """
    return bool(
        request.realtime
        or request.guest is not words.Guest.STANDARD
        or request.vif is not None
        or request.onload
        or request.vcpu_sched
        or request.iothread_sched
        or request.emulator_sched
    )


def reasons(facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield a Reason if no nova-compute with our driver runs on the host."""
    driver = facts.compute.driver
    if driver is None:
        yield reason("compute_driver_missing")
    elif isinstance(driver, Unknown):
        yield from unread("compute.driver", driver)
