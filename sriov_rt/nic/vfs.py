# SPDX-License-Identifier: Apache-2.0

"""Operations on VFs: observe, plan, apply, verify, reset."""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Self

from sriov_rt.host.vfs import is_vfio
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import apply
from sriov_rt.nic import driver_binding
from sriov_rt.nic import errors
from sriov_rt.nic import names
from sriov_rt.nic import plan
from sriov_rt.nic import use
from sriov_rt.nic import waiting
from sriov_rt.nic.families import Families
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import FilterRelease
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import ADDRESS_RANDOM
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId as VfId
from sriov_rt.nic.model import VfState as VfState
from sriov_rt.nic.plan import Plan as Plan
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import Reset
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from sriov_rt.nic.waiting import Clock

#: How long to wait for a VF that its PF does not report, seconds: i40e and ice
#: leave it out during its reset (rtnl_fill_vfinfo in net/core/rtnetlink.c
#: drops those whose ndo_get_vf_config fails).
RESETTING_S = 10.0

#: A reset of attributes only.
NO_DEEPER = Reset()


def observe(
    kernel: Kernel,
    family: Family,
    pf: Pf,
    indices: Collection[int],
    clock: Clock,
) -> Mapping[int, VfState]:
    """Return VFs of a PF by their indices, in order.

    :param indices: indices of the requested VFs.
    :raises NoSuchDevice: if one has gone.
    :raises TryAgain: if one is still resetting.
    """
    requested = [vf for vf in pf.vfs if vf.index in indices]
    read: Mapping[int, VfSettings] = {}

    def complete() -> bool | None:
        nonlocal read
        read = kernel.read(pf.name)
        missing = [vf for vf in requested if vf.index not in read]
        for vf in missing:
            # This raises an error if it is gone.
            kernel.device(vf)
        return None if missing else True

    if waiting.until(clock, RESETTING_S, complete) is None:
        missing = next(vf for vf in requested if vf.index not in read)
        raise errors.TryAgain(
            f"{missing}",
            None,
            f"{pf.name} does not report it: it is resetting",
        )
    return {
        vf.index: _state(kernel, family, pf, vf, read[vf.index])
        for vf in requested
    }


