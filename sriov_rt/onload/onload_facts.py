# SPDX-License-Identifier: Apache-2.0

"""Fact source of Onload: the installation and the allowed profiles.

The configuration is read below the root, like nova-compute's: flavors get
what this host's hook would give them.
"""

import dataclasses
import re

from sriov_rt.codec import Unknown
from sriov_rt.facts import OnloadFacts
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.onload import instances
from sriov_rt.onload import nics
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.errors import OnloadError
from sriov_rt.onload.settings import Settings


def observe(root: Root) -> OnloadFacts:
    """Return the facts of Onload on the host and in instances.

    The profiles are those that ``[onload]`` allows and that are usable; if it
    allows none, all installed ones. The library is ``[onload] library``, if
    set.
    """
    return dataclasses.replace(
        _allowed(root), workloads=instances.observe(root)
    )


def _allowed(root: Root) -> OnloadFacts:
    if root.exists(CONFIG) is False:
        return installed(root)
    try:
        settings = onload_settings.load([str(root.locate(CONFIG))])
    except OnloadError as error:
        why = Unknown(str(error))
        return dataclasses.replace(
            installed(root), library=why, profiles=why, library_fits=why
        )
    found = installed(root, settings.library)
    if not settings.profiles:
        return found
    return dataclasses.replace(found, profiles=_usable(settings, root))


def _usable(settings: Settings, root: Root) -> tuple[str, ...]:
    usable = []
    for name in sorted(settings.profiles):
        try:
            settings.profile(name, root)
        except OnloadError:
            # 'sriov-rt onload profile list' shows why.
            continue
        usable.append(name)
    return tuple(usable)


MODULES = ("onload", "sfc", "sfc_char", "sfc_resource")

#: Onload's device nodes; only older releases have sfc_affinity.
DEVICES = (
    "/dev/onload",
    "/dev/onload_epoll",
    "/dev/sfc_affinity",
    "/dev/sfc_char",
)

#: Where Onload's installer and the distributions put libraries.
LIBRARY_DIRECTORIES = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib",
)
LIBRARY = "libonload.so"

#: Version of the driver (efab_version_read_proc of Onload's
#: src/driver/linux_onload/linux_stats.c). The interface is an MD5 that is
#: built into the library too, which sends it to be compared.
VERSION = "proc/driver/onload/version"
_RELEASE = re.compile(r"^onload_version: ([!-~]{1,64})$", re.MULTILINE)
_INTERFACE = re.compile(r"^uk_intf_ver: ([0-9a-f]{32})$", re.MULTILINE)

#: The longest library, in bytes: Onload 9's has 4 MiB with symbols.
MAX_LIBRARY = 64 * 1024 * 1024
_PIECE = 1024 * 1024

PROFILES = "usr/libexec/onload/profiles"
PROFILE_SUFFIX = ".opf"


def installed(root: Root, library_path: str | None = None) -> OnloadFacts:
    """Return Onload's modules, device nodes, library, profiles and NICs.

    Profiles are shell scripts: they are listed here, never read. The state of
    instances is not included.

    :param library_path: path of the library, if an operator has set it.
    """
    if library_path is None:
        directories = LIBRARY_DIRECTORIES
        paths = tuple(f"{each}/{LIBRARY}" for each in directories)
    else:
        paths = (library_path.lstrip("/"),)
    library = _library(root, paths)
    return OnloadFacts(
        modules=_present(root, MODULES, "sys/module/"),
        devices=_present(root, DEVICES, ""),
        library=library,
        profiles=_profiles(root),
        version=_driver(root, _RELEASE),
        library_fits=_fits(root, library),
        nics=nics.observe(root),
    )


def _present(
    root: Root, names: tuple[str, ...], prefix: str
) -> tuple[str, ...] | Unknown:
    present = []
    for name in names:
        found = root.exists(f"{prefix}{name}".lstrip("/"))
        if isinstance(found, Unknown):
            return found
        if found:
            present.append(name)
    return tuple(present)


def _library(root: Root, paths: tuple[str, ...]) -> str | None | Unknown:
    for path in paths:
        found = root.exists(path)
        if isinstance(found, Unknown):
            return found
        if found:
            return f"/{path}"
    return None


def _driver(root: Root, what: re.Pattern[str]) -> str | None | Unknown:
    if root.exists(VERSION) is False:
        return None
    text = root.read_text(VERSION)
    if isinstance(text, Unknown):
        return text
    found = what.search(text)
    if found is None:
        return Unknown(f"/{VERSION}: not in the form that is known")
    return found[1]


def _fits(root: Root, library: str | None | Unknown) -> bool | None | Unknown:
    interface = _driver(root, _INTERFACE)
    for each in (interface, library):
        if each is None or isinstance(each, Unknown):
            return each
    return _contains(root, str(library), str(interface).encode())


def _contains(root: Root, path: str, needle: bytes) -> bool | Unknown:
    file = root.open_file(path.lstrip("/"))
    if isinstance(file, Unknown):
        return file
    left, tail = MAX_LIBRARY, b""
    with file:
        try:
            while left > 0 and (piece := file.read(_PIECE)):
                left -= len(piece)
                tail = tail[-len(needle) :] + piece
                if needle in tail:
                    return True
        except OSError as error:
            return Unknown(f"{path}: {error.strerror}")
    return False


def _profiles(root: Root) -> tuple[str, ...] | Unknown:
    names = root.list_dir(PROFILES)
    if isinstance(names, Unknown):
        return () if root.exists(PROFILES) is False else names
    return tuple(
        name.removesuffix(PROFILE_SUFFIX)
        for name in names
        if name.endswith(PROFILE_SUFFIX) and name != PROFILE_SUFFIX
    )
