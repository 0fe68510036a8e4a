# SPDX-License-Identifier: Apache-2.0

"""Processes of the host and their threads, from procfs.

What ends meanwhile is left out.
"""

import itertools
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts.guests import OtherThread
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import process

#: Threads of one process, and processes of a host, that are looked at.
MAX_THREADS = 4096
MAX_PROCESSES = 65536


def on_cpus(
    root: Root, owners: Mapping[int, str], cpus: CpuSet
) -> Iterator[OtherThread]:
    """Yield threads that ran on some CPUs last.

    :param owners: each process of a guest, to its instance.
    """
    if not cpus:
        return
    for name in numbers(root, "proc", MAX_PROCESSES):
        instance = owners.get(int(name), "")
        directory = f"proc/{name}/task"
        for thread in numbers(root, directory):
            found = stat(root, f"{directory}/{thread}/stat")
            if found is None:
                continue  # it has ended meanwhile
            if found.is_kernel:
                # Those of each CPU belong there.
                break
            if found.cpu in cpus:
                yield OtherThread(
                    found.thread, found.name, found.cpu, instance
                )


def numbers(root: Root, directory: str, most: int = MAX_THREADS) -> list[str]:
    """Return the entries of a directory that are numbers.

    :param directory: such as ``proc/4711/task``, below the root.
    :param most: of them.
    """
    names = root.list_dir(directory)
    if isinstance(names, Unknown):
        return []
    found = (each for each in names if each.isascii() and each.isdigit())
    return list(itertools.islice(found, most))


def stat(root: Root, path: str) -> process.Stat | None:
    """Return the ``stat`` of a process or thread; None if it has ended."""
    found = values.parsed(root, path, process.parse_stat)
    return None if isinstance(found, Unknown) else found


def allowed(root: Root, path: str) -> CpuSet | None:
    """Return the CPUs of the ``status`` of a thread; None if unknown."""
    fields = values.parsed(root, path, process.parse_status)
    if isinstance(fields, Unknown):
        return None
    try:
        return cpulist.parse_cpu_list(fields.get("Cpus_allowed_list", ""))
    except errors.ParseError:
        return None
