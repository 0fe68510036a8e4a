# SPDX-License-Identifier: Apache-2.0

"""netperf: requests and responses over TCP, as in published measurements.

Debian has it only in non-free. Unless it is installed at both ends, sockperf
is used instead.
Its TCP_RR has requests and responses of 1 byte and counts them; it does not
measure the latency of each.
"""

import re
import shutil
from collections.abc import Sequence

from sriov_rt.verify.errors import OutputInvalid

TOOL = "netperf"
SERVER = "netserver"

MAX_OUTPUT = 64 * 1024

#: Sizes of both socket buffers, of a request and of a response, seconds, and
#: transactions a second.
_RATE = re.compile(
    rb"^\d{1,10} +\d{1,10} +(\d{1,9}) +(\d{1,9}) +"
    rb"(\d{1,9}\.\d{1,9}) +(\d{1,12}\.\d{1,9}) *$",
    re.MULTILINE,
)

_VERSION = re.compile(rb"^Netperf version (\S{1,60})", re.MULTILINE)


def serves() -> bool:
    """Return whether its server is installed here."""
    return shutil.which(SERVER) is not None


def measures() -> bool:
    """Return whether its client is installed here."""
    return shutil.which(TOOL) is not None


def server(address: str, port: int) -> tuple[str, ...]:
    """Return the command line of the server, which serves all streams.

    With ``-N`` it writes no file with a predictable name in ``/tmp``.
    """
    return (SERVER, "-D", "-N", "-4", "-L", address, "-p", str(port))


def command(address: str, port: int, duration_s: int) -> tuple[str, ...]:
    """Return the command line of a stream."""
    return (
        TOOL,
        "-4",
        "-H",
        address,
        "-p",
        str(port),
        "-t",
        "TCP_RR",
        "-l",
        str(duration_s),
        "-P",
        "0",
    )


def version(output: bytes) -> str:
    """Return the version in the output of ``netperf -V``; empty if none."""
    found = _VERSION.search(output)
    return found[1].decode(errors="replace") if found else ""


def parse(outputs: Sequence[bytes], duration_s: int) -> float:
    """Return the transactions a second of all streams.

    :param outputs: output of each stream; at least one.
    :raises OutputInvalid: if one is not in the format of netperf 2, or its
        run ended early.
    """
    rate = 0.0
    for output in outputs:
        if len(output) > MAX_OUTPUT:
            raise OutputInvalid(TOOL, f"longer than {MAX_OUTPUT} bytes")
        found = _RATE.search(output)
        if found is None:
            raise OutputInvalid(TOOL, "no rate in it")
        if (found[1], found[2]) != (b"1", b"1"):
            raise OutputInvalid(TOOL, "requests of another size than 1 byte")
        seconds, transactions = float(found[3]), float(found[4])
        if not transactions or seconds < 0.9 * duration_s:
            raise OutputInvalid(
                TOOL, f"{transactions:.0f} a second in {seconds:.1f} s"
            )
        rate += transactions
    return rate
