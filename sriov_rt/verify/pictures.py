# SPDX-License-Identifier: Apache-2.0

"""Pictures of measurements, by matplotlib (the extra ``report``)."""

import dataclasses
import io
import itertools
import logging
import math
import textwrap
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from sriov_rt.verify import disk
from sriov_rt.verify import fio
from sriov_rt.verify import network
from sriov_rt.verify import sockperf
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.errors import PicturesUnavailable
from sriov_rt.verify.measurement import MAX_BUCKETS
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.tools import TOOLS

#: Watermark of an emulated host's pictures.
EMULATED = "emulated host: these figures mean nothing"

#: Formats of each picture.
FORMATS = ("svg", "png")

#: The most CPUs that a picture names; if there are more, the worst ones.
_NAMED = 6

#: The most lines of a legend inside the axes; a longer one is put below.
_WITHIN = 4

#: Characters per line of a title, and the width of a character in the
#: watermark as a part of its size.
_TITLE = 72
_WIDTH = 0.65

_SIZE = (6.4, 4.0)

#: The colour of text and axes, and their colour on a dark page.
_INK = "#1f2328"
_LIGHT = "#e3e6ea"

#: All text and axes have one colour, which a dark page replaces.
_STYLE = {
    **dict.fromkeys(
        (
            *("text.color", "axes.labelcolor", "axes.edgecolor"),
            *("xtick.color", "ytick.color", "legend.labelcolor"),
        ),
        _INK,
    ),
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.fontsize": 8,
}

#: The colours of published figures and of ours.
_PUBLISHED = "#8a9099"
_OURS = "#1f77b4"

#: Only for the SVG: a PNG stays white.
_DARK = f"""
@media screen and (prefers-color-scheme: dark) {{
  [style*="fill: {_INK}"] {{ fill: {_LIGHT} !important }}
  [style*="stroke: {_INK}"] {{ stroke: {_LIGHT} !important }}
  #patch_1 path, [style*="fill: #ffffff"] {{ fill: #16191d !important }}
}}
"""

#: The limit of a latency axis above which it is logarithmic, µs.
_LINEAR_US = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Picture:
    """One picture.

    :param name: name of its files, without an extension.
    :param images: its bytes by format.
    :param wide: whether it is a grid, as wide as a page.
    :param alone: whether it has a row to itself; the pictures after it are
        pairs, such as before and after.
    """

    name: str
    title: str
    images: dict[str, bytes]
    wide: bool = False
    alone: bool = False


def draw(
    collections: Sequence[Collection], *, published: bool = False
) -> Iterator[Picture]:
    """Yield the pictures of measurements.

    :param published: whether to draw published figures, too.
    :raises PicturesUnavailable: without matplotlib.
    """
    _library()
    axes = _latency_axes(collections)
    for tool in TOOLS:
        yield from _overlay(collections, tool, axes)
        for number, each in enumerate(collections):
            if tool in each.latency:
                yield from _histogram(each, tool, number, axes)
        for number, each in enumerate(collections):
            if tool in each.latency:
                yield from _maxima(each, tool, number, axes)
    yield from _throughput(collections, published)
    yield from _requests(collections)
    yield from _onload(collections, published)
    yield from _packets(collections, published)
    yield from _disk(collections, "bandwidth")
    yield from _disk(collections, "mean_us")


@dataclasses.dataclass(frozen=True, slots=True)
class _Limits:
    """Upper limits of the axes in all pictures of latencies.

    :param us: latency in histograms.
    :param samples: number of samples in histograms.
    :param maximum_us: latency of the maxima.
    :param seconds: time of the maxima.
    """

    us: int = 1
    samples: int = 1
    maximum_us: int = 1
    seconds: int = 1


