# SPDX-License-Identifier: Apache-2.0

"""What a guest of KubeVirt waits for: its hooks, for a domain of 20 kB."""

import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import grpc

from sriov_rt.kubevirt import contract
from tests.benchmarks.measure import best
from tests.benchmarks.measure import children_s
from tests.benchmarks.measure import row
from tests.functional.kubevirt import base
from tests.unit.kubevirt import documents

_METHOD = f"/{contract.DOMAIN_SERVICE}/MutateDomain"

#: Seconds for what starts as a process, and for what runs already.
_LIMIT_S = 0.15
_SERVED_LIMIT_S = 0.02


def domain() -> str:
    """Return the converter's domain, with disks up to 20 kB."""
    text = documents.CONVERTED.read_text()
    disk = (
        '<disk type="file" device="disk"><driver name="qemu" type="raw"/>'
        '<source file="/var/run/kubevirt-private/vmi-disks/{0}/disk.img"/>'
        '<target dev="sd{1}" bus="sata"/><alias name="ua-{0}"/></disk>'
    )
    number = 0
    while len(text) < 20 * 1024:
        added = disk.format(f"data-{number}", f"{number // 26}{number % 26}")
        text = text.replace("</devices>", f"{added}</devices>")
        number += 1
    return text


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    vmi, text = documents.vmi(guest="lean"), domain()
    program = (sys.executable, "-I", "-m", "sriov_rt.cmd.main", "kubevirt")
    words = ("on-define-domain", "--vmi", vmi.decode(), "--domain", text)

    def start() -> None:
        _start(*program, *words)

    def bare() -> None:
        _start(sys.executable, "-I", "-c", "pass")

    process_s, python_s = best(start, bare)
    return [
        row("kubevirt on-define-domain", process_s, "s", target=_LIMIT_S),
        row("  of which python3 -I itself", python_s, "s"),
        row("  of CPU time", children_s(start), "s"),
        row(
            "kubevirt MutateDomain",
            _served_s(documents.mutate(vmi, text)),
            "s",
            target=_SERVED_LIMIT_S,
        ),
    ]


def _served_s(request: bytes) -> float:
    with tempfile.TemporaryDirectory() as directory:
        socket = pathlib.Path(directory, "domain.sock")
        with (
            base.serving("domain-hook", socket=socket),
            grpc.insecure_channel(f"unix:{socket}") as channel,
        ):
            call = channel.unary_unary(_METHOD)
            (taken,) = best(lambda: call(request, timeout=60))
    return taken


def _start(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
