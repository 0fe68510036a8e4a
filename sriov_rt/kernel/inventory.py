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
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple
from typing import TypeVar

from sriov_rt.kernel import errors
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.namespaces import Identity

_T = TypeVar("_T")

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
    namespace: str | None
    namespace_id: Identity | None
    descriptor: int


class _Listing(NamedTuple):
    names: Mapping[int, str]
    virtual: frozenset[int]
    loopback: int | None


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
        with _opened(thorough=thorough) as namespace_ids:
            # One thread for all: to start one takes as long as to list.
            first, count, second = namespaces.in_thread(
                lambda: (
                    _listed(namespace_ids),
                    _with_sysfs(_count),
                    _listed(namespace_ids),
                )
            )
    except OSError:
        return Inventory({}, None)
    places = {
        node: Place(namespace, namespace_id, name)
        for (namespace, namespace_id, _), listing in zip(
            namespace_ids, second, strict=True
        )
        for node, name in listing.names.items()
    }
    loopbacks = frozenset(
        each.loopback for each in second if each.loopback is not None
    )
    seen = _virtual(second)
    if seen != _virtual(first) or count < len(seen):
        return Inventory(places, None, loopbacks)
    return Inventory(places, count - len(seen), loopbacks)


def node(descriptor: int | None, name: str, index: int) -> int:
    """Return the node of an interface; 0 if it is not known.

    :param descriptor: of its namespace; None for the caller's.
    :param index: by which it has to be that name's.
    """

    def read(root: int) -> int:
        with _directory(root, f"{_ALL}/{name}") as there:
            number = os.open("ifindex", os.O_RDONLY, dir_fd=there)
            with os.fdopen(number) as file:
                same = int(file.read()) == index
            return os.fstat(there).st_ino if same else 0

    try:
        if descriptor is None:
            return _with_sysfs(read)
        return namespaces.inside(descriptor, lambda: _with_sysfs(read))
    except (OSError, ValueError):
        return 0


@contextlib.contextmanager
def _opened(*, thorough: bool) -> Iterator[list[_Opened]]:
    """Open the namespaces that are found; the caller's comes first."""
    with contextlib.ExitStack() as stack:
        descriptor = stack.enter_context(namespaces.opened(None))
        own = namespaces.identity(descriptor)
        found = [_Opened(None, None, descriptor)]
        for each in namespaces.others(own, thorough=thorough):
            try:
                descriptor = namespaces.open_file(each.path, each.name)
            except errors.LinkError:
                continue
            stack.callback(os.close, descriptor)
            if namespaces.identity(descriptor) == each.identity:
                found.append(_Opened(each.name, each.identity, descriptor))
        yield found


def _virtual(listings: list[_Listing]) -> frozenset[int]:
    return frozenset().union(*(each.virtual for each in listings))


def _listed(opened: Iterable[_Opened]) -> list[_Listing]:
    """List namespaces by a thread that enters them one after the other."""
    found = []
    for each in opened:
        namespaces.enter(each.descriptor)
        found.append(_with_sysfs(_list))
    return found


def _list(root: int) -> _Listing:
    names = {}
    loopback = None
    with _directory(root, _ALL) as there:
        for name in os.listdir(there):  # noqa: PTH208
            # One may be renamed meanwhile; bonding has a file there.
            with contextlib.suppress(OSError):
                node = os.stat(name, dir_fd=there).st_ino
                names[node] = name
                # Any other can be called so by a tenant.
                if name == _LO and _type(there) == _ARPHRD_LOOPBACK:
                    loopback = node
    with _directory(root, _VIRTUAL) as there, os.scandir(there) as found:
        virtual = frozenset(each.inode() for each in found)
    return _Listing(names, virtual, loopback)


def _type(there: int) -> bytes:
    """Return the type of a namespace's lo; its node does not change."""
    number = os.open(f"{_LO}/type", os.O_RDONLY, dir_fd=there)
    with os.fdopen(number, "rb") as file:
        return file.read().strip()


def _count(root: int) -> int:
    """Return how many virtual interfaces all namespaces have together."""
    with _directory(root, _VIRTUAL) as there:
        # Two more are its name and its own dot.
        return os.fstat(there).st_nlink - 2


@contextlib.contextmanager
def _directory(root: int, path: str) -> Iterator[int]:
    found = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
    try:
        yield found
    finally:
        os.close(found)


def _with_sysfs(action: Callable[[int], _T]) -> _T:
    """Return what a function returns of the sysfs of the thread's namespace.

    :raises OSError: if it cannot be read.
    """
    root = _sysfs()
    try:
        return action(root)
    finally:
        os.close(root)


def _sysfs() -> int:
    """Return a sysfs of the calling thread's namespace, mounted nowhere.

    What is at /sys is of whichever namespace it was mounted in.
    """
    context = _call(_FSOPEN, b"sysfs", _FSOPEN_CLOEXEC)
    try:
        _call(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return _call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)


def _call(number: int, *arguments: object) -> int:
    found = _syscall()(number, *arguments)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


@functools.cache
def _syscall() -> Callable[..., int]:
    return ctypes.CDLL(None, use_errno=True).syscall
