# SPDX-License-Identifier: Apache-2.0

"""Small root file systems of believable hosts."""

import errno
import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

from sriov_rt.facts import certificate
from sriov_rt.host import compute
from sriov_rt.host import compute_driver_socket
from sriov_rt.host import cpus
from sriov_rt.host import irqs
from sriov_rt.host import kernel
from sriov_rt.host import latency
from sriov_rt.host import maintenance
from sriov_rt.host import memory
from sriov_rt.host import nics
from sriov_rt.host import root as root_module
from sriov_rt.host import virt
from sriov_rt.host.cgroup import EFFECTIVE
from sriov_rt.host.root import Root
from sriov_rt.onload import onload_facts as onload
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.vif import vif_facts as vifs

#: What stevedore finds where sriov-rt is installed.
SOURCES = {
    "cpus": cpus.observe,
    "kernel": kernel.observe,
    "memory": memory.observe,
    "irqs": irqs.observe,
    "virt": virt.observe,
    "nics": nics.observe,
    "onload": onload.observe,
    "compute": compute.observe,
    "latency": latency.observe,
    "maintenance": maintenance.observe,
    "vifs": vifs.observe,
}

RELEASE = "6.1.0-44-rt-amd64"

#: The latency certificate of the host; it hangs on its kernel alone.
ISOLATED = "2-3,6-7,10-11,14-15"
MACHINE = "3b7e1f90c2d4a5863b7e1f90c2d4a586"
_COMMAND_LINE = (
    f"BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=managed_irq,domain,"
    f"{ISOLATED} nohz_full={ISOLATED} rcu_nocbs={ISOLATED}"
)
_VERSION = "#1 SMP PREEMPT_RT Debian 6.1.164-1"

#: What the latency of the host hangs on, of the tree below.
CONDITIONS = types.MappingProxyType(
    {
        "kernel release": RELEASE,
        "kernel version": _VERSION,
        "kernel command line": _COMMAND_LINE,
        "microcode": "-",
        "BIOS": "-",
        "BIOS date": "-",
        "SMT": "-",
        "online CPUs": "0-15",
        "isolated CPUs": ISOLATED,
        "clock source": "tsc",
        "tuned profile": "-",
        "sched_rt_runtime_us": "-1",
        "machine": MACHINE,
        "host name": "compute-7",
        "product": "-",
        "product UUID": "-",
        "product serial": "-",
        "CPU model": "-",
        "governor": "performance",
        "idle states": "POLL,C1,C6",
        "swap": "none",
    }
)
CERTIFICATE = certificate.Certificate(
    host="rt-1",
    max_latency_us=18,
    kernel=RELEASE,
    issued_at=1788000000.0,
    expires_at=1798761600.0,
    profile="standard",
    load="compute",
    emulated=False,
    tools=(
        certificate.CertifiedTool("cyclictest", "2.40", "x", 900.0, 18),
        certificate.CertifiedTool("oslat", "2.40", "x", 900.0, 17),
    ),
    cpus=tuple(
        certificate.CertifiedCpu(cpu, 18, 4_500_000, 300.0, None)
        for cpu in (2, 3, 6, 7, 10, 11, 14, 15)
    ),
    conditions=CONDITIONS,
)
HOUSEKEEPING = "0-1,4-5,8-9,12-13"
X710 = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
X2522 = "devices/pci0000:ae/0000:ae:00.0/0000:af:00.0"

