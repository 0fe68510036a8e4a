# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""HostFacts as one value, and as JSON."""

import dataclasses
import hashlib
import itertools
import json
import typing
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.codec import Unknown
from sriov_rt.facts.network import Nic
from sriov_rt.facts.network import NicFacts
from sriov_rt.facts.network import OnloadFacts
from sriov_rt.facts.network import VifFacts
from sriov_rt.facts.parts import NOT_TOLD
from sriov_rt.facts.parts import ComputeFacts
from sriov_rt.facts.parts import CpuFacts
from sriov_rt.facts.parts import IrqFacts
from sriov_rt.facts.parts import IrqGroup
from sriov_rt.facts.parts import KernelFacts
from sriov_rt.facts.parts import LabelFacts
from sriov_rt.facts.parts import LatencyFacts
from sriov_rt.facts.parts import MemoryFacts
from sriov_rt.facts.parts import VirtFacts
from sriov_rt.parse.cpulist import CpuSet

#: Raised by one when a reader of the old form would misread the new one.
#: Fields that come on top do not count: readers pass over what is new.
SCHEMA_VERSION = 1

#: The longest HostFacts document that is taken in, in bytes. A host with
#: four PFs of 64 VFs each is about 45 kB, one with eight of 256 about 400.
MAX_DOCUMENT = 1024 * 1024

NO_VIFS_TOLD = VifFacts(NOT_TOLD, NOT_TOLD)


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """All that is known of one host.

    :param host: the name that Nova calls it by (``[DEFAULT] host``).
    :param node: the hypervisor's name, Placement's provider name.
    :param observed_at: Unix time of the observation, seconds.
    :param version: of the sriov-rt that observed it; empty if it is older
        than this field.
    """

    host: str
    node: str
    observed_at: float
    cpus: CpuFacts
    kernel: KernelFacts
    memory: MemoryFacts
    irqs: IrqFacts
    virt: VirtFacts
    nics: NicFacts
    onload: OnloadFacts
    compute: ComputeFacts
    latency: LatencyFacts
    labels: LabelFacts
    vifs: VifFacts = NO_VIFS_TOLD
    version: str = ""

    def to_plain(self) -> dict[str, Any]:
        """Return the facts as a JSON object with its schema version."""
        return {"schema": SCHEMA_VERSION, **codec.to_plain(self)}

    def digest(self) -> str:
        """Return a name for all but the time: 64 hex digits (SHA-256)."""
        plain = self.to_plain()
        del plain["observed_at"]
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


#: A decision names eight interrupts, and says whether there are more.
_NAMED_IRQS = 9


def decisive(facts: HostFacts) -> HostFacts:
    """Return the facts without the bulk that no decision reads.

    :mod:`sriov_rt.decide` gives the same answers for both. VFs, the kernel
    command line, workloads and, while no label source is stale, the sources
    of labels are left out, and so are interrupts that do not fire on CPUs
    for guests; the others become few groups, where hosts with a queue for
    each CPU have hundreds. It is nine tenths of what a host takes.
    """
    nics, labels = facts.nics.nics, facts.labels
    if not isinstance(nics, Unknown):
        nics = tuple(_without_vfs(nic) for nic in nics)
    if not labels.stale and not isinstance(labels.sources, Unknown):
        labels = dataclasses.replace(labels, sources={})
    return dataclasses.replace(
        facts,
        kernel=dataclasses.replace(facts.kernel, command_line=""),
        nics=NicFacts(nics),
        irqs=_decisive_irqs(facts),
        labels=labels,
        onload=dataclasses.replace(facts.onload, workloads=()),
    )


def _without_vfs(nic: Nic) -> Nic:
    if isinstance(nic.vfs, Unknown):
        return nic
    return dataclasses.replace(nic, vfs=())


def _decisive_irqs(facts: HostFacts) -> IrqFacts:
    groups = facts.irqs.groups
    if isinstance(groups, Unknown):
        return facts.irqs
    # For guests are all isolated CPUs where Nova has no set of its own.
    guests = facts.compute.dedicated
    if guests is None:
        guests = facts.cpus.isolated
    if isinstance(guests, Unknown):
        guests = CpuSet()
    alike: dict[Any, list[IrqGroup]] = {}
    for each in groups:
        if not guests.isdisjoint(each.effective):
            key = (each.managed, each.fired, each.allowed <= guests)
            alike.setdefault(key, []).append(each)
    kept = tuple(map(_as_one, alike.values()))
    return dataclasses.replace(facts.irqs, groups=kept)


def _as_one(groups: list[IrqGroup]) -> IrqGroup:
    irqs = set(itertools.chain(*(each.irqs for each in groups)))
    return dataclasses.replace(
        groups[0],
        allowed=CpuSet().union(*(each.allowed for each in groups)),
        effective=CpuSet().union(*(each.effective for each in groups)),
        irqs=tuple(sorted(irqs)[:_NAMED_IRQS]),
    )


#: Name of a part (a field of HostFacts, and its source's) to its class.
PARTS: Mapping[str, Any] = {
    name: hint
    for name, hint in typing.get_type_hints(HostFacts).items()
    if dataclasses.is_dataclass(hint)
}


def unknown(part: str, reason: str) -> Any:
    """Return the named part with every fact in it unknown.

    :param part: a key of :data:`PARTS`.
    :param reason: why, one clause for an operator.
    """
    cls = PARTS[part]
    return cls(*(Unknown(reason) for _ in dataclasses.fields(cls)))


def from_plain(plain: Any) -> HostFacts:
    """Build HostFacts from the object that :meth:`HostFacts.to_plain` gave.

    Control characters in its text are escaped: it may come from any host.

    :raises SchemaError: for another schema version, or a value out of form.
    """
    if type(plain) is not dict:
        raise codec.SchemaError("", "object expected")
    if plain.get("schema") != SCHEMA_VERSION:
        raise codec.SchemaError(
            "schema",
            f"version {SCHEMA_VERSION} expected; run one release of sriov-rt "
            "on the agents and on who reads their facts",
        )
    return codec.from_plain(HostFacts, plain, printable=True)


def from_json(text: str | bytes) -> HostFacts:
    """Build HostFacts from JSON text.

    :param text: at most :data:`MAX_DOCUMENT` bytes.
    :raises SchemaError: for text that is too long, no JSON, or out of form.
    """
    return from_plain(documents.plain(text, MAX_DOCUMENT))
