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

"""Journal of releases before the records had a state, which is read once.

It had a file for each port in progress, beside the directory of the records.
What an upgrade without a reboot finds there becomes a record in progress.
This module goes with the release after the next.
"""

import dataclasses
import enum
import logging
import os
from collections.abc import Iterator

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import files
from sriov_rt.exceptions import SriovRtError
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.parse import pci
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import lock
from sriov_rt.vif import log
from sriov_rt.vif import records
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Record
from sriov_rt.vif.records import Records

LOG = logging.getLogger(__name__)

#: Of its last version, and of the one without what tells whose it is.
SCHEMA_VERSION = 3
OLD_SCHEMA = 2

#: The longest file, in bytes; an entry takes half a kB, its steps 200 bytes.
MAX_FILE = 16 * 1024

#: Where what is no entry is put, in the journal's directory.
ASIDE = "set-aside"

#: The most files of one name that are kept there; the last is replaced.
MAX_ASIDE = 100

#: How a line begins that is an entry's.
_HEAD = b'{"schema":'


class Action(enum.StrEnum):
    """Action in progress: a plug is undone, an unplug is finished."""

    PLUG = "plug"
    UNPLUG = "unplug"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One port in progress; see :class:`sriov_rt.vif.records.Record`."""

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
    node: int = 0
    parent_node: int = 0


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
        namespaces.parse(entry.namespace)
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


def _is_unfinished(data: bytes) -> bool:
    """Return whether a file has the beginning of an entry, and no more.

    What begins as something else somebody else may miss.
    """
    begins = data[: len(_HEAD)] == _HEAD[: len(data)]
    return begins and b"\n" not in data and len(data) <= MAX_FILE


class OldJournal:
    """The files of a journal, beside the directory of the records.

    :param store: the records, which its entries become.
    """

    def __init__(self, store: Records) -> None:
        self.directory = store.journal
        self._records = store

    def ports(self) -> tuple[str, ...]:
        """Return the ports of which there is a file, sorted.

        Files that are none of the journal's are set aside, with a warning.

        :raises JournalBroken: if the directory cannot be read.
        """
        return tuple(self._ports())

    def _ports(self) -> Iterator[str]:
        try:
            found = sorted(os.listdir(self.directory))  # noqa: PTH208
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._error(error, None) from error
        for name in found:
            if name in (lock.FILE, ASIDE, records.DIRECTORY):
                continue
            if validation.is_port(name):
                yield name
            else:
                self._set_aside(name, "not the name of a port")

    def set_aside(self) -> tuple[str, ...]:
        """Return the names of the files that were moved to ASIDE, sorted."""
        try:
            found = os.listdir(self.directory / ASIDE)  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise self._error(error, None) from error
        return tuple(sorted(found))

    def take(self, port: str) -> None:
        """Make a record of the entry of a port, whose lock is held.

        What is damaged is kept, and quarantines a port without a record.

        :raises JournalBroken: or JournalFull, if it cannot be: the entry
            stays then.
        """
        path = self.directory / port
        try:
            data = files.read(path, MAX_FILE, private=True)
        except FileNotFoundError:
            return
        except files.Unusable as error:
            self._damaged(port, b"", error.strerror or str(error))
            return
        except OSError as error:
            raise self._error(error, port) from error
        if _is_unfinished(data):
            LOG.info("%s: its plug or unplug did not begin", log.about(port))
        else:
            try:
                entry = parse(data)
                if entry.port != port:
                    raise ParseError("entry", entry.port, "not of this file")
            except SriovRtError as error:
                self._damaged(port, data, str(error))
                return
            if entry.boot in ("", records.boot_id()):
                self._records.begin(_record(entry, self._records.get(port)))
            else:
                LOG.warning(
                    "%s: discarding a %s of another boot",
                    log.about(port),
                    entry.action,
                )
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise self._error(error, port) from error

    def _damaged(self, port: str, data: bytes, problem: str) -> None:
        """Set an entry aside; what it was about stays out of use."""
        if self._records.get(port) is None:
            problem = f"its journal entry ({problem})"
            self._records.keep(records.stand_in(port, data, problem))
        self._set_aside(port, problem)

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
                "cannot parse %r in the journal %s (%s), nor move it to %s"
                " (%s); move it yourself",
                name,
                self.directory,
                problem,
                place,
                error.strerror,
            )
            return
        LOG.warning(
            "cannot parse %r in the journal %s (%s); it is kept as %s. See"
            " 'sriov-rt vif show' for what was in progress",
            name,
            self.directory,
            problem,
            target,
        )

    def _error(self, error: OSError, port: str | None) -> errors.VifError:
        detail = error.strerror or str(error)
        return errors.JournalBroken(
            str(self.directory), port=port, detail=detail
        )


def _record(entry: Entry, there: Record | None) -> Record:
    """Return the record in progress that an entry becomes.

    :param there: the record of its port, if it has one.
    """
    whole = there is not None and not there.damaged
    if entry.action is Action.UNPLUG and there is not None and whole:
        return dataclasses.replace(there, state=State.UNPLUGGING)
    # Of a plug without an index nobody knows what it has made: it is looked
    # for as an unplug does.
    plug = entry.action is Action.PLUG and (
        bool(entry.index) or entry.kind == Kind.VF
    )
    return Record(
        boot=entry.boot or records.boot_id(),
        port=entry.port,
        owner=entry.owner,
        kind=entry.kind,
        mode=None,
        interface=entry.interface,
        namespace=entry.namespace,
        namespace_id=entry.space,
        index=entry.index,
        parent=entry.parent,
        parent_index=entry.parent_index,
        vf=entry.vf,
        nic=entry.parent,
        mac="",
        accelerated=False,
        request=validation.checked(
            Plug(
                port=entry.port,
                owner=entry.owner,
                kind=entry.kind,
                parent=entry.parent,
                namespace=entry.namespace,
            )
        ),
        state=State.PLUGGING if plug else State.UNPLUGGING,
        node=entry.node,
        parent_node=entry.parent_node,
        parent_up=entry.parent_up,
    )
