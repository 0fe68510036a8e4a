# SPDX-License-Identifier: Apache-2.0

"""Records that stand for damaged ones, with what is left of those.

That is enough to keep a VF or a parent out of use, but proves nothing.
"""

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
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.model import is_owner

#: A complete field and value: the next token has begun.
_FIELD = re.compile(
    rb'"([a-z_]{1,16})":\s{0,4}("[^"\\]{0,255}"|[0-9]{1,10})(?=\s{0,4}[,}])'
)

#: Owner of a port if it is not known.
UNKNOWN = "unknown"


def record(boot: str, port: str, data: bytes, problem: str) -> Record:
    """Return a quarantined record that stands for a damaged one.

    What is unknown is empty, 0 or None.

    :param data: content of the damaged file.
    :param problem: what is wrong with it, as a clause.
    """
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
    # On an unknown parent, a port of unknown kind takes no room.
    kind = Kind.VF if vf else Kind.MACVLAN
    if plain.get("kind") in list(Kind):
        kind = Kind(plain["kind"])
    owner = text("owner", is_owner) or UNKNOWN
    parent = text("parent", link.is_interface)
    return Record(
        boot=boot,
        port=port,
        owner=owner,
        kind=kind,
        mode=None,
        interface=text("interface", link.is_interface)
        or validation.default(port),
        namespace=text("namespace", namespaces.parse) or None,
        namespace_id=_identity(plain.get("namespace_id")),
        index=_index(plain.get("index")),
        parent=parent,
        parent_index=_index(plain.get("parent_index")),
        vf=vf,
        nic=text("nic", link.is_interface) or parent,
        mac=text("mac", link.is_mac),
        accelerated=False,
        request=Plug(port=port, owner=owner, kind=kind),
        state=State.QUARANTINED,
        reason=f"damaged: {problem}",
        damaged=True,
    )


def _plain(data: bytes) -> Mapping[str, Any]:
    # The steps of a plug or unplug follow the line.
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
            # The record's own field comes first; the request's fields of the
            # same name follow.
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
