# SPDX-License-Identifier: Apache-2.0

"""The alias of an interface: a label for people, and never a proof."""

import dataclasses
from collections.abc import Sequence

from sriov_rt.kernel.link import Link
from sriov_rt.vif.model import ALIAS_PREFIX
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record

#: Alias of a VF's interface that was set up for the ports on it, and goes down
#: again without them. It is no port's alias.
PARENT = f"{ALIAS_PREFIX}:parent"


@dataclasses.dataclass(frozen=True, slots=True)
class Alias:
    """Owner of an interface, as its alias names it.

    :param port: UUID of the port.
    :param host_name: name that a VF's interface had on the host, and gets back
        there; empty for an interface that was made for the port.
    :param network: UUID of the network of an accelerated port; else empty.
    """

    port: str
    owner: str
    host_name: str = ""
    network: str = ""

    def __str__(self) -> str:
        text = f"{ALIAS_PREFIX}:{self.port}:{self.owner}"
        if self.network:
            return f"{text}:{self.host_name}:{self.network}"
        return f"{text}:{self.host_name}" if self.host_name else text


def names(text: str, port: str) -> bool:
    """Return whether an alias belongs to a port."""
    return f"{text}:".startswith(f"{ALIAS_PREFIX}:{port}:")


def located(
    record: Record, on_host: Sequence[Link], elsewhere: Sequence[Link]
) -> Record:
    """Return a damaged record, completed with where an alias says its port is.

    :param on_host: the links of the host.
    :param elsewhere: the links of other namespaces.
    """
    by_index = {each.index: each.name for each in on_host}
    for link in (*on_host, *elsewhere):
        if not names(link.alias, record.port):
            continue
        if not link.kind:
            return dataclasses.replace(
                record, kind=Kind.VF, vf=link.device or None
            )
        if link.parent:
            return dataclasses.replace(
                record,
                interface=link.name,
                namespace_id=link.namespace_id,
                index=link.index,
                parent=by_index.get(link.parent, ""),
                parent_index=link.parent,
            )
    return record
