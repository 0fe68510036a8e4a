# SPDX-License-Identifier: Apache-2.0

"""Runs the command of the project inside, without its start each time.

An emulated CPU needs seconds to import what one command needs, and the
tests of the VIF driver give hundreds. So a server imports it once, and
forks for each command line that it is sent; what runs is the same main().
"""

import importlib
import json
import os
import socketserver
import sys
import tempfile

from sriov_rt.cmd import main
from sriov_rt.nic.families import Families

#: What the commands under test import when they run.
MODULES = (
    "pyroute2",
    "cliff.formatters.json_format",
    "cliff.formatters.table",
    "sriov_rt.cmd.display",
    "sriov_rt.cmd.guest",
    "sriov_rt.cmd.host",
    "sriov_rt.cmd.shell",
    "sriov_rt.cmd.vf",
    "sriov_rt.cmd.vif",
    "sriov_rt.guest.hook",
    "sriov_rt.host.labels",
    "sriov_rt.host.compute",
    "sriov_rt.labels.service",
    "sriov_rt.nic.kernel",
    "sriov_rt.nic.mapping",
    "sriov_rt.nic.provision",
    "sriov_rt.nic.vfs",
    "sriov_rt.nic.libvirt_xml",
    "sriov_rt.vif.plugger",
    "sriov_rt.kernel.links",
    "sriov_rt.vif.tenants",
)


class Handler(socketserver.StreamRequestHandler):
    """Takes a line of JSON and answers with another."""

    def handle(self) -> None:
        """Run one command line, with its output kept apart."""
        request = json.loads(self.rfile.readline())
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            stdin.write(request["stdin"].encode())
            stdin.seek(0)
            for number, stream in enumerate((stdin, stdout, stderr)):
                os.dup2(stream.fileno(), number)
            status = run(request["arguments"])
            sys.stdout.flush()
            sys.stderr.flush()
            stdout.seek(0)
            stderr.seek(0)
            answer = {
                "status": status,
                "stdout": stdout.read().decode(),
                "stderr": stderr.read().decode(),
            }
        self.wfile.write(json.dumps(answer).encode())


def run(arguments: list[str]) -> int:
    """Return the exit status, as the interpreter would give it."""
    sys.argv = ["sriov-rt", *arguments]
    try:
        return main.main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0


class Server(socketserver.ForkingTCPServer):
    """Forks for each connection."""

    allow_reuse_address = True


def serve(port: int) -> None:
    """Answer for ever.

    :param port: of TCP, on the loopback interface.
    """
    for name in MODULES:
        importlib.import_module(name)
    # Its entry points are looked up now, and remembered.
    Families.installed()
    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
