# SPDX-License-Identifier: Apache-2.0

"""Hook programs that a domain waits for, beside Python alone."""

import functools
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from tests.benchmarks.measure import best
from tests.benchmarks.measure import children_s
from tests.benchmarks.measure import row
from tests.unit.guest import documents

ETC = pathlib.Path(__file__).parents[2] / "etc"

#: Seconds that a domain may wait for its hook, for one of SIZE bytes.
TARGET_S = 0.15
SIZE = 20_000

REQUEST = (
    "<metadata><r:request xmlns:r='https://docs.openstack.org/sriov-rt/"
    "request/1.0' realtime='required' guest='lean'/></metadata>"
)


def domain(request: str = REQUEST) -> str:
    """Return a domain of SIZE bytes, with disks as many as it takes."""
    disk = (
        '<disk type="block"><source dev="/dev/vg/{0}"/>'
        '<target dev="sd{0}" bus="sata"/></disk>'
    )
    devices = "<video/>"
    while len(devices) < SIZE:
        devices += disk.format("a" * (len(devices) % 6 + 1))
    return documents.domain(devices, more=request)


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        hook = place / "before_vm_start/50_sriov_rt"
        hook.parent.mkdir()
        _install(ETC / "vdsm/50_sriov_rt", hook)
        of_libvirt = place / "sriov-rt"
        _install(ETC / "libvirt/sriov-rt", of_libvirt)
        file = place / "domain.xml"
        file.write_text(domain(""))
        properties = {
            **os.environ,
            "_hook_domxml": str(file),
            "sriov_rt": "realtime=required & guest=lean",
        }
        libvirt = (str(of_libvirt), "d", "prepare", "begin", "-")
        subjects = {
            "libvirt's hook, 20 kB": functools.partial(
                _start, *libvirt, given=domain()
            ),
            "libvirt's hook, nothing requested": functools.partial(
                _start, *libvirt, given=domain("")
            ),
            "vdsm's hook, 20 kB": functools.partial(
                _start, str(hook), env=properties
            ),
        }
        rows = []
        for name, subject in subjects.items():
            # One that does not find its modules ends at once.
            complaint = subject().stderr.decode()
            assert "has no sriov-rt" not in complaint, complaint
            ours, bare = best(
                subject, lambda: _start(sys.executable, "-I", "-c", "pass")
            )
            rows += [
                row(name, ours, "s", target=TARGET_S),
                row("  of which Python itself", bare, "s"),
                row("  processor time", children_s(subject), "s"),
            ]
        return rows


def _install(program: pathlib.Path, place: pathlib.Path) -> None:
    """Install a hook program for this Python."""
    text = program.read_text()
    place.write_text(text.replace("/usr/bin/python3", sys.executable))
    place.chmod(0o755)


def _start(
    *arguments: str, given: str = "", env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        arguments,
        check=False,
        input=given.encode(),
        capture_output=True,
        env=env,
    )
