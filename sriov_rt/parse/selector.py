# SPDX-License-Identifier: Apache-2.0

"""Kubernetes label selectors: their grammar and their matches.

Grammar and meaning are those of k8s.io/apimachinery, pkg/labels/selector.go,
with one exception: a NUL, at which its lexer stops reading, is refused.
"""

import dataclasses
import enum
import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.parse import errors
from sriov_rt.parse import label
from sriov_rt.parse import numbers

#: The longest value of a flavor's extra spec, in characters.
MAX_TEXT = 255

_SELECTOR = "label selector"
_BLANKS = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})


class Operator(enum.StrEnum):
    """How a requirement compares a label with its values."""

    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = ">"
    LESS_THAN = "<"


_OPERATORS: Mapping[str, Operator] = {
    "=": Operator.EQUALS,
    "==": Operator.EQUALS,
    "!=": Operator.NOT_EQUALS,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_SETS = frozenset({Operator.IN, Operator.NOT_IN})
_NEGATED = frozenset(
    {Operator.NOT_EQUALS, Operator.NOT_IN, Operator.DOES_NOT_EXIST}
)
_SIGNS: Mapping[Operator, int] = {
    Operator.GREATER_THAN: 1,
    Operator.LESS_THAN: -1,
}


def _derived(default: Any) -> Any:
    return dataclasses.field(
        default=default, init=False, repr=False, compare=False
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the label of one key.

    :param values: one for ``=``, ``!=``, ``>`` and ``<``, none for EXISTS
        and DOES_NOT_EXIST, one or more for ``in`` and ``notin``.
    """

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    # Derived, to make matches() fast. A sign of 0 means no comparison.
    _negated: bool = _derived(False)
    _sign: int = _derived(0)
    _bound: int = _derived(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_negated", self.operator in _NEGATED)
        sign = _SIGNS.get(self.operator, 0)
        if sign:
            (bound,) = self.values
            object.__setattr__(self, "_sign", sign)
            object.__setattr__(self, "_bound", sign * int(bound))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the label of this key satisfies the requirement.

        A missing label satisfies only ``!=``, ``notin`` and ``!``. For ``>``
        and ``<`` the label has to be an integer.
        """
        value = labels.get(self.key)
        if value is None:
            return self._negated
        if self._sign:
            number = label.integer(value)
            return number is not None and self._sign * number > self._bound
        any_value = not self.values
        return (any_value or value in self.values) is not self._negated

    def __str__(self) -> str:
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        values = ",".join(sorted(self.values))
        if self.operator in _SETS:
            return f"{self.key} {self.operator} ({values})"
        return f"{self.key}{self.operator}{values}"


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that all have to match, sorted by key."""

    requirements: tuple[Requirement, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels is selected."""
        for requirement in self.requirements:
            if not requirement.matches(labels):
                return False
        return True

    def __str__(self) -> str:
        return ",".join(str(each) for each in self.requirements)


def parse_selector(
    text: str, *, default_prefix: str | None = None, limit: int = MAX_TEXT
) -> Selector:
    """Return a text as a selector with full keys.

    :param text: such as ``a=b, c notin (d, e), !f, g>5``.
    :param default_prefix: the prefix for keys that are written without one.
    :param limit: the longest accepted text, in characters.
    :raises ParseError: with the position, if the text is not a selector.
    """
    errors.check_length(_SELECTOR, text, limit)
    parser = _Parser(text, default_prefix)
    requirements = list(parser.requirements())
    return Selector(tuple(sorted(requirements, key=lambda each: each.key)))


class _Parser:
    """A cursor over the words of a text; the empty word is its end."""

    def __init__(self, text: str, default_prefix: str | None) -> None:
        self._text = text
        self._prefix = "" if default_prefix is None else f"{default_prefix}/"
        self._word = ""
        self._start = self._end = 0
        self._advance()

    def requirements(self) -> Iterator[Requirement]:
        if not self._word:
            return
        yield self._requirement()
        while self._word:
            if self._word != ",":
                raise self._error("a comma expected")
            self._advance()
            yield self._requirement()

    def _requirement(self) -> Requirement:
        if self._word == "!":
            self._advance()
            return Requirement(self._key(), Operator.DOES_NOT_EXIST)
        key = self._key()
        if self._word in ("", ","):
            return Requirement(key, Operator.EXISTS)
        operator = _OPERATORS.get(self._word)
        if operator is None:
            raise self._error(f"one of {' '.join(_OPERATORS)} expected")
        self._advance()
        if operator in _SETS:
            return Requirement(key, operator, self._values())
        if operator in _SIGNS:
            self._check_integer()
        return Requirement(key, operator, frozenset({self._value()}))

    def _key(self) -> str:
        key = self._word
        if not key or key in _SYMBOLS:
            raise self._error("a label key expected")
        problem = label.why_not_key(key)
        if problem:
            raise self._error(problem)
        self._advance()
        return key if "/" in key else self._prefix + key

    def _values(self) -> frozenset[str]:
        if self._word != "(":
            raise self._error("( expected")
        values = set()
        while True:
            self._advance()
            values.add(self._value())
            if self._word == ")":
                break
            if self._word != ",":
                raise self._error("a comma or ) expected")
        self._advance()
        return frozenset(values)

    def _check_integer(self) -> None:
        try:
            numbers.parse_int(self._word, "bound", 0, label.MAX_INTEGER)
        except errors.ParseError as error:
            raise self._error(error.problem) from None

    def _value(self) -> str:
        """Return a value, which may be empty, and move the cursor past it."""
        value = self._word
        if not value or value in _SYMBOLS:
            return ""
        problem = label.why_not_value(value)
        if problem:
            raise self._error(problem)
        self._advance()
        return value

    def _advance(self) -> None:
        blanks = _BLANKS.match(self._text, self._end)
        self._start = blanks.end() if blanks else self._end
        word = _WORD.match(self._text, self._start)
        self._word = word[0] if word else ""
        self._end = word.end() if word else self._start

    def _error(self, problem: str) -> errors.ParseError:
        return errors.ParseError(_SELECTOR, self._text, problem, self._start)