_FILES = {
    "etc/nova/nova.conf": (
        "[DEFAULT]\nhost = rt-1\ntransport_url = rabbit://u:secret@mq/\n"
        f"[compute]\ncpu_dedicated_set = {ISOLATED}\n"
        "cpu_shared_set = 4-5,^5\n"
    ),
    "etc/machine-id": f"{MACHINE}\n",
    # A nova-compute with our driver runs on it.
    "proc/1/net/unix": (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000000000000000: 00000002 00000000 00000000 0002 01 4711 "
        f"@{compute_driver_socket.prefix('rt-1')}1.0.0/kvm/1f2e3d4c\n"
    ),
    "proc/cmdline": f"{_COMMAND_LINE}\n",
    "proc/irq/default_smp_affinity": "3333\n",
    "proc/irq/9/smp_affinity_list": f"{HOUSEKEEPING}\n",
    "proc/irq/9/effective_affinity_list": "0\n",
    "proc/irq/25/smp_affinity_list": f"{HOUSEKEEPING}\n",
    "proc/irq/25/effective_affinity_list": "0\n",
    "proc/irq/26/smp_affinity_list": "2-3\n",
    "proc/irq/26/effective_affinity_list": "2\n",
    "proc/irq/9/smp_affinity": "3333\n",
    "proc/irq/25/smp_affinity": "3333\n",
    "proc/irq/26/smp_affinity": "000c\n",
    "proc/swaps": "Filename\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    "proc/sys/kernel/hostname": "compute-7\n",
    "proc/sys/kernel/nmi_watchdog": "0\n",
    "proc/sys/kernel/osrelease": f"{RELEASE}\n",
    "proc/sys/kernel/sched_rt_period_us": "1000000\n",
    "proc/sys/kernel/sched_rt_runtime_us": "-1\n",
    "proc/sys/kernel/timer_migration": "0\n",
    "proc/sys/kernel/soft_watchdog": "1\n",
    "proc/sys/kernel/version": f"{_VERSION}\n",
    "proc/sys/kernel/watchdog": "1\n",
    "proc/sys/kernel/watchdog_cpumask": f"{HOUSEKEEPING}\n",
    "proc/4242/comm": "qemu-system-x86\n",
    "proc/4242/cmdline": (
        "/usr/bin/qemu-system-x86_64\0-name\0"
        "guest=instance-00000001,debug-threads=on\0-S\0"
    ),
    f"lib/modules/{RELEASE}/modules.builtin": (
        "kernel/drivers/net/macvlan.ko\n"
    ),
    f"lib/modules/{RELEASE}/modules.dep": (
        "kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/v.ko\n"
        "kernel/net/8021q/8021q.ko: kernel/net/802/garp.ko\n"
    ),
    "sys/devices/system/clocksource/clocksource0/current_clocksource": (
        "tsc\n"
    ),
    "sys/devices/system/cpu/cpufreq/policy0/affected_cpus": (
        "0 1 2 3 4 5 6 7\n"
    ),
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": (
        "performance\n"
    ),
    "sys/devices/system/cpu/cpufreq/policy8/affected_cpus": (
        "8 9 10 11 12 13 14 15\n"
    ),
    "sys/devices/system/cpu/cpufreq/policy8/scaling_governor": (
        "performance\n"
    ),
    "sys/devices/system/cpu/isolated": f"{ISOLATED}\n",
    "sys/devices/system/cpu/nohz_full": f"{ISOLATED}\n",
    "sys/kernel/sched_ext/state": "disabled\n",
    "sys/devices/system/cpu/online": "0-15\n",
    "sys/devices/system/cpu/possible": "0-31\n",
    "sys/devices/system/cpu/present": "0-15\n",
    "sys/devices/system/cpu/smt/control": "on\n",
    "sys/devices/virtual/workqueue/cpumask": "3333\n",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "sys/fs/cgroup/cpuset.cpus.effective": "0-15\n",
    "sys/kernel/iommu_groups/41/type": "DMA-FQ\n",
    "sys/kernel/iommu_groups/42/type": "DMA-FQ\n",
    "sys/kernel/mm/ksm/run": "0\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/realtime": "1\n",
    "sys/module/ipvlan/initstate": "live\n",
    "sys/module/kvm/parameters/halt_poll_ns": "0\n",
    "sys/module/kvm/parameters/mmio_caching": "Y\n",
    "sys/module/kvm_intel/parameters/ple_gap": "0\n",
    "sys/module/onload/initstate": "live\n",
    "sys/module/sfc/initstate": "live\n",
    "dev/kvm": "",
    "dev/onload": "",
    "usr/lib64/libonload.so": "",
    "usr/libexec/onload/profiles/latency.opf": "onload_set EF_POLL_USEC 1\n",
    "usr/libexec/onload/profiles/README": "no profile\n",
    certificate.PATH: certificate.to_bytes(CERTIFICATE).decode(),
}


