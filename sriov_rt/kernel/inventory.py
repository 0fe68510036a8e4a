# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Interfaces of all network namespaces, as sysfs has them and counts them.

A node is the inode of an interface's directory in sysfs. The kernel gives it
to no other interface (kernfs_ino in fs/kernfs), and it stays the same when an
interface is renamed or moved to another namespace (device_rename), where its
index, its name, its alias and its MAC are for root in a container to choose.

Each namespace shows its own interfaces below ``devices/virtual/net``; the
link count of that directory is the same in all of them, for it counts those
of every namespace of the machine (kernfs_link_sibling). Every namespace has a
loopback there. So where as many were seen as it counts, no namespace is
hidden.
"""

import contextlib
import ctypes
import dataclasses
import functools
import os
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from sriov_rt.kernel import errors
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.namespaces import Namespace

#: arch/*/entry/syscalls: the same numbers on every architecture.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432

#: include/uapi/linux/mount.h.
_FSOPEN_CLOEXEC = 1
_FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6

#: include/uapi/linux/if_arp.h.
_ARPHRD_LOOPBACK = b"772"
_LO = "lo"

_VIRTUAL = "devices/virtual/net"
_ALL = "class/net"


class Place(NamedTuple):
    """Where an interface is.

    :param namespace: as in Link.
    :param namespace_id: likewise.
    :param name: its name there.
    """

    namespace: str | None
    namespace_id: Identity | None
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """Interfaces of this machine that can be seen.

    :param places: where they are, by their nodes.
    :param unseen: how many more the kernel counts; None if that is not known.
    :param loopbacks: the nodes of loopbacks that have their name still.
    """

    places: Mapping[int, Place]
    unseen: int | None
    loopbacks: frozenset[int] = frozenset()


class _Opened(NamedTuple):
    """Namespace, as in Link, and the descriptor of its sysfs."""

    namespace: str | None
    namespace_id: Identity | None
    sysfs: int


def take() -> Inventory:
    """Return the interfaces of all namespaces, and how many are unseen.

    Where names and processes lead to all that the kernel counts, no
    namespace is left that only a thread, a mount or a descriptor leads to,
    and none is looked for: that is a look at each descriptor of the host.
    """
    found = _take(thorough=False)
    return found if found.unseen == 0 else _take(thorough=True)


def _take(*, thorough: bool) -> Inventory:
    """Return the interfaces of the namespaces that are found.

    Everything is listed twice and counted in between: what is in both lists
    was there when it was counted, wherever it was moved meanwhile.
    """
    try:
        with _opened(thorough=thorough) as opened:
            first = {node for each in opened for node in _virtual(each.sysfs)}
            count = _count(opened[0].sysfs)
            second = [(each, _virtual(each.sysfs)) for each in opened]
            places = {
                node: Place(each.namespace, each.namespace_id, name)
                for each, names in second
                for node, name in (names | _others(each.sysfs, names)).items()
            }
            loopbacks = frozenset(
                node
                for each, names in second
                for node, name in names.items()
                if name == _LO and _is_loopback(each.sysfs)
            )
    except OSError:
        return Inventory({}, None)
    seen = {node for _, names in second for node in names}
    if seen != first or count < len(seen):
        return Inventory(places, None, loopbacks)
    return Inventory(places, count - len(seen), loopbacks)


def node(descriptor: int | None, name: str, index: int) -> int:
    """Return the node of an interface; 0 if it is not known.

    :param descriptor: of its namespace; None for the caller's.
    :param index: by which it has to be that name's.
    """

    def read() -> int:
        with _sysfs() as root, _directory(root, f"{_ALL}/{name}") as there:
            number = os.open("ifindex", os.O_RDONLY, dir_fd=there)
            with os.fdopen(number) as file:
                same = int(file.read()) == index
            return os.fstat(there).st_ino if same else 0

    try:
        if descriptor is None:
            return read()
        return namespaces.inside(descriptor, read)
    except (OSError, ValueError):
        return 0


@contextlib.contextmanager
def _opened(*, thorough: bool) -> Iterator[list[_Opened]]:
    """Open the sysfs of each namespace that is found, the caller's first."""
    own = namespaces.identity_of(None)
    found = list(namespaces.others(own, thorough=thorough))
    with contextlib.ExitStack() as stack:

        def visit() -> list[_Opened]:
            opened = [_Opened(None, None, stack.enter_context(_sysfs()))]
            for each in found:
                # What has gone, or cannot be opened, is unseen.
                with contextlib.suppress(errors.LinkError, OSError):
                    _enter(each)
                    sysfs = stack.enter_context(_sysfs())
                    opened.append(_Opened(each.name, each.identity, sysfs))
            return opened

        # One thread for all: to start one takes as long as to list.
        yield namespaces.in_thread(visit)


def _enter(found: Namespace) -> None:
    """Move the calling thread.

    :raises LinkError: or OSError, if the namespace cannot be entered.
    """
    descriptor = namespaces.open_file(found.path, found.name)
    try:
        if namespaces.identity(descriptor) != found.identity:
            raise errors.NoSuchNamespace(found.name)
        namespaces.enter(descriptor)
    finally:
        os.close(descriptor)


def _virtual(sysfs: int) -> dict[int, str]:
    """Return the virtual interfaces of a namespace, by their nodes."""
    with _directory(sysfs, _VIRTUAL) as there, os.scandir(there) as found:
        return {each.inode(): each.name for each in found}


def _others(sysfs: int, virtual: Mapping[int, str]) -> dict[int, str]:
    """Return the interfaces of a namespace that are not virtual."""
    known = set(virtual.values())
    found = {}
    with _directory(sysfs, _ALL) as there, os.scandir(there) as links:
        for each in links:
            # One may be renamed meanwhile; bonding has a file there.
            with contextlib.suppress(OSError):
                if each.name not in known:
                    found[each.stat().st_ino] = each.name
    return found


def _is_loopback(sysfs: int) -> bool:
    """Return whether a namespace's lo is one: others can be called so."""
    try:
        number = os.open(f"{_ALL}/{_LO}/type", os.O_RDONLY, dir_fd=sysfs)
        with os.fdopen(number, "rb") as file:
            return file.read().strip() == _ARPHRD_LOOPBACK
    except OSError:
        return False


def _count(sysfs: int) -> int:
    """Return how many virtual interfaces all namespaces have together."""
    with _directory(sysfs, _VIRTUAL) as there:
        # Two more are its name and its own dot.
        return os.fstat(there).st_nlink - 2


@contextlib.contextmanager
def _directory(root: int, path: str) -> Iterator[int]:
    found = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
    try:
        yield found
    finally:
        os.close(found)


@contextlib.contextmanager
def _sysfs() -> Iterator[int]:
    """Open a sysfs of the calling thread's namespace, mounted nowhere.

    What is at /sys is of whichever namespace it was mounted in.

    :raises OSError: if that cannot be done.
    """
    context = _call(_FSOPEN, b"sysfs", _FSOPEN_CLOEXEC)
    try:
        _call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        root = _call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)
    try:
        yield root
    finally:
        os.close(root)


def _call(number: int, *arguments: object) -> int:
    found = _syscall()(number, *arguments)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


@functools.cache
def _syscall() -> Callable[..., int]:
    return ctypes.CDLL(None, use_errno=True).syscall
