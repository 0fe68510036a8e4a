# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt guest``: what it prints, and what its exit codes say."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.guest.domain import MAX_DOCUMENT
from tests.unit import builders
from tests.unit.guest import documents

LEAN = ("--extra-spec", "sriov_rt:guest=lean")
BARE = ("--extra-spec", "sriov_rt:guest=bare")
REALTIME = (
    "--extra-spec",
    "sriov_rt:realtime=required",
    "--extra-spec",
    "hw:cpu_policy=dedicated",
)


class GuestTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def run_command(self, *arguments: str, xml: str | bytes = "") -> int:
        """Run ``sriov-rt guest`` and keep what it prints."""
        data = xml.encode() if isinstance(xml, str) else xml
        stdin = io.TextIOWrapper(io.BytesIO(data))
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch("sys.stdin", stdin),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = main.main(("guest", *arguments))
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def facts(self) -> str:
        path = self.place / "facts.json"
        path.write_text(json.dumps(builders.realtime_host().to_plain()))
        return str(path)

    def test_render(self):
        xml = documents.load("nova-dedicated")
        code = self.run_command(
            "render", *LEAN, *REALTIME, "--facts", self.facts(), xml=xml
        )
        self.assertEqual(0, code)
        self.assertTrue(self.out.startswith("<domain"))
        self.assertNotIn("<video>", self.out)
        self.assertIn('<emulatorpin cpuset="0-1"/>', self.out)
        report = json.loads(self.err)
        self.assertIn("video", [c["element"] for c in report["changes"]])
        self.assertEqual([], report["notes"])

    def test_render_without_facts_says_what_it_left_alone(self):
        code = self.run_command(
            "render", *REALTIME, xml=documents.load("nova-dedicated")
        )
        self.assertEqual(0, code)
        notes = [note["message"] for note in json.loads(self.err)["notes"]]
        self.assertTrue(any("no facts" in each for each in notes), notes)

    def test_render_with_a_pinning(self):
        code = self.run_command(
            "render", "--pinning", "0#6_1#7", xml=documents.domain()
        )
        self.assertEqual(0, code)
        self.assertIn('<vcpupin vcpu="1" cpuset="7"/>', self.out)

    def test_a_report_in_a_file(self):
        path = self.place / "report.json"
        code = self.run_command(
            "render", *LEAN, "--report", str(path), xml=documents.domain()
        )
        self.assertEqual((0, ""), (code, self.err))
        self.assertTrue(json.loads(path.read_text())["changes"])

    def test_a_report_that_cannot_be_written(self):
        path = self.place / "none" / "report.json"
        code = self.run_command(
            "render", *LEAN, "--report", str(path), xml=documents.domain()
        )
        self.assertEqual((2, ""), (code, self.out))
        self.assertIn(f"mkdir -p {path.parent}'", self.err)

    def test_a_dry_run_writes_no_domain(self):
        code = self.run_command(
            "render", *LEAN, "--dry-run", xml=documents.domain()
        )
        self.assertEqual((0, ""), (code, self.out))
        self.assertTrue(json.loads(self.err)["changes"])

    def test_a_refusal(self):
        xml = documents.load("nova-dedicated")
        path = self.place / "report.json"
        code = self.run_command(
            "render", *BARE, "--report", str(path), xml=xml
        )
        self.assertEqual((3, ""), (code, self.out))
        self.assertIn("hw_disk_bus=sata", self.err)
        self.assertFalse(path.exists())

    def test_check_of_what_is_to_change(self):
        xml = documents.load("nova-dedicated")
        self.assertEqual(1, self.run_command("check", *LEAN, xml=xml))
        self.assertIn("removed", self.out)
        self.assertEqual(
            1, self.run_command("check", "--json", *LEAN, xml=xml)
        )
        self.assertTrue(json.loads(self.out)["changes"])

    def test_check_of_what_is_done(self):
        self.run_command("render", *LEAN, xml=documents.load("nova-dedicated"))
        done = self.out
        self.assertEqual(0, self.run_command("check", *LEAN, xml=done))
        self.assertEqual("nothing to change\n", self.out)

    def test_check_of_what_cannot_be(self):
        xml = documents.load("nova-dedicated")
        code = self.run_command("check", "--json", *BARE, xml=xml)
        self.assertEqual(3, code)
        codes = [each["code"] for each in json.loads(self.out)["refused"]]
        self.assertIn("nic_on_virtio", codes)

    def test_a_domain_in_a_file(self):
        path = self.place / "domain.xml"
        path.write_text(documents.load("nova-dedicated"))
        self.assertEqual(0, self.run_command("render", *LEAN, str(path)))
        from_file = self.out
        xml = documents.load("nova-dedicated")
        for standard_input in ((), ("-",)):
            self.run_command("render", *LEAN, *standard_input, xml=xml)
            self.assertEqual(from_file, self.out)
        self.assertEqual(1, self.run_command("check", str(path), *LEAN))

    def test_a_domain_file_that_cannot_be_read(self):
        large = self.place / "large.xml"
        large.write_text("<domain>" + " " * MAX_DOCUMENT)
        for path, told in (
            (self.place / "none.xml", "No such file"),
            (self.place, "not a regular file"),
            (large, "longer than"),
        ):
            for action in ("render", "check"):
                with self.subTest(path=path, action=action):
                    code = self.run_command(action, *LEAN, str(path))
                    self.assertEqual((2, ""), (code, self.out))
                    self.assertIn(told, self.err)

    def test_wrong_arguments(self):
        for arguments, told in (
            (("--extra-spec", "sriov_rt:guest=naked"), "sriov_rt:guest"),
            (("--extra-spec", "sriov_rt:guest"), "KEY=VALUE"),
            (("--pinning", "0-6"), "pinning"),
            (("--facts", str(self.place / "none")), "No such file"),
        ):
            for action in ("render", "check"):
                with self.subTest(arguments=arguments, action=action):
                    code = self.run_command(
                        action, *arguments, xml=documents.domain()
                    )
                    self.assertEqual((2, ""), (code, self.out))
                    self.assertIn(told, self.err)

    def test_wrong_facts(self):
        path = self.place / "facts.json"
        path.write_text("{}")
        code = self.run_command(
            "check", "--facts", str(path), xml=documents.domain()
        )
        self.assertEqual((2, ""), (code, self.out))

    def test_wrong_documents(self):
        for xml in ("", "<network/>", "<!DOCTYPE a><domain/>", b"\xff\xfe"):
            with self.subTest(xml=xml):
                code = self.run_command("render", *LEAN, xml=xml)
                self.assertEqual((2, ""), (code, self.out))
                self.assertIn("the domain XML is rejected", self.err)

    def test_the_hook_imports_only_what_it_needs(self):
        # As a process it starts on the way to a boot.
        script = (
            "import sys; from sriov_rt.cmd import main; "
            "main.main(['guest', 'render', *sys.argv[1:]]); "
            "print([n for n in sys.modules if n.split('.')[0] in "
            "('stevedore', 'oslo_config', 'oslo_messaging', 'nova')], "
            "file=sys.stderr)"
        )
        done = subprocess.run(
            (sys.executable, "-c", script, *LEAN, "--report", "/dev/null"),
            input=documents.domain(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual("[]", done.stderr.strip())
        self.assertIn("memballoon", done.stdout)
