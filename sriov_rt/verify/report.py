# SPDX-License-Identifier: Apache-2.0

"""A report of measurements as one self-contained page."""

import base64
import dataclasses
import pathlib
import re
import time
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TypeVar

from sriov_rt.parse import cpulist
from sriov_rt.parse import duration
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import breach
from sriov_rt.verify import disk
from sriov_rt.verify import matrix
from sriov_rt.verify import network
from sriov_rt.verify import pktgen
from sriov_rt.verify import sockperf
from sriov_rt.verify import summary
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.errors import PicturesUnavailable
from sriov_rt.verify.pictures import Picture

M = TypeVar("M", bound=matrix.Measured)

EMULATED = (
    "Measured on a host that is itself a virtual machine: these figures mean "
    "nothing, and say nothing of any hardware."
)

_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """Table of a page, below a heading.

    :param columns: names of the columns; a row has a text for each.
    :param warnings: sentences below the table.
    :param is_folded: whether it is shown only on request, and not printed.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    warnings: Sequence[str] = ()
    is_folded: bool = False


def page(
    collections: Sequence[Collection],
    pictures: Sequence[Picture],
    made: str,
    *,
    published: bool = False,
) -> str:
    """Return the page as HTML with embedded pictures.

    :param made: when and by what it was made, a sentence.
    :param published: whether to show published figures, too.
    :raises PicturesUnavailable: without jinja2.
    """
    try:
        import jinja2
    except ImportError:
        raise PicturesUnavailable from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["number"] = _NUMBER.fullmatch
    return environment.get_template("report.html.j2").render(
        title="Measurements: " + ", ".join(each.label for each in collections),
        made=made,
        emulated=EMULATED
        if any(each.emulated for each in collections)
        else "",
        verdicts=[
            (each.label, verdict)
            for each in collections
            if (verdict := summary.of(each)) is not None
        ],
        facts=Section(
            "",
            ("", *(each.label for each in collections)),
            list(_side_by_side(collections)),
        ),
        pictures=[(each, dict(_links(each))) for each in pictures],
        collections=[
            (each.label, list(_sections(each, published)))
            for each in collections
        ],
        narrow=_NARROW,
    )


def _side_by_side(
    collections: Sequence[Collection],
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each fact, with a column for each measurement."""
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
    # The versions of iperf3 and fio include their names.
    names = {network.REQUESTS: sockperf.TOOL, network.PACKETS: pktgen.TOOL}
    for each in found.network:
        name = each.tool or names.get(each.cell.test, "")
        tools.append(f"{name} {each.version}" if each.version else "")
    tools += [each.version for each in found.disk]
    first, last = _date(min(times)), _date(max(times))
    yield "Measured", first if first == last else f"{first} to {last}"
    kernels = [each.conditions.get("kernel release", "") for each in latency]
    kernels += [each.kernel for each in others]
    known = [each.conditions for each in latency]
    for name, values in (
        ("PREEMPT_RT", [summary.preemption(each) for each in known]),
        ("Isolated CPUs", [each.get("isolated CPUs", "") for each in known]),
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
    # A file may contain any number.
    found = time.gmtime(min(max(seconds, 0), 2**40))
    return time.strftime("%Y-%m-%d %H:%M UTC", found)


def _links(picture: Picture) -> Iterator[tuple[str, str]]:
    """Yield each format of a picture, with the picture as a data link."""
    for kind, data in picture.images.items():
        text = base64.b64encode(data).decode("ascii")
        yield kind, f"data:{_TYPES[kind]};base64,{text}"


def _sections(found: Collection, published: bool) -> Iterator[Section]:
    for ticket in found.breaches:
        yield Section(
            "Latency above the bound",
            ("What", "Value"),
            list(breach.rows(ticket)),
        )
    if found.latency:
        yield from _latency(found)
    yield from _cells("Network", network.TABLE, found.network, published)
    yield from _cells("Disk", disk.TABLE, found.disk, published)
    commands = [run.measurement.command for run in found.latency.values()]
    commands += [each.command for each in found.network if each.command]
    commands += [each.command for each in found.disk if each.command]
    rows = [(each,) for each in dict.fromkeys(commands)]
    yield Section("Commands", ("Command",), rows, is_folded=True)


def _cells(
    name: str, table: matrix.Table[M], found: Sequence[M], published: bool
) -> Iterator[Section]:
    if not found:
        return
    hidden = {matrix.SAME_WAY}
    if not published:
        hidden.add(matrix.PUBLISHED)
    places = [
        place for place, each in enumerate(table.names) if each not in hidden
    ]
    rows = [[row[each] for each in places] for row in table.rows(found)]
    yield Section(
        name,
        [table.names[each] for each in places],
        rows,
        [
            *(
                f"{x.cell.file} failed: {x.problem}"
                for x in found
                if x.problem
            ),
            *(table.remarks(found) if published else ()),
        ],
        is_folded=len(rows) > _LONG,
    )


def _latency(found: Collection) -> Iterator[Section]:
    runs = [(tool, x, x.measurement) for tool, x in found.latency.items()]
    yield Section(
        "Latency",
        ("Tool", "Version", "CPUs", "Max µs", "Duration", "Load", "Started"),
        [
            (
                tool,
                run.version,
                cpulist.format_cpu_list(CpuSet(x.cpu for x in run.cpus)),
                str(run.max_us),
                duration.format_duration(int(run.duration_s)),
                result.load,
                _date(run.started_at),
            )
            for tool, result, run in runs
        ],
        [
            *(
                f"{tool} does not count: {problem}"
                for tool, _, run in runs
                for problem in run.problems
            ),
            *(
                f"{tool}: {each.of_sample}"
                for tool, _, run in runs
                for each in run.culprits
            ),
        ],
    )
    yield Section(
        "Latency of each CPU",
        ("Tool", "CPU", "Max µs", "Samples"),
        [
            (tool, str(x.cpu), str(x.max_us), str(x.samples))
            for tool, _, run in runs
            for x in run.cpus
        ],
        is_folded=True,
    )
    yield Section(
        "Conditions of the latency",
        ("Condition", "Value"),
        list(summary.rows(runs[-1][1].conditions)),
        is_folded=True,
    )


#: The most columns that fit on a telephone's screen, and the most rows of a
#: table that is not folded.
_NARROW = 3
_LONG = 24

#: A number, with a unit or without one.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(/s| [A-Za-z%/µ]{1,4})?")
