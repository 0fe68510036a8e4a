# SPDX-License-Identifier: Apache-2.0

"""The image of a worker: Debian with containerd, kubelet and kubeadm.

All of it is from packages and Go modules. It boots by a kernel and an
initramfs beside it, as the guests of the cloud do.
"""

import dataclasses
import os
import pathlib
import shutil
import tempfile

from tests.testbed import debian_tree
from tests.testbed import paths
from tests.testbed import vmlinux
from tests.testbed.kube import pod_image
from tests.testbed.kube.node_programs import NodePrograms
from tests.testbed.progress import Progress
from tests.testbed.rtvm import initramfs
from tests.testbed.rtvm.debian import Unpacker
from tests.testbed.waiting import run

SUITE = "bookworm"
PACKAGES = (
    # cloud-init gives ifupdown Nova's default route as a command of net-tools.
    *("systemd-sysv", "udev", "dbus", "cloud-init", "ifupdown", "net-tools"),
    *("containerd", "runc", "containernetworking-plugins"),
    *("iproute2", "iptables", "conntrack", "ethtool", "kmod", "netbase"),
)

#: What a pod runs: an HTTP server of busybox.
POD_IMAGE = "localhost/web:1"

#: Beside the packages; what is there now takes a little more than half.
_DISK_BYTES = 1280 << 20

_HERE = pathlib.Path(__file__).parent
_FLAVOUR = "cloud-amd64"

#: To reach the disk; the other modules are on it.
_MODULES = ("virtio_pci", "virtio_blk")

#: They have nothing to do on a node that lives for a test, or would wait for
#: a network that leads nowhere else.
_MASKED = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer"),
    *("e2scrub_all.timer", "fstrim.timer", "systemd-timesyncd.service"),
    *("systemd-update-utmp.service", "e2scrub_reap.service"),
)
_ENABLED = ("kubelet", "worker-images", "containerd")


@dataclasses.dataclass(frozen=True)
class WorkerImage:
    """The files of a worker.

    :param directory: where they are.
    """

    directory: pathlib.Path

    @property
    def kernel(self) -> pathlib.Path:
        """An ELF kernel that QEMU starts through PVH."""
        return self.directory / "vmlinux"

    @property
    def ramdisk(self) -> pathlib.Path:
        """The initramfs that mounts the disk."""
        return self.directory / "initramfs"

    @property
    def disk(self) -> pathlib.Path:
        """The root file system."""
        return self.directory / "disk.raw"


def prepare(place: paths.Paths, progress: Progress) -> WorkerImage:
    """Return the image, after what is missing was built.

    :param place: the directories of the test bed; the image is in its cache,
        and it is made each time, in seconds.
    :raises errors.TestbedError: when something can't be had or made.
    """
    programs = NodePrograms(place.cache)
    programs.prepare(place.log, progress)
    with progress.step("a worker's image"):
        tree = debian_tree.make(SUITE, PACKAGES, place.log / "worker.log")
        kernel = Unpacker(place.cache / "debian").kernel(_FLAVOUR).root
        files = in_cache(place)
        files.directory.mkdir(parents=True, exist_ok=True)
        (bzimage,) = (kernel / "boot").glob("vmlinuz-*")
        release = bzimage.name.removeprefix("vmlinuz-")
        files.kernel.write_bytes(vmlinux.extract(bzimage.read_bytes()))
        initramfs.build(
            files.ramdisk,
            tree=kernel,
            release=release,
            init=_HERE / "init.sh",
            modules=_MODULES,
        )
        with tempfile.TemporaryDirectory(dir=files.directory) as scratch:
            root = pathlib.Path(scratch) / "root"
            debian_tree.copy(tree, root)
            _fill(root, kernel, release, programs)
            _make_disk(root, files.disk)
    return files


def in_cache(place: paths.Paths) -> WorkerImage:
    """Return the image that prepare() makes."""
    return WorkerImage(place.cache / "worker-image")


def _fill(
    root: pathlib.Path,
    kernel: pathlib.Path,
    release: str,
    programs: NodePrograms,
) -> None:
    for name in ("kubelet", "kubeadm"):
        shutil.copy(programs.program(name), root / "usr/bin")
    # kubeadm reads the kernel's configuration beside it.
    shutil.copy(kernel / "boot" / f"config-{release}", root / "boot")
    modules = pathlib.Path("lib/modules", release)
    shutil.copytree(kernel / modules, root / "usr" / modules, symlinks=True)
    run(("depmod", "--basedir", str(root), release), timeout=120)
    shutil.copytree(_HERE / "root", root, dirs_exist_ok=True)
    (root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
    (root / "etc/fstab").write_text("/dev/vda / ext4 noatime 0 0\n")
    (root / "etc/kubernetes/manifests").mkdir(parents=True)
    units = root / "etc/systemd/system"
    for name in _MASKED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    run(
        ("systemctl", f"--root={root}", "enable", *_ENABLED),
        timeout=60,
        environment={**os.environ, "SYSTEMD_OFFLINE": "1"},
    )
    _add_images(root / "usr/share/worker-images")
    shutil.rmtree(root / "usr/share/doc", ignore_errors=True)
    shutil.rmtree(root / "usr/share/locale", ignore_errors=True)
    shutil.rmtree(root / "var/lib/apt/lists", ignore_errors=True)


def _add_images(directory: pathlib.Path) -> None:
    directory.mkdir(parents=True)
    names = ("sh", "sleep", "httpd", "grep", "mkdir")
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch)
        (tree / "bin").mkdir()
        shutil.copy("/bin/busybox", tree / "bin")
        for name in names:
            (tree / "bin" / name).symlink_to("busybox")
        for file, image in (
            ("pause.tar", pod_image.SANDBOX),
            ("web.tar", POD_IMAGE),
        ):
            pod_image.archive(
                tree, directory / file, image, ["/bin/sleep", "1000000"]
            )


def _make_disk(root: pathlib.Path, disk: pathlib.Path) -> None:
    disk.unlink(missing_ok=True)
    with disk.open("wb") as stream:
        stream.truncate(_DISK_BYTES)
    run(
        ("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(disk)), timeout=300
    )
