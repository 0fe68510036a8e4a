# SPDX-License-Identifier: Apache-2.0

"""The alias of an interface: a label for people, and never a proof."""

import dataclasses

from sriov_rt.vif.model import ALIAS_PREFIX

#: What the interface of a VF carries that was set up for the ports on it,
#: and that is to be down again without them. It is no port's alias.
PARENT = f"{ALIAS_PREFIX}:parent"


@dataclasses.dataclass(frozen=True, slots=True)
class Alias:
    """Owner of an interface, as its alias names it.

    :param port: UUID of the port.
    :param owner: who has it.
    :param host_name: the name that a VF's interface had on the host, and is to
        have there again; empty for what was made for the port.
    :param network: UUID of the network of an accelerated port; empty for
        any other.
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
    """Return whether an alias is one of a port."""
    return f"{text}:".startswith(f"{ALIAS_PREFIX}:{port}:")
