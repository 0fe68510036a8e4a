# SPDX-License-Identifier: Apache-2.0

"""A report of measurements as one page that needs nothing else."""

import base64
import html
import re
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TypeVar

from sriov_rt.parse import duration
from sriov_rt.verify import breach
from sriov_rt.verify import disk
from sriov_rt.verify import matrix
from sriov_rt.verify import network
from sriov_rt.verify import pktgen
from sriov_rt.verify import sockperf
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.pictures import Picture

M = TypeVar("M", bound=matrix.Measured)

EMULATED = (
    "Measured on a host that is itself a virtual machine: these figures mean "
    "nothing, and say nothing of any hardware."
)

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #fff;
        --line: #c8ccd1; --head: #eef0f2; --bad: #fde8e8; --edge: #b3261e }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e3e6ea; --paper: #16191d; --line: #454b53;
          --head: #24292f; --bad: #4a1d1d; --edge: #f2857c } }
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 74em;
       padding: 0 1em; color: var(--ink); background: var(--paper) }
h1 { margin-bottom: 0 } h2 { margin-top: 2em }
.made { margin-top: 0 }
.scroll { overflow-x: auto; margin: 1em 0 }
table { border-collapse: collapse; font-size: 13px }
th, td { border: 1px solid var(--line); padding: .25em .6em;
         text-align: left; vertical-align: top; overflow-wrap: anywhere;
         max-width: 34em; min-width: 4em }
th { background: var(--head) }
td.number { text-align: right; font-variant-numeric: tabular-nums;
            white-space: nowrap }
.commands { font-size: 11px }
.figures { display: grid; gap: 1.5em 1em;
           grid-template-columns:
           repeat(auto-fit, minmax(min(30em, 100%), 1fr)) }
figure { margin: 0; min-width: 0 }
figure.wide, figure.alone { grid-column: 1 / -1 }
figure.alone { max-width: 45em }
figure img { display: block; width: 100%; height: auto }
figcaption { font-size: 13px }
a { color: inherit }
.warning { background: var(--bad); border: 1px solid var(--edge);
           padding: .6em 1em }
@media screen and (max-width: 48em) {
  table.records, .records tbody, .records tr, .records td { display: block }
  .records thead { display: none }
  .records tr { border: 1px solid var(--line); margin-bottom: .6em }
  .records td, .records td.number { border: 0; max-width: none;
      display: flex; gap: 1em; text-align: left; white-space: normal }
  .records td::before { content: attr(data-name); flex: 0 0 9em;
      font-weight: bold } }
