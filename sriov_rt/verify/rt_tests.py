# SPDX-License-Identifier: Apache-2.0

"""Checked reading of rt-tests' JSON."""

import dataclasses
from typing import Any

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.measurement import MAX_BUCKETS
from sriov_rt.verify.measurement import MAX_LATENCY_US
from sriov_rt.verify.measurement import MAX_SAMPLES

#: The longest file, in bytes: 1,024 CPUs with 400 buckets take 8 MB.
MAX_FILE = 64 * 1024 * 1024

#: The version of the format, and the keys of the program's version: rt-tests
#: 2.4 has a colon in its key.
_FORM = 1
_VERSIONS = ("rt_test_version:", "rt_test_version")


@dataclasses.dataclass(frozen=True, slots=True)
class Thread:
    """Values of one thread in a file.

    :param tool: the program's name, for errors.
    """

    tool: str
    number: int
    values: dict[str, Any]

    def integer(self, key: str) -> int:
        """Return a whole number."""
        found = self.values.get(key)
        if type(found) is not int or not 0 <= found <= MAX_SAMPLES:
            raise self._invalid(key)
        return found

    def real(self, key: str) -> float:
        """Return a number that need not be whole."""
        found = self.values.get(key)
        # The range check also refuses NaN.
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise self._invalid(key)
        if not 0 <= found <= MAX_SAMPLES:
            raise self._invalid(key)
        return float(found)

    def histogram(
        self, samples: int | None = None
    ) -> tuple[tuple[int, int], ...]:
        """Return pairs of a latency and its samples, ascending.

        :param samples: number of all samples; the buckets may not have more.
        """
        found = self.values.get("histogram", {})
        if type(found) is not dict or len(found) > MAX_BUCKETS:
            raise self._invalid("histogram")
        pairs = []
        for key, count in found.items():
            if not (key.isascii() and key.isdigit() and len(key) < 12):
                raise self._invalid("histogram")
            if type(count) is not int or not 0 <= count <= MAX_SAMPLES:
                raise self._invalid("histogram")
            if int(key) > MAX_LATENCY_US:
                raise self._invalid("histogram")
            pairs.append((int(key), count))
        if samples is not None and sum(c for _, c in pairs) > samples:
            raise self._invalid("histogram")
        return tuple(sorted(pairs))

    def _invalid(self, key: str) -> OutputInvalid:
        return OutputInvalid(self.tool, f"thread {self.number}: {key}")


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A whole file."""

    tool: str
    version: str
    found: dict[str, Any]

    def threads(self) -> list[tuple[int, Thread]]:
        """Return the threads by number; there is at least one."""
        listed = []
        for key, values in self.found.items():
            if not (key.isascii() and key.isdigit() and len(key) < 6):
                raise OutputInvalid(self.tool, "a thread without a number")
            if type(values) is not dict:
                raise OutputInvalid(self.tool, f"thread {key}")
            number = int(key)
            listed.append((number, Thread(self.tool, number, values)))
        if not listed:
            raise OutputInvalid(self.tool, "no thread in it")
        return sorted(listed, key=lambda pair: pair[0])


def load(tool: str, document: bytes) -> Document:
    """Return the values of a file.

    :param tool: the program that wrote it.
    :raises OutputInvalid: if it is not in the format of rt-tests 2.x.
    """
    try:
        found = documents.plain(document, MAX_FILE)
    except codec.SchemaError as error:
        raise OutputInvalid(tool, error.problem) from None
    if type(found) is not dict or found.get("file_version") != _FORM:
        raise OutputInvalid(tool, f"file_version {_FORM} expected")
    threads = found.get("thread")
    if type(threads) is not dict:
        raise OutputInvalid(tool, "no thread in it")
    version = next((found[key] for key in _VERSIONS if key in found), None)
    if type(version) is not str or len(version) > 64:
        raise OutputInvalid(tool, "no version in it")
    return Document(tool, version, threads)
