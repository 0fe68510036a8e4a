# SPDX-License-Identifier: Apache-2.0

"""Conversion of frozen dataclasses to plain JSON values and back, checked.

The type hints of a dataclass are its schema. A reader is built from them
once. It refuses every value that the hints do not allow, ignores unknown keys
(a newer writer may have more), and makes one pass.
"""

import dataclasses
import enum
import functools
import itertools
import sys
import types
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import CpuSet

#: The most items that one list or mapping may have. The longest real one is
#: the list of a PF's VFs, 256 with the 8-bit function numbers of PCI ARI.
MAX_ITEMS = 16384

#: The longest string. The longest real one is a kernel command line of at
#: most 4,096 bytes (COMMAND_LINE_SIZE of s390; 2,048 on x86).
MAX_STRING = 65536

#: The only key of an unknown fact. No label, module or parameter can have
#: this name: those start with a letter or a digit.
UNKNOWN_KEY = "_unknown"

#: The most bytes that all CPU lists of a document may expand to. The siblings
#: and interrupts of 2,048 CPUs, as many as x86 servers have, take half of it.
MAX_CPU_BYTES = 2 * 1024 * 1024

#: CPU lists up to this length, in characters, are shared by all documents:
#: hosts of one cloud have the same siblings, one pair for each core.
_SHARED_TEXT = 32
_SHARED_LISTS = 4096

#: Size of a CpuSet without its bits, in bytes.
_CPU_SET_BYTES = 80

T = typing.TypeVar("T")
D = typing.TypeVar("D")


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that could not be read.

    :param reason: one clause that says why, for an operator.
    """

    reason: str


def known_or(value: T | Unknown, default: D) -> T | D:
    """Return a fact, or a default in place of an unknown one."""
    return default if isinstance(value, Unknown) else value


class SchemaError(exceptions.SriovRtError, ValueError):
    """A JSON value is not what its schema says.

    :param path: place in the document, such as ``cpus.isolated``.
    :param problem: what is wrong there.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path or 'the document'}: {problem}")


class _Intake:
    """State of reading one document: the size that it has expanded to.

    :param printable: whether to escape control characters in text.
    """

    __slots__ = ("_lists", "_room", "printable")

    def __init__(self, printable: bool) -> None:
        self.printable = printable
        self._room = MAX_CPU_BYTES
        self._lists: dict[str, CpuSet] = {}

    def cpus(self, text: str, path: str) -> CpuSet:
        """Return the CPUs of a list; equal texts share one set."""
        found = self._lists.get(text)
        if found is not None:
            return found
        parse = (
            _shared if len(text) <= _SHARED_TEXT else cpulist.parse_cpu_list
        )
        try:
            found = parse(text)
        except errors.ParseError as error:
            raise SchemaError(path, str(error)) from None
        self._room -= _CPU_SET_BYTES + found.bits.bit_length() // 8
        if self._room < 0:
            raise SchemaError(
                path, f"CPU lists of more than {MAX_CPU_BYTES} bytes in all"
            )
        self._lists[text] = found
        return found

    def text(self, value: str, path: str) -> str:
        """Return text in the form to keep."""
        if value.isprintable():
            return value
        if self.printable:
            return value.encode("unicode_escape").decode()
        # JSON can escape half of a surrogate pair, which can't be written to
        # a file or a terminal.
        if any("\ud800" <= each <= "\udfff" for each in value):
            raise SchemaError(path, "text with half of a surrogate pair")
        return value


@functools.lru_cache(maxsize=_SHARED_LISTS)
def _shared(text: str) -> CpuSet:
    return cpulist.parse_cpu_list(text)


Reader = Callable[[Any, str, _Intake], Any]
Writer = Callable[[Any], Any]


def to_plain(value: Any) -> Any:
    """Return a dataclass instance as dicts, lists, strings and numbers.

    :param value: an instance of a frozen dataclass with hints known here.
    """
    return _write(value)


def size(value: Any) -> int:
    """Return the approximate size of a value with its contents, in bytes.

    Objects that several values share are counted for each of them.

    :param value: an instance of a dataclass, or a value of one of its fields.
    """
    found = sys.getsizeof(value)
    if isinstance(value, CpuSet):
        return found + sys.getsizeof(value.bits)
    parts: Iterable[Any] = ()
    if isinstance(value, tuple):
        parts = value
    elif isinstance(value, Mapping):
        found += sys.getsizeof(dict(value))
        parts = itertools.chain.from_iterable(value.items())
    elif dataclasses.is_dataclass(value):
        parts = (
            getattr(value, each.name) for each in dataclasses.fields(value)
        )
    return found + sum(map(size, parts))


def from_plain(cls: type[T], value: Any, *, printable: bool = False) -> T:
    """Build an instance of a dataclass from what :func:`to_plain` gave.

    :param cls: a frozen dataclass with hints known here.
    :param value: the object as parsed from JSON.
    :param printable: escape control characters in text, which could forge log
        lines and control a terminal.
    :raises SchemaError: if a value does not match the hints.
    """
    schema: Any = cls  # mypy takes a class for unhashable
    result: T = _reader(schema)(value, "", _Intake(printable))
    return result


