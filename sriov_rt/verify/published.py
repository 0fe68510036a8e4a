# SPDX-License-Identifier: Apache-2.0

"""Published measurements that ours may be compared with."""

from collections.abc import Iterable
from collections.abc import Iterator

CERN = "CERN openlab and Intel 2016"
VF_PASSTHROUGH = "SLTechnology 2025"
STACKHPC = "StackHPC"
SOLARFLARE = "Solarflare and Red Hat"

#: Publications by their names in tables and pictures.
SOURCES = {
    CERN: (
        "Single-Root Input/Output Virtualization (SR-IOV) with Linux "
        "Containers; Intel X520, 10 Gb Ethernet at MTU 1500, "
        "https://software.intel.com/en-us/articles/"
        "single-root-inputoutput-virtualization-sr-iov-with-linux-containers"
    ),
    VF_PASSTHROUGH: (
        "SRIOV introduction, VF pass-through configuration, and packet "
        "forwarding rate performance test; a VF of an Intel X520"
    ),
    STACKHPC: (
        "Disk I/O Performance of Kata Containers, "
        "https://www.stackhpc.com/kata-io-1.html"
    ),
    SOLARFLARE: (
        "Cloud Onload Operator on OpenShift: netperf between two 100 Gb NICs "
        "back to back"
    ),
}


def remarks(
    found: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """Yield the sources of published figures, and the differences from ours.

    :param found: source and "same way" of each row that has a published
        figure; the latter is "yes" if it was measured as published.
    """
    ways: dict[str, dict[str, int]] = {}
    for source, way in found:
        counts = ways.setdefault(source, {})
        counts[way] = counts.get(way, 0) + 1
    for source, counts in ways.items():
        yield f"{source}: {SOURCES[source]}"
        for way, count in counts.items():
            rows = f"{count} row{'' if count == 1 else 's'}"
            if way == "yes":
                yield f"  {rows} measured in the same way"
            else:
                otherwise = way.removeprefix("no: ")
                yield f"  {rows} measured otherwise: {otherwise}"
