# SPDX-License-Identifier: Apache-2.0

"""Ports: as they are requested, as they were plugged, and their records."""

import dataclasses
import enum
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.tc import UNLIMITED
from sriov_rt.kernel.tc import Limits
from sriov_rt.request.words import VifKind

#: The first part of the alias that every interface of ours carries:
#: ``sriov-rt:<port>:<owner>[:<home>[:<network>]]``. It is a label for people:
#: root in a container can set any.
ALIAS_PREFIX = "sriov-rt"


_OWNER = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_owner(text: str) -> bool:
    """Return whether a text can be who has a port; see Plug."""
    return _OWNER.fullmatch(text) is not None


class Kind(enum.StrEnum):
    """How a port is made.

    A macvtap is what QEMU takes for a macvlan.
    """

    MACVLAN = "macvlan"
    MACVTAP = "macvtap"
    IPVLAN = "ipvlan"
    VF = "vf"


#: What a port becomes by ``[libvirt] virt_type``. QEMU takes packets from a
#: character device, which of these a macvlan has alone: its macvtap. A
#: container takes any interface of the host.
KINDS: Mapping[str, Mapping[VifKind, Kind]] = MappingProxyType(
    {
        "kvm": {VifKind.MACVLAN: Kind.MACVTAP},
        "qemu": {VifKind.MACVLAN: Kind.MACVTAP},
        "lxc": {
            VifKind.MACVLAN: Kind.MACVLAN,
            VifKind.IPVLAN: Kind.IPVLAN,
            VifKind.VF: Kind.VF,
        },
    }
)


class State(enum.StrEnum):
    """Known state of a port.

    Plugging and unplugging are in progress: until they are done, the port is
    shown as it was. Absent is shown of one whose interface is not where it
    was plugged, nor in a container that took it from the host; drifted of one
    whose VF was changed through its PF since it was plugged; quarantined is
    one that was to be removed and was not seen to come back.
    """

    PLUGGING = "plugging"
    PLUGGED = "plugged"
    UNPLUGGING = "unplugging"
    ABSENT = "absent"
    DRIFTED = "drifted"
    QUARANTINED = "quarantined"


@dataclasses.dataclass(frozen=True, slots=True)
class Plug:
    """One port, as it is requested.

    :param port: its UUID; it names the port in Neutron, in the records, in
        the alias and in the logs.
    :param owner: who has it: an instance's UUID or a name of the operator's
        choice (1 to 64 of A-Z a-z 0-9 . _ -).
    :param mode: of the macvlan or ipvlan (see request.words.VIF_MODES).
    :param physical_network: picks the pool of parents.
    :param parent: an interface of the pool, or None to choose one.
    :param namespace: None for the namespace of the caller, ``pid:N`` or the
        name of one in /run/netns.
    :param name: of the interface in its namespace; None for ``srt`` and the
        first 11 characters of the port.
    :param mac: None for the port's own choice of the kernel (macvlan) or
        the parent's (ipvlan).
    :param vlan: 0 to 4094; 0 is untagged.
    :param mtu: bytes, None for the parent's.
    :param addresses: such as ``192.0.2.1/24`` or ``2001:db8::1/64``.
    :param routes: (destination or ``default``, gateway) pairs.
    :param numa_node: where the parent is to be, if there is a choice.
    :param network: UUID of its network in Neutron.
    :param onload: whether its owner runs over Onload, past the kernel: then
        it has to have a network, and a NIC has one such owner of each.
    """

    port: str
    owner: str
    kind: Kind
    mode: str | None = None
    physical_network: str | None = None
    parent: str | None = None
    namespace: str | None = None
    name: str | None = None
    mac: str | None = None
    vlan: int = 0
    mtu: int | None = None
    addresses: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()
    limits: Limits = UNLIMITED
    numa_node: int | None = None
    network: str | None = None
    onload: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Plugged:
    """One port, as the kernel has it.

    :param interface: its name in its namespace.
    :param namespace: as in Plug; ``pid:N`` for one without a name.
    :param parent: name of its parent; its own VF's PF for a whole VF.
    :param vf: PCI address of the VF that it is or sits on, None if on none.
    :param tap: ``/dev/tapN`` of a macvtap, else None.
    :param network: UUID of the network of one that is accelerated, else None.
    :param accelerated: whether its owner may run over Onload.
    :param state: whether its interface is where it was plugged.
    :param reason: why it is quarantined, or has drifted; else empty.
    :param physical_network: as it was requested; None for a parent by name.
    """

    port: str
    owner: str
    kind: Kind
    mode: str | None
    interface: str
    namespace: str | None
    parent: str
    mac: str
    vlan: int
    mtu: int
    vf: str | None
    tap: str | None = None
    network: str | None = None
    accelerated: bool = False
    state: State = State.PLUGGED
    reason: str = ""
    physical_network: str | None = None


