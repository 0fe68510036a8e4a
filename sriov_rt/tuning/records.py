# SPDX-License-Identifier: Apache-2.0

"""Record of a host's earlier settings, written before each change."""

import contextlib
import dataclasses
import os
import pathlib
import stat
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.facts import CpuSet
from sriov_rt.host import maintenance
from sriov_rt.host.maintenance import BootOwed
from sriov_rt.host.root import Root
from sriov_rt.tuning.settings import Kind

#: The record of changed settings; only root may read it.
PLACE = "var/lib/sriov-rt-tuning"

_FILE = "record.json"
_LOCK = ".lock"
SCHEMA_VERSION = 1

#: The longest record, in bytes; it includes the boot loader's files.
_MAX_RECORD = 16 * 1024 * 1024
_PIECE = 32 * 1024


class TuningRuns(exceptions.SriovRtError):
    """Another program changes the settings of this host."""

    def __init__(self) -> None:
        super().__init__(
            "another 'sriov-rt host apply' runs on this host; wait until it "
            "has ended"
        )


class RecordDamaged(exceptions.SriovRtError):
    """The record cannot be read.

    :param problem: a clause.
    """

    def __init__(self, path: pathlib.Path, problem: str) -> None:
        super().__init__(
            f"{path} is damaged ({problem}), so nothing can be undone; undo "
            "with the release of sriov-rt that wrote it, or remove it once "
            "you have set back by hand what it names"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """Earlier state of a file.

    :param pieces: its bytes as Latin-1, in strings short enough for a
        document; None if there was no file.
    """

    pieces: tuple[str, ...] | None
    mode: int = 0o644
    user: int = 0
    group: int = 0

    @property
    def data(self) -> bytes:
        """Its bytes; empty if there was no file."""
        return "".join(self.pieces or ()).encode("latin-1")


ABSENT = State(None)


def state(data: bytes, status: os.stat_result) -> State:
    """Return the state of an existing file."""
    text = data.decode("latin-1")
    pieces = tuple(
        text[start : start + _PIECE] for start in range(0, len(text), _PIECE)
    )
    mode = stat.S_IMODE(status.st_mode)
    return State(pieces, mode, status.st_uid, status.st_gid)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A setting that was changed, or is being changed.

    :param boot: the kernel's boot id at the time of the change.
    :param value: the text written; for a file its SHA-256, since the text
        may be too long for a document; for a program the kernel arguments.
    :param before: states of the files before the change, by path.
    :param after: states after the change; None until they are read back,
        and empty for a program that was killed.
    :param made: directories that were made for it, the deepest one last.
    :param undo: the CPUs that undoing it disturbs.
    :param why: how it disturbs them, a clause.
    :param command: for a program, the command that makes its files again.
    :param handlers: for an interrupt, its handlers: numbers are reused.
    """

    path: str
    kind: Kind
    boot: str
    value: str
    before: Mapping[str, State]
    after: Mapping[str, State] | None = None
    made: tuple[str, ...] = ()
    undo: CpuSet = dataclasses.field(default_factory=CpuSet)
    why: str = ""
    command: tuple[str, ...] = ()
    handlers: str = ""

    def is_owed(self, boot: str) -> bool:
        """Return whether it takes effect only after a reboot."""
        is_done = self.after is not None
        return self.kind is not Kind.KERNEL and self.boot == boot and is_done

    def is_booted(self, boot: str) -> bool:
        """Return whether this boot was started with the setting."""
        return self.kind is not Kind.KERNEL and self.boot != boot


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """The record of a host.

    :param entries: in the order in which they were written.
    :param codes: codes of the Reasons that the next boot resolves.
    :param undone: id of the boot in which its own boot settings were undone.
    """

    entries: tuple[Entry, ...] = ()
    codes: tuple[str, ...] = ()
    undone: str = ""

    def owed(self, boot: str) -> BootOwed | None:
        """Return the reboot that is needed; None if none is.

        :param boot: id of the running boot.
        """
        kinds = {each.kind for each in self.entries if each.is_owed(boot)}
        if Kind.PROGRAM in kinds:
            return BootOwed(boot, "kernel command line", self.codes)
        if kinds and self.codes:
            return BootOwed(boot, "host apply", self.codes)
        if boot and self.undone == boot:
            return BootOwed(boot, "host apply --undo")
        return None


class Records:
    """The record of a host, on its disk."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._directory = root.path / PLACE
        self._path = self._directory / _FILE

    def read(self) -> Record:
        """Return the record.

        :raises RecordDamaged: if the file is not a record.
        :raises OSError: if it cannot be read.
        """
        try:
            data = files.read(self._path, _MAX_RECORD, private=True)
            return documents.load(Record, data, _MAX_RECORD, SCHEMA_VERSION)
        except FileNotFoundError:
            return Record()
        except (codec.SchemaError, files.Unusable) as error:
            raise RecordDamaged(self._path, str(error)) from None

    def write(self, record: Record) -> None:
        """Replace the record; it is on the disk afterwards."""
        if record.entries or record.undone:
            data = documents.dump(record, SCHEMA_VERSION)
            files.replace(self._path, data, durable=True)
        else:
            self._path.unlink(missing_ok=True)
        self.publish(record)

    def publish(self, record: Record) -> None:
        """Publish the needed reboot for users who cannot read the record."""
        path = self._root.path / maintenance.BOOT_OWED
        found = record.owed(maintenance.boot_of(self._root))
        if found is None:
            path.unlink(missing_ok=True)
            return
        files.make_directory(path.parent)
        data = documents.dump(found, maintenance.SCHEMA_VERSION)
        files.replace(path, data, 0o644)

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the settings against other programs; yield the lock.

        :raises TuningRuns: if another program has the lock.
        :raises OSError: if the directory is not root's alone.
        """
        files.make_directory(self._directory, 0o700)
        files.check_directory(self._directory)
        with contextlib.ExitStack() as stack:
            try:
                lock = stack.enter_context(
                    files.locked(self._directory / _LOCK)
                )
            except BlockingIOError:
                raise TuningRuns from None
            yield lock


def was_killed(root: Root) -> bool:
    """Return whether a run was killed in the middle of a change."""
    found = Records(root)
    try:
        if all(x.after is not None for x in found.read().entries):
            return False
        with found.locked():
            return True
    except (OSError, RecordDamaged, TuningRuns):
        return False
