# SPDX-License-Identifier: Apache-2.0

"""A host in an archive: a sosreport, an unpacked one, or a must-gather.

An archive comes from elsewhere and may be hostile: what is taken out of it is
bounded, nothing is written outside of one directory, and its links lead
nowhere else. A file that it does not have says nothing of the host.
"""

import bz2
import contextlib
import dataclasses
import gzip
import io
import lzma
import os
import pathlib
import re
import tarfile
import tempfile
from collections.abc import Callable
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
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import MAX_TEXT
from sriov_rt.host.root import Root
from sriov_rt.reason import REMEDY
from sriov_rt.reason import Reason

#: Bytes of one file that are taken out, and of all; the longest that is read
#: is modules.dep. Members, and bytes, that an archive may have at all.
MAX_FILE = 16 * 1024 * 1024
MAX_TAKEN = 512 * 1024 * 1024
MAX_MEMBERS = 1_000_000
MAX_WHOLE = 32 * 1024**3

#: Bytes of a header that names a member.
_MAX_NAME = 1024 * 1024

#: The most hosts of a directory of archives, or of a must-gather.
MAX_HOSTS = 1000

#: What is taken out, below the archive's own directory.
_TAKEN = (
    *("etc/", "proc/", "sys/", "run/sriov-rt", "var/lib/sriov-rt"),
    *("lib/modules/", "usr/lib/os-release", "hostname"),
    *("sos_commands/kernel/", "sos_commands/memory/", "sos_commands/host/"),
    "sos_commands/sriov_rt/",
)

#: Its first directories where it has one of its own, or two.
_DEPTH = 3

_SUFFIXES = (".tar", ".tar.xz", ".tar.gz", ".tgz", ".tar.bz2")
_COMMANDS = "sos_commands"

#: The snapshot of a node in a must-gather of the node tuning operator.
SNAPSHOT = "sysinfo.tgz"


class ArchiveUnusable(exceptions.SriovRtError):
    """An archive that no host can be read from.

    :param path: as it was given.
    :param problem: a clause.
    """

    remedy = "give a sosreport, the directory of one, or a must-gather"

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}{REMEDY}{self.remedy}")