def _scalar(kind: type, name: str) -> Reader:
    def read(value: Any, path: str, intake: _Intake) -> Any:
        # isinstance takes a bool for an int; here it is never a number.
        if type(value) is not kind:
            raise SchemaError(path, f"{name} expected")
        return value

    return read


def _read_text(value: Any, path: str, intake: _Intake) -> str:
    if type(value) is not str:
        raise SchemaError(path, "text expected")
    if len(value) > MAX_STRING:
        raise SchemaError(path, f"text longer than {MAX_STRING} characters")
    return intake.text(value, path)


def _read_number(value: Any, path: str, intake: _Intake) -> float:
    if type(value) not in (int, float):
        raise SchemaError(path, "number expected")
    try:
        number = float(value)
    except OverflowError:
        raise SchemaError(path, "number too large") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise SchemaError(path, "finite number expected")
    return number


def _read_cpus(value: Any, path: str, intake: _Intake) -> CpuSet:
    if type(value) is not str:
        raise SchemaError(path, "cpu list expected")
    return intake.cpus(value, path)


def _read_unknown(value: Any, path: str, intake: _Intake) -> Unknown:
    return Unknown(_read_text(value[UNKNOWN_KEY], path, intake))


def _is_unknown(value: Any) -> bool:
    return type(value) is dict and value.keys() == {UNKNOWN_KEY}


_SCALARS: Mapping[Any, Reader] = types.MappingProxyType(
    {
        bool: _scalar(bool, "true or false"),
        int: _scalar(int, "whole number"),
        float: _read_number,
        str: _read_text,
        CpuSet: _read_cpus,
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
    if origin is tuple and arguments[-1] is Ellipsis:
        return _tuple_reader(_reader(arguments[0]))
    if origin is tuple:
        return _fixed_reader(tuple(_reader(each) for each in arguments))
    if origin is Mapping:
        return _mapping_reader(_reader(arguments[1]))
    return _union_reader(arguments)


def _dataclass_reader(cls: Any) -> Reader:
    hints = typing.get_type_hints(cls)
    readers = [
        (field.name, _reader(hints[field.name]), field.default)
        for field in dataclasses.fields(cls)
    ]

    def read(value: Any, path: str, intake: _Intake) -> Any:
        if type(value) is not dict:
            raise SchemaError(path, "object expected")
        prefix = f"{path}." if path else ""
        found = []
        for name, reader, default in readers:
            if name in value:
                found.append(reader(value[name], prefix + name, intake))
            elif default is dataclasses.MISSING:
                raise SchemaError(prefix + name, "missing")
            else:
                # The field was added after the document was written.
                found.append(default)
        return cls(*found)

    return read


def _enum_reader(cls: type[enum.StrEnum]) -> Reader:
    words = {str(each): each for each in cls}

    def read(value: Any, path: str, intake: _Intake) -> enum.StrEnum:
        if type(value) is not str or value not in words:
            raise SchemaError(path, f"one of {', '.join(words)} expected")
        return words[value]

    return read


def _tuple_reader(item: Reader) -> Reader:
    def read(value: Any, path: str, intake: _Intake) -> tuple[Any, ...]:
        if type(value) is not list:
            raise SchemaError(path, "list expected")
        if len(value) > MAX_ITEMS:
            raise SchemaError(path, f"more than {MAX_ITEMS} items")
        return tuple(item(each, path, intake) for each in value)

    return read


def _fixed_reader(items: tuple[Reader, ...]) -> Reader:
    def read(value: Any, path: str, intake: _Intake) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(items):
            raise SchemaError(path, f"list of {len(items)} items expected")
        return tuple(
            item(each, path, intake)
            for item, each in zip(items, value, strict=True)
        )

    return read


def _mapping_reader(item: Reader) -> Reader:
    def read(value: Any, path: str, intake: _Intake) -> Any:
        if type(value) is not dict:
            raise SchemaError(path, "object expected")
        if len(value) > MAX_ITEMS:
            raise SchemaError(path, f"more than {MAX_ITEMS} items")
        found = {}
        for key, each in value.items():
            read_item = item(each, path, intake)
            if type(read_item) is str:
                read_item = sys.intern(read_item)
            found[sys.intern(intake.text(key, path))] = read_item
        return types.MappingProxyType(found)

    # Interned, since hosts of one cloud have the same labels and modules.
    return read


def _union_reader(members: tuple[Any, ...]) -> Reader:
    # A hint is one kind of value, possibly with Unknown or None.
    kinds = [m for m in members if m not in (Unknown, type(None))]
    if len(kinds) != 1:
        raise TypeError(f"no JSON for {members}")
    known = _reader(kinds[0])
    may_be_unknown = Unknown in members
    may_be_none = type(None) in members

    def read(value: Any, path: str, intake: _Intake) -> Any:
        if value is None and may_be_none:
            return None
        if may_be_unknown and _is_unknown(value):
            return _read_unknown(value, path, intake)
        return known(value, path, intake)

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
        CpuSet: cpulist.format_cpu_list,
        tuple: _write_sequence,
        types.MappingProxyType: _write_mapping,
        dict: _write_mapping,
    }
)


#: JSON's own types, which most fields have.
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
