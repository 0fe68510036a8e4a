# SPDX-License-Identifier: Apache-2.0

"""A guest that boots in two seconds: Debian's cloud kernel and busybox."""

import dataclasses
import gzip
import pathlib
import shutil
import stat
import tempfile

from tests.testbed import vmlinux
from tests.testbed.waiting import run

#: Text on the guest's console when its userspace runs.
READY = "SRIOV-RT-GUEST-READY"

#: Text on the console when the peer named in the kernel command line has
#: answered; the peer's address follows.
REACHED = "SRIOV-RT-GUEST-REACHED"
#: Kernel arguments: its own address with a prefix, and its peer's.
ADDRESS, PEER = "sriov-rt.address", "sriov-rt.peer"
#: Modules of Debian's kernel, each after those that it needs.
_MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
)

_INIT = f"""\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
echo "{READY} after $(cut -d' ' -f1 /proc/uptime) s with\
 $(grep -c ^processor /proc/cpuinfo) CPU,\
 pci $(ls /sys/bus/pci/devices | wc -l)"
# Tempest looks for ten lines.
head -n 12 /proc/meminfo
argument() {{
    sed -n "s|.*$1=\\([^ ]*\\).*|\\1|p" /proc/cmdline
}}
address=$(argument {ADDRESS})
peer=$(argument {PEER})
if [ -n "$address" ]; then
    for module in {" ".join(each.split("/")[-1] for each in _MODULES)}; do
        insmod "/modules/$module.ko"
    done
    ip address add "$address" dev eth0
    ip link set eth0 up
    until ping -c 1 -W 5 "$peer"; do sleep 1; done
    echo "{REACHED} $peer"
    # The other one may still be on its way.
fi
while :; do sleep 60; done
"""
_DISK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class GuestImage:
    """The three files that make a guest.

    :param kernel: an ELF kernel that QEMU starts through PVH.
    :param ramdisk: a compressed initramfs; all of the guest's userspace.
    :param disk: an empty raw disk: Nova wants one to boot from.
    """

    kernel: pathlib.Path
    ramdisk: pathlib.Path
    disk: pathlib.Path

    @classmethod
    def in_directory(cls, directory: pathlib.Path) -> "GuestImage":
        """Name the files in a directory.

        :param directory: where they are or will be.
        """
        return cls(
            kernel=directory / "vmlinux",
            ramdisk=directory / "initramfs.gz",
            disk=directory / "disk.raw",
        )


def build(kernel: pathlib.Path, directory: pathlib.Path) -> GuestImage:
    """Make the guest's files.

    :param kernel: a kernel package of Debian, unpacked.
    :param directory: where to put the files.
    :raises errors.TestbedError: when the kernel isn't understood.
    """
    files = GuestImage.in_directory(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (bzimage,) = (kernel / "boot").glob("vmlinuz-*")
    (modules,) = (kernel / "lib" / "modules").glob("*/kernel")
    if not files.kernel.exists():
        draft = files.kernel.with_suffix(".new")
        draft.write_bytes(vmlinux.extract(bzimage.read_bytes()))
        draft.rename(files.kernel)
    files.ramdisk.write_bytes(_initramfs(modules))
    with files.disk.open("wb") as stream:
        stream.truncate(_DISK_BYTES)
    return files


def _initramfs(modules: pathlib.Path) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for name in ("bin", "proc", "sys", "dev", "modules"):
            (root / name).mkdir()
        for name in _MODULES:
            shutil.copy2(modules / f"{name}.ko", root / "modules")
        shutil.copy2("/bin/busybox", root / "bin" / "busybox")
        (root / "init").write_text(_INIT)
        (root / "init").chmod(stat.S_IRWXU)
        archive = root / "archive"
        run(
            (
                "busybox",
                "sh",
                "-c",
                'cd "$1" && busybox find . ! -name archive'
                " | busybox cpio -o -H newc > archive",
                "sh",
                str(root),
            ),
            timeout=30,
        )
        # Without a time stamp the same guest gives the same file.
        return gzip.compress(archive.read_bytes(), mtime=0)
