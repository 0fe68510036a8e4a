# SPDX-License-Identifier: Apache-2.0

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
from sriov_rt.codec import Unknown
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import mapping
from sriov_rt.nic import use
from sriov_rt.nic import vfs
from sriov_rt.nic.model import VfDevice
from sriov_rt.vif import tenants
from tests.unit.cmd import interrupts
from tests.unit.cmd import tables
from tests.unit.nic import fakes


class VfCommandTest(unittest.TestCase):
    def setUp(self):
        self.kernel = fakes.FakeKernel()
        self.users = {}
        for place, name, value in (
            (
                vfs.Vfs,
                "of_host",
                lambda users=None: fakes.vfs(self.kernel, users),
            ),
            (tenants, "uses_among", self.uses_among),
            (tenants, "of_host", lambda states, tell: {}),
        ):
            patch = mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def uses_among(self, states, records, links):
        return {
            each.id.address: use.shown(
                each, ports=self.users.get(each.id.address, ())
            )
            for each in states
        }

    def run_command(self, *words, code=0):
        printed, self.told = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(self.told),
        ):
            self.assertEqual(
                code, main.main(["vf", *words]), self.told.getvalue()
            )
        return printed.getvalue()

    def run_json(self, *words):
        return json.loads(self.run_command(*words, "--json"))

    def fails(self, *words):
        self.assertEqual("", self.run_command(*words, code=2))
        return self.told.getvalue()

    def configure(self, text):
        path = self.place / "sriov-rt.conf"
        path.write_text(f"[nic]\n{text}\n")
        return "--config-file", str(path)

    def test_list(self):
        printed = self.run_command("list")
        self.assertEqual(
            {
                "VF": "enp1s0/1",
                "Driver": "igbvf",
                "Interface": "enp1s0v1",
                "VLAN": "0",
                "Held by": "-",
            },
            tables.rows(printed)[1],
        )
        self.assertLessEqual(tables.width(printed), 80)
        self.assertEqual(
            "enp1s0/0 -\nenp1s0/1 -\n",
            self.run_command(
                *("list", "-f", "value", "-c", "vf", "-c", "owner")
            ),
        )
        self.assertEqual(
            "VF,VLAN",
            self.run_command(
                *("list", "-f", "csv", "--quote", "none"),
                *("-c", "vf", "-c", "vlan"),
            ).splitlines()[0],
        )
        self.assertEqual(2, len(self.run_json("list", "enp1s0")))
        self.assertIn("there is none", self.fails("list", "enp9s0"))

    def test_show_says_what_was_changed_behind_a_port(self):
        noted = VfSettings(vlan=7, spoofchk=True)
        self.kernel.tenancies.note("0000:01:10.0", noted)
        shown = tables.fields(self.run_command("show", "enp1s0/0"))
        self.assertEqual("its vlan is 0 and not 7", shown["reason"])

    def test_counters_and_their_file(self):
        self.kernel.counted = {1: {"rx_packets": 7, "tx_bytes": 9}}
        file = self.place / "vfs.prom"
        printed = self.run_command("counters", "--textfile", str(file))
        self.assertEqual("7", tables.rows(printed)[1]["RX packets"])
        self.assertIn(
            'sriov_rt_vf_receive_packets_total{pf="enp1s0",vf="1"',
            file.read_text(),
        )
        self.assertEqual(0o644, file.stat().st_mode & 0o777)
        (_, second) = self.run_json("counters", "enp1s0")
        self.assertEqual(9, second["counters"]["transmit_bytes"])

    def test_counters_of_a_pf_that_there_is_not_leave_the_file(self):
        file = self.place / "vfs.prom"
        file.write_text("old")
        said = self.fails("counters", "enp9s0", "--textfile", str(file))
        self.assertIn("there is none", said)
        self.assertEqual("old", file.read_text())

    def test_the_file_of_counters_is_written_as_any_other(self):
        link = self.place / "null"
        link.symlink_to("/dev/null")
        self.run_command("counters", "--textfile", str(link))
        self.assertTrue(link.is_symlink())
        gone = self.place / "gone" / "vfs.prom"
        said = self.fails("counters", "--textfile", str(gone))
        self.assertIn(f"'mkdir -p {gone.parent}'", said)

    def test_show(self):
        printed = self.run_command("show", "enp1s0/0")
        shown = tables.fields(printed)
        self.assertEqual("3", shown["mac_budget"])
        self.assertEqual("on", shown["spoofchk"])
        self.assertEqual("unknown", shown["query_rss"])
        found = self.run_json("show", "0000:01:10.0")
        self.assertEqual("igb", found["family"])
        self.assertEqual(0, found["vf"]["index"])
        self.assertEqual("auto", found["settings"]["link_state"])
        self.kernel.change_device(0, netdev=None, elsewhere=True)
        self.assertIn(
            "(another namespace)", self.run_command("show", "enp1s0/0")
        )

    def test_plan_changes_nothing(self):
        printed = self.run_command("plan", "enp1s0/0", "vlan=7")
        self.assertIn("vlan 0 -> 7", printed)
        found = self.run_json("plan", "enp1s0/0", "vlan=7")
        self.assertEqual(
            [{"attribute": "vlan", "before": 0, "after": 7}], found["steps"]
        )
        self.assertEqual([], self.kernel.writes)

    def test_plan_answers_99_with_50(self):
        self.kernel = fakes.FakeKernel("i40e")
        printed = self.run_command("plan", "enp1s0/0", "max_tx_rate=99")
        self.assertIn("99 requested, 50 effective", printed)

    def test_set(self):
        self.run_command("set", "enp1s0/0", "vlan=7", "--dry-run")
        self.assertEqual([], self.kernel.writes)
        self.run_command("set", "enp1s0/0", "vlan=7", "spoofchk=off")
        self.assertEqual(7, self.kernel.settings[0].vlan)
        self.assertFalse(self.kernel.settings[0].spoofchk)

    def test_set_and_reset_wait_for_who_gives_a_vf_out(self):
        vf = fakes.vf_id(1).address
        with fakes.locked_by_another(self.kernel.tenancies, vf):
            for words in (
                ("set", "enp1s0/1", "vlan=7"),
                ("reset", "enp1s0/1"),
                ("reset", "enp1s0/1", "--flr"),
            ):
                with self.subTest(words=words):
                    self.run_command(*words, code=2)
                    self.assertIn("another process", self.told.getvalue())
        self.assertEqual([], self.kernel.writes + self.kernel.flrs)

    def test_a_function_is_not_reset_while_another_has_the_vf(self):
        self.kernel = fakes.FakeKernel("sfc")
        vf = fakes.vf_id(1).address
        with fakes.locked_by_another(self.kernel.tenancies, vf):
            self.run_command("reset", "enp1s0/1", "--flr", code=2)
        self.assertEqual([], self.kernel.flrs)
        self.run_command("reset", "enp1s0/1", "--flr")
        self.assertEqual([1], self.kernel.flrs)

    def test_set_refused(self):
        self.assertIn("VLAN", self.fails("set", "enp1s0/0", "vlan=4095"))
        self.kernel = fakes.FakeKernel("sfc")
        self.assertIn(
            "Solarflare NICs do not limit VFs",
            self.fails("set", "enp1s0/0", "max_tx_rate=1000"),
        )
        self.assertIn("PF/index", self.fails("set", "a/b/c", "vlan=4"))

    def test_reset(self):
        self.kernel.change(1, vlan=9)
        self.kernel.dirty(0)
        printed = self.run_command(
            "reset", "enp1s0/0", "enp1s0/1", "--dry-run", "--flr"
        )
        self.assertIn("vlan 9 -> 0", printed)
        self.assertEqual([], self.kernel.writes + self.kernel.flrs)
        self.run_command("reset", "enp1s0/0", "enp1s0/1", "--flr")
        self.assertEqual([0, 1], self.kernel.flrs)
        self.assertIn("resetting the function", self.told.getvalue())
        self.assertEqual(0, self.kernel.settings[1].vlan)
        self.assertEqual(1, len(self.kernel.writes))
        printed = self.run_command(
            "reset", "enp1s0/0", "--driver=vfio-pci", "--dry-run"
        )
        self.assertIn("driver igbvf -> vfio-pci", printed)
        self.assertIn("driver", self.fails("reset", "enp1s0/0", "--driver=/"))

    def test_vf_in_use_is_left_alone(self):
        self.kernel.change(0, vlan=9)
        self.users = {"0000:01:10.0": ["port p1 of web"]}
        for words in (
            ("set", "enp1s0/0", "vlan=7"),
            ("plan", "enp1s0/0", "vlan=7"),
            ("set", "enp1s0/0", "driver=vfio-pci"),
            ("reset", "enp1s0/1", "enp1s0/0"),
            ("reset", "enp1s0/0", "--flr"),
            ("provision", *self.configure("vfs = enp1s0:4")),
        ):
            with self.subTest(words=words):
                self.assertIn("port p1 of web", self.fails(*words))
        self.assertEqual([], self.kernel.writes + self.kernel.flrs)
        self.assertEqual([], self.kernel.binds + self.kernel.made)

    def test_vf_that_a_guest_holds_is_set_but_not_reset(self):
        self.kernel.devices[0] = VfDevice("vfio-pci", iommu_group=40)
        for owner in ("qemu-system-x86[77]", Unknown("EPERM")):
            with mock.patch.object(
                mapping.Owners, "of", lambda *args, owner=owner: owner
            ):
                self.run_command("set", "enp1s0/0", "vlan=7")
                for words in (
                    ("reset", "enp1s0/0"),
                    ("set", "enp1s0/0", "driver=igbvf"),
                ):
                    self.assertRegex(
                        self.fails(*words), r"\[77\]|guest perhaps"
                    )
                self.assertEqual([], self.kernel.binds)

    def test_other_root_than_the_hosts_is_no_option(self):
        for verb in ("list", "map"):
            with self.assertRaises(SystemExit):
                self.run_command(verb, "--root", "/tmp")

    def test_provision(self):
        self.kernel = fakes.FakeKernel(vfs=0)
        config = self.configure("vfs = enp1s0:4\nvf_mode = guests")
        printed = self.run_command("provision", *config, "--dry-run")
        self.assertEqual("enp1s0: VFs 0 -> 4, for guests\n", printed)
        self.assertEqual([], self.kernel.made)
        found = self.run_json("provision", *config)
        self.assertEqual([4], found[0]["numbers"])
        self.assertEqual([(4, False)], self.kernel.made)
        self.assertIn("making 4 VFs of enp1s0", self.told.getvalue())
        printed = self.run_command("provision", *config)
        self.assertIn("4 VFs for guests, nothing to do", printed)

    def test_ctrl_c_while_a_pf_gets_its_vfs(self):
        """It gets them, and what is left is said."""
        interrupts.accept(self)
        self.kernel = fakes.FakeKernel(vfs=0)
        config = self.configure("vfs = enp1s0:4")
        provision = self.kernel.provision

        def made(*args, **words):
            interrupts.send()
            return provision(*args, **words)

        with mock.patch.object(self.kernel, "provision", made):
            self.run_command("provision", *config, code=130)
        self.assertEqual([(4, True)], self.kernel.made)
        self.assertIn("done: enp1s0; not begun: none", self.told.getvalue())
        self.assertIn("'sriov-rt vf provision' again", self.told.getvalue())

    def test_provision_that_would_destroy(self):
        self.kernel.change_device(0, up=True)
        self.assertIn(
            "VFs are in use: enp1s0/0 (enp1s0v0 is up)",
            self.fails("provision", *self.configure("vfs = enp1s0:4")),
        )
        self.assertEqual([], self.kernel.made)

    def test_provision_of_nothing(self):
        self.assertIn(
            "nothing to do",
            self.run_command("provision", *self.configure("")),
        )

    def test_provision_with_a_bad_configuration(self):
        self.assertIn(
            "PF:NUMBER", self.fails("provision", *self.configure("vfs = a"))
        )
        self.assertIn(
            "vf_mode",
            self.fails("provision", *self.configure("vf_mode = both")),
        )
        self.assertIn(
            "--config-file",
            self.fails("provision", "--config-file", "/nowhere.conf"),
        )

    def test_map(self):
        self.kernel.devices[1] = VfDevice(None, iommu_group=41)
        printed = self.run_command("map", "-c", "vf", "-c", "group")
        self.assertEqual(
            {"VF": "enp1s0/1", "Group": "41"}, tables.rows(printed)[1]
        )
        self.assertEqual(41, self.run_json("map")[1]["iommu_group"])

    def test_a_host_without_vfs_says_so(self):
        for words in (("list",), ("map",)):
            with mock.patch.object(vfs.Vfs, "list", return_value=()):
                self.assertEqual("", self.run_command(*words))
                said = self.told.getvalue()
                self.assertEqual([], self.run_json(*words))
            self.assertIn("there is no VF; ", said)
            self.assertNotIn("there is no VF", self.told.getvalue())

    def test_xml(self):
        self.kernel.change(0, mac=fakes.ADMIN_MAC, vlan=7)
        printed = self.run_command("xml", "enp1s0/0")
        self.assertIn(f'<mac address="{fakes.ADMIN_MAC}"/>', printed)
        self.assertIn('<tag id="7"/>', printed)
        printed = self.run_command(
            "xml", "enp1s0/0", "--as", "hostdev", "--mac", "none", "--vlan=9"
        )
        self.assertIn("before: sriov-rt vf set enp1s0/0 vlan=9 -->", printed)
        printed = self.run_command("xml", "enp1s0", "--as", "network")
        self.assertIn("<network>", printed)
        self.assertNotIn("<interface", printed)
        for words in (("network", "--mac=none"), ("pooled", "--vlan=7")):
            self.assertIn(
                f"{words[1][:5]}", self.fails("xml", "enp1s0", "--as", *words)
            )
        printed = self.run_command("xml", "enp1s0", "--as", "pooled")
        self.assertIn('<source network="sriov-enp1s0"/>', printed)
        self.assertIn(
            "the PF has 2",
            self.fails("xml", "enp1s0", "--as=network", "--pool=3"),
        )
        self.assertIn("MAC", self.fails("xml", "enp1s0/0", "--mac=x"))
        for way in ("interface", "hostdev"):
            self.assertIn(
                "multicast",
                self.fails(
                    *("xml", "enp1s0/0", "--mac=01:00:5e:00:00:01"),
                    f"--as={way}",
                ),
            )

    def test_help_imports_nothing_that_is_slow(self):
        code = (
            "import sys; from sriov_rt.cmd import vf; "
            "print([m for m in ('lxml', 'oslo_config') "
            "if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True
        )
        self.assertEqual(b"[]\n", done.stdout)
