# SPDX-License-Identifier: Apache-2.0

"""iperf3: throughput of TCP in one direction."""

import math
import statistics
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.tool_json import number
from sriov_rt.verify.tool_json import table

TOOL = "iperf3"
PACKAGE = "iperf3"

#: CERN's parameters: seconds left out at the start, and seconds measured.
OMIT_S = 3
DURATION_S = 20

#: The longest output, in bytes; 20 seconds take 30 kB.
MAX_OUTPUT = 16 * 1024 * 1024

#: The most intervals of a run, one second each.
_MAX_INTERVALS = 100_000


def server(address: str, port: int) -> tuple[str, ...]:
    """Return the command line of a server."""
    return (TOOL, "--server", f"--bind={address}", f"--port={port}")


def command(
    address: str, port: int, duration_s: int, *, reverse: bool
) -> tuple[str, ...]:
    """Return the command line of a client.

    :param reverse: whether the server sends.
    """
    return (
        TOOL,
        f"--client={address}",
        f"--port={port}",
        f"--omit={OMIT_S}",
        f"--time={duration_s}",
        *(("--reverse",) if reverse else ()),
        "--json",
    )


def complaint(output: bytes) -> str:
    """Return the error in iperf3's JSON; empty if it is not JSON.

    After an error, versions before 3.16 exit with 0, later ones with 1.
    """
    try:
        found = documents.plain(output, MAX_OUTPUT)
    except codec.SchemaError:
        return ""
    return _said(found) if type(found) is dict else ""


def _said(found: Mapping[str, Any]) -> str:
    return str(found.get("error", ""))[:200]


def parse(output: bytes, duration_s: int) -> tuple[str, float, float]:
    """Return the version, the bits received per second, and their error.

    The error is the standard error of the mean of the seconds.

    :raises RunFailed: if iperf3 reports an error.
    :raises OutputInvalid: if it is not in the format of iperf3 3.x.
    """
    try:
        found = documents.plain(output, MAX_OUTPUT)
    except codec.SchemaError as error:
        raise OutputInvalid(TOOL, error.problem) from None
    if type(found) is not dict:
        raise OutputInvalid(TOOL, "object expected")
    if "error" in found:
        raise RunFailed(TOOL, _said(found))
    version = table(TOOL, found, "start").get("version")
    if type(version) is not str or len(version) > 64:
        raise OutputInvalid(TOOL, "no version in it")
    received = table(TOOL, table(TOOL, found, "end"), "sum_received")
    seconds = number(TOOL, received, "seconds")
    if seconds < 0.99 * duration_s:
        raise OutputInvalid(TOOL, f"{seconds:.0f} s of {duration_s} s")
    bits = number(TOOL, received, "bits_per_second")
    return version, bits, _error(found.get("intervals"))


def _error(intervals: object) -> float:
    """Return the standard error of the throughput of each second."""
    if type(intervals) is not list or len(intervals) > _MAX_INTERVALS:
        raise OutputInvalid(TOOL, "intervals")
    seconds = []
    for each in intervals:
        total = table(TOOL, each, "sum") if type(each) is dict else {}
        if not total.get("omitted"):
            seconds.append(number(TOOL, total, "bits_per_second"))
    if len(seconds) < 2:
        return 0.0
    return statistics.stdev(seconds) / math.sqrt(len(seconds))
