# SPDX-License-Identifier: Apache-2.0

"""Network namespaces: found, compared by identity, and entered.

One is entered in one way: a thread that was made for it goes there, does its
work and ends. It never comes back, so nothing can be stranded in a tenant's
namespace. (A child process, as pyroute2's ``NetNS`` makes, takes 10 ms.)
"""

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import functools
import os
import pathlib
import re
import socket
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import NamedTuple
from typing import TypeVar

from sriov_rt import deadline
from sriov_rt.kernel import errors
from sriov_rt.parse import numbers
from sriov_rt.parse.errors import ParseError

_T = TypeVar("_T")

#: Where ip-netns(8) keeps the names.
NAMES = "/run/netns"
PROC = "/proc"

#: PID_MAX_LIMIT of a 64-bit kernel (include/linux/threads.h).
MAX_PID = 4 * 1024 * 1024

#: Before the process id of a namespace that has no name.
PID = "pid:"

_NAMESPACE = re.compile(r"[A-Za-z0-9._@+-]{1,255}")

#: The namespace of the calling thread.
OWN = "/proc/thread-self/ns/net"

#: include/uapi/linux/sched.h.
CLONE_NEWNET = 0x40000000

#: include/uapi/asm-generic/socket.h; the socket module has none of it.
SO_NETNS_COOKIE = 71

#: How a link to a network namespace and to a socket begins, in /proc/PID/fd,
#: and how the file ends by which a tap is made, which is one, too.
_NSFS = "net:["
_SOCKET = "socket:["
_TUN = "/tun"

#: At most so many namespaces are found, those with names first.
MAX_FOUND = 16384

#: How long descriptors are looked at, in seconds of the CPU, some microseconds
#: each: anybody can have very many. What is not found by then is unseen.
LOOK_S = 2.0

#: Fields of a line of /proc/PID/mountinfo, and the most bytes that are read.
_ROOT, _POINT = 3, 4
MAX_MOUNTS = 1024 * 1024

#: Seconds for a look into namespaces: those of 10,000 take some.
LIMIT_S = 120.0

#: include/uapi/linux/nsfs.h.
NS_GET_NSTYPE = 0xB703

#: include/uapi/asm-generic/sockios.h: a descriptor of a socket's namespace.
SIOCGSKNS = 0x894C

#: arch/*/entry/syscalls: the same number on every architecture.
_PIDFD_GETFD = 438


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Identity of a namespace: the inode of its nsfs file.

    :param cookie: what the kernel gives to no other until it is booted again
        (SO_NETNS_COOKIE, Linux 5.14): a namespace that is made when another
        has ended may get its inode. 0 if it is not known.
    """

    device: int
    inode: int
    cookie: int = dataclasses.field(default=0, compare=False)

    def is_now(self, cookie: int) -> bool:
        """Return whether a namespace of its inode is not another one."""
        return not self.cookie or not cookie or self.cookie == cookie


class _Kept:
    """Descriptor that is closed with the last who has it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class Namespace(NamedTuple):
    """A namespace other than the caller's.

    :param name: in /run/netns, or ``pid:N`` of a process in it; of one that
        a thread is in or a descriptor holds open, ``pid:N`` of that process.
    :param kept: its descriptor, where its file is that alone.
    """

    name: str
    identity: Identity
    path: str
    kept: _Kept | None = None


# The names that a host has are asked for at each look at it.
@functools.lru_cache(maxsize=1024)
def parse(text: str) -> str:
    """Return a namespace's name, or ``pid:N``, if it can be one.

    :raises ParseError: if it cannot.
    """
    if text.startswith(PID):
        number = numbers.parse_int(
            text.removeprefix(PID), "process id", 1, MAX_PID
        )
        return f"{PID}{number}"
    if not _NAMESPACE.fullmatch(text) or text in (".", ".."):
        raise ParseError(
            "network namespace",
            text,
            "a name in /run/netns or pid:N expected",
        )
    return text


def path(name: str) -> pathlib.Path:
    """Return the file that is a namespace.

    :param name: one in /run/netns, or ``pid:N``.
    :raises NoSuchNamespace: if no namespace can have that name.
    """
    return pathlib.Path(_path(name))


