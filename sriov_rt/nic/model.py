# SPDX-License-Identifier: Apache-2.0

"""VFs and PFs as the kernel shows them, and the baseline of a VF."""

import dataclasses
import enum

from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.nic.tenancy import NOBODYS
from sriov_rt.nic.tenancy import Tenancy
from sriov_rt.parse import link

#: MAC of a VF without an administrative one: the PF reports zeros.
NO_MAC = link.NO_MAC

#: Baseline of a VF before and after each use, unless its family has another.
#: The plan leaves out what a family does not support; the driver comes from
#: the configuration.
BASELINE = VfSettings(
    mac=NO_MAC,
    vlan=0,
    qos=0,
    vlan_protocol=VlanProtocol.Q,
    spoofchk=True,
    trust=False,
    link_state=LinkState.AUTO,
    min_tx_rate=0,
    max_tx_rate=0,
    query_rss=False,
    promisc=False,
    allmulti=False,
)


class EswitchMode(enum.StrEnum):
    """How a PF forwards between its VFs, as devlink names it."""

    LEGACY = "legacy"
    SWITCHDEV = "switchdev"


#: NET_ADDR_RANDOM and NET_ADDR_SET of include/uapi/linux/netdevice.h.
ADDRESS_RANDOM = 1
ADDRESS_SET = 3


@dataclasses.dataclass(frozen=True, slots=True)
class VfId:
    """Identity of a VF.

    :param pf: name of its PF's interface.
    :param index: its number on the PF, from 0.
    :param address: its PCI address.
    """

    pf: str
    index: int
    address: str

    def __str__(self) -> str:
        return f"{self.pf}/{self.index}"


@dataclasses.dataclass(frozen=True, slots=True)
class Pf:
    """A physical function that can have VFs.

    :param vendor: PCI id, four lower-case hex digits; likewise product.
    :param speed_mbps: speed of its link, Mbit/s; None without a link.
    :param carrier: None if it is down or unknown.
    :param total_vfs: limit from sriov_totalvfs.
    :param probes: whether the kernel binds drivers to new VFs
        (sriov_drivers_autoprobe); None if unknown.
    :param eswitch: switchdev if one of its VFs has a representor.
    """

    name: str
    address: str
    driver: str | None
    vendor: str
    product: str
    speed_mbps: int | None
    carrier: bool | None
    total_vfs: int
    vfs: tuple[VfId, ...]
    probes: bool | None = None
    eswitch: EswitchMode = EswitchMode.LEGACY


@dataclasses.dataclass(frozen=True, slots=True)
class VfDevice:
    """The PCI device of a VF and its interface.

    :param netdev: its interface; None if it has none in this namespace.
    :param elsewhere: whether it has one in another namespace.
    :param mac: MAC of the interface; likewise mtu, promisc, allmulti and up.
    :param address_type: origin of that MAC (addr_assign_type).
    :param numa_node: None if the platform has none.
    :param uppers: interfaces on it, in this namespace.
    """

    driver: str | None
    netdev: str | None = None
    elsewhere: bool = False
    alias: str = ""
    iommu_group: int | None = None
    numa_node: int | None = None
    mac: str | None = None
    address_type: int | None = None
    mtu: int | None = None
    promisc: bool | None = None
    allmulti: bool | None = None
    up: bool | None = None
    uppers: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class VfState:
    """A VF as the kernel shows it.

    :param family: name of its PF's row.
    :param netdev: None if it is in another namespace or the VF has none.
    :param alias: ``sriov-rt:<port>:<owner>`` for a port, ``sriov-rt:parent``
        if it is up for ports on it; or empty.
    :param device: its device, with its interface's MAC.
    :param keeps_filters: whether its PF may keep MAC filters of its last use.
    :param baseline: baseline of its family.
    :param tenancy: its holders, beside the records of ports.
    :param mac_budget: unicast MAC filters that subinterfaces can count on;
        None if unknown.
    """

    id: VfId
    family: str
    driver: str | None
    netdev: str | None
    alias: str
    iommu_group: int | None
    numa_node: int | None
    settings: VfSettings
    mac_budget: int | None
    device: VfDevice = VfDevice(None)
    keeps_filters: bool = False
    baseline: VfSettings = BASELINE
    tenancy: Tenancy = NOBODYS
