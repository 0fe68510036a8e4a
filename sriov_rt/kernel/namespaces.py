# SPDX-License-Identifier: Apache-2.0

"""Network namespaces: search, comparison by identity, and entry.

There is one way to enter one: a new thread goes there, does its work and ends.
It never comes back, so nothing can be stranded in a tenant's namespace. (A
child process, as pyroute2's ``NetNS`` makes, takes 10 ms.)
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

#: Directory in which ip-netns(8) keeps the names.
NAMES = "/run/netns"
PROC = "/proc"

#: PID_MAX_LIMIT of a 64-bit kernel (include/linux/threads.h).
MAX_PID = 4 * 1024 * 1024

#: Prefix of the process id of a namespace that has no name.
PID = "pid:"

_NAMESPACE = re.compile(r"[A-Za-z0-9._@+-]{1,255}")

#: The namespace of the calling thread.
OWN = "/proc/thread-self/ns/net"

#: include/uapi/linux/sched.h.
CLONE_NEWNET = 0x40000000

#: include/uapi/asm-generic/socket.h; the socket module lacks it.
SO_NETNS_COOKIE = 71

#: Prefixes of links to network namespaces and to sockets in /proc/PID/fd, and
#: suffix of the file that makes a tap, which is a socket, too.
_NSFS = "net:["
_SOCKET = "socket:["
_TUN = "/tun"

#: The most namespaces that are found, those with names first.
MAX_FOUND = 16384

#: CPU time for the inspection of descriptors, s, at some microseconds each:
#: anybody can have very many. What is not found by then is unseen.
LOOK_S = 2.0

#: Fields of a line of /proc/PID/mountinfo, and the most bytes that are read.
_ROOT, _POINT = 3, 4
MAX_MOUNTS = 1024 * 1024

#: Seconds for a look into namespaces: 10,000 of them take some.
LIMIT_S = 120.0

#: include/uapi/linux/nsfs.h.
NS_GET_NSTYPE = 0xB703

#: include/uapi/asm-generic/sockios.h: a descriptor of a socket's namespace.
SIOCGSKNS = 0x894C

#: arch/*/entry/syscalls: the same number on all architectures.
_PIDFD_GETFD = 438


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Identity of a namespace: the inode of its nsfs file.

    :param cookie: number that the kernel gives to no other namespace until its
        next boot (SO_NETNS_COOKIE, Linux 5.14): a new namespace may get the
        inode of one that has ended. 0 if it is unknown.
    """

    device: int
    inode: int
    cookie: int = dataclasses.field(default=0, compare=False)

    def is_now(self, cookie: int) -> bool:
        """Return whether a namespace with its inode may be the same one."""
        return not self.cookie or not cookie or self.cookie == cookie


class _Kept:
    """Descriptor that is closed with its last reference."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


class Namespace(NamedTuple):
    """A namespace other than the caller's.

    :param name: name in /run/netns, or ``pid:N`` of a process in it, with a
        thread in it, or with a descriptor that holds it open.
    :param kept: its descriptor, if there is no other file of it.
    """

    name: str
    identity: Identity
    path: str
    kept: _Kept | None = None


# The names of a host are parsed at each look at it.
@functools.lru_cache(maxsize=1024)
def parse(text: str) -> str:
    """Return the name of a namespace, or ``pid:N``, if it is valid.

    :raises ParseError: if it is not valid.
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
    """Return the file of a namespace.

    :param name: one in /run/netns, or ``pid:N``.
    :raises NoSuchNamespace: if no namespace can have that name.
    """
    return pathlib.Path(_path(name))


def _path(name: str) -> str:
    # Each plug calls it several times; pathlib takes as long as the kernel.
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
    :raises NoSuchNamespace: if no namespace has the name.
    :raises NotPermitted: if the caller may not inspect the process.
    """
    found = descriptor(name)
    try:
        yield found
    finally:
        os.close(found)


def descriptor(name: str | None) -> int:
    """Return the descriptor of a namespace, which the caller closes.

    :raises NoSuchNamespace: or NotPermitted, as :func:`opened` does.
    """
    where = _path(name) if name else OWN
    return open_file(where, name or where)


def open_file(where: str, label: str) -> int:
    """Return the descriptor of a namespace's file, which the caller closes.

    :raises NoSuchNamespace: or NotPermitted, as :func:`opened` does.
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
        # Not a file of nsfs: it remains of an 'ip netns add' that failed.
        if error.errno in (errno.ENOTTY, errno.EINVAL):
            return False
        raise