def _path(name: str) -> str:
    # Each plug asks some times, and pathlib takes as long as the kernel.
    try:
        name = parse(name)
    except ParseError as error:
        raise errors.NoSuchNamespace(name, detail=str(error)) from error
    if name.startswith(PID):
        return f"{PROC}/{name.removeprefix(PID)}/ns/net"
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
    return open_file(where, name or where)


def open_file(where: str, label: str) -> int:
    """Return the descriptor of a namespace's file, which the caller closes.

    :raises NoSuchNamespace: and NotPermitted, as :func:`opened` does.
    """
    try:
        found = os.open(where, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise errors.NoSuchNamespace(label) from error
    except OSError as error:
        raise errors.from_errno(error.errno or 0, label) from error
    try:
        if not _is_network(found):
            raise errors.NoSuchNamespace(label, detail=f"{where} is not one")
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


def cookie(opened: socket.socket) -> int:
    """Return the cookie of a socket's namespace; 0 where there is none."""
    try:
        found = opened.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
    except OSError:
        return 0
    return int.from_bytes(found, sys.byteorder)


def own_cookie() -> int:
    """Return the cookie of the calling thread's namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        return cookie(opened)


def inside(descriptor: int, action: Callable[[], _T]) -> _T:
    """Return what a function returns in a thread that enters a namespace.

    :raises OSError: if the namespace cannot be entered; and whatever else
        the function raises.
    """

    def visit() -> _T:
        enter(descriptor)
        return action()

    return in_thread(visit)


def in_thread(action: Callable[[], _T]) -> _T:
    """Return what a function returns in a thread that ends with it.

    It may enter namespaces.

    :raises TimeoutError: if it does not end within :data:`LIMIT_S`.
    :raises BaseException: what the function raises.
    """
    try:
        return deadline.Call("look into a namespace", action).result(LIMIT_S)
    except deadline.Expired as error:
        raise TimeoutError(errno.ETIMEDOUT, str(error)) from error


def enter(descriptor: int) -> None:
    """Move the calling thread; os.setns comes with Python 3.12 only.

    :raises OSError: if the namespace cannot be entered.
    """
    if _setns()(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


@functools.cache
def _setns() -> Callable[[int, int], int]:
    # The program's own symbols: no library has to be found.
    return ctypes.CDLL(None, use_errno=True).setns


def call(number: int, *arguments: object) -> int:
    """Make a system call that Python has no function for.

    :raises OSError: as the kernel refuses it.
    """
    found = _syscall()(number, *arguments)
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


@functools.cache
def _syscall() -> Callable[..., int]:
    return ctypes.CDLL(None, use_errno=True).syscall


def others(own: Identity, *, thorough: bool = False) -> Iterator[Namespace]:
    """Yield each namespace but one's own once, those with a name first.

    :param own: which one is left out.
    :param thorough: those too that no process is in, but a thread, or that
        a process holds open by a descriptor or a socket; that takes a look at
        every descriptor of the host.
    """
    seen = {own}
    for name, where, kept in _candidates(thorough=thorough):
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
            yield Namespace(name, each, where, kept)


def find(expected: Identity) -> Namespace | None:
    """Return a namespace wherever it is to be found; None if it is not."""
    own = identity_of(None)
    for each in others(own, thorough=True):
        if each.identity == expected and _is_it(each, expected):
            return each
    return None


def _is_it(found: Namespace, expected: Identity) -> bool:
    if not expected.cookie:
        return True
    try:
        descriptor = open_file(found.path, found.name)
    except errors.LinkError:
        return False
    try:
        return expected.is_now(inside(descriptor, own_cookie))
    finally:
        os.close(descriptor)


def identity_of(name: str | None) -> Identity:
    """Return which namespace a name is of; None for the calling thread's.

    :raises NoSuchNamespace: and NotPermitted, as :func:`opened` does.
    """
    with opened(name) as found:
        return identity(found)


def _candidates(*, thorough: bool) -> Iterator[tuple[str, str, _Kept | None]]:
    for name in _listed(NAMES):
        # By another name nobody could ask for it.
        if _is_name(name):
            yield name, f"{NAMES}/{name}", None
    pids = sorted(int(each) for each in _listed(PROC) if each.isdecimal())
    for pid in pids:
        yield f"{PID}{pid}", f"{PROC}/{pid}/ns/net", None
    if thorough:
        for name, where in _mounted(pids):
            yield name, where, None
        for pid in pids:
            for thread in _listed(f"{PROC}/{pid}/task"):
                where = f"{PROC}/{pid}/task/{thread}/ns/net"
                yield f"{PID}{pid}", where, None
        yield from _descriptors(pids)


def _descriptors(pids: list[int]) -> Iterator[tuple[str, str, _Kept | None]]:
    """Yield the namespaces of descriptors, those of sockets last."""
    end = time.thread_time() + LOOK_S
    sockets: dict[str, tuple[int, int]] = {}
    for pid in pids:
        for number in _listed(f"{PROC}/{pid}/fd"):
            if time.thread_time() > end:
                return
            where = f"{PROC}/{pid}/fd/{number}"
            link = _read_link(where)
            if link.startswith(_NSFS):
                yield f"{PID}{pid}", where, None
            elif link.startswith(_SOCKET):
                # Other processes may have the same one.
                sockets[link] = pid, int(number)
            elif link.endswith(_TUN):
                sockets[where] = pid, int(number)
    for pid, descriptor in sockets.values():
        if time.thread_time() > end:
            return
        kept = _of_socket(pid, descriptor)
        if kept is not None:
            own = f"{PROC}/self/fd/{kept.descriptor}"
            yield f"{PID}{pid}", own, kept


def _of_socket(pid: int, number: int) -> _Kept | None:
    """Return the namespace of a socket of a process, which it may alone keep.

    A socket keeps its namespace (sk_alloc in net/core/sock.c), and so does a
    tap's that was opened in it (tun_chr_open in drivers/net/tun.c). Both
    report it, from Linux 4.10 on; to ask, we have it too for as long, by
    pidfd_getfd(2), Linux 5.6.

    :returns: None where it is gone, or none of ours to look at.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        copy = call(_PIDFD_GETFD, process, number, 0)
        stack.callback(os.close, copy)
        return _Kept(fcntl.ioctl(copy, SIOCGSKNS))
    return None


def _mounted(pids: list[int]) -> Iterator[tuple[str, str]]:
    """Yield the namespaces that are mounted, in any mount namespace.

    As ip-netns(8), container engines and tests of ours mount theirs; no
    process has to be in one.
    """
    seen = set()
    for pid in pids:
        for thread in _listed(f"{PROC}/{pid}/task"):
            place = f"{PROC}/{pid}/task/{thread}"
            try:
                mounts = os.stat(f"{place}/ns/mnt").st_ino  # noqa: PTH116
                if mounts in seen:
                    continue
                seen.add(mounts)
                with open(f"{place}/mountinfo", "rb") as file:  # noqa: PTH123
                    lines = file.readlines(MAX_MOUNTS)
            except OSError:
                continue
            for line in lines:
                # proc_pid_mountinfo(5): the root and the mount point.
                parts = line.split(b" ")
                if len(parts) > _POINT and parts[_ROOT].startswith(b"net:["):
                    point = os.fsdecode(_unescaped(parts[_POINT]))
                    yield f"{PID}{pid}", f"{place}/root{point}"


def _unescaped(text: bytes) -> bytes:
    """Return a path as seq_path of the kernel has escaped it."""
    for code, char in ((b"040", b" "), (b"011", b"\t"), (b"012", b"\n")):
        text = text.replace(b"\\" + code, char)
    return text.replace(b"\\134", b"\\")


def _read_link(where: str) -> str:
    try:
        return os.readlink(where)  # noqa: PTH115
    except OSError:
        return ""


def _is_name(text: str) -> bool:
    if text.startswith(PID):
        return False
    try:
        parse(text)
    except ParseError:
        return False
    return True


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208
    except OSError as error:
        # A process has ended, or is none of ours to look at.
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.EACCES):
            return []
        raise
