# SPDX-License-Identifier: Apache-2.0

"""Runs inside: counts the frames for a MAC that an interface gets.

``frames.py MAC FROM TO...`` sends frames to a MAC on one interface, and
prints for each other one how many of them arrived, as JSON. An interface is
``namespace/name``, or a name for one of the machine's own namespace. It waits
until all have a carrier.
"""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import time

#: Of IEEE's for experiments: nobody else sends it.
PROTOCOL = 0x88B5
NUMBER = 8
#: Seconds that an emulated link may take to come up: network.ANSWER.
LINK = 180
#: Seconds of silence after which nothing more comes.
SILENCE = 3


def carrier(name: str) -> None:
    """Wait until an interface of this namespace has a carrier."""
    end = time.monotonic() + LINK
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/sys/class/net/{name}/carrier").read_text()
            if text.strip() == "1":
                return
        time.sleep(0.2)
    raise SystemExit(f"{name} has no carrier")


def receive(name: str, mac: str) -> None:
    """Print how many frames for a MAC arrive."""
    carrier(name)
    wanted = bytes.fromhex(mac.replace(":", ""))
    kind = socket.htons(PROTOCOL)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, kind) as port:
        port.bind((name, PROTOCOL))
        print("ready", flush=True)
        sys.stdin.readline()
        port.settimeout(SILENCE)
        got = 0
        with contextlib.suppress(TimeoutError):
            while True:
                got += port.recv(2048)[:6] == wanted
    print(got)


def send(name: str, mac: str) -> None:
    """Send frames to a MAC."""
    carrier(name)
    own = pathlib.Path(f"/sys/class/net/{name}/address").read_text().strip()
    head = bytes.fromhex(f"{mac}{own}".replace(":", ""))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as port:
        port.bind((name, 0))
        for number in range(NUMBER):
            port.send(head + PROTOCOL.to_bytes(2) + bytes([number] * 60))
            time.sleep(0.02)


def inside(where: str, *arguments: str) -> subprocess.Popen[str]:
    """Run this file in the namespace of an interface."""
    namespace, _, name = where.rpartition("/")
    enter = ("ip", "netns", "exec", namespace) if namespace else ()
    command = (*enter, sys.executable, "-I", __file__, *arguments, name)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


def count(mac: str, source: str, targets: list[str]) -> dict[str, int]:
    """Return how many of the frames sent arrive at each interface."""
    waiting = {each: inside(each, "receive", mac) for each in targets}
    for each, process in waiting.items():
        if process.stdout is None or not process.stdout.readline():
            raise SystemExit(f"{each} cannot receive")
    inside(source, "send", mac).wait()
    # What has come waits in their sockets.
    for process in waiting.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return {
        each: int(process.communicate()[0])
        for each, process in waiting.items()
    }


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[3], sys.argv[2])
    elif sys.argv[1] == "send":
        send(sys.argv[3], sys.argv[2])
    else:
        print(json.dumps(count(sys.argv[1], sys.argv[2], sys.argv[3:])))
