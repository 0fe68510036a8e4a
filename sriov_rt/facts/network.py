# SPDX-License-Identifier: Apache-2.0

"""Network parts of HostFacts."""

import dataclasses
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts.parts import NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class Vf:
    """A virtual function of a PF.

    :param owner: its owner in the kernel: the alias of its interface, or the
        process that holds its VFIO group; None if it has no owner.
    """

    index: int
    address: str
    driver: str | None | Unknown
    netdev: str | None | Unknown
    iommu_group: int | None | Unknown
    owner: str | None | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveNic:
    """A network interface on a PCI device, as decisions judge it.

    :param vendor: PCI vendor id, four lower-case hex digits.
    :param device: PCI device id, likewise.
    :param numa_node: None where the platform has none (``-1`` in sysfs).
    :param speed_mbps: Mbit/s; unknown without a carrier.
    :param vf_device: PCI device id of its VFs (``sriov_vf_device``); None if
        it does not support VFs.
    :param link: ``ethernet``, ``infiniband``, ``wifi``, or ``type N``.
    """

    name: str
    address: str
    driver: str | None | Unknown
    vendor: str | Unknown
    device: str | Unknown
    numa_node: int | None | Unknown
    speed_mbps: int | Unknown
    carrier: bool | Unknown
    mac: str | Unknown
    mtu: int | Unknown
    sriov_totalvfs: int | Unknown
    sriov_numvfs: int | Unknown
    vf_device: str | None | Unknown
    link: str | Unknown = NOT_REPORTED

    @property
    def is_ethernet(self) -> bool:
        """Whether it supports macvlan, MACs and VLANs.

        True if the link is unknown, since older agents do not report it.
        """
        return isinstance(self.link, Unknown) or self.link == "ethernet"


@dataclasses.dataclass(frozen=True, slots=True)
class Nic(DecisiveNic):
    """A network interface on a PCI device that is not itself a VF."""

    vfs: tuple[Vf, ...] | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class NicFacts:
    """The host's network interfaces."""

    nics: tuple[Nic, ...] | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """State of Onload in an instance of the host.

    :param instance: its UUID.
    :param state: ``asked``, ``injected`` or ``accelerated``.
    :param why: one clause on what keeps it from the next state; empty if it
        is accelerated.
    """

    instance: str
    state: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveOnload:
    """Onload on the host, as decisions judge it.

    :param modules: its loaded kernel modules.
    :param devices: its existing device nodes.
    :param library: path of ``libonload.so`` below the root; None if absent.
    :param profiles: names of the profiles installed with it.
    :param version: release of the loaded driver; None without one.
    :param library_fits: whether the library supports the loaded driver's
        interface; None if one of them is missing.
    :param nics: interface of each NIC that it can use, to the way it does:
        ``native`` or ``afxdp``.
    """

    modules: tuple[str, ...] | Unknown
    devices: tuple[str, ...] | Unknown
    library: str | None | Unknown
    profiles: tuple[str, ...] | Unknown
    version: str | None | Unknown = NOT_REPORTED
    library_fits: bool | None | Unknown = NOT_REPORTED
    nics: Mapping[str, str] | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class OnloadFacts(DecisiveOnload):
    """Onload on the host.

    :param workloads: its state in each instance that requested it.
    """

    workloads: tuple[Workload, ...] | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """Accelerated port of the host, whose packets bypass the kernel.

    :param port: UUID of the port.
    :param instance: UUID of its instance.
    :param network: UUID of its network in Neutron.
    :param nic: interface of the NIC that it is on; the PF's if its parent is
        a VF.
    """

    port: str
    instance: str
    network: str
    nic: str


@dataclasses.dataclass(frozen=True, slots=True)
class HeldVf:
    """VF that a manager other than ``sriov-rt vif`` has assigned.

    :param vf: its PCI address.
    :param nic: interface of its PF; empty if that is not known.
    :param kind: kind of the holder, such as ``pod``.
    :param holder: kind and name of the holder, a clause.
    :param state: such as ``in use`` or ``quarantined``.
    :param why: the reason for a quarantine, a clause; else empty.
    """

    vf: str
    nic: str
    kind: str
    holder: str
    state: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class VfCounters:
    """Counters of the frames that a VF receives and transmits."""

    receive_packets: int
    receive_bytes: int
    receive_dropped: int
    transmit_packets: int
    transmit_bytes: int
    transmit_dropped: int


@dataclasses.dataclass(frozen=True, slots=True)
class CountedVf:
    """A VF with counters and owner. Since they change, it is no fact.

    :param port: UUID of its port; empty if the VF has none or several.
    :param instance: its instance; empty likewise.
    :param passed: whether its driver passes the whole VF to a guest.
    :param differing: attributes that differ from its record; None if it has
        no record.
    """

    pf: str
    index: int
    address: str
    port: str
    instance: str
    passed: bool
    counters: VfCounters | Unknown
    differing: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class QuarantinedPort:
    """Port whose interface has not come back, so that its VF is quarantined.

    :param port: UUID of the port.
    :param instance: its owner; empty if a damaged record lacks it.
    :param nic: see :class:`Endpoint`; empty if that is not known.
    :param vf: PCI address of the VF that it is or is on; None if there is
        none, or that is not known.
    :param why: the reason, a clause.
    """

    port: str
    instance: str
    nic: str
    vf: str | None
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class LostPort:
    """Port whose interface disappeared with its VF or NIC.

    :param port: UUID of the port.
    :param instance: its owner.
    :param interface: the former name of its interface.
    :param of_guest: whether a guest's process has it open and can't take
        another one.
    """

    port: str
    instance: str
    interface: str
    of_guest: bool


@dataclasses.dataclass(frozen=True, slots=True)
class VifFacts:
    """Parents for the host's ports, and the accelerated ports.

    :param pools: physical network to the sorted NIC interfaces that its
        parents (``[vif] parents``) are on: the PF's if parents are its VFs.
    :param endpoints: sorted.
    :param quarantined: sorted by port.
    :param holders: VFs of pods, VMIs, domains and Neutron's agent, sorted by
        address.
    :param missing: physical network to its configured parents that the host
        lacks.
    :param lost: sorted by port.
    """

    pools: Mapping[str, tuple[str, ...]] | Unknown
    endpoints: tuple[Endpoint, ...] | Unknown
    quarantined: tuple[QuarantinedPort, ...] | Unknown = NOT_REPORTED
    holders: tuple[HeldVf, ...] | Unknown = NOT_REPORTED
    missing: Mapping[str, tuple[str, ...]] | Unknown = NOT_REPORTED
    lost: tuple[LostPort, ...] | Unknown = NOT_REPORTED
