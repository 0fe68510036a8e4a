# SPDX-License-Identifier: Apache-2.0

"""The kernel's pktgen: sends 64-byte packets as fast as an interface can.

It is controlled by files of the network namespace (Documentation/networking/
pktgen.rst). A packet of 64 bytes on the wire has 60 bytes here: the card adds
the checksum.
"""

import re

from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed

TOOL = "pktgen"
DIRECTORY = "/proc/net/pktgen"

SIZE = 60

_RESULT = re.compile(
    r"Result: OK: \d+\(c\d+\+d\d+\) usec, (\d{1,18}) \((\d{1,6})byte,"
    r".*?\n\s*(\d{1,15})pps",
    re.DOTALL,
)

#: Sends from an interface for some time and prints the result. Its arguments:
#: interface, destination address, destination MAC, seconds. It removes the
#: interface from pktgen at the end, even after Ctrl-C.
SCRIPT = f"""
set -eu
cd {DIRECTORY}
[ "$(grep -c '^Running: *$' kpktgend_0)" = 1 ] \
    || {{ echo 'pktgen is in use already' >&2; exit 1; }}
trap 'echo stop > pgctrl || :; wait || :
      echo rem_device_all > kpktgend_0' EXIT
trap 'exit 130' INT TERM
echo rem_device_all > kpktgend_0
echo "add_device $1" > kpktgend_0
for each in "count 0" "pkt_size {SIZE}" "delay 0" "clone_skb 0" \
        "dst $2" "dst_mac $3"; do
    echo "$each" > "$1"
done
(exec echo start > pgctrl) &
sleep "$4"
echo stop > pgctrl
wait
cat "$1"
"""


def command(
    interface: str, address: str, mac: str, duration_s: int
) -> tuple[str, ...]:
    """Return the command line.

    :param interface: interface that sends.
    :param address: destination of the packets.
    :param mac: MAC of the destination.
    """
    return (
        "sh",
        "-c",
        SCRIPT,
        TOOL,
        interface,
        address,
        mac,
        str(duration_s),
    )


def parse(output: bytes) -> tuple[int, float]:
    """Return the number of packets sent, in all and per second.

    :raises RunFailed: if the kernel could not send.
    :raises OutputInvalid: if the output is not an interface's pktgen file.
    """
    text = output[: 64 * 1024].decode(errors="replace")
    found = _RESULT.search(text)
    if found is None:
        if "Result: " in text:
            said = text.rpartition("Result: ")[2].splitlines()[0]
            raise RunFailed(TOOL, said[:200])
        raise OutputInvalid(TOOL, "no result in it")
    if int(found[2]) != SIZE:
        raise OutputInvalid(TOOL, f"packets of {found[2]} bytes")
    if not int(found[1]):
        raise RunFailed(TOOL, "no packet was sent")
    return int(found[1]), float(found[3])


def received(counters: bytes, interface: str) -> int:
    """Return the packets that an interface received, from /proc/net/dev.

    :raises OutputInvalid: if the interface is not listed.
    """
    for line in counters.decode(errors="replace").splitlines():
        name, _, values = line.strip().partition(":")
        fields = values.split()
        if name == interface and len(fields) >= 2 and fields[1].isdigit():
            return int(fields[1][:18])
    raise OutputInvalid("/proc/net/dev", f"no interface '{interface}'")
