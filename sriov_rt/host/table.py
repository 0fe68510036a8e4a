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

"""HostFacts as lines of text for a reader at a terminal."""

import dataclasses
import math
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.parse import cpulist

#: Items that stand on one line, and the width of a name's column.
MAX_ITEMS = 12
WIDTH = 28


def lines(
    host: HostFacts, ages_s: Mapping[str, float] | None = None
) -> Iterator[str]:
    """Yield the lines; what is unknown says why.

    :param ages_s: label source to the seconds since its labels last held.
    """
    yield _line(0, "host", host.host)
    yield _line(0, "node", host.node)
    for name in facts.PARTS:
        part = getattr(host, name)
        yield name
        if name == "labels":
            yield from _labels(part, ages_s or {})
            continue
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if name == "nics" and not isinstance(value, Unknown):
                yield from _nics(value)
            else:
                yield from _fact(2, field.name, value)


def printable(text: str) -> str:
    """Return text without control characters, which steer a terminal."""
    return "".join(
        each if each.isprintable() else f"\\x{ord(each):02x}" for each in text
    )


def _line(indent: int, name: str, value: str) -> str:
    column = f"{' ' * indent}{printable(name):<{WIDTH - indent}}"
    return f"{column} {printable(value)}".rstrip()


def _text(value: Any) -> str:
    if isinstance(value, Unknown):
        return f"unknown ({value.reason})"
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, frozenset):
        return cpulist.format_cpu_list(value) or "none"
    if isinstance(value, tuple):
        more = ", …" if len(value) > MAX_ITEMS else ""
        return ", ".join(map(_text, value[:MAX_ITEMS])) + more or "none"
    if dataclasses.is_dataclass(value):
        return " ".join(
            f"{field.name}={_text(getattr(value, field.name))}"
            for field in dataclasses.fields(value)
        )
    return str(value)


def _fact(indent: int, name: str, value: Any) -> Iterator[str]:
    """Yield a fact: one line, or one for each compound item."""
    if isinstance(value, Mapping):
        yield _line(indent, name, "" if value else "none")
        for key, each in value.items():
            yield _line(indent + 2, key, _text(each))
    elif isinstance(value, tuple) and _is_rows(value):
        for number, each in enumerate(value):
            yield _line(indent, "" if number else name, _text(each))
    else:
        yield _line(indent, name, _text(value))


def _is_rows(value: tuple[Any, ...]) -> bool:
    return bool(value) and dataclasses.is_dataclass(value[0])


def _nics(nics: tuple[facts.Nic, ...]) -> Iterator[str]:
    if not nics:
        yield "  none"
    for nic in nics:
        yield _line(2, nic.name, nic.address)
        for field in dataclasses.fields(nic)[2:]:
            yield from _fact(4, field.name, getattr(nic, field.name))


def _labels(
    labels: facts.LabelFacts, ages_s: Mapping[str, float]
) -> Iterator[str]:
    if isinstance(labels.values, Unknown):
        yield _line(2, "values", _text(labels.values))
        return
    sources = {} if isinstance(labels.sources, Unknown) else labels.sources
    for key, value in sorted(labels.values.items()):
        source = sources.get(key, "")
        told = f"  {printable(key)}={printable(value)}"
        if source in ages_s:
            told += f"  ({printable(source)}, {_age(ages_s[source])})"
        yield told
    if labels.stale:
        yield _line(2, "stale", _text(labels.stale))


def _age(seconds: float) -> str:
    # Labels from before the last boot have no age that means anything.
    return f"{seconds:.0f} s ago" if seconds < math.inf else "long ago"
