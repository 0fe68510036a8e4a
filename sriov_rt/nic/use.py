# SPDX-License-Identifier: Apache-2.0

"""Judge of use: who uses a VF or a parent, and which acts that forbids.

Before an act on a VF or a parent, the caller makes a :class:`Use` of it, and
calls :func:`why_not`. Only the table RULES says what forbids which acts.
Holders of a VF are read from :mod:`sriov_rt.nic.tenancy`, and its ports from
their records; ``sriov_rt.vif.tenants.uses`` adds what the kernel shows and, on
request, the guests.
"""

import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

from sriov_rt.codec import Unknown
from sriov_rt.host.vfs import is_vfio
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind


class Act(enum.StrEnum):
    """Action that is about to be taken on a VF or a parent.

    Set changes attributes through the PF and leaves the VF where it is. Bind
    takes it from its driver. Reset brings it to the baseline, and may rebind
    its driver. Provision changes the number of VFs of its PF. Hand out gives
    it to one port as a whole; share puts another port on it. Clean is a reset
    that nobody has requested.
    """

    SET = "set"
    BIND = "bind"
    RESET = "reset"
    PROVISION = "provision"
    HAND_OUT = "hand out"
    SHARE = "share"
    CLEAN = "clean"


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """Known use of a VF or a parent, at one moment.

    Each clause names somebody or something, such as ``port p1 of web``.

    :param whole: clause of the port that has the VF to itself.
    :param ports: clauses of the ports on it, by their records.
    :param quarantined: clauses of the ports that are quarantined on it.
    :param holders: clauses of its holders that are no guests.
    :param guests: clauses of the guests that it is recorded for.
    :param kept: clauses of quarantines by holders, and what ends them.
    :param drifted: clauses of settings that others have changed.
    :param guest: guest that has it through vfio-pci; None for nobody, Unknown
        if that cannot be determined.
    :param driver: driver of the VF; None if it has none.
    :param bare: whether its driver has not made its interface.
    :param elsewhere: whether its interface is in another network namespace.
    :param on: clauses of what is seen on its interface, in any namespace.
    :param unseen: whether the kernel reports something on it, while nothing is
        seen there.
    :param up: name of its interface if that is up.
    :param addressed: name of its interface if that has an address.
    :param mac: its administrative MAC; None if it has none, or the MAC is
        known to be a leftover.
    """

    whole: str | None = None
    ports: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    guests: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()
    guest: str | None | Unknown = None
    driver: str | None = None
    bare: bool = False
    elsewhere: bool = False
    on: tuple[str, ...] = ()
    unseen: bool = False
    up: str | None = None
    addressed: str | None = None
    mac: str | None = None

    @property
    def is_seen(self) -> bool:
        """Whether its users are known."""
        return bool(
            self.whole
            or self.ports
            or self.quarantined
            or self.holders
            or self.on
        )


class Rule(NamedTuple):
    """A row of the table.

    :param clauses: returns from a Use who or what forbids the acts; empty if
        the fact does not apply.
    :param forbids: acts that are then not allowed.
    """

    fact: str
    clauses: Callable[[Use], Sequence[str]]
    forbids: frozenset[Act]


_ALL = frozenset(Act)
#: Acts that change the VF for its user. Sharing a parent leaves everybody else
#: alone.
_TAKING = _ALL - {Act.SHARE}
#: Acts that unbind the VF's driver, whoever uses it.
_UNBINDING = frozenset({Act.BIND, Act.RESET, Act.PROVISION, Act.HAND_OUT})


def _guest(use: Use) -> Sequence[str]:
    if isinstance(use.guest, Unknown):
        return (f"a guest perhaps ({use.guest.reason})",)
    return () if use.guest is None else (use.guest,)


def _vfio(use: Use) -> Sequence[str]:
    if not is_vfio(use.driver):
        return ()
    return (f"a guest has it, or it is kept on {use.driver}",)


def _if(applies: bool, clause: str) -> Sequence[str]:
    return (clause,) if applies else ()


