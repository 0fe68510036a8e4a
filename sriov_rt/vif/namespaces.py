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

"""Network namespaces: by name, by process, and what is done inside.

What has to be done in another one a thread does that comes back at once (see
visitor). A child process, as pyroute2's ``netns`` makes, takes 10 ms.
"""

import contextlib
import errno
import fcntl
import os
import pathlib
from collections.abc import Callable
from collections.abc import Iterator
from typing import NamedTuple
from typing import TypeVar

from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import names
from sriov_rt.vif import visitor
from sriov_rt.vif.visitor import CLONE_NEWNET
from sriov_rt.vif.visitor import OWN

_T = TypeVar("_T")

#: Where ip-netns(8) keeps the names.
NAMES = "/run/netns"
PROC = "/proc"


#: At most so many namespaces are found, those with names first.
MAX_FOUND = 16384

#: include/uapi/linux/nsfs.h.
NS_GET_NSTYPE = 0xB703


class Identity(NamedTuple):
    """What tells a namespace from each other: the inode of its nsfs file."""

    device: int
    inode: int


class Namespace(NamedTuple):
    """A namespace other than the caller's.

    :param name: in /run/netns, or ``pid:N`` of a process in it.
    """

    name: str
    identity: Identity


def path(name: str) -> pathlib.Path:
    """Return the file that is a namespace.

    :param name: one in /run/netns, or ``pid:N``.
    :raises NoSuchNamespace: if no namespace can have that name.
    """
    return pathlib.Path(_path(name))


def _path(name: str) -> str:
    # Each plug asks some times, and pathlib takes as long as the kernel.
    try:
        name = names.namespace(name)
    except ParseError as error:
        raise errors.NoSuchNamespace(name, detail=str(error)) from error
    if name.startswith(names.PID):
        return f"{PROC}/{name.removeprefix(names.PID)}/ns/net"
    return f"{NAMES}/{name}"


@contextlib.contextmanager
def opened(name: str | None) -> Iterator[int]:
    """Open a namespace and yield its descriptor.

    :param name: as in :func:`path`; None for the calling thread's own.
    :raises NoSuchNamespace: if there is none of the name.
    :raises NotPermitted: if the caller may not look into the process.
    """
    found = descriptor(name)
    try:
        yield found
    finally:
        os.close(found)


def descriptor(name: str | None) -> int:
    """Return the descriptor of a namespace, which the caller closes.

    :raises NoSuchNamespace: and NotPermitted, as :func:`opened` does.
    """
    where = _path(name) if name else OWN
    told = name or where
    try:
        found = os.open(where, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise errors.NoSuchNamespace(told) from error
    except OSError as error:
        raise errors.from_errno(error.errno or 0, told) from error
    try:
        if not _is_network(found):
            raise errors.NoSuchNamespace(told, detail=f"{where} is not one")
    except BaseException:
        os.close(found)
        raise
    return found


def _is_network(descriptor: int) -> bool:
    try:
        return fcntl.ioctl(descriptor, NS_GET_NSTYPE) == CLONE_NEWNET
    except OSError as error:
        # Not a file of nsfs: left over from an 'ip netns add' that failed.
        if error.errno in (errno.ENOTTY, errno.EINVAL):
            return False
        raise


def identity(descriptor: int) -> Identity:
    """Return which namespace a descriptor is of."""
    found = os.fstat(descriptor)
    return Identity(found.st_dev, found.st_ino)


def is_own(identity: Identity) -> bool:
    """Tell whether the calling thread is in a namespace."""
    found = os.stat(OWN)  # noqa: PTH116
    return (found.st_dev, found.st_ino) == identity


def inside(descriptor: int, action: Callable[[], _T]) -> _T:
    """Return what a function returns when called in a namespace.

    :param descriptor: of the namespace.
    :param action: short, and never waits.
    :raises OSError: if the namespace cannot be entered; and whatever else
        the function raises.
    """
    return visitor.visit(descriptor, action)


def others(own: Identity) -> Iterator[Namespace]:
    """Yield each namespace but one's own once, those with a name first.

    A namespace that only a bind mount elsewhere or an open descriptor holds
    is not found.

    :param own: which one is left out.
    """
    seen = {own}
    for name, where in _candidates():
        if len(seen) > MAX_FOUND:
            return
        try:
            found = os.stat(where)  # noqa: PTH116
        except OSError:
            # The process has ended, or is none of ours to look at.
            continue
        each = Identity(found.st_dev, found.st_ino)
        if each not in seen:
            seen.add(each)
            yield Namespace(name, each)


def names_changed_at() -> int | None:
    """Return when a name came or went, in ns; None if there is none."""
    try:
        return os.stat(NAMES).st_mtime_ns  # noqa: PTH116
    except FileNotFoundError:
        return None


def is_now(name: str, identity: Identity) -> bool:
    """Tell whether a name is that of a namespace, still or again."""
    try:
        found = os.stat(_path(name))  # noqa: PTH116
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == identity


def _candidates() -> Iterator[tuple[str, str]]:
    for name in _listed(NAMES):
        # By another name nobody could ask for it.
        if _is_name(name):
            yield name, f"{NAMES}/{name}"
    pids = (int(each) for each in _listed(PROC) if each.isdecimal())
    for pid in sorted(pids):
        yield f"{names.PID}{pid}", f"{PROC}/{pid}/ns/net"


def _is_name(text: str) -> bool:
    if text.startswith(names.PID):
        return False
    try:
        names.namespace(text)
    except ParseError:
        return False
    return True


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208
    except FileNotFoundError:
        return []
