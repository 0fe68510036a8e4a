# SPDX-License-Identifier: Apache-2.0

"""HostFacts as names and values for a reader at a terminal."""

import dataclasses
import datetime
import math
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.decide.occupancy import who
from sriov_rt.facts import HostFacts
from sriov_rt.parse import cpulist
from sriov_rt.parse.text import printable

#: The most items of a list that are shown.
MAX_ITEMS = 12


def rows(
    host: HostFacts, ages_s: Mapping[str, float] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield name and value of each fact; an unknown one shows why.

    :param ages_s: seconds since a label source's labels last held.
    """
    for name, value in _rows(host, ages_s or {}):
        yield printable(name), printable(value)


def _rows(
    host: HostFacts, ages_s: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    yield "host", host.host
    yield "node", host.node
    yield "version", host.version or "unknown"
    yield from _fact("intended", host.intended)
    for name in facts.PARTS:
        part = getattr(host, name)
        if name == "labels":
            yield from _labels(part, ages_s)
            continue
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if name == "nics" and not isinstance(value, Unknown):
                yield from _nics(value)
            else:
                yield from _fact(f"{name}.{field.name}", value)


def occupancy(host: HostFacts) -> list[str]:
    """Return what is on the CPUs for guests as the lines of a small table.

    It is empty if nothing is, or if that is unknown.
    """
    found = host.occupancy
    if isinstance(found.occupants, Unknown) or not found.occupants:
        return []
    cells = [("CPU", "Who", "State", "Since (UTC)", "Share")]
    for each in found.occupants:
        since = datetime.datetime.fromtimestamp(each.since, datetime.UTC)
        share = "" if each.share is None else f"{each.share} %"
        cpus = cpulist.format_cpu_list(each.cpus)
        cells.append((cpus, who(each), each.state, f"{since:%F %T}", share))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        printable(
            "  ".join(
                text.ljust(width)
                for text, width in zip(row, widths, strict=True)
            ).rstrip()
        )
        for row in cells
    ]
    if found.more:
        lines.append(f"and {found.more} more")
    return ["", *lines]


def _text(value: Any) -> str:
    if isinstance(value, Unknown):
        return f"unknown ({value.reason})"
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, cpulist.CpuSet):
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


def _fact(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a fact as one row, or as one for each compound item."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield f"{name}.{key}", _text(each)
    elif isinstance(value, Mapping):
        yield name, "none"
    elif isinstance(value, tuple) and _is_rows(value):
        for number, each in enumerate(value):
            yield f"{name}.{number}", _text(each)
    else:
        yield name, _text(value)


def _is_rows(value: tuple[Any, ...]) -> bool:
    return bool(value) and dataclasses.is_dataclass(value[0])


def _nics(nics: tuple[facts.Nic, ...]) -> Iterator[tuple[str, str]]:
    if not nics:
        yield "nics", "none"
    for nic in nics:
        for field in dataclasses.fields(nic)[1:]:
            yield from _fact(
                f"nics.{nic.name}.{field.name}", getattr(nic, field.name)
            )


def _labels(
    labels: facts.LabelFacts, ages_s: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    if isinstance(labels.values, Unknown):
        yield "labels", _text(labels.values)
        return
    sources = {} if isinstance(labels.sources, Unknown) else labels.sources
    for key, value in sorted(labels.values.items()):
        source = sources.get(key, "")
        age = (
            f" ({source}, {_age(ages_s[source])})" if source in ages_s else ""
        )
        yield f"labels.{key}", f"{value}{age}"
    if labels.stale:
        yield "labels.stale", _text(labels.stale)


def _age(seconds: float) -> str:
    # The age of labels from before the last boot is meaningless.
    return f"{seconds:.0f} s ago" if seconds < math.inf else "long ago"
