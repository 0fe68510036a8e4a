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
from sriov_rt.nic.family import Family
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.settings import NO_MAC
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.words import ADDRESS_RANDOM
from sriov_rt.nic.words import Pf
from sriov_rt.nic.words import VfDevice
from sriov_rt.nic.words import VfState


def observe(
    kernel: Kernel,
    family: Family,
    pf: Pf,
    indices: Collection[int] | None = None,
) -> Mapping[int, VfState]:
    """Return VFs of a PF by their indices, in order.

    :param indices: those that are asked for; None for all.
    :raises NoSuchDevice: if one has gone.
    """
    if not pf.vfs:
        return {}
    budget = family.mac_filters.budget(len(pf.vfs))
    read = kernel.read(pf.name)
    found = {}
    for vf in pf.vfs:
        if indices is not None and vf.index not in indices:
            continue
        if vf.index not in read:
            raise errors.NoSuchDevice(f"{vf}", None, "the VF has gone")
        device = kernel.device(vf)
        found[vf.index] = VfState(
            id=vf,
            family=family.name,
            driver=device.driver,
            netdev=device.netdev,
            alias=device.alias,
            iommu_group=device.iommu_group,
            numa_node=device.numa_node,
            settings=_joined(read[vf.index], device),
            mac_budget=budget,
            device=device,
        )
    return found


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
