# SPDX-License-Identifier: Apache-2.0

"""Locks between processes and threads, which end with their owner.

Not fasteners (as in oslo.concurrency): it opens a file for each name, but a
port has to be unplugged with no inode left and no lock file yet, and from a
state directory that is read-only. Here an abstract socket replaces the file.
Its locks (fcntl.lockf) also belong to the whole process: threads need another
lock, and closing any descriptor of the file frees them. Locks of an open file
description exclude threads too. A forked child closes the ones it inherits at
once, so that none outlives its owner.
"""

import errno
import fcntl
import hashlib
import logging
import os
import pathlib
import socket
import stat
import struct
import threading
import time
import weakref
from typing import Self

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.vif import errors

LOG = logging.getLogger(__name__)

#: Name of the file in the directory of ``[vif] records``.
FILE = "lock"

#: A wait for longer than this is logged, in seconds.
QUIET_S = 2.0

#: The first and the longest pause between two tries, in seconds.
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.001, 0.02

#: struct flock with 64-bit offsets (asm-generic/fcntl.h).
_FLOCK = struct.Struct("@hhqqi4x")

#: Errors if no file can be made: a disk that is full or read-only must not
#: keep a tenant's port on the host.
_NO_FILE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENFILE)

#: Errors if another owner holds the lock.
_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EADDRINUSE)


class _Turn:
    """Threads of this process that use one lock.

    :ivar users: number of threads that wait for it or hold it.
    """

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


class Locks:
    """One lock for each name, all in one file.

    A lock is one byte of the file, at a place that follows from the name,
    locked for an open file description (F_OFD_SETLK). It ends with the
    process, however that ends; threads exclude each other too; and 10,000
    ports leave no 10,000 lock files. If there is no file and none can be made,
    it is an abstract socket (unix(7)) of the network namespace.

    :param directory: the directory of ``[vif] records``.
    :param timeout_s: how long to wait for a lock, in seconds.
    """

    def __init__(self, directory: pathlib.Path, timeout_s: float) -> None:
        self._directory = directory
        self._path = str(directory / FILE)
        self._timeout_s = timeout_s
        self._mutex = threading.Lock()
        self._turns: dict[str, _Turn] = {}

    def port(self, port: str, *, wait: bool = True) -> "Lock":
        """Return the lock of a port.

        :param wait: False to give up at once.
        :raises Busy: if another owner keeps it for longer than the timeout.
        """
        return self._lock_for(f"port {port}", port, wait)

    def parent(self, name: str, *, wait: bool = True) -> "Lock":
        """Return the lock of an interface of the host; see :meth:`port`."""
        return self._lock_for(f"parent {name}", None, wait)

    def network(self, network: str) -> "Lock":
        """Return the lock on the choice of a network's accelerated NICs.

        :param network: its UUID.
        """
        return self._lock_for(f"network {network}", None, True)

    def _lock_for(self, what: str, port: str | None, wait: bool) -> "Lock":
        return Lock(self, what, port, self._timeout_s if wait else 0.0)

    def take(self, what: str, port: str | None, timeout_s: float) -> int:
        """Return the descriptor that holds a lock; see :meth:`give`."""
        deadline = time.monotonic() + timeout_s
        turn = self._join(what)
        try:
            _wait(turn, what, port, deadline)
            try:
                descriptor = self._locked(what, port, deadline)
            except BaseException:
                turn.lock.release()
                raise
        except BaseException:
            self._leave(what, turn)
            raise
        return descriptor

    def give(self, descriptor: int, what: str) -> None:
        """Release the lock that a descriptor holds."""
        os.close(descriptor)
        turn = self._turns[what]
        turn.lock.release()
        self._leave(what, turn)

    def _join(self, what: str) -> _Turn:
        with self._mutex:
            turn = self._turns.get(what)
            if turn is None:
                turn = self._turns[what] = _Turn()
            turn.users += 1
            return turn

    def _leave(self, what: str, turn: _Turn) -> None:
        with self._mutex:
            turn.users -= 1
            if not turn.users:
                del self._turns[what]

    def _locked(self, what: str, port: str | None, deadline: float) -> int:
        descriptor = self._open()
        try:
            self._lock(descriptor, what, port, deadline)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _open(self) -> int:
        """Return the descriptor of the file, or of a socket in its place."""
        path = self._path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                return os.open(path, flags, 0o600)
            except FileNotFoundError:
                files.make_directory(self._directory, 0o700)
                return os.open(path, flags, 0o600)
        except OSError as error:
            if error.errno in _NO_FILE:
                LOG.warning(
                    "no lock file (%s): locks by a socket",
                    exceptions.plain(error),
                )
                kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
                return socket.socket(socket.AF_UNIX, kind).detach()
            raise errors.RecordsBroken(
                path, detail=error.strerror or str(error)
            ) from error

    def _lock(
        self, descriptor: int, what: str, port: str | None, deadline: float
    ) -> None:
        pause = _FIRST_PAUSE_S
        reported = time.monotonic() + QUIET_S
        while True:
            try:
                self._try(descriptor, what)
                return
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise errors.RecordsBroken(
                        self._path,
                        detail=f"lock: {error.strerror}",
                    ) from error
            now = time.monotonic()
            if now >= deadline:
                raise errors.Busy(what, port=port)
            if now >= reported:
                LOG.warning(
                    "waiting for %s, at most %d s", what, deadline - now
                )
                reported = deadline
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)

    def _try(self, descriptor: int, what: str) -> None:
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as opened:
                opened.bind(f"\0sriov-rt:{_place(what)}")
            return
        requested = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _place(what), 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, requested)


def _place(what: str) -> int:
    digest = hashlib.blake2b(what.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 2


#: The locks that this process holds. A child that it forks has the same
#: descriptors, and would hold the locks beyond their owner's end.
_open_locks: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """Lock that is held inside a with statement."""

    def __init__(
        self, locks: Locks, what: str, port: str | None, timeout_s: float
    ) -> None:
        self._locks = locks
        self._request = what, port, timeout_s
        self._descriptor = -1

    def __enter__(self) -> Self:
        self._descriptor = self._locks.take(*self._request)
        _open_locks.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        _open_locks.discard(self)
        if self._descriptor >= 0:
            self._locks.give(self._descriptor, self._request[0])

    def drop(self) -> None:
        """Close the descriptor, in a child that was forked."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _drop_all() -> None:
    for each in tuple(_open_locks):
        each.drop()
    _open_locks.clear()


os.register_at_fork(after_in_child=_drop_all)


def _wait(turn: _Turn, what: str, port: str | None, deadline: float) -> None:
    """Wait among the threads of this process.

    They are woken when it is their turn. Other processes have to poll: the
    wait for their lock cannot have a timeout.
    """
    left = max(0.0, deadline - time.monotonic())
    if turn.lock.acquire(timeout=min(left, QUIET_S)):
        return
    if left > QUIET_S:
        LOG.warning("waiting for %s, at most %d s", what, left)
    if not turn.lock.acquire(timeout=max(0.0, left - QUIET_S)):
        raise errors.Busy(what, port=port)
