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

"""Frozen dataclasses to plain JSON values and back, checked on the way in.

The type hints of a dataclass are its schema. A reader built from them once
refuses every value that the hints do not allow, passes over keys it does not
know (a newer writer may have more), and makes one pass.
"""

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors

#: The most items that one list or mapping may have. The longest real one is
#: the list of a PF's VFs, 256 with the 8-bit function numbers of PCI ARI.
MAX_ITEMS = 16384

#: The longest string. The longest real one is a kernel command line: 4,096
#: bytes at the most (COMMAND_LINE_SIZE of s390; 2,048 on x86).
MAX_STRING = 65536

#: The one key of an unknown fact. Not a name that a label, a module or a
#: parameter can have: those start with a letter or a digit.
UNKNOWN_KEY = "_unknown"

#: CPU lists that are remembered: a host says the same few again and again,
#: and so do its neighbours. They are the half of the work of a document.
_REMEMBERED = 256

Reader = Callable[[Any, str], Any]
Writer = Callable[[Any], Any]
T = typing.TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be read.

    :param reason: one clause that says why, for an operator.
    """

    reason: str


class SchemaError(exceptions.SriovRtError, ValueError):
    """A JSON value is not what its schema says.

    :param path: where in the document, such as ``cpus.isolated``.
    :param problem: what is wrong there.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path or 'the document'}: {problem}")


def to_plain(value: Any) -> Any:
    """Return a dataclass instance as dicts, lists, strings and numbers.

    :param value: an instance of a frozen dataclass with hints known here.
    """
    return _write(value)


def from_plain(cls: type[T], value: Any) -> T:
    """Build an instance of a dataclass from what :func:`to_plain` gave.

    :param cls: a frozen dataclass with hints known here.
    :param value: the object as it came back from JSON.
    :raises SchemaError: where the value is not what the hints say.
    """
    schema: Any = cls  # mypy holds that a class is not hashable
    result: T = _reader(schema)(value, "")
    return result


def _scalar(kind: type, name: str) -> Reader:
    def read(value: Any, path: str) -> Any:
        # bool is an int to isinstance, and never a number to us.
        if type(value) is not kind:
            raise SchemaError(path, f"{name} expected")
        return value

    return read


def _read_text(value: Any, path: str) -> str:
    if type(value) is not str:
        raise SchemaError(path, "text expected")
    if len(value) > MAX_STRING:
        raise SchemaError(path, f"text longer than {MAX_STRING} characters")
    return value


def _read_number(value: Any, path: str) -> float:
    if type(value) not in (int, float):
        raise SchemaError(path, "number expected")
    try:
        number = float(value)
    except OverflowError:
        raise SchemaError(path, "number too large") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise SchemaError(path, "finite number expected")
    return number


_parse_cpus = functools.lru_cache(_REMEMBERED)(cpulist.parse_cpu_list)
_format_cpus = functools.lru_cache(_REMEMBERED)(cpulist.format_cpu_list)


def _read_cpus(value: Any, path: str) -> frozenset[int]:
    if type(value) is not str:
        raise SchemaError(path, "cpu list expected")
    try:
        return _parse_cpus(value)
    except errors.ParseError as error:
        raise SchemaError(path, str(error)) from None


def _read_unknown(value: Any, path: str) -> Unknown:
    return Unknown(_read_text(value[UNKNOWN_KEY], path))


def _is_unknown(value: Any) -> bool:
    return type(value) is dict and value.keys() == {UNKNOWN_KEY}


_SCALARS: Mapping[Any, Reader] = types.MappingProxyType(
    {
        bool: _scalar(bool, "true or false"),
        int: _scalar(int, "whole number"),
        float: _read_number,
        str: _read_text,
        frozenset[int]: _read_cpus,
    }
)


