# SPDX-License-Identifier: Apache-2.0

"""Settings of a host, applied and undone while guests run.

Each setting is recorded before it is changed, and read back afterwards. The
settings of a rule are recorded together, for a host may have thousands. If
this program is killed in between, the entry has no result, and the next run
finds out whether the file has its old or its new text.
"""

import contextlib
import dataclasses
import enum
import functools
import hashlib
import itertools
import os
import pathlib
import re
import subprocess
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import TypeVar

from sriov_rt import files
from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.guest import state as guest_state
from sriov_rt.guest.claims import Claims
from sriov_rt.guest.claims import ClaimsUnusable
from sriov_rt.host import maintenance
from sriov_rt.host.container import sees_host_processes
from sriov_rt.host.root import MAX_TEXT
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.tuning import boot
from sriov_rt.tuning import records
from sriov_rt.tuning.records import ABSENT
from sriov_rt.tuning.records import Entry
from sriov_rt.tuning.records import Record
from sriov_rt.tuning.records import Records
from sriov_rt.tuning.records import State
from sriov_rt.tuning.settings import Kind
from sriov_rt.tuning.settings import Setting
from sriov_rt.tuning.settings import rule_of

T = TypeVar("T", Setting, Entry)

#: Names guests on the CPUs that a change disturbs, given how it does so.
InWay = Callable[[CpuSet, str], str]

#: The longest file that is changed, in bytes: the record has it twice, with
#: six bytes for each byte that is not ASCII.
MAX_FILE = 1024 * 1024

#: Extended attributes that are digests of a file's content.
_OF_CONTENT = frozenset({"security.evm", "security.ima"})

_OF_IRQ = r"/proc/irq/(\d+)/.*"

#: Seconds for a boot loader's program, which may look at all disks.
PROGRAM_S = 600.0

#: Directories of system programs, which may be missing in a shell of 'su'.
_SYSTEM = "/usr/sbin:/sbin"

#: Guests and programs in the way that a sentence names.
_NAMED = 3

#: Settings that are recorded and changed together, while no guest starts.
_BATCH = 256


class Result(enum.StrEnum):
    """Result for one setting.

    Planned is what a dry run finds. Waits is one that a guest is in the way
    of, changed one that somebody has changed since, refused one that the
    kernel or a program did not take, and interrupted one whose turn did not
    come before Ctrl-C.
    """

    PLANNED = "planned"
    DONE = "done"
    UNDONE = "undone"
    WAITS = "waits"
    CHANGED = "changed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"


#: The setting is not as it was to be.
LEFT = frozenset(
    {Result.WAITS, Result.CHANGED, Result.REFUSED, Result.INTERRUPTED}
)

#: Nothing was done to it.
_UNTOUCHED = frozenset({Result.WAITS, Result.INTERRUPTED})


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one setting.

    :param before: the old value, in one line.
    :param value: the planned value, in one line.
    :param why: what prevents the change, a clause.
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
        """When it takes effect."""
        return "now" if self.kind is Kind.KERNEL else "next boot"

    def line(self) -> str:
        """Return it as a line of text."""
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
        """Return it as a JSON object."""
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


class UndoneMeanwhile(Exception):
    """Another command has undone settings of the same plan.

    :param paths: theirs.
    """

    def __init__(self, paths: Collection[str]) -> None:
        self.paths = paths
        super().__init__(", ".join(paths))


class Host:
    """A host whose settings are written.

    :ivar locks: descriptors that child programs inherit, so that the settings
        stay locked while a child outlives this program.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self.locks: tuple[int, ...] = ()

    def write(self, path: str, text: str) -> None:
        """Write a file of the kernel, in one call.

        :raises OSError: if the kernel refuses it.
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
                pass_fds=self.locks,
                # Ctrl-C of a terminal is for who has started it.
                start_new_session=True,
                env={
                    **os.environ,
                    "LC_ALL": "C",
                    "PATH": f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM}",
                },
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(f"{command[0]}: {error}") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            last = lines[-1] if lines else f"exit code {done.returncode}"
            raise Refused(f"{command[0]}: {last}")


