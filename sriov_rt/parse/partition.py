# SPDX-License-Identifier: Apache-2.0

"""State of a cpuset partition, ``cpuset.cpus.partition`` of cgroup v2."""

import re

from sriov_rt.parse import errors

#: The state of a cgroup whose CPUs leave the scheduler's load balancing.
ISOLATED = "isolated"

#: The states of a cgroup that has its CPUs for itself.
OWN = frozenset({"root", ISOLATED})

#: The longest text taken, in characters. The longest reason of the kernel
#: (perr_strings in kernel/cgroup/cpuset.c) has some 60.
MAX_TEXT = 256

_STATE = re.compile(
    r"member|(?:root|isolated)(?: invalid(?: \([ -~]{1,200}\))?)?"
)


def parse_partition(text: str) -> str:
    """Return the state of a partition, such as ``isolated``.

    One that cannot be in force is ``isolated invalid`` or ``root invalid``,
    with the kernel's reason in parentheses (Linux 5.19).

    :raises ParseError: for a text that no kernel writes.
    """
    errors.check_length("partition", text, MAX_TEXT)
    if _STATE.fullmatch(text) is None:
        raise errors.ParseError("partition", text, "not a partition's state")
    return text
