# SPDX-License-Identifier: Apache-2.0

"""Hosts of archives, some of which mean harm."""

import contextlib
import errno
import io
import json
import lzma
import os
import pathlib
import stat
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
        found = archive.hosts(self.file)
        yield next(found)
        self.assertIsNone(next(found, None))
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
            list(archive.hosts(some))

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
                    list(archive.hosts(self.file))
                self.assertEqual([], list(self.scratch.iterdir()))
        self.tarball(("proc/cmdline", "x"), ("proc/big", "x" * 999))
        with mock.patch.object(archive, "MAX_FILE", 99), self.root() as root:
            self.assertIsInstance(root.read_text("proc/big"), Unknown)

    def test_a_name_that_would_fill_the_memory(self):
        info = tarfile.TarInfo("x")
        info.type, info.size = tarfile.XHDTYPE, 2**33
        self.file.write_bytes(info.tobuf() + b"\0" * 4096)
        with self.assertRaises(archive.ArchiveUnusable):
            list(archive.hosts(self.file))

    def header(self, name, kind=tarfile.REGTYPE, extended=0):
        info = tarfile.TarInfo(name)
        info.type = kind
        data = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        data[482] = extended
        data[148:156] = b" " * 8
        data[148:156] = b"%06o\0 " % sum(data[:512])
        return bytes(data)

    def pax(self, **headers):
        info = tarfile.TarInfo("proc/x")
        info.pax_headers = headers
        return info.tobuf(tarfile.PAX_FORMAT)

    def test_headers_that_mean_harm(self):
        long_link = tarfile.TarInfo("././@LongLink")
        long_link.type, long_link.size = tarfile.GNUTYPE_LONGNAME, 10
        block = b"00000000001\0" * 42 + b"\1" * 8
        link = tarfile.TarInfo("x")
        for name, data in {
            "a chain of names": (
                long_link.tobuf(tarfile.GNU_FORMAT) + b"a" * 512
            )
            * 3000,
            "a chain of pieces": self.header(
                "proc/x", tarfile.GNUTYPE_SPARSE, 1
            )
            + block * 4096,
            "a number that is none": self.pax(**{"GNU.sparse.size": "x"}),
            "a map that is none": self.pax(
                **{"GNU.sparse.size": "1", "GNU.sparse.map": "x"}
            ),
            "pieces that are none": self.pax(
                **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
            ),
            "global names": b"".join(
                link.create_pax_global_header({f"k{n}": "v" * 2**17})
                for n in range(16)
            ),
        }.items():
            with self.subTest(name):
                self.tarball(("proc/cmdline", "x"), kind="w")
                before = self.file.read_bytes()[:1024]
                self.file.write_bytes(before + data + b"\0" * 1024)
                with self.assertRaises(archive.ArchiveUnusable) as caught:
                    list(archive.hosts(self.file))
                self.assertIn(
                    caught.exception.problem,
                    ("not a tarball", "it is too large"),
                )
                self.assertEqual([], list(self.scratch.iterdir()))

    def test_a_name_that_cannot_be_written_costs_itself(self):
        self.tarball(
            ("proc/" + "a/" * 900 + "x", "x"),
            ("proc/" + "a" * 300, "x"),
            ("proc/" + "é" * 200, "x"),
            ("proc/cmdline", "quiet\n"),
        )
        with self.root() as root:
            self.assertEqual("quiet\n", root.read_text("proc/cmdline"))
            self.assertEqual(("cmdline",), root.list_dir("proc"))

    def test_names_of_links_that_would_fill_the_memory(self):
        self.tarball(
            ("proc/cmdline", "quiet\n"),
            self.link("sosreport-rt-7/proc/x", "a" * 5000),
            *(self.link(f"sosreport-rt-7/proc/{n}", "x") for n in range(9)),
        )
        with self.root() as root:
            self.assertIsInstance(root.read_link("proc/x"), Unknown)
        with (
            mock.patch.object(archive, "MAX_TAKEN", 9999),
            self.assertRaisesRegex(archive.ArchiveUnusable, "too large"),
        ):
            list(archive.hosts(self.file))

    def test_a_dictionary_that_would_fill_the_memory(self):
        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**29}]
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as each:
            each.addfile(tarfile.TarInfo("proc/x"))
        self.file.write_bytes(lzma.compress(tar.getvalue(), filters=filters))
        with self.assertRaisesRegex(archive.ArchiveUnusable, "Memory usage"):
            list(archive.hosts(self.file))

    def test_data_that_is_damaged(self):
        text = "".join(map(str, range(99999)))
        self.tarball(("proc/cmdline", "x"), ("proc/y", text), kind="w:gz")
        data = bytearray(self.file.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 64] = b"\xff" * 64
        self.file.write_bytes(data)
        with self.assertRaises(archive.ArchiveUnusable):
            list(archive.hosts(self.file))

    def nested(self, levels, most=None):
        """Return a snapshot in a snapshot, and so on."""
        self.tarball(("proc/cmdline", "x" * (most or 1)), kind="w:gz")
        for _ in range(levels):
            data = self.file.read_bytes()
            with tarfile.open(self.file, "w:gz") as tar:
                for node in ("n1", "n2"):
                    info = tarfile.TarInfo(f"nodes/{node}/sysinfo.tgz")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        return list(archive.hosts(self.file))

    def test_a_snapshot_has_no_snapshots(self):
        self.assertEqual(2, len(self.nested(1)))
        for levels in (2, 30):
            with self.assertRaisesRegex(archive.ArchiveUnusable, "no host"):
                self.nested(levels)

    def test_snapshots_share_the_room_of_their_archive(self):
        with mock.patch.object(archive, "MAX_TAKEN", 120_000):
            first, second = self.nested(1, most=70_000)
        self.assertIsInstance(first, archive.Archive)
        self.assertEqual("it is too large", second.problem)

    def test_one_archive_of_a_directory_at_a_time(self):
        some = self.place / "some"
        some.mkdir()
        for name in ("a", "b", "c"):
            self.tarball(("proc/cmdline", name), path=some / f"{name}.tar.xz")
        texts = []
        for each in archive.hosts(some):
            texts.append(each.read_text("proc/cmdline"))
            self.assertEqual(1, len(list(self.scratch.iterdir())))
        self.assertEqual(["a", "b", "c"], texts)
        self.assertEqual([], list(self.scratch.iterdir()))

    def test_a_must_gather_as_it_is_sent(self):
        node = "must-gather.local.7/quay-io-x-sha256-1/nodes/n1/sysinfo.tgz"
        self.tarball(("proc/cmdline", "a\n"), kind="w:gz")
        snapshot = self.file.read_bytes()
        some = self.place / "some"
        some.mkdir()
        for path in (self.file, some / "must-gather.tar.gz"):
            with tarfile.open(path, "w:gz") as tar:
                info = tarfile.TarInfo(node)
                info.size = len(snapshot)
                tar.addfile(info, io.BytesIO(snapshot))
        for path in (self.file, some):
            (found,) = (
                each.read_text("proc/cmdline") for each in archive.hosts(path)
            )
            self.assertEqual("a\n", found)

    def test_a_device_is_not_opened(self):
        if os.geteuid():
            self.skipTest("only root makes devices")
        place = self.place / "proc"
        place.mkdir()
        os.mknod(place / "cmdline", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        (found,) = archive.hosts(self.place)
        real = os.open

        def opened(path, *args, **options):
            self.assertNotIn("cmdline", str(path))
            return real(path, *args, **options)

        with mock.patch.object(os, "open", opened):
            for answer in (
                found.read_text("proc/cmdline"),
                found.open_file("proc/cmdline"),
                found.read_device("proc/cmdline", 1),
            ):
                self.assertIn("not a regular file", answer.reason)

    def test_an_archive_of_this_boot_is_no_host_that_runs(self):
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()
        self.tarball(("proc/sys/kernel/random/boot_id", boot))
        with self.root() as root:
            self.assertIs(False, root.is_running())

    def test_what_is_no_archive(self):
        empty = self.place / "empty"
        empty.mkdir()
        for data in (b"", b"x" * 999, b"\x1f\x8b\x08", b"\xfd7zXZ\x00\x00"):
            self.file.write_bytes(data)
            with self.subTest(data[:9]):
                with self.assertRaises(archive.ArchiveUnusable):
                    list(archive.hosts(self.file))
                self.assertEqual([], list(self.scratch.iterdir()))
        self.tarball(("proc/cmdline", "x" * 9999), kind="w:xz")
        data = self.file.read_bytes()
        self.file.write_bytes(data[: len(data) // 2])
        for path in (self.file, empty, self.place / "none"):
            with self.assertRaises(archive.ArchiveUnusable):
                list(archive.hosts(path))


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
        self.assertEqual(
            ["a\n", "a\n"],
            [x.read_text("proc/cmdline") for x in archive.hosts(self.file)],
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