class Tuning:
    """Changes of a host's settings, and their record.

    :param cpus: the CPUs of guests; realtime programs on them are in the way
        just as guests are.
    :param report: called with each change before it begins.
    :param is_interrupted: tells whether no further change is to begin.
    """

    def __init__(
        self,
        host: Host,
        cpus: CpuSet,
        report: Callable[[str], object],
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._host = host
        self._root = host.root
        self._cpus = cpus
        self._report = report
        self._is_interrupted = is_interrupted
        self._records = Records(host.root)
        self._boot = maintenance.boot_of(host.root)
        # The record while it is locked, and its entries by their paths.
        self._saved = Record()
        self._entries: dict[str, Entry] = {}
        self._codes: tuple[str, ...] = ()
        self._undone_in = ""

    def apply(
        self,
        settings: Iterable[Setting],
        codes: Collection[str] = (),
        *,
        done: Collection[str] = (),
        dry: bool = False,
    ) -> Iterator[Outcome]:
        """Apply settings and yield the result for each.

        :param codes: of the Reasons that the next boot ends with them.
        :param done: settings that were applied before these, of one plan.
        :param dry: nothing is changed.
        :raises UndoneMeanwhile: if one of those was undone; then none of
            these is applied.
        :raises TuningRuns: if another program changes settings.
        :raises RecordDamaged: if the earlier values cannot be read.
        :raises OSError: if the record cannot be written.
        """
        with self._alone(dry):
            if undone := [x for x in done if x not in self._entries]:
                raise UndoneMeanwhile(undone)
            programs = self._programs()
            for batch in _batches(settings):
                if self._is_interrupted():
                    yield from map(_interrupted, map(self._outcome, batch))
                    continue
                earlier = dict(self._entries)
                if not dry:
                    self._begin(batch, codes)
                cpus = CpuSet().union(*(x.change for x in batch))
                with self._quiet(cpus, programs, dry=dry) as in_way:
                    found = [
                        self._result(
                            self._outcome(each),
                            in_way(each.change, each.why),
                            functools.partial(
                                self._set, each, earlier.get(each.path), dry
                            ),
                            dry=dry,
                        )
                        for each in batch
                    ]
                for outcome in found:
                    if outcome.result in _UNTOUCHED:
                        self._put(outcome.path, earlier.get(outcome.path))
                if not dry:
                    self._save()
                yield from found

    def undo(
        self,
        kinds: Collection[Kind],
        *,
        only: Collection[str] | None = None,
        force: bool = False,
        dry: bool = False,
    ) -> Iterator[Outcome]:
        """Undo settings and yield the result for each, the last one first.

        :param only: those that are undone; None for all.
        :param force: those that somebody has changed since, too.
        :raises TuningRuns: as :meth:`apply`.
        :raises RecordDamaged: as :meth:`apply`.
        :raises OSError: as :meth:`apply`.
        """
        with self._alone(dry):
            programs = self._programs()
            entries = self._live(self._records.read() if dry else self._saved)
            found = [
                each
                for each in entries[::-1]
                if each.kind in kinds and (only is None or each.path in only)
            ]
            # A boot loader's files are made once its configuration is back.
            found.sort(key=lambda each: each.kind is Kind.PROGRAM)
            for batch in _batches(found):
                if self._is_interrupted():
                    yield from map(_interrupted, map(self._undone, batch))
                    continue
                cpus = CpuSet().union(*(x.undo for x in batch))
                with self._quiet(cpus, programs, dry=dry) as in_way:
                    outcomes = [
                        self._result(
                            self._undone(each),
                            in_way(each.undo, each.why),
                            functools.partial(self._undo, each, force, dry),
                            dry=dry,
                        )
                        for each in batch
                    ]
                if not dry:
                    self._save()
                yield from outcomes

    def keep_reasons(self, codes: Collection[str]) -> None:
        """Drop Reasons from the record that no longer hold.

        :param codes: codes of the Reasons why the host is not ready now.
        :raises RecordDamaged: as :meth:`apply`.
        :raises OSError: as :meth:`apply`.
        """
        # A program that has the lock updates the record itself.
        with contextlib.suppress(records.TuningRuns), self._alone(dry=False):
            self._codes = tuple(x for x in self._codes if x in codes)
            self._save()

    @contextlib.contextmanager
    def _alone(self, dry: bool) -> Iterator[None]:
        if dry:
            yield
            return
        with self._records.locked() as lock:
            self._host.locks = (lock,)
            self._resume()
            yield

    def _result(
        self,
        outcome: Outcome,
        why: str,
        change: Callable[[], str],
        *,
        dry: bool,
    ) -> Outcome:
        """Return the result of a change.

        :param outcome: the outcome if the change succeeds.
        :param why: what is in its way, a clause.
        :param change: makes the change; returns why it left it alone.
        """
        if self._is_interrupted():
            return _interrupted(outcome)
        result = Result.PLANNED if dry else outcome.result
        try:
            if why:
                result = Result.WAITS
            else:
                if not dry:
                    self._report(f"{outcome.path}: {outcome.value}")
                why = change()
                result = Result.CHANGED if why else result
        except Refused as error:
            result, why = Result.REFUSED, str(error)
        return dataclasses.replace(outcome, result=result, why=why)

    # The record

    def _live(self, record: Record) -> tuple[Entry, ...]:
        """Return valid entries: a boot ends those of the running kernel."""
        return tuple(
            each
            for each in record.entries
            if each.kind is not Kind.KERNEL or each.boot == self._boot
        )

    def _resume(self) -> None:
        """Read the record and complete the entries of a killed run."""
        self._saved = record = self._records.read()
        self._entries = {}
        self._codes = record.codes
        self._undone_in = record.undone if record.undone == self._boot else ""
        for each in self._live(record):
            self._clear(each)
            with contextlib.suppress(Refused):
                if each.after is None:
                    found = self._states(each)
                    if self._as(found, each.before):
                        self._unmake(each)
                        continue
                    if each.kind is Kind.PROGRAM:
                        # What a killed program has changed is unknown.
                        each = dataclasses.replace(each, after={})
                    elif self._is_ours(each, found):
                        each = dataclasses.replace(each, after=found)
            self._entries[each.path] = each
        self._save()
        self._records.publish(self._saved)

    def _save(self) -> None:
        """Write the record if it has changed."""
        record = Record(
            tuple(self._entries.values()), self._codes, self._undone_in
        )
        if record != self._saved:
            self._records.write(record)
            self._saved = record

    def _put(self, path: str, entry: Entry | None) -> None:
        """Replace the entry of a setting; None removes it."""
        before = self._entries.pop(path, None)
        if entry is not None:
            self._entries[path] = entry
        elif before is not None and before.is_booted(self._boot):
            self._undone_in = self._boot

    # One setting

    def _begin(
        self, settings: Iterable[Setting], codes: Collection[str]
    ) -> None:
        """Record settings that are about to be changed."""
        for each in settings:
            # A setting that cannot be read is refused when it is applied.
            with contextlib.suppress(Refused):
                self._put(each.path, self._begun(each))
            if each.kind is not Kind.KERNEL:
                self._codes = tuple(sorted(codes))
        self._save()

    def _set(self, setting: Setting, earlier: Entry | None, dry: bool) -> str:
        """Change a setting.

        :param earlier: the setting's entry before this run.
        :raises Refused: if the change failed and the old value is back.
        """
        if dry:
            return ""
        entry = self._begun(setting)
        if self._entries.get(entry.path) != entry:
            self._put(entry.path, entry)
            self._save()
        now = self._states(entry)
        is_kernel = setting.kind is Kind.KERNEL
        try:
            if is_kernel:
                self._write(setting.path, f"{setting.value}\n")
            elif setting.kind is Kind.FILE:
                self._replace(setting, entry)
            else:
                self._host.run(setting.command)
            found = self._states(entry)
            if is_kernel and not self._is_value(entry, found):
                text = _line(found[entry.path].data)
                raise Refused(f"the kernel made {text} of it")
            _check_booted(setting, found)
        except Refused:
            # If this fails, the entry stays for a later undo.
            with contextlib.suppress(Refused):
                self._set_back(dataclasses.replace(entry, before=now))
                if earlier is None:
                    self._unmake(entry)
                self._put(entry.path, earlier)
            raise
        if setting.kind is Kind.FILE and not self._is_value(entry, found):
            raise Refused("somebody else has written it meanwhile")
        self._put(entry.path, dataclasses.replace(entry, after=found))
        return ""

    def _begun(self, setting: Setting) -> Entry:
        """Return the entry of a setting that is about to be changed.

        The entry keeps the value from before our first change, unless
        somebody has changed the setting since.

        :raises Refused: if the setting cannot be read.
        """
        entry = Entry(
            path=setting.path,
            kind=setting.kind,
            boot=self._boot,
            value=(
                _digest(setting.value.encode())
                if setting.kind is Kind.FILE
                else setting.value
            ),
            before={},
            undo=setting.undo,
            why=setting.why,
            command=setting.undo_command,
            made=tuple(self._missing(setting)),
            handlers=self._handlers(setting.path),
        )
        paths = setting.files or (setting.path,)
        now = {path: self._state(entry, path) for path in paths}
        each = self._entries.get(setting.path)
        if each is None:
            return dataclasses.replace(entry, before=now)
        first: Mapping[str, State] = {}
        if each.kind is Kind.PROGRAM:
            after = each.after or {}
            first = {
                path: state
                for path, state in each.before.items()
                if path in now
                and (not after or now[path] in (state, after.get(path)))
            }
        elif self._is_ours(each, now) and each.handlers == entry.handlers:
            first = each.before
        return dataclasses.replace(
            entry,
            before={**now, **first},
            # Our last change still holds until the new one is made.
            after=each.after if first else None,
            made=each.made or entry.made,
        )

    def _undo(self, entry: Entry, force: bool, dry: bool) -> str:
        """Undo a setting.

        :returns: why it was left alone, a clause; empty if it was undone.
        :raises Refused: if that fails.
        """
        found = self._states(entry)
        is_program = entry.kind is Kind.PROGRAM
        if not (is_program or force or self._is_ours(entry, found)):
            data = found[entry.path].data
            has = f"has {_line(data)}" if data else "is empty"
            has = "is gone" if found[entry.path] == ABSENT else has
            return f"it {has}, which is not ours; --force undoes it"
        if dry:
            return ""
        if is_program and (
            found not in (entry.before, entry.after) or self._came(entry)
        ):
            # A kernel that was installed since has an entry as well, so the
            # files are made again.
            self._host.run(entry.command)
        if not is_program or found == entry.after:
            self._set_back(entry)
            self._check_back(entry)
        if is_program and (came := self._came(entry)):
            raise Refused(
                f"{', '.join(came)} has the arguments still, of a kernel that "
                "was installed since; remove them there"
            )
        self._unmake(entry)
        self._put(entry.path, None)
        return ""

    def _came(self, entry: Entry) -> list[str]:
        """Return the entries with a program's arguments that it did not make.

        A kernel that is installed takes over the line of those before.
        """
        words = {*entry.value.split()}
        return [
            path
            for path in boot.entries_of(self._root)
            if path not in entry.before
            and words <= {*_decoded(self._state(entry, path)).split()}
        ]

    def _set_back(self, entry: Entry) -> None:
        """Restore the files of a setting."""
        found = self._states(entry)
        for path, state in entry.before.items():
            if found[path] == state:
                continue
            if entry.kind is not Kind.KERNEL:
                self._set_state(path, state)
            # An interrupt that was freed no longer has a file.
            elif found[path] != ABSENT:
                self._write(path, f"{_writable(state.data.decode())}\n")

    def _check_back(self, entry: Entry) -> None:
        """Check that the files of a setting have what they had.

        :raises Refused: if one has not.
        """
        found = self._states(entry)
        is_kernel = entry.kind is Kind.KERNEL
        for path, state in entry.before.items():
            texts = [x.data.decode("latin-1") for x in (found[path], state)]
            is_gone = found[path] == ABSENT
            if is_kernel:
                # An interrupt that was freed has no file any more.
                is_back = is_gone or rule_of(path).same(*map(_writable, texts))
            else:
                is_back = texts[0] == texts[1] and is_gone is (state == ABSENT)
            if not is_back:
                raise Refused(f"{path} has {_line(found[path].data)} still")

    # Files

    def _write(self, path: str, text: str) -> None:
        try:
            self._host.write(path, text)
        except OSError as error:
            raise Refused(f"the kernel refused it: {error.strerror}") from None

    def _replace(self, setting: Setting, entry: Entry) -> None:
        try:
            for each in entry.made:
                self._locate(each).mkdir(0o755, exist_ok=True)
        except OSError as error:
            raise Refused(f"{each}: {error.strerror}") from None
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
                attributes = _attributes(place)
                files.replace(place, state.data, state.mode, durable=True)
                if os.geteuid() == 0:
                    os.chown(place, state.user, state.group)
                for name, value in attributes.items():
                    os.setxattr(place, name, value)
            files.sync(place.parent)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror or error}") from None

    def _states(self, entry: Entry) -> dict[str, State]:
        """Return the current states of a setting's files.

        :raises Refused: if one is not a file, or cannot be read.
        """
        return {path: self._state(entry, path) for path in entry.before}

    def _state(self, entry: Entry, path: str) -> State:
        """Return the current state of a file.

        :raises Refused: if it is not a file, or cannot be read.
        """
        place = self._locate(path)
        if entry.handlers and entry.handlers != self._handlers(path):
            return ABSENT  # another interrupt has this number now
        try:
            if entry.kind is Kind.KERNEL:
                # procfs fails reads of more than some MiB at once.
                data = files.read(place, MAX_TEXT)
                return State(_pieces(data))
            data = files.read(place, MAX_FILE, private=True)
            if len(data) > MAX_FILE:
                raise Refused(f"{path} is longer than {MAX_FILE} bytes")
            return records.state(data, place.stat())
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            raise Refused(f"{path}: {error.strerror or error}") from None

    def _handlers(self, path: str) -> str:
        """Return the names of an interrupt's handlers; empty otherwise."""
        if (irq := re.fullmatch(_OF_IRQ, path)) is None:
            return ""
        found = self._root.read_text(f"sys/kernel/irq/{irq[1]}/actions")
        return "" if isinstance(found, Unknown) else found.strip()

    def _locate(self, path: str) -> pathlib.Path:
        return self._root.locate(path[1:], last_link=False)

    def _missing(self, setting: Setting) -> Iterator[str]:
        """Yield the directories that a file lacks, the deepest one last."""
        if setting.kind is Kind.FILE:
            for each in reversed(pathlib.PurePosixPath(setting.path).parents):
                if self._root.exists(str(each)[1:]) is False:
                    yield str(each)

    def _unmake(self, entry: Entry) -> None:
        """Remove directories that were made, if they are empty."""
        self._clear(entry)
        for each in reversed(entry.made):
            with contextlib.suppress(OSError):
                self._locate(each).rmdir()

    def _clear(self, entry: Entry) -> None:
        """Remove a new file that a killed run has left beside the old one."""
        if entry.kind is not Kind.KERNEL:
            for path in entry.before:
                place = self._locate(path)
                # A file system that is read-only refuses any name.
                with contextlib.suppress(OSError):
                    place.with_name(f".{place.name}.new").unlink()

    def _is_ours(self, entry: Entry, found: Mapping[str, State]) -> bool:
        """Return whether files are as before or after a change of ours."""
        return (
            self._as(found, entry.before)
            or self._as(found, entry.after or entry.before)
            or self._is_value(entry, found)
            or (entry.kind is Kind.KERNEL and found[entry.path] == ABSENT)
        )

    def _is_value(self, entry: Entry, found: Mapping[str, State]) -> bool:
        """Return whether a file has the text that was written to it."""
        data = found[entry.path].data
        if entry.kind is Kind.KERNEL:
            text = data.decode(errors="replace")
            return rule_of(entry.path).same(text, entry.value)
        return _digest(data) == entry.value

    def _as(
        self, found: Mapping[str, State], other: Mapping[str, State]
    ) -> bool:
        # Ignore the owner: a program that is killed between replacing a file
        # and chown() leaves a different one.
        return all(
            found[path].data == state.data
            and (found[path] == ABSENT) is (state == ABSENT)
            for path, state in other.items()
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
        self, cpus: CpuSet, programs: Mapping[str, CpuSet], *, dry: bool
    ) -> Iterator[InWay]:
        """Yield a function that names guests in the way; admit no new guest.

        :param cpus: the CPUs that the changes disturb.
        :param dry: lock nothing.
        """
        problem = ""
        guests: Mapping[str, CpuSet] = {}
        with contextlib.ExitStack() as stack:
            if cpus and not sees_host_processes(f"{self._root.path}/proc"):
                problem = (
                    "a container does not see the guests; run it on the host"
                )
            elif cpus:
                claims = Claims(self._root)
                try:
                    guests = (
                        claims.by_guest()
                        if dry
                        else stack.enter_context(claims.quiet())
                    )
                except (ClaimsUnusable, OSError) as error:
                    problem = f"which guests run is unknown ({error})"

            def in_way(cpus: CpuSet, how: str) -> str:
                if not cpus:
                    return ""
                return problem or _named(guests, programs, cpus, how)

            yield in_way

    # Results

    def _outcome(self, setting: Setting) -> Outcome:
        found = self._root.read_text(setting.path[1:], may_be_empty=True)
        is_kernel = setting.kind is Kind.KERNEL
        return Outcome(
            setting.path,
            setting.kind,
            _writable(found) if is_kernel and isinstance(found, str) else "",
            "" if setting.kind is Kind.FILE else setting.value,
            Result.DONE,
            lost=setting.lost,
        )

    def _undone(self, entry: Entry) -> Outcome:
        value = before = lost = ""
        if entry.kind is Kind.KERNEL:
            value, lost = entry.value, rule_of(entry.path).lost
            before = _writable(entry.before[entry.path].data.decode())
        return Outcome(
            entry.path, entry.kind, value, before, Result.UNDONE, lost=lost
        )


