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

"""A report of measurements as one page that needs nothing else."""

import base64
import html
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.parse import duration
from sriov_rt.verify import disk
from sriov_rt.verify import network
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.pictures import Picture

EMULATED = (
    "Measured on a host that is itself a virtual machine: these figures mean "
    "nothing, and say nothing of any hardware."
)

_STYLE = """
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 62em;
       padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px }
th, td { border: 1px solid #bbb; padding: .25em .6em; text-align: left;
         overflow-wrap: anywhere }
th { background: #eee }
figure { margin: 2em 0 } figure img { width: 100%; height: auto }
figcaption { font-size: 13px }
.warning { background: #fdd; border: 1px solid #c00; padding: .6em 1em }
"""

_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def page(
    collections: Sequence[Collection], pictures: Sequence[Picture]
) -> str:
    """Return the page as HTML, its pictures within."""
    return "\n".join(_page(collections, pictures)) + "\n"


def _page(
    collections: Sequence[Collection], pictures: Sequence[Picture]
) -> Iterator[str]:
    names = ", ".join(each.label for each in collections)
    title = html.escape(f"Measurements: {names}")
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield (
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{title}</h1>"
    if any(each.emulated for each in collections):
        yield f'<p class="warning">{EMULATED}</p>'
    for picture in pictures:
        yield from _figure(picture)
    for each in collections:
        yield f"<h2>{html.escape(each.label)}</h2>"
        yield from _collection(each)
    yield "</body></html>"


def _figure(picture: Picture) -> Iterator[str]:
    links = {
        kind: f"data:{_TYPES[kind]};base64,"
        + base64.b64encode(data).decode("ascii")
        for kind, data in picture.images.items()
    }
    title = html.escape(picture.title)
    name = html.escape(picture.name)
    yield f'<figure id="{name}"><img alt="{title}" src="{links["svg"]}">'
    downloads = " ".join(
        f'<a download="{name}.{kind}" href="{link}">{kind.upper()}</a>'
        for kind, link in links.items()
    )
    yield f"<figcaption>{title} ({downloads})</figcaption></figure>"


def _collection(found: Collection) -> Iterator[str]:
    if found.latency:
        yield "<h3>Latency</h3>"
        yield from _table(LATENCY_COLUMNS, latency_rows(found))
        for tool, result in found.latency.items():
            for problem in result.measurement.problems:
                text = html.escape(f"{tool} does not count: {problem}")
                yield f'<p class="warning">{text}</p>'
        last = list(found.latency.values())[-1]
        yield "<h3>What it hangs on</h3>"
        yield from _table(("Condition", "Value"), last.conditions.items())
    if found.network:
        yield "<h3>Network</h3>"
        yield from _table(network.COLUMNS, network.rows(found.network))
    if found.disk:
        yield "<h3>Disk</h3>"
        yield from _table(disk.COLUMNS, disk.rows(found.disk))
    failed = [(each.command, each.problem) for each in found.network]
    failed += [(each.command, each.problem) for each in found.disk]
    for command, problem in failed:
        if problem:
            text = html.escape(f"{command}: {problem}")
            yield f'<p class="warning">{text}</p>'


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
        started = time.strftime(
            "%Y-%m-%d %H:%M UTC", time.gmtime(min(run.started_at, 2**40))
        )
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
    columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> Iterator[str]:
    head = "".join(f"<th>{html.escape(each)}</th>" for each in columns)
    yield f"<table><tr>{head}</tr>"
    for row in rows:
        cells = "".join(f"<td>{html.escape(each)}</td>" for each in row)
        yield f"<tr>{cells}</tr>"
    yield "</table>"
