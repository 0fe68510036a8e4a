# SPDX-License-Identifier: Apache-2.0

"""Hosts of archives, some of which mean harm."""

import contextlib
import errno
import io
import json
import os
import pathlib
import tarfile
import tempfile
import unittest
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.codec import Unknown
from sriov_rt.host import archive
from sriov_rt.host import compute_driver_socket
from tests.unit.host import trees

UNAME = (
    "Linux rt-7 6.1.0-44-rt-amd64 #1 SMP PREEMPT_RT Debian 6.1.1-1 "
    "(2026-01-01) x86_64 GNU/Linux\n"
)


class ArchiveTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.scratch = self.place / "scratch"
        self.scratch.mkdir()
        self.enterContext(
            mock.patch.object(tempfile, "tempdir", str(self.scratch))
        )
        self.file = self.place / "sosreport-rt-7.tar.xz"

    def tarball(self, *members, kind="w:xz", path=None):
        """Write a tarball of (name, text), or of members as they are."""
        with tarfile.open(path or self.file, kind) as tar:
            for each in members:
                if isinstance(each, tarfile.TarInfo):
                    tar.addfile(each)
                    continue
                name, text = each
                info = tarfile.TarInfo(f"sosreport-rt-7/{name}")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))

    def link(self, name, target, kind=tarfile.SYMTYPE):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return info

    @contextlib.contextmanager
    def root(self):
        with archive.hosts(self.file) as (found,):
            yield found
        self.assertEqual([], list(self.scratch.iterdir()))


