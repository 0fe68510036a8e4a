# SPDX-License-Identifier: Apache-2.0

"""A host's file system, read only, with bounded reads."""

import errno
import io
import os
import pathlib
import stat

from sriov_rt.codec import Unknown

#: Configuration of sriov-rt.
CONFIG = "etc/sriov_rt/sriov-rt.conf"

#: The default limit of a file, in bytes: sysfs returns a page at most, and the
#: longest kernel command line is 4 KiB.
MAX_TEXT = 64 * 1024

#: MAXSYMLINKS in include/linux/namei.h.
MAX_LINKS = 40

#: File with the id of the boot.
BOOT_ID = "proc/sys/kernel/random/boot_id"

_PROC = "proc/"

#: The kernel's errors for a path that does not exist.
ABSENT = (FileNotFoundError, NotADirectoryError)

# A FIFO or a terminal in place of a file must not block the reader.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


class Root:
    """A host's file system, read only, every read bounded.

    Paths are relative to the root, such as ``sys/class/net``. Below a root
    other than ``/``, links resolve as after a chroot, never out of it. No
    method raises for what it finds: it returns an Unknown with the error and
    the file as the host names it.

    :param path: directory to take for ``/``.
    """

    def __init__(self, path: str = "/") -> None:
        self.path = pathlib.Path(path).absolute()
        self._confined = self.path.resolve() != pathlib.Path("/")

    @property
    def is_confined(self) -> bool:
        """Whether it is a directory other than ``/``."""
        return self._confined

    def is_running(self) -> bool:
        """Return whether it is the running host, and not a copy of one.

        If a container has the host's file system below a directory, the boot
        ids there and here are the same.
        """
        if not self._confined:
            return True
        boot = self.read_text(BOOT_ID)
        return not isinstance(boot, Unknown) and boot == Root().read_text(
            BOOT_ID
        )

    def read_text(
        self,
        relative: str,
        limit: int = MAX_TEXT,
        *,
        may_be_empty: bool = False,
    ) -> str | Unknown:
        """Return the text of a file; unknown if it is empty or not UTF-8.

        In procfs a byte that is not UTF-8 is read as U+FFFD: any process may
        use such bytes in its name and in its program's file name.

        :param limit: the longest text that is read, in bytes.
        :param may_be_empty: whether an empty file is an empty text.
        """
        try:
            data = read_file(self.locate(relative), limit + 1)
        except OSError as error:
            return _unknown(relative, error)
        if len(data) > limit:
            return Unknown(f"/{relative}: longer than {limit} bytes")
        if not data and not may_be_empty:
            return Unknown(f"/{relative}: empty")
        if relative.startswith(_PROC):
            return data.decode(errors="replace")
        try:
            return data.decode()
        except UnicodeDecodeError:
            return _not_text(relative)

    def read_device(self, relative: str, length: int) -> bytes | Unknown:
        """Return the immediate answer of a character device of the kernel.

        Use it only for a device that can be opened without any effect.

        :param length: number of bytes to read.
        """
        try:
            descriptor = os.open(self.locate(relative), _FLAGS)
            try:
                if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
                    raise OSError(errno.EINVAL, "not a character device")
                return os.read(descriptor, length)
            finally:
                os.close(descriptor)
        except OSError as error:
            return _unknown(relative, error)

    def may_write(self, relative: str) -> bool | Unknown:
        """Return whether the mode of a file lets its owner write it."""
        try:
            mode = self.locate(relative).stat().st_mode
        except OSError as error:
            return _unknown(relative, error)
        return bool(mode & stat.S_IWUSR)

    def open_file(self, relative: str) -> io.FileIO | Unknown:
        """Return a regular file, opened to be read in pieces.

        The caller closes it, and limits its reads. The file may be a tenant's:
        a device node in its place is not opened, as some (a watchdog, a tape)
        do harm when they are merely opened.
        """
        try:
            seen = os.open(self.locate(relative), os.O_PATH | os.O_CLOEXEC)
            try:
                _check_regular(seen)
                # This is the same file, whatever its name refers to now.
                return io.FileIO(os.open(f"/proc/self/fd/{seen}", _FLAGS))
            finally:
                os.close(seen)
        except OSError as error:
            return _unknown(relative, error)

    def list_dir(self, relative: str) -> tuple[str, ...] | Unknown:
        """Return the sorted names in a directory that are UTF-8."""
        try:
            # pathlib makes a path of each, which takes twice as long for
            # /proc.
            names = os.listdir(self.locate(relative))  # noqa: PTH208
        except OSError as error:
            return _unknown(relative, error)
        return tuple(sorted(filter(_is_text, names)))

    def read_link(self, relative: str) -> str | None | Unknown:
        """Return a link's target; in procfs decoded as by read_text().

        :returns: None if there is no such link.
        """
        try:
            target = str(self.locate(relative, last_link=False).readlink())
        except ABSENT:
            return None
        except OSError as error:
            return _unknown(relative, error)
        if relative.startswith(_PROC):
            return os.fsencode(target).decode(errors="replace")
        return target if _is_text(target) else _not_text(relative)

    def real_name(self, relative: str) -> str | None | Unknown:
        """Return the last part of a path with all links resolved.

        :returns: None if the path does not exist.
        """
        try:
            name = self.locate(relative).resolve(strict=True).name
        except ABSENT:
            return None
        except OSError as error:
            return _unknown(relative, error)
        return name if _is_text(name) else _not_text(relative)

    def exists(self, relative: str) -> bool | Unknown:
        """Return whether a path exists."""
        try:
            self.locate(relative).stat()
        except ABSENT:
            return False
        except OSError as error:
            return _unknown(relative, error)
        return True

    def locate(self, relative: str, *, last_link: bool = True) -> pathlib.Path:
        """Return the path to open, with its links resolved inside the root.

        :param last_link: whether to resolve the last part, too.
        :raises OSError: ELOOP for more than MAX_LINKS links.
        """
        if "\0" in relative:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if not self._confined:
            return self.path / relative
        todo = relative.split("/")[::-1]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                del done[-1:]
            if part in ("", ".", ".."):
                continue
            target = None
            if todo or last_link:
                target = _link("/".join((str(self.path), *done, part)))
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if target.startswith("/"):
                done.clear()
            todo.extend(target.split("/")[::-1])
        return self.path.joinpath(*done)


def _link(path: str) -> str | None:
    try:
        # Called for each part of each path: pathlib takes five times as long.
        return os.readlink(path)  # noqa: PTH115
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _check_regular(descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file")


def read_file(path: pathlib.Path, limit: int) -> bytes:
    """Return the first bytes of a regular file; never wait for a writer.

    :param limit: the most bytes to read.
    :raises OSError: if the kernel refuses, or it is no regular file.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        _check_regular(descriptor)
        # procfs returns a file in pieces.
        pieces = []
        while limit > 0 and (piece := os.read(descriptor, limit)):
            pieces.append(piece)
            limit -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _unknown(relative: str, error: OSError) -> Unknown:
    return Unknown(f"/{relative}: {error.strerror or error}")


def _not_text(relative: str) -> Unknown:
    return Unknown(f"/{relative}: not UTF-8 text")


def _is_text(name: str) -> bool:
    # Bytes that are not UTF-8 appear as lone surrogates (PEP 383).
    return not any("\ud800" <= each <= "\udfff" for each in name)
