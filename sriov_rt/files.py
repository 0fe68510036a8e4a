# SPDX-License-Identifier: Apache-2.0

"""Files that are replaced as a whole, and read within bounds."""

import contextlib
import errno
import fcntl
import os
import pathlib
import stat
import time
from collections.abc import Iterator
from typing import Any


class Unusable(OSError):
    """The file must not be read, and trying again would not help.

    :param problem: why not, a clause.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(errno.EINVAL, problem)


#: Non-blocking, since a FIFO in a file's place must not block the reader.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK

#: Errors of open() for a link (with O_NOFOLLOW), a socket, and a device
#: without a driver.
_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV)

#: Seconds between two tries to lock a file.
_PAUSE_S = 0.02

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def read(
    path: str | pathlib.Path, limit: int, *, private: bool = False
) -> bytes:
    """Return the content of a regular file, or the beginning of a longer one.

    :param limit: bytes; one more byte is returned if the file is longer.
    :param private: whether only root or the caller may have written the file,
        and it must not be a link.
    :raises Unusable: if it is no such file.
    :raises OSError: if it cannot be read for another reason.
    """
    flags = _FLAGS | (os.O_NOFOLLOW if private else 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        link = error.errno == errno.ELOOP
        raise Unusable("a link" if link else "not a regular file") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unusable("not a regular file")
        if private:
            _check(status)
        # Not os.fdopen: with eventlet (services of 2025.2) it ignores closefd.
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(descriptor)


def make_directory(directory: pathlib.Path, mode: int = 0o755) -> None:
    """Make a directory, and missing parents that everybody may read.

    The umask is ignored: root's may lock out vdsm's hooks, which run as
    another user, and that of oslo.privsep's daemon lets everybody in.

    :param mode: mode of a new directory; an existing one keeps its mode.
    :raises OSError: if it cannot be made.
    """
    for each in (*reversed(directory.parents), directory):
        if not each.exists():
            with contextlib.suppress(FileExistsError):
                each.mkdir(0o700)
                each.chmod(mode if each == directory else 0o755)


def check_directory(path: pathlib.Path) -> None:
    """Check that only root or the caller can have put files into a directory.

    :raises Unusable: if others can, or it is a link.
    :raises OSError: if it does not exist.
    """
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise Unusable(f"{path} is a link")
    if not stat.S_ISDIR(status.st_mode):
        raise Unusable(f"{path} is not a directory")
    _check(status, f"{path} ")


def _check(status: os.stat_result, name: str = "") -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise Unusable(f"{name}belongs to user {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise Unusable(f"{name}can be written by others (mode {mode:04o})")


#: Descriptors of all held locks. A forked child closes the inherited ones, or
#: it would keep the locks when their owner has exited.
_locks: set[int] = set()


def _drop_locks() -> None:
    for each in tuple(_locks):
        os.close(each)
    _locks.clear()


os.register_at_fork(after_in_child=_drop_locks)


@contextlib.contextmanager
def locked(
    path: pathlib.Path, seconds: float = 0.0, clock: Any = time
) -> Iterator[int]:
    """Lock a file; create it if necessary and leave it in place.

    Yields its descriptor: a program that inherits it keeps the lock.

    :param seconds: how long to wait for the present holder.
    :param clock: clock for the wait, with the interface of the time module.
    :raises BlockingIOError: if somebody holds it longer.
    :raises OSError: if the file cannot be created, or is a link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    _locks.add(descriptor)
    end = clock.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock.monotonic() >= end:
                    raise
                clock.sleep(_PAUSE_S)
        yield descriptor
    finally:
        if descriptor in _locks:
            _locks.discard(descriptor)
            os.close(descriptor)


def replace(
    path: pathlib.Path,
    data: bytes,
    mode: int = 0o600,
    *,
    durable: bool = False,
) -> None:
    """Replace a file so that a reader finds the old one or the new one.

    Until it is complete, the new file's name begins with a dot; NFD ignores
    such files in its directory. A path has one writer at a time.

    :param mode: its permissions, whatever the process's umask.
    :param durable: whether to flush the file to disk before it replaces the
        old one, and its directory afterwards; useless for content that is
        not needed after the next boot.
    :raises OSError: if it cannot be written; the old file then remains.
    """
    temporary = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags | os.O_CLOEXEC, mode)
    try:
        try:
            os.fchmod(descriptor, mode)
            while data:
                data = data[os.write(descriptor, data) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # an error of a full disk has none
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def remedy(error: OSError, otherwise: str) -> str:
    """Return what to do about a disk that takes no data, a clause.

    :param otherwise: what to do about another error.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space on its file system, then try again"
    if error.errno == errno.EROFS:
        return "see 'dmesg', and mount its file system writable again"
    return otherwise


def sync(directory: pathlib.Path) -> None:
    """Flush a directory's entries to disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
