# SPDX-License-Identifier: Apache-2.0

"""A host in an archive: a sosreport, an unpacked one, or a must-gather.

An archive comes from elsewhere and may be hostile: extraction is bounded,
nothing is written outside one directory, and links lead nowhere else. A file
that is not in it is unknown, not absent.
"""

import bz2
import contextlib
import dataclasses
import errno
import gzip
import io
import itertools
import lzma
import os
import pathlib
import re
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Mapping
from typing import BinaryIO
from typing import cast

from sriov_rt import exceptions
from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.host import kernel
from sriov_rt.host.compute_driver_socket import SOCKETS
from sriov_rt.host.compute_driver_socket import SOCKETS_OF_INIT
from sriov_rt.host.root import ABSENT
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import MAX_TEXT
from sriov_rt.host.root import Root
from sriov_rt.reason import REMEDY
from sriov_rt.reason import Reason

#: Bytes that are extracted of one file (the longest is modules.dep) and of
#: all; members, and bytes, that an archive may have at all.
MAX_FILE = 16 * 1024 * 1024
MAX_TAKEN = 512 * 1024 * 1024
MAX_MEMBERS = 1_000_000
MAX_WHOLE = 32 * 1024**3

#: Bytes of the headers of one member, with the buffers.
_MAX_HEADERS = 1024 * 1024

#: The longest path in bytes and in parts, and the longest part in bytes:
#: NAME_MAX, and less than PATH_MAX, of include/uapi/linux/limits.h.
_MAX_PATH, _MAX_PARTS, _MAX_PART = 2048, 64, 255

#: Bytes of memory for xz; -9 takes 65 MiB.
_MAX_XZ = 256 * 1024 * 1024

_TOO_LARGE = "it is too large"

#: The most hosts of a directory of archives, or of a must-gather.
MAX_HOSTS = 1000

#: Paths that are extracted, below the archive's own directory.
_TAKEN = (
    *("etc/", "proc/", "sys/", "run/sriov-rt", "var/lib/sriov-rt"),
    *("lib/modules/", "usr/lib/os-release", "hostname"),
    *("sos_commands/kernel/", "sos_commands/memory/", "sos_commands/host/"),
    "sos_commands/sriov_rt/",
)

#: Starts of a path that are tried: an archive has up to two directories of its
#: own before the host's.
_DEPTH = 3

#: How many directories a host is below: in a must-gather those of its own, of
#: its image, "nodes" and the node's; and in a snapshot.
_MUST_GATHER, _SNAPSHOT = 4, 1

_SUFFIXES = (".tar", ".tar.xz", ".tar.gz", ".tgz", ".tar.bz2")
_COMMANDS = "sos_commands"

#: A node's snapshot in a must-gather of the node tuning operator.
SNAPSHOT = "sysinfo.tgz"


class ArchiveUnusable(exceptions.SriovRtError):
    """An archive that no host can be read from.

    :param path: the path as it was given.
    :param problem: what is wrong with it, as a clause.
    """

    remedy = "give a sosreport, the directory of one, or a must-gather"

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}{REMEDY}{self.remedy}")


