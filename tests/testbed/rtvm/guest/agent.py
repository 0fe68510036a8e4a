# SPDX-License-Identifier: Apache-2.0

"""Runs commands inside the machine for the one outside.

A request is a line of JSON on a virtio-serial port. What comes of it is in
files of the directory that both machines see: NUMBER.started has the pid,
NUMBER.done how it ended. Standard library only; -I keeps the shared
file system's packages out.
"""

import fcntl
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

PORT = "sriov-rt.exec"

#: Seconds between two looks at a command that was asked to end.
PAUSE = 0.05
#: The port is looked at this often, in seconds, even if no signal came.
LONGEST_WAIT = 5.0


def port_device() -> pathlib.Path:
    """Return the device of our port; without udev it has no other name."""
    for name in pathlib.Path("/sys/class/virtio-ports").glob("*/name"):
        if name.read_text().strip() == PORT:
            return pathlib.Path("/dev") / name.parent.name
    raise SystemExit(f"agent: there is no port {PORT}")


class Agent:
    """Starts commands and remembers those that run.

    :param directory: where requests' results are written.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def handle(self, line: bytes) -> None:
        """Do what a line asks; ignore what a lost connection left over."""
        try:
            request = json.loads(line)
            number = request["number"]
        except (ValueError, KeyError, TypeError):
            return
        try:
            if request["verb"] == "start":
                self._start(number, request)
            elif request["verb"] == "ping":
                self._write(number, "started", {"pid": 0})
            else:
                self._kill(number, request)
        except (OSError, ValueError, KeyError) as error:
            self._write(number, "done", {"error": str(error)})

    def _start(self, number: str, request: dict[str, Any]) -> None:
        with (
            pathlib.Path(request["stdin"]).open("rb") as stdin,
            pathlib.Path(request["stdout"]).open("ab") as stdout,
            pathlib.Path(request["stderr"]).open("ab") as stderr,
        ):
            child = subprocess.Popen(
                request["command"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=request["directory"],
                env={**os.environ, **request["environment"]},
                start_new_session=True,
            )
        with self._lock:
            self._running[number] = child
        self._write(number, "started", {"pid": child.pid})
        threading.Thread(
            target=self._follow,
            args=(number, child, request["timeout"]),
            daemon=True,
        ).start()

    def _follow(
        self,
        number: str,
        child: "subprocess.Popen[bytes]",
        timeout: float | None,
    ) -> None:
        """Wait for a command, and end it when its time is over."""
        late = False
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired:
            late = True
            _signal_group(child, signal.SIGKILL)
            child.wait()
        with self._lock:
            del self._running[number]
        self._write(number, "done", {"status": child.returncode, "late": late})

    def _kill(self, number: str, request: dict[str, Any]) -> None:
        """End a command that an earlier request started."""
        with self._lock:
            child = self._running.get(request["target"])
        self._write(number, "started", {"pid": 0})
        if child is not None:
            threading.Thread(
                target=_end, args=(child, request["grace"]), daemon=True
            ).start()

    def _write(self, number: str, kind: str, content: object) -> None:
        """Write a result so that nobody sees half of it."""
        draft = self._directory / f"{number}.{kind}.new"
        draft.write_text(json.dumps(content))
        draft.rename(self._directory / f"{number}.{kind}")


def _end(child: "subprocess.Popen[bytes]", grace: float) -> None:
    """Ask a command's session to end, and make it after the grace."""
    _signal_group(child, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(PAUSE)
    _signal_group(child, signal.SIGKILL)


def _signal_group(
    child: "subprocess.Popen[bytes]", number: signal.Signals
) -> None:
    try:
        os.killpg(child.pid, number)
    except ProcessLookupError:
        return


def wake_on_input(descriptor: int) -> int:
    """Return a pipe that becomes readable when the port has something.

    A port whose other end is closed can't be waited for by poll(2): it
    is always ready, and reads as ended. But it sends SIGIO.

    :param descriptor: the port's.
    """
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    os.set_blocking(descriptor, False)
    signal.signal(signal.SIGIO, lambda number, frame: None)
    signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
    return receiver


def main() -> None:
    """Take requests for ever."""
    agent = Agent(pathlib.Path(sys.argv[1]))
    pending = b""
    with port_device().open("rb", buffering=0) as port:
        awake = wake_on_input(port.fileno())
        while True:
            data = port.read(65536)
            if not data:
                if select.select([awake], [], [], LONGEST_WAIT)[0]:
                    os.read(awake, 65536)
                continue
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                agent.handle(line)


if __name__ == "__main__":
    main()
