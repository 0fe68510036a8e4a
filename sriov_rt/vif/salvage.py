# SPDX-License-Identifier: Apache-2.0

"""Facts about a port that a damaged record still has.

It is enough to keep a VF or a parent out of use, and proves nothing.
"""

import dataclasses
import json
import re
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt.exceptions import SriovRtError
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.parse import link
from sriov_rt.parse import pci
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import is_owner

#: A field and its value, if that is whole: what comes next has begun.
_FIELD = re.compile(
    rb'"([a-z_]{1,16})":\s{0,4}("[^"\\]{0,255}"|[0-9]{1,10})(?=\s{0,4}[,}])'
)

#: Who has a port of which that is not known.
UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """Known facts of a port, in the terms of its record."""

    owner: str
    kind: Kind
    interface: str
    namespace: str | None
    namespace_id: Identity | None
    index: int
    parent: str
    parent_index: int
    vf: str | None
    nic: str
    mac: str


def fields(data: bytes) -> Fields:
    """Return what is known; anything else is empty, 0 or None."""
    plain = _plain(data)

    def text(name: str, check: Callable[[str], Any]) -> str:
        value = plain.get(name)
        try:
            if isinstance(value, str) and check(value):
                return value
        except SriovRtError:
            pass
        return ""

    vf = text("vf", pci.PciAddress.parse) or None
    kind = text("kind", Kind) if plain.get("kind") in list(Kind) else ""
    return Fields(
        owner=text("owner", is_owner) or UNKNOWN,
        # One that is unknown takes no room on a parent that is not known.
        kind=Kind(kind) if kind else Kind.VF if vf else Kind.MACVLAN,
        interface=text("interface", link.is_interface),
        namespace=text("namespace", namespaces.parse) or None,
        # The release before said space.
        namespace_id=_identity(plain.get("namespace_id", plain.get("space"))),
        index=_index(plain.get("index")),
        parent=text("parent", link.is_interface),
        parent_index=_index(plain.get("parent_index")),
        vf=vf,
        nic=text("nic", link.is_interface),
        mac=text("mac", link.is_mac),
    )


def _plain(data: bytes) -> Mapping[str, Any]:
    # The steps of a plug or unplug follow it.
    line = next(
        (each for each in data.splitlines() if each.startswith(b"{")), data
    )
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        found = None
    if type(found) is dict:
        return found
    whole: dict[str, Any] = {}
    for name, value in _FIELD.findall(line):
        try:
            # The first of a name is the record's own; those of the request
            # come behind.
            whole.setdefault(name.decode(), json.loads(value.decode()))
        except ValueError:
            continue
    return whole


def _index(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0


def _identity(value: Any) -> Identity | None:
    try:
        return codec.from_plain(Identity, value)
    except codec.SchemaError:
        return None