class Archive(Root):
    """The files of a host that an archive has.

    A file that it does not have is unknown, unless the output of a command
    (``sos_commands``) has the same text.

    :param name: path of the archive, below the one that was given.
    """

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path)
        self.name = name

    def read_text(
        self,
        relative: str,
        limit: int = MAX_TEXT,
        *,
        may_be_empty: bool = False,
    ) -> str | Unknown:
        """Return the text of a file; see Root."""
        if relative == SOCKETS_OF_INIT and not self._has(relative):
            # Stock sos has its own list, which on a host is init's.
            relative = SOCKETS if self._has(SOCKETS) else relative
        if not self._has(relative):
            said = self._said(relative)
            return _missing(relative) if said is None else said
        return super().read_text(relative, limit, may_be_empty=may_be_empty)

    def open_file(self, relative: str) -> io.FileIO | Unknown:
        """Return a file; see Root."""
        if not self._has(relative):
            return _missing(relative)
        return super().open_file(relative)

    def list_dir(self, relative: str) -> tuple[str, ...] | Unknown:
        """Return the names in a directory; see Root."""
        if not self._has(relative):
            return _missing(relative)
        return super().list_dir(relative)

    def read_link(self, relative: str) -> str | None | Unknown:
        """Return the target of a link; see Root."""
        found = super().read_link(relative)
        return _missing(relative) if found is None else found

    def real_name(self, relative: str) -> str | None | Unknown:
        """Return the last part of a path; see Root."""
        found = super().real_name(relative)
        return _missing(relative) if found is None else found

    def exists(self, relative: str) -> bool | Unknown:
        """Return whether a path exists; unknown if the archive cannot say."""
        if self._has(relative) or self._said(relative) is not None:
            return True
        if relative == kernel.REALTIME and self.exists(kernel.VERSION) is True:
            return False  # the version shows that, too
        if relative == CONFIG or any(
            relative.startswith(f"{each}/") and self._has(each)
            for each in _WHOLE
        ):
            return False
        if relative.startswith(_OURS) and self._has(_PLUGIN):
            return False  # our plug-in takes it if it exists
        return _missing(relative)

    def is_running(self) -> bool:
        """Return false: an archive of this boot is no running host either."""
        return False

    def locate(self, relative: str, *, last_link: bool = True) -> pathlib.Path:
        """Return the path to open; see Root.

        :raises OSError: EINVAL for a device: some (a watchdog, a tape) do harm
            when they are merely opened.
        """
        path = super().locate(relative, last_link=last_link)
        with contextlib.suppress(*ABSENT):
            mode = path.lstat().st_mode
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise OSError(errno.EINVAL, "not a regular file")
        return path

    def _has(self, relative: str) -> bool:
        return super().exists(relative) is not False

    def _said(self, relative: str) -> str | None:
        """Return the text of a file from the output of a command."""
        name = relative.removeprefix("proc/sys/")
        if name != relative:
            key = name.replace("/", ".")
            text = self._output("kernel/sysctl_-a", 4 * MAX_TEXT)
            found = re.search(
                rf"^{re.escape(key)} = (.*)$", text, re.MULTILINE
            )
            if found:
                return f"{found[1]}\n"
        for command, pattern in _SAID.get(relative, ()):
            found = re.search(pattern, self._output(command))
            if found:
                return f"{found[1].strip()}\n"
        return None

    def _output(self, command: str, limit: int = MAX_TEXT) -> str:
        return known_or(super().read_text(f"{_COMMANDS}/{command}", limit), "")


#: Directories that sos takes as a whole, if it takes them.
_WHOLE = (
    "etc/nova",
    "etc/sriov_rt",
    "etc/tuned",
)

#: Output of our sos plug-in's commands, and files it takes if it runs.
_PLUGIN = f"{_COMMANDS}/sriov_rt"
_OURS = (
    "run/sriov-rt/",
    "var/lib/sriov-rt/",
    "var/lib/sriov-rt-verify/hold.json",
    "var/lib/sriov-rt-verify/latency-certificate.json",
)

#: Files that sos leaves out, and the command outputs that have their text.
_SAID: Mapping[str, tuple[tuple[str, str], ...]] = {
    "proc/sys/kernel/osrelease": (("kernel/uname_-a", r"^Linux \S+ (\S+) "),),
    "proc/sys/kernel/version": (
        ("kernel/uname_-a", r"^Linux \S+ \S+ (#.*) \w+ \w+ \w+ GNU/Linux"),
        ("kernel/uname_-a", r"^Linux \S+ \S+ (#.*?) \w+ GNU/Linux"),
    ),
    "proc/sys/kernel/hostname": (
        ("host/hostname", r"^(\S+)"),
        ("kernel/uname_-a", r"^Linux (\S+) "),
    ),
    "proc/swaps": (
        ("memory/swapon_--summary_--verbose", r"(?s)^(Filename.*)"),
    ),
}


_MISSING = "not in the archive"


def _missing(relative: str) -> Unknown:
    return Unknown(f"/{relative}: {_MISSING}")


