# SPDX-License-Identifier: Apache-2.0

"""sockperf: requests and responses over TCP, a process a stream.

It measures where netperf is not installed. Its ping-pong does what netperf's
TCP_RR does, with messages of 14 bytes instead of 1, and says the latency of
half a round trip.
"""

import math
import re
from collections.abc import Sequence

from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed

TOOL = "sockperf"
PACKAGE = "sockperf"

#: The least that its header needs.
MESSAGE = 14

MAX_OUTPUT = 1024 * 1024

_VERSION = re.compile(r"version #(\S{1,60})")
_VALID = re.compile(
    r"\[Valid Duration\] RunTime=(\d{1,9}\.\d{1,9}) sec; "
    r"SentMessages=(\d{1,15}); ReceivedMessages=(\d{1,15})\b"
)
_MEAN = re.compile(
    r"avg-latency=(\d{1,12}\.\d{1,9}) "
    # From 3.8 on, other measures of the spread follow.
    r"\(std-dev=(\d{1,12}\.\d{1,9})[,)]"
)
#: What versions before 3.6 have in its place.
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

    :param outputs: of each stream; at least one.
    :raises OutputInvalid: if one is not in the form of sockperf 3, or is of
        a run that ended early.
    :raises RunFailed: if it says why it has none, when its exit code is 0,
        or is too old.
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
        # It leaves out its warm-up of 0.4 s, and as much at the end.
        if not received or seconds < 0.9 * duration_s - 1:
            raise OutputInvalid(
                TOOL, f"{received} messages in {seconds:.1f} s"
            )
        if seconds == 0:
            raise OutputInvalid(TOOL, "no time passed")
        version = named[1]
        rate += received / seconds
        if float(mean[1]):
            # The relative error of a mean is that of its reciprocal.
            relative = float(mean[2]) / float(mean[1])
            variance += (relative * received / seconds) ** 2 / received
        worst = max(worst, float(late[1]))
    return version, rate, math.sqrt(variance), worst