@functools.cache
def _reader(hint: Any) -> Reader:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if dataclasses.is_dataclass(hint):
        return _dataclass_reader(hint)
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return _enum_reader(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _tuple_reader(_reader(arguments[0]))
    if origin is Mapping:
        return _mapping_reader(_reader(arguments[1]))
    return _union_reader(arguments)


def _dataclass_reader(cls: Any) -> Reader:
    hints = typing.get_type_hints(cls)
    readers = [
        (field.name, _reader(hints[field.name]), field.default)
        for field in dataclasses.fields(cls)
    ]

    def read(value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise SchemaError(path, "object expected")
        prefix = f"{path}." if path else ""
        found = []
        for name, reader, default in readers:
            if name in value:
                found.append(reader(value[name], prefix + name))
            elif default is dataclasses.MISSING:
                raise SchemaError(prefix + name, "missing")
            else:
                # The field came on top after that was written.
                found.append(default)
        return cls(*found)

    return read


def _enum_reader(cls: type[enum.StrEnum]) -> Reader:
    words = {str(each): each for each in cls}

    def read(value: Any, path: str) -> enum.StrEnum:
        if type(value) is not str or value not in words:
            raise SchemaError(path, f"one of {', '.join(words)} expected")
        return words[value]

    return read


def _tuple_reader(item: Reader) -> Reader:
    def read(value: Any, path: str) -> tuple[Any, ...]:
        if type(value) is not list:
            raise SchemaError(path, "list expected")
        if len(value) > MAX_ITEMS:
            raise SchemaError(path, f"more than {MAX_ITEMS} items")
        return tuple(item(each, path) for each in value)

    return read


def _mapping_reader(item: Reader) -> Reader:
    def read(value: Any, path: str) -> Mapping[str, Any]:
        if type(value) is not dict:
            raise SchemaError(path, "object expected")
        if len(value) > MAX_ITEMS:
            raise SchemaError(path, f"more than {MAX_ITEMS} items")
        return types.MappingProxyType(
            {key: item(each, path) for key, each in value.items()}
        )

    return read


def _union_reader(members: tuple[Any, ...]) -> Reader:
    # A hint is one kind of value, or that and Unknown, or that and None.
    kinds = [m for m in members if m not in (Unknown, type(None))]
    if len(kinds) != 1:
        raise TypeError(f"no JSON for {members}")
    known = _reader(kinds[0])
    may_be_unknown = Unknown in members
    may_be_none = type(None) in members

    def read(value: Any, path: str) -> Any:
        if value is None and may_be_none:
            return None
        if may_be_unknown and _is_unknown(value):
            return _read_unknown(value, path)
        return known(value, path)

    return read


def _write(value: Any) -> Any:
    cls: Any = type(value)
    return _writer(cls)(value)


def _same(value: Any) -> Any:
    return value


def _write_unknown(value: Unknown) -> dict[str, str]:
    return {UNKNOWN_KEY: value.reason}


def _write_sequence(value: Any) -> list[Any]:
    return [_write(each) for each in value]


def _write_mapping(value: Any) -> dict[str, Any]:
    return {key: _write(each) for key, each in value.items()}


_WRITERS: Mapping[type, Writer] = types.MappingProxyType(
    {
        Unknown: _write_unknown,
        frozenset: _format_cpus,
        tuple: _write_sequence,
        types.MappingProxyType: _write_mapping,
        dict: _write_mapping,
    }
)


#: What JSON has itself; most fields are one of them.
_PLAIN = frozenset({str, int, bool, type(None)})


@functools.cache
def _writer(cls: Any) -> Writer:
    if issubclass(cls, enum.StrEnum):
        return str
    if cls in _WRITERS or not dataclasses.is_dataclass(cls):
        return _WRITERS.get(cls, _same)
    names = [field.name for field in dataclasses.fields(cls)]

    def write(value: Any) -> dict[str, Any]:
        found = {}
        for name in names:
            each = getattr(value, name)
            found[name] = each if type(each) in _PLAIN else _write(each)
        return found

    return write
