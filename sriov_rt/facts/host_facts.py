# SPDX-License-Identifier: Apache-2.0

"""HostFacts as one value, and as JSON."""

import dataclasses
import hashlib
import json
import typing
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.codec import Unknown
from sriov_rt.facts.guests import NO_AUDIT_REPORTED
from sriov_rt.facts.guests import AuditFacts
from sriov_rt.facts.network import NicFacts
from sriov_rt.facts.network import OnloadFacts
from sriov_rt.facts.network import VifFacts
from sriov_rt.facts.parts import NO_OCCUPANCY_REPORTED
from sriov_rt.facts.parts import NOT_REPORTED
from sriov_rt.facts.parts import ComputeFacts
from sriov_rt.facts.parts import CpuFacts
from sriov_rt.facts.parts import IrqFacts
from sriov_rt.facts.parts import KernelFacts
from sriov_rt.facts.parts import LabelFacts
from sriov_rt.facts.parts import LatencyFacts
from sriov_rt.facts.parts import MaintenanceFacts
from sriov_rt.facts.parts import MemoryFacts
from sriov_rt.facts.parts import OccupancyFacts
from sriov_rt.facts.parts import VirtFacts

#: Raised by one when a reader of the old form would misread the new one.
#: Added fields do not count: readers ignore fields that they don't know.
SCHEMA_VERSION = 1

#: The longest HostFacts document that is accepted, in bytes. A host with four
#: PFs of 64 VFs each takes about 45 kB, one with eight of 256 about 400 kB.
MAX_DOCUMENT = 1024 * 1024

NO_VIFS_REPORTED = VifFacts(NOT_REPORTED, NOT_REPORTED)
NO_MAINTENANCE_REPORTED = MaintenanceFacts(NOT_REPORTED)


@dataclasses.dataclass(frozen=True, slots=True)
class HostFacts:
    """All that is known of one host.

    :param host: Nova's name of the host (``[DEFAULT] host``).
    :param node: the hypervisor's name, and its provider's name in Placement.
    :param observed_at: Unix time of the observation, seconds.
    :param version: version of the sriov-rt that observed it; empty if it is
        older than this field.
    :param audit: the agent's last audit of the running guests.
    :param intended: whether the host is meant to serve realtime guests.
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
    vifs: VifFacts = NO_VIFS_REPORTED
    version: str = ""
    audit: AuditFacts = NO_AUDIT_REPORTED
    occupancy: OccupancyFacts = NO_OCCUPANCY_REPORTED
    intended: bool | Unknown = NOT_REPORTED
    maintenance: MaintenanceFacts = NO_MAINTENANCE_REPORTED

    def to_plain(self) -> dict[str, Any]:
        """Return the facts as a JSON object with its schema version."""
        return {"schema": SCHEMA_VERSION, **codec.to_plain(self)}

    def digest(self) -> str:
        """Return a digest of all but the time: 64 hex digits (SHA-256)."""
        plain = self.to_plain()
        del plain["observed_at"]
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


#: Class of each part, by its name: that of its HostFacts field and its source.
PARTS: Mapping[str, Any] = {
    name: hint
    for name, hint in typing.get_type_hints(HostFacts).items()
    if dataclasses.is_dataclass(hint)
}


def unknown(part: str, reason: str) -> Any:
    """Return the named part with every fact in it unknown.

    :param part: a key of :data:`PARTS`.
    :param reason: why it is unknown, one clause for an operator.
    """
    cls = PARTS[part]
    return cls(*(Unknown(reason) for _ in dataclasses.fields(cls)))


def from_plain(plain: Any) -> HostFacts:
    """Build HostFacts from the object that :meth:`HostFacts.to_plain` gave.

    Control characters in its text are escaped: it may come from any host.

    :raises SchemaError: for another schema version or an invalid value.
    """
    if type(plain) is not dict:
        raise codec.SchemaError("", "object expected")
    documents.check_version(
        plain,
        SCHEMA_VERSION,
        f"version {SCHEMA_VERSION} expected; run one release of sriov-rt on "
        "the agents and on who reads their facts",
    )
    return codec.from_plain(HostFacts, plain, printable=True)


def from_json(text: str | bytes) -> HostFacts:
    """Build HostFacts from JSON text.

    :param text: at most :data:`MAX_DOCUMENT` bytes.
    :raises SchemaError: for text that is too long, not JSON, or invalid.
    """
    return from_plain(documents.plain(text, MAX_DOCUMENT))