def survey(
    kernel: Kernel,
    family: Family,
    pf: Pf,
    only: Collection[VfId] | None = None,
) -> tuple[VfState, ...]:
    """Return VFs of a PF as they are; what it does not report is unknown.

    :param only: VFs to return; None for all.
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
    tenancy = kernel.tenancies.get(vf.address)
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
            family.filter_release is FilterRelease.REMAKE and tenancy.filters
        ),
        baseline=family.baseline,
        tenancy=tenancy,
    )


#: What mlx4 reports of a VF without a VLAN (MLX4_VGT in mlx4.h); no VLAN has
#: that number.
_NO_VLAN = 4095


def _joined(read: VfSettings, device: VfDevice) -> VfSettings:
    """Return the settings from the PF and the VF's interface together.

    A PF shows a MAC that a VF's driver made up like one that was set; the
    interface shows that it was made up.
    """
    made_up = device.address_type == ADDRESS_RANDOM and device.mac == read.mac
    return dataclasses.replace(
        read,
        mac=NO_MAC if made_up else read.mac,
        vlan=0 if read.vlan == _NO_VLAN else read.vlan,
        mtu=device.mtu,
        promisc=device.promisc,
        allmulti=device.allmulti,
        driver=device.driver,
    )


#: Returns the users of VFs in any network namespace, by PCI address.
Users = Callable[[Sequence[VfState]], Mapping[str, Use]]


class Vfs:
    """Operations on the VFs of a host.

    Several threads may use it; two that set the same VF at the same time get
    the kernel's result, and VerifyFailed.

    :param clock: clock of bounded waits; None for the system's.
    :param users: read before a VF is changed, for the judge of use: sysfs
        shows only this namespace's interfaces on it. None for a caller that
        knows users and holders.
    :param kind: kind of holders that the caller manages; None if it has no VF
        recorded.
    """

    def __init__(
        self,
        kernel: Kernel,
        families: Families,
        clock: Clock | None = None,
        users: Users | None = None,
        kind: Kind | None = None,
    ) -> None:
        self._kernel = kernel
        self._families = families
        self._clock = waiting.real() if clock is None else clock
        self._users = users
        self._kind = kind

    @classmethod
    def of_host(
        cls, users: Users | None = None, kind: Kind | None = None
    ) -> Self:
        """Return the operations on this host's VFs.

        :param users: see the class; likewise kind.
        """
        return cls(Kernel(), Families.installed(), users=users, kind=kind)

    @property
    def tenancies(self) -> Tenancies:
        """The holders of VFs, beside the records of ports."""
        return self._kernel.tenancies

    @property
    def kernel(self) -> Kernel:
        """The kernel interface that changes go through."""
        return self._kernel

    @property
    def families(self) -> Families:
        """The families that it chooses from."""
        return self._families

    @property
    def clock(self) -> Clock:
        """The clock of bounded waits."""
        return self._clock

    def locate(self, name: str) -> VfId:
        """Return the VF with a name.

        :param name: such as ``0000:01:10.0``, ``enp1s0/3`` (PF/index) or
            ``enp1s0v3``, the VF's own interface.
        :raises NicError: if there is no such VF.
        """
        requested = names.parse(name)
        if requested.index is None:
            return self._kernel.locate(
                requested.address or requested.interface or ""
            )
        pf = self._kernel.pf(requested.interface or "")
        for vf in pf.vfs:
            if vf.index == requested.index:
                return vf
        raise errors.NoSuchDevice(
            name, None, f"{pf.name} has {len(pf.vfs)} VFs, from 0"
        )

    def list(self, pf: str | None = None) -> tuple[VfState, ...]:
        """Return the VFs of a PF, or of all PFs, in order.

        :raises NotAPf: if the named interface cannot have VFs.
        """
        found: list[VfState] = []
        for name in self._kernel.pfs() if pf is None else (pf,):
            each = self._kernel.pf(name)
            family = self._families.of(each)
            found += survey(self._kernel, family, each)
        return tuple(found)

    def counters(self, pf: str) -> Mapping[int, Mapping[str, int]]:
        """Return a PF's counters of each VF; see Kernel.counters()."""
        return self._kernel.counters(pf)

    def of(self, interface: str) -> VfState | None:
        """Return the VF of an interface, as :meth:`list` returns it.

        :returns: None if the interface is gone, or is not a VF's.
        """
        try:
            vf = self._kernel.locate(interface)
            pf = self._kernel.pf(vf.pf)
        except (errors.NotAVf, errors.NoSuchDevice):
            return None
        family = self._families.of(pf)
        found = survey(self._kernel, family, pf, {vf})
        return found[0] if found else None

    def is_present(self, address: str) -> bool:
        """Return whether there may be a VF at a PCI address.

        That includes a VF whose PF has no interface on this host, which
        :meth:`list` does not return.
        """
        return self._kernel.is_vf(address) is not False

    def pf(self, name: str) -> Pf:
        """Return a PF."""
        return self._kernel.pf(name)

    def observe(self, vf: VfId) -> VfState:
        """Return the present state of a VF.

        :raises NoSuchDevice: if it is gone.
        """
        return self._these(self._kernel.pf(vf.pf), (vf,))[vf.index]

    def plan(
        self, vf: VfId, desired: VfSettings, *, wait_s: float = 0.0
    ) -> Plan:
        """Return the plan to give a VF its desired settings.

        :param desired: settings; None leaves an attribute alone.
        :param wait_s: how long to wait for a link that is needed, seconds.
        :raises NicError: if its family or the PF's link does not allow it.
        """
        needed: list[errors.LinkNeeded] = []

        def attempt() -> Plan | None:
            try:
                return self.plan_all({vf: desired})[0]
            except errors.LinkNeeded as error:
                needed.append(error)
                return None

        made = waiting.until(self._clock, wait_s, attempt)
        if made is None:
            raise needed[-1]
        return made

    def plan_all(
        self,
        desired: Mapping[VfId, VfSettings],
        *,
        required: bool = True,
        reset: Reset | None = None,
    ) -> tuple[Plan, ...]:
        """Return plans for many VFs, with one read for each PF.

        :param required: whether to refuse an attribute that a NIC lacks; else
            it is left out.
        :param reset: depth of the reset; None for no reset.
        :raises NicError: for the first VF that cannot have its settings.
        :raises VfInUse: for the first VF that has users.
        """
        made: dict[VfId, Plan] = {}
        seen: list[VfState] = []
        acts: dict[VfId, Act] = {}
        for name in dict.fromkeys(vf.pf for vf in desired):
            pf = self._kernel.pf(name)
            some = [vf for vf in desired if vf.pf == name]
            states = self._these(pf, some)
            for vf in some:
                state = states[vf.index]
                made[vf] = plan.make(
                    self._families.of(pf),
                    pf,
                    state,
                    desired[vf],
                    required=required,
                    reset=reset,
                    mtus=self._mtus(state, desired[vf]),
                )
                if made[vf].steps and desired[vf].driver is not None:
                    self._check_driver(state, desired[vf].driver)
                if not made[vf].is_empty or (reset and reset.fresh):
                    seen.append(state)
                    acts[vf] = made[vf].act
        self._refuse_used(seen, acts)
        return tuple(made[vf] for vf in desired)

    def _mtus(
        self, state: VfState, desired: VfSettings
    ) -> tuple[int, int] | None:
        if desired.mtu is None or state.netdev is None:
            return None
        return self._kernel.mtus(state.netdev)

    def _check_driver(self, state: VfState, driver: str | None) -> None:
        if driver is not None and driver != state.driver:
            self._kernel.check_driver(state.id, driver)

    def _refuse_used(
        self, states: Sequence[VfState], acts: Mapping[VfId, Act]
    ) -> None:
        """Refuse acts that the users of VFs forbid.

        :param acts: act that is about to be taken on each VF.
        :raises VfInUse: for the first act that is not allowed.
        """
        if self._users is None or not states:
            return
        found = self._users(states)
        for state in states:
            seen = self._use(state, found.get(state.id.address))
            if problems := use.why_not(seen, acts[state.id]):
                raise errors.VfInUse(f"{state.id}", problems)

    def check(self, vf: VfId, act: Act) -> VfState:
        """Return a VF if an act on it is allowed.

        Whoever hands out a VF calls this, whether anything is to be set or
        not.

        :raises VfInUse: if its users forbid the act.
        """
        state = self.observe(vf)
        self._refuse_used([state], {vf: act})
        return state

    def check_mac(self, vf: VfId, mac: str, vlan: int) -> None:
        """Refuse a MAC that another VF of the PF has in the same VLAN.

        :raises MacInUse: if there is one: each would get the other's frames.
        """
        pf = self._kernel.pf(vf.pf)
        others = {each.index for each in pf.vfs} - {vf.index}
        for state in self._observe(pf, others).values():
            has = state.settings
            if has.mac == mac and (has.vlan or 0) == vlan:
                raise errors.MacInUse(f"{vf}", mac, f"{state.id}")

    def _use(self, state: VfState, found: Use | None) -> Use:
        """Return the use of a VF, with what this namespace shows of it."""
        seen = use.shown(state) if found is None else found
        found = use.with_holders(seen, state, self._kind)
        if found.is_seen or state.netdev is None:
            return found
        unseen = found.unseen or self._kernel.carries(state.netdev)
        return dataclasses.replace(found, unseen=unseen)

    def plan_reset(
        self,
        vf: VfId,
        driver: str | None = None,
        depth: Reset = NO_DEEPER,
    ) -> Plan:
        """Return the plan to clean a VF.

        :param driver: driver that it should have; None for its present one, or
            the kernel's choice if it has none.
        """
        return self.plan_resets((vf,), driver, depth)[0]

    def plan_resets(
        self,
        vfs: Iterable[VfId],
        driver: str | None = None,
        depth: Reset = NO_DEEPER,
    ) -> tuple[Plan, ...]:
        """Return the plans to clean VFs; see plan_reset."""
        some = tuple(vfs)
        baselines = {
            pf: self._families.of(self._kernel.pf(pf)).baseline
            for pf in dict.fromkeys(vf.pf for vf in some)
        }
        return self.plan_all(
            {
                vf: dataclasses.replace(baselines[vf.pf], driver=driver)
                for vf in some
            },
            required=False,
            reset=depth,
        )

    def apply(self, plan: Plan) -> VfState:
        """Apply a plan, and verify it by reading back.

        :raises VerifyFailed: if another value is read back.
        """
        return self.apply_all((plan,))[0]

    def apply_all(self, plans: Sequence[Plan]) -> tuple[VfState, ...]:
        """Apply plans, with one write and one read for each PF.

        :raises VerifyFailed: if another value is read back.
        :raises VfInUse: if a VF has got a user since the plan.
        :raises FiltersRemain: if a VF was reset, but no other tenant may get
            it.
        """
        if self._users is not None:
            self._refuse_used(
                [self.observe(each.vf) for each in plans if not each.is_empty],
                {each.vf: each.act for each in plans},
            )
        done: dict[VfId, VfState] = {}
        by_pf: dict[str, list[Plan]] = {}
        for each in plans:
            by_pf.setdefault(each.vf.pf, []).append(each)
        for name, some in by_pf.items():
            pf = self._kernel.pf(name)

            def again(
                indices: Collection[int], pf: Pf = pf
            ) -> Mapping[int, VfState]:
                return self._observe(pf, indices)

            found = apply.apply(
                self._kernel, self._families.of(pf), some, again, self._clock
            )
            done.update((each.id, each) for each in found)
        return tuple(done[each.vf] for each in plans)

    def reset(
        self,
        vf: VfId,
        driver: str | None = None,
        depth: Reset = NO_DEEPER,
    ) -> VfState:
        """Reset a VF to its family's baseline, and verify that.

        Attributes that its NIC lacks are left out. See plan_reset.

        :raises FiltersRemain: if no other tenant may get it.
        """
        return self.apply(self.plan_reset(vf, driver, depth))

    def restore(self, vf: VfId, driver: str | None = None) -> VfState:
        """Return a VF to the host: clean, and verified.

        It may have had any use: a VF on vfio-pci is first bound to the
        kernel's choice of driver.

        :param driver: driver to bind; None for the kernel's choice on
            vfio-pci, and else for the present driver.
        :returns: the VF as it is afterwards.
        :raises VfInUse: if it has users, before anything is changed.
        :raises FiltersRemain: if no other tenant may get it.
        """
        state = self.observe(vf)
        self._refuse_used([state], {vf: Act.RESET})
        if driver is None and is_vfio(state.driver):
            family = self._families.of(self._kernel.pf(vf.pf))
            driver_binding.bind(
                self._kernel, family, vf, None, None, self._clock
            )
        return self.reset(vf, driver, Reset(fresh=True))

    def renew(self, vf: VfId) -> VfState:
        """Rebind the driver of a VF, and leave its attributes alone.

        This removes settings of its interface that no attribute covers.
        """
        (made,) = self.plan_all(
            {vf: VfSettings()},
            required=False,
            reset=Reset(fresh=True, shared=True),
        )
        return self.apply(made)

    def mark_filters(self, vf: VfId) -> None:
        """Note that macvlans set filters through a VF.

        If the PF keeps them until the VF is made again, no other tenant may
        get the VF until then.

        :raises NotRecorded: if that cannot be recorded.
        """
        family = self._families.of(self._kernel.pf(vf.pf))
        if family.filter_release is FilterRelease.REMAKE:
            self.tenancies.mark(vf.address)

    def flr(self, vf: VfId) -> None:
        """Reset a VF's function.

        :raises VfInUse: if it has users.
        """
        self._refuse_used([self.observe(vf)], {vf: Act.RESET})
        self._kernel.flr(vf)

    def _these(
        self, pf: Pf, requested: Sequence[VfId]
    ) -> Mapping[int, VfState]:
        for vf in requested:
            if vf not in pf.vfs:
                raise errors.NoSuchDevice(f"{vf}", None, "the VF has gone")
        return self._observe(pf, frozenset(vf.index for vf in requested))

    def _observe(
        self, pf: Pf, indices: Collection[int]
    ) -> Mapping[int, VfState]:
        return observe(
            self._kernel, self._families.of(pf), pf, indices, self._clock
        )
