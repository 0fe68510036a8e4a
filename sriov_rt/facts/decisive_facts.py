# SPDX-License-Identifier: Apache-2.0

"""DecisiveFacts: the facts of a host that decisions read.

Every decision takes only these facts, whether for the filter, for
``sriov-rt explain`` or for the agent's traits, so that no decision can read
what schedulers do not keep.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

from sriov_rt.codec import Unknown
from sriov_rt.facts.host_facts import HostFacts
from sriov_rt.facts.network import DecisiveNic
from sriov_rt.facts.network import DecisiveOnload
from sriov_rt.facts.network import VifFacts
from sriov_rt.facts.parts import ComputeFacts
from sriov_rt.facts.parts import CpuFacts
from sriov_rt.facts.parts import DecisiveKernel
from sriov_rt.facts.parts import DecisiveMaintenance
from sriov_rt.facts.parts import IrqFacts
from sriov_rt.facts.parts import IrqGroup
from sriov_rt.facts.parts import LabelFacts
from sriov_rt.facts.parts import LatencyFacts
from sriov_rt.facts.parts import MemoryFacts
from sriov_rt.facts.parts import OccupancyFacts
from sriov_rt.facts.parts import VirtFacts
from sriov_rt.facts.parts import for_guests
from sriov_rt.parse.cpulist import CpuSet

#: A decision names eight interrupts; the ninth shows that there are more.
_NAMED_IRQS = 9

B = TypeVar("B")


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveIrqs:
    """Where interrupts fire that can affect guests.

    :param for_guests: the interrupts on CPUs for guests. Those with the same
        verdict form one group with the first nine of their numbers: hosts
        with a queue for each CPU have hundreds.
    """

    default_affinity: CpuSet | Unknown
    for_guests: tuple[IrqGroup, ...] | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveNics:
    """The host's network interfaces, without their VFs."""

    nics: tuple[DecisiveNic, ...] | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveLabels:
    """NFD-style labels, by full key; see :class:`LabelFacts`.

    :param sources: None while no label source is stale.
    """

    values: Mapping[str, str] | Unknown
    sources: Mapping[str, str] | None | Unknown
    stale: tuple[str, ...] | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveFacts:
    """Facts of a host that decisions read: a tenth of all bytes.

    To leave a fact out, put it into a class of HostFacts for which there is a
    smaller class here, such as KernelFacts and DecisiveKernel.
    """

    cpus: CpuFacts
    kernel: DecisiveKernel
    memory: MemoryFacts
    irqs: DecisiveIrqs
    virt: VirtFacts
    nics: DecisiveNics
    onload: DecisiveOnload
    compute: ComputeFacts
    latency: LatencyFacts
    labels: DecisiveLabels
    vifs: VifFacts
    occupancy: OccupancyFacts
    maintenance: DecisiveMaintenance


def decisive(facts: HostFacts) -> DecisiveFacts:
    """Return the facts of a host that decisions read."""
    return DecisiveFacts(
        cpus=facts.cpus,
        kernel=_base(DecisiveKernel, facts.kernel),
        memory=facts.memory,
        irqs=_irqs(facts),
        virt=facts.virt,
        nics=_nics(facts),
        onload=_base(DecisiveOnload, facts.onload),
        compute=facts.compute,
        latency=facts.latency,
        labels=_labels(facts.labels),
        vifs=facts.vifs,
        occupancy=facts.occupancy,
        maintenance=_base(DecisiveMaintenance, facts.maintenance),
    )


def _base(cls: type[B], value: B) -> B:
    """Return a value as its base class, without the subclass's fields."""
    schema: Any = cls  # mypy does not check that B is a dataclass
    names = (field.name for field in dataclasses.fields(schema))
    return cls(*(getattr(value, name) for name in names))


def _nics(facts: HostFacts) -> DecisiveNics:
    nics = facts.nics.nics
    if isinstance(nics, Unknown):
        return DecisiveNics(nics)
    return DecisiveNics(tuple(_base(DecisiveNic, nic) for nic in nics))


def _labels(labels: LabelFacts) -> DecisiveLabels:
    sources: Mapping[str, str] | None | Unknown = labels.sources
    if not labels.stale and not isinstance(sources, Unknown):
        sources = None
    return DecisiveLabels(labels.values, sources, labels.stale)


def _irqs(facts: HostFacts) -> DecisiveIrqs:
    irqs: IrqFacts = facts.irqs
    if isinstance(irqs.groups, Unknown):
        return DecisiveIrqs(irqs.default_affinity, irqs.groups)
    guests = for_guests(facts.cpus, facts.compute)
    if isinstance(guests, Unknown):
        guests = CpuSet()
    by_class: dict[Any, list[IrqGroup]] = {}
    for each in irqs.groups:
        if not guests.isdisjoint(each.effective):
            key = (each.managed, each.fired, each.allowed <= guests)
            by_class.setdefault(key, []).append(each)
    kept = tuple(map(_as_one, by_class.values()))
    return DecisiveIrqs(irqs.default_affinity, kept)


def _as_one(groups: list[IrqGroup]) -> IrqGroup:
    irqs = set(itertools.chain(*(each.irqs for each in groups)))
    return dataclasses.replace(
        groups[0],
        allowed=CpuSet().union(*(each.allowed for each in groups)),
        effective=CpuSet().union(*(each.effective for each in groups)),
        irqs=tuple(sorted(irqs)[:_NAMED_IRQS]),
    )
