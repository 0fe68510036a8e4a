# SPDX-License-Identifier: Apache-2.0

"""State of a cpuset partition, ``cpuset.cpus.partition`` of cgroup v2."""

import re

from sriov_rt.parse import errors

#: The state of a cgroup whose CPUs are not load-balanced by the scheduler.
ISOLATED = "isolated"

#: The states of a cgroup with exclusive CPUs.
OWN = frozenset({"root", ISOLATED})

#: The longest accepted text, in characters. The kernel's longest reason
#: (perr_strings in kernel/cgroup/cpuset.c) has some 60.
MAX_TEXT = 256

_STATE = re.compile(
    r"member|(?:root|isolated)(?: invalid(?: \([ -~]{1,200}\))?)?"
)


def parse_partition(text: str) -> str:
    """Return the state of a partition, such as ``isolated``.

    The state of an invalid one is ``isolated invalid`` or ``root invalid``,
    with the kernel's reason in parentheses (Linux 5.19).

    :raises ParseError: for a text that no kernel writes.
    """
    errors.check_length("partition", text, MAX_TEXT)
    if _STATE.fullmatch(text) is None:
        raise errors.ParseError("partition", text, "not a partition's state")
    return text
