# SPDX-License-Identifier: Apache-2.0

"""Network parts of HostFacts."""

import dataclasses
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts.parts import NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class Vf:
    """A virtual function of a PF.

    :param owner: who has it, as the kernel has it: the alias of its
        interface, or the process that holds its VFIO group; None if nobody.
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
    :param vf_device: PCI device id of its VFs (``sriov_vf_device``); None
        where it can have none.
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
        """Whether macvlan, MACs and VLANs can be had of it.

        So one does whose link is unknown: an older agent does not report it.
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
    """How far Onload is with an instance of the host.

    :param instance: its UUID.
    :param state: ``asked``, ``injected`` or ``accelerated``.
    :param why: one clause on what keeps it from the next state; empty for
        one that is accelerated.
    """

    instance: str
    state: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveOnload:
    """Onload on the host, as decisions judge it.

    :param modules: those of its kernel modules that are loaded.
    :param devices: those of its device nodes that are there.
    :param library: path of ``libonload.so`` below the root; None if absent.
    :param profiles: names of the profiles installed with it.
    :param version: release of the loaded driver; None without one.
    :param library_fits: whether the library speaks the loaded driver's
        interface; None where one of them is missing.
    :param nics: interface of each NIC that it can use, and how: ``native``
        or ``afxdp``.
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

    :param workloads: what became of each instance that requested it.
    """

    workloads: tuple[Workload, ...] | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """Accelerated port of the host, whose packets bypass the kernel.

    :param port: its UUID.
    :param instance: UUID of the one that has it.
    :param network: UUID of its network in Neutron.
    :param nic: interface of the NIC that it is on: the PF's, where its
        parent is a VF.
    """

    port: str
    instance: str
    network: str
    nic: str


@dataclasses.dataclass(frozen=True, slots=True)
class HeldVf:
    """VF that another manager than ``sriov-rt vif`` has given somebody.

    :param vf: its PCI address.
    :param nic: interface of its PF; empty where that is not known.
    :param kind: of the holder, such as ``pod``.
    :param holder: kind and name, a clause.
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
    """Frames of a VF, as it receives and transmits them."""

    receive_packets: int
    receive_bytes: int
    receive_dropped: int
    transmit_packets: int
    transmit_bytes: int
    transmit_dropped: int


@dataclasses.dataclass(frozen=True, slots=True)
class CountedVf:
    """A VF with its counters and its one owner. It is no fact: it changes.

    :param port: its UUID; empty where the VF has none, or several.
    :param instance: who has it; likewise.
    :param passed: whether it has a driver that gives it to a guest whole.
    :param differing: attributes that are not as its record has them; None
        where it has none.
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
    """Port whose interface was not seen to come back: its VF is kept apart.

    :param port: its UUID.
    :param instance: its owner; empty where a damaged record does not have it.
    :param nic: as of an :class:`Endpoint`; empty where that is not known.
    :param vf: PCI address of the VF that it is or sits on; None if there is
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
    """Port whose interface went with its VF or NIC.

    :param port: its UUID.
    :param instance: its owner.
    :param interface: the name that it had.
    :param of_guest: whether a guest's process has it open, and takes no other.
    """

    port: str
    instance: str
    interface: str
    of_guest: bool


@dataclasses.dataclass(frozen=True, slots=True)
class VifFacts:
    """Parents for the host's ports, and the accelerated ports.

    :param pools: physical network to the interfaces of the NICs that its
        parents (``[vif] parents``) are on, each the PF's where parents are
        its VFs; sorted.
    :param endpoints: sorted.
    :param quarantined: by their ports; sorted.
    :param holders: VFs of pods, VMIs, domains and Neutron's agent, by address.
    :param missing: physical network to those of its parents that are not on
        the host, as they are configured.
    :param lost: by their ports; sorted.
    """

    pools: Mapping[str, tuple[str, ...]] | Unknown
    endpoints: tuple[Endpoint, ...] | Unknown
    quarantined: tuple[QuarantinedPort, ...] | Unknown = NOT_REPORTED
    holders: tuple[HeldVf, ...] | Unknown = NOT_REPORTED
    missing: Mapping[str, tuple[str, ...]] | Unknown = NOT_REPORTED
    lost: tuple[LostPort, ...] | Unknown = NOT_REPORTED
