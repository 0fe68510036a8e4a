# SPDX-License-Identifier: Apache-2.0

"""The data path: iperf3 as in seed 000, packets of 64 bytes as in seed 001.

Prints rows as JSON::

    python -m tests.benchmarks.inside.path --seconds 2 --turns 2
"""

import argparse
import functools
import json
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.inside import wire
from tests.benchmarks.inside.wire import Sender
from tests.benchmarks.measure import PARITY
from tests.benchmarks.measure import row

#: Seed 000 omits 3 seconds and measures 20; so much for each of these.
OMITTED = 3 / 20

#: Seed 001's pktgen script: any number of packets, until it is stopped. Its
#: ``clone_skb 1000000`` the kernel refuses for a macvlan and for a veth
#: (IFF_TX_SKB_SHARING, net/core/pktgen.c), so all get a packet each time.
_PKTGEN = """
at=/proc/net/pktgen
put() { echo "$2" > "$at/$1"; }
put kpktgend_$CPU rem_device_all
put kpktgend_$CPU "add_device $IF"
put "$IF" "count 0"
put "$IF" "clone_skb 0"
put "$IF" "pkt_size 64"
put "$IF" "delay 0"
put "$IF" "dst $DST"
put "$IF" "dst_mac $MAC"
{ sleep $SECONDS_; put pgctrl stop; } &
put pgctrl start
wait
cat "$at/$IF"
put kpktgend_$CPU rem_device_all
"""
_RATE = re.compile(r"^ *([0-9]+)pps ", re.MULTILINE)
_SENT = re.compile(r"pkts-sofar: ([0-9]+) ")

#: Seconds for a turn of pktgen, and for the last packets to arrive.
PKTGEN_S = 1.0
SETTLE_S = 0.2

Rates = Mapping[Sender, float]


def alternately(
    senders: Sequence[Sender], turns: int, measure: Callable[[Sender], float]
) -> Rates:
    """Return the median of each sender's turns."""
    found: dict[Sender, list[float]] = {each: [] for each in senders}
    for _ in range(turns):
        for sender in senders:
            found[sender].append(measure(sender))
    return {each: statistics.median(some) for each, some in found.items()}


def throughput(
    sender: Sender, seconds: float, more: Sequence[str] = ()
) -> float:
    """Return what the receiving end of iperf3 had, in Mbit/s.

    :param seconds: to measure, after a part of it that is not counted.
    :param more: arguments of iperf3's client.
    """
    done = subprocess.run(
        (
            *("taskset", "-c", wire.NEAR_CPU, *sender.enter, "iperf3", "-J"),
            *("-c", sender.peer, "-O", str(max(1, round(OMITTED * seconds)))),
            *("-t", f"{seconds:.0f}", *more),
        ),
        check=True,
        stdout=subprocess.PIPE,
    )
    told = json.loads(done.stdout)
    # It ends well even if it could not connect.
    assert "error" not in told, told["error"]
    return float(told["end"]["sum_received"]["bits_per_second"]) / 1e6


def packets(sender: Sender, seconds: float) -> tuple[float, float]:
    """Return what was sent and what was received, in packets a second.

    :param seconds: to send for.
    """
    before = wire.received()
    done = subprocess.run(
        (
            *(*sender.enter, "env", f"CPU={wire.NEAR_CPU}"),
            *(f"IF={sender.interface}", f"DST={sender.peer}"),
            *(f"MAC={wire.next_hop(sender)}", f"SECONDS_={seconds}"),
            *("bash", "-ec", _PKTGEN),
        ),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    rate, count = _RATE.search(done.stdout), _SENT.search(done.stdout)
    assert rate is not None and count is not None, done.stdout
    time.sleep(SETTLE_S)
    arrived = (wire.received() - before) / int(count[1])
    return float(rate[1]), float(rate[1]) * arrived


def of_iperf(seconds: float, turns: int) -> list[dict[str, Any]]:
    """Return the rows of seed 000's comparison, both ways."""
    senders = (wire.BARE, wire.VF, wire.MACVLAN)
    found = []
    server = subprocess.Popen(
        wire.far("iperf3", "-s"), stdout=subprocess.DEVNULL
    )
    try:
        wire.await_listener()
        for told, more in (("", ()), (" -R", ("-R",))):
            rates = alternately(
                senders,
                turns,
                functools.partial(throughput, seconds=seconds, more=more),
            )
            found += [
                row(
                    f"iperf3 -t {seconds:.0f}{told}, {each.name} / bare VF",
                    rates[each],
                    "Mbit/s",
                    peer=rates[wire.BARE],
                    target=PARITY,
                )
                for each in senders[1:]
            ]
    finally:
        server.terminate()
        server.wait()
    return found


def of_pktgen(seconds: float, turns: int) -> list[dict[str, Any]]:
    """Return the rows of seed 001's comparison."""
    senders = (wire.BARE, wire.MACVLAN, wire.BRIDGE, wire.VETH)
    pairs: dict[Sender, list[tuple[float, float]]] = {}
    for _ in range(turns):
        for sender in senders:
            pairs.setdefault(sender, []).append(packets(sender, seconds))
    found = []
    for which, told in enumerate(("sent", "received")):
        rates = {
            sender: statistics.median(each[which] for each in some) / 1e3
            for sender, some in pairs.items()
        }
        found += [
            row(
                f"64 B {told}, macvlan / {each.name}",
                rates[wire.MACVLAN],
                "kpps",
                peer=rates[each],
            )
            for each in (wire.BRIDGE, wire.VETH, wire.BARE)
        ]
    return found


def main() -> None:
    """Measure and print the rows."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.inside.path", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=2, help="of iperf3")
    parser.add_argument("--turns", type=int, default=2, help="of each subject")
    args = parser.parse_args()
    wire.prepare()
    wire.say("the container answers")
    rows = of_iperf(args.seconds, args.turns)
    wire.say("iperf3")
    wire.prepare_others()
    wire.say("the others answer")
    rows += of_pktgen(PKTGEN_S, args.turns)
    wire.say("pktgen")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