class Tree:
    """A root file system below a temporary directory.

    :param path: an existing directory.
    """

    def __init__(self, path: str | pathlib.Path) -> None:
        self.path = pathlib.Path(path)

    @property
    def root(self) -> Root:
        """What reads it."""
        return Root(str(self.path))

    def write(self, relative: str, data: str | bytes = "") -> None:
        """Write a file and the directories that it is in."""
        path = self.path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def link(self, relative: str, target: str) -> None:
        """Make a symbolic link to a target as it is given."""
        path = self.path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def remove(self, relative: str) -> None:
        """Remove a file, a link or a directory with all that is in it."""
        path = self.path / relative
        if path.is_dir() and not path.is_symlink():
            for each in list(path.iterdir()):
                self.remove(f"{relative}/{each.name}")
            path.rmdir()
        else:
            path.unlink()

    def make_unreadable(self, relative: str) -> None:
        """Put a directory in a file's place, which root can't read either."""
        self.remove(relative)
        (self.path / relative).mkdir()

    def files(self) -> list[pathlib.Path]:
        """Return every file, links left out."""
        return sorted(
            path
            for path in self.path.rglob("*")
            if path.is_file() and not path.is_symlink()
        )

    def take_offline(self, cpus: str) -> None:
        """Take CPUs offline, of those that are online, as Linux 6.1 does.

        :param cpus: a CPU list.
        """
        path = f"sys/fs/cgroup/{EFFECTIVE}"
        left = parse_cpu_list((self.path / path).read_text())
        self.write(path, f"{format_cpu_list(left - parse_cpu_list(cpus))}\n")
        self.take_offline_alone(cpus)

    def take_offline_alone(self, cpus: str) -> None:
        """Take CPUs offline, and change no cgroup."""
        directory = "sys/devices/system/cpu"
        gone = parse_cpu_list(cpus)
        paths = [f"{directory}/online"]
        for cpu in gone:
            self.write(f"{directory}/cpu{cpu}/online", "0\n")
            self.remove(f"{directory}/cpu{cpu}/topology")
        for path in (self.path / directory).glob("cpu*/topology/*_list"):
            paths.append(str(path.relative_to(self.path)))
        for path in paths:
            left = parse_cpu_list((self.path / path).read_text()) - gone
            self.write(path, f"{format_cpu_list(left)}\n")

    def guest_cgroup(self, effective: str, cpus: str, state: str) -> None:
        """Make the cgroup that libvirt has for guests under systemd.

        :param effective: the CPUs that its guests have.
        :param cpus: those that were chosen for it; none for no choice.
        :param state: of the partition.
        """
        self.cgroup("machine.slice", effective, cpus, state)

    def cgroup(self, name: str, effective: str, cpus: str, state: str) -> None:
        """Make a cgroup; see :meth:`guest_cgroup`."""
        directory = f"sys/fs/cgroup/{name}"
        self.write(f"{directory}/{EFFECTIVE}", f"{effective}\n")
        self.write(f"{directory}/cpuset.cpus", f"{cpus}\n")
        self.write(f"{directory}/cpuset.cpus.partition", f"{state}\n")

    def pci_device(self, device: str, /, **attributes: str) -> None:
        """Add a PCI device.

        :param device: its directory below sys, ``devices/…/<address>``.
        :param attributes: file name to its text, ``driver`` to a name.
        """
        depth = device.count("/")
        driver = attributes.pop("driver", None)
        if driver:
            up = "../" * depth
            self.link(f"sys/{device}/driver", f"{up}../bus/pci/d/{driver}")
        for name, text in attributes.items():
            self.write(f"sys/{device}/{name}", f"{text}\n")
        address = device.rpartition("/")[2]
        self.link(f"sys/bus/pci/devices/{address}", f"../../../{device}")

    def netdev(self, device: str, name: str, **attributes: str) -> None:
        """Add a network interface to a device."""
        directory = f"{device}/net/{name}"
        attributes = {"type": "1\n", **attributes}
        for key, text in attributes.items():
            self.write(f"sys/{directory}/{key}", text)
        self.link(f"sys/{directory}/device", "../../../" + _last(device))
        self.link(f"sys/class/net/{name}", f"../../{directory}")

    def vf(self, pf: str, index: int, address: str, **attributes: str) -> str:
        """Add a VF to a PF and return the VF's directory below sys."""
        device = f"{pf.rpartition('/')[0]}/{address}"
        self.pci_device(device, vendor="0x8086", **attributes)
        self.link(f"sys/{device}/physfn", f"../{_last(pf)}")
        self.link(f"sys/{pf}/virtfn{index}", f"../{address}")
        return device


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def realtime_host(path: str | pathlib.Path) -> Tree:
    """Build a tuned host of two sockets, SMT, an X710 and an X2522."""
    tree = Tree(path)
    for relative, text in _FILES.items():
        tree.write(relative, text)
    for cpu in range(16):
        if cpu:
            tree.write(f"sys/devices/system/cpu/cpu{cpu}/online", "1\n")
        tree.write(
            f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list",
            f"{cpu % 8},{cpu % 8 + 8}\n",
        )
        _idle_states(tree, cpu)
    for node, text in enumerate(("0-3,8-11", "4-7,12-15")):
        directory = f"sys/devices/system/node/node{node}"
        tree.write(f"{directory}/cpulist", f"{text}\n")
        pools = f"{directory}/hugepages/hugepages"
        tree.write(f"{pools}-1048576kB/nr_hugepages", f"{8 * node}\n")
        tree.write(f"{pools}-2048kB/nr_hugepages", "512\n")
    _interfaces(tree)
    tree.link("proc/4242/fd/30", "/dev/vfio/42")
    tree.link("proc/4242/fd/31", "socket:[991]")
    for process in ("1", "4242"):
        (tree.path / "proc" / process / "fd").mkdir(exist_ok=True)
    return tree


