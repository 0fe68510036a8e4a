# SPDX-License-Identifier: Apache-2.0

"""The commands of the page on libvirt, run on a real one."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import unittest

from tests.functional.libvirt import daemon
from tests.functional.libvirt import test_hook
from tests.functional.libvirt.test_hook import domain
from tests.periodic import periodic

PAGE = daemon.ROOT / "doc/source/admin/libvirt.rst"

_CONSOLE = re.compile(
    r"^(\w[^\n]*)\n-+\n.*?^\.\. code-block:: console\n\n((?:   [^\n]*\n|\n)+)",
    re.MULTILINE | re.DOTALL,
)


def examples() -> dict[str, str]:
    """Return the shell script of each section that has one."""
    found = {}
    for title, block in _CONSOLE.findall(PAGE.read_text()):
        text = textwrap.dedent(block).replace("\\\n", " ")
        lines = [line.removeprefix("# ") for line in text.splitlines()]
        found[title] = "set -ex\n" + "\n".join(lines)
    return found


@periodic
@daemon.needs_qemu
@daemon.needs_root
class PageTest(test_hook.Base):
    def setUp(self):
        super().setUp()
        (policy,) = re.findall(
            r"code-block:: ini\n\n((?:   [^\n]*\n|\n)+)", PAGE.read_text()
        )
        self.libvirt = self.started(
            kernel=test_hook.ISOLATED_1, policy=textwrap.dedent(policy)
        )
        self.examples = examples()
        programs = self.libvirt.place / "bin"
        programs.mkdir()
        program = programs / "sriov-rt"
        program.write_text(
            f'#!/bin/sh\nexec {sys.executable} -m sriov_rt.cmd.main "$@"\n'
        )
        program.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:/usr/bin:{os.environ['PATH']}",
            "LIBVIRT_DEFAULT_URI": self.libvirt.uri,
            "VIRTINSTALL_TEST_SUITE": "",
        }

    def run_example(self, title):
        """Run the commands of a section on the daemon's host."""
        done = subprocess.run(
            (
                *("nsenter", "--mount", "--target"),
                *(str(self.libvirt.process.pid), "sh", "-c"),
                self.examples.pop(title),
            ),
            cwd=self.libvirt.place,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr)

    def running(self):
        return self.libvirt.virsh("list", "--name").stdout.split()

    def test_virsh_and_cockpit(self):
        """cockpit-machines starts and defines as virsh does."""
        for title, name in (
            ("With virsh", "rt-1"),
            ("With Cockpit, and for guests by their names", "cockpit-rt-1"),
        ):
            self.ok(self.libvirt.define(domain(name)))
            self.run_example(title)
            self.assertIn(name, self.running())
        self.assertEqual({"With virt-install"}, set(self.examples))

    @unittest.skipUnless(shutil.which("virt-install"), "virtinst is missing")
    def test_virt_install(self):
        self.run_example("With virt-install")
        self.assertEqual(["rt-2"], self.running())
