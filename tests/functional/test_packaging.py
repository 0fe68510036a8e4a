# SPDX-License-Identifier: Apache-2.0

"""The package beside each release of OpenStack, and what its wheel carries."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import venv
import zipfile

from packaging import utils

from tests import releases
from tests.periodic import periodic
from tests.testbed import paths

ETC = paths.CHECKOUT / "etc"

#: Of use in the checkout alone.
_NOT_CARRIED = {
    "sriov_rt/config-generator.conf",
    "sriov_rt/neutron-config-generator.conf",
    "sriov_rt/nova-config-generator.conf",
}

#: Seconds that pip may take.
_PIP_S = 1800


def _pip(*arguments: str) -> None:
    subprocess.run(
        (sys.executable, "-m", "pip", "--quiet", *arguments),
        check=True,
        timeout=_PIP_S,
    )


class ResolutionTest(unittest.TestCase):
    """What is required fits the pins of a release, with all extras.

    The extras name Nova and Neutron, so these are resolved, too.
    """

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.report = pathlib.Path(scratch.name, "report.json")

    def _check(self, release):
        text = (paths.CHECKOUT / "pyproject.toml").read_text()
        extras = tomllib.loads(text)["project"]["optional-dependencies"]
        _pip(
            *("install", "--dry-run", "--ignore-installed"),
            *("--report", str(self.report), "-c", str(release.pins)),
            f"{releases.wheel()}[{','.join(extras)}]",
        )
        found = {
            utils.canonicalize_name(each["metadata"]["name"]): each["metadata"]
            for each in json.loads(self.report.read_text())["install"]
        }
        for name, major in (
            ("nova", release.nova),
            ("neutron", release.neutron),
        ):
            self.assertEqual(
                str(major), found[name]["version"].partition(".")[0]
            )

    def test_beside_2025_2(self):
        self._check(releases.SUPPORTED[0])

    @periodic
    def test_beside_2026_1(self):
        self._check(releases.SUPPORTED[1])

    def test_beside_2026_2(self):
        self._check(releases.SUPPORTED[2])


@periodic
class ReleaseTest(unittest.TestCase):
    """What tools/release.py builds."""

    def setUp(self):
        self.scratch = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        # With what a release is built with, whatever this Python has.
        home = self.scratch / "venv"
        venv.create(home, with_pip=True)
        self.python = home / "bin/python"
        requirements = paths.CHECKOUT / "tools/release-requirements.txt"
        subprocess.run(
            (self.python, "-m", "pip", "install", "-q", "-r", requirements),
            check=True,
            timeout=_PIP_S,
        )

    def _build(self, name, umask, **environment):
        """Build in circumstances of its own; return what each file is."""
        target = self.scratch / name
        program = str(paths.CHECKOUT / "tools/release.py")
        script = (
            "import os, pathlib, runpy; os.umask(int(os.environ['MASK'], 8)); "
            f"build = runpy.run_path({program!r})['build']; "
            f"build(pathlib.Path({str(paths.CHECKOUT)!r}), "
            f"pathlib.Path({str(target)!r}))"
        )
        target.mkdir()
        subprocess.run(
            (self.python, "-c", script),
            check=True,
            timeout=_PIP_S,
            env={**os.environ, **environment, "MASK": umask},
        )
        return {each.name: each.read_bytes() for each in target.iterdir()}

    def test_it_is_the_same_whoever_builds_it(self):
        first = self._build("a", "022", TZ="UTC", PYTHONHASHSEED="1")
        second = self._build("b", "077", TZ="Asia/Tokyo", PYTHONHASHSEED="2")
        self.assertEqual(set(first), set(second))
        self.assertEqual(2, len(first))
        for name in first:
            self.assertEqual(first[name], second[name], name)
        self._check_sdist(*(e for e in first if e.endswith(".tar.gz")))
        self._check_wheel(*(e for e in first if e.endswith(".whl")))

    def _check_sdist(self, name):
        """It has what git has, but for what git itself reads."""
        with tarfile.open(self.scratch / "a" / name) as archive:
            found = {
                each.name.partition("/")[2]
                for each in archive.getmembers()
                if each.isfile()
            }
        listed = subprocess.run(
            ("git", "-C", str(paths.CHECKOUT), "ls-tree", "-r", "HEAD"),
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        missing = {line.partition("\t")[2] for line in listed} - found
        self.assertEqual({".gitignore"}, missing)

    def _check_wheel(self, name):
        """It requires what the checkout's requirements say."""
        self.assertNotIn("-0.0.", name)
        with zipfile.ZipFile(self.scratch / "a" / name) as archive:
            (metadata,) = (
                each
                for each in archive.namelist()
                if each.endswith(".dist-info/METADATA")
            )
            text = archive.read(metadata).decode()
        wanted = (paths.CHECKOUT / "requirements.txt").read_text()
        for line in wanted.splitlines():
            self.assertIn(f"Requires-Dist: {line}\n", text)


class WheelTest(unittest.TestCase):
    """What 'pip install sriov-rt' puts into an environment."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.home = pathlib.Path(scratch.name, "venv")
        subprocess.run(
            (sys.executable, "-m", "venv", "--without-pip", str(cls.home)),
            check=True,
        )
        python = str(cls.home / "bin" / "python")
        _pip("--python", python, "install", "--no-deps", str(releases.wheel()))

    def test_it_carries_what_an_operator_copies(self):
        carried = self.home / "share" / "sriov-rt"
        wanted = {
            str(each.relative_to(ETC)): each.stat().st_mode & 0o111
            for each in ETC.rglob("*")
            if each.is_file()
        }
        found = {
            str(each.relative_to(carried)): each.stat().st_mode & 0o111
            for each in carried.rglob("*")
            # pip compiles every file of Python's.
            if each.is_file() and each.suffix != ".pyc"
        }
        for name in _NOT_CARRIED:
            del wanted[name]
        self.assertEqual(wanted, found)
        for name in found:
            self.assertEqual(
                (ETC / name).read_bytes(), (carried / name).read_bytes(), name
            )

    def test_nova_finds_its_compute_driver(self):
        (site,) = self.home.glob("lib/python3*/site-packages")
        virt = site / "nova" / "virt"
        self.assertEqual(["sriov_rt.py"], [e.name for e in virt.glob("*.py")])

    def test_its_commands_are_there(self):
        found = {each.name for each in (self.home / "bin").glob("sriov-rt*")}
        self.assertEqual(
            {
                "sriov-rt",
                "sriov-rt-agent",
                "sriov-rt-neutron-agent",
                "sriov-rt-status",
                "sriov-rt-vf",
            },
            found,
        )
