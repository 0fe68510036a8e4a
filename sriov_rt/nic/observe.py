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

"""A PF's VFs as the kernel has them: one request, and each VF's device."""

import dataclasses
from collections.abc import Collection
from collections.abc import Mapping

from sriov_rt.nic import errors
from sriov_rt.nic import waiting
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import FilterRelease
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import ADDRESS_RANDOM
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.model import VfState
from sriov_rt.nic.waiting import Clock

#: How long a VF is waited for that its PF does not tell of, seconds: while
#: it resets, i40e and ice leave it out (rtnl_fill_vfinfo in
#: net/core/rtnetlink.c drops those whose ndo_get_vf_config fails).
RESETTING_S = 10.0


def observe(
    kernel: Kernel,
    family: Family,
    pf: Pf,
    indices: Collection[int],
    clock: Clock,
) -> Mapping[int, VfState]:
    """Return VFs of a PF by their indices, in order.

    :param indices: those that are asked for.
    :raises NoSuchDevice: if one has gone.
    :raises TryAgain: if one is still resetting.
    """
    asked = [vf for vf in pf.vfs if vf.index in indices]
    read: Mapping[int, VfSettings] = {}

    def complete() -> bool | None:
        nonlocal read
        read = kernel.read(pf.name)
        missing = [vf for vf in asked if vf.index not in read]
        for vf in missing:
            # Raises if it is gone.
            kernel.device(vf)
        return None if missing else True

    if waiting.until(clock, RESETTING_S, complete) is None:
        missing = next(vf for vf in asked if vf.index not in read)
        raise errors.TryAgain(
            f"{missing}", None, f"{pf.name} does not tell of it: it resets"
        )
    return {
        vf.index: _state(kernel, family, pf, vf, read[vf.index])
        for vf in asked
    }


def survey(
    kernel: Kernel,
    family: Family,
    pf: Pf,
    only: Collection[VfId] | None = None,
) -> tuple[VfState, ...]:
    """Return VFs of a PF as they are; what it does not tell is unknown.

    :param only: None for all.
    """
    some = [vf for vf in pf.vfs if only is None or vf in only]
    if not some:
        return ()
    read = kernel.read(pf.name)
    return tuple(
        _state(kernel, family, pf, vf, read.get(vf.index, VfSettings()))
        for vf in some
    )


def _state(
    kernel: Kernel, family: Family, pf: Pf, vf: VfId, read: VfSettings
) -> VfState:
    device = kernel.device(vf)
    return VfState(
        id=vf,
        family=family.name,
        driver=device.driver,
        netdev=device.netdev,
        alias=device.alias,
        iommu_group=device.iommu_group,
        numa_node=device.numa_node,
        settings=_joined(read, device),
        mac_budget=family.mac_filters.budget(len(pf.vfs)),
        device=device,
        keeps_filters=(
            family.filter_release is FilterRelease.REMAKE
            and kernel.has_mark(vf)
        ),
    )


def _joined(read: VfSettings, device: VfDevice) -> VfSettings:
    """Return what the PF and the VF's own interface say, together.

    A PF shows the MAC that a VF's driver made up as it shows one that was
    set; the interface tells that it was made up.
    """
    made_up = device.address_type == ADDRESS_RANDOM and device.mac == read.mac
    return dataclasses.replace(
        read,
        mac=NO_MAC if made_up else read.mac,
        mtu=device.mtu,
        promisc=device.promisc,
        allmulti=device.allmulti,
        driver=device.driver,
    )