@media print {
  @page { margin: 1.5cm }
  body { margin: 0; padding: 0; max-width: none; font-size: 10pt }
  table { font-size: 8pt } .commands { font-size: 7pt }
  .scroll { overflow: visible } th, td { max-width: none }
  td.number { white-space: normal }
  .figures { display: block } figure { margin: 0 0 1em; max-width: 15cm }
  figure.wide { max-width: none }
  figure, tr, .warning { break-inside: avoid }
  h2, h3 { break-after: avoid } thead { display: table-header-group }
  .save { display: none }
}
"""

_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def page(
    collections: Sequence[Collection],
    pictures: Sequence[Picture],
    made: str,
    *,
    published: bool = False,
) -> str:
    """Return the page as HTML, its pictures within.

    :param made: when and by what it is made, a sentence.
    :param published: whether to show the figures that others published.
    """
    return "\n".join(_page(collections, pictures, made, published)) + "\n"


def _page(
    collections: Sequence[Collection],
    pictures: Sequence[Picture],
    made: str,
    published: bool,
) -> Iterator[str]:
    names = ", ".join(each.label for each in collections)
    title = html.escape(f"Measurements: {names}")
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield (
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body>"
    yield f'<h1>{title}</h1>\n<p class="made">{html.escape(made)}</p>'
    if any(each.emulated for each in collections):
        yield f'<p class="warning">{EMULATED}</p>'
    yield "<h2>What was measured</h2>"
    yield from _table(
        ("", *(each.label for each in collections)), _side_by_side(collections)
    )
    if pictures:
        yield '<h2>Pictures</h2>\n<div class="figures">'
        for picture in pictures:
            yield from _figure(picture)
        yield "</div>"
    for each in collections:
        yield f"<h2>{html.escape(each.label)}</h2>"
        yield from _collection(each, published)
    yield "</body></html>"


def _side_by_side(
    collections: Sequence[Collection],
) -> Iterator[tuple[str, ...]]:
    """Yield a row of each fact, a column for each measurement."""
    every = [dict(facts(each)) for each in collections]
    for name in dict.fromkeys(name for each in every for name in each):
        yield (name, *(each.get(name, "-") for each in every))


def facts(found: Collection) -> Iterator[tuple[str, str]]:
    """Yield the circumstances of a measurement."""
    latency = list(found.latency.values())
    runs = [each.measurement for each in latency]
    others: list[network.Measured | disk.Measured] = [
        *found.network,
        *found.disk,
    ]
    times = [each.started_at for each in (*runs, *others)]
    times += [each.at for each in found.breaches]
    machines = [each.machine for each in (*latency, *others)]
    machines += [each.machine for each in found.breaches]
    tools = [f"{each.tool} {each.version}" for each in runs]
    # iperf3 and fio say their names themselves.
    names = {network.REQUESTS: sockperf.TOOL, network.PACKETS: pktgen.TOOL}
    for each in found.network:
        name = each.tool or names.get(each.cell.test, "")
        tools.append(f"{name} {each.version}" if each.version else "")
    tools += [each.version for each in found.disk]
    first, last = _date(min(times)), _date(max(times))
    yield "Measured", first if first == last else f"{first} to {last}"
    kernels = [each.conditions.get("kernel release", "") for each in latency]
    kernels += [each.kernel for each in others]
    for name, values in (
        ("Host", [each.host for each in machines]),
        ("Machine", [each.product for each in machines]),
        ("CPU", [each.cpu for each in machines]),
        ("Online CPUs", [each.cpus for each in machines]),
        ("System", [each.system for each in machines]),
        ("Kernel", kernels),
        ("NIC", [each.nic for each in machines]),
        ("Network between", [each.way for each in found.network]),
        ("File system", [each.file_system for each in found.disk]),
        ("Load", [each.load for each in latency]),
        ("Tools", [each.strip() for each in tools]),
    ):
        if text := "; ".join(dict.fromkeys(filter(None, values))):
            yield name, text


def _date(seconds: float) -> str:
    # A file may have any number.
    found = time.gmtime(min(max(seconds, 0), 2**40))
    return time.strftime("%Y-%m-%d %H:%M UTC", found)


def _figure(picture: Picture) -> Iterator[str]:
    links = {
        kind: f"data:{_TYPES[kind]};base64,"
        + base64.b64encode(data).decode("ascii")
        for kind, data in picture.images.items()
    }
    title = html.escape(picture.title)
    name = html.escape(picture.name)
    kind = "wide" if picture.wide else "alone" if picture.alone else ""
    kind = f' class="{kind}"' if kind else ""
    yield (
        f'<figure id="{name}"{kind}><div class="scroll">'
        f'<img alt="{title}" src="{links["svg"]}"></div>'
    )
    downloads = " ".join(
        f'<a download="{name}.{kind}" href="{link}">{kind.upper()}</a>'
        for kind, link in links.items()
    )
    yield (
        f'<figcaption>{title} <span class="save">({downloads})</span>'
        "</figcaption></figure>"
    )


def _collection(found: Collection, published: bool) -> Iterator[str]:
    for ticket in found.breaches:
        yield "<h3>Latency above the bound</h3>"
        yield from _table(("What", "Value"), breach.rows(ticket))
    if found.latency:
        yield from _latency(found)
    yield from _cells("Network", network.TABLE, found.network, published)
    yield from _cells("Disk", disk.TABLE, found.disk, published)
    commands = [run.measurement.command for run in found.latency.values()]
    commands += [each.command for each in found.network if each.command]
    commands += [each.command for each in found.disk if each.command]
    if commands:
        yield '<h3>Commands</h3>\n<div class="commands">'
        rows = [(each,) for each in dict.fromkeys(commands)]
        yield from _table(("Command",), rows)
        yield "</div>"


def _cells(
    name: str, table: matrix.Table[M], found: Sequence[M], published: bool
) -> Iterator[str]:
    if not found:
        return
    yield f"<h3>{name}</h3>"
    hidden = {matrix.SAME_WAY}
    if not published:
        hidden.add(matrix.PUBLISHED)
    shown = [each for each in table.names if each not in hidden]
    yield from _table(table.names, table.rows(found), shown)
    for remark in table.remarks(found) if published else ():
        yield f"<p>{html.escape(remark)}</p>"
    for each in found:
        if each.problem:
            yield from _warning(f"{each.command}: {each.problem}")


def _latency(found: Collection) -> Iterator[str]:
    yield "<h3>Latency</h3>"
    yield from _table(LATENCY_COLUMNS, latency_rows(found))
    for tool, result in found.latency.items():
        for problem in result.measurement.problems:
            yield from _warning(f"{tool} does not count: {problem}")
        for each in result.measurement.culprits:
            yield from _warning(f"{tool}: {each.of_sample}")
    last = list(found.latency.values())[-1]
    yield "<h3>Conditions of the latency</h3>"
    yield from _table(("Condition", "Value"), last.conditions.items())


def _warning(text: str) -> Iterator[str]:
    yield f'<p class="warning">{html.escape(text)}</p>'


#: What the table of latencies has.
LATENCY_COLUMNS = (
    "Tool",
    "Version",
    "CPU",
    "Max µs",
    "Samples",
    "Duration",
    "Load",
    "Started",
)


def latency_rows(found: Collection) -> Iterator[tuple[str, ...]]:
    """Yield a row of each tool and CPU, as LATENCY_COLUMNS has it."""
    for tool, result in found.latency.items():
        run = result.measurement
        started = _date(run.started_at)
        for cpu in run.cpus:
            yield (
                str(tool),
                run.version,
                str(cpu.cpu),
                str(cpu.max_us),
                str(cpu.samples),
                duration.format_duration(int(run.duration_s)),
                result.load,
                started,
            )


def _table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    shown: Sequence[str] = (),
) -> Iterator[str]:
    places = [
        place
        for place, column in enumerate(columns)
        if not shown or column in shown
    ]
    head = "".join(f"<th>{html.escape(columns[each])}</th>" for each in places)
    # A narrow page has no room for more: a record is then a block of lines.
    kind = ' class="records"' if len(places) > _NARROW else ""
    yield f'<div class="scroll"><table{kind}>'
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for row in rows:
        cells = "".join(_cell(columns[each], row[each]) for each in places)
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div>"


def _cell(column: str, text: str) -> str:
    kind = ' class="number"' if _NUMBER.fullmatch(text) else ""
    name = html.escape(column)
    return f'<td{kind} data-name="{name}">{html.escape(text)}</td>'


#: The most columns that a page as wide as a telephone has room for.
_NARROW = 3

#: A number, with a unit or without one.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(/s| [A-Za-z%/µ]{1,4})?")