class ArchiveTest(ArchiveTestCase):
    def test_files_as_sos_has_them(self):
        for kind in ("w", "w:gz", "w:bz2", "w:xz"):
            with self.subTest(kind):
                self.tarball(("proc/cmdline", "isolcpus=2"), kind=kind)
                with self.root() as root:
                    self.assertEqual(
                        "isolcpus=2", root.read_text("proc/cmdline")
                    )

    def test_what_it_has_not_is_unknown_and_named(self):
        self.tarball(("proc/cmdline", "quiet\n"))
        with self.root() as root:
            for found in (
                root.read_text("proc/swaps"),
                root.exists("dev/kvm"),
                root.list_dir("sys/class/net"),
                root.read_link("sys/class/net/eth0"),
                root.real_name("sys/class/net/eth0"),
            ):
                self.assertIsInstance(found, Unknown)
                self.assertIn(": not in the archive", found.reason)

    def test_what_the_output_of_a_command_says(self):
        self.tarball(
            ("proc/cmdline", "quiet\n"),
            ("sos_commands/kernel/uname_-a", UNAME),
            (
                "sos_commands/kernel/sysctl_-a",
                "kernel.sched_rt_runtime_us = -1\nkernel.x = 1\n",
            ),
            ("sos_commands/memory/swapon_--summary_--verbose", "Filename T\n"),
        )
        with self.root() as root:
            for path, text in (
                ("proc/sys/kernel/osrelease", "6.1.0-44-rt-amd64\n"),
                ("proc/sys/kernel/hostname", "rt-7\n"),
                ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
                ("proc/swaps", "Filename T\n"),
            ):
                self.assertEqual(text, root.read_text(path))
                self.assertIs(True, root.exists(path))
            version = root.read_text("proc/sys/kernel/version")
            self.assertTrue(version.startswith("#1 SMP PREEMPT_RT"), version)
            self.assertIs(False, root.exists("sys/kernel/realtime"))

    def test_what_our_plug_in_left_out_is_not_there(self):
        path = "var/lib/sriov-rt-verify/hold.json"
        certificate = "var/lib/sriov-rt-verify/latency-certificate.json"
        self.tarball(("proc/cmdline", "quiet\n"), (certificate, "{}"))
        with self.root() as root:
            self.assertIsInstance(root.exists(path), Unknown)
            self.assertEqual(
                f"/{path}: not in the archive", root.open_file(path).reason
            )
        self.tarball(
            ("proc/cmdline", "quiet\n"),
            ("sos_commands/sriov_rt/ls_-ln_.run.sriov-rt", "none\n"),
        )
        with self.root() as root:
            for each in (path, certificate, "run/sriov-rt/boot-owed.json"):
                self.assertIs(False, root.exists(each))
            # A result of a measurement, which it does not take.
            other = root.exists("var/lib/sriov-rt-verify/result-1.json")
            self.assertIsInstance(other, Unknown)

    def test_the_driver_of_a_stock_sosreport(self):
        prefix = compute_driver_socket.prefix("rt-7")
        self.tarball(
            ("proc/4711/net/unix", f"0: 2 0 0 2 1 9 @{prefix}1.0/kvm/abc\n"),
            self.link("sosreport-rt-7/proc/self", "4711"),
            self.link("sosreport-rt-7/proc/net", "self/net"),
        )
        with self.root() as root:
            self.assertEqual(
                compute_driver_socket.Driver("1.0", "kvm"),
                compute_driver_socket.observe(root, "rt-7"),
            )
        self.tarball(("proc/cmdline", "quiet\n"))
        with self.root() as root:
            found = compute_driver_socket.observe(root, "rt-7")
            self.assertIn("/proc/1/net/unix: not in", found.reason)

    def test_one_of_outputs_of_commands_alone(self):
        self.tarball(("sos_commands/kernel/uname_-a", UNAME))
        with self.root() as root:
            self.assertEqual(
                "rt-7\n", root.read_text("proc/sys/kernel/hostname")
            )

    def test_nothing_is_written_outside(self):
        victim = self.place / "victim"
        victim.write_text("as it was")
        self.tarball(
            tarfile.TarInfo("../../victim"),
            tarfile.TarInfo(str(victim)),
            self.link("sosreport-rt-7/etc/nova", str(self.place)),
            ("etc/nova/victim", "written over"),
            self.link("sosreport-rt-7/proc/x", str(victim), tarfile.LNKTYPE),
            self.link("sosreport-rt-7/sys/fifo", "", tarfile.FIFOTYPE),
            ("proc/cmdline", "quiet\n"),
            ("../sys/up", "no"),
        )
        with self.root() as root:
            self.assertEqual("as it was", victim.read_text())
            self.assertEqual("written over", root.read_text("etc/nova/victim"))
            for each in ("proc/x", "sys/fifo", "../victim"):
                self.assertIsInstance(root.read_text(each), Unknown)

    def test_no_link_is_made_through_another_one(self):
        outside = self.place / "outside"
        outside.mkdir()
        self.tarball(
            ("proc/cmdline", "quiet\n"),
            self.link("sosreport-rt-7/etc/nova", str(outside)),
            self.link("sosreport-rt-7/etc/nova/evil", "/etc/passwd"),
            self.link("sosreport-rt-7/etc/nova/new/evil", "/etc/passwd"),
        )
        with self.root():
            self.assertEqual([], list(outside.iterdir()))

    def test_its_links_lead_nowhere_else(self):
        self.tarball(
            ("proc/cmdline", "quiet\n"),
            self.link("sosreport-rt-7/etc/passwd", "/etc/passwd"),
            self.link("sosreport-rt-7/etc/up", "../" * 30 + "etc/passwd"),
            self.link("sosreport-rt-7/etc/loop", "loop"),
            self.link("sosreport-rt-7/etc/cmdline", "../proc/cmdline"),
        )
        with self.root() as root:
            for each in ("etc/passwd", "etc/up", "etc/loop"):
                self.assertIsInstance(root.read_text(each), Unknown)
            self.assertEqual("quiet\n", root.read_text("etc/cmdline"))

    def test_a_link_in_a_directory_of_archives_is_passed_over(self):
        outside = self.place / "outside"
        (outside / "proc").mkdir(parents=True)
        some = self.place / "some"
        some.mkdir()
        (some / "a").symlink_to(outside)
        with self.assertRaises(archive.ArchiveUnusable):
            archive.hosts(some).__enter__()

    def test_bounds(self):
        for name, value, members in (
            ("MAX_TAKEN", 9999, [(f"proc/{n}", "x" * 99) for n in range(9)]),
            ("MAX_WHOLE", 99, [("var/log/big", "x" * 999)]),
            ("MAX_MEMBERS", 3, [(f"var/{n}", "") for n in range(9)]),
        ):
            with (
                self.subTest(name),
                mock.patch.object(archive, name, value),
            ):
                self.tarball(*members)
                with self.assertRaisesRegex(
                    archive.ArchiveUnusable, "too large"
                ):
                    archive.hosts(self.file).__enter__()
                self.assertEqual([], list(self.scratch.iterdir()))
        self.tarball(("proc/cmdline", "x"), ("proc/big", "x" * 999))
        with mock.patch.object(archive, "MAX_FILE", 99), self.root() as root:
            self.assertIsInstance(root.read_text("proc/big"), Unknown)

    def test_a_name_that_would_fill_the_memory(self):
        info = tarfile.TarInfo("x")
        info.type, info.size = tarfile.XHDTYPE, 2**33
        self.file.write_bytes(info.tobuf() + b"\0" * 4096)
        with self.assertRaises(archive.ArchiveUnusable):
            archive.hosts(self.file).__enter__()

    def test_what_is_no_archive(self):
        empty = self.place / "empty"
        empty.mkdir()
        for data in (b"", b"x" * 999, b"\x1f\x8b\x08", b"\xfd7zXZ\x00\x00"):
            self.file.write_bytes(data)
            with self.subTest(data[:9]):
                with self.assertRaises(archive.ArchiveUnusable):
                    archive.hosts(self.file).__enter__()
                self.assertEqual([], list(self.scratch.iterdir()))
        self.tarball(("proc/cmdline", "x" * 9999), kind="w:xz")
        self.file.write_bytes(self.file.read_bytes()[:-40])
        for path in (self.file, empty, self.place / "none"):
            with self.assertRaises(archive.ArchiveUnusable):
                archive.hosts(path).__enter__()


