# SPDX-License-Identifier: Apache-2.0

"""What cannot be read is read as nothing only where a reason says so.

A listing that failed and is taken for an empty one gives a VF to two tenants,
or a pCPU to two guests, on a day when a disk or a permission is at fault.
Each place that makes nothing of it has a row here.
"""

import ast
import re
import unittest
from collections.abc import Iterator

from tests.unit.documented_host import ROOT

PACKAGE = ROOT / "sriov_rt"

#: Why nothing is made of it, to the functions that do so.
ROWS = {
    "people are shown it, and beside it that it is unknown": """
        agent/metrics.py _vfs
        cmd/agents.py _drifts
        cmd/onload.py run
        host/table.py occupancy
        vif/tenants.py of_host
    """,
    "the fact itself is published as unknown, and judged": """
        agent/audit.py lost
        agent/audit.py observe
        agent/audit.py quarantined
        decide/occupancy.py _routed
        decide/onload.py _able
        decide/realtime.py to_dedicate
        facts/parts.py on_zram
        host/conditions.py _isolated
        host/occupancy.py _managed
        verify/validity.py _steal
    """,
    "it is refused besides": "guest/cpu_placement.py known",
    "it is logged; Onload accelerates none then": "vif/host.py _onload_nics",
    "a process or a thread that has ended has none": """
        guest/running.py below
        host/procfs.py numbers
        kernel/namespaces.py _listed
        verify/validity.py _tasks
    """,
    "no trait is published then": "placement/label_traits.py of",
    "what is left is still looked at by its own files": """
        host/cgroup.py _exclusive
        host/cgroup.py _others
        host/cgroup.py _own
    """,
    "nothing is avoided or proposed then": """
        cmd/host_apply.py run
        nic/affinity.py _serving
        nic/sysfs.py _pci_aliases
        tuning/boot.py entries_of
        tuning/settings.py _names
        tuning/settings.py _of_interrupts
        tuning/settings.py _of_policy
        tuning/settings.py _own
        vdsm/affinity.py keep_to_housekeeping
    """,
    "a file without attributes has none to keep": (
        "tuning/apply.py _attributes"
    ),
    "a unit without drop-ins has none": "cmd/upgrade_state.py _installed",
    "VFs are cleaned when they get another port": (
        "neutron/vf_cleaning.py _assigned"
    ),
    "its record is read again": "vif/records.py _stamp",
}

_NOTHING = {
    *("()", "[]", "{}", "set()", "frozenset()", "CpuSet()", "_NONE", "b''"),
}
_MAYBE = re.compile(
    r"known_or\("
    r"|return (?:\(\)|\[\]|\{\}|\w*[sS]et\(\)|_NONE|b\"\")(?:  #.*)?$",
    re.MULTILINE,
)
_FAILED = ("OSError", "SriovRtError", "LinkError", "NicError", "Exception")


def makes_nothing(node: ast.AST) -> bool:
    """Return whether a part of a function makes nothing of a failure."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "known_or":
        return ast.unparse(node.args[1]) in _NOTHING
    body: list[ast.stmt] = []
    if isinstance(node, ast.If) and "Unknown" in ast.unparse(node.test):
        body = node.body
    elif isinstance(node, ast.ExceptHandler):
        kinds = "" if node.type is None else ast.unparse(node.type)
        body = node.body if any(x in kinds for x in _FAILED) else []
    return any(
        isinstance(each, ast.Return)
        and each.value is not None
        and ast.unparse(each.value) in _NOTHING
        for part in body
        for each in ast.walk(part)
    )


def found() -> Iterator[str]:
    """Yield each function that makes nothing of what cannot be read."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if not _MAYBE.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and any(
                map(makes_nothing, ast.walk(node))
            ):
                yield f"{path.relative_to(PACKAGE)} {node.name}"


class AbsenceTest(unittest.TestCase):
    def test_each_place_has_a_reason(self) -> None:
        rows = [
            line.strip()
            for places in ROWS.values()
            for line in places.strip().splitlines()
        ]
        self.assertEqual(sorted(rows), sorted(set(found())))
