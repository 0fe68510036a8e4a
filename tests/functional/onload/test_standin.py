# SPDX-License-Identifier: Apache-2.0

"""A stand-in for Onload's library is preloaded, and told of as one."""

import shutil
import subprocess
import unittest

from sriov_rt.host.root import Root
from sriov_rt.onload import rootfs
from tests.functional.onload.containers import Base
from tests.functional.onload.containers import run
from tests.functional.onload.containers import status
from tests.testbed import standin


class StandInTest(Base):
    def test_a_dynamic_program_is_injected_and_no_more(self):
        self.assert_no_module()
        wanted = self.environment()
        with standin.running(self.dynamic, wanted) as (process, said):
            found = status(process.pid)
            self.assertEqual(
                sorted(f"{name}={text}" for name, text in wanted.items()),
                sorted(said),
            )
            self.assertEqual("injected", found["state"])
            self.assertEqual(
                "injected, not accelerated: no onload module (the library "
                "is a stand-in for Onload's)",
                found["message"],
            )
            self.assertTrue(found["stand_in"])
            self.assertEqual(self.library, found["library"])
            self.assertEqual(wanted, found["variables"])
            self.assertEqual("mine", found["variables"]["EF_NAME"])
            process.stdin.close()
            self.assertEqual(
                "stand-in for libonload.so: 3 socket calls\n",
                process.stderr.read(),
            )

    def test_a_static_program_is_not(self):
        program = self.static()
        with standin.running(program, self.environment()) as (process, _):
            found = status(process.pid)
            self.assertEqual("asked", found["state"])
            self.assertEqual(
                "requested, not injected: the program is linked statically",
                found["message"],
            )
            self.assertIsNone(found["library"])
            process.stdin.close()
            self.assertEqual("", process.stderr.read())

    def test_a_program_without_preload_is_not_listed(self):
        with (
            standin.running(self.dynamic, {}) as (process, _),
            self.assertRaises(KeyError),
        ):
            status(process.pid)

    def test_the_stand_in_says_so_in_the_table(self):
        with standin.running(self.dynamic, self.environment()):
            done = run("status")
            self.assertIn("stand-in", done.stdout)

    def test_images_of_this_machine(self):
        root = Root()
        for path, codes in (
            (self.dynamic, []),
            (self.static(), ["onload_init_static"]),
            ("/etc/passwd", ["onload_init_unreadable"]),
        ):
            found = rootfs.why_not(root, path, root, self.library)
            self.assertEqual(codes, [each.code for each in found])

    @unittest.skipUnless(shutil.which("musl-gcc"), "musl is not installed")
    def test_a_program_of_musl(self):
        path = str(self.place / "musl")
        subprocess.run(
            ["musl-gcc", "-x", "c", "-", "-o", path],
            input=standin.PROGRAM,
            text=True,
            check=True,
        )
        found = rootfs.why_not(Root(), path, Root(), self.library)
        self.assertEqual(["onload_musl"], [each.code for each in found])
