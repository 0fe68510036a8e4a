# SPDX-License-Identifier: Apache-2.0

"""The program that claims pCPUs for vdsm's user, as root by sudo.

Its arguments are a VM's UUID and pCPUs; without pCPUs it ends the VM's claim.
It prints the pCPUs of others; if the VM's are among them, nothing is claimed.
"""

import sys
from collections.abc import Sequence

from sriov_rt import exceptions
from sriov_rt.guest.claims import Claims
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import parse_cpu_list


def main(
    arguments: Sequence[str] | None = None, root: Root | None = None
) -> int:
    """Claim pCPUs, and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    guest, text, *_ = [*words, "", ""]
    try:
        pins = parse_cpu_list(text) if text else CpuSet()
        theirs = Claims(root or Root()).claim(guest, pins)
    except (errors.ParseError, exceptions.SriovRtError, OSError) as error:
        print(f"sriov-rt: {error}", file=sys.stderr)
        return 1
    print(format_cpu_list(theirs))
    return 0