def collected(found: Reason) -> Reason:
    """Return a Reason; for a missing file, advise to collect it."""
    if _MISSING not in found.message:
        return found
    remedy = (
        "look at that file on the host, or collect it by 'sos report -o "
        "sriov_rt,openstack_nova'"
    )
    return dataclasses.replace(
        found, message=f"{found.problem}{REMEDY}{remedy}", remedy=remedy
    )


def hosts(
    path: pathlib.Path,
) -> Generator[Archive | ArchiveUnusable, None, None]:
    """Yield the hosts of an archive, or of a directory of archives.

    The extracted files of a host are removed once the next host is requested,
    or the generator is closed. An unusable archive among several is yielded as
    an error with its name.

    :raises ArchiveUnusable: if there is no host.
    """
    if path.is_dir():
        found = _within(path, "", _MUST_GATHER)
    elif path.is_file():
        found = _unpacked(path, "", [MAX_TAKEN], _MUST_GATHER)
    else:
        why = "not a regular file" if path.exists() else "no such file"
        raise ArchiveUnusable(str(path), why)
    is_empty = True
    for each in found:
        is_empty = False
        if isinstance(each, Archive):
            each.name = each.name or path.absolute().name
        yield each
    if is_empty:
        raise ArchiveUnusable(str(path), "no host in it")


def _unpacked(
    file: pathlib.Path, name: str, room: list[int], depth: int
) -> Iterator[Archive | ArchiveUnusable]:
    """Yield the hosts of a tarball.

    :param room: bytes that may still be extracted, nested archives included.
    :raises ArchiveUnusable: if it is no tarball, or too large.
    """
    with tempfile.TemporaryDirectory(prefix="sriov-rt-archive-") as place:
        _take_out(file, pathlib.Path(place), room)
        yield from _within(pathlib.Path(place), name, depth, room)


def _within(
    place: pathlib.Path,
    name: str,
    depth: int,
    room: list[int] | None = None,
) -> Iterator[Archive | ArchiveUnusable]:
    """Yield the directories that are the root of a host.

    :param room: as for the archive that this was extracted from.
    """
    try:
        if any((place / x).is_dir() for x in ("proc", "sys", _COMMANDS)):
            yield Archive(str(place), name)
            return
        # A link may lead anywhere.
        entries = sorted(x for x in place.iterdir() if not x.is_symlink())
    except OSError as error:
        yield ArchiveUnusable(name or str(place), exceptions.plain(error))
        return
    for each in entries[:MAX_HOSTS]:
        below = f"{name}/{each.name}".lstrip("/")
        if each.is_dir() and depth:
            # The name of an archive's own directory is left out.
            below = below if len(entries) > 1 else name
            yield from _within(each, below, depth - 1, room)
        elif each.is_file() and each.name.endswith(_SUFFIXES):
            # A snapshot is the only nested archive, and has none itself.
            levels = _SNAPSHOT if room else _MUST_GATHER
            is_empty = not name
            try:
                for host in _unpacked(
                    each, below, room or [MAX_TAKEN], levels
                ):
                    is_empty = False
                    yield host
            except ArchiveUnusable as error:
                yield ArchiveUnusable(below, error.problem)
                continue
            if is_empty:
                yield ArchiveUnusable(below, "no host in it")


class _Stream:
    """A tarball, read no further than its members account for.

    tarfile reads a whole header, however long its chain is.

    :ivar limit: bytes that may be read.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._done = 0
        self.limit = _MAX_HEADERS

    def read(self, size: int) -> bytes:
        """Return bytes; see io.RawIOBase."""
        data = self._source.read(size)
        self._done += len(data)
        if self._done > self.limit:
            raise tarfile.ReadError(_TOO_LARGE)
        return data


def _members(
    tar: tarfile.TarFile, stream: _Stream
) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a tarball.

    :raises ReadError: if it, or the headers before a member, are too large.
    """
    for count in itertools.count(1):
        whole = tar.offset
        if whole > MAX_WHOLE or count > MAX_MEMBERS:
            raise tarfile.ReadError(_TOO_LARGE)
        stream.limit = whole + _MAX_HEADERS
        found = tar.next()
        if found is None:
            return
        stream.limit = tar.offset + _MAX_HEADERS
        # Drop them, so that they do not accumulate.
        tar.members = []  # type: ignore[attr-defined]
        tar.pax_headers = {}
        yield found


