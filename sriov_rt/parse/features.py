# SPDX-License-Identifier: Apache-2.0

"""Feature files of Node Feature Discovery's local source.

Grammar and meaning are those of NFD 0.18 (source/local/local.go): lines of
``key=value`` or ``key`` (which means ``key=true``), and comments, some of
which control the lines below them::

    # +expiry-time=2030-01-31T12:00:00Z   the lines below expire then
    # +no-label                           the next line makes no label
    # +no-feature                         the next line makes no raw feature
"""

import dataclasses
import datetime
import re
from collections.abc import Mapping

from sriov_rt.parse import errors
from sriov_rt.parse import label

#: The longest file, in bytes: MaxFeatureFileSize of NFD.
MAX_FILE = 65536

#: Prefix that NFD adds to each key without one.
PREFIX = "feature.node.kubernetes.io"

#: The prefixes below kubernetes.io in which NFD may set labels (its
#: pkg/apis/nfd/v1alpha1): these, and prefixes that end with them.
_ALLOWED = (PREFIX, "profile.node.kubernetes.io")

_FILE = "feature file"
_TIME = "time"
_DIRECTIVE = "# +"

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(?:[.,][0-9]{1,9})?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Features:
    """Labels of a feature file.

    :param labels: full key to value, from the lines that make labels now.
    :param problems: which lines were ignored and why, a clause each.
    :param expires_at: Unix time in seconds at which the first of the labels
        expires; None if none does.
    """

    labels: Mapping[str, str]
    problems: tuple[str, ...]
    expires_at: float | None


def parse_features(text: str, now: float) -> Features:
    """Return the labels of a feature file at a time; bad lines are ignored.

    :param now: Unix time in seconds.
    :raises ParseError: only for a text longer than :data:`MAX_FILE`, in
        bytes of UTF-8.
    """
    if len(text) > MAX_FILE or len(text.encode(errors="replace")) > MAX_FILE:
        raise errors.ParseError(_FILE, text, f"longer than {MAX_FILE} bytes")
    reader = _Reader(now)
    # NFD splits only at \n, and trims each line.
    for number, line in enumerate(text.split("\n"), 1):
        reader.take(number, line.strip())
    return Features(
        {key: value for key, (value, _) in reader.labels.items()},
        tuple(reader.problems),
        min(
            (at for _, at in reader.labels.values() if at is not None),
            default=None,
        ),
    )


def parse_time(text: str) -> float:
    """Return the Unix time, in seconds, of an RFC 3339 time.

    Fractions of a second are cut off.

    :param text: such as ``2030-01-31T12:00:00Z``.
    :raises ParseError: for anything else.
    """
    errors.check_length(_TIME, text, 64)
    found = _RFC3339.fullmatch(text)
    if found is None or not text.isascii():
        raise errors.ParseError(_TIME, text, "YYYY-MM-DDTHH:MM:SSZ expected")
    sign, hours, minutes = found.groups()
    offset_s = int(hours or 0) * 3600 + int(minutes or 0) * 60
    try:
        at = datetime.datetime.fromisoformat(f"{text[:19]}Z")
    except ValueError as error:
        raise errors.ParseError(_TIME, text, str(error)) from None
    return at.timestamp() - (-offset_s if sign == "-" else offset_s)


def full_key(key: str) -> str:
    """Return a label's key, with NFD's prefix if it has none."""
    return key if "/" in key else f"{PREFIX}/{key}"


def why_not_label(key: str, value: str) -> str | None:
    """Return why NFD makes no label of a full key and a value."""
    problem = label.why_not_key(key) or label.why_not_value(value)
    if problem:
        return problem
    namespace = key.rpartition("/")[0]
    if namespace != "kubernetes.io" and not namespace.endswith(
        ".kubernetes.io"
    ):
        return None
    if any(
        namespace == each or namespace.endswith(f".{each}")
        for each in _ALLOWED
    ):
        return None
    return f"NFD sets no labels in {namespace}"


class _Reader:
    """State of the reader between lines."""

    def __init__(self, now: float) -> None:
        self.labels: dict[str, tuple[str, float | None]] = {}
        self.problems: list[str] = []
        self._now = now
        self._expires_at: float | None = None
        self._no_label = False

    def take(self, number: int, line: str) -> None:
        if not line:
            return
        problem = (
            self._comment(line) if line.startswith("#") else self._line(line)
        )
        if problem:
            self.problems.append(f"line {number}: {problem}")

    def _comment(self, line: str) -> str | None:
        if not line.startswith(_DIRECTIVE):
            return None
        name, equals, value = line[len(_DIRECTIVE) :].partition("=")
        if name == "no-label":
            self._no_label = True
        elif name == "expiry-time" and equals:
            try:
                self._expires_at = parse_time(value.strip())
            except errors.ParseError as error:
                return str(error)
        elif name != "no-feature":
            return "unknown directive"
        return None

    def _line(self, line: str) -> str | None:
        if self._expires_at is not None and self._expires_at < self._now:
            return None
        name, equals, value = line.partition("=")
        hidden, self._no_label = self._no_label, False
        key = full_key(name)
        if hidden:
            self.labels.pop(key, None)
            return None
        value = value if equals else "true"
        problem = why_not_label(key, value)
        if problem is None:
            self.labels[key] = (value, self._expires_at)
        return problem
