# SPDX-License-Identifier: Apache-2.0

"""NFD-style labels derived from the kernel's facts.

Keys and values are Node Feature Discovery's, with two exceptions. A PCI label
has the vendor alone (as in NFD with ``deviceLabelFields: [vendor]``).
``kernel-config.NO_HZ_FULL`` is set if CPUs are nohz_full, while NFD's only
says that the kernel supports it. An unknown fact makes no label.

The kernel also knows that some labels are absent, whatever anyone else says:
they have a source but no value. A PCI vendor is not among them, as NFD can be
configured to label devices that are no NICs.
"""

import types
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import KernelFacts
from sriov_rt.facts import LabelFacts
from sriov_rt.facts import NicFacts
from sriov_rt.parse import errors
from sriov_rt.parse import kernel as kernel_parse

PREFIX = "feature.node.kubernetes.io/"
TRUE = "true"

#: A label's name and value; None if the kernel lacks the feature.
Label = tuple[str, str | None]


def derive(cpus: CpuFacts, kernel: KernelFacts, nics: NicFacts) -> LabelFacts:
    """Return the labels, and the part of the facts that each came from."""
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    for source, labels in (
        ("cpus", _of_cpus(cpus)),
        ("kernel", _of_kernel(kernel)),
        ("nics", _of_nics(nics)),
    ):
        for name, value in labels:
            sources[PREFIX + name] = source
            if value is not None:
                values[PREFIX + name] = value
    return LabelFacts(
        types.MappingProxyType(values), types.MappingProxyType(sources), ()
    )


def _of_cpus(cpus: CpuFacts) -> Iterator[Label]:
    siblings, numa = cpus.siblings, cpus.numa
    if not isinstance(siblings, Unknown):
        shared = any(len(group) > 1 for group in siblings)
        # The only one of them that NFD sets in both cases (its source/cpu).
        yield "cpu-hardware_multithreading", "true" if shared else "false"
    if not isinstance(numa, Unknown):
        yield "memory-numa", _true(len(numa) > 1)
    if not isinstance(cpus.nohz_full, Unknown):
        yield "kernel-config.NO_HZ_FULL", _true(bool(cpus.nohz_full))


def _of_kernel(kernel: KernelFacts) -> Iterator[Label]:
    if not isinstance(kernel.preempt_rt, Unknown):
        yield "kernel-config.PREEMPT_RT", _true(kernel.preempt_rt)
    if isinstance(kernel.release, Unknown):
        return
    try:
        version = kernel_parse.parse_version(kernel.release)
    except errors.ParseError:
        return
    yield "kernel-version.full", version.full
    yield "kernel-version.major", str(version.major)
    yield "kernel-version.minor", str(version.minor)
    yield "kernel-version.revision", str(version.patch)


def _of_nics(nics: NicFacts) -> Iterator[Label]:
    if isinstance(nics.nics, Unknown):
        return
    for nic in nics.nics:
        if isinstance(nic.vendor, Unknown):
            continue
        yield f"pci-{nic.vendor}.present", TRUE
        if _more_than_none(nic.sriov_totalvfs):
            yield f"pci-{nic.vendor}.sriov.capable", TRUE
    for name, counts in (
        ("capable", [nic.sriov_totalvfs for nic in nics.nics]),
        ("configured", [nic.sriov_numvfs for nic in nics.nics]),
    ):
        some = any(_more_than_none(count) for count in counts)
        if some or not any(isinstance(each, Unknown) for each in counts):
            yield f"network-sriov.{name}", _true(some)


def _true(present: bool) -> str | None:
    return TRUE if present else None


def _more_than_none(count: int | Unknown) -> bool:
    return not isinstance(count, Unknown) and count > 0
