# SPDX-License-Identifier: Apache-2.0

"""What goes wrong around a command is said in one sentence."""

import contextlib
import errno
import io
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import host
from sriov_rt.cmd import main
from tests.periodic import slow

NOTHING = command.lines(())

ROOT = pathlib.Path(__file__).resolve().parents[3]


class MainTest(unittest.TestCase):
    def run_main(self, *words, **patched):
        said = io.StringIO()
        with (
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(host.Features, "run", **patched),
        ):
            code = main.main(["host", "features", *words])
        return code, said.getvalue()

    def test_ctrl_c(self):
        code, said = self.run_main(side_effect=KeyboardInterrupt)
        self.assertEqual(130, code)
        self.assertEqual("sriov-rt: interrupted\n", said)

    def test_an_error_of_the_system(self):
        error = PermissionError(13, "Permission denied", "/run/x")
        code, said = self.run_main(side_effect=error)
        self.assertEqual(2, code)
        self.assertIn("/run/x", said)
        self.assertEqual(1, said.count("\n"))

    def test_a_service_that_does_not_answer(self):
        error = ConnectionRefusedError(111, "Connection refused")
        code, said = self.run_main(side_effect=error)
        self.assertEqual(2, code)
        self.assertIn("error: Connection refused\n", said)

    def test_nobody_reads_the_number_of_an_error(self):
        denied = PermissionError(13, "Permission denied", "/x")
        for error, expected in (
            (denied, "/x: Permission denied; run as root, or as a user who "),
            (FileNotFoundError(2, "No such file", "/x"), "/x: No such file\n"),
            (ValueError(f"it says: {denied}"), "it says: Permission denied"),
        ):
            with mock.patch.object(os, "geteuid", return_value=65534):
                _, said = self.run_main("--root", "/tmp", side_effect=error)
            self.assertIn(f"sriov-rt: error: {expected}", said)
        with mock.patch.object(os, "geteuid", return_value=0):
            _, said = self.run_main(side_effect=denied)
        self.assertNotIn("run as root", said)

    def test_nothing_that_is_said_has_a_number(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            faults.say(f"not recovered: {FileNotFoundError(2, 'None', '/x')}")
        self.assertEqual(
            "sriov-rt: not recovered: None: '/x'\n", said.getvalue()
        )

    def test_nothing_that_is_said_steers_the_terminal(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            faults.say("port \x1b[2J of\x9b \u202e\n- another line")
        self.assertNotRegex(said.getvalue(), "[\x1b\x9b\u202e]")
        self.assertEqual(2, said.getvalue().count("\n"))

    def test_who_sits_at_a_terminal_is_told_what_is_read(self):
        for is_terminal, expected in (
            (
                True,
                "sriov-rt: reading a Pod from the terminal, until Ctrl-D\n",
            ),
            (False, ""),
        ):
            stdin = mock.Mock(buffer=io.BytesIO(b"12345"))
            stdin.isatty.return_value = is_terminal
            said = io.StringIO()
            with (
                mock.patch("sys.stdin", stdin),
                contextlib.redirect_stderr(said),
            ):
                self.assertEqual(b"1234", faults.read_input("a Pod", 3))
            self.assertEqual(expected, said.getvalue())
        with (
            mock.patch("sys.stdin", None),
            self.assertRaisesRegex(ValueError, "input is closed; give a Pod"),
        ):
            faults.read_input("a Pod", 3)

    def test_input_that_is_nested_too_deep(self):
        code, said = self.run_main(side_effect=RecursionError)
        self.assertEqual(2, code)
        self.assertIn("nested too deep", said)

    def test_another_user_than_root(self):
        with mock.patch.object(os, "geteuid", return_value=1000):
            code, said = self.run_main(return_value=NOTHING)
            self.assertEqual(0, code)
            self.assertTrue(said.startswith("sriov-rt: run as root: "), said)
            self.assertEqual(1, said.count("\n"))
            # A copy of a host belongs to who made it.
            self.assertEqual(
                (0, ""), self.run_main("--root", "/tmp", return_value=NOTHING)
            )
        with mock.patch.object(os, "geteuid", return_value=0):
            self.assertEqual((0, ""), self.run_main(return_value=NOTHING))


@slow
class ProcessTest(unittest.TestCase):
    """What only a process of its own shows."""

    def run_process(self, script, stdout=subprocess.PIPE, **environment):
        code = (
            "import sys\n"
            "from unittest import mock\n"
            "from sriov_rt.cmd import command, host, main\n"
            f"def show(self, args):\n    {script}\n"
            "    return command.lines(())\n"
            "with mock.patch.object(host.Features, 'run', show):\n"
            "    sys.exit(main.main(['host', 'features']))\n"
        )
        return subprocess.run(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            cwd=ROOT,
            check=False,
            timeout=60,
        )

    def test_a_full_disk(self):
        for script in ("print('x' * 100_000)", "print('x')"):
            with (
                self.subTest(script),
                pathlib.Path("/dev/full").open("wb") as full,
            ):
                done = self.run_process(script, full)
                self.assertEqual(2, done.returncode)
                self.assertEqual(
                    b"sriov-rt: error: the output cannot be written: No "
                    b"space left on device\n",
                    done.stderr,
                )

    def test_a_file_system_that_takes_no_file(self):
        for number, remedy in (
            (
                errno.EROFS,
                "see 'dmesg', and mount its file system writable again",
            ),
            (errno.ENOSPC, "free space on its file system, then try again"),
        ):
            said = io.StringIO()
            with self.subTest(remedy), contextlib.redirect_stderr(said):
                error = OSError(number, os.strerror(number), "/var/x")
                self.assertEqual(2, faults.report(error))
                self.assertIn(
                    f"/var/x: {os.strerror(number)}; {remedy}\n",
                    said.getvalue(),
                )

    def test_a_reader_that_has_seen_enough(self):
        read, write = os.pipe()
        os.close(read)
        try:
            done = self.run_process("print('x' * 100_000)", write)
        finally:
            os.close(write)
        self.assertEqual((141, b""), (done.returncode, done.stderr))

    def test_a_locale_of_ascii_alone(self):
        done = self.run_process(
            r"print('950000 \u00b5s, \u2026 \u00d7 \u00fc')",
            LC_ALL="C",
            PYTHONUTF8="0",
            PYTHONCOERCECLOCALE="0",
            PYTHONIOENCODING="",
        )
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        self.assertEqual(rb"950000 us, ... x \xfc" + b"\n", done.stdout)
