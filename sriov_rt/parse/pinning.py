# SPDX-License-Identifier: Apache-2.0

"""Pinning of vCPUs to pCPUs, as oVirt writes it."""

import re

from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import numbers

#: The most vCPUs of an x86 guest (KVM_MAX_NR_VCPUS in arch/x86/kvm/Kconfig).
MAX_VCPUS = 4096

#: The most vCPU-pCPU pairs of one topology: 1,024 vCPUs that float over 256
#: pCPUs each. It limits the size of a short text with wide ranges.
MAX_PAIRS = 1024 * 256

_PINNING = "pinning"
_PIN = re.compile(r"([0-9]+)#([0-9^,-]+)")


def parse_pinning(text: str) -> tuple[tuple[int, cpulist.CpuSet], ...]:
    """Return the vCPUs and their pCPUs of ``0#6_1#7-9,^8``.

    The grammar is that of oVirt's CPU pinning topology: ``v#p`` items
    separated by ``_``, where p lists CPUs, ranges and, after ``^``,
    exclusions.

    :returns: (vCPU, pCPUs) pairs in the order of the text.
    :raises ParseError: if it is no such topology, names a vCPU twice, leaves
        one without a pCPU, or exceeds MAX_VCPUS, cpulist.MAX_CPUS,
        cpulist.MAX_TEXT or MAX_PAIRS.
    """
    errors.check_length(_PINNING, text, cpulist.MAX_TEXT)
    pins: dict[int, cpulist.CpuSet] = {}
    position = pairs = 0
    for each in text.split("_"):
        vcpu, pcpus = _parse_pin(text, each, position)
        pairs += len(pcpus)
        if vcpu in pins:
            raise errors.ParseError(
                _PINNING, text, f"vCPU {vcpu} is pinned twice", position
            )
        if pairs > MAX_PAIRS:
            raise errors.ParseError(
                _PINNING, text, f"more than {MAX_PAIRS} pins", position
            )
        pins[vcpu] = pcpus
        position += len(each) + 1
    return tuple(pins.items())


def _parse_pin(
    text: str, pin: str, position: int
) -> tuple[int, cpulist.CpuSet]:
    match = _PIN.fullmatch(pin)
    if match is None:
        raise errors.ParseError(
            _PINNING, text, "vCPU#pCPUs such as 0#6-7 expected", position
        )
    try:
        vcpu = numbers.parse_int(match[1], "vCPU", 0, MAX_VCPUS - 1)
        position += match.start(2)
        pcpus = cpulist.parse_cpu_list(match[2], exclusions=True)
    except errors.ParseError as error:
        raise errors.ParseError(
            _PINNING, text, error.problem, position + (error.position or 0)
        ) from None
    if not pcpus:
        raise errors.ParseError(
            _PINNING, text, f"vCPU {vcpu} has no pCPU", position
        )
    return vcpu, pcpus