def _latency_axes(collections: Sequence[Collection]) -> _Limits:
    cpus = [
        cpu
        for each in collections
        for result in each.latency.values()
        for cpu in result.measurement.cpus
    ]
    buckets = [each for cpu in cpus for each in cpu.histogram]
    maxima = [each for cpu in cpus for each in cpu.maxima_us]
    return _Limits(
        max([each[0] for each in buckets], default=1),
        # A line of an overlay sums all CPUs.
        max([each[1] for each in buckets], default=1) * max(len(cpus), 1),
        max(maxima, default=1),
        max([len(cpu.maxima_us) for cpu in cpus], default=1),
    )


def _library() -> Any:
    log = logging.getLogger("matplotlib")
    if not log.isEnabledFor(logging.INFO):
        # It warns users without a home directory about its cache.
        log.setLevel(logging.ERROR)
    try:
        import matplotlib as library
        import matplotlib.figure
    except ImportError:
        raise PicturesUnavailable from None
    return library


def _plain(text: str) -> str:
    """Return text escaped so that matplotlib reads no mathematics."""
    return text.replace("$", r"\$")


def _picture(
    name: str,
    title: str,
    emulated: bool,
    paint: Callable[[Any], object],
    size: tuple[float, float] = _SIZE,
) -> Picture:
    library = _library()
    with library.rc_context(_STYLE):
        figure = library.figure.Figure(figsize=size, layout="constrained")
        text = textwrap.fill(title, int(_TITLE * size[0] / _SIZE[0]))
        figure.suptitle(_plain(text), fontsize=11)
        paint(figure)
    if emulated:
        # Along the diagonal, within the picture.
        rotation = min(20.0, math.degrees(math.atan2(size[1], size[0])) / 2)
        length = 0.9 * 72 * size[0] / math.cos(math.radians(rotation))
        figure.text(
            0.5,
            0.5,
            EMULATED,
            color="red",
            alpha=0.3,
            fontsize=min(length / (_WIDTH * len(EMULATED)), 30),
            ha="center",
            va="center",
            rotation=rotation,
            zorder=10,
        )
    images = {}
    for each in FORMATS:
        sink = io.BytesIO()
        # Without a date the same measurement gives the same file.
        metadata = {"Date": None} if each == "svg" else None
        figure.savefig(sink, format=each, dpi=110, metadata=metadata)
        images[each] = sink.getvalue()
    images["svg"] = images["svg"].replace(
        b"</style>", _DARK.encode() + b"</style>", 1
    )
    return Picture(name, title, images, wide=size[0] > _SIZE[0])


def _legend(figure: Any, axes: Any, most: int = _WITHIN) -> None:
    """Add a legend; a long one is placed below the axes."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) <= most:
        axes.legend()
        return
    # As many columns as fit with the longest name.
    columns = max(1, min(4, 90 // (max(map(len, labels)) + 8)))
    figure.legend(handles, labels, ncols=columns, loc="outside lower center")


def _worst(cpus: Sequence[CpuLatency]) -> Iterator[tuple[CpuLatency, bool]]:
    """Yield each CPU and whether it is named; the worst come last."""
    ordered = sorted(cpus, key=lambda cpu: (cpu.max_us, -cpu.cpu))
    others = len(cpus) - _NAMED if len(cpus) > _NAMED else 0
    for number, cpu in enumerate(ordered):
        yield cpu, number >= others


def _style(cpu: CpuLatency, is_named: bool) -> dict[str, Any]:
    """Return colour and label of a CPU's line."""
    if is_named:
        return {"label": f"CPU {cpu.cpu}: max {cpu.max_us} µs"}
    return {"color": _PUBLISHED, "alpha": 0.4}


def _histogram(
    each: Collection, tool: str, n: int, limits: _Limits
) -> Iterator[Picture]:
    """OSADL's plot: a step line per CPU, samples on a logarithmic axis."""
    result = each.latency[tool]
    cpus = [cpu for cpu in result.measurement.cpus if cpu.histogram]
    if not cpus:
        return
    worst = result.measurement.max_us

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for cpu, is_named in _worst(cpus):
            _steps(axes, cpu.histogram, **_style(cpu, is_named))
        _log_axes(axes, limits.us, limits.samples)
        _legend(figure, axes)

    title = f"{each.label}: {tool}, maximum {worst} µs"
    if result.measurement.problems:
        title += " (does not count)"
    yield _picture(f"{n}-{tool}", title, result.emulated, paint)


