# SPDX-License-Identifier: Apache-2.0

"""Interfaces of all network namespaces, as sysfs lists and counts them.

A node is the inode of an interface's directory in sysfs. The kernel gives it
to no other interface (kernfs_ino in fs/kernfs). It stays the same when an
interface is renamed or moved to another namespace (device_rename), while root
in a container can choose its index, name, alias and MAC.

Each namespace shows its own interfaces below ``devices/virtual/net``. The link
count of that directory is the same in all of them: it counts the interfaces of
every namespace of the machine (kernfs_link_sibling). Every namespace has a
loopback there. So if as many were seen as are counted, no namespace is hidden.

An inventory is true of one moment, that of the count: a node that was listed
before and after it was there then, wherever it was moved in between. The
parent of a macvlan or an ipvlan never changes (macvlan_common_newlink,
ipvlan_link_new). ``iflink`` is read in the directory that has the node, so it
may be read later.
"""

import contextlib
import dataclasses
import os
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from sriov_rt.kernel import errors
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.namespaces import Namespace

#: arch/*/entry/syscalls: the same numbers on all architectures.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432

#: include/uapi/linux/mount.h.
_FSOPEN_CLOEXEC = 1
_FSMOUNT_CLOEXEC = 1
_FSCONFIG_CMD_CREATE = 6

#: How often to list again if interfaces change, as containers come and go.
ROUNDS = 8

#: How often the interfaces are counted. One that is renamed or moved is not
#: counted for an instant (kernfs_rename_ns unlinks it first, and since Linux
#: 6.4 a count takes another lock); that applies to only one at a time.
COUNTS = 3

_VIRTUAL = "devices/virtual/net"
_ALL = "class/net"


class Place(NamedTuple):
    """Place of an interface.

    :param namespace: as in Link.
    :param namespace_id: as in Link.
    :param name: its name in the namespace.
    """

    namespace: str | None
    namespace_id: Identity | None
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """Interfaces of this machine that can be seen.

    :param places: places of the interfaces, by their nodes.
    :param unseen: how many more the kernel counts; None if unknown.
    :param on: nodes of interfaces in other namespaces that are on the given
        parent, or on one with its index elsewhere, or could not be inspected.
    """

    places: Mapping[int, Place]
    unseen: int | None
    on: frozenset[int] = frozenset()


class _Opened(NamedTuple):
    """Namespace, as in Link, and the descriptor of its sysfs."""

    namespace: str | None
    namespace_id: Identity | None
    sysfs: int


def take(parent: int = 0, known: Collection[int] = ()) -> Inventory:
    """Return the interfaces of all namespaces, and how many are unseen.

    If names and processes lead to all that the kernel counts, no namespace is
    left that only a thread, a mount or a descriptor leads to. Then none is
    looked for: that would inspect each descriptor of the host.

    :param parent: index of the parent whose children to find; 0 for none.
    :param known: nodes of interfaces that need not be inspected for that.
    """
    found = _take(parent, known, thorough=False)
    if found.unseen == 0:
        return found
    return _take(parent, known, thorough=True)


def _take(parent: int, known: Collection[int], *, thorough: bool) -> Inventory:
    """Return the interfaces of the namespaces that are found."""
    lowers = dict.fromkeys(known, 0)
    try:
        with _opened(thorough=thorough) as opened:
            for _ in range(ROUNDS):
                first = {x for each in opened for x in _virtual(each.sysfs)}
                count = _count(opened[0].sysfs)
                second = [(each, _virtual(each.sysfs)) for each in opened]
                seen = {node for _, names in second for node in names}
                if parent:
                    _look(second, lowers)
                if first == seen and (not parent or seen <= lowers.keys()):
                    break
            places = {
                node: Place(each.namespace, each.namespace_id, name)
                for each, names in second
                for node, name in (
                    names if parent else names | _others(each.sysfs, names)
                ).items()
            }
    except OSError:
        return Inventory({}, None)
    on = (x for x in seen if lowers.get(x, parent) == parent)
    unseen = max(0, count - len(first & seen))
    return Inventory(places, unseen, frozenset(on if parent else ()))


def node(descriptor: int | None, name: str, index: int) -> int:
    """Return the node of an interface; 0 if it is unknown.

    :param descriptor: descriptor of its namespace; None for the caller's.
    :param index: index that the interface of that name has to have.
    """

    def read() -> int:
        with _sysfs() as root, _directory(root, f"{_ALL}/{name}") as there:
            same = _number(there, "ifindex") == index
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
                # A namespace that has gone, or cannot be opened, is unseen.
                with contextlib.suppress(errors.LinkError, OSError):
                    _enter(each)
                    sysfs = stack.enter_context(_sysfs())
                    opened.append(_Opened(each.name, each.identity, sysfs))
            return opened

        # One thread for all: starting one takes as long as listing.
        yield namespaces.in_thread(visit)


def _enter(found: Namespace) -> None:
    """Move the calling thread to a namespace.

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
            # An interface may be renamed just now; bonding has a file there.
            with contextlib.suppress(OSError):
                if each.name not in known:
                    found[each.stat().st_ino] = each.name
    return found


def _look(
    listed: Iterable[tuple[_Opened, Mapping[int, str]]], lowers: dict[int, int]
) -> None:
    """Note the parent's index of each interface that is not noted yet.

    An interface that is gone, renamed or moved since it was listed is left
    out. Interfaces of the caller's own namespace are the host's, and many of
    them have a peer with the index of a parent.
    """
    for each, names in listed:
        if each.namespace is None:
            lowers.update(dict.fromkeys(names, 0))
            continue
        for node in names.keys() - lowers.keys():
            with (
                contextlib.suppress(OSError, ValueError),
                _directory(each.sysfs, f"{_VIRTUAL}/{names[node]}") as there,
            ):
                if os.fstat(there).st_ino == node:
                    lowers[node] = _number(there, "iflink")


def _number(directory: int, name: str) -> int:
    file = os.open(name, os.O_RDONLY, dir_fd=directory)
    try:
        return int(os.read(file, 16))
    finally:
        os.close(file)


def _count(sysfs: int) -> int:
    """Return how many virtual interfaces all namespaces have together."""
    with _directory(sysfs, _VIRTUAL) as there:
        # The directory's name and its own dot count as two.
        return max(os.fstat(there).st_nlink for _ in range(COUNTS)) - 2


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

    The sysfs at /sys is of the namespace that it was mounted in.

    :raises OSError: if it cannot be mounted.
    """
    context = namespaces.call(_FSOPEN, b"sysfs", _FSOPEN_CLOEXEC)
    try:
        namespaces.call(
            _FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0
        )
        root = namespaces.call(_FSMOUNT, context, _FSMOUNT_CLOEXEC, 0)
    finally:
        os.close(context)
    try:
        yield root
    finally:
        os.close(root)
