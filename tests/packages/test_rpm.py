# SPDX-License-Identifier: Apache-2.0

"""The rpm spec: it builds what it lists from an sdist, and rpmlint agrees.

With Debian's rpm and stand-ins for Fedora's macros. No rpm is installed: that
its requirements are those of a distribution is not shown here.
"""

import os
import pathlib
import re
import runpy
import shutil
import tempfile
import unittest

from tests.packages import debian
from tests.packages import sources
from tests.periodic import periodic
from tests.testbed import debian_tree
from tests.testbed import paths

SPEC = paths.CHECKOUT / "rpm/sriov-rt.spec"
_HERE = pathlib.Path(__file__).parent

#: What lints a spec and packages; pip is what the stand-ins call.
_TOOLS = ("python3-pip", "rpm", "rpmlint")

_BUILD = """
cd /build
cp rpm.macros /root/.rpmmacros
rpmbuild -bb --nodeps --define '_topdir /build/top' \
    --define '_sourcedir /build' --define 'upstream {version}' sriov-rt.spec
rpmlint --config /build/rpmlint.toml sriov-rt.spec top/RPMS/noarch/*.rpm
"""


@periodic
class RpmTest(unittest.TestCase):
    def test_it_builds_and_rpmlint_finds_nothing(self) -> None:
        if os.geteuid() != 0:
            raise unittest.SkipTest("containers are made by root")
        directory = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        )
        log = directory / "log"
        build = directory / "build"
        build.mkdir()
        release = runpy.run_path(str(paths.CHECKOUT / "tools/release.py"))
        sdist, _ = release["build"](paths.CHECKOUT, build)
        (version,) = re.findall(r"sriov_rt-(.+)\.tar\.gz", sdist.name)
        sortable = sources.versions()["sortable"](version)
        for each in (SPEC, _HERE / "rpm.macros", _HERE / "rpmlint.toml"):
            shutil.copy(each, build)
        control = (paths.CHECKOUT / "debian/control").read_text()
        wanted = (*_TOOLS, *debian.build_dependencies(control))
        root = directory / "root"
        debian_tree.copy(debian_tree.make(debian.SUITE, wanted, log), root)
        debian_tree.run_in(
            root,
            ("sh", "-ec", _BUILD.format(version=version)),
            binds={build: "/build"},
            log=log,
        )
        found = {
            each.name.rpartition(f"-{sortable}-")[0]
            for each in build.glob("top/RPMS/noarch/*.rpm")
        }
        self.assertEqual(set(debian.PACKAGES), found)
        self.assertIn(" 0 errors, 0 warnings", log.read_text())
