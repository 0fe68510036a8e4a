# SPDX-License-Identifier: Apache-2.0

"""sriov-rt host apply on a Debian as its packages make it."""

import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.tuning import apply
from sriov_rt.tuning.apply import Tuning
from sriov_rt.tuning.settings import Kind
from tests.periodic import periodic
from tests.testbed import debian_tree
from tests.unit.host import trees
from tests.unit.tuning import fakes

PACKAGES = ("grub-common", "grub2-common", "tuned")

#: Version, suite, and where tuned looks for profiles of the host.
RELEASES = (
    (12, "bookworm", "etc/tuned"),
    (13, "trixie", "etc/tuned/profiles"),
)

#: There is no disk below a directory that grub-probe could find.
_PROBE = """#!/bin/sh
case "$*" in
*--target=fs_uuid*) echo 0f4c ;;
*--target=device*) echo /dev/sda1 ;;
*--target=fs*) echo ext2 ;;
*--target=partmap*) echo gpt ;;
esac
"""

#: What belongs to a host that runs, and to us.
_LEFT_OUT = ("proc", "sys", "run", "dev", "var/lib/sriov-rt-tuning")


@periodic
@unittest.skipUnless(os.geteuid() == 0, "debootstrap and chroot need root")
class DebianTest(unittest.TestCase):
    """The distribution's own programs read what was written, and undone."""

    def test_each_release(self) -> None:
        """The kernel's next command line has the plan's arguments."""
        for version, suite, profiles in RELEASES:
            with self.subTest(version):
                self._check(suite, profiles)

    def _check(self, suite: str, profiles: str) -> None:
        place = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, place)
        made = debian_tree.make(suite, PACKAGES, place / "apt.log")
        debian_tree.copy(made, place / "root")
        tree = self._host(place / "root")
        tuning = Tuning(
            apply.Host(tree.root),
            parse_cpu_list(trees.ISOLATED),
            lambda _text: None,
        )
        before = self._snapshot(tree)
        chosen = fakes.settings_of(tree)
        found = {x.path: x for x in tuning.apply(chosen)}
        self.assertEqual(
            {apply.Result.DONE}, {x.result for x in found.values()}, found
        )
        self.assertIn(f"/{profiles}/sriov-rt/tuned.conf", found)
        self.assertIn("/etc/default/grub.d/90-sriov-rt.cfg", found)
        text = (tree.path / "boot/grub/grub.cfg").read_text()
        lines = [x for x in text.splitlines() if "\tlinux\t" in x]
        booted = [x for x in lines if "nohz_full=2-3,6-7" in x]
        self.assertTrue(booted, lines)
        # Those of a recovery boot without.
        self.assertTrue(all("single" in x for x in lines if x not in booted))
        self._sysctls(tree)
        found = {x.path: x for x in tuning.undo(Kind)}
        self.assertEqual(
            {apply.Result.UNDONE}, {x.result for x in found.values()}, found
        )
        self.assertEqual(before, self._snapshot(tree))

    def _host(self, root: pathlib.Path) -> trees.Tree:
        """Give a tree a kernel that runs, and one to boot."""
        tree = trees.Tree(root)
        source = trees.realtime_host(root.with_name("host"))
        fakes.make_ordinary(source)
        for name in ("proc", "sys"):
            shutil.rmtree(root / name)
            shutil.copytree(source.path / name, root / name, symlinks=True)
        shutil.copytree(source.path / "etc/nova", root / "etc/nova")
        tree.write(f"boot/vmlinuz-{trees.RELEASE}", "kernel")
        tree.write("etc/tuned/active_profile", "virtual-host\n")
        probe = root / "usr/sbin/grub-probe"
        probe.write_text(_PROBE)
        probe.chmod(0o755)
        if not (root / "etc/default/grub").exists():
            # As the package of the boot loader itself writes it.
            shutil.copy(
                root / "usr/share/grub/default/grub", root / "etc/default/grub"
            )
        (root / "boot/grub").mkdir(exist_ok=True)
        subprocess.run(("chroot", root, "update-grub"), check=True)
        return tree

    def _sysctls(self, tree: trees.Tree) -> None:
        """The fragment is one that sysctl(8) takes."""
        path = tree.path / "etc/sysctl.d/90-sriov-rt.conf"
        done = subprocess.run(
            ("sysctl", "--dry-run", "-p", path),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn("kernel.sched_rt_runtime_us = -1", done.stdout)

    def _snapshot(self, tree: trees.Tree) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in tree.path.rglob("*"):
            relative = str(path.relative_to(tree.path))
            if relative.startswith(_LEFT_OUT):
                continue
            status = path.lstat()
            data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            owner = status.st_uid, status.st_gid
            found[relative] = (status.st_mode, owner, data)
        return found