def _check_booted(setting: Setting, found: Mapping[str, State]) -> None:
    """Check that a program has brought the kernel's arguments to its files.

    :raises Refused: if one does not have them.
    """
    for path in setting.booted:
        words = {*_decoded(found[path]).split()}
        lacks = [x for x in setting.value.split() if x not in words]
        if lacks:
            raise Refused(
                f"{path} has no {' '.join(lacks)} afterwards: other files of "
                "the boot loader take precedence"
            )


def _interrupted(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, result=Result.INTERRUPTED)


def _batches(settings: Iterable[T]) -> Iterator[list[T]]:
    """Yield the settings of each kernel rule together, others singly."""
    for _, group in itertools.groupby(
        settings,
        lambda x: rule_of(x.path) if x.kind is Kind.KERNEL else x.path,
    ):
        found = list(group)
        for start in range(0, len(found), _BATCH):
            yield found[start : start + _BATCH]


def _attributes(place: pathlib.Path) -> Mapping[str, bytes]:
    """Return a file's extended attributes: SELinux's label, ACLs."""
    try:
        return {
            name: os.getxattr(place, name)
            for name in os.listxattr(place)
            if name not in _OF_CONTENT
        }
    except OSError:
        return {}  # there is no file, or its file system has none


def _pieces(data: bytes) -> tuple[str, ...]:
    return (data.decode("latin-1"),)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _decoded(state: State) -> str:
    return state.data.decode(errors="replace")


def _line(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return text if len(text) < 60 and "\n" not in text else "another text"


def _writable(text: str) -> str:
    """Return what to write to a file to restore a text read from it."""
    text = text.strip()
    chosen = [x for x in text.split() if x.startswith("[")]
    # cpuset.cpus.partition shows "invalid" for a refused partition.
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
