# SPDX-License-Identifier: Apache-2.0

"""Keeping off the CPU that serves a PF's mailbox.

igbvf waits for the PF's answer with bottom halves off (igbvf_probe holds
mbx_lock in drivers/net/ethernet/intel/igbvf). On PREEMPT_RT the thread of the
PF's mailbox interrupt cannot run on that CPU during the wait: the VF gives up
with "PF still in reset state". So drivers are bound from another CPU.
"""

import contextlib
import os
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import DEVICES


@contextlib.contextmanager
def away_from(root: Root, address: str) -> Iterator[frozenset[int]]:
    """Keep this thread off the CPU of a PF's mailbox, if it has others.

    It stays on CPUs that it may run on, and so off isolated ones.

    :param address: PCI address of the PF.
    :returns: the CPUs that it runs on inside the block.
    """
    before = frozenset(os.sched_getaffinity(0))
    others = before - _serving(root, address)
    if not others or others == before:
        yield before
        return
    os.sched_setaffinity(0, others)
    try:
        yield others
    finally:
        os.sched_setaffinity(0, before)


def _serving(root: Root, address: str) -> frozenset[int]:
    """Return the CPUs that a device's mailbox interrupt fires on.

    Drivers name the interrupt that serves no queue after the interface
    (igb_request_msix); those of queues may be on all CPUs. If no interrupt has
    that name, any may be the mailbox's.
    """
    device = f"{DEVICES}/{address}"
    interfaces = known_or(root.list_dir(f"{device}/net"), ())
    numbers = root.list_dir(f"{device}/msi_irqs")
    if isinstance(numbers, Unknown):
        return frozenset()
    mailbox = [
        number
        for number in numbers
        if any(
            root.exists(f"proc/irq/{number}/{name}") is True
            for name in interfaces
        )
    ]
    return frozenset().union(
        *(_fires_on(root, number) for number in mailbox or numbers)
    )


def _fires_on(root: Root, number: str) -> frozenset[int]:
    for name in ("effective_affinity_list", "smp_affinity_list"):
        cpus = values.cpu_set(root, f"proc/irq/{number}/{name}")
        if not isinstance(cpus, Unknown) and cpus:
            return frozenset(cpus)
    return frozenset()
