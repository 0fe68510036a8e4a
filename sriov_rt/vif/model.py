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

#: First part of the alias that every interface of ours has:
#: ``sriov-rt:<port>:<owner>[:<home>[:<network>]]``. It is a label for people:
#: root in a container can set any.
ALIAS_PREFIX = "sriov-rt"


_OWNER = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_owner(text: str) -> bool:
    """Return whether a text can be the owner of a port; see Plug."""
    return _OWNER.fullmatch(text) is not None


class Kind(enum.StrEnum):
    """How a port is made.

    QEMU gets a macvtap in place of a macvlan.
    """

    MACVLAN = "macvlan"
    MACVTAP = "macvtap"
    IPVLAN = "ipvlan"
    VF = "vf"


#: What a port becomes by ``[libvirt] virt_type``. QEMU takes packets from a
#: character device, which only a macvtap has. A container takes any interface
#: of the host.
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

    Plugging and unplugging are in progress: until they end, the port is shown
    as it was. An absent port's interface is neither where it was plugged nor
    in a container that took it from the host. The VF of a drifted port was
    changed through its PF since the plug. A quarantined port's interface was
    to be removed, and was not seen to return.
    """

    PLUGGING = "plugging"
    PLUGGED = "plugged"
    UNPLUGGING = "unplugging"
    ABSENT = "absent"
    DRIFTED = "drifted"
    QUARANTINED = "quarantined"


@dataclasses.dataclass(frozen=True, slots=True)
class Plug:
    """A port as it is requested.

    :param port: its UUID; it names the port in Neutron, in the records, in
        the alias and in the logs.
    :param owner: an instance's UUID or a name of the operator's choice (1 to
        64 of A-Z a-z 0-9 . _ -).
    :param mode: mode of a macvlan or ipvlan (see request.words.VIF_MODES).
    :param physical_network: picks the pool of parents.
    :param parent: interface of the pool; None to choose one.
    :param namespace: None for the caller's namespace; else ``pid:N`` or a name
        in /run/netns.
    :param name: of the interface in its namespace; None for ``srt`` and the
        first 11 characters of the port.
    :param mac: None for one that the kernel chooses (macvlan) or the parent's
        (ipvlan).
    :param vlan: 0 to 4094; 0 is untagged.
    :param mtu: bytes; None for the parent's.
    :param addresses: such as ``192.0.2.1/24`` or ``2001:db8::1/64``.
    :param routes: (destination or ``default``, gateway) pairs.
    :param numa_node: preferred NUMA node of the parent.
    :param network: UUID of its network in Neutron.
    :param onload: whether its owner runs over Onload, past the kernel: it then
        needs a network, and a NIC has one such owner of each network.
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
    """A port as the kernel has it.

    :param interface: its name in its namespace.
    :param namespace: as in Plug; ``pid:N`` for one without a name.
    :param parent: name of its parent; for a whole VF, its PF.
    :param vf: PCI address of the VF that it is or sits on; None without one.
    :param tap: ``/dev/tapN`` of a macvtap, else None.
    :param network: UUID of an accelerated port's network, else None.
    :param accelerated: whether its owner may run over Onload.
    :param state: whether its interface is where it was plugged.
    :param reason: why it is quarantined or has drifted; else empty.
    :param physical_network: as requested; None for a parent by name.
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


#: States in progress: a plug is undone, an unplug is finished.
IN_PROGRESS = frozenset({State.PLUGGING, State.UNPLUGGING})


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """Record of a port.

    :param boot: id of the boot in which it was written.
    :param mode: mode of a macvlan, macvtap or ipvlan.
    :param interface: name of the interface when it was plugged.
    :param namespace: its namespace as requested; ``pid:N`` may have ended.
    :param namespace_id: identity of that namespace; None for the host's.
    :param index: index of the interface in it, which a plug chooses before it
        makes the interface; 0 if unknown.
    :param parent: name of its parent; for a whole VF, its own name on the
        host.
    :param parent_index: index of its parent.
    :param vf: PCI address of the VF that it is or sits on.
    :param nic: interface of the PF, or the parent that is no VF.
    :param mac: MAC that it was plugged with.
    :param accelerated: whether its owner may run over Onload.
    :param request: the port as it was requested.
    :param state: plugging, plugged, unplugging or quarantined.
    :param reason: why it is quarantined; else empty.
    :param damaged: whether it stands for a file that cannot be read. It keeps
        the VF or parent out of use, and proves nothing. What is unknown is
        empty, 0 or None.
    :param node: node of the interface in sysfs (see kernel.inventory); 0 if
        unknown.
    :param parent_node: node of its parent, likewise.
    :param removed: whether its interface was deleted, and it is quarantined
        for what may be left on its parent.
    :param lowered: whether its parent was set down to cut it off.
    :param parent_up: whether its parent was up before the port was plugged.
    :param before: the quarantined record that a plug in progress replaces, as
        in a file; empty if there is none.
    :param inode: inode of the VF's device in sysfs: a VF that is made again at
        the same address has another; 0 if unknown.
    :param parent_mtu: MTU of its parent before the plug; 0 if unknown.
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
        """UUID of an accelerated port's network, else None."""
        return self.request.network if self.accelerated else None

    @property
    def is_quarantined(self) -> bool:
        """Whether its interface was not seen to return.

        It stays quarantined while its interface is looked for again.
        """
        return self.state is State.QUARANTINED or (
            self.state is State.UNPLUGGING and bool(self.reason)
        )

    @property
    def is_in_progress(self) -> bool:
        """Whether its plug is to be undone, or its unplug finished."""
        return self.state in IN_PROGRESS


class Child(Protocol):
    """Interface on another one: a link that is seen, or a port's record."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """The kernel's kind, such as macvlan."""

    @property
    def mode(self) -> str | None:
        """Mode of a macvlan, macvtap or ipvlan."""

    @property
    def namespace(self) -> str | None:
        """Its namespace; None for the caller's."""