def _steps(
    axes: Any, histogram: Sequence[tuple[int, ...]], **style: Any
) -> None:
    """Draw the buckets as steps; empty buckets drop below the axis."""
    found = {each[0]: each[1] for each in histogram}
    last = min(max(found), MAX_BUCKETS)
    values = [found.get(x, 0) for x in range(last + 1)]
    # A logarithmic axis has no zero; this value is below the axis.
    axes.stairs(
        [each or 0.5 for each in values],
        [x - 0.5 for x in range(last + 2)],
        baseline=0.5,
        **style,
    )


def _log_axes(axes: Any, limit_us: int, samples: int) -> None:
    axes.set_yscale("log")
    axes.set_ylim(0.8, 2 * samples)
    limit = min(limit_us, MAX_BUCKETS) + 1
    if limit_us > _LINEAR_US:
        axes.set_xscale("log")
        axes.set_xlim(0.8, limit)
    else:
        axes.set_xlim(0, limit)
    axes.set_xlabel("Latency (µs)")
    axes.set_ylabel("Number of samples")


def _maxima(
    each: Collection, tool: str, n: int, limits: _Limits
) -> Iterator[Picture]:
    """The worst of each second, in order."""
    result = each.latency[tool]
    cpus = [cpu for cpu in result.measurement.cpus if cpu.maxima_us]
    if not cpus:
        return

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for cpu, is_named in _worst(cpus):
            axes.plot(
                cpu.maxima_us,
                linewidth=0.9,
                # A single point has no line.
                marker="" if len(cpu.maxima_us) > 1 else ".",
                **_style(cpu, is_named),
            )
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("Time (s)")
        axes.set_ylabel("Maximum of each second (µs)")
        axes.set_xlim(0, max(limits.seconds - 1, 1))
        axes.set_ylim(0, 1.05 * limits.maximum_us)
        _legend(figure, axes)

    title = f"{each.label}: {tool}, maxima over time"
    yield _picture(f"{n}-{tool}-maxima", title, result.emulated, paint)