def _idle_states(tree: Tree, cpu: int) -> None:
    directory = f"sys/devices/system/cpu/cpu{cpu}"
    tree.write(f"{directory}/power/pm_qos_resume_latency_us", "n/a\n")
    for number, (name, latency_us) in enumerate(
        (("POLL", 0), ("C1", 2), ("C6", 133))
    ):
        state = f"{directory}/cpuidle/state{number}"
        tree.write(f"{state}/name", f"{name}\n")
        tree.write(f"{state}/latency", f"{latency_us}\n")
        tree.write(f"{state}/disable", "0\n")


def _interfaces(tree: Tree) -> None:
    tree.netdev("devices/virtual/d", "lo", mtu="65536\n")
    tree.remove("sys/devices/virtual/d/net/lo/device")
    tree.link("sys/devices/v/virtio2/net/eth0/device", "../../../virtio2")
    tree.link("sys/class/net/eth0", "../../devices/v/virtio2/net/eth0")
    tree.pci_device(
        X710,
        vendor="0x8086",
        device="0x1572",
        numa_node="0",
        driver="i40e",
        sriov_totalvfs="64",
        sriov_numvfs="4",
        sriov_vf_device="154c",
    )
    tree.netdev(
        X710,
        "eno1",
        speed="10000\n",
        carrier="1\n",
        address="3c:fd:fe:00:00:01\n",
        mtu="9000\n",
    )
    for index in range(2):
        vf = tree.vf(X710, index, f"0000:3b:02.{index}", driver="iavf")
        alias = "" if index else "sriov-rt instance 7c\n"
        tree.netdev(vf, f"eno1v{index}", ifalias=alias)
    vf = tree.vf(X710, 2, "0000:3b:02.2", driver="vfio-pci")
    tree.link(f"sys/{vf}/iommu_group", "../../../kernel/iommu_groups/42")
    vf = tree.vf(X710, 3, "0000:3b:02.3", driver="iavf")
    (tree.path / "sys" / vf / "net").mkdir()
    tree.pci_device(
        X2522,
        vendor="0x1924",
        device="0x0b03",
        numa_node="-1",
        driver="sfc",
        sriov_totalvfs="0",
        sriov_numvfs="0",
        sriov_vf_device="1b03",
    )
    tree.netdev(
        X2522,
        "ens2f0",
        speed="4294967295\n",
        carrier="0\n",
        address="00:0f:53:00:00:01\n",
        mtu="1500\n",
    )


class TreeTest(unittest.TestCase):
    """A test of what is read from a realtime host's tree."""

    def setUp(self) -> None:
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = realtime_host(directory.name)

    @property
    def root(self) -> Root:
        """What reads the tree."""
        return self.tree.root

    def fail_reading(self, relative: str, number: int) -> None:
        """Make reading one file fail, as only a kernel's file can.

        :param number: the errno.
        """
        read = root_module.read_file
        broken = (self.tree.path / relative).resolve()

        def stub(path: pathlib.Path, limit: int) -> bytes:
            if path == broken:
                raise OSError(number, os.strerror(number))
            return read(path, limit)

        patch = mock.patch.object(root_module, "read_file", stub)
        patch.start()
        self.addCleanup(patch.stop)

    def take_down(self, interface: str) -> None:
        """Make an interface answer as one that is down."""
        for name in ("carrier", "speed"):
            path = f"sys/class/net/{interface}/{name}"
            self.fail_reading(path, errno.EINVAL)
