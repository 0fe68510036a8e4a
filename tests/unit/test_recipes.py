# SPDX-License-Identifier: Apache-2.0

"""Recipes of the contributors' page, followed in a scratch copy of the tree.

Each adds an invented item, and runs the tests that go over all rows of its
table. A recipe that leaves out a step fails in one of them.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests.periodic import periodic
from tests.unit.documented_host import ROOT

#: Two rows for one driver, by eswitch mode.
FAMILIES = """\
#: A NIC of nobody. Its limits are in no driver.
SCRATCH = Family(
    name="scratch",
    drivers=frozenset({"scratch"}),
    models="X1",
    products=frozenset({PciId(0xFFFE, 0x0001)}),
    baseline=dataclasses.replace(BASELINE, spoofchk=False),
    max_vfs=3,
)

#: The same in switchdev mode: VLANs are the switch's.
SCRATCH_SWITCHDEV = dataclasses.replace(
    SCRATCH,
    name="scratch_switchdev",
    eswitch=EswitchMode.SWITCHDEV,
    support=types.MappingProxyType({Attribute.VLAN: Support.NO}),
    why_not=types.MappingProxyType({Attribute.VLAN: "its switch has them"}),
)

"""

TOOL = '''\
"""A latency tool of nobody: it prints a CPU, its samples and the worst."""

from sriov_rt.parse import cpulist
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.latency_tool import Parsed
from sriov_rt.verify.latency_tool import ProgramTool
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import CpuLatency


class Nobody(ProgramTool):
    """One run of the tool of nobody."""

    name = "nobody"
    measures = "the patience of nobody"
    program = "nobody"
    package = "nobody-tools"
    writes_file = False
    interval_us = 500

    def command(self, cpus: Cpus, output: str = "") -> tuple[str, ...]:
        """Return the command line."""
        step = self.step
        return (
            self.program,
            f"--cpus={cpulist.format_cpu_list(cpus.measured)}",
            f"--priority={step.priority}",
            f"--interval={step.interval_us}",
            f"--duration={step.duration_s}",
        )

    def parse(self, document: bytes) -> Parsed:
        """Return the latencies of each CPU."""
        found = []
        try:
            for line in document.splitlines():
                cpu, samples, worst = map(int, line.split())
                found.append(CpuLatency(cpu, samples, worst))
        except ValueError:
            raise OutputInvalid(self.name, "three numbers expected") from None
        if not found:
            raise OutputInvalid(self.name, "no CPU in it")
        return Parsed("", found)
'''


#: A release note.
NOTE = "releasenotes/notes/no-ksm-0123456789abcdef.yaml"


class Scratch:
    """Copy of the tree, without its history.

    :param directory: directory of the copy.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        for name in (
            "sriov_rt",
            "tests/testbed",
            "tests/unit",
            "doc/source",
            "releasenotes/notes",
        ):
            shutil.copytree(
                ROOT / name,
                directory / name,
                ignore=shutil.ignore_patterns("__pycache__", "build"),
            )
        for each in ("__init__.py", "periodic.py"):
            shutil.copy(ROOT / "tests" / each, directory / "tests")
        shutil.copy(ROOT / "pyproject.toml", directory)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        (self.directory / name).write_text(text)

    def change(self, name: str, before: str, after: str) -> None:
        """Replace a text that occurs once in a file."""
        path = self.directory / name
        text = path.read_text()
        if text.count(before) != 1:
            raise ValueError(f"{name}: {before!r}")
        path.write_text(text.replace(before, after))

    def add_rows(self, name: str, table: str, rows: str) -> None:
        """Add rows to a tuple, whatever rows it has already."""
        path = self.directory / name
        text, count = re.subn(
            rf"^({table}\b[^=\n]*= \([^)]*?),?\s*\)$",
            rf"\1, {rows})",
            path.read_text(),
            flags=re.MULTILINE,
        )
        if count != 1:
            raise ValueError(f"{name}: {table}")
        path.write_text(text)

    def test(self, *modules: str) -> str:
        """Run unit tests there; return the failures, empty if none."""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "unittest", *modules],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        return done.stdout if done.returncode else ""


def add_families(scratch: Scratch) -> None:
    """Follow the recipe of a NIC family, with two eswitch modes."""
    path = "sriov_rt/nic/families.py"
    scratch.change(
        path, "#: Any other NIC, or", f"{FAMILIES}#: Any other NIC, or"
    )
    scratch.add_rows(path, "BUILT_IN", "SCRATCH, SCRATCH_SWITCHDEV")


