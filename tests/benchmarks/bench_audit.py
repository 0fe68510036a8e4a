# SPDX-License-Identifier: Apache-2.0

"""The audit of a hundred guests beside bare reads of the same files."""

import pathlib
import tempfile
from typing import Any

from sriov_rt.agent import audit
from sriov_rt.host.root import Root
from tests.benchmarks.measure import best
from tests.benchmarks.measure import row
from tests.unit import builders
from tests.unit.guest.test_running import OURS

GUESTS = 100
THREADS = 8

DOMAIN = (
    pathlib.Path(__file__).parents[1] / "unit/guest/domains/nova-realtime.xml"
)
STAT = (
    "{} ({}) S 1 4700 4700 0 -1 4194368 1 0 0 0 5 7 0 0 -2 0 4 0 900 2000000 "
    "3000 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 -1 3 1 1 0 0 0 0 0 0 "
    "0 0 0 0 0\n"
)


def _make(place: pathlib.Path) -> None:
    """Make the files of a host that runs guests."""
    status = pathlib.Path("/proc/self/status").read_text()
    xml = DOMAIN.read_text()
    begin, end = xml.index("<uuid>") + 6, xml.index("</uuid>")
    for number in range(GUESTS):
        pid = 10000 + 100 * number
        uuid = f"00000000-0000-4000-8000-{number:012x}"
        domain = f"{xml[:begin]}{uuid}{xml[end:]}".replace(
            "<metadata>", "<metadata>" + OURS.format('realtime="yes"'), 1
        )
        file = place / f"run/libvirt/qemu/{number}.xml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"<domstatus state='running' pid='{pid}'>\n<vcpus><vcpu id='0' "
            f"pid='{pid + 1}'/></vcpus>\n{domain}</domstatus>"
        )
        process = place / f"proc/{pid}"
        for thread in range(pid, pid + THREADS):
            task = process / f"task/{thread}"
            task.mkdir(parents=True)
            (task / "stat").write_text(STAT.format(thread, "CPU 0/KVM"))
            (task / "status").write_text(status)
        (process / "cmdline").write_text(f"qemu\0-uuid\0{uuid}\0")
        (process / "stat").write_text(STAT.format(pid, "qemu"))
        (process / "status").write_text(status)


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    facts = builders.realtime_host()
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        _make(place)
        root = Root(name)
        files = [each for each in place.rglob("*") if each.is_file()]
        found = audit.observe(root, facts)
        assert isinstance(found, list), found
        assert {each.instance for each in found}
        ours, bare = best(
            lambda: audit.observe(root, facts),
            lambda: [each.read_bytes() for each in files],
        )
    return [
        row(
            f"audit of {GUESTS} guests / bare reads of its files",
            ours * 1e3,
            "ms",
            peer=bare * 1e3,
        ),
        row(f"audit of {GUESTS} guests", ours * 1e3, "ms", target=1000.0),
    ]
