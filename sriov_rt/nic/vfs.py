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

"""The verbs on VFs: observe, plan, apply, verify, reset."""

import dataclasses
import itertools
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Self

from sriov_rt.nic import apply
from sriov_rt.nic import errors
from sriov_rt.nic import names
from sriov_rt.nic import plan
from sriov_rt.nic import waiting
from sriov_rt.nic.choose import Families
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.plan import Plan as Plan
from sriov_rt.nic.settings import BASELINE
from sriov_rt.nic.settings import NO_MAC
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.waiting import Clock
from sriov_rt.nic.words import ADDRESS_RANDOM
from sriov_rt.nic.words import Pf
from sriov_rt.nic.words import VfDevice
from sriov_rt.nic.words import VfId as VfId
from sriov_rt.nic.words import VfState as VfState


class Vfs:
    """What can be done with the VFs of a host.

    It may be used by several threads; two that set the same VF at once get
    what the kernel makes of it, and VerifyFailed.

    :param clock: what bounded waits go by; None for the system's.
    """

    def __init__(
        self, kernel: Kernel, families: Families, clock: Clock | None = None
    ) -> None:
        self._kernel = kernel
        self._families = families
        self._clock = waiting.real() if clock is None else clock

    @classmethod
    def of_host(cls, root: str = "/") -> Self:
        """Return the verbs on this host's VFs.

        :param root: where its sysfs and procfs are.
        """
        # pyroute2 takes 190 ms to import.
        from sriov_rt.nic.machine import Machine

        return cls(Machine(root), Families.installed())

    @property
    def kernel(self) -> Kernel:
        """What it acts through."""
        return self._kernel

    @property
    def families(self) -> Families:
        """The rows that it chooses from."""
        return self._families

    @property
    def clock(self) -> Clock:
        """What bounded waits go by."""
        return self._clock

    def locate(self, name: str) -> VfId:
        """Return the VF that a text names.

        :param name: such as ``0000:01:10.0``, ``enp1s0/3`` (PF/index) or
            ``enp1s0v3``, the VF's own interface.
        :raises NicError: if it names none, or no VF.
        """
        asked = names.parse(name)
        if asked.index is None:
            return self._kernel.locate(asked.address or asked.interface or "")
        pf = self._kernel.pf(asked.interface or "")
        for vf in pf.vfs:
            if vf.index == asked.index:
                return vf
        raise errors.NoSuchDevice(
            name, None, f"{pf.name} has {len(pf.vfs)} VFs, from 0"
        )

    def list(self, pf: str | None = None) -> tuple[VfState, ...]:
        """Return the VFs of a PF or of all, in order.

        :raises NotAPf: if the named one can have no VFs.
        """
        asked = self._kernel.pfs() if pf is None else (pf,)
        return tuple(
            itertools.chain.from_iterable(
                self._observe(self._kernel.pf(each)).values() for each in asked
            )
        )

    def pf(self, name: str) -> Pf:
        """Return a PF."""
        return self._kernel.pf(name)

    def observe(self, vf: VfId) -> VfState:
        """Return a VF as the kernel has it now.

        :raises NoSuchDevice: if it is gone.
        """
        return self._one(self._kernel.pf(vf.pf), vf)

    def plan(self, vf: VfId, wanted: VfSettings) -> Plan:
        """Return what has to be done to make a VF as wanted.

        :param wanted: None leaves an attribute alone.
        :raises NicError: if its family or the PF's link does not allow it.
        """
        return self._plan(vf, wanted, required=True)

    def plan_reset(self, vf: VfId) -> Plan:
        """Return what has to be done to make a VF clean."""
        return self._plan(vf, BASELINE, required=False)

    def apply(self, plan: Plan) -> VfState:
        """Do what a plan says and read back that it is so.

        :raises VerifyFailed: if the kernel says something else afterwards.
        """
        return self.apply_all((plan,))[0]

    def apply_all(self, plans: Sequence[Plan]) -> tuple[VfState, ...]:
        """Do what plans say: one write and one read for each PF.

        :raises VerifyFailed: if the kernel says something else afterwards.
        """
        done: dict[VfId, VfState] = {}
        by_pf: dict[str, list[Plan]] = {}
        for each in plans:
            by_pf.setdefault(each.vf.pf, []).append(each)
        for name, some in by_pf.items():
            pf = self._kernel.pf(name)

            def again(
                indices: Sequence[int], pf: Pf = pf
            ) -> Mapping[int, VfState]:
                return self._observe(pf, indices)

            found = apply.apply(
                self._kernel, self._families.of(pf), some, again, self._clock
            )
            done.update((each.id, each) for each in found)
        return tuple(done[each.vf] for each in plans)

    def reset(self, vf: VfId) -> VfState:
        """Make a VF clean, settings.BASELINE, and read back that it is.

        What its NIC does not have is left out. Its driver is not changed.
        """
        return self.apply(self.plan_reset(vf))

    def flr(self, vf: VfId) -> VfState:
        """Reset a VF's function, then make it clean."""
        self._kernel.flr(vf)
        return self.reset(vf)

    def _plan(self, vf: VfId, wanted: VfSettings, *, required: bool) -> Plan:
        pf = self._kernel.pf(vf.pf)
        return plan.make(
            self._families.of(pf),
            pf,
            self._one(pf, vf),
            wanted,
            required=required,
        )

    def _one(self, pf: Pf, vf: VfId) -> VfState:
        if vf not in pf.vfs:
            raise errors.NoSuchDevice(f"{vf}", None, "the VF has gone")
        return self._observe(pf, (vf.index,))[vf.index]

    def _observe(
        self, pf: Pf, indices: Sequence[int] | None = None
    ) -> Mapping[int, VfState]:
        """Return VFs of a PF by their indices; all if none are named."""
        if not pf.vfs:
            return {}
        family = self._families.of(pf)
        budget = family.mac_filters.budget(len(pf.vfs))
        read = self._kernel.read(pf.name)
        asked = None if indices is None else frozenset(indices)
        found = {}
        for vf in pf.vfs:
            if asked is not None and vf.index not in asked:
                continue
            if vf.index not in read:
                raise errors.NoSuchDevice(f"{vf}", None, "the VF has gone")
            device = self._kernel.device(vf)
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
