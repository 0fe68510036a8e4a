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

"""Whether a VF's driver has to be bound again."""

from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from sriov_rt.host.vfs import VFIO
from sriov_rt.nic import errors
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import MacEffect
from sriov_rt.nic.model import ADDRESS_RANDOM
from sriov_rt.nic.model import ADDRESS_SET
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfState


def why(
    family: Family,
    observed: VfState,
    expect: Mapping[Attribute, Any],
    changed: Collection[Attribute],
) -> tuple[str | None, str | None]:
    """Return why the VF's driver is to be bound again, and a note.

    A VF's interface keeps the MAC that it came up with, or that somebody
    set inside.

    :param expect: what the VF is to be.
    :param changed: what of that is not so yet.
    :raises VfBusy: if that would take something from its user.
    """
    device = observed.device
    if Attribute.DRIVER in changed:
        _refuse_if_used(observed)
        if device.elsewhere:
            raise errors.VfBusy(
                f"{observed.id}",
                Attribute.DRIVER,
                "its interface is in another network namespace",
            )
        return None, None
    mac = expect.get(Attribute.MAC)
    if mac is None:
        return None, None
    if device.elsewhere and Attribute.MAC in changed:
        return None, (
            "its interface is in another network namespace and keeps its MAC "
            "until its driver is bound again"
        )
    if device.netdev is None or not _is_needed(
        family, device, mac, changes=Attribute.MAC in changed
    ):
        return None, None
    _refuse_if_used(observed)
    return f"{device.netdev} has the MAC {device.mac} until then", None


def why_fresh(pf: Pf, observed: VfState, *, fresh: bool) -> str | None:
    """Return why a reset binds the VF's driver again; None if it does not.

    :param fresh: whether it does so in any case.
    :raises VfBusy: if that would take something from its user.
    """
    device = observed.device
    if device.driver is None:
        # Whoever unbound it last did not come to bind it. The kernel binds
        # nothing to the VFs of a PF that does not probe.
        return None if pf.probes is False else "it has no driver"
    if not fresh or device.driver == VFIO or device.elsewhere:
        return None
    _refuse_if_used(observed)
    return "its interface is then as a driver makes it"


def _refuse_if_used(observed: VfState) -> None:
    device = observed.device
    if device.uppers:
        raise errors.VfBusy(
            f"{observed.id}",
            Attribute.DRIVER,
            f"{', '.join(device.uppers)} on {device.netdev} would go with it "
            "if its driver were bound again",
        )


def _is_needed(
    family: Family, device: VfDevice, mac: str, *, changes: bool
) -> bool:
    if mac == NO_MAC:
        # No driver gives up by itself a MAC that was set inside or before.
        return changes or device.address_type == ADDRESS_SET
    if changes and family.mac_effect is MacEffect.NOW:
        return False
    if changes and device.address_type == ADDRESS_RANDOM:
        # iavf takes the MAC without saying that it is random no longer:
        # later it could not be told from one that was made up.
        return True
    if device.mac == mac:
        return False
    return not changes or family.mac_effect is MacEffect.AFTER_REBIND
