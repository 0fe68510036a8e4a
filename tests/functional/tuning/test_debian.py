# SPDX-License-Identifier: Apache-2.0

"""sriov-rt host apply on a Debian as its packages make it."""

import itertools
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.tuning import apply
from sriov_rt.tuning.apply import Tuning
from sriov_rt.tuning.settings import Kind
from tests.periodic import periodic
from tests.testbed import death
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

_ID = "0f4c" * 8

#: What a program writes first of what it would leave half-done.
_DRAFTS = {
    "update-grub": "boot/grub/grub.cfg.new",
    "kernel-install": f"boot/loader/entries/{_ID}-{trees.RELEASE}.conf",
}


class KilledHost(apply.Host):
    """A host whose programs are killed as well: before, amidst and after."""

    def run(self, command: tuple[str, ...]) -> None:
        """Run a program, and die when it has begun to write."""
        death.point()
        if death.is_next():
            with death.quiet():
                self._kill(command)
        death.point()
        with death.quiet():
            super().run(command)
        death.point()

    def _kill(self, command: tuple[str, ...]) -> None:
        draft = self.root.path / _DRAFTS[command[0]]
        before = _written(draft)
        program = subprocess.Popen(
            ("chroot", self.root.path, *command),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while _written(draft) == before and program.poll() is None:
            time.sleep(0.001)
        # One that has ended has no group.
        if program.returncode is None:
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def _written(path: pathlib.Path) -> int | None:
    """Return when a file was written, in nanoseconds."""
    return path.stat().st_mtime_ns if path.exists() else None


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
        found = {x.path: x for x in tuning.undo(tuple(Kind))}
        self.assertEqual(
            {apply.Result.UNDONE}, {x.result for x in found.values()}, found
        )
        self.assertEqual(before, self._snapshot(tree))
        # Each file is opened, written, renamed, and so is its record's.
        killed = self._kill(tree, "update-grub")
        self.assertGreater(min(killed.values()), 60, killed)
        self._boot_by_entries(tree)
        killed = self._kill(tree, "kernel-install")
        self.assertGreater(min(killed.values()), 60, killed)

    def _boot_by_entries(self, tree: trees.Tree) -> None:
        """Have systemd's kernel-install in the place of GRUB."""
        (tree.path / "usr/sbin/update-grub").unlink()
        tree.write("etc/machine-id", f"{_ID}\n")
        tree.write("etc/kernel/cmdline", f"{fakes.LINE}\n")
        for each in (_ID, "loader/entries"):
            (tree.path / "boot" / each).mkdir(parents=True)
        (tree.path / "lib/modules" / trees.RELEASE).mkdir(parents=True)
        image = f"/boot/vmlinuz-{trees.RELEASE}"
        command = ("kernel-install", "add", trees.RELEASE, image)
        subprocess.run(("chroot", tree.path, *command), check=True)

    def _kill(self, tree: trees.Tree, program: str) -> dict[str, int]:
        """Kill an apply, and an undo, at each change, and undo it."""
        tuning = Tuning(
            KilledHost(tree.root),
            parse_cpu_list(trees.ISOLATED),
            lambda _text: None,
        )
        kept = tuple(
            each
            for each in fakes.settings_of(tree)
            if each.kind is not Kind.KERNEL
        )
        self.assertEqual(program, kept[-1].command[0])
        before = self._snapshot(tree, "etc", "boot")
        found = {}

        def apply_all() -> None:
            results = {each.result for each in tuning.apply(kept)}
            self.assertEqual({apply.Result.DONE}, results)

        def undo_all() -> None:
            results = {each.result for each in tuning.undo(tuple(Kind))}
            self.assertEqual(set(), results - {apply.Result.UNDONE})

        for change in (apply_all, undo_all):
            for at in itertools.count():
                if change is undo_all:
                    apply_all()
                was_killed = death.killed(change, at)
                undo_all()
                self.assertEqual(
                    before,
                    self._snapshot(tree, "etc", "boot"),
                    f"{change.__name__}, killed at {at}",
                )
                if not was_killed:
                    break
            found[change.__name__] = at
        return found

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

    def _snapshot(
        self, tree: trees.Tree, *directories: str
    ) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in itertools.chain.from_iterable(
            (tree.path / each).rglob("*") for each in directories or (".",)
        ):
            relative = str(path.relative_to(tree.path))
            if relative.startswith(_LEFT_OUT):
                continue
            status = path.lstat()
            data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            owner = status.st_uid, status.st_gid
            found[relative] = (status.st_mode, owner, data)
        return found
