# SPDX-License-Identifier: Apache-2.0

"""What a machine is started with: QEMU, a kernel, an initramfs."""

import dataclasses
import hashlib
import pathlib

from tests.testbed import errors
from tests.testbed.rtvm import initramfs
from tests.testbed.rtvm.commands import VIRTIOFSD
from tests.testbed.rtvm.debian import Tree
from tests.testbed.rtvm.debian import Unpacker

#: What has to be installed on the outer machine, which the inner one
#: shares. QEMU of the release itself is here for its libraries, for
#: virtiofsd, and for the guests of the machine.
PACKAGES = (
    "busybox-static",
    "debian-archive-keyring",
    "iproute2",
    "iputils-ping",
    "kmod",
    "libvirt-clients",
    "libvirt-daemon",
    "libvirt-daemon-driver-qemu",
    "libvirt-daemon-system",
    "procps",
    "qemu-system-x86",
    "qemu-utils",
)

_EARLY = pathlib.Path(__file__).parent / "guest/early.sh"


@dataclasses.dataclass(frozen=True)
class Assets:
    """Files of the cache that one kind of machine needs.

    :param emulator: QEMU's tree.
    :param kernel: the kernel package's tree.
    :param release: of the kernel, as in uname -r.
    :param initramfs: the first file system.
    """

    emulator: Tree
    kernel: Tree
    release: str
    initramfs: pathlib.Path

    @property
    def image(self) -> pathlib.Path:
        """The kernel's image."""
        return self.kernel.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> pathlib.Path:
        """The directory of the kernel's modules."""
        return self.kernel.root / "lib/modules" / self.release


def prepare(
    cache: pathlib.Path, flavour: str, *, backport: bool = False
) -> Assets:
    """Download, unpack and build what is missing in the cache.

    :param cache: the harness's cache directory.
    :param flavour: Debian's flavour of the kernel, as in "rt-amd64".
    :param backport: whether the kernel is that of the backports suite.
    :raises errors.TestbedError: when it can't be had, with what to do.
    """
    if not pathlib.Path(VIRTIOFSD).exists():
        raise errors.TestbedError(
            f"no {VIRTIOFSD}; apt-get install {' '.join(PACKAGES)}"
        )
    unpacker = Unpacker(cache / "debian")
    emulator = unpacker.packages(
        "qemu-system-x86",
        "qemu-system-common",
        "qemu-system-data",
        "seabios",
        backport=True,
    )
    kernel = unpacker.kernel(flavour, backport=backport)
    images = list((kernel.root / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise errors.TestbedError(
            f"{kernel.root} has {len(images)} kernels; remove it"
        )
    release = images[0].name.removeprefix("vmlinuz-")
    recipe = (
        _EARLY.read_bytes() + pathlib.Path(initramfs.__file__).read_bytes()
    )
    key = hashlib.sha256(recipe).hexdigest()[:12]
    image = cache / "debian" / f"initramfs_{release}_{kernel.version}_{key}"
    if not image.exists():
        initramfs.build(image, tree=kernel.root, release=release, init=_EARLY)
    return Assets(emulator, kernel, release, image)
