# SPDX-License-Identifier: Apache-2.0

"""What a virtual compute host is: kernel, CPUs, memory, network cards."""

import dataclasses
import ipaddress
import pathlib
import uuid
from collections.abc import Mapping

from tests.testbed import errors

#: Above about 2.75 GiB the firmware puts the VFs' 64-bit BARs over 4 GiB,
#: where QEMU 10.0.2 maps them wrongly: the VFs have no link then.
MOST_MEMORY_MB = 2688

#: VFs of one 82576 function (Intel's datasheet; QEMU's igb does the same).
MOST_VFS = 7

#: The tag of a directory that is exported by 9p.
EXPORT = "export"

#: Realtime host: the last two of four CPUs belong to guests alone.
REALTIME_ARGUMENTS = (
    "isolcpus=managed_irq,domain,2,3",
    "nohz_full=2,3",
    "rcu_nocbs=2,3",
    "irqaffinity=0,1",
    "transparent_hugepage=never",
    "skew_tick=1",
    "nowatchdog",
    "nosoftlockup",
    "intel_iommu=on",
    "iommu=pt",
)

REALTIME_SYSCTLS = {
    "kernel.sched_rt_runtime_us": "-1",
    "kernel.timer_migration": "0",
}

#: An emulated CPU needs these whatever the host is for: without the first
#: one boot in seven panics when the machine is busy.
EMULATION_ARGUMENTS = (
    "no_timer_check",
    "tsc=reliable",
    "mitigations=off",
    "console=ttyS0",
    "loglevel=4",
    "panic=-1",
)

_IDENTITIES = uuid.UUID("6b1f4c83-6f05-4d0c-9a60-5d3f5c0f3c52")


@dataclasses.dataclass(frozen=True)
class Cable:
    """Joins the wires of two machines.

    :param socket: unix socket that one listens on and the other finds.
    :param listens: whether this end is the one that listens.
    """

    socket: pathlib.Path
    listens: bool


@dataclasses.dataclass(frozen=True)
class Machine:
    """A virtual compute host; the default is the realtime host rt-1.

    :param name: host name, and the name of its directory and processes.
    :param number: 1 to 255, in the MAC addresses; unlike any other's.
    :param kernel: Debian's flavour of the kernel: "rt-amd64" or "amd64".
    :param backport: whether it is that of Debian's backports suite, which is
        newer than the release's.
    :param arguments: kernel arguments beside those the emulation needs.
    :param sysctls: set before anything is started.
    :param cpus: number of CPUs.
    :param memory_mb: MiB of memory, at most MOST_MEMORY_MB with VFs.
    :param hugepages: pages of 2 MiB reserved at boot.
    :param vfs: VFs that each of the two PFs gets before libvirtd starts.
    :param tap: tap interface of the management card, made by the caller;
        None for no card.
    :param address: address with prefix of the management card.
    :param hosts: names the machine has to know, with their addresses.
    :param compute_id: what Nova takes for the identity of the host; one
        made from the name when empty.
    :param libvirt: whether virtlogd and libvirtd are started.
    :param disk: raw image of a disk on virtio-blk; None for none.
    :param export: directory that it can mount by 9p as EXPORT; None for none.
    :param cable: from the wire between its PFs to another machine's; None
        for a wire of its own.
    :param outlet: tap interface, made by the caller, that the wire between
        its PFs leads to; None for a wire that ends in it.
    """

    name: str = "rt-1"
    number: int = 1
    kernel: str = "rt-amd64"
    backport: bool = False
    arguments: tuple[str, ...] = REALTIME_ARGUMENTS
    sysctls: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: dict(REALTIME_SYSCTLS)
    )
    cpus: int = 4
    memory_mb: int = MOST_MEMORY_MB
    hugepages: int = 300
    vfs: int = 4
    tap: str | None = None
    address: str | None = None
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    compute_id: str = ""
    libvirt: bool = True
    cable: Cable | None = None
    outlet: str | None = None
    disk: pathlib.Path | None = None
    export: pathlib.Path | None = None

    def __post_init__(self) -> None:
        """Refuse what can't work before anything is started.

        :raises errors.TestbedError: with what to change.
        """
        if self.vfs and self.memory_mb > MOST_MEMORY_MB:
            raise errors.TestbedError(
                f"{self.name}: give it at most {MOST_MEMORY_MB} MB of "
                f"memory, not {self.memory_mb}, or no VFs"
            )
        if not 0 <= self.vfs <= MOST_VFS:
            raise errors.TestbedError(
                f"{self.name}: a PF has 0 to {MOST_VFS} VFs, not {self.vfs}"
            )
        if not 1 <= self.number <= 255:
            raise errors.TestbedError(
                f"{self.name}: its number is 1 to 255, not {self.number}"
            )
        if self.address is not None:
            ipaddress.ip_interface(self.address)

    @classmethod
    def ordinary(cls, name: str, number: int) -> "Machine":
        """Describe a host like rt-1 that nobody made realtime.

        :param name: host name.
        :param number: in its MAC addresses.
        """
        return cls(
            name=name,
            number=number,
            kernel="amd64",
            arguments=("intel_iommu=on",),
            sysctls={},
        )

    @property
    def identity(self) -> str:
        """The UUID that Nova and libvirt know the host by."""
        return self.compute_id or str(uuid.uuid5(_IDENTITIES, self.name))

    def mac(self, card: int) -> str:
        """Return the address of a card.

        :param card: 0 for management, 1 and 2 for the PFs.
        """
        return f"52:54:00:10:{self.number:02x}:{card:02x}"

    def kernel_line(self) -> str:
        """Return the kernel's command line, without the harness's part."""
        pages = (f"hugepages={self.hugepages}",) if self.hugepages else ()
        return " ".join((*EMULATION_ARGUMENTS, *self.arguments, *pages))
