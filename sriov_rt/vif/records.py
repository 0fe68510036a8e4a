# SPDX-License-Identifier: Apache-2.0

"""Records of ports: a file for each, written before each act and after it.

The kernel shows what exists, but root in the container that has an interface
can set its alias, name or MAC. So its owner is in a file that only the host's
root can write, which ends with the boot as the interfaces do. Its state says
what is in progress, so that the next process can undo a plug or finish an
unplug, however this one ends.
"""

import contextlib
import dataclasses
import errno
import functools
import logging
import os
import pathlib
import shutil
import time
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import files
from sriov_rt.exceptions import SriovRtError
from sriov_rt.host import container
from sriov_rt.kernel import namespaces
from sriov_rt.parse import pci
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import salvage
from sriov_rt.vif import validation
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State

LOG = logging.getLogger(__name__)

#: Directory of the files, below that of ``[vif] records``.
DIRECTORY = "records"

#: Increased by one when an older reader would misread a newer file.
SCHEMA_VERSION = 2

#: The longest file, in bytes: 64 addresses and 64 routes take 9 kB, and a
#: record that it replaces takes as much again.
MAX_FILE = 32 * 1024

#: How a file that :func:`form` made begins; its first line is the record. The
#: steps after it are for human readers.
_HEAD = f'{{"schema":{SCHEMA_VERSION},'.encode()

#: Identity and age of a file; see :func:`_stamp`.
Stamp = tuple[int, ...]

#: For how long after a change a file is not cached, in nanoseconds.
FRESH_NS = 50_000_000

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: The most records that are read: VFs of 16 PFs with 256 functions each, the
#: most parents that a configuration may name, with four ports each.
MAX_RECORDS = 16384

#: Prefix of a file that files.replace is writing.
_TEMPORARY = "."

#: Length of a port's name, a UUID, in characters.
_PORT_LENGTH = 36

#: Locks a port; raises Busy if another has it.
LockPort = Callable[[str], AbstractContextManager[object]]

#: Separates port and number in the name of a port's damaged file.
DAMAGED = ".damaged."

#: The most damaged files that are kept.
MAX_DAMAGED = 100

#: The kernel's limit of an interface's index and of MTUs, INT_MAX.
_MAX_INDEX = 2**31 - 1

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@functools.cache
def boot_id() -> str:
    """Return the id of this boot; empty if the kernel has none."""
    try:
        return pathlib.Path(_BOOT_ID).read_text("ascii").strip()
    except OSError:
        return ""


