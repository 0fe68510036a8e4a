# SPDX-License-Identifier: Apache-2.0

"""Command lines of sriov-rt verify that can't be measured with."""

import contextlib
import dataclasses
import errno
import io
import logging
import os
import pathlib
import re
import tempfile
import time
import unittest
from unittest import mock

from sriov_rt.cmd import faults
from sriov_rt.cmd import main
from sriov_rt.cmd import verify_certificate
from sriov_rt.cmd import verify_latency
from sriov_rt.cmd import verify_regression
from sriov_rt.facts import certificate
from sriov_rt.facts.culprit import Culprit
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.verify import errors
from sriov_rt.verify import results
from sriov_rt.verify import watch
from tests.periodic import slow
from tests.unit.cmd import interrupts
from tests.unit.host import trees
from tests.unit.verify import test_watch


def run_it(*arguments):
    """Run 'sriov-rt verify'; return its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main.main(["verify", *map(str, arguments)])
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


class BadInputTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )

    def refused(self, problem, *arguments):
        code, _, err = run_it(*arguments)
        self.assertEqual(2, code)
        self.assertIn(problem, err)
        self.assertNotIn("Traceback", err)

    def test_sizes_and_numbers(self):
        for option, value in (
            ("--size", "x"),
            ("--size", "0g"),
            ("--size", "-1g"),
            ("--size", "9" * 99 + "t"),
            ("--clients", "0"),
            ("--clients", "9" * 99),
            ("--duration", "0s"),
        ):
            with self.subTest(option=option, value=value):
                self.refused(option, "disk", self.place, f"{option}={value}")
        for value in ("0", "-1", "1.5", "9" * 99, "20us"):
            with self.subTest(housekeeping=value):
                self.refused("1 to 9", "watch", f"--housekeeping={value}")

    def test_ends(self):
        self.refused("error: specify --to ADDRESS", "network")
        self.refused(
            "--server-namespace needs --namespace",
            *("network", "--to", "127.0.0.1", "--server-namespace", "b"),
        )
        self.refused(
            "--packets needs --server-namespace",
            *("network", "--to", "127.0.0.1", "--packets", "a", "b"),
        )
        for option, value in (
            ("--streams", "0"),
            ("--streams", "65"),
            ("--port", "65000"),
            ("--name", "../x"),
            ("--namespace", "a/b"),
            ("--namespace", "pid:"),
            ("--server-namespace", "pid:-1"),
        ):
            with self.subTest(option=option, value=value):
                self.refused(option, "network", f"{option}={value}")

    def test_tools_that_are_missing(self):
        with mock.patch("shutil.which", return_value=None):
            self.refused("install fio util-linux", "disk", self.place / "x")
            self.refused(
                "install iperf3 sockperf", "network", "--to", "127.0.0.1"
            )
            self.refused("install rtla", "watch", "--once")

    def test_a_plan_for_a_directory_that_the_measurement_would_refuse(self):
        (self.place / "passwd").touch()
        self.refused("none of ours", "disk", self.place, "--dry-run")

    def test_a_certificate_that_is_none_has_a_remedy_of_its_own(self):
        for words in (("certificate", "--file"), ("guest", "--host")):
            with self.subTest(words[0]):
                self.refused("give a copy of a host's", *words, "/nowhere")

    def test_two_at_once(self):
        with (
            mock.patch.object(
                results, "exclusive", side_effect=errors.Busy("/run/lock/x")
            ),
            mock.patch("shutil.which", return_value="/bin/true"),
        ):
            self.refused(
                "another measurement holds /run/lock/x",
                *("disk", self.place / "x", "--size", "1m"),
            )
        self.assertFalse((self.place / "x").exists())


class WatchTest(unittest.TestCase):
    """What it logs: it is a service."""

    def said(self, *options, emulated=False):
        """Return what it prints, with a message of each level."""

        def watching(*_):
            for level in (logging.DEBUG, logging.INFO, logging.WARNING):
                watch.LOG.log(level, "so it is")

        ours = logging.getLogger("sriov_rt")
        self.addCleanup(ours.setLevel, ours.level)
        for name in (None, "sriov_rt"):
            logger = logging.getLogger(name)
            self.addCleanup(setattr, logger, "handlers", logger.handlers)
        err = io.StringIO()
        with (
            mock.patch.object(watch, "watch", watching),
            mock.patch.object(conditions, "emulated", lambda _: emulated),
            mock.patch("shutil.which", return_value="/usr/bin/rtla"),
            contextlib.redirect_stderr(err),
        ):
            main.main([*options, "verify", "watch"])
        ours.setLevel(logging.NOTSET)
        return err.getvalue()

    def test_each_message_once(self):
        for options, levels in (((), ["INFO", "WARNING"]), (("-q",), [])):
            found = re.findall("(.*) so it is", self.said(*options))
            self.assertEqual(levels, found)

    def test_that_the_host_is_emulated(self):
        sentence = "this host is itself a virtual machine"
        probed = watch.Probe(2, 12, "CPU 2: at most 12 µs")
        for emulated, times in ((True, 1), (False, 0)):
            with (
                self.subTest(emulated),
                mock.patch.object(
                    conditions, "emulated", return_value=emulated
                ),
                mock.patch.object(watch, "probe", return_value=probed),
                mock.patch("shutil.which", return_value="/usr/bin/rtla"),
            ):
                _, out, _ = run_it("watch", "--once")
                self.assertEqual(times, out.count(sentence))
                err = self.said(emulated=emulated)
                self.assertEqual(times, err.count(f"WARNING {sentence}"))


class LatencyTest(test_watch.ProgramTest):
    """A measurement that fails earns nothing, and loses nothing."""

    def setUp(self):
        super().setUp()
        self.tree.write("sys/devices/system/cpu/online", "0-1\n")
        self.tree.write("sys/devices/system/cpu/isolated", "1\n")
        self.program("taskset", 'shift 2; exec "$@"')
        self.program("stress-ng", "exec sleep 60")
        for name in ("cyclictest", "oslat"):
            self.copying(name)
        self.path = self.tree.path / certificate.PATH
        self.before = self.path.read_bytes()
        lock = self.place / "lock"
        self.exclusive = results.exclusive
        for module, name, value in (
            (verify_latency, "Root", lambda _: self.root),
            (verify_certificate, "Root", lambda _: self.root),
            (results, "exclusive", lambda: self.exclusive(lock)),
        ):
            self.enterContext(mock.patch.object(module, name, value))

    def copying(self, name, then=""):
        """Let a tool write what the real one wrote once."""
        recorded = test_watch.RECORDED / f"{name}-2.40.json"
        self.program(
            name,
            "for each; do case $each in\n"
            f"--json=*) cp {recorded} ${{each#*=}};;\n"
            f"esac; done; {then}",
        )

    def lasting(self):
        """Let the tools take as long as a certificate wants."""
        for name in ("cyclictest", "oslat"):
            self.copying(name, "sleep 1")

    def measure(self, *arguments):
        return run_it(
            *("latency", "--skip", "hwlat", "--skip", "timerlat"),
            *("--duration", "3s", "--min-duration", "1s"),
            *("--output", self.place / "results", *arguments),
        )

    def kept(self):
        found = (self.place / "results").glob("*")
        return sorted(each.name for each in found)

    def assert_lost(self, problem, *arguments):
        """It fails with one sentence; the certificate is as it was."""
        code, out, err = self.measure(*arguments)
        self.assertEqual((2, ""), (code, out))
        (line,) = err.splitlines()
        self.assertTrue(line.startswith("sriov-rt: error: "), line)
        self.assertIn(problem, line)
        self.assertEqual(self.before, self.path.read_bytes())
        self.assertEqual(1, len(list(self.path.parent.iterdir())))

    def test_what_is_sound_earns_one(self):
        self.lasting()
        code, out, err = self.measure()
        self.assertEqual((0, ""), (code, err), out)
        self.assertIn("certificate: 50757 µs", out)
        self.assertNotEqual(self.before, self.path.read_bytes())

    def test_the_culprit_of_one_that_was_withdrawn(self):
        found = certificate.from_bytes(self.before)
        named = Culprit(
            "thread", "hog:9", 2, 433, 420, "timerlat", ("timerlat_irq",)
        )
        withdrawn = dataclasses.replace(found, withdrawn="x", culprit=named)
        self.path.write_bytes(certificate.to_bytes(withdrawn))
        code, out, _ = run_it("certificate")
        self.assertEqual(1, code)
        self.assertIn(
            "culprit: thread hog:9 had the CPU for 420 µs (timerlat)\n"
            "  in timerlat_irq\n",
            out,
        )

    def test_a_bound_names_culprits_and_packages_are_written_down(self):
        self.lasting()
        self.tree.write(
            "var/lib/dpkg/status",
            "Package: seabios\nStatus: install ok installed\nVersion: 1.16\n",
        )
        code, out, err = self.measure("--bound", "40000")
        self.assertEqual((0, ""), (code, err), out)
        self.assertIn(
            "CPU 1, 50757 µs: nothing can be named: this tool does not say",
            out,
        )
        found = certificate.from_bytes(self.path.read_bytes())
        self.assertEqual(("seabios 1.16",), found.packages)

    def test_the_next_measurement_is_compared_with_it(self):
        self.lasting()
        self.measure()
        # The second one earns a certificate, too.
        code, out, _ = self.measure("--output", self.place / "again")
        self.assertEqual(0, code, out)
        with mock.patch.object(verify_regression, "Root", lambda _: self.root):
            code, out, err = run_it("compare", self.place / "again")
            self.assertEqual((3, ""), (code, err), out)
            # cyclictest has run for a second.
            self.assertIn("no worse than at the certificate of 20", out)
            self.assertIn("too few: cyclictest, CPU 1 has too few", out)
            self.assertIn("oslat, CPU 1, 99.99 %", out)
            code, _, err = run_it("compare", self.place / "results")
        self.assertEqual(2, code)
        self.assertIn("no figures of a certificate from before", err)

    def test_time_left_on_a_terminal_alone(self):
        self.lasting()
        self.assertEqual("", self.measure()[2])
        with mock.patch.object(faults, "is_watched", return_value=True):
            _, _, shown = self.measure()
        self.assertRegex(shown, "\roslat: [0-9ms ]+ left\033\\[K")
        # The table that follows begins at the line's start.
        self.assertTrue(shown.endswith("\r\033[K"), shown)

    def test_two_runs_at_once(self):
        with self.exclusive(self.place / "lock"):
            self.assert_lost("another measurement holds")
        self.assertEqual([], self.kept())

    def test_a_tool_killed_in_the_middle(self):
        self.lasting()
        self.copying("oslat", "kill -9 $$")
        self.assert_lost("oslat failed: exit code -9")
        # What was measured before is not lost.
        self.assertEqual(["cyclictest.json"], self.kept())
        self.copying("oslat", "sleep 1")
        self.program("cyclictest", "exit 9")
        code, out, _ = self.measure("--resume")
        self.assertEqual(0, code, out)

    def test_ctrl_c_in_the_middle(self):
        interrupts.accept(self)
        self.lasting()
        self.copying("oslat", f"sleep 2; kill -INT {os.getpid()}; sleep 60")
        code, out, err = self.measure()
        self.assertEqual(130, code, out + err)
        self.assertIn("oslat: does not count: it was interrupted", out)
        self.assertIn("go on with --resume", err)
        self.copying("oslat", "sleep 1")
        self.program("cyclictest", "exit 9")
        code, out, _ = self.measure("--resume")
        self.assertEqual(0, code, out)

    def test_ctrl_c_between_two_runs(self):
        self.lasting()
        with mock.patch.object(
            verify_latency.certificate, "issue", side_effect=KeyboardInterrupt
        ):
            code, out, err = self.measure()
        self.assertEqual((130, ""), (code, out))
        self.assertIn("go on with --resume", err)
        self.program("cyclictest", "exit 9")
        self.assertEqual(0, self.measure("--resume")[0])

    def test_a_load_killed_in_the_middle(self):
        killed = self.place / "killed"
        self.program("stress-ng", f"echo $$ > {killed}; kill -9 $$")
        # However late it starts, the tools outlast it.
        outlast = f"until [ -s {killed} ]; do sleep 0.1; done; sleep 0.5"
        for name in ("cyclictest", "oslat"):
            self.copying(name, outlast)
        code, out, err = self.measure()
        self.assertEqual((1, ""), (code, err))
        self.assertIn("the load (stress-ng) ended", out)
        self.assertIn("no certificate:", out)
        self.assertEqual(self.before, self.path.read_bytes())

    def guest(self, vcpus, maximum):
        """Let virsh know of one running guest, rt-2, and log what it sets."""
        self.program(
            "virsh",
            f"""case $1/$3 in
                vcpucount/--active) cat {self.place}/vcpus;;
                vcpucount/*) echo {maximum};;
                *) echo $3 | tee {self.place}/vcpus >> {self.place}/set;;
            esac""",
        )
        (self.place / "vcpus").write_text(f"{vcpus}\n")

    @slow
    def test_hotplug_of_a_guest(self):
        self.lasting()
        self.guest(1, 2)
        code, out, err = self.measure("--hotplug", "rt-2")
        self.assertEqual((0, ""), (code, err), out)
        found = certificate.from_bytes(self.path.read_bytes())
        self.assertEqual("compute+hotplug", found.load)
        changes = (self.place / "set").read_text().split()
        self.assertEqual(["2", "1"], changes[:2])
        self.assertEqual("1\n", (self.place / "vcpus").read_text())

    def test_hotplug_of_a_guest_that_can_not(self):
        self.guest(1, 1)
        for arguments, problem in (
            (("--hotplug", "rt-2"), "guest 'rt-2': it can't have two vCPUs"),
            (("--hotplug", "rt-2", "--dry-run"), "can't have two vCPUs"),
            (
                ("--hotplug", "rt-2", "--load", "none"),
                "--hotplug needs another --load",
            ),
        ):
            with self.subTest(arguments):
                self.assert_lost(problem, *arguments)
        self.assertEqual([], self.kept())
        for name in ("-c", "a b", "", "x" * 256):
            with self.subTest(name):
                code, _, err = self.measure(f"--hotplug={name}")
                self.assertEqual(2, code)
                self.assertIn("a guest's name or UUID expected", err)
        missing = {"PATH": str(self.place)}
        (self.place / "virsh").unlink()
        with mock.patch.dict(os.environ, missing):
            self.assert_lost(
                "not installed: virsh; install libvirt-clients",
                *("--hotplug", "rt-2"),
            )

    def test_hotplug_is_planned_and_not_done(self):
        self.guest(2, 2)
        code, out, err = self.measure("--hotplug", "rt-2", "--dry-run")
        self.assertEqual((0, ""), (code, err))
        self.assertIn(", load compute+hotplug\n", out)
        self.assertIn("guest rt-2: 2 or 1 vCPUs, changed every 2 s\n", out)
        self.assertFalse((self.place / "set").exists())

    def test_a_disk_that_is_full_before(self):
        error = OSError(errno.ENOSPC, "No space left on device")
        with mock.patch("tempfile.TemporaryFile", side_effect=error):
            self.assert_lost("No space left on device")
        self.assertEqual([], self.kept())

    def test_a_disk_that_fills_up(self):
        # At the first result, at the second, at the certificate.
        for whole in range(3):
            if whole == 2:
                self.lasting()
            error = OSError(errno.ENOSPC, "No space left on device")
            with (
                self.subTest(whole),
                mock.patch("os.fsync", side_effect=[None] * whole + [error]),
            ):
                self.assert_lost("No space left on device")
                self.assertLessEqual(len(self.kept()), 2)

    def test_output_of_a_tool_cut_in_the_middle(self):
        recorded = (test_watch.RECORDED / "oslat-2.40.json").read_bytes()
        (self.place / "half").write_bytes(recorded[: len(recorded) // 2])
        self.program(
            "oslat",
            "for each; do case $each in\n"
            f"--json=*) cp {self.place}/half ${{each#*=}};;\n"
            "esac; done",
        )
        self.assert_lost("oslat: output not understood")


class CertificateTest(trees.TreeTest):
    """Of a bad certificate the command says one sentence."""

    def show(self):
        lock = self.tree.path / "lock"
        with (
            mock.patch.object(verify_certificate, "Root", lambda _: self.root),
            mock.patch.object(results, "LOCK", lock),
        ):
            return run_it("certificate")

    def test_one_that_is_none(self):
        path = self.tree.path / certificate.PATH
        good = path.read_bytes()

        def long():
            with path.open("r+b") as file:
                file.truncate(100_000_000)

        def unreadable():
            path.unlink()
            path.mkdir()

        for name, change, problem in (
            (
                "edited",
                lambda: path.write_bytes(good.replace(b"18", b"17")),
                "the file was edited",
            ),
            ("cut", lambda: path.write_bytes(good[:-9]), "not JSON"),
            ("100 MB", long, "longer than"),
            ("others may write", lambda: path.chmod(0o666), "others than"),
            ("unreadable", unreadable, "Is a directory"),
        ):
            change()
            with self.subTest(name):
                code, out, err = self.show()
                self.assertEqual((2, ""), (code, out))
                (line,) = err.splitlines()
                self.assertIn(f"/{certificate.PATH}: ", line)
                self.assertIn(problem, line)
                self.assertIn("measure with 'sriov-rt verify latency'", line)

    def test_one_that_does_not_count(self):
        self.tree.write("etc/machine-id", f"{trees.MACHINE}\n")
        for changes, problem in (
            (
                {"conditions": {**trees.CONDITIONS, "machine": "x"}},
                "machine changed from 'x'",
            ),
            ({"issued_at": time.time() + 3600}, "ahead of the host's clock"),
            ({"issued_at": 0.0, "expires_at": 1.0}, "it has expired"),
            ({"withdrawn": "88 µs"}, "88 µs"),
        ):
            made = dataclasses.replace(
                trees.CERTIFICATE,
                **{
                    "issued_at": time.time(),
                    "expires_at": time.time() + 9999,
                    "conditions": conditions.observe(
                        self.root, compute.observe(self.root)
                    ),
                    **changes,
                },
            )
            self.tree.write(certificate.PATH, certificate.to_bytes(made))
            with self.subTest(problem):
                code, out, err = self.show()
                self.assertEqual((1, ""), (code, err))
                (line,) = re.findall("it counts no more: .*", out)
                self.assertIn(problem, line)

    def counts_for(self, effective_user):
        """Change a condition, look, undo that; return how it counts then."""
        self.tree.write("etc/machine-id", f"{trees.MACHINE}\n")
        made = dataclasses.replace(
            trees.CERTIFICATE,
            issued_at=time.time(),
            expires_at=time.time() + 9999,
            conditions=conditions.observe(
                self.root, compute.observe(self.root)
            ),
        )
        self.tree.write(certificate.PATH, certificate.to_bytes(made))
        profile = "etc/tuned/active_profile"
        with mock.patch.object(os, "geteuid", return_value=effective_user):
            self.tree.write(profile, "powersave\n")
            self.assertEqual(1, self.show()[0])
            self.tree.remove(profile)
            return self.show()

    def test_a_change_that_root_saw_counts_after_it_is_undone(self):
        code, out, err = self.counts_for(0)
        self.assertEqual((1, ""), (code, err))
        self.assertIn("tuned profile changed from '-' to 'powersave'", out)

    def test_somebody_else_cannot_withdraw_it(self):
        code, _, err = self.counts_for(1000)
        self.assertEqual((0, ""), (code, err))
