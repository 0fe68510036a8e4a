# SPDX-License-Identifier: Apache-2.0

import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import socket
import tempfile
import unittest
from collections.abc import Sequence
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.cmd import paths
from sriov_rt.cmd import shell
from sriov_rt.verify import network
from tests.unit import builders
from tests.unit import documented_host
from tests.unit.guest import documents
from tests.unit.pods import test_pod

#: Options that name what is written, or what is looked for below --root.
NOT_READ = frozenset({"--report", "--output", "--nova-config", "--textfile"})

#: It prints the names of the files, for the commands that read them.
PRINTS = "vif lxc-hook"

REALTIME = "--extra-spec=sriov_rt:realtime=required"


class Base(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def run_main(self, *words: str, stdin: bytes = b"") -> tuple[int, str]:
        """Return the exit code, and what is said."""
        said = io.StringIO()
        with (
            mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin))),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(said),
        ):
            code = main.main(words)
        return code, said.getvalue()


class ReadTest(Base):
    """A FIFO is waited for, and a device has no end."""

    def command_lines(self, path: pathlib.Path) -> list[Sequence[str]]:
        """Return every command line that names a file to read."""
        facts = self.place / "facts.json"
        facts.write_text(json.dumps(builders.realtime_host().to_plain()))
        uuid = "01234567-89ab-cdef-0123-456789abcdef"
        port = (f"--port={uuid}", "--owner=a", "--kind=macvlan", "--parent=lo")
        return [
            ("explain", REALTIME, f"--facts={path}"),
            ("explain", REALTIME, f"--config-file={path}", "--wait=0"),
            ("agent", "list", f"--config-file={path}", "--wait=0"),
            ("agent", "show", "a", f"--config-file={path}", "--wait=0"),
            ("device", "clean", f"--config-file={path}", "--dry-run"),
            ("guest", "check", str(path)),
            ("guest", "check", f"--facts={path}", str(facts)),
            ("guest", "render", str(path)),
            ("guest", "render", f"--facts={path}", str(facts)),
            ("verify", "certificate", f"--file={path}"),
            ("verify", "guest", f"--host={path}"),
            ("onload", "profile", "list", f"--config-file={path}"),
            ("onload", "profile", "show", "a", f"--config-file={path}"),
            ("onload", "lxc-config", "a", f"--config-file={path}"),
            ("onload", "lxc-hook", f"--config-file={path}"),
            ("onload", "pod-profiles", f"--config-file={path}"),
            ("pod", "explain", str(path)),
            ("pod", "explain", str(facts), f"--cluster={path}"),
            ("pod", "explain", str(facts), f"--kubeconfig={path}"),
            ("onload", "pod-patch", "--network=a", f"--config-file={path}"),
            ("onload", "pod-patch", "--network=a", f"--runtime-class={path}"),
            ("vf", "provision", f"--config-file={path}"),
            ("vif", "list", f"--config-file={path}"),
            ("vif", "show", f"--config-file={path}"),
            ("vif", "forget", uuid, f"--config-file={path}"),
            ("vif", "recover", f"--config-file={path}"),
            ("vif", "restore", f"--config-file={path}"),
            ("vif", "unplug", uuid, f"--config-file={path}"),
            ("vif", "plug", *port, f"--config-file={path}"),
        ]

    def test_what_is_no_file_is_refused_in_one_sentence(self):
        fifo = self.place / "fifo"
        os.mkfifo(fifo)
        pod = json.dumps(test_pod.POD).encode()
        for path in (fifo, pathlib.Path("/dev/zero"), self.place):
            for words in self.command_lines(path):
                if path == self.place and words[0] == "explain":
                    continue
                with self.subTest(words):
                    code, said = self.run_main(*words, stdin=pod)
                    self.assertEqual(2, code, said)
                    self.assertIn(str(path), said)
                    self.assertIn("not a regular file", said)
                    told = said.splitlines()
                    warnings = [x for x in told if "run as root: " in x]
                    self.assertEqual(1, len(told) - len(warnings), said)

    def test_every_option_that_names_a_file_is_tried(self):
        program = shell.Shell()
        for name in set(shell.COMMANDS) - {PRINTS}:
            command, _, _ = program.command_manager.find_command(name.split())
            parser = command(program, None).get_parser(name)
            for action in parser._actions:  # noqa: SLF001
                option = "".join(action.option_strings[-1:])
                if "FILE" in str(action.metavar) and option not in NOT_READ:
                    with self.subTest(name, option=option):
                        self.assertTrue(self.is_tried(name, option))

    def is_tried(self, name: str, option: str) -> bool:
        """Return whether a command line has an option of a command."""
        return any(
            " ".join(words).startswith(name)
            and any(word.startswith(option) for word in words)
            for words in self.command_lines(self.place)
        )

    def test_wrong_facts_are_named(self):
        path = self.place / "facts.json"
        path.write_text("{")
        code, said = self.run_main("guest", "check", f"--facts={path}")
        self.assertEqual(2, code)
        self.assertIn(f"{path}: ", said)
        self.assertIn("sriov-rt host show --json", said)