class Archive(Root):
    """The files of a host as an archive has them.

    What it does not have is unknown, unless a command's output in it says the
    same (``sos_commands``).

    :param name: of the archive, below what was given.
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
            # As stock sos has it, which runs beside init.
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
        """Return what a link says; see Root."""
        found = super().read_link(relative)
        return _missing(relative) if found is None else found

    def real_name(self, relative: str) -> str | None | Unknown:
        """Return the last part of a path; see Root."""
        found = super().real_name(relative)
        return _missing(relative) if found is None else found

    def exists(self, relative: str) -> bool | Unknown:
        """Return true, or that it is unknown."""
        if self._has(relative) or self._said(relative) is not None:
            return True
        if relative == kernel.REALTIME and self.exists(kernel.VERSION) is True:
            return False  # the version says it as well
        if relative == CONFIG or any(
            relative.startswith(f"{each}/") and self._has(each)
            for each in _WHOLE
        ):
            return False
        if relative.startswith(_OURS) and self._has(_PLUGIN):
            return False  # our plug-in takes it where it is
        return _missing(relative)

    def _has(self, relative: str) -> bool:
        return super().exists(relative) is not False

    def _said(self, relative: str) -> str | None:
        """Return a file as the output of a command has it."""
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


#: Directories of which sos takes everything, if it takes them.
_WHOLE = (
    "etc/nova",
    "etc/sriov_rt",
    "etc/tuned",
)

#: The output of our plug-in's commands, and what it takes if it runs.
_PLUGIN = f"{_COMMANDS}/sriov_rt"
_OURS = (
    "run/sriov-rt/",
    "var/lib/sriov-rt/",
    "var/lib/sriov-rt-verify/hold.json",
    "var/lib/sriov-rt-verify/latency-certificate.json",
)

#: Files that sos leaves out, and whose text a command's output has.
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
    """Return a Reason, of a missing file with the remedy to collect it."""
    if _MISSING not in found.message:
        return found
    remedy = (
        "look at that file on the host, or collect it by 'sos report -o "
        "sriov_rt,openstack_nova'"
    )
    return dataclasses.replace(
        found, message=f"{found.problem}{REMEDY}{remedy}", remedy=remedy
    )


@contextlib.contextmanager
def hosts(path: pathlib.Path) -> Iterator[list[Archive | ArchiveUnusable]]:
    """Give the hosts of an archive, or of a directory of archives.

    What was taken out of them is removed at the end. An archive of several
    that cannot be used is given as the error, by its name.

    :raises ArchiveUnusable: if there is no host.
    """
    with contextlib.ExitStack() as stack:

        def unpacked(file: pathlib.Path) -> pathlib.Path:
            place = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="sriov-rt-archive-")
            )
            _take_out(file, pathlib.Path(place))
            return pathlib.Path(place)

        if not path.is_dir():
            if not path.is_file():
                why = "not a regular file" if path.exists() else "no such file"
                raise ArchiveUnusable(str(path), why)
            place = unpacked(path)
        else:
            place = path
        found = list(_within(place, "", unpacked, _DEPTH))
        if not found:
            raise ArchiveUnusable(str(path), "no host in it")
        for each in found:
            if isinstance(each, Archive):
                each.name = each.name or path.absolute().name
        yield found


def _within(
    place: pathlib.Path,
    name: str,
    unpacked: Callable[[pathlib.Path], pathlib.Path],
    depth: int,
) -> Iterator[Archive | ArchiveUnusable]:
    """Yield the directories that are / of a host."""
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
            # An archive's own directory needs no mention.
            below = below if len(entries) > 1 else name
            yield from _within(each, below, unpacked, depth - 1)
        elif each.is_file() and each.name.endswith(_SUFFIXES):
            try:
                inside = unpacked(each)
            except ArchiveUnusable as error:
                yield ArchiveUnusable(below, error.problem)
                continue
            hosts_of = list(_within(inside, below, unpacked, 1))
            yield from hosts_of
            if not (hosts_of or name):
                yield ArchiveUnusable(below, "no host in it")


class _Member(tarfile.TarInfo):
    """A member whose name is bounded: it is read as a whole."""

    @classmethod
    def frombuf(
        cls, buf: bytes | bytearray, encoding: str, errors: str
    ) -> "_Member":
        """Return the member of a header."""
        found = super().frombuf(buf, encoding, errors)
        if found.size > _MAX_NAME and not found.isreg():
            raise tarfile.HeaderError("a header that is too long")
        return found


def _take_out(file: pathlib.Path, place: pathlib.Path) -> None:
    """Take a host's files out of a tarball.

    :raises ArchiveUnusable: if it is none, or too large.
    """
    links: list[tuple[pathlib.Path, str]] = []
    taken = whole = members = 0
    try:
        with (
            _opened(file) as stream,
            tarfile.open(
                fileobj=stream, mode="r|", tarinfo=_Member, errorlevel=0
            ) as tar,
        ):
            for each in iter(tar.next, None):
                members += 1
                whole += each.size
                if whole > MAX_WHOLE or members > MAX_MEMBERS:
                    raise ArchiveUnusable(str(file), "it is too large")
                # Not to keep all of them.
                tar.members = []  # type: ignore[attr-defined]
                target = _target(each.name, place)
                if target is None:
                    continue
                if each.issym():
                    links.append((target, each.linkname))
                elif each.isreg() and each.size <= MAX_FILE:
                    taken += each.size + 4096
                    if taken > MAX_TAKEN:
                        raise ArchiveUnusable(str(file), "it is too large")
                    source = tar.extractfile(each)
                    data = source.read(MAX_FILE) if source else b""
                    _write(target, data)
    except (tarfile.TarError, OSError, EOFError, lzma.LZMAError) as error:
        problem = exceptions.plain(error) or "not a tarball"
        raise ArchiveUnusable(str(file), problem) from None
    # Only now, so that nothing was written through one, and none below another
    # one. Root keeps who reads them inside.
    for target, link in links[:MAX_MEMBERS]:
        parents = (place / x for x in target.relative_to(place).parents)
        if any(each.is_symlink() for each in parents):
            continue
        with contextlib.suppress(OSError, ValueError):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(link)


def _opened(file: pathlib.Path) -> BinaryIO:
    """Open a tarball, whatever it is compressed by."""
    with file.open("rb") as source:
        head = source.read(6)
    if head.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, gzip.open(file))
    if head.startswith(b"BZh"):
        return cast(BinaryIO, bz2.open(file))
    if head == b"\xfd7zXZ\x00":
        return cast(BinaryIO, lzma.open(file))
    return file.open("rb")


def _target(name: str, place: pathlib.Path) -> pathlib.Path | None:
    """Return where a member goes; None for one that is left out."""
    parts = [each for each in name.split("/") if each not in ("", ".")]
    if ".." in parts or "\0" in name or name.startswith("/"):
        return None
    if parts and parts[-1] == SNAPSHOT:
        return place.joinpath(*parts)
    for first in range(min(_DEPTH, len(parts))):
        if "/".join(parts[first:]).startswith(_TAKEN):
            return place.joinpath(*parts)
    return None


def _write(target: pathlib.Path, data: bytes) -> None:
    with contextlib.suppress(FileExistsError, NotADirectoryError):
        target.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, 0o600), "wb") as sink:
            sink.write(data)
