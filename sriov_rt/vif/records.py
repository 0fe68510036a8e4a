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

"""Records of the ports of this host: whose each interface is.

The kernel tells what is; an alias, a name or a MAC can be set by root in the
container that has the interface. So whose it is stands in a file that only
the host's root can write, one a port, which ends with the boot as the
interfaces do.
"""

import contextlib
import dataclasses
import errno
import functools
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
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import State
from sriov_rt.vif.namespaces import Identity

LOG = logging.getLogger(__name__)

#: The directory of the records, in the journal's.
DIRECTORY = "records"

#: Raised by one when an older reader would misread a newer file.
SCHEMA_VERSION = 1

#: The longest file, in bytes: 64 addresses and 64 routes take 9 kB.
MAX_FILE = 32 * 1024

#: The most records that are read: VFs of 16 PFs with 256 functions each, as
#: many parents as a configuration may name, of four ports each.
MAX_RECORDS = 16384

#: Before the name of a file that is being written.
_TEMPORARY = "."

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One port that was plugged.

    :param boot: id of the boot that it is of.
    :param mode: of a macvlan, macvtap or ipvlan.
    :param interface: its name when it was plugged.
    :param namespace: where, as it was asked for; ``pid:N`` may have ended.
    :param space: which namespace that is; None for the host's.
    :param index: of the interface there.
    :param parent: name of what it sits on; of a whole VF, the name that it
        has on the host.
    :param parent_index: of what it sits on.
    :param vf: PCI address of the VF that it is or sits on.
    :param nic: interface of the PF, or the parent that is no VF.
    :param mac: as it was plugged.
    :param accelerated: whether its owner may run over Onload.
    :param asked: what was asked for.
    :param reason: why it is quarantined.
    """

    boot: str
    port: str
    owner: str
    kind: Kind
    mode: str | None
    interface: str
    namespace: str | None
    space: Identity | None
    index: int
    parent: str
    parent_index: int
    vf: str | None
    nic: str
    mac: str
    accelerated: bool
    asked: Plug
    state: State = State.PLUGGED
    reason: str = ""

    @property
    def network(self) -> str | None:
        """UUID of the network of one that is accelerated, else None."""
        return self.asked.network if self.accelerated else None

    @property
    def is_quarantined(self) -> bool:
        """Whether its interface was not seen to come back."""
        return self.state == State.QUARANTINED


@functools.cache
def boot_id() -> str:
    """Return the id of this boot; empty if the kernel has none."""
    try:
        return pathlib.Path(_BOOT_ID).read_text("ascii").strip()
    except OSError:
        return ""


class Records:
    """A directory with a file for each port.

    Who reads needs no lock: a file is replaced as a whole.

    :param directory: the journal's.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory / DIRECTORY

    def put(self, record: Record) -> None:
        """Write a record; it replaces one of the same port.

        :raises JournalFull: if there is no space; the one before stays.
        :raises JournalBroken: if it cannot be written otherwise.
        """
        plain = {"schema": SCHEMA_VERSION, **codec.to_plain(record)}
        data = json.dumps(plain, separators=(",", ":")).encode() + b"\n"
        temporary = self.directory / f"{_TEMPORARY}{record.port}"
        try:
            try:
                _write(temporary, data)
            except FileNotFoundError:
                lock.make(self.directory)
                _write(temporary, data)
            temporary.replace(self._path(record.port))
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            named = errors.JournalFull if full else errors.JournalBroken
            raise named(
                str(self.directory),
                port=record.port,
                detail=error.strerror or str(error),
            ) from error

    def remove(self, port: str) -> None:
        """Remove a record; one that is gone is removed.

        :raises JournalBroken: if it cannot be.
        """
        try:
            self._path(port).unlink(missing_ok=True)
        except OSError as error:
            raise self._broken(error, port) from error

    def get(self, port: str) -> Record | None:
        """Return the record of a port; None if there is none.

        :raises JournalBroken: if it cannot be read.
        """
        try:
            data = _read(self._path(port))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._broken(error, port) from error
        try:
            record = parse(data)
            if record.port != port:
                raise ParseError("record", record.port, "not of this file")
        except SriovRtError as error:
            raise errors.RecordBroken(
                str(self._path(port)), port=port, detail=str(error)
            ) from error
        if record.boot != boot_id():
            LOG.info(
                "%s: its record is of another boot (%s), which nothing is "
                "left of",
                log.about(port),
                record.boot,
            )
            return None
        return record

    def all(self) -> tuple[Record, ...]:
        """Return the records of this boot, sorted by their ports.

        :raises JournalBroken: if the directory cannot be read.
        :raises RecordBroken: for the first that is none.
        """
        try:
            found = os.listdir(self.directory)  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise self._broken(error, None) from error
        records = []
        for name in sorted(found)[:MAX_RECORDS]:
            if name.startswith(_TEMPORARY):
                continue
            try:
                validation.port(name)
            except ParseError:
                continue
            record = self.get(name)
            if record is not None:
                records.append(record)
        return tuple(records)

    def clean(self) -> None:
        """Remove what another boot has left, and files half-written.

        Nobody is at work on a port meanwhile.
        """
        with contextlib.suppress(OSError):
            for each in self.directory.iterdir():
                with contextlib.suppress(SriovRtError, OSError):
                    if not each.name.startswith(_TEMPORARY) and (
                        parse(_read(each)).boot == boot_id()
                    ):
                        continue
                    each.unlink()

    def _path(self, port: str) -> pathlib.Path:
        return self.directory / port

    def _broken(self, error: OSError, port: str | None) -> errors.VifError:
        return errors.JournalBroken(
            str(self.directory),
            port=port,
            detail=error.strerror or str(error),
        )


def parse(data: bytes) -> Record:
    """Return the record that the bytes of a file are.

    :raises SriovRtError: if they are none, with what is wrong.
    """
    found = documents.load(Record, data, MAX_FILE, SCHEMA_VERSION)
    validation.port(found.port)
    validation.owner(found.owner)
    validation.interface(found.interface)
    validation.interface(found.parent)
    validation.interface(found.nic)
    if found.namespace is not None:
        validation.namespace(found.namespace)
    if found.vf is not None:
        pci.PciAddress.parse(found.vf)
    if validation.checked(found.asked) != found.asked:
        raise ParseError("record", found.port, "not as it was requested")
    return found


def _write(path: pathlib.Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)


def _read(path: pathlib.Path) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        return file.read(MAX_FILE + 1)