class CommandTest(ArchiveTestCase):
    def run_it(self, *words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main.main([*map(str, words)])
        return code, out.getvalue(), err.getvalue()

    def sosreport(self, name, host):
        """Write the tarball of a realtime host; return its path."""
        tree = self.place / name
        trees.realtime_host(tree)
        nova = tree / "etc/nova/nova.conf"
        nova.write_text(nova.read_text().replace("rt-1", host))
        path = self.place / f"{name}.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            tar.add(tree, f"sosreport-{name}")
        return path

    def test_a_check_says_which_file_would_tell(self):
        path = self.sosreport("a", "rt-1")
        code, out, err = self.run_it("host", "check", "--sos", path, "--json")
        self.assertEqual("", err)
        found = json.loads(out)
        self.assertEqual("rt-1", found["host"])
        directory = self.place / "a"
        (directory / "sys/kernel/mm/ksm/run").unlink()
        code, out, _ = self.run_it(
            *("host", "check", "--sos", directory, "-f", "json")
        )
        self.assertEqual(1, code)
        _, document, _ = self.run_it(
            *("host", "check", "--sos", directory, "--json")
        )
        (reason,) = [
            each
            for each in json.loads(document)["reasons"]
            if each.get("fact") == "memory.ksm_run"
        ]
        self.assertIn("sos report -o sriov_rt", reason["remedy"])
        self.assertTrue(reason["message"].endswith(reason["remedy"]))
        (row,) = [
            each
            for each in json.loads(out[out.index("[") :])
            if "ksm_run" in each["Problem"]
        ]
        self.assertIn("/sys/kernel/mm/ksm/run: not in", row["Problem"])
        self.assertIn("sos report -o sriov_rt", row["Remedy"])

    def test_a_configuration_that_is_a_link_out_of_it(self):
        self.sosreport("a", "rt-1")
        victim = self.place / "victim"
        victim.write_text("secretword\n")
        place = self.place / "a/etc/sriov_rt"
        place.mkdir(exist_ok=True)
        conf = place / "sriov-rt.conf"
        conf.unlink(missing_ok=True)
        conf.symlink_to(victim)
        # There is a file of that name within, too.
        decoy = self.place / "a" / victim.relative_to("/")
        decoy.parent.mkdir(parents=True)
        decoy.write_text("[vif]\n")
        for words in (
            ("host", "check", "--mode", "onload", "--sos", self.place / "a"),
            ("host", "show", "--root", self.place / "a"),
        ):
            _, out, err = self.run_it(*words, "--json")
            self.assertTrue(out)
            self.assertNotIn("secretword", out + err)

    def test_each_node_of_a_must_gather(self):
        self.tarball(("proc/cmdline", "a\n"), kind="w:gz")
        snapshot = self.file.read_bytes()
        with tarfile.open(self.file, "w") as tar:
            for node in ("n1", "n2"):
                info = tarfile.TarInfo(f"must/nodes/{node}/sysinfo.tgz")
                info.size = len(snapshot)
                tar.addfile(info, io.BytesIO(snapshot))
        with archive.hosts(self.file) as found:
            self.assertEqual(
                ["a\n", "a\n"], [x.read_text("proc/cmdline") for x in found]
            )
        self.assertEqual([], list(self.scratch.iterdir()))

    def test_a_directory_of_archives_is_explained(self):
        some = self.place / "some"
        some.mkdir()
        for name, host in (("a", "rt-1"), ("b", "rt-2")):
            path = self.sosreport(name, host)
            path.rename(some / path.name)
        code, out, err = self.run_it(
            *("explain", "--extra-spec", "sriov_rt:kernel=preempt_rt"),
            *("--sos", some, "--json"),
        )
        self.assertEqual("", err)
        self.assertEqual(
            {"rt-1", "rt-2"}, {each["host"] for each in json.loads(out)}
        )
        code, _, err = self.run_it("host", "check", "--sos", some)
        self.assertEqual(2, code)
        self.assertIn("it has 2 hosts, which 'sriov-rt explain --sos'", err)

    def explained(self, *words):
        code, out, err = self.run_it(
            *("explain", "--extra-spec", "sriov_rt:kernel=preempt_rt"),
            *("--sos", self.place / "some", *words),
        )
        self.assertEqual("", err)
        return code, out

    def test_an_archive_of_several_that_cannot_be_used(self):
        some = self.place / "some"
        some.mkdir()
        path = self.sosreport("a", "rt-1")
        path.rename(some / path.name)
        (some / "cut.tar.gz").write_bytes(b"\x1f\x8b\x08")
        self.tarball(("var/log/syslog", "x"), path=some / "logs.tar.xz")
        _, out = self.explained("--json")
        found = {each["archive"]: each for each in json.loads(out)}
        self.assertEqual(
            {
                "a.tar.gz": "rt-1",
                "cut.tar.gz": "unknown",
                "logs.tar.xz": "unknown",
            },
            {name: each["host"] for name, each in found.items()},
        )
        (reason,) = found["logs.tar.xz"]["reasons"]
        self.assertEqual("facts_missing", reason["code"])
        self.assertEqual(
            "unknown: no host in it; give a sosreport, the directory of one, "
            "or a must-gather",
            reason["message"],
        )
        self.assertFalse(found["cut.tar.gz"]["passes"])
        _, out = self.explained("-f", "csv")
        self.assertIn("unknown (cut.tar.gz)", out)
        self.assertNotIn("rt-1 (", out)

    def test_two_archives_of_one_host(self):
        some = self.place / "some"
        some.mkdir()
        for name in ("before", "after"):
            path = self.sosreport(name, "rt-1")
            path.rename(some / path.name)
        _, out = self.explained("-f", "csv")
        for name in ("before", "after"):
            self.assertIn(f"rt-1 ({name}.tar.gz)", out)

    def test_a_must_gather_whose_snapshot_is_cut(self):
        with tarfile.open(self.file, "w") as tar:
            info = tarfile.TarInfo("must/nodes/n1/sysinfo.tgz")
            info.size = 3
            tar.addfile(info, io.BytesIO(b"\x1f\x8b\x08"))
        code, _, err = self.run_it("host", "check", "--sos", self.file)
        self.assertEqual(2, code)
        self.assertIn("sysinfo.tgz: ", err)

    def test_a_directory_that_cannot_be_read(self):
        some = self.place / "some"
        (some / "closed").mkdir(parents=True)
        path = self.sosreport("a", "rt-1")
        path.rename(some / path.name)
        real = pathlib.Path.iterdir

        def iterdir(path):
            if path.name == "closed":
                raise PermissionError(errno.EACCES, "Permission denied")
            return real(path)

        with mock.patch.object(pathlib.Path, "iterdir", iterdir):
            _, out = self.explained("--json")
        found = {each["archive"]: each for each in json.loads(out)}
        self.assertEqual({"a.tar.gz", "closed"}, set(found))
        (reason,) = found["closed"]["reasons"]
        self.assertIn("Permission denied", reason["message"])

    def test_names_that_are_no_text(self):
        some = self.place / "some"
        some.mkdir()
        (some / os.fsdecode(b"\xff\x1b[2J.tar")).write_bytes(b"x")
        for words in (("--json",), ("-f", "table"), ("-f", "csv")):
            out = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")
            with contextlib.redirect_stdout(out):
                code = main.main(
                    [
                        *("explain", "--extra-spec", "sriov_rt:vif=macvlan"),
                        *("--sos", str(some), *words),
                    ]
                )
                out.flush()
            self.assertEqual(1, code)
            self.assertNotIn(b"\x1b", out.buffer.getvalue())
