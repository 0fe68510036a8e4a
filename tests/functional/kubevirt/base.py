# SPDX-License-Identifier: Apache-2.0

"""Real processes of the hooks' programs."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator

#: Seconds that a program may take to come up; it is starved in the gate.
_PATIENCE_S = 120.0


@contextlib.contextmanager
def serving(*arguments: str, socket: pathlib.Path) -> Iterator[pathlib.Path]:
    """Run a server of hooks, and end it as kubelet does.

    :param arguments: of ``sriov-rt kubevirt``.
    :yields: its log.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        process = subprocess.Popen(
            (
                *(sys.executable, "-m", "sriov_rt.cmd.main", "kubevirt"),
                *(*arguments, f"--socket={socket}"),
            ),
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            _wait(process, socket, pathlib.Path(log.name))
            yield pathlib.Path(log.name)
            process.send_signal(signal.SIGTERM)
            code = process.wait(_PATIENCE_S)
        finally:
            process.kill()
            process.wait()
        text = pathlib.Path(log.name).read_text()
        if code:
            raise AssertionError(f"it ended with {code}: {text}")


def _wait(
    process: subprocess.Popen[bytes], socket: pathlib.Path, log: pathlib.Path
) -> None:
    end = time.monotonic() + _PATIENCE_S
    while "listening on" not in log.read_text():
        if process.poll() is not None or time.monotonic() > end:
            raise AssertionError(f"it did not come up: {log.read_text()}")
        time.sleep(0.05)


class HookTestCase(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def write(self, name, data):
        path = self.path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path