def _take_out(
    file: pathlib.Path, place: pathlib.Path, room: list[int]
) -> None:
    """Extract a host's files from a tarball.

    :raises ArchiveUnusable: if it is no tarball, or too large.
    """
    links: list[tuple[pathlib.Path, str]] = []
    try:
        with _opened(file) as source:
            stream = _Stream(source)
            tar = tarfile.open(  # noqa: SIM115
                fileobj=cast(BinaryIO, stream), mode="r|", errorlevel=0
            )
            for each in _members(tar, stream):
                target = _target(each.name, place)
                is_file = each.isreg() and 0 <= each.size <= MAX_FILE
                is_link = each.issym() and len(each.linkname) <= _MAX_PATH
                if target is None or not (is_file or is_link):
                    continue
                room[0] -= 4096 + each.size * is_file
                if room[0] < 0:
                    raise tarfile.ReadError(_TOO_LARGE)
                if is_link:
                    links.append((target, each.linkname))
                elif data := tar.extractfile(each):
                    _write(target, data.read(MAX_FILE))
    except _BROKEN as error:
        problem = exceptions.plain(error)
        if isinstance(error, (ValueError, RecursionError)) or not problem:
            problem = "not a tarball"
        raise ArchiveUnusable(str(file), problem) from None
    # Links are made last, so that no file is written through one, and no link
    # below another one. Root keeps its readers inside.
    for target, link in links:
        parents = (place / x for x in target.relative_to(place).parents)
        if any(each.is_symlink() for each in parents):
            continue
        with contextlib.suppress(OSError, ValueError):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(link)


#: Errors of tarfile and the decompressors for malformed data.
_BROKEN = (
    *(tarfile.TarError, OSError, EOFError, lzma.LZMAError, zlib.error),
    *(ValueError, RecursionError),
)


class _Xz:
    """An xz file; its header sets the size of the dictionary."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = lzma.LZMADecompressor(memlimit=_MAX_XZ)

    def read(self, size: int) -> bytes:
        """Return bytes; see io.RawIOBase."""
        data = b""
        while not (data or self._decoder.eof):
            piece = b""
            if self._decoder.needs_input:
                piece = self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not piece:
                    raise EOFError("it is cut")
            data = self._decoder.decompress(piece, size)
        return data


@contextlib.contextmanager
def _opened(file: pathlib.Path) -> Iterator[BinaryIO]:
    """Open a tarball, whatever its compression."""
    with file.open("rb") as source:
        head = source.read(6)
        source.seek(0)
        if head.startswith(b"\x1f\x8b"):
            yield cast(BinaryIO, gzip.GzipFile(fileobj=source))
        elif head.startswith(b"BZh"):
            yield cast(BinaryIO, bz2.BZ2File(source))
        elif head == b"\xfd7zXZ\x00":
            yield cast(BinaryIO, _Xz(source))
        else:
            yield source


def _target(name: str, place: pathlib.Path) -> pathlib.Path | None:
    """Return the path to extract a member to; None to leave it out."""
    parts = [each for each in name.split("/") if each not in ("", ".")]
    if ".." in parts or "\0" in name or name.startswith("/"):
        return None
    if len(parts) > _MAX_PARTS or len(name) > _MAX_PATH - 256:
        return None
    if max(map(len, map(os.fsencode, parts)), default=0) > _MAX_PART:
        return None
    if parts and parts[-1] == SNAPSHOT:
        return place.joinpath(*parts)
    for first in range(min(_DEPTH, len(parts))):
        if "/".join(parts[first:]).startswith(_TAKEN):
            return place.joinpath(*parts)
    return None


def _write(target: pathlib.Path, data: bytes) -> None:
    # A name that is too long, or a directory's, loses only that file.
    with contextlib.suppress(FileExistsError, NotADirectoryError):
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, 0o600), "wb") as sink:
            sink.write(data)
