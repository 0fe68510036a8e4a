# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt onload`` says what is allowed, refused and set."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

from sriov_rt.cmd import main
from tests.unit.cmd import tables
from tests.unit.onload import test_instances
from tests.unit.onload.test_instances import A


class OnloadCommandTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)
        self.profiles = self.path / "root/etc/onload"
        self.profiles.mkdir(parents=True)
        self.write("mine", "onload_import base\nonload_set EF_TCP 1\n")
        self.write("base", "onload_set EF_POLL_USEC 100000\n")
        self.configure("profiles = mine", "default_profile = mine")

    def write(self, name, text):
        (self.profiles / f"{name}.opf").write_text(text)

    def configure(self, *lines):
        self.config = self.path / "sriov-rt.conf"
        given = ("[onload]", "profile_directories = /etc/onload", *lines)
        self.config.write_text("\n".join(given))

    def run_command(self, *words):
        printed, told = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(told),
        ):
            code = main.main(
                [
                    "onload",
                    *words,
                    "--config-file",
                    str(self.config),
                    "--root",
                    str(self.path / "root"),
                ]
            )
        return code, printed.getvalue(), told.getvalue()

    def test_show(self):
        code, printed, _ = self.run_command("profile", "show", "mine")
        self.assertEqual(0, code)
        shown = tables.fields(printed)
        self.assertEqual("mine", shown["name"])
        self.assertIn("/etc/onload/base.opf", shown["files"])
        self.assertEqual("100000", shown["EF_POLL_USEC"])
        self.assertEqual("1", shown["EF_TCP"])
        code, printed, _ = self.run_command(
            "profile", "show", "mine", "--json"
        )
        plain = json.loads(printed)
        self.assertEqual(plain["sha256"], shown["sha256"].replace(" ", ""))
        self.assertEqual(
            {"EF_POLL_USEC": "100000", "EF_TCP": "1"}, plain["variables"]
        )

    def test_a_hostile_profile_is_refused(self):
        marker = self.path / "owned"
        self.write("mine", f"onload_set EF_TCP $(touch {marker})\n")
        code, printed, told = self.run_command("profile", "show", "mine")
        self.assertEqual((2, ""), (code, printed))
        self.assertIn("/etc/onload/mine.opf:1: a command substit", told)
        self.assertEqual(1, told.count("\n"))
        self.assertFalse(marker.exists())

    def test_a_name_that_is_not_allowed(self):
        for name in ("base", "../onload/base", "/etc/onload/base"):
            code, _, told = self.run_command("profile", "show", name)
            self.assertEqual(2, code)
            self.assertIn("is not allowed", told)

    def test_list(self):
        self.configure("profiles = mine, gone, bad")
        self.write("bad", "eval x\n")
        code, printed, _ = self.run_command("profile", "list")
        self.assertEqual(1, code)
        bad, gone, mine = tables.rows(printed)
        self.assertEqual("refused", bad["State"])
        self.assertIn("/etc/onload/bad.opf:1: neither", bad["Problem"])
        self.assertIn("the Onload profile 'gone' is not in", gone["Problem"])
        self.assertEqual(
            {"Name": "mine", "State": "usable", "Problem": "-"}, mine
        )
        code, printed, _ = self.run_command("profile", "list", "--json")
        rows = {each["name"]: each for each in json.loads(printed)}
        self.assertEqual(1, code)
        self.assertIn("problem", rows["bad"])
        self.assertEqual(64, len(rows["mine"]["sha256"]))

    def test_list_of_none(self):
        self.configure()
        code, printed, _ = self.run_command("profile", "list")
        self.assertEqual(0, code)
        self.assertIn("[onload] profiles", printed)


class StatusTest(test_instances.HostTest):
    def setUp(self):
        super().setUp()
        self.run_onload(102, 101)

    def status(self, *words):
        printed = io.StringIO()
        root = str(self.tree.path)
        with contextlib.redirect_stdout(printed):
            code = main.main(["onload", "status", "--root", root, *words])
        self.assertEqual(0, code)
        return printed.getvalue()

    def test_a_process_has_its_instance(self):
        self.run_onload(300, 1)
        said = self.status()
        why = "injected, not accelerated: no onload module"
        self.assertEqual(
            [("102", test_instances.A, why), ("300", "-", why)],
            [tuple(row.values()) for row in tables.rows(said)],
        )
        self.assertLessEqual(tables.width(said), 80)
        self.assertIn(
            f"instance={test_instances.A} injected: no onload module\n", said
        )

    def test_a_process_of_a_pod_has_its_pod(self):
        pods = {
            300: "0b5c6a3e-1111-4a53-9a2a-5a3c07d5f0c1",
            301: "0b5c6a3e-2222-4a53-9a2a-5a3c07d5f0c1",
        }
        for pid, uid in pods.items():
            self.run_onload(pid, 1)
            self.tree.write(
                f"proc/{pid}/cgroup", f"0::/kubepods/besteffort/pod{uid}/{A}\n"
            )
        log = f"default_netperf-x7k2p_{pods[300]}/c/0.log"
        self.tree.write(f"var/log/pods/{log}", "")
        rows = tables.rows(self.status())
        self.assertEqual(
            ["default/netperf-x7k2p", pods[301]],
            [each["Instance"].replace(" ", "") for each in rows[1:]],
        )
        plain = json.loads(self.status("--json"))
        self.assertEqual(
            [(A, None), (None, "default/netperf-x7k2p"), (None, pods[301])],
            [(each["instance"], each["pod"]) for each in plain["processes"]],
        )

    def test_as_json(self):
        plain = json.loads(self.status("--json"))
        (found,) = plain["processes"]
        self.assertEqual((102, A), (found["pid"], found["instance"]))
        self.assertEqual(
            [
                {
                    "instance": A,
                    "state": "injected",
                    "why": "no onload module",
                }
            ],
            plain["instances"],
        )

    def test_who_may_not_read_libvirts_files_is_told(self):
        self.tree.make_unreadable("run/libvirt/lxc/a.xml")
        self.assertIn("instances: unknown (", self.status())
        self.assertIsNone(json.loads(self.status("--json"))["instances"])
