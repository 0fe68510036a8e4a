# SPDX-License-Identifier: Apache-2.0

"""The logs of the cloud: what a test found in them, and what it shows."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Log:
    """A log file from some point on.

    :param path: the file.
    :param offset: bytes before that point.
    """

    path: pathlib.Path
    offset: int

    @classmethod
    def from_now(cls, path: pathlib.Path) -> "Log":
        """Return what will be written from now on.

        :param path: the file, which need not exist yet.
        """
        return cls(path, path.stat().st_size if path.exists() else 0)

    @property
    def text(self) -> str:
        """All that was written since."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            return stream.read().decode(errors="replace")

    def lines(self, *words: str) -> list[str]:
        """Return the lines since that have some words.

        :param words: all of them must be in the line.
        """
        return [
            line
            for line in self.text.splitlines()
            if all(word in line for word in words)
        ]

    def end(self, lines: int) -> str:
        """Return the last lines, under the name of the file.

        :param lines: how many at most.
        """
        last = "\n".join(self.text.splitlines()[-lines:])
        return f"--- {self.path} since the test began:\n{last}"


class NotingResult:
    """A test result that notes something on what failed.

    :param result: whose place it takes.
    :param note: returns the note.
    :param why_again: returns why the test is no failure and is run again; an
        empty text if it isn't.
    """

    def __init__(
        self,
        result: Any,
        note: Callable[[], str],
        why_again: Callable[[], str],
    ) -> None:
        self._result = result
        self._note = note
        self._why_again = why_again

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)

    def addError(self, test: Any, error: Any) -> None:
        """Pass an error on, with the note on it."""
        self._add(self._result.addError, test, error)

    def addFailure(self, test: Any, error: Any) -> None:
        """Pass a failure on, with the note on it."""
        self._add(self._result.addFailure, test, error)

    def _add(
        self, add: Callable[[Any, Any], None], test: Any, error: Any
    ) -> None:
        if why := self._why_again():
            self._result.addSkip(test, why)
            return
        error[1].add_note(self._note())
        add(test, error)
