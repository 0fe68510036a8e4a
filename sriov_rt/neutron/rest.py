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

"""Whether a VF that a port has left may be cleaned."""

from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfState
from sriov_rt.vif.model import ALIAS_PREFIX

#: The driver that gives a VF to a guest as a whole.
VFIO = "vfio-pci"


def why_not(vf: VfState, before: str | None) -> str | None:
    """Return why a VF is not to be touched yet; None if it is at rest.

    A VF gets its next owner's MAC and VLAN before its guest has it: from
    libvirt once it is off its host driver, from Nova (for macvtap) while it
    is still there, some moments before the macvtap comes. So a VF that has
    a MAC is left alone at first. But a guest may also have left it one, so
    that it is taken for a leftover if nothing has come of it at the next
    look.

    :param before: what was returned of it some seconds ago, if it was.
    """
    if vf.alias.startswith(f"{ALIAS_PREFIX}:"):
        return f"it is a port, or the parent of some ({vf.alias})"
    if vf.driver == VFIO:
        return "a guest has it, or it is kept on vfio-pci"
    if vf.device.elsewhere:
        return "its interface is in another network namespace"
    if vf.driver is not None and vf.netdev is None:
        return f"its driver {vf.driver} has no interface for it yet"
    if vf.device.uppers:
        return f"{', '.join(vf.device.uppers)} is on top of it"
    mac = vf.settings.mac
    if mac in (None, NO_MAC):
        return None
    named = f"it has the MAC {mac} still"
    return None if before == named else named