class Records:
    """A directory with a file for each port.

    Readers need no lock: a file is replaced as a whole.

    :param directory: the directory of ``[vif] records``.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory / DIRECTORY
        self._place = str(self.directory)
        # Parsed records by port, valid while their file is unchanged.
        self._known: dict[str, tuple[Stamp, Record]] = {}
        self.damaged = DamagedFiles(self)

    def begin(self, record: Record) -> None:
        """Write down that a port is being plugged or unplugged.

        The next process finds it, however this one ends. A power cut may
        destroy it together with everything to undo: it clears links and the
        settings of VFs, too. So nothing waits for the disk, which takes longer
        than a plug.

        :param record: the new record; a plug's keeps the quarantined record
            that it replaces.
        :raises RecordsFull: if there is no space; the old record stays.
        :raises RecordsBroken: if it cannot be written for another reason.
        """
        if record.state is State.PLUGGING:
            there = self.get(record.port)
            if there is not None and there.is_quarantined:
                before = form(there).decode()
                record = dataclasses.replace(record, before=before)
        self._write(record)

    def step(self, port: str, name: str) -> None:
        """Note the step that comes next.

        A full disk does no harm here: the record is written.
        """
        try:
            _append(f"{self._place}/{port}", f"{name}\n".encode())
        except OSError as error:
            LOG.warning(
                "%s: the record does not take the step %s (%s)",
                log.about(port),
                name,
                error.strerror,
            )

    def put(self, record: Record) -> None:
        """Write a record; it replaces the one of the same port.

        :raises RecordsFull: if there is no space; the old record stays.
        :raises RecordsBroken: if it cannot be written for another reason.
        """
        self._write(record)

    def end(self, port: str) -> None:
        """Remove the record of a port; it is no error if there is none.

        The record that a plug in progress has replaced is restored.

        :raises RecordsBroken: if it cannot be removed.
        """
        record = self._read(port)
        before = _existing(record)
        if before is not None and before is not record:
            self._write(before)
            return
        try:
            self.path(port).unlink(missing_ok=True)
        except OSError as error:
            raise self.broken(error, port) from error

    def _write(self, record: Record) -> None:
        _refuse_if_not_kept(self.directory, record.port)
        path, data = self.path(record.port), form(record)
        try:
            try:
                files.replace(path, data)
            except FileNotFoundError:
                files.make_directory(self.directory.parent, 0o700)
                files.make_directory(self.directory, 0o700)
                files.replace(path, data)
        except OSError as error:
            raise self.broken(error, record.port) from error

    def get(self, port: str) -> Record | None:
        """Return the record of a port; None if there is none.

        A port whose plug is in progress has none yet. A damaged record is
        replaced by a quarantined one that stands for it.

        :raises RecordsBroken: if the directory cannot be used.
        """
        record = self._read(port)
        return _existing(record)

    def in_progress(self, port: str) -> Record | None:
        """Return the record of a port that is being plugged or unplugged.

        :raises RecordsBroken: if the directory cannot be used.
        """
        record = self._read(port)
        if record is None or not record.is_in_progress:
            return None
        return record

    def ports(self) -> tuple[str, ...]:
        """Return the ports that are being plugged or unplugged, sorted.

        :raises RecordsBroken: if the directory cannot be used.
        """
        return tuple(each.port for each in self._all() if each.is_in_progress)

    def names(self) -> Sequence[str]:
        """Return the names of all files, sorted.

        :raises RecordsBroken: if the directory cannot be used.
        """
        if not self._is_there(None):
            return ()
        try:
            return sorted(os.listdir(self.directory))  # noqa: PTH208
        except OSError as error:
            raise self.broken(error, None) from error

    def _read(self, port: str) -> Record | None:
        return self._load(port) if self._is_there(port) else None

    def all(self) -> tuple[Record, ...]:
        """Return the records of this boot, sorted by their ports.

        :raises RecordsBroken: if the directory cannot be used.
        """
        found = [_existing(each) for each in self._all()]
        return tuple(each for each in found if each is not None)

    def every(self) -> tuple[Record, ...]:
        """Return all records, with those of ports that are being plugged.

        For callers that are about to take a VF: the record of a killed plug is
        needed to undo it.

        :raises RecordsBroken: if the directory cannot be used.
        """
        return tuple(self._all())

    def _all(self) -> Sequence[Record]:
        ports = [each for each in self.names() if validation.is_port(each)]
        found = [self._load(each) for each in ports[:MAX_RECORDS]]
        for port in self._known.keys() - set(ports):
            self._known.pop(port, None)
        return [each for each in found if each is not None]

    def clean(self, lock_port: LockPort) -> None:
        """Remove what another boot has left, and half-written files.

        :param lock_port: keeps others from writing the record of a port; a
            port that is busy is left alone.
        """
        with contextlib.suppress(OSError):
            for each in self.directory.iterdir():
                port = each.name[len(_TEMPORARY) :][:_PORT_LENGTH]
                if not each.name.startswith(_TEMPORARY):
                    port = each.name
                if not validation.is_port(port):
                    continue
                with (
                    contextlib.suppress(SriovRtError, OSError),
                    lock_port(port),
                ):
                    _clean(each)

    def _is_there(self, port: str | None) -> bool:
        """Return whether the directory exists, and only root can write it.

        :raises RecordsBroken: if others can, or it is not a directory.
        """
        _refuse_if_not_kept(self.directory, port)
        try:
            files.check_directory(self.directory.parent.resolve())
            files.check_directory(self.directory)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self.broken(error, port) from error
        return True

    def _load(self, port: str) -> Record | None:
        """Return the record in a file, or one that stands for it.

        None for a record of another boot. An unchanged file is not read again.

        :raises RecordsBroken: if a file that may be a record cannot be read.
        """
        stamp = _stamp(f"{self._place}/{port}")
        known = self._known.get(port)
        if known is not None and known[0] == stamp:
            return known[1]
        record = self._parsed(port)
        if record is None or record.damaged or not _is_old(stamp):
            self._known.pop(port, None)
        else:
            self._known[port] = stamp, record
        return record

    def _parsed(self, port: str) -> Record | None:
        data = b""
        try:
            data = files.read(self.path(port), MAX_FILE, private=True)
            record = parse(data)
            if record.port != port:
                raise ParseError("record", record.port, "not of this file")
        except FileNotFoundError:
            return None
        except files.Unusable as error:
            problem = error.strerror or str(error)
        except OSError as error:
            raise self.broken(error, port) from error
        except SriovRtError as error:
            problem = str(error)
        else:
            if not _is_of_another_boot(record):
                return record
            LOG.info(
                "%s: ignoring a record of another boot (%s)",
                log.about(port),
                record.boot,
            )
            return None
        problem = f"its record ({problem})"
        return salvage.record(boot_id(), port, data, problem)

    def path(self, port: str) -> pathlib.Path:
        """Return where the record of a port is."""
        return self.directory / port

    def broken(self, error: OSError, port: str | None) -> errors.VifError:
        """Return what an error with the directory means to the operator."""
        return broken(self.directory, error, port)


def broken(
    directory: pathlib.Path, error: OSError, port: str | None
) -> errors.VifError:
    """Return what an error with a directory means to the operator."""
    full = error.errno in _FULL
    named = errors.RecordsFull if full else errors.RecordsBroken
    detail = error.strerror or str(error)
    return named(str(directory), port=port, detail=detail)


class DamagedFiles:
    """Damaged files of records, kept under names that say so.

    :param records: the intact files of the same directory.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def names(self) -> tuple[str, ...]:
        """Return the names of the kept files, sorted.

        :raises RecordsBroken: if the directory cannot be used.
        """
        return tuple(each for each in self._records.names() if DAMAGED in each)

    def discard(self, port: str) -> bool:
        """Remove the damaged files of a port; False if there are none.

        :raises RecordsBroken: if the directory cannot be used.
        """
        found = [
            each for each in self.names() if each.startswith(port + DAMAGED)
        ]
        for each in found:
            path = self._records.directory / each
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise self._records.broken(error, port) from error
        return bool(found)

    def is_set_aside(self, port: str) -> bool:
        """Return whether a valid record of a port has replaced its file."""
        with contextlib.suppress(SriovRtError, OSError):
            data = files.read(self._records.path(port), MAX_FILE, private=True)
            return parse(data).port == port
        return False

    def set_aside(self, record: Record) -> None:
        """Keep a damaged file under a name that says so.

        The caller has locked its port.

        :param record: record that stands for the file, and replaces it.
        :raises RecordsFull: or RecordsBroken, if that fails: then the file
            stays as it is.
        """
        path = self._records.path(record.port)
        kept = self._kept(record.port)
        try:
            if path.is_dir() and not path.is_symlink():
                path.rename(kept)
            else:
                # Not renamed: a crash before the next step would leave the
                # port without any record.
                os.link(path, kept, follow_symlinks=False)
        except PermissionError:
            # The file is another user's (fs.protected_hardlinks).
            with contextlib.suppress(OSError):
                path.rename(kept)
        except OSError as error:
            raise self._records.broken(error, record.port) from error
        try:
            self._records.put(
                dataclasses.replace(
                    record, reason=f"{record.reason}; kept as {kept.name}"
                )
            )
        except errors.VifError:
            with contextlib.suppress(OSError):
                kept.unlink()
            raise
        LOG.error(
            "%s: %s was damaged and is kept as %s; %s; %s",
            log.about(record.port, record.vf),
            path,
            kept.name,
            _out_of_use(record),
            errors.RecordDamaged.advise(record.port),
        )

    def _kept(self, port: str) -> pathlib.Path:
        """Return a path for a damaged file; delete the oldest of too many."""
        there = [self._records.directory / each for each in self.names()]
        too_many = max(0, len(there) - MAX_DAMAGED + 1)
        for each in sorted(there, key=_age)[:too_many]:
            with contextlib.suppress(OSError):
                each.unlink()
        number = 0
        while os.path.lexists(
            path := self._records.directory / f"{port}{DAMAGED}{number}"
        ):
            number += 1
        return path