RULES = (
    Rule(
        "a port has it to itself",
        lambda use: () if use.whole is None else (use.whole,),
        _ALL,
    ),
    Rule("a port is on it", lambda use: use.ports, _TAKING),
    # An unseen interface may still be its tenant's.
    Rule("a port is quarantined on it", lambda use: use.quarantined, _ALL),
    Rule("a pod has it", lambda use: use.holders, _ALL),
    # A manager that has gone leaves the VF so: a manual reset ends that,
    # unless the guest is seen to have it.
    Rule(
        "a guest is to have it",
        lambda use: use.guests,
        _ALL - {Act.SET, Act.RESET},
    ),
    # A reset ends the quarantine.
    Rule("it is quarantined", lambda use: use.kept, _ALL - {Act.RESET}),
    # The next user would be on a network that somebody else chose.
    Rule(
        "it has drifted",
        lambda use: use.drifted,
        frozenset({Act.HAND_OUT, Act.SHARE}),
    ),
    # A guest continues if its VF is set through the PF.
    Rule("a guest has it", _guest, _UNBINDING | {Act.SHARE, Act.CLEAN}),
    # A VF that is kept for guests may have no user yet; it is taken only on
    # request.
    Rule("vfio-pci has it", _vfio, frozenset({Act.CLEAN})),
    Rule(
        "its interface is in another namespace",
        lambda use: _if(
            use.elsewhere, "its interface is in another network namespace"
        ),
        _ALL,
    ),
    Rule(
        "its driver has made no interface",
        lambda use: _if(
            use.bare, f"its driver {use.driver} has no interface for it yet"
        ),
        frozenset({Act.HAND_OUT, Act.SHARE, Act.CLEAN}),
    ),
    Rule("something is on it", lambda use: use.on, _TAKING),
    Rule(
        "something unseen is on it",
        lambda use: _if(use.unseen, "something that cannot be seen"),
        # The first port of a parent needs an idle one.
        _ALL,
    ),
    # The host itself may use it, which only provisioning cannot know.
    Rule(
        "its interface is up",
        lambda use: _if(use.up is not None, f"{use.up} is up"),
        frozenset({Act.PROVISION}),
    ),
    Rule(
        "its interface has an address",
        lambda use: _if(
            use.addressed is not None, f"{use.addressed} has an address"
        ),
        frozenset({Act.PROVISION, Act.HAND_OUT}),
    ),
    # The next owner's MAC is set before its guest (see neutron.vf_cleaning).
    Rule(
        "it has an administrative MAC",
        lambda use: _if(
            use.mac is not None, f"it has the MAC {use.mac} still"
        ),
        frozenset({Act.CLEAN}),
    ),
)


def why_not(use: Use, act: Act) -> tuple[str, ...]:
    """Return why an act is not allowed, as clauses; empty if it is.

    :param use: an observation as fresh as possible: the caller has locked the
        parent, or observes again before each write.
    """
    return tuple(
        clause
        for rule in RULES
        if act in rule.forbids
        for clause in rule.clauses(use)
    )


def of(state: VfState, kind: Kind | None = None) -> Use:
    """Return the use of a VF by its state alone.

    :param kind: see Tenancy.others.
    """
    return with_holders(shown(state), state, kind)


def with_holders(
    seen: Use, state: VfState | None, kind: Kind | None = None
) -> Use:
    """Return a use completed with the holders of the VF.

    :param state: None if it is no VF.
    :param kind: see Tenancy.others.
    """
    if state is None:
        return seen
    address = state.id.address
    others = state.tenancy.others(kind)

    def clauses(chosen: Callable[[Holder], bool]) -> tuple[str, ...]:
        return tuple(each.clause(address) for each in others if chosen(each))

    return dataclasses.replace(
        seen,
        holders=clauses(lambda it: not (it.is_quarantined or it.is_guest)),
        guests=clauses(lambda it: it.is_guest and not it.is_quarantined),
        kept=clauses(lambda it: it.is_quarantined),
    )


def shown(
    state: VfState,
    *,
    whole: str | None = None,
    ports: Sequence[str] = (),
    quarantined: Sequence[str] = (),
    guest: str | None | Unknown = None,
    on: Sequence[str] = (),
    unseen: bool = False,
    addressed: bool = False,
) -> Use:
    """Return the use of a VF by what is on it, without its holders.

    Without ``on``, what this namespace shows on its interface counts.
    """
    device = state.device
    uppers = (
        (f"{', '.join(device.uppers)} on {device.netdev}",)
        if device.uppers and not on
        else ()
    )
    mac = state.settings.mac
    return Use(
        whole=whole,
        ports=tuple(ports),
        quarantined=tuple(quarantined),
        guest=guest,
        driver=state.driver,
        bare=not is_vfio(state.driver)
        and state.driver is not None
        and state.netdev is None
        and not device.elsewhere,
        elsewhere=device.elsewhere,
        on=(*on, *uppers),
        unseen=unseen,
        up=state.netdev if device.up else None,
        addressed=state.netdev if addressed else None,
        mac=None if mac == NO_MAC else mac,
    )
