# SPDX-License-Identifier: Apache-2.0

"""netdevsim: a driver that takes every attribute of a VF.

Debian's kernels come without it, so it is built from Debian's own source
of the same version, with the headers of the kernel.
"""

import pathlib
import re
import tempfile

from tests.testbed import errors
from tests.testbed.rtvm import debian
from tests.testbed.rtvm.assets import Assets
from tests.testbed.waiting import run

#: What has to be installed to build it; objtool needs the last one.
PACKAGES = ("gcc-12", "make", "xz-utils", "libelf1")

#: The source has these by the names of a kernel without the realtime
#: patches, which take the old names away (linux/u64_stats_sync.h).
_RENAMED = ("u64_stats_fetch_begin", "u64_stats_fetch_retry")
_SECONDS = 300.0


def module(assets: Assets, cache: pathlib.Path) -> pathlib.Path:
    """Return the module for the kernel of a machine, built if need be.

    It uses the kernel's own module psample.

    :param assets: what the machine is started with.
    :param cache: the harness's cache directory.
    :raises errors.TestbedError: when it can't be fetched or built.
    """
    version = assets.kernel.version
    target = cache / "debian" / f"netdevsim_{assets.release}_{version}.ko"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = _build(pathlib.Path(scratch), assets.release, version)
            built.replace(target)
    return target


def _build(room: pathlib.Path, release: str, version: str) -> pathlib.Path:
    """Download, unpack and compile."""
    # As in 6.1.0-56-rt-amd64: series, ABI and flavour.
    found = re.fullmatch(r"(\d+\.\d+)\.(\d+-\d+)-(.+)", release)
    if found is None:
        raise errors.TestbedError(f"{release} is no release of Debian's")
    series, abi, flavour = found.groups()
    realtime = flavour.startswith("rt-")
    common = f"{series}.{abi}-common{'-rt' if realtime else ''}"
    packages = (
        f"linux-source-{series}",
        f"linux-headers-{release}",
        f"linux-headers-{common}",
    )
    # An archive has the newest kbuild of a series alone, which serves all.
    source, *rest = debian.download(
        [
            *(f"{package}={version}" for package in packages),
            f"linux-kbuild-{series}",
        ],
        room,
    )
    tree = room / "tree"
    for archive in rest:
        run(("dpkg", "-x", str(archive), str(tree)), timeout=_SECONDS)
    sources = _extract(source, f"linux-source-{series}", room)
    names = _RENAMED if realtime else ()
    flags = " ".join(f"-D{name}_irq={name}" for name in names)
    headers = tree / f"usr/src/linux-headers-{release}"
    makefile = headers / "Makefile"
    makefile.write_text(
        makefile.read_text().replace("/usr/src/", f"{tree}/usr/src/")
    )
    run(
        (
            *("make", "-C", str(headers), f"M={sources}"),
            *("CONFIG_NETDEVSIM=m", f"KCFLAGS={flags}", "modules"),
        ),
        timeout=_SECONDS,
    )
    return sources / "netdevsim.ko"


def _extract(
    package: pathlib.Path, name: str, room: pathlib.Path
) -> pathlib.Path:
    """Take the driver's directory, and no more, out of the source."""
    directory = f"{name}/drivers/net/netdevsim"
    # The archive in the package has 130 MB; a dozen files are wanted.
    script = (
        'dpkg --fsys-tarfile "$1" | tar -xO "./usr/src/$2.tar.xz" '
        '| tar -xJ -C "$3" "$4"'
    )
    run(
        (
            *("bash", "-o", "pipefail", "-c", script, "-"),
            *(str(package), name, str(room), directory),
        ),
        timeout=_SECONDS,
    )
    return room / directory
