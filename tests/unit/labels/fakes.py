# SPDX-License-Identifier: Apache-2.0

"""A clock and a label source that tests steer."""

from collections.abc import Mapping

from sriov_rt.labels.label_source import Answer


class Clock:
    """A monotonic clock, and the wall clock beside it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.offset = 1_790_000_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.offset


class Source:
    """Answers what it was told to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.answer = Answer(None)
        self.known: Mapping[str, str] | None = None
        self.stopped = False

    def start(self, known: Mapping[str, str]) -> None:
        self.known = known

    def stop(self) -> None:
        self.stopped = True

    def read(self) -> Answer:
        return self.answer

    def says(self, **labels: str) -> None:
        """Answer with labels of the test's own prefix, confirmed now."""
        found = {f"x.example/{key}": value for key, value in labels.items()}
        self.answer = Answer(found, self._clock.now)

    def fails(self, problem: str) -> None:
        last = self.answer
        self.answer = Answer(last.labels, last.confirmed, problem)
