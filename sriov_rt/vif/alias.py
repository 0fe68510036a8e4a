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


"""What an interface of ours says of itself: its alias."""

import dataclasses

from sriov_rt.exceptions import SriovRtError
from sriov_rt.vif import names
from sriov_rt.vif.words import ALIAS_PREFIX

#: What the interface of a VF carries that was set up for the ports on it,
#: and that is to be down again without them. It is no port's alias.
PARENT = f"{ALIAS_PREFIX}:parent"


@dataclasses.dataclass(frozen=True, slots=True)
class Alias:
    """Whose an interface is.

    :param port: UUID of the port.
    :param owner: who has it.
    :param home: the name that a VF's interface had on the host, and is to
        have there again; empty for what was made for the port.
    :param network: UUID of the network of an accelerated port; empty for
        any other.
    """

    port: str
    owner: str
    home: str = ""
    network: str = ""

    def __str__(self) -> str:
        text = f"{ALIAS_PREFIX}:{self.port}:{self.owner}"
        if self.network:
            return f"{text}:{self.home}:{self.network}"
        return f"{text}:{self.home}" if self.home else text


def is_free(text: str) -> bool:
    """Tell whether an alias keeps nobody off: none does, nor a parent's."""
    return text in ("", PARENT)


def parse(text: str) -> Alias | None:
    """Return what an alias says; None if it is not one of ours.

    Total: who is root in the namespace can set any alias. The home is no
    more than a hint (see homes.choose), and the port, the owner and the
    network count only for what sits on an interface of the host.
    """
    parts = text.split(":", 4)
    if len(parts) < 3 or parts[0] != ALIAS_PREFIX:
        return None
    home = parts[3] if len(parts) > 3 else ""
    try:
        return Alias(
            names.port(parts[1]),
            names.owner(parts[2]),
            names.interface(home) if home else "",
            names.network(parts[4]) if len(parts) > 4 else "",
        )
    except SriovRtError:
        return None
