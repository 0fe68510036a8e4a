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


"""Journal of port changes in progress, on disk before the host is changed."""

import dataclasses
import enum
import errno
import json
import logging
import os
import pathlib
import stat

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.exceptions import SriovRtError
from sriov_rt.parse import pci
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import lock
from sriov_rt.vif import log
from sriov_rt.vif import records
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.namespaces import Identity

#: Raised by one when an older reader would misread a newer file.
SCHEMA_VERSION = 3

#: Of the version before: without what tells whose an interface is.
OLD_SCHEMA = 2

#: The longest file, in bytes; an entry takes half a kB, its steps 200 bytes.
MAX_FILE = 16 * 1024


class Action(enum.StrEnum):
    """What is in progress: a plug is undone, an unplug is finished."""

    PLUG = "plug"
    UNPLUG = "unplug"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One port in progress: what it takes to undo or to finish it.

    :param interface: its name, in its namespace.
    :param parent: name of what it sits on; of a whole VF, its own on the
        host.
    :param vf: PCI address of the VF that it is or sits on.
    :param parent_up: whether the parent was up.
    :param boot: id of the boot that it is of; empty for one of a version
        before.
    :param space: which namespace the interface is in; None for the host's.
    :param index: the interface's, which a plug chooses before it makes it;
        0 if that is not known.
    :param parent_index: of what it sits on.
    """

    action: Action
    port: str
    owner: str
    kind: Kind
    interface: str
    namespace: str | None
    parent: str
    vf: str | None
    parent_up: bool
    boot: str = ""
    space: Identity | None = None
    index: int = 0
    parent_index: int = 0


#: How a line begins that is an entry's.
_HEAD = b'{"schema":'


def form(entry: Entry) -> bytes:
    """Return the line that an entry is in its file."""
    plain = {"schema": SCHEMA_VERSION, **codec.to_plain(entry)}
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def is_unfinished(data: bytes) -> bool:
    """Return whether a file has the beginning of an entry, and no more.

    What begins as something else somebody else may miss.
    """
    begins = data[: len(_HEAD)] == _HEAD[: len(data)]
    return begins and b"\n" not in data and len(data) <= MAX_FILE


def parse(data: bytes) -> Entry:
    """Return the entry that the bytes of a file are: the last of them.

    :raises SriovRtError: if they are none, with what is wrong.
    """
    if len(data) > MAX_FILE:
        raise codec.SchemaError("", f"longer than {MAX_FILE} bytes")
    # What follows the last end of a line was not wholly written.
    *lines, _ = data.split(b"\n")
    found = [each for each in lines if each.startswith(b"{")]
    if not found:
        raise codec.SchemaError("", "no entry")
    entry = _load(found[-1])
    validation.port(entry.port)
    validation.owner(entry.owner)
    validation.interface(entry.interface)
    validation.interface(entry.parent)
    if entry.namespace is not None:
        validation.namespace(entry.namespace)
    if entry.vf is not None:
        pci.PciAddress.parse(entry.vf)
    return entry


def _load(line: bytes) -> Entry:
    try:
        return documents.load(Entry, line, MAX_FILE, SCHEMA_VERSION)
    except codec.SchemaError:
        if not line.startswith(_HEAD + str(OLD_SCHEMA).encode() + b","):
            raise
    return documents.load(Entry, line, MAX_FILE, OLD_SCHEMA)


LOG = logging.getLogger(__name__)

#: Where what is no entry is put, in the journal's directory.
ASIDE = "set-aside"

#: The most files of one name that are kept there; the last is replaced.
MAX_ASIDE = 100

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: What is there by the name of a port is a directory, a link, a socket.
_NO_FILE = (errno.EISDIR, errno.ELOOP, errno.ENXIO)


class Journal:
    """A directory with a file for each port in progress.

    The first line of a file is its entry, each other one the name of a step
    that is about to be done, or the entry anew. The last entry says it all;
    the steps are for who reads the file. Nothing is made before the first
    entry, and nothing is done before its line is whole: a line without its
    end is of a writer that was stopped before.

    :param directory: on a file system of this host.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._place = str(directory)

    def begin(self, entry: Entry) -> None:
        """Write an entry, for the next process, however this one ends.

        It counts instead of one of the same port that is there.

        A power cut may take it along with all that there was to undo:
        links and the settings of VFs are in memories that it clears. So
        the disk, which takes longer than a plug, is not waited for.

        :raises JournalFull: if there is no space; nothing is left behind.
        :raises JournalBroken: if it cannot be written otherwise.
        """
        path, line = self._path(entry.port), form(entry)
        try:
            try:
                _append(path, line, os.O_CREAT)
            except FileNotFoundError:
                lock.make(self.directory)
                _append(path, line, os.O_CREAT)
        except OSError as error:
            raise self._error(error, entry.port) from error

    def step(self, port: str, name: str) -> None:
        """Note the step that is about to be done.

        A disk that is full by now changes nothing: the entry is there.
        """
        try:
            _append(self._path(port), f"{name}\n".encode())
        except OSError as error:
            LOG.warning(
                "%s: the journal does not take the step %s (%s)",
                log.about(port),
                name,
                error.strerror,
            )

    def end(self, port: str) -> None:
        """Remove an entry; one that is gone is removed.

        :raises JournalBroken: if it cannot be.
        """
        try:
            _remove(self._path(port))
        except OSError as error:
            raise self._error(error, port) from error

    def get(self, port: str) -> Entry | None:
        """Return an entry; None if there is none.

        What is no entry is set aside, with a warning; one without its end is
        removed: the caller has its port's lock, and so nobody writes it.

        :raises JournalBroken: if the directory cannot be read.
        """
        try:
            data = _read(self._path(port))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise self._error(error, port) from error
            self._set_aside(port, error.strerror or str(error))
            return None
        if is_unfinished(data):
            LOG.info("%s: its plug or unplug did not begin", log.about(port))
            self.end(port)
            return None
        try:
            entry = parse(data)
            if entry.port != port:
                raise ParseError("entry", entry.port, "not of this file")
        except SriovRtError as error:
            self._set_aside(port, str(error))
            return None
        if entry.boot not in ("", records.boot_id()):
            LOG.warning(
                "%s: its %s is of another boot, which nothing is left of",
                log.about(port),
                entry.action,
            )
            self.end(port)
            return None
        return entry

    def ports(self) -> tuple[str, ...]:
        """Return the ports of which there is a file, sorted.

        Files that are none of the journal's are set aside, with a warning.

        :raises JournalBroken: if the directory cannot be read.
        """
        try:
            found = sorted(os.listdir(self.directory))  # noqa: PTH208
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._error(error, None) from error
        ports: list[str] = []
        for name in found:
            try:
                ports.append(validation.port(name))
            except ParseError:
                if name not in (lock.FILE, ASIDE, records.DIRECTORY):
                    self._set_aside(name, "not the name of a port")
        return tuple(ports)

    def aside(self) -> tuple[str, ...]:
        """Return the names of the files that were moved to ASIDE, sorted."""
        try:
            found = os.listdir(self.directory / ASIDE)  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise self._error(error, None) from error
        return tuple(sorted(found))

    def _path(self, port: str) -> str:
        # Each plug asks some times, and pathlib takes as long as the kernel.
        return f"{self._place}/{port}"

    def _set_aside(self, name: str, problem: str) -> None:
        place = self.directory / ASIDE
        try:
            place.mkdir(0o700, exist_ok=True)
            target = next(
                each
                for number in range(MAX_ASIDE)
                if not os.path.lexists(
                    each := place / f"{name[:200]}.{number}"
                )
                or number == MAX_ASIDE - 1
            )
            (self.directory / name).replace(target)
        except OSError as error:
            LOG.warning(
                "%s in the journal %s is of no use (%s) and cannot be moved"
                " to %s (%s); move it yourself",
                repr(name),
                self.directory,
                problem,
                place,
                error.strerror,
            )
            return
        LOG.warning(
            "%s in the journal %s is of no use (%s); it is kept as %s, and"
            " what was in progress has to be looked at: 'sriov-rt vif show'",
            repr(name),
            self.directory,
            problem,
            target,
        )

    def _error(self, error: OSError, port: str | None) -> errors.VifError:
        named: type[errors.VifError] = errors.JournalBroken
        if error.errno in _FULL:
            named = errors.JournalFull
        detail = error.strerror or str(error)
        return named(str(self.directory), port=port, detail=detail)


def _append(path: str, data: bytes, flags: int = 0) -> None:
    """Add a line to a file, all of it or nothing."""
    descriptor = os.open(path, _APPEND | flags, 0o600)
    written = 0
    try:
        # A disk that is nearly full takes a part.
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        before = os.fstat(descriptor).st_size - written
        if before:
            os.ftruncate(descriptor, before)
        else:
            _remove(path)
        raise
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:
        return


def _read(path: str) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        return file.read(MAX_FILE + 1)
