# SPDX-License-Identifier: Apache-2.0

"""Results of several measurements, read from their directories."""

import dataclasses
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.parse.text import printable
from sriov_rt.verify import breach
from sriov_rt.verify import disk
from sriov_rt.verify import network
from sriov_rt.verify import results
from sriov_rt.verify.errors import NothingMeasured
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.results import Result
from sriov_rt.verify.tools import TOOLS


@dataclasses.dataclass(frozen=True, slots=True)
class Collection:
    """Results of one directory.

    :param label: for people: the directory's name, or more of its path where
        two have the same name.
    """

    label: str
    latency: Mapping[str, Result]
    disk: tuple[disk.Measured, ...]
    network: tuple[network.Measured, ...]
    breaches: tuple[breach.Breach, ...] = ()

    @property
    def emulated(self) -> bool:
        """Whether any result was measured on an emulated host."""
        return (
            any(each.emulated for each in self.latency.values())
            or any(each.emulated for each in self.disk)
            or any(each.emulated for each in self.network)
            or any(each.emulated for each in self.breaches)
        )


def read(directories: Iterable[pathlib.Path]) -> list[Collection]:
    """Return the results of directories, in the same order.

    Other files are ignored.

    :raises NothingMeasured: if a directory has no results.
    """
    paths = list(directories)
    names = [each.absolute().name for each in paths]
    found = []
    for path, name in zip(paths, names, strict=True):
        label = printable(name if names.count(name) == 1 else str(path))
        collection = Collection(
            label,
            dict(_latency(path)),
            tuple(disk.Target(path).all()),
            tuple(network.Results(path).all()),
            breach.every(path),
        )
        if not any(
            (
                collection.latency,
                collection.disk,
                collection.network,
                collection.breaches,
            )
        ):
            raise NothingMeasured(str(path))
        found.append(collection)
    return found


def _latency(directory: pathlib.Path) -> Iterator[tuple[str, Result]]:
    for tool in TOOLS:
        found = results.read(directory / f"{tool}.json")
        if found is not None and found.step.tool == tool:
            yield tool, found


#: Characters of the longest bar, and rows of a histogram.
_WIDTH = 50
_ROWS = 16


def histogram(cpu: CpuLatency) -> Iterator[str]:
    """Yield the histogram of a CPU as lines of text, its bars logarithmic.

    The last line counts the samples above the last bucket.
    """
    if not cpu.histogram:
        return
    least, most = cpu.histogram[0][0], cpu.histogram[-1][0]
    width = -(-(most - least + 1) // _ROWS)
    counts: dict[int, int] = {}
    for latency, count in cpu.histogram:
        start = least + (latency - least) // width * width
        counts[start] = counts.get(start, 0) + count
    rows = [
        (f"{start}-{start + width - 1}" if width > 1 else str(start), count)
        for start, count in counts.items()
        if count
    ]
    if cpu.overflows > 0:
        rows.append((f">{most}", cpu.overflows))
    longest = max((len(str(count)) for _, count in rows), default=1)
    for label, count in rows:
        # Each further digit makes the bar longer by the same step.
        size = len(str(count)) - 1 + count / 10 ** len(str(count))
        bar = "#" * max(1, round(_WIDTH * size / longest))
        yield f"{label:>12} µs {count:>14,} {bar}"


def latency_text(found: Collection) -> Iterator[str]:
    """Yield the latencies of a measurement as lines of text."""
    for tool, result in found.latency.items():
        for cpu in result.measurement.cpus:
            yield f"{tool}, CPU {cpu.cpu}: maximum {cpu.max_us} µs"
            yield from histogram(cpu)
        for problem in result.measurement.problems:
            yield f"{tool}: does not count: {problem}"
        for each in result.measurement.culprits:
            yield f"{tool}: {each.of_sample}"
