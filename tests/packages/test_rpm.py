# SPDX-License-Identifier: Apache-2.0

"""The rpm spec: it builds what it lists from an sdist, and rpmlint agrees.

By the command of the page, with Debian's rpm and stand-ins for Fedora's
macros. No rpm is installed: that its requirements are those of a distribution
is not shown here.
"""

import os
import pathlib
import re
import runpy
import subprocess
import sys
import tarfile
import tempfile
import unittest

from tests.packages import debian
from tests.packages import sources
from tests.periodic import periodic
from tests.testbed import debian_tree
from tests.testbed import paths
from tests.testbed import walk

_PAGE = paths.CHECKOUT / "doc/source/install/packages.rst"

#: What the page's command needs beside the spec's build requirements; pip is
#: what the stand-ins call, and git what gives the version of a commit.
_TOOLS = ("git", "python3-pip", "rpm", "rpmlint")

#: The setuptools of CentOS Stream 10, and what it makes wheels with: the
#: command bdist_wheel is setuptools' own from 70.1 on.
_OF_CENTOS = ("setuptools==69.0.3", "wheel==0.41.2")

_BUILD = """
export PYTHONPATH=/build/python
cd /build/sriov-rt
cp tests/packages/rpm.macros /root/.rpmmacros
# Debian's rpm has no record of what is installed.
rpmbuild() {{ command rpmbuild --nodeps "$@"; }}
{command}
unset PYTHONPATH
rpmlint --config tests/packages/rpmlint.toml rpm/sriov-rt.spec \
    /root/rpmbuild/RPMS/noarch/*.rpm
cd /root/rpmbuild/RPMS/noarch
rpm2archive python3-sriov-rt-*.rpm
"""


@periodic
class RpmTest(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            raise unittest.SkipTest("containers are made by root")
        self.directory = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        )

    def _build(self, *requirements: str) -> str:
        """Build this commit's; return what has made the wheel.

        :param requirements: Python's, that the build finds before Debian's.
        """
        log, build = self.directory / "log", self.directory / "build"
        clone, python = build / "sriov-rt", build / "python"
        python.mkdir(parents=True)
        if requirements:
            pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps")
            subprocess.run(
                (*pip, "--target", str(python), *requirements),
                check=True,
                timeout=debian_tree.PATIENCE,
            )
        command = ("git", "clone", "-q", str(paths.CHECKOUT), str(clone))
        subprocess.run(command, check=True, timeout=60)
        # As 'tox -e release -- --no-sbom' does.
        release = runpy.run_path(str(paths.CHECKOUT / "tools/release.py"))
        (clone / "dist").mkdir()
        sdist, _ = release["build"](paths.CHECKOUT, clone / "dist")
        (version,) = re.findall(r"sriov_rt-(.+)\.tar\.gz", sdist.name)
        (command_of_page,) = (
            each.command
            for each in walk.steps(_PAGE)
            if each.command.startswith("rpmbuild")
        )
        control = (paths.CHECKOUT / "debian/control").read_text()
        wanted = (*_TOOLS, *debian.build_dependencies(control))
        root = self.directory / "root"
        debian_tree.copy(debian_tree.make(debian.SUITE, wanted, log), root)
        debian_tree.run_in(
            root,
            ("sh", "-ec", _BUILD.format(command=command_of_page)),
            binds={build: "/build"},
            log=log,
        )
        sortable = sources.versions()["sortable"](version)
        made = root / "root/rpmbuild/RPMS/noarch"
        self.assertEqual(
            set(debian.PACKAGES),
            {
                each.name.rpartition(f"-{sortable}-")[0]
                for each in made.glob("*.rpm")
            },
        )
        self.assertIn(" 0 errors, 0 warnings", log.read_text())
        (archive,) = made.glob("*.tgz")
        with tarfile.open(archive) as files:
            (name,) = (
                each
                for each in files.getnames()
                if each.endswith(f"sriov_rt-{version}.dist-info/WHEEL")
            )
            wheel = files.extractfile(name)
            assert wheel is not None
            return wheel.read().decode()

    def test_with_debians_setuptools(self) -> None:
        self.assertRegex(self._build(), r"Generator: setuptools \(\d")

    def test_with_the_setuptools_of_centos_stream_10(self) -> None:
        wheel = self._build(*_OF_CENTOS)
        self.assertIn("Generator: bdist_wheel (0.41.2)", wheel)
