# SPDX-License-Identifier: Apache-2.0

"""The first file system: a static busybox and the modules to go on with."""

import lzma
import os
import pathlib
import shutil
import stat
from collections.abc import Iterable
from collections.abc import Mapping

from tests.testbed import errors
from tests.testbed.waiting import run

#: What it takes to reach the shared root; the rest is loaded from there.
MODULES = ("virtio_pci", "virtiofs", "overlay")

_DEPMOD_SECONDS = 120.0
_NEWC_MAGIC = "070701"


def module_files(
    tree: pathlib.Path, release: str, names: Iterable[str] = MODULES
) -> list[str]:
    """Return the files of modules and of all they need, needed ones first.

    What is built into the kernel has none.

    :param tree: the kernel package's tree.
    :param release: the kernel's release, as in uname -r.
    :param names: of the modules.
    :raises errors.TestbedError: when the kernel has no such module.
    """
    directory = tree / "lib/modules" / release
    if not (directory / "modules.dep").exists():
        run(
            ["depmod", "--basedir", str(tree), release],
            timeout=_DEPMOD_SECONDS,
        )
    needed: dict[str, list[str]] = {}
    for line in (directory / "modules.dep").read_text().splitlines():
        file, _, rest = line.partition(":")
        needed[file] = rest.split()
    by_name = {pathlib.Path(file).name.split(".")[0]: file for file in needed}
    builtin = {
        pathlib.Path(line).stem
        for line in (directory / "modules.builtin").read_text().splitlines()
    }
    order: dict[str, None] = {}
    for name in names:
        if name in builtin:
            continue
        file = by_name.get(name, "")
        if not file:
            raise errors.TestbedError(f"kernel {release} has no {name}")
        # modules.dep lists the nearest need first, so the last goes first.
        order.update(dict.fromkeys([*reversed(needed[file]), file]))
    return list(order)


def build(
    target: pathlib.Path,
    *,
    tree: pathlib.Path,
    release: str,
    init: pathlib.Path,
    modules: Iterable[str] = MODULES,
) -> None:
    """Write the archive.

    :param target: the file.
    :param tree: the kernel package's tree.
    :param release: the kernel's release.
    :param init: the script that the kernel starts.
    :param modules: names of those that it loads; /modules/order has them.
    :raises errors.TestbedError: when there is no busybox.
    """
    busybox = shutil.which("busybox")
    if busybox is None:
        raise errors.TestbedError("no busybox; install busybox-static")
    files = module_files(tree, release, modules)
    directory = tree / "lib/modules" / release
    names = [
        f"modules/{pathlib.Path(file).name.removesuffix('.xz')}"
        for file in files
    ]
    content: dict[str, bytes] = {
        "init": init.read_bytes(),
        "bin/busybox": pathlib.Path(busybox).read_bytes(),
        "modules/order": "".join(f"/{name}\n" for name in names).encode(),
    }
    for name, file in zip(names, files, strict=True):
        data = (directory / file).read_bytes()
        # The newer kernels' are compressed.
        content[name] = lzma.decompress(data) if file.endswith("xz") else data
    directories = ("bin", "dev", "lower", "modules", "new", "proc", "sys")
    draft = target.with_suffix(".new")
    draft.write_bytes(archive((*directories, "upper"), content))
    draft.replace(target)


def archive(directories: Iterable[str], files: Mapping[str, bytes]) -> bytes:
    """Make a cpio archive (initramfs buffer format, "newc").

    :param directories: names, parents first.
    :param files: name to content; all are executable.
    """
    parts = [_entry(name, stat.S_IFDIR | 0o755, b"") for name in directories]
    # The kernel opens /dev/console before it starts /init.
    parts.append(
        _entry("dev/console", stat.S_IFCHR | 0o600, b"", os.makedev(5, 1))
    )
    parts += [
        _entry(name, stat.S_IFREG | 0o755, body)
        for name, body in files.items()
    ]
    parts.append(_entry("TRAILER!!!", 0, b""))
    return b"".join(parts)


def _entry(name: str, mode: int, body: bytes, device: int = 0) -> bytes:
    """Return one member: 13 numbers, the name and the body, each padded."""
    encoded = name.encode() + b"\0"
    numbers = (
        *(0, mode, 0, 0, 1, 0, len(body), 0, 0),
        *(os.major(device), os.minor(device), len(encoded), 0),
    )
    head = _NEWC_MAGIC + "".join(f"{number:08X}" for number in numbers)
    return _padded(head.encode() + encoded) + _padded(body)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
