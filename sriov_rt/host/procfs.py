# SPDX-License-Identifier: Apache-2.0

"""Processes of the host and their threads, from procfs.

Processes and threads that end during the look are left out.
"""

import itertools

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.facts import CpuSet
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import process

#: The most threads of one process, and processes of a host, that are read.
MAX_THREADS = 4096
MAX_PROCESSES = 65536


def numbers(root: Root, directory: str, most: int = MAX_THREADS) -> list[str]:
    """Return the entries of a directory that are numbers.

    :param directory: such as ``proc/4711/task``, below the root.
    :param most: the most entries that are returned.
    """
    names = root.list_dir(directory)
    if isinstance(names, Unknown):
        return []
    found = (each for each in names if each.isascii() and each.isdigit())
    return list(itertools.islice(found, most))


def stat(root: Root, path: str) -> process.Stat | None:
    """Return the ``stat`` of a process or thread; None if it has ended."""
    return known_or(values.parsed(root, path, process.parse_stat), None)


def allowed(root: Root, path: str) -> CpuSet | None:
    """Return the CPUs of the ``status`` of a thread; None if unknown."""
    fields = values.parsed(root, path, process.parse_status)
    if isinstance(fields, Unknown):
        return None
    try:
        return cpulist.parse_cpu_list(fields.get("Cpus_allowed_list", ""))
    except errors.ParseError:
        return None
