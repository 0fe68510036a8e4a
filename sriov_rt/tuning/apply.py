# SPDX-License-Identifier: Apache-2.0

"""Settings of a host, applied and undone while guests run.

Each setting is written down before it is changed, and read back. What ends
this program in between leaves an entry without a result: the next run finds
out which of the two texts is there.
"""

import contextlib
import dataclasses
import enum
import os
import pathlib
import subprocess
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt import files
from sriov_rt.facts import CpuSet
from sriov_rt.guest import state as guest_state
from sriov_rt.guest.claims import Claims
from sriov_rt.guest.claims import ClaimsUnusable
from sriov_rt.host.container import sees_host_processes
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.tuning import records
from sriov_rt.tuning.records import ABSENT
from sriov_rt.tuning.records import Entry
from sriov_rt.tuning.records import Record
from sriov_rt.tuning.records import Records
from sriov_rt.tuning.records import State
from sriov_rt.tuning.settings import Kind
from sriov_rt.tuning.settings import Setting
from sriov_rt.tuning.settings import rule_of

#: The longest file that is changed, in bytes.
MAX_FILE = 4 * 1024 * 1024

#: Seconds for a boot loader's program, which may look at all disks.
PROGRAM_S = 600.0

#: What is in the way that a sentence names.
_NAMED = 3


class Result(enum.StrEnum):
    """Result for one setting.

    Planned is what a dry run finds. Waits is one that a guest is in the way
    of, changed one that somebody has changed since, and refused one that the
    kernel or a program did not take.
    """

    PLANNED = "planned"
    DONE = "done"
    UNDONE = "undone"
    WAITS = "waits"
    CHANGED = "changed"
    REFUSED = "refused"