def add_tool(scratch: Scratch) -> None:
    """Follow the recipe of a latency tool."""
    scratch.write("sriov_rt/verify/nobody.py", TOOL)
    path = "sriov_rt/verify/tools.py"
    scratch.add_rows(path, "_ROWS", "Nobody")
    after = "from sriov_rt.verify.oslat"
    row = "from sriov_rt.verify.nobody import Nobody\n"
    scratch.change(path, after, row + after)
    scratch.write("tests/unit/verify/recorded/nobody-1.txt", "1 10000 7\n")


def add_extra_spec(scratch: Scratch) -> None:
    """Follow the recipe of an extra spec that a decision reads.

    One of its parts is about parents of ports, which no other room of hooks
    reads.
    """
    scratch.change(
        "sriov_rt/request/grammar.py",
        '    "max_latency_us": Key(',
        """\
    "no_ksm": Key(
        "no_ksm",
        "required",
        "KSM does not merge pages of the host.",
        _choice({"required": True}),
        "KSM may run",
        ("memory", "vifs"),
        "0.0.2",
    ),
    "max_latency_us": Key(""",
    )
    scratch.change(
        "sriov_rt/request/words.py",
        "    max_latency_us: int | None = None\n",
        "    max_latency_us: int | None = None\n    no_ksm: bool = False\n",
    )
    scratch.change(
        "sriov_rt/decide/demands.py",
        "    if request.max_latency_us is not None:\n",
        """\
    if request.no_ksm:
        if facts.memory.ksm_run == 1:
            yield reason("ksm_running")
        if isinstance(facts.vifs.pools, Unknown):
            yield unknown("vifs.pools", facts.vifs.pools)
    if request.max_latency_us is not None:
""",
    )
    scratch.write(
        NOTE,
        "---\nfeatures:\n  - |\n    New extra spec ``sriov_rt:no_ksm``.\n",
    )
    scratch.change(
        "tests/unit/request/test_every_key.py",
        '    "max_latency_us": "1",\n',
        '    "max_latency_us": "1",\n    "no_ksm": "required",\n',
    )
    scratch.change(
        "tests/unit/request/test_every_key.py",
        '    builders.realtime_host(kernel={"preempt_rt": False}),\n',
        """\
    builders.realtime_host(
        kernel={"preempt_rt": False}, memory={"ksm_run": 1}
    ),
""",
    )


@periodic
class RecipeTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.scratch = Scratch(pathlib.Path(place.name))

    def test_a_nic_family_is_rows_of_one_file(self) -> None:
        add_families(self.scratch)
        modules = (
            "tests.unit.nic.test_families",
            "tests.unit.test_doc_tables.TablesTest",
        )
        self.assertEqual("", self.scratch.test(*modules))
        self.scratch.change(
            "sriov_rt/nic/families.py", '    models="X1",\n', ""
        )
        self.assertIn("row.models", self.scratch.test(*modules))

    def test_an_extra_spec_is_a_row_a_field_and_who_reads_it(self) -> None:
        add_extra_spec(self.scratch)
        modules = (
            "tests.unit.request",
            "tests.unit.request.test_every_key",
            "tests.unit.request.test_grammar",
            "tests.unit.test_docs.ReleaseNotesTest",
        )
        self.assertEqual("", self.scratch.test(*modules))
        # Without a release note operators would not know of it.
        (self.scratch.directory / NOTE).unlink()
        self.assertIn("sriov_rt:no_ksm", self.scratch.test(modules[-1]))
        # Unread, the API would accept it, but nothing would enforce it.
        self.scratch.change(
            "sriov_rt/decide/demands.py", "if request.no_ksm:", "if 0:"
        )
        self.assertIn("no_ksm", self.scratch.test(*modules))

    def test_a_latency_tool_is_a_module_and_a_row(self) -> None:
        add_tool(self.scratch)
        modules = (
            "tests.unit.verify.test_every_tool",
            "tests.unit.test_doc_tables.TablesTest",
        )
        self.assertEqual("", self.scratch.test(*modules))
        (
            self.scratch.directory / "tests/unit/verify/recorded/nobody-1.txt"
        ).unlink()
        self.assertIn("nobody", self.scratch.test(*modules))
