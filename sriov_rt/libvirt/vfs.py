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

"""VFs of a guest: at the baseline before it has them, and after."""

import functools
from collections.abc import Collection

from sriov_rt.guest.passthrough import PassedThrough
from sriov_rt.host.vfs import is_vfio
from sriov_rt.nic import errors
from sriov_rt.nic.model import VfId
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import tenants


def of_host() -> Vfs:
    """Return the verbs on this host's VFs, for who has no use of them yet."""
    return Vfs.of_host(functools.partial(tenants.uses, guests=True))


def clean(vfs: Vfs, devices: Collection[PassedThrough]) -> tuple[str, ...]:
    """Bring the VFs among some PCI devices to the baseline.

    One that libvirt manages is given back to the host if vfio-pci still has
    it; any other keeps its driver, which somebody has chosen for it.

    :returns: the addresses of the VFs.
    :raises NicError: for the first that can't be; the others are clean.
    """
    problem: errors.NicError | None = None
    done = []
    for each in devices:
        try:
            vf = _located(vfs, each.address)
            if vf is None:
                continue
            if each.managed and is_vfio(vfs.observe(vf).driver):
                vfs.restore(vf)
            else:
                vfs.reset(vf)
        except errors.NicError as error:
            problem = problem or error
        else:
            done.append(each.address)
    if problem is not None:
        raise problem
    return tuple(done)


def _located(vfs: Vfs, address: str) -> VfId | None:
    """Return the VF of an address, None for another PCI device."""
    try:
        return vfs.locate(address)
    except errors.NotAVf:
        return None