#: The setting is not as it was to be.
LEFT = frozenset({Result.WAITS, Result.CHANGED, Result.REFUSED})


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one setting.

    :param before: what it had, in one line.
    :param value: what it is to have, in one line.
    :param why: what keeps it from that, a clause.
    :param lost: what an undo does not bring back, a clause.
    """

    path: str
    kind: Kind
    before: str
    value: str
    result: Result
    why: str = ""
    lost: str = ""

    @property
    def when(self) -> str:
        """When it counts."""
        return "now" if self.kind is Kind.KERNEL else "next boot"

    def line(self) -> str:
        """Return it as text."""
        text = f"{self.result}: {self.path}"
        if self.kind is Kind.KERNEL:
            text += f": {self.before} -> {self.value}"
        elif self.result in (Result.PLANNED, Result.DONE):
            text += " (next boot)"
        if self.why:
            text += f": {self.why}"
        if self.lost:
            text += f"; cannot be undone: {self.lost}"
        return text

    def to_plain(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "setting": self.path,
            "when": self.when,
            "from": self.before,
            "to": self.value,
            "result": str(self.result),
            "why": self.why,
            "lost": self.lost,
        }


class Refused(Exception):
    """A setting was not taken.

    :param why: a clause.
    """


class Host:
    """A host whose settings are written."""

    def __init__(self, root: Root) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        """Write a file of the kernel, in one call.

        :raises OSError: as the kernel refuses it.
        """
        flags = os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(self.root.locate(path[1:]), flags)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def run(self, command: tuple[str, ...]) -> None:
        """Run a program of the host to its end.

        :raises Refused: if it fails.
        """
        inside = () if self.root.is_running() else ("chroot", ".")
        try:
            done = subprocess.run(
                (*inside, *command),
                cwd=self.root.path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROGRAM_S,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(f"{command[0]}: {error}") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            last = lines[-1] if lines else f"exit code {done.returncode}"
            raise Refused(f"{command[0]}: {last}")


class Tuning:
    """Changes of a host's settings, and their record.

    :param cpus: those of guests; realtime programs on them are in the way as
        guests are.
    :param report: is told of each change before it begins.
    """

    def __init__(
        self,
        host: Host,
        cpus: CpuSet,
        report: Callable[[str], object],
    ) -> None:
        self._host = host
        self._root = host.root
        self._cpus = cpus
        self._report = report
        self._records = Records(host.root)
        self._boot = records.boot_of(host.root)

    def plan(self, settings: Iterable[Setting]) -> Iterator[Outcome]:
        """Yield what applying settings would do."""
        programs = self._programs()
        for each in settings:
            with self._quiet(each.change, each.why, programs, dry=True) as why:
                result = Result.WAITS if why else Result.PLANNED
            yield self._outcome(each, result, why)

    def apply(
        self, settings: Iterable[Setting], codes: Collection[str] = ()
    ) -> Iterator[Outcome]:
        """Apply settings and yield the result for each.

        :param codes: of the Reasons that the next boot ends with them.
        :raises TuningRuns: if another program changes settings.
        :raises RecordDamaged: if what there was cannot be told any more.
        :raises OSError: if the record cannot be written.
        """
        with self._records.locked():
            self._resume()
            programs = self._programs()
            for each in settings:
                # Of what was there before.
                outcome = self._outcome(each, Result.DONE)
                self._report(f"setting {each.path}")
                try:
                    with self._quiet(each.change, each.why, programs) as why:
                        if not why:
                            self._apply(each, codes)
                except Refused as error:
                    yield self._with(outcome, Result.REFUSED, str(error))
                else:
                    result = Result.WAITS if why else Result.DONE
                    yield self._with(outcome, result, why)

    def undo(
        self,
        kinds: Collection[Kind],
        *,
        force: bool = False,
        dry: bool = False,
    ) -> Iterator[Outcome]:
        """Undo settings and yield the result for each, the last one first.

        :param force: those that somebody has changed since, too.
        :param dry: nothing is changed.
        :raises TuningRuns: as :meth:`apply`.
        :raises RecordDamaged: as :meth:`apply`.
        :raises OSError: as :meth:`apply`.
        """
        if dry:
            entries = self._live(self._records.read())
            programs = self._programs()
            for each in self._undone(entries, kinds):
                with self._quiet(
                    each.undo, each.why, programs, dry=True
                ) as why:
                    result = Result.WAITS if why else Result.PLANNED
                yield self._back(each, result, why)
            return
        with self._records.locked():
            self._resume()
            programs = self._programs()
            entries = self._records.read().entries
            for each in self._undone(entries, kinds):
                outcome = self._back(each, Result.UNDONE)
                self._report(f"undoing {each.path}")
                try:
                    with self._quiet(each.undo, each.why, programs) as why:
                        changed = "" if why else self._undo(each, force=force)
                except Refused as error:
                    yield self._with(outcome, Result.REFUSED, str(error))
                else:
                    if why:
                        yield self._with(outcome, Result.WAITS, why)
                    elif changed:
                        yield self._with(outcome, Result.CHANGED, changed)
                    else:
                        yield outcome

    def _undone(
        self, entries: Iterable[Entry], kinds: Collection[Kind]
    ) -> list[Entry]:
        """Return what is to be undone, in this order.

        A boot loader's files are made again once its configuration is back.
        """
        found = [x for x in entries if x.kind in kinds][::-1]
        return sorted(found, key=lambda each: each.kind is Kind.PROGRAM)

    # The record

    def _live(self, record: Record) -> tuple[Entry, ...]:
        """Return the entries that count: a boot ends those of the kernel."""
        return tuple(
            each
            for each in record.entries
            if each.kind is not Kind.KERNEL or each.boot == self._boot
        )

    def _resume(self) -> None:
        """Bring the record up to date after a run that was killed."""
        record = self._records.read()
        entries = []
        for each in self._live(record):
            self._clear(each)
            found = {path: self._state(each, path) for path in each.before}
            if each.after is not None:
                entries.append(each)
            elif self._as(each, found, each.before):
                self._unmake(each)
            elif each.kind is not Kind.PROGRAM and self._is_ours(each, found):
                entries.append(dataclasses.replace(each, after=found))
            else:
                entries.append(each)
        if tuple(entries) != record.entries:
            codes = record.codes if entries else ()
            self._records.write(Record(tuple(entries), codes))

    def _put(self, entry: Entry, codes: Collection[str] | None = None) -> None:
        record = self._records.read()
        entries = [x for x in record.entries if x.path != entry.path]
        self._records.write(
            Record(
                (*entries, entry),
                record.codes if codes is None else tuple(sorted(codes)),
            )
        )

    def _remove(self, entry: Entry) -> None:
        record = self._records.read()
        entries = [x for x in record.entries if x.path != entry.path]
        self._records.write(Record(tuple(entries), record.codes))

    # One setting

    def _apply(self, setting: Setting, codes: Collection[str]) -> None:
        kernel = setting.kind is Kind.KERNEL
        entry = self._begun(setting)
        self._put(entry, None if kernel else codes)
        try:
            if kernel:
                self._write(setting.path, f"{setting.value}\n")
            elif setting.kind is Kind.FILE:
                self._replace(setting, entry)
            else:
                self._host.run(setting.command)
        except Refused:
            self._put_back(entry)
            raise
        found = {path: self._state(entry, path) for path in entry.before}
        text = found[setting.path].data if kernel else b""
        if kernel and not self._same(setting.path, text, setting.value):
            self._put_back(entry)
            raise Refused(f"the kernel made {_line(text)} of it")
        self._put(dataclasses.replace(entry, after=found))

    def _begun(self, setting: Setting) -> Entry:
        """Return the entry of a setting that is about to be changed.

        What was there before the first change counts, unless somebody has
        changed it since.
        """
        paths = setting.files or (setting.path,)
        entry = Entry(
            path=setting.path,
            kind=setting.kind,
            boot=self._boot,
            value=setting.value,
            before={},
            undo=setting.undo,
            why=setting.why,
            command=setting.undo_command,
        )
        now = {path: self._state(entry, path) for path in paths}
        entry = dataclasses.replace(
            entry, before=now, made=tuple(self._missing(setting))
        )
        for each in self._live(self._records.read()):
            if each.path == setting.path and self._is_ours(each, now):
                return dataclasses.replace(
                    entry,
                    before={**now, **each.before},
                    made=each.made or entry.made,
                )
        return entry

    def _undo(self, entry: Entry, *, force: bool) -> str:
        """Undo a setting.

        :returns: why it was left alone, a clause; empty if it was undone.
        :raises Refused: if that fails.
        """
        found = {path: self._state(entry, path) for path in entry.before}
        # An interrupt that was freed has no file any more.
        is_gone = entry.kind is Kind.KERNEL and found[entry.path] == ABSENT
        if not is_gone and not self._as(entry, found, entry.before):
            if entry.kind is Kind.PROGRAM:
                self._undo_program(entry, found)
            elif force or self._is_ours(entry, found):
                self._set_back(entry)
            else:
                has = _line(found[entry.path].data)
                return f"it has {has}, which is not ours; --force undoes it"
        self._unmake(entry)
        self._remove(entry)
        return ""

    def _undo_program(self, entry: Entry, found: Mapping[str, State]) -> None:
        # A kernel that was installed since has an entry as well: then the
        # files are made again.
        if entry.after is not None and found == entry.after:
            for path, state in entry.before.items():
                self._set_state(path, state)
        else:
            self._host.run(entry.command)

    def _put_back(self, entry: Entry) -> None:
        """Undo a change that was refused, as far as it went."""
        found = {path: self._state(entry, path) for path in entry.before}
        if not self._as(entry, found, entry.before):
            if entry.kind is Kind.PROGRAM:
                for path, state in entry.before.items():
                    self._set_state(path, state)
            else:
                with contextlib.suppress(Refused):
                    self._set_back(entry)
        self._unmake(entry)
        self._remove(entry)

    def _set_back(self, entry: Entry) -> None:
        before = entry.before[entry.path]
        if entry.kind is Kind.KERNEL:
            self._write(entry.path, f"{_writable(before.data.decode())}\n")
        else:
            self._set_state(entry.path, before)

    # Files

    def _write(self, path: str, text: str) -> None:
        try:
            self._host.write(path, text)
        except OSError as error:
            raise Refused(f"the kernel refused it: {error.strerror}") from None

    def _replace(self, setting: Setting, entry: Entry) -> None:
        for each in entry.made:
            self._locate(each).mkdir(0o755, exist_ok=True)
        before = entry.before[setting.path]
        data = setting.value.encode()
        self._set_state(
            setting.path, dataclasses.replace(before, pieces=_pieces(data))
        )

    def _set_state(self, path: str, state: State) -> None:
        place = self._locate(path)
        try:
            if state.pieces is None:
                place.unlink(missing_ok=True)
            else:
                files.replace(place, state.data, state.mode, durable=True)
                if os.geteuid() == 0:
                    os.chown(place, state.user, state.group)
            records.sync(place.parent)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror or error}") from None

    def _state(self, entry: Entry, path: str) -> State:
        """Return a file as it is.

        :raises Refused: if it is none, or cannot be read.
        """
        place = self._locate(path)
        try:
            if entry.kind is Kind.KERNEL:
                data = files.read(place, MAX_FILE)
                return State(_pieces(data))
            data = files.read(place, MAX_FILE, private=True)
            if len(data) > MAX_FILE:
                raise Refused(f"{path} is longer than {MAX_FILE} bytes")
            return records.state(data, place.stat())
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            raise Refused(f"{path}: {error.strerror or error}") from None

    def _locate(self, path: str) -> pathlib.Path:
        return self._root.locate(path[1:], last_link=False)

    def _missing(self, setting: Setting) -> Iterator[str]:
        """Yield the directories that a file needs, the deepest one last."""
        if setting.kind is Kind.FILE:
            for each in reversed(pathlib.PurePosixPath(setting.path).parents):
                if self._root.exists(str(each)[1:]) is False:
                    yield str(each)

    def _unmake(self, entry: Entry) -> None:
        """Remove directories that were made, if nothing else is in them."""
        self._clear(entry)
        for each in reversed(entry.made):
            with contextlib.suppress(OSError):
                self._locate(each).rmdir()

    def _clear(self, entry: Entry) -> None:
        """Remove a new file that a killed run has left beside the old one."""
        if entry.kind is not Kind.KERNEL:
            for path in entry.before:
                place = self._locate(path)
                with contextlib.suppress(FileNotFoundError):
                    place.with_name(f".{place.name}.new").unlink()

    def _same(self, path: str, data: bytes, value: str) -> bool:
        return rule_of(path).same(data.decode(errors="replace"), value)

    def _is_ours(self, entry: Entry, found: Mapping[str, State]) -> bool:
        """Return whether files are as a change of ours left them."""
        if self._as(entry, found, entry.before):
            return True
        if entry.after is not None and self._as(entry, found, entry.after):
            return True
        if entry.kind is Kind.PROGRAM:
            # One that was killed has changed what it has changed.
            return entry.after is None
        now = found[entry.path]
        if entry.kind is Kind.KERNEL:
            return self._same(entry.path, now.data, entry.value)
        return now.pieces is not None and now.data == entry.value.encode()

    def _as(
        self,
        entry: Entry,
        found: Mapping[str, State],
        other: Mapping[str, State],
    ) -> bool:
        if entry.kind is not Kind.KERNEL:
            return {**found} == {**other}
        return all(
            found[path].data == state.data
            for path, state in other.items()
            if path in found
        )

    # Guests

    def _programs(self) -> Mapping[str, CpuSet]:
        """Return realtime programs on the CPUs of guests."""
        return {
            f"thread {each.thread} ({each.role})": each.cpus
            for each in guest_state.realtime_threads(self._root, self._cpus)
        }

    @contextlib.contextmanager
    def _quiet(
        self,
        cpus: CpuSet,
        how: str,
        programs: Mapping[str, CpuSet],
        *,
        dry: bool = False,
    ) -> Iterator[str]:
        """Yield what is in the way of a change, while no guest is admitted.

        :param how: the change disturbs the CPUs, a clause.
        :param dry: nothing is locked.
        """
        if not cpus:
            yield ""
            return
        if not sees_host_processes(f"{self._root.path}/proc"):
            yield "a container does not see the guests; run it on the host"
            return
        claims = Claims(self._root)
        with contextlib.ExitStack() as stack:
            try:
                guests = (
                    claims.by_guest()
                    if dry
                    else stack.enter_context(claims.quiet())
                )
            except (ClaimsUnusable, OSError) as error:
                why = f"which guests run is unknown ({error})"
            else:
                why = _named(guests, programs, cpus, how)
            yield why

    # Results

    def _outcome(
        self, setting: Setting, result: Result, why: str = ""
    ) -> Outcome:
        before = ""
        if setting.kind is Kind.KERNEL:
            found = self._root.read_text(setting.path[1:], may_be_empty=True)
            before = _writable(found) if isinstance(found, str) else ""
        return Outcome(
            setting.path,
            setting.kind,
            before,
            setting.value if setting.kind is not Kind.FILE else "",
            result,
            why,
            setting.lost,
        )

    def _back(self, entry: Entry, result: Result, why: str = "") -> Outcome:
        kernel = entry.kind is Kind.KERNEL
        before = entry.before.get(entry.path, ABSENT)
        return Outcome(
            entry.path,
            entry.kind,
            entry.value if kernel else "",
            _writable(before.data.decode()) if kernel else "",
            result,
            why,
            rule_of(entry.path).lost if kernel else "",
        )

    def _with(self, outcome: Outcome, result: Result, why: str) -> Outcome:
        return dataclasses.replace(outcome, result=result, why=why)


def _pieces(data: bytes) -> tuple[str, ...]:
    return (data.decode("latin-1"),)


def _line(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return text if len(text) < 60 and "\n" not in text else "another text"


def _writable(text: str) -> str:
    """Return what to write to a file so that it has a text again."""
    text = text.strip()
    chosen = [x for x in text.split() if x.startswith("[")]
    # As cpuset.cpus.partition says it of one that the kernel refuses.
    return chosen[0].strip("[]") if chosen else text.partition(" invalid")[0]


def _named(
    guests: Mapping[str, CpuSet],
    programs: Mapping[str, CpuSet],
    cpus: CpuSet,
    how: str,
) -> str:
    """Return who is in the way of a change, a clause; empty if nobody is."""
    taken = CpuSet().union(*guests.values())
    # A guest's own threads are realtime programs as well.
    others = {x: theirs for x, theirs in programs.items() if theirs - taken}
    found = {**guests, **others}
    names = [
        f"{name} on CPUs {format_cpu_list(theirs)}"
        for name, theirs in sorted(found.items())
        if theirs & cpus
    ]
    if not names:
        return ""
    more = "" if len(names) <= _NAMED else f" and {len(names) - _NAMED} more"
    return f"{how}: stop {', '.join(names[:_NAMED])}{more} first"
