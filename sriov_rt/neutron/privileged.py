# SPDX-License-Identifier: Apache-2.0

"""Privileged part of the L2 extension, which reads and sets VFs.

The stock SR-IOV agent runs as neutron's user. Two daemons run as root, each
with the capabilities that it needs. Setting a VF by netlink takes
CAP_NET_ADMIN; its files in sysfs take no capability, as they are root's own.
The check that nobody uses a VF looks into every network namespace. This takes
CAP_SYS_ADMIN to enter one and CAP_SYS_PTRACE to find one by its processes.
Nothing here imports neutron, because the daemons do not need it.
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_privsep import capabilities
from oslo_privsep import daemon
from oslo_privsep import priv_context

from sriov_rt import codec
from sriov_rt import deadline
from sriov_rt import exceptions
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import differing
from sriov_rt.neutron import claims
from sriov_rt.nic import errors
from sriov_rt.nic import use
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.use import Act
from sriov_rt.parse import pci

#: Sets the VF of a port, before or while a guest uses it.
vf_set = priv_context.PrivContext(
    "sriov_rt",
    cfg_section="sriov_rt_vf_set",
    pypath=f"{__name__}.vf_set",
    capabilities=[capabilities.CAP_NET_ADMIN],
)

#: Cleans a VF that a port has left, if nobody uses it.
vf_clean = priv_context.PrivContext(
    "sriov_rt",
    cfg_section="sriov_rt_vf_clean",
    pypath=f"{__name__}.vf_clean",
    capabilities=[
        capabilities.CAP_NET_ADMIN,
        capabilities.CAP_SYS_ADMIN,
        capabilities.CAP_SYS_PTRACE,
    ],
)

#: Seconds to wait for a daemon's answer, and the most concurrent calls.
ANSWER_S = 300.0
_calls = deadline.Calls("a call of a privileged daemon", 32)

#: Answer of a daemon: the error's sentence or None, why the VF is not idle or
#: None, the changes, and what the PF keeps of the VF's last use or None. For
#: a VF that is not idle the last item is its MAC, if only that is the reason.
Answer = tuple[str | None, str | None, list[str], str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Slot:
    """A VF of a port, until it is clean again.

    :param left: whether the port has left it.
    """

    port: str
    left: bool


class VfNotDone(exceptions.SriovRtError):
    """A VF could not be read or set, for the reason in the sentence."""


class NotAllowed(exceptions.SriovRtError):
    """An unprivileged service may not change this setting.

    :param slot: PCI address of the VF.
    :param why: a clause.
    """

    def __init__(self, slot: str, why: str) -> None:
        super().__init__(slot, why)
        self.slot = slot
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.slot}: {self.why}, so the extension may not set it; set "
            "it as root by 'sriov-rt vf set'"
        )


class DaemonMissing(exceptions.SriovRtError):
    """The privileged daemon could not be started or does not answer."""

    def __init__(self, why: Exception) -> None:
        self.why = why
        super().__init__(
            f"{why}; 'pkill -KILL -f {__name__}', and others are started"
            if isinstance(why, deadline.Expired)
            else "the privileged daemon gives no answer "
            f"({type(why).__name__}: {why}); let the agent's user start "
            "privsep-helper: set helper_command in [sriov_rt_vf_set] and "
            "[sriov_rt_vf_clean]"
        )


class PrivilegedVfs:
    """The VFs of this host, accessed through the daemons."""

    def start(self) -> None:
        """Start the daemons, so that no port has to wait for their start.

        :raises DaemonMissing: if one does not answer.
        """
        _answered(_ready_to_set)
        _answered(_ready_to_clean)

    def assigned(self) -> Mapping[str, Slot]:
        """Return the VFs that ports have, by their PCI addresses.

        :raises VfNotDone: if the records cannot be read.
        :raises DaemonMissing: if the daemon does not answer.
        """
        texts = _answered(_assigned)[1]
        return {
            slot: Slot(port, left=left == State.LEAVING)
            for slot, port, left in (each.split(" ", 2) for each in texts)
        }

    def assign(self, slot: str, has: Slot | None) -> None:
        """Record which port has a VF, for the host's other managers.

        :param has: None if no port has it any more.
        :raises VfNotDone: if the record cannot be written.
        :raises DaemonMissing: if the daemon does not answer.
        """
        port = "" if has is None else has.port
        left = has is not None and has.left
        _answered(lambda: _assign(slot, port, left))

    def set_right(self, slot: str, desired: VfSettings) -> Sequence[str]:
        """Set what is known to differ; return what was changed.

        :param slot: PCI address of a VF.
        :raises VfNotDone: if the VF could not be set.
        :raises DaemonMissing: if the daemon does not answer.
        """
        # By way of JSON, which turns our enumerations into plain text.
        plain = json.loads(json.dumps(codec.to_plain(desired)))
        return _answered(lambda: _set_right(slot, plain))[1]

    def clean(
        self, slot: str, leftover: str | None
    ) -> tuple[str | None, Sequence[str], str | None]:
        """Bring an idle VF to the baseline.

        :param slot: PCI address of a VF.
        :param leftover: see :func:`why_not`.
        :returns: why it is not idle, the changes, and what its PF keeps of
            its last use (or, if only its MAC keeps it from being idle, that).
        :raises VfNotDone: if the VF could not be reset.
        :raises DaemonMissing: if the daemon does not answer.
        """
        return _answered(lambda: _clean(slot, leftover))


def set_right(
    vfs: Any, slot: str, desired: VfSettings, ports: Collection[str]
) -> Answer:
    """Correct a VF's settings; see PrivilegedVfs.set_right.

    :param vfs: operations on VFs, :class:`sriov_rt.nic.vfs.Vfs`.
    :param ports: PCI addresses of the VFs that ports of sriov-rt are on.
    :raises NotAllowed: for a setting that a Neutron port may not choose.
    """
    vf = vfs.locate(slot)
    for field in dataclasses.fields(VfSettings):
        value = getattr(desired, field.name)
        if value is not None and field.name not in claims.SETTABLE:
            raise NotAllowed(vf.address, f"{field.name} is not a port's")
    if vf.address in ports:
        raise NotAllowed(vf.address, "a port of sriov-rt is on it")
    state = vfs.observe(vf)
    for why in use.why_not(use.of(state, Kind.PORT), Act.SET):
        raise NotAllowed(vf.address, why)
    # A setting that the kernel does not report cannot be read back either, so
    # it is left to the baseline.
    plan = vfs.plan(vf, differing(state.settings, desired))
    if plan.is_empty:
        return None, None, [], None
    vfs.apply(plan)
    return None, None, [str(each) for each in plan.steps], None


def why_not(
    vf: VfState, leftover: str | None
) -> tuple[str | None, str | None]:
    """Return why a VF must not be touched yet; None if it is idle.

    A VF gets its next owner's MAC and VLAN before its guest has it. libvirt
    sets them once it is unbound from its host driver; Nova (for macvtap) while
    it is still bound, just before the macvtap appears. So a VF with a MAC is
    left alone at first. But an earlier guest may have left the MAC, so it is
    taken for a leftover if the VF is still unused at the next look.

    The operations on VFs find the ports on it by their records and from the
    kernel. An alias is no proof, because a tenant can set it as well.

    :param leftover: the MAC that this function returned some seconds ago: the
        VF has had it all that time without a guest.
    :returns: why not, and its MAC if nothing else keeps it from being idle.
    """
    seen = use.of(vf, Kind.PORT)
    if found := use.why_not(dataclasses.replace(seen, mac=None), Act.CLEAN):
        return found[0], None
    if seen.mac in (None, leftover):
        return None, None
    return use.why_not(seen, Act.CLEAN)[0], seen.mac


def clean(vfs: Any, slot: str, leftover: str | None) -> Answer:
    """Bring an idle VF to the baseline; see PrivilegedVfs.clean.

    :param vfs: operations on VFs, :class:`sriov_rt.nic.vfs.Vfs`, which know
        the users of VFs.
    """
    vf = vfs.locate(slot)
    with vfs.tenancies.locked(vf.address):
        problem, mac = why_not(vfs.observe(vf), leftover)
        if problem is not None:
            return None, problem, [], mac
        try:
            vfs.check(vf, Act.RESET)
            # Trust must be off: Nova reuses the VF whatever its settings.
            plan = vfs.plan_reset(vf, depth=MANAGERS[Kind.PORT].after)
            if not plan.is_empty:
                vfs.apply(plan)
        except errors.VfBusy as error:
            return None, error.problem, [], None
    return None, None, [str(each) for each in plan.steps], plan.remains


def assigned(tenancies: Tenancies) -> Answer:
    """Return the VFs of ports; see PrivilegedVfs.assigned."""
    found = [
        f"{address} {holder.id} {holder.state}"
        for address, holder in tenancies.of_kind(Kind.PORT)
    ]
    return None, None, found, None


def assign(tenancies: Tenancies, slot: str, port: str, left: bool) -> Answer:
    """Record which port has a VF; see PrivilegedVfs.assign.

    :param port: UUID of the port; empty for none.
    """
    address = str(pci.PciAddress.parse(slot))
    if port:
        holder = Holder(
            Kind.PORT,
            claims.port(port),
            state=State.LEAVING if left else State.IN_USE,
        )
        tenancies.assign(address, holder)
    else:
        tenancies.release(address, Kind.PORT)
    return None, None, [], None


def _answered(
    call: Callable[[], Answer],
) -> tuple[str | None, Sequence[str], str | None]:
    try:
        error, why_not, changed, remains = _calls.result(call, ANSWER_S)
    except (
        daemon.FailedToDropPrivileges,
        deadline.Expired,
        OSError,
    ) as failure:
        raise DaemonMissing(failure) from failure
    if error is not None:
        raise VfNotDone(error)
    return why_not, changed, remains


@functools.cache
def _vfs() -> Any:
    # Only the daemons need it.
    from sriov_rt.nic.vfs import Vfs

    return Vfs.of_host()


@functools.cache
def _idle_vfs() -> Any:
    """Return the operations that refuse VFs in use."""
    from sriov_rt.nic.vfs import Vfs
    from sriov_rt.vif import tenants

    return Vfs.of_host(tenants.uses, Kind.PORT)


def _ports() -> Collection[str]:
    """Return the VFs that ports of sriov-rt are on, by root's records.

    Interfaces that the guest of a Neutron port has on its VF do not count.
    """
    from sriov_rt.vif import host
    from sriov_rt.vif import tenants

    found = tenants.recorded(host.records().every())
    return [
        address
        for address, each in found.items()
        if use.why_not(each, Act.SET)
    ]


def _answer(act: Callable[[], Answer]) -> Answer:
    # privsep rebuilds an exception from its positional arguments only, and
    # ours take keywords.
    try:
        return act()
    except exceptions.SriovRtError as error:
        return str(error), None, [], None


@vf_set.entrypoint
def _ready_to_set() -> Answer:
    _vfs()
    return None, None, [], None


@vf_clean.entrypoint
def _ready_to_clean() -> Answer:
    _idle_vfs()
    return None, None, [], None


@vf_set.entrypoint
def _assigned() -> Answer:
    return _answer(lambda: assigned(_vfs().tenancies))


@vf_set.entrypoint
def _assign(slot: str, port: str, left: bool) -> Answer:
    return _answer(lambda: assign(_vfs().tenancies, slot, port, left))


@vf_set.entrypoint
def _set_right(slot: str, desired: Mapping[str, Any]) -> Answer:
    return _answer(
        lambda: set_right(
            _vfs(), slot, codec.from_plain(VfSettings, desired), _ports()
        )
    )


@vf_clean.entrypoint
def _clean(slot: str, leftover: str | None) -> Answer:
    return _answer(lambda: clean(_idle_vfs(), slot, leftover))
