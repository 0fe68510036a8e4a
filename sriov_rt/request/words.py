# SPDX-License-Identifier: Apache-2.0

"""Vocabulary of a Request: the values that a flavor can have."""

import dataclasses
import enum
from collections.abc import Mapping

from sriov_rt.parse import selector


class Kernel(enum.StrEnum):
    """Kernel that a flavor requests."""

    ANY = "any"
    PREEMPT_RT = "preempt_rt"


class Guest(enum.StrEnum):
    """How far the guest's domain is stripped."""

    STANDARD = "standard"
    LEAN = "lean"
    BARE = "bare"


class VifKind(enum.StrEnum):
    """How a port on a fast physical network is made."""

    VF = "vf"
    MACVLAN = "macvlan"
    IPVLAN = "ipvlan"


class DeviceClass(enum.StrEnum):
    """Classes of guest devices that ``lean`` removes unless kept."""

    VIDEO = "video"
    GRAPHICS = "graphics"
    SOUND = "sound"
    CHANNEL = "channel"
    REDIRDEV = "redirdev"
    SMARTCARD = "smartcard"
    USB = "usb"
    INPUT = "input"
    RNG = "rng"
    BALLOON = "balloon"
    VSOCK = "vsock"
    WATCHDOG = "watchdog"
    PANIC = "panic"
    VMCOREINFO = "vmcoreinfo"
    CONSOLE = "console"


#: The modes of each kind (Documentation/networking/ipvlan.rst; macvlan's are
#: in include/uapi/linux/if_link.h), the default first.
VIF_MODES: Mapping[VifKind, tuple[str, ...]] = {
    VifKind.VF: (),
    VifKind.MACVLAN: ("bridge", "private", "vepa", "passthru"),
    VifKind.IPVLAN: ("l2", "l3", "l3s"),
}

#: PCI vendors of the NIC families with a name in ``sriov_rt:nic``.
#: 10ee is Xilinx, under whose id AMD sells Solarflare's later NICs.
NIC_VENDORS: Mapping[str, frozenset[str]] = {
    "solarflare": frozenset({"1924", "10ee"}),
    "intel": frozenset({"8086"}),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Vif:
    """A kind of port and its mode (None for a whole VF)."""

    kind: VifKind
    mode: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Nic:
    """The suitable NICs: any of ``vendors``, of ``device`` if given.

    :param name: its name in the flavor.
    :param vendors: PCI vendor ids, four hex digits; empty for any.
    :param device: PCI device id, or None for any.
    """

    name: str
    vendors: frozenset[str]
    device: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Scheduling:
    """A thread's scheduler and its priority (sched(7): 1 to 99)."""

    scheduler: str
    priority: int


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """A network on which an instance will have a port.

    :param network: its UUID in Neutron; None if accelerated ports on it don't
        have to be kept apart.
    :param physical_network: None if it is not known.
    """

    network: str | None
    physical_network: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Request of one flavor to a host and its guest.

    :param realtime: the host's dedicated pCPUs must be realtime.
    :param dedicated_cpus: ``hw:cpu_policy=dedicated``, or
        ``resources:PCPU``, by which Nova dedicates CPUs too.
    :param mixed_cpus: ``hw:cpu_policy=mixed``.
    :param realtime_cpus: ``hw:cpu_realtime``, or ``sriov_rt:realtime``.
    :param huge_page_kib: ``hw:mem_page_size`` if it is a huge page size, KiB;
        0 for ``large``, None for no huge pages.
    :param keep: device classes that ``lean`` and ``bare`` leave in.
    :param max_latency_us: worst latency in µs that a certificate may show.
    :param attachments: networks on which Onload may accelerate the instance's
        ports; not from the flavor, but from the scheduler.
    """

    realtime: bool = False
    kernel: Kernel = Kernel.ANY
    node_selector: selector.Selector | None = None
    nic: Nic | None = None
    vif: Vif | None = None
    onload: bool = False
    onload_profile: str | None = None
    guest: Guest = Guest.STANDARD
    keep: frozenset[DeviceClass] = frozenset()
    vcpu_sched: Scheduling | None = None
    iothread_sched: Scheduling | None = None
    emulator_sched: Scheduling | None = None
    max_latency_us: int | None = None
    dedicated_cpus: bool = False
    mixed_cpus: bool = False
    huge_page_kib: int | None = None
    realtime_cpus: bool = False
    attachments: tuple[Attachment, ...] = ()