class WriteTest(Base):
    """Where a file is to go is looked at before there is work done."""

    def test_each_option_that_names_a_file_to_write(self):
        missing = self.place / "missing"
        fifo = self.place / "fifo"
        os.mkfifo(fifo)
        for words, told in (
            (
                ("verify", "report", "-o", f"{missing}/x.html", "."),
                f"directory {missing} does not exist; make it with",
            ),
            (("verify", "report", "-o", "/", "."), "name a file in it"),
            (
                ("guest", "render", f"--report={missing}/x", "-"),
                f"directory {missing} does not exist",
            ),
        ):
            with self.subTest(words):
                xml = documents.domain().encode()
                code, said = self.run_main(*words, stdin=xml)
                self.assertEqual(2, code)
                self.assertIn(told, said)
                self.assertEqual(1, said.count("\n"), said)
        for file, told in (
            (missing / "log", f"directory {missing} does not exist"),
            (self.place, "name a file in it"),
            (fifo, "it is a FIFO"),
        ):
            words = ("--log-file", str(file), "host", "features")
            said = io.StringIO()
            with (
                self.subTest(words),
                contextlib.redirect_stderr(said),
                self.assertRaises(SystemExit) as caught,
            ):
                main.main(words)
            self.assertEqual(2, caught.exception.code)
            self.assertIn(told, said.getvalue())

    def test_a_place_for_results_is_made_before_anything_is_measured(self):
        file = self.place / "file"
        file.write_text("")
        words = ("network", "--to", "127.0.0.1", "--output", f"{file}/below")
        with (
            mock.patch.object(network, "missing", return_value=()),
            mock.patch.object(network, "NetworkRun") as measured,
        ):
            code, said = self.run_main("verify", *words)
        self.assertEqual(2, code)
        self.assertIn(f"{file}/below cannot be written", said)
        measured.assert_not_called()

    def test_a_host_without_an_address(self):
        error = socket.gaierror(-2, "Name or service not known")
        with mock.patch.object(socket, "getaddrinfo", side_effect=error):
            code, said = self.run_main("verify", "network", "--to", "other")
        self.assertEqual(2, code)
        self.assertIn("'other': Name or service not known", said)

    def refused(self, path: pathlib.Path) -> str:
        with self.assertRaises(paths.OutputUnusable) as caught:
            paths.write(path, b"new")
        self.assertIn(str(path), str(caught.exception))
        return str(caught.exception)

    def test_a_directory_that_is_missing_is_named(self):
        path = self.place / "a" / "b" / "file"
        self.assertIn(f"'mkdir -p {path.parent}'", self.refused(path))
        self.assertIn("name a file in it", self.refused(self.place))
        (self.place / "a").write_text("")
        self.assertIn(
            f"{self.place}/a is not a directory",
            self.refused(self.place / "a" / "file"),
        )

    def test_no_number_of_an_error_is_shown(self):
        for error in (PermissionError(13, "Denied"), OSError(28, "Full")):
            with mock.patch.object(paths.files, "replace", side_effect=error):
                said = self.refused(self.place / "file")
            self.assertIn(error.strerror, said)
            self.assertNotIn("Errno", said)

    def test_a_device_stays_one(self):
        link = self.place / "null"
        link.symlink_to("/dev/null")
        paths.write(link, b"new")
        self.assertTrue(link.is_symlink())
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())

    def test_a_link_stays_one(self):
        link, file = self.place / "link", self.place / "file"
        link.symlink_to(file)
        for text in (b"first", b"second"):
            paths.write(link, text)
            self.assertEqual(text, file.read_bytes())
        self.assertTrue(link.is_symlink())

    def test_two_writers_leave_the_whole_of_one(self):
        path = self.place / "file"
        whole = {each * 200_000 for each in (b"a", b"b")}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            writers = [
                pool.submit(paths.write, path, each) for each in [*whole] * 40
            ]
            while not all(each.done() for each in writers):
                if path.exists():
                    self.assertIn(path.read_bytes(), whole)
            for each in writers:
                each.result()
        self.assertEqual([path], [*self.place.iterdir()])

    def test_directories_are_made(self):
        path = self.place / "a" / "b"
        paths.make_directory(path)
        self.assertTrue(path.is_dir())
        (self.place / "file").write_text("")
        for bad in (
            self.place / "file",
            self.place / "file" / "below",
            pathlib.Path("/proc/none"),
        ):
            with self.assertRaisesRegex(
                paths.OutputUnusable, f"{bad} cannot be written: .* name"
            ) as caught:
                paths.make_directory(bad)
            self.assertNotIn("Errno", str(caught.exception))


class PodTest(Base):
    """The file that cannot be judged is named, with what it has to be."""

    def setUp(self):
        super().setUp()
        self.pod, self.cluster = self.place / "pod", self.place / "cluster"
        self.pod.write_text(json.dumps(documented_host.WEB))
        self.cluster.write_text(json.dumps(documented_host.CLUSTER))

    def explain(self, pod: str = "", stdin: bytes = b"") -> tuple[int, str]:
        pod = pod or str(self.pod)
        cluster = f"--cluster={self.cluster}"
        return self.run_main("pod", "explain", pod, cluster, stdin=stdin)

    def test_a_node_takes_it(self):
        self.assertEqual((0, ""), self.explain())

    def test_a_cluster_that_is_none(self):
        for text in ("{", "[]", "{}", self.pod.read_text()):
            self.cluster.write_text(text)
            with self.subTest(text[:9]):
                code, said = self.explain()
                self.assertEqual(2, code)
                self.assertIn(f"error: {self.cluster}: ", said)
                self.assertIn("give the output of 'for kind in nodes ", said)

    def test_a_pod_that_is_none(self):
        for text in ("{", "[]", "{}", self.cluster.read_text()):
            self.pod.write_text(text)
            for pod, name in (("", self.pod), ("-", "standard input")):
                with self.subTest(text[:9], pod=pod):
                    code, said = self.explain(pod, text.encode())
                    self.assertEqual(2, code)
                    self.assertIn(f"error: {name}: ", said)
                    self.assertIn("give the JSON or YAML of a Pod", said)
