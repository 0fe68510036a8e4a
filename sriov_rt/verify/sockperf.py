# SPDX-License-Identifier: Apache-2.0

"""sockperf: requests and responses over TCP, one process per stream.

It is used where netperf is not installed. Its ping-pong is like netperf's
TCP_RR, with messages of 14 bytes instead of 1, and reports the latency of
half a round trip.
"""

import math
import re
from collections.abc import Sequence

from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed

TOOL = "sockperf"
PACKAGE = "sockperf"

#: Bytes of a message: the least that fits sockperf's header.
MESSAGE = 14

MAX_OUTPUT = 1024 * 1024

_VERSION = re.compile(r"version #(\S{1,60})")
_VALID = re.compile(
    r"\[Valid Duration\] RunTime=(\d{1,9}\.\d{1,9}) sec; "
    r"SentMessages=(\d{1,15}); ReceivedMessages=(\d{1,15})\b"
)
_MEAN = re.compile(
    r"avg-latency=(\d{1,12}\.\d{1,9}) "
    # From 3.8 on, other measures of dispersion follow.
    r"\(std-dev=(\d{1,12}\.\d{1,9})[,)]"
)
#: The line of versions before 3.6.
_OLD_MEAN = re.compile(r"avg-lat= *\d")
_ERROR = re.compile(r"^sockperf: ERROR: (.{1,200})", re.MULTILINE)
_P99 = re.compile(r"percentile 99\.000 =\s*(\d{1,12}\.\d{1,9})")


def server(address: str, port: int) -> tuple[str, ...]:
    """Return the command line of a stream's server."""
    return (TOOL, "server", "--tcp", "-i", address, "-p", str(port))


def command(address: str, port: int, duration_s: int) -> tuple[str, ...]:
    """Return the command line of a stream."""
    return (
        TOOL,
        "ping-pong",
        "--tcp",
        "-i",
        address,
        "-p",
        str(port),
        "-t",
        str(duration_s),
        "-m",
        str(MESSAGE),
    )


def parse(
    outputs: Sequence[bytes], duration_s: int
) -> tuple[str, float, float, float]:
    """Return version, transactions a second, their error, worst p99 in µs.

    :param outputs: output of each stream; at least one.
    :raises OutputInvalid: if one is not in the format of sockperf 3, or its
        run ended early.
    :raises RunFailed: if it has an error, with which sockperf exits 0, or if
        sockperf is too old.
    """
    version, rate, variance, worst = "", 0.0, 0.0, 0.0
    for output in outputs:
        if len(output) > MAX_OUTPUT:
            raise OutputInvalid(TOOL, f"longer than {MAX_OUTPUT} bytes")
        text = output.decode(errors="replace")
        named, valid = _VERSION.search(text), _VALID.search(text)
        late, mean = _P99.search(text), _MEAN.search(text)
        if said := _ERROR.search(text):
            raise RunFailed(TOOL, said[1].strip())
        if named and mean is None and _OLD_MEAN.search(text):
            raise RunFailed(
                TOOL,
                f"{named[1]} writes its statistics in another form; install "
                "sockperf 3.7 or later",
            )
        if not (named and valid and late and mean):
            raise OutputInvalid(TOOL, "no statistics in it")
        seconds, received = float(valid[1]), int(valid[3])
        # sockperf leaves out 0.4 s of warm-up and as much at the end.
        if not received or seconds < 0.9 * duration_s - 1:
            raise OutputInvalid(
                TOOL, f"{received} messages in {seconds:.1f} s"
            )
        if seconds == 0:
            raise OutputInvalid(TOOL, "no time passed")
        version = named[1]
        rate += received / seconds
        if float(mean[1]):
            # A mean and its reciprocal have the same relative error.
            relative = float(mean[2]) / float(mean[1])
            variance += (relative * received / seconds) ** 2 / received
        worst = max(worst, float(late[1]))
    return version, rate, math.sqrt(variance), worst
