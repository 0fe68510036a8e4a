# SPDX-License-Identifier: Apache-2.0

"""The data path of ports, beside the bare VF, a bridge and a veth.

The figures that the seeds have published stand beside ours. To measure for
as long as seed 000 does, set ``SRIOV_RT_IPERF_SECONDS`` to 20; the median of
more turns, ``SRIOV_RT_TURNS``, says more of parity on an emulated machine.
"""

import os
from typing import Any

from tests.benchmarks import machine
from tests.benchmarks.measure import PARITY
from tests.benchmarks.measure import row

NOTE = machine.NOTE

#: Of each turn of iperf3.
SECONDS = os.environ.get("SRIOV_RT_IPERF_SECONDS", "2")

#: Of each subject.
TURNS = os.environ.get("SRIOV_RT_TURNS", "2")


def published() -> list[dict[str, Any]]:
    """Return the seeds' own rows, measured on an X520 of 10 Gbit/s."""
    return [
        # Of 9.41 and 9.43 at the two ends, and 9.41 and 9.40.
        row(
            "seed 000: iperf3 -O 3 -t 20, container's VF / host",
            9.43,
            "Gbit/s",
            peer=9.40,
            target=PARITY,
        ),
        # It is 677 % more than with a bridge and a VLAN.
        row(
            "seed 001: 64 B sent, VF / tap and bridge",
            3.5,
            "Mpps",
            peer=3.5 / 7.77,
        ),
        # Of three senders: 171 % more; it does not say from what.
        row(
            "seed 001: 64 B received, VF / tap and bridge",
            2.71,
            "times",
            peer=1.0,
        ),
    ]


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    asked = ("--seconds", SECONDS, "--turns", TURNS)
    return machine.measure("path", *asked) + published()