def _refuse_if_not_kept(directory: pathlib.Path, port: str | None) -> None:
    """Refuse a directory that ends with this container.

    A port outlives the container of the service that plugged it; and without
    the records its VF looks free.

    :raises RecordsNotKept: for such a directory.
    """
    if container.ends_with_container(directory):
        raise errors.RecordsNotKept(str(directory), port=port)


def form(record: Record) -> bytes:
    """Return the line that represents a record in its file."""
    return documents.dump(record, SCHEMA_VERSION) + b"\n"


def _existing(record: Record | None) -> Record | None:
    """Return the record for readers: during a plug, the one before."""
    if record is None or record.state is not State.PLUGGING:
        return record
    return parse(record.before.encode()) if record.before else None


def parse(data: bytes) -> Record:
    """Return the record in the bytes of a file.

    :raises SriovRtError: if they are no record, with the reason.
    """
    found = _load(data)
    validation.port(found.port)
    validation.owner(found.owner)
    validation.interface(found.interface)
    for name in (found.parent, found.nic):
        if name or not found.damaged:
            validation.interface(name)
    for index in (found.index, found.parent_index):
        if not 0 <= index <= _MAX_INDEX:
            raise ParseError("index", str(index)[:20], "no interface has it")
    if found.namespace is not None:
        namespaces.parse(found.namespace)
    if found.vf is not None:
        pci.PciAddress.parse(found.vf)
    if (
        not found.damaged
        and validation.checked(found.request) != found.request
    ):
        raise ParseError("record", found.port, "not as it was requested")
    if found.before:
        _check_before(found)
    return found


