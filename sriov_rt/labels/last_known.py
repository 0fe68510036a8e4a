# SPDX-License-Identifier: Apache-2.0

"""Last known labels of each source, and how long they are used."""

import dataclasses
import logging
import math
import pathlib
import re
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.facts import LabelFacts
from sriov_rt.labels import merge
from sriov_rt.labels import store
from sriov_rt.labels.label_source import Answer
from sriov_rt.labels.label_source import LabelSource

LOG = logging.getLogger(__name__)

#: The most labels of one source. A Node of a large cluster has 200.
MAX_LABELS = 4096

#: How often the labels' ages are written to disk within the stale limit.
SAVES_A_LIMIT = 4


@dataclasses.dataclass(slots=True)
class _Known:
    """The last answer with labels of a source, and its present problem."""

    labels: Mapping[str, str]
    confirmed: float
    problem: str | None = None
    given: object = None
    stale: bool = False


class LastKnown:
    """Merge the kernel's labels with those of the sources.

    Only one thread at a time may use it, except for :meth:`write`.

    :param sources: name to source, in order of precedence.
    :param stale_after_s: seconds after which an answer is stale.
    :param ignored: a pattern of keys to leave out; None for none.
    :param path: path of the store; None to store nothing.
    :param origin: origin of the stored labels.
    :param monotonic: the clock of answers, seconds.
    :param wall: Unix time, seconds.
    """

    def __init__(
        self,
        sources: Mapping[str, LabelSource],
        stale_after_s: float,
        ignored: re.Pattern[str] | None,
        path: pathlib.Path | None,
        origin: store.Origin,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sources = sources
        self._stale_after_s = stale_after_s
        self._ignored = ignored
        self._path = path
        self._origin = origin
        self._monotonic = monotonic
        self._wall = wall
        self._known = {name: _Known({}, -math.inf) for name in sources}
        self._contradictions: frozenset[merge.Contradiction] = frozenset()
        self._contradicted: dict[str, int] = {}
        self._saved_at = -math.inf
        self._unsaved = False
        self._save_problem = ""

    def recall(self) -> None:
        """Load the labels known before a restart."""
        record = None if self._path is None else store.load(self._path)
        if record is None or record.origin.host != self._origin.host:
            return
        for name, known in record.ages(self._origin, self._wall()):
            if name in self._known:
                confirmed = self._monotonic() - known.age_s
                self._known[name] = _Known(known.labels, confirmed)
        self._contradicted = dict(record.contradicted)

    def start(self) -> None:
        """Start the sources."""
        for name, source in self._sources.items():
            source.start(self._known[name].labels)

    def stop(self) -> None:
        """Stop the sources."""
        for source in self._sources.values():
            source.stop()

    def apply(self, kernel: LabelFacts) -> LabelFacts:
        """Return the merged labels.

        :param kernel: the labels from the kernel.
        """
        now = self._monotonic()
        changed = [
            self._take(name, source.read())
            for name, source in self._sources.items()
        ]
        for name, known in self._known.items():
            self._judge(name, known, now)
        merged = merge.merge(kernel, self._readings())
        self._unsaved |= self._note(merged.contradictions) or any(changed)
        return merged.labels

    def due(self) -> store.Record | None:
        """Return the record if it has to be saved."""
        age_s = self._monotonic() - self._saved_at
        if self._unsaved or age_s > self._stale_after_s / SAVES_A_LIMIT:
            return self.record()
        return None

    def record(self) -> store.Record | None:
        """Return the record to write; None if nothing is stored."""
        now = self._monotonic()
        self._saved_at = now
        self._unsaved = False
        if self._path is None:
            return None
        known = {
            name: store.Known(
                each.labels,
                self._wall() - (now - each.confirmed)
                if each.confirmed > -math.inf
                else store.NEVER,
                each.problem,
            )
            for name, each in self._known.items()
        }
        return store.Record(
            self._origin, self._stale_after_s, known, dict(self._contradicted)
        )

    def write(self, record: store.Record | None) -> None:
        """Write a record; one thread at a time, even during other methods."""
        if self._path is None or record is None:
            return
        try:
            store.save(self._path, record)
        except OSError as error:
            if str(error) != self._save_problem:
                LOG.warning(
                    "cannot store the labels (%s); %s",
                    exceptions.plain(error),
                    files.remedy(
                        error,
                        f"make {self._path.parent} a directory that "
                        "sriov-rt-agent's user may write in",
                    ),
                )
            self._save_problem = str(error)
        else:
            self._save_problem = ""

    def _readings(self) -> Iterable[merge.Reading]:
        return [
            merge.Reading(name, known.labels, known.stale)
            for name, known in self._known.items()
        ]

    def _take(self, name: str, answer: Answer) -> bool:
        """Record an answer; return whether it differs from the last one."""
        known = self._known[name]
        problem = answer.problem
        changed = False
        if answer.labels is not None and answer.confirmed >= known.confirmed:
            if len(answer.labels) > MAX_LABELS:
                problem = f"more than {MAX_LABELS} labels; remove some"
            else:
                changed = self._accept(known, answer)
        if problem != known.problem:
            known.problem = problem
            changed = True
            if problem is None:
                LOG.info("label source %s answers again", name)
            else:
                LOG.warning("label source %s: %s", name, problem)
        return changed

    def _accept(self, known: _Known, answer: Answer) -> bool:
        known.confirmed = answer.confirmed
        if known.given is answer.labels:
            return False
        labels = answer.labels or {}
        known.given = answer.labels
        if self._ignored is not None:
            skip = self._ignored.fullmatch
            labels = {k: v for k, v in labels.items() if not skip(k)}
        changed = labels != known.labels
        known.labels = labels
        return changed

    def _judge(self, name: str, known: _Known, now: float) -> None:
        stale = now - known.confirmed > self._stale_after_s
        if stale and not known.stale and known.confirmed > -math.inf:
            LOG.warning(
                "no answer from label source %s for %d s: its labels "
                "are stale",
                name,
                now - known.confirmed,
            )
        known.stale = stale

    def _note(self, found: tuple[merge.Contradiction, ...]) -> bool:
        """Count and log new contradictions; return whether there are any."""
        new = frozenset(found) - self._contradictions
        self._contradictions = frozenset(found)
        for each in sorted(new, key=lambda each: each.label):
            count = self._contradicted.get(each.label, 0) + 1
            self._contradicted[each.label] = count
            LOG.warning(
                "label %s is '%s' from source %s, but %s from the "
                "kernel, which takes precedence (seen %d times)",
                each.label,
                each.value,
                each.source,
                "absent" if each.kernel is None else f"'{each.kernel}'",
                count,
            )
        return bool(new)
