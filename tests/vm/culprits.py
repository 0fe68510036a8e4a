# SPDX-License-Identifier: Apache-2.0

"""Culprits that are planted on CPU 2 of an emulated realtime host.

Run inside: ``python culprits.py NAME`` has the CPU for 100 ms, a few times a
second, until it is ended; a stop_machine has it for less. Figures of an
emulated CPU are milliseconds, so that a culprit has to have it for long.
"""

import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import time

CPU = 2
BUSY_S = 0.1
PAUSE_S = 0.4

#: Above any measurement's.
PRIORITY = os.sched_param(98)

#: Packets of a burst: 0.15 s of an emulated CPU.
PACKETS = 4000

#: Sockets that each frame is given to: they make its interrupt a long one.
SOCKETS = 500
_ETH_P_ALL = socket.htons(3)
_FRAME = b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + b"x" * 50


def thread() -> None:
    """A thread of a higher priority than any measurement."""
    os.sched_setaffinity(0, {CPU})
    os.sched_setscheduler(0, os.SCHED_FIFO, PRIORITY)
    while True:
        until = time.monotonic() + BUSY_S
        while time.monotonic() < until:
            pass
        time.sleep(PAUSE_S)


def _prefer(pattern: str) -> None:
    """Give the kernel's threads of a name a higher priority than that."""
    found = [
        int(each.parent.name)
        for each in pathlib.Path("/proc").glob("[0-9]*/comm")
        if re.fullmatch(pattern, each.read_text().strip())
    ]
    for pid in found:
        os.sched_setscheduler(pid, os.SCHED_FIFO, PRIORITY)
    if not found:
        sys.exit(f"no thread {pattern}")


def work() -> None:
    """Work of a kernel thread that is bound to the CPU: pktgen's."""
    subprocess.run(("modprobe", "pktgen"), check=True)
    place = pathlib.Path("/proc/net/pktgen")
    worker = place / f"kpktgend_{CPU}"
    worker.write_text("rem_device_all\n")
    worker.write_text("add_device lo\n")
    for line in (f"count {PACKETS}", "dst 127.0.0.1", "delay 0"):
        (place / "lo").write_text(f"{line}\n")
    _prefer(worker.name)
    while True:
        (place / "pgctrl").write_text("start\n")
        time.sleep(PAUSE_S)


def interrupt() -> None:
    """A card's interrupts, moved to the CPU; their threads do its work."""
    near, far = "enp1s0", "enp2s0"
    for name in (near, far):
        subprocess.run(("ip", "link", "set", name, "up"), check=True)
    for each in pathlib.Path("/proc/irq").glob(f"*/{near}*"):
        each.with_name("smp_affinity_list").write_text(f"{CPU}\n")
    _prefer(rf"irq/\d+-{near}.*")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * SOCKETS, 2 * SOCKETS))
    sockets = [
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, _ETH_P_ALL)
        for _ in range(SOCKETS)
    ]
    for listener in sockets:
        listener.bind((near, 0))
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sender.bind((far, 0))
    while True:
        until = time.monotonic() + BUSY_S
        while time.monotonic() < until:
            sender.send(_FRAME)
        time.sleep(PAUSE_S)


def stop_machine() -> None:
    """A housekeeping CPU goes and comes."""
    online = pathlib.Path("/sys/devices/system/cpu/cpu1/online")
    try:
        while True:
            online.write_text("0")
            online.write_text("1")
            time.sleep(BUSY_S)
    finally:
        online.write_text("1")


def main() -> None:
    """Plant the culprit of the name that is given."""
    (name,) = sys.argv[1:]
    # What stop_machine leaves offline comes back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    planted = (thread, work, interrupt, stop_machine)
    {each.__name__: each for each in planted}[name]()


if __name__ == "__main__":
    main()
