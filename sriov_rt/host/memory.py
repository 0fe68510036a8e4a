# SPDX-License-Identifier: Apache-2.0

"""Memory management, from ``/sys/kernel/mm`` and the NUMA nodes."""

import re

from sriov_rt.codec import Unknown
from sriov_rt.facts import HugePages
from sriov_rt.facts import MemoryFacts
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import errors

MM = "sys/kernel/mm"
THP = f"{MM}/transparent_hugepage/enabled"
KSM = f"{MM}/ksm/run"
NODE = "sys/devices/system/node"
SWAPS = "proc/swaps"
#: zram-generator(8)
ZRAM_GENERATOR = "usr/lib/systemd/system-generators/zram-generator"

_NODE_NAME = re.compile(r"node([0-9]{1,5})")
_POOL_NAME = re.compile(r"hugepages-([0-9]{1,12})kB")
_THP_CHOICES = ("always", "madvise", "never")


def observe(root: Root) -> MemoryFacts:
    """Return the settings of huge pages, KSM and swap.

    In a kernel built without THP or KSM they count as off.
    """
    swap = values.unless_absent(
        root,
        SWAPS,
        values.parsed(root, SWAPS, _swaps),
        (),
        beside="proc/sys/kernel/osrelease",
    )
    return MemoryFacts(
        thp=values.unless_absent(
            root, THP, values.parsed(root, THP, _chosen), "never", beside=MM
        ),
        ksm_run=values.unless_absent(
            root, KSM, values.integer(root, KSM, 0, 2), 0, beside=MM
        ),
        hugepages=_hugepages(root),
        swap=swap,
        zram_generator=(
            swap if isinstance(swap, Unknown) else root.exists(ZRAM_GENERATOR)
        ),
    )


def _swaps(text: str) -> tuple[str, ...]:
    """Return the first column of the table, without its header line."""
    head, *rows = text.split("\n")
    if not head.startswith("Filename"):
        raise errors.ParseError("swaps", text, "a line 'Filename …' expected")
    return tuple(row.split()[0] for row in rows if row.strip())


def _chosen(text: str) -> str:
    """Return the word in brackets of ``always [madvise] never``."""
    for word in _THP_CHOICES:
        if f"[{word}]" in text.split():
            return word
    raise errors.ParseError(
        "setting", text, f"one of {', '.join(_THP_CHOICES)} in brackets"
    )


def _hugepages(root: Root) -> tuple[HugePages, ...] | Unknown:
    """Return the pools by node and size; without NUMA, those of node 0."""
    nodes = root.list_dir(NODE)
    if not isinstance(nodes, Unknown):
        matches = [m for m in map(_NODE_NAME.fullmatch, nodes) if m]
        directories = {
            int(match[1]): f"{NODE}/{match[0]}/hugepages" for match in matches
        }
    elif root.exists(NODE) is False and root.exists(MM) is True:
        directories = {0: f"{MM}/hugepages"}
    else:
        return nodes
    pools: list[HugePages] = []
    for node, directory in sorted(directories.items()):
        found = _pools(root, node, directory)
        if isinstance(found, Unknown):
            return found
        pools += found
    return tuple(pools)


def _pools(root: Root, node: int, directory: str) -> list[HugePages] | Unknown:
    names = root.list_dir(directory)
    if isinstance(names, Unknown):
        # A kernel without hugetlbfs has no such directory.
        return [] if root.exists(directory) is False else names
    pools = []
    for name in names:
        if match := _POOL_NAME.fullmatch(name):
            total = values.integer(root, f"{directory}/{name}/nr_hugepages")
            if isinstance(total, Unknown):
                return total
            pools.append(HugePages(node, int(match[1]), total))
    return sorted(pools, key=lambda pool: pool.size_kib)