#: What is in progress: a plug is undone, an unplug is finished.
IN_PROGRESS = frozenset({State.PLUGGING, State.UNPLUGGING})


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One port.

    :param boot: id of the boot that it is of.
    :param mode: of a macvlan, macvtap or ipvlan.
    :param interface: its name when it was plugged.
    :param namespace: where, as it was requested; ``pid:N`` may have ended.
    :param namespace_id: which namespace that is; None for the host's.
    :param index: of the interface there, which a plug chooses before it makes
        it; 0 if that is not known.
    :param parent: name of what it sits on; of a whole VF, the name that it
        has on the host.
    :param parent_index: of what it sits on.
    :param vf: PCI address of the VF that it is or sits on.
    :param nic: interface of the PF, or the parent that is no VF.
    :param mac: as it was plugged.
    :param accelerated: whether its owner may run over Onload.
    :param request: the port as it was requested.
    :param state: plugging, plugged, unplugging or quarantined.
    :param reason: why it is quarantined; empty if it is not.
    :param damaged: whether it stands for a file that can't be read, with what
        is known of the port: it keeps that out of use, and is no proof of
        anything. What is not known is empty, 0 or None.
    :param node: of the interface in sysfs (see kernel.inventory); 0 if that
        is not known.
    :param parent_node: of what it sits on, likewise.
    :param removed: whether its interface was deleted, and it is quarantined
        for what may be left on its parent.
    :param lowered: whether its parent was set down to cut it off.
    :param parent_up: whether its parent was up before the port was plugged.
    :param before: the quarantined record that a plug in progress replaces, as
        a file has it; empty if there is none.
    :param inode: of the VF's device in sysfs: a VF that is made again at the
        same address has another; 0 if that is not known.
    :param parent_mtu: of its parent before the port was plugged; 0 likewise.
    """

    boot: str
    port: str
    owner: str
    kind: Kind
    mode: str | None
    interface: str
    namespace: str | None
    namespace_id: Identity | None
    index: int
    parent: str
    parent_index: int
    vf: str | None
    nic: str
    mac: str
    accelerated: bool
    request: Plug
    state: State = State.PLUGGED
    reason: str = ""
    damaged: bool = False
    node: int = 0
    parent_node: int = 0
    removed: bool = False
    lowered: bool = False
    parent_up: bool = True
    before: str = ""
    inode: int = 0
    parent_mtu: int = 0

    @property
    def name(self) -> str:
        """The name of its interface, as of a link."""
        return self.interface

    @property
    def network(self) -> str | None:
        """UUID of the network of one that is accelerated, else None."""
        return self.request.network if self.accelerated else None

    @property
    def is_quarantined(self) -> bool:
        """Whether its interface was not seen to come back.

        It is still while it is looked for once more.
        """
        return self.state is State.QUARANTINED or (
            self.state is State.UNPLUGGING and bool(self.reason)
        )

    @property
    def is_in_progress(self) -> bool:
        """Whether a plug of it is to be undone, or an unplug finished."""
        return self.state in IN_PROGRESS


class Child(Protocol):
    """Interface on another one: a link that was seen, or a port's record."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """The kernel's kind, such as macvlan."""

    @property
    def mode(self) -> str | None:
        """Of a macvlan, macvtap or ipvlan."""

    @property
    def namespace(self) -> str | None:
        """Where it is; None for the caller's namespace."""