def _load(data: bytes) -> Record:
    if len(data) > MAX_FILE:
        raise codec.SchemaError("", f"longer than {MAX_FILE} bytes")
    if data.startswith(_HEAD):
        data, _, _ = data.partition(b"\n")
        return documents.load(Record, data, MAX_FILE, SCHEMA_VERSION)
    return documents.load(Record, data, MAX_FILE, SCHEMA_VERSION)


def _check_before(record: Record) -> None:
    """Check that a plug replaces a quarantined record of its own port.

    :raises SriovRtError: if it does not.
    """
    found = _load(record.before.encode())
    if found.before or found.port != record.port or not found.is_quarantined:
        raise ParseError("record", record.port, "replaces another")
    parse(record.before.encode())


def _append(path: str, data: bytes) -> None:
    """Append a line to a file, as a whole or not at all."""
    descriptor = os.open(path, _APPEND)
    written = 0
    try:
        # A disk that is nearly full accepts only a part.
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise
    finally:
        os.close(descriptor)


def _clean(path: pathlib.Path) -> None:
    if not path.name.startswith(_TEMPORARY):
        record = parse(files.read(path, MAX_FILE))
        if not _is_of_another_boot(record):
            return
        _discarded(record)
    path.unlink()


def _is_of_another_boot(record: Record) -> bool:
    """Return whether a record is of another boot, if both are known.

    Its directory ends with the boot in any case.
    """
    now = boot_id()
    return bool(now and record.boot) and record.boot != now


def _discarded(record: Record) -> None:
    if record.is_in_progress:
        act = "plug" if record.state is State.PLUGGING else "unplug"
        LOG.warning(
            "%s: discarding a %s of another boot",
            log.about(record.port, record.vf),
            act,
        )


def _stamp(path: str) -> Stamp:
    """Return the identity and the age of a file; empty if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return (
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_mode,
        found.st_uid,
    )


def _is_old(stamp: Stamp) -> bool:
    """Return whether the next change to a file will change its stamp.

    The kernel's clock for files has ticks of up to 10 ms.
    """
    return bool(stamp) and time.time_ns() - stamp[3] > FRESH_NS


def _age(path: pathlib.Path) -> float:
    try:
        return path.lstat().st_ctime
    except OSError:
        return 0.0


def _out_of_use(record: Record) -> str:
    """Return what a damaged record keeps out of use, as a clause."""
    if record.vf is not None:
        return f"the VF {record.vf} stays out of use"
    if record.parent:
        return f"its parent {record.parent} stays out of use"
    return "which VF or parent it has is unknown"
