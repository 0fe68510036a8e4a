# SPDX-License-Identifier: Apache-2.0

"""What we make of files is what a shell and readelf make of them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import hypothesis
from hypothesis import strategies as st

from sriov_rt.host.root import Root
from sriov_rt.onload import profiles
from sriov_rt.onload import rootfs
from sriov_rt.onload import variables
from sriov_rt.onload.elf import Elf
from sriov_rt.onload.profiles import Directories
from tests.testbed import standin

#: onload_set as Onload's own: what is set first counts.
SHELL = """
onload_set() {
  if [ -z "$2" ]; then
    name="${1%%=*}"; value="${1#*=}"
  else
    name="$1"; value="$2"
  fi
  eval "test -n \\"\\${$name}\\"" || export "$name=$value"
}
onload_import() { . "$PROFILES/$1.opf"; }
. "$PROFILES/$1.opf"
env
"""

_NUMBERS = sorted(
    name
    for name, row in variables.VARIABLES.items()
    if row.minimum == 0 and not row.is_withheld
)
_WORDS = ("any=rss:active:passive", "node", "conn_drop", "sf-np", "eth0,eth1")


def _setting() -> st.SearchStrategy[str]:
    numbers = st.builds(
        "{}onload_set{}{}{}{}".format,
        st.sampled_from(("", "  ", "\t")),
        st.sampled_from((" ", "\t", "   ")),
        st.sampled_from(_NUMBERS),
        st.sampled_from((" 0", "=1", ' "0"', " '1'", "\t0")),
        st.sampled_from(("", " ", " # why", "\t#x $(id) `id`")),
    )
    words = st.builds(
        "onload_set EF_SCALABLE_FILTERS {1}{0}{1}".format,
        st.sampled_from(_WORDS),
        st.sampled_from(("", "'", '"')),
    )
    comments = st.sampled_from(("", "# $(id)", "  # '", "\t"))
    return numbers | words | comments


class ShellTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    @hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
    @hypothesis.given(
        st.lists(_setting(), max_size=12), st.lists(_setting(), max_size=6)
    )
    def test_a_shell_sets_the_same(self, lines, imported):
        half = len(lines) // 2
        text = [*lines[:half], "onload_import b", *lines[half:]]
        (self.place / "a.opf").write_text("\n".join(text) + "\n")
        (self.place / "b.opf").write_text("\n".join(imported))
        found = profiles.resolve(
            "a",
            Directories(Root(), (str(self.place),)),
            frozenset({"a"}),
        )
        done = subprocess.run(
            ["sh", "-c", SHELL, "sh", "a"],
            env={"PATH": os.defpath, "PROFILES": str(self.place)},
            capture_output=True,
            text=True,
            check=True,
        )
        pairs = (line.partition("=") for line in done.stdout.splitlines())
        shells = {k: v for k, _, v in pairs if k.startswith("EF_")}
        self.assertEqual(shells, dict(found.variables))


@unittest.skipUnless(shutil.which("readelf"), "readelf is not installed")
class ReadelfTest(unittest.TestCase):
    def told(self, path, *words):
        done = subprocess.run(
            ["readelf", "--wide", *words, path],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        return done.stdout

    def check(self, path):
        found = rootfs.read_elf(Root(), path)
        self.assertIsInstance(found, Elf, path)
        head = self.told(path, "-h")
        self.assertIn(f"ELF{found.bits}", head)
        loader = re.search(r"interpreter: (\S+)\]", self.told(path, "-l"))
        self.assertEqual(loader and loader[1], found.interpreter)
        dynamic = self.told(path, "-d")
        self.assertEqual(
            re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic), list(found.needed)
        )
        sonames = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
        self.assertEqual(sonames, [found.soname] if found.soname else [])
        versions = self.told(path, "-V")
        _, _, needs = versions.partition("Version needs section")
        needs, _, _ = needs.partition("Version definition section")
        self.assertEqual(
            sorted(re.findall(r"  Name: (\S+)  Flags", needs)),
            sorted(each.name for each in found.versions),
        )
        return found

    def test_files_of_this_machine(self):
        seen = 0
        directories = (pathlib.Path("/usr/bin"), pathlib.Path("/usr/sbin"))
        for directory in directories:
            for path in sorted(directory.iterdir())[::25]:
                if not path.is_file():
                    continue
                with path.open("rb") as file:
                    if file.read(4) != b"\x7fELF":
                        continue
                with self.subTest(path=str(path)):
                    self.check(str(path))
                    seen += 1
        self.assertGreater(seen, 5)

    def test_libc_has_the_version_that_runs(self):
        program = self.check(str(pathlib.Path(sys.executable).resolve()))
        libc = rootfs.libc(Root(), program)
        if libc is None:
            self.skipTest("this machine's libc is none of glibc")
        running = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
        ours = ".".join(map(str, libc.glibc[:2]))
        self.assertEqual(running, ours)

    @unittest.skipIf(standin.missing(), standin.missing() or "")
    def test_what_gcc_makes(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place)
            self.assertEqual(
                standin.SONAME, self.check(standin.library(path)).soname
            )
            self.check(standin.build(path, "a", standin.PROGRAM))
            self.check(
                standin.build(path, "b", standin.PROGRAM, "-static-pie")
            )