def _overlay(
    collections: Sequence[Collection], tool: str, limits: _Limits
) -> Iterator[Picture]:
    """All CPUs of each measurement as one line: before and after."""
    found = [
        each
        for each in collections
        if tool in each.latency
        and any(cpu.histogram for cpu in each.latency[tool].measurement.cpus)
    ]
    if len(found) < 2:
        return

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for each in found:
            run = each.latency[tool].measurement
            total: dict[int, int] = {}
            for cpu in run.cpus:
                for latency, count in cpu.histogram:
                    total[latency] = total.get(latency, 0) + count
            label = _plain(f"{each.label}: max {run.max_us} µs")
            _steps(axes, sorted(total.items()), label=label)
        _log_axes(axes, limits.us, limits.samples)
        _legend(figure, axes)

    worst = ", ".join(
        f"{each.label} {each.latency[tool].measurement.max_us} µs"
        for each in found
    )
    title = f"{tool}, all CPUs: maximum {worst}"
    emulated = any(each.latency[tool].emulated for each in found)
    drawn = _picture(f"overlay-{tool}", title, emulated, paint)
    yield dataclasses.replace(drawn, alone=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Bar:
    label: str
    value: float
    error: float = 0.0
    published: bool = False


def _length(error: float) -> float:
    """Return the length of an error bar; a file may contain any number."""
    return error if error > 0 else math.nan


def _bars(
    name: str, title: str, emulated: bool, bars: Sequence[_Bar], unit: str
) -> Picture:
    """Return stacked bars; published figures have another colour."""

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        axes.barh(
            range(len(bars)),
            [each.value for each in bars],
            xerr=[_length(each.error) for each in bars],
            color=[_PUBLISHED if each.published else _OURS for each in bars],
            capsize=3,
            height=0.7,
        )
        labels = [_plain(textwrap.fill(each.label, 40)) for each in bars]
        axes.set_yticks(range(len(bars)), labels, fontsize=8)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.set_xlabel(unit)
        axes.grid(visible=False, axis="y")

    rows = sum(1 + len(each.label) // 40 for each in bars)
    size = (_SIZE[0], max(2.0, 1.2 + 0.27 * rows))
    return _picture(name, title, emulated, paint, size)


def _named(
    collections: Sequence[Collection], *tests: str
) -> list[tuple[str, network.Measured]]:
    """Return the results of tests, each with a unique label."""
    return [
        (
            each.cell.name
            if len(collections) == 1
            else f"{collection.label}, {each.cell.name}",
            each,
        )
        for collection in collections
        for each in network.TABLE.ordered(collection.network)
        if each.cell.test in tests and each.figure is not None
    ]


def _throughput(
    collections: Sequence[Collection], published: bool
) -> Iterator[Picture]:
    found = _named(collections, network.SEND, network.RECEIVE)
    if not found:
        return
    bars = []
    if published:
        bars.append(_Bar("CERN, 10 Gb VF", 9.41, published=True))
    several = len({each.cell.streams for _, each in found}) > 1
    for label, each in found:
        name = f"{label}, {each.cell.test}"
        if several:
            name += f", {_streams(each)}"
        bars.append(_Bar(name, (each.figure or 0) / 1e9, each.error / 1e9))
    yield _bars(
        "throughput",
        "TCP throughput (iperf3)",
        any(each.emulated for _, each in found),
        bars,
        "Gb/s",
    )


def _streams(measured: network.Measured) -> str:
    """Return the number of streams as text."""
    number = measured.cell.streams
    return f"{number} stream{'s' if number > 1 else ''}"


def _requests(collections: Sequence[Collection]) -> Iterator[Picture]:
    found = _named(collections, network.REQUESTS)
    if not found:
        return
    lines: dict[tuple[str, str], list[network.Measured]] = {}
    for label, each in found:
        how = "Onload, " if each.cell.onload else ""
        how += each.tool or sockperf.TOOL
        lines.setdefault((label, how), []).append(each)
    # One colour per name, one dash style per way.
    names = list(dict.fromkeys(name for name, _ in lines))
    ways = list(dict.fromkeys(how for _, how in lines))

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for (name, how), line in lines.items():
            line.sort(key=lambda each: each.cell.streams)
            axes.errorbar(
                [each.cell.streams for each in line],
                [(each.figure or 0) / 1000 for each in line],
                yerr=[_length(each.error / 1000) for each in line],
                color=f"C{names.index(name)}",
                linestyle=("-", "--", "-.", ":")[ways.index(how) % 4],
                marker="o",
                capsize=3,
                label=_plain(f"{name}, {how}"),
            )
        axes.set_xlabel("Streams")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel("Thousand requests and responses a second")
        axes.set_ylim(bottom=0)
        _legend(figure, axes)

    emulated = any(each.emulated for _, each in found)
    title = "Requests and responses over TCP"
    size = (_SIZE[0], _SIZE[1] + 0.1 * max(len(lines) - _WITHIN, 0))
    yield _picture("requests", title, emulated, paint, size)


def _onload(
    collections: Sequence[Collection], published: bool
) -> Iterator[Picture]:
    """Requests over Onload as a multiple of the kernel's."""
    found = _named(collections, network.REQUESTS)
    kernel = {
        (label, each.cell, each.tool): each.figure
        for label, each in found
        if not each.cell.onload
    }
    bars = []
    for label, each in found:
        other = dataclasses.replace(each.cell, onload=False)
        base = kernel.get((label, other, each.tool))
        if each.cell.onload and base:
            name = f"{label}, {_streams(each)}"
            bars.append(_Bar(name, (each.figure or 0) / base))
    if not bars:
        return
    if published:
        bars = [
            _Bar("Solarflare, 1 stream", 8, published=True),
            _Bar("Solarflare, 36 streams", 15, published=True),
            *bars,
        ]
    yield _bars(
        "onload",
        "Requests over Onload, as a multiple of the kernel's",
        any(each.emulated for _, each in found),
        bars,
        "× kernel",
    )


def _packets(
    collections: Sequence[Collection], published: bool
) -> Iterator[Picture]:
    found = _named(collections, network.PACKETS)
    if not found:
        return
    bars = []
    if published:
        bars = [
            _Bar("SLTechnology, X520 VF, sent", 3.5, published=True),
            _Bar("SLTechnology, X520 VF, received", 1.9, published=True),
        ]
    for label, each in found:
        bars += [
            _Bar(f"{label}, sent", (each.figure or 0) / 1e6),
            _Bar(f"{label}, received", (each.received or 0) / 1e6),
        ]
    yield _bars(
        "packets",
        "Packets of 64 bytes (pktgen)",
        any(each.emulated for _, each in found),
        bars,
        "Mpps",
    )


def _disk(collections: Sequence[Collection], what: str) -> Iterator[Picture]:
    """Axes for each pattern, with clients and a bar or line per place."""
    found = [
        (
            each.cell.place
            if len(collections) == 1
            else f"{collection.label}, {each.cell.place}",
            each,
        )
        for collection in collections
        for each in disk.TABLE.ordered(collection.disk)
        if each.cell.suite == disk.MATRIX
        and each.figures is not None
        and each.cell.job.pattern in fio.PATTERNS
    ]
    if not found:
        return
    cells = {
        (label, each.cell.job.pattern, each.cell.clients): each.figures
        for label, each in found
        if each.figures
    }
    places = list(dict.fromkeys(label for label, _ in found))
    patterns = [
        pattern
        for pattern in fio.PATTERNS
        if any(pattern == each for _, each, _ in cells)
    ]
    clients = sorted({each.cell.clients for _, each in found})
    columns = min(2, len(patterns))
    rows = -(-len(patterns) // columns)

    def paint(figure: Any) -> None:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, pattern in itertools.zip_longest(grid.flat, patterns):
            if pattern is None:
                axes.set_axis_off()
                continue
            for number, place in enumerate(places):
                series = [
                    (at, cells[place, pattern, count])
                    for at, count in enumerate(clients)
                    if (place, pattern, count) in cells
                ]
                draw = _bandwidth if what == "bandwidth" else _latency
                draw(axes, _plain(place), number, len(places), series)
            axes.set_title(pattern, fontsize=9)
            axes.set_xticks(range(len(clients)), map(str, clients))
            axes.set_xlim(-0.6, len(clients) - 0.4)
            axes.set_xlabel("Clients")
            axes.grid(visible=False, axis="x")
            if what == "bandwidth":
                axes.set_ylim(bottom=0)
        _legend(figure, grid.flat[0], 0)

    title = {
        "bandwidth": "Disk bandwidth (fio)",
        "mean_us": "Disk completion latency, mean (fio)",
    }[what]
    emulated = any(each.emulated for _, each in found)
    size = (11.0 if columns > 1 else _SIZE[0], 1.0 + 2.4 * rows)
    yield _picture(f"disk-{what}", title, emulated, paint, size)


#: Series of a disk picture: positions on the axis, and figures.
_Series = Sequence[tuple[int, fio.Figures]]


def _bandwidth(
    axes: Any, label: str, number: int, count: int, series: _Series
) -> None:
    width = min(0.8 / count, 0.4)
    axes.bar(
        [at + width * (number - (count - 1) / 2) for at, _ in series],
        [each.bandwidth / 1e6 for _, each in series],
        width,
        yerr=[_length(each.error / 1e6) for _, each in series],
        label=label,
        capsize=2,
    )
    axes.set_ylabel("MB/s")


def _latency(
    axes: Any, label: str, number: int, count: int, series: _Series
) -> None:
    # Points rather than bars: it grows by orders of magnitude with clients.
    at = [at for at, _ in series]
    axes.plot(at, [x.mean_us / 1e3 for _, x in series], "o-", label=label)
    axes.set_yscale("log")
    axes.set_ylabel("ms")
