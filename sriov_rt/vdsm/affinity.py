# SPDX-License-Identifier: Apache-2.0

"""CPU affinity of a hook, which excludes isolated CPUs."""

import os

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import parse_cpu_list

_CPUS = "sys/devices/system/cpu"


def keep_to_housekeeping(root: Root) -> frozenset[int]:
    """Keep this process and its children off isolated CPUs.

    Call it first, so that our work does not disturb a realtime guest.

    :returns: the CPUs that it may run on; empty if nothing was changed.
    """
    isolated = root.read_text(f"{_CPUS}/isolated")
    online = root.read_text(f"{_CPUS}/online")
    if isinstance(isolated, Unknown) or isinstance(online, Unknown):
        return frozenset()
    try:
        cpus = parse_cpu_list(online.strip())
        if isolated.strip():
            cpus -= parse_cpu_list(isolated.strip())
        if not cpus:
            return frozenset()
        os.sched_setaffinity(0, cpus)
    except (errors.ParseError, OSError):
        # A container's cpuset may allow none of them, which is no error.
        return frozenset()
    return frozenset(cpus)