def identity(descriptor: int) -> Identity:
    """Return the identity of a descriptor's namespace."""
    found = os.fstat(descriptor)
    return Identity(found.st_dev, found.st_ino)


def cookie(opened: socket.socket) -> int:
    """Return the cookie of a socket's namespace; 0 if there is none."""
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
    """Call a function in a thread in a namespace; return its result.

    :raises OSError: if the namespace cannot be entered.
    :raises BaseException: any other error of the function.
    """

    def visit() -> _T:
        enter(descriptor)
        return action()

    return in_thread(visit)


def in_thread(action: Callable[[], _T]) -> _T:
    """Call a function in a thread of its own; return its result.

    The function may enter namespaces.

    :raises TimeoutError: if it does not end within :data:`LIMIT_S`.
    :raises BaseException: any error of the function.
    """
    try:
        return deadline.Call("look into a namespace", action).result(LIMIT_S)
    except deadline.Expired as error:
        raise TimeoutError(errno.ETIMEDOUT, str(error)) from error


def enter(descriptor: int) -> None:
    """Move the calling thread; os.setns needs Python 3.12.

    :raises OSError: if the namespace cannot be entered.
    """
    if _setns()(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")


@functools.cache
def _setns() -> Callable[[int, int], int]:
    # Symbols of the program itself, so no library has to be found.
    return ctypes.CDLL(None, use_errno=True).setns


def call(number: int, *arguments: object) -> int:
    """Make a system call that Python has no function for.

    :raises OSError: if the kernel refuses.
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

    :param own: identity of the one to leave out.
    :param thorough: whether to include those without a process in them, which
        a thread is in, or a descriptor or socket holds open; that inspects
        every descriptor of the host.
    """
    seen = {own}
    for name, where, kept in _candidates(thorough=thorough):
        if len(seen) > MAX_FOUND:
            return
        try:
            found = os.stat(where)  # noqa: PTH116
        except OSError:
            # The process has ended, or may not be inspected.
            continue
        each = Identity(found.st_dev, found.st_ino)
        if each not in seen:
            seen.add(each)
            yield Namespace(name, each, where, kept)


def find(expected: Identity) -> Namespace | None:
    """Return a namespace under any name; None if it is not found."""
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
    """Return the identity of a namespace; None for the calling thread's.

    :raises NoSuchNamespace: or NotPermitted, as :func:`opened` does.
    """
    with opened(name) as found:
        return identity(found)


def _candidates(*, thorough: bool) -> Iterator[tuple[str, str, _Kept | None]]:
    for name in _listed(NAMES):
        # Nobody could request it under another name.
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
                # Other processes may have the same socket.
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
    """Return the namespace of a process's socket, which may alone keep it.

    A socket keeps its namespace (sk_alloc in net/core/sock.c), and so does
    that of a tap that was opened in it (tun_chr_open in drivers/net/tun.c).
    Both report it since Linux 4.10; for the request we share the socket, by
    pidfd_getfd(2), Linux 5.6.

    :returns: None if it is gone, or may not be inspected.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        process = os.pidfd_open(pid)
        stack.callback(os.close, process)
        copy = call(_PIDFD_GETFD, process, number, 0)
        stack.callback(os.close, copy)
        return _Kept(fcntl.ioctl(copy, SIOCGSKNS))
    return None


def _mounted(pids: list[int]) -> Iterator[tuple[str, str]]:
    """Yield the namespaces that are mounted in any mount namespace.

    ip-netns(8), container engines and our tests mount theirs; no process has
    to be in one.
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
                # Fields of proc_pid_mountinfo(5): the root and the mount
                # point.
                parts = line.split(b" ")
                if len(parts) > _POINT and parts[_ROOT].startswith(b"net:["):
                    point = os.fsdecode(_unescaped(parts[_POINT]))
                    yield f"{PID}{pid}", f"{place}/root{point}"


def _unescaped(text: bytes) -> bytes:
    """Return a path that the kernel's seq_path has escaped."""
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
        # A process has ended, or may not be inspected.
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.EACCES):
            return []
        raise
