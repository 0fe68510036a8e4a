# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt vif``, on a host of memory."""

import contextlib
import dataclasses
import io
import json
import pathlib
import tempfile
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.cmd import main
from sriov_rt.vif import errors
from sriov_rt.vif import host
from sriov_rt.vif import plugger as pluggers
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Records
from sriov_rt.vif.recovery import Recovered
from tests.unit.cmd import tables
from tests.unit.vif import fakes
from tests.unit.vif.fakes import NETWORK
from tests.unit.vif.fakes import PORT

PLUG = (
    "plug", "--port", PORT, "--owner", "web", "--kind", "macvlan",
    "--network", "physnet1", "--namespace", "box",
)  # fmt: skip


class VifCommandTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name) / "vif"
        self.kernel = fakes.FakeHost()
        self.plugger = fakes.plugger(self.directory, self.kernel)
        patch = mock.patch.object(
            pluggers, "configured", return_value=self.plugger
        )
        self.configured = patch.start()
        self.addCleanup(patch.stop)

    def run_command(self, *words, code=0) -> str:
        printed, told = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(told),
        ):
            self.assertEqual(code, main.main(["vif", *words]), told)
        return printed.getvalue() + told.getvalue()

    def test_a_host_without_ports_says_so(self):
        self.assertEqual(
            "sriov-rt: no port is plugged on this host\n",
            self.run_command("show"),
        )
        self.assertEqual("[]\n", self.run_command("show", "--json"))

    def test_an_accelerated_port_shows_its_network(self):
        words = (*PLUG, "--onload", NETWORK)
        plan = self.run_command(*words, "--dry-run")
        self.assertIn(f"accelerated on network {NETWORK}", plan)
        found = json.loads(self.run_command(*words, "--json"))
        self.assertEqual(
            (True, NETWORK), (found["accelerated"], found["network"])
        )
        words_shown = ["show", "-c", "network", "-c", "state", "-c", "reason"]
        (shown,) = tables.rows(self.run_command(*words_shown))
        self.assertEqual(
            {"Network": NETWORK, "State": "plugged", "Reason": "-"}, shown
        )
        other = [fakes.OTHER if w == PORT else w for w in words]
        other[other.index("web")] = "app"
        said = self.run_command(*other, "--name", "eth9", code=2)
        self.assertIn("onload_same_host", said)

    def test_a_quarantined_port_is_shown_and_forgotten(self):
        self.run_command(*PLUG)
        said = self.run_command("forget", PORT, "--force", code=2)
        self.assertIn("not quarantined; unplug it instead", said)
        # Nobody is led to --force by what it will refuse.
        said = self.run_command("forget", PORT, code=2)
        self.assertIn("not quarantined; unplug it instead", said)
        self.assertNotIn("--force", said)
        link = next(
            each
            for each in self.kernel.links.values()
            if each.namespace == "box"
        )
        self.kernel.hide(link.name)
        with mock.patch("sriov_rt.vif.host.PATIENCE_S", 0.0):
            said = self.run_command("unplug", PORT, code=2)
        self.assertIn("quarantined (srtb", said)
        self.assertIn("quarantined", self.run_command("show"))
        (found,) = json.loads(self.run_command("show", "--json"))
        self.assertEqual("quarantined", found["state"])
        self.assertIn("has left its namespace", found["reason"])
        self.assertIn("--force", self.run_command("forget", PORT, code=2))
        self.assertIn(PORT, self.run_command("forget", PORT, "--dry-run"))
        self.assertIn(PORT, self.run_command("show"))
        said = self.run_command("forget", PORT, "--force", "--json")
        told = json.loads(said[: said.index("}") + 1])
        self.assertEqual({"port": PORT, "forgotten": True}, told)
        self.assertNotIn(PORT, self.run_command("show"))
        for words in ((PORT,), (PORT, "--force")):
            said = self.run_command("forget", *words)
            self.assertEqual(
                f"{PORT} is unknown here: nothing to forget\n", said
            )

    def test_one_whose_interface_is_there_is_not_forgotten(self):
        self.run_command(*PLUG)
        (link,) = [x for x in self.kernel.links.values() if x.namespace]
        self.kernel.hide(link.name)
        with mock.patch("sriov_rt.vif.host.PATIENCE_S", 0.0):
            self.run_command("unplug", PORT, code=2)
        self.kernel.hidden.clear()
        said = self.run_command("forget", PORT, "--force", code=2)
        self.assertIn(f"{link.name} in hidden", said)
        self.assertIn("its interface is still there", said)
        self.assertIn("quarantined", self.run_command("show"))

    def test_a_list_has_whose_each_port_is(self):
        self.run_command(*PLUG)
        with mock.patch.dict("os.environ", COLUMNS="200"):
            (row,) = tables.rows(self.run_command("list"))
        self.assertEqual(
            (PORT, "web", "physnet1", "box", "0", "plugged"),
            tuple(
                row[each]
                for each in (
                    *("Port", "Owner", "Physical network", "Namespace"),
                    *("VLAN", "State"),
                )
            ),
        )
        self.assertIn("MAC", row)
        shown = tables.fields(self.run_command("show", PORT))
        self.assertEqual("physnet1", shown["physical_network"])
        words = ("show", PORT, "-f", "value", "-c", "parent", "-c", "state")
        self.assertRegex(self.run_command(*words), r"^\S+ plugged\n$")
        words = ("show", PORT, "--json", "-c", "state")
        said = self.run_command(*words)
        self.assertEqual({"state": "plugged"}, json.loads(said))
        found = json.loads(self.run_command("show", PORT, "--json"))
        self.assertEqual(
            [found], json.loads(self.run_command("list", "--json"))
        )
        said = self.run_command("show", fakes.OTHER, code=1)
        self.assertIn("on this host; see 'sriov-rt vif list'", said)

    def test_an_absent_port_says_what_to_do(self):
        self.run_command(*PLUG)
        (link,) = [x for x in self.kernel.links.values() if x.namespace]
        self.kernel.hide(link.name)
        said = self.run_command("list")
        self.assertIn("absent", said)
        self.assertIn(
            f"{link.name} is not where it was plugged; start its owner again, "
            f"or end it and run 'sriov-rt vif unplug {PORT}'",
            said,
        )

    def test_a_damaged_record_says_what_to_do(self):
        self.run_command(*PLUG)
        (self.directory / "records" / PORT).write_text("junk")
        for words in (("list",), ("show", PORT)):
            said = self.run_command(*words)
            self.assertIn(f"{PORT}: damaged: ", said)
            self.assertIn(f"then 'sriov-rt vif forget {PORT} --force'", said)

    def test_plug_show_unplug(self):
        found = json.loads(self.run_command(*PLUG, "--json"))
        self.assertEqual("enp1s0v0", found["parent"])
        self.assertEqual(
            [found], json.loads(self.run_command("show", "--json"))
        )
        printed = self.run_command("show")
        (row,) = tables.rows(printed)
        self.assertEqual((PORT, "plugged"), (row["Port"], row["State"]))
        self.assertTrue(row["Interface"].startswith("srtb3f2e1d0"))
        self.assertLessEqual(tables.width(printed), 80)
        again = tables.fields(self.run_command(*PLUG))
        self.assertEqual(found["mac"], again["mac"])
        again = json.loads(self.run_command(*PLUG, "-f", "json"))
        self.assertEqual(found, again)
        self.assertEqual(
            f"{PORT} unplugged\n", self.run_command("unplug", PORT)
        )
        self.assertEqual(
            {"port": PORT, "unplugged": False},
            json.loads(self.run_command("unplug", PORT, "--json")),
        )

    def test_dry_runs_change_nothing(self):
        planned = self.run_command(*PLUG, "--dry-run")
        self.assertIn("make macvlan bridge srtb3f2e1d0-11", planned)
        lines = json.loads(self.run_command(*PLUG, "--dry-run", "--json"))
        self.assertEqual(planned.splitlines(), lines)
        self.assertEqual((), self.plugger.show())
        for verb, state in (("unplug", "plugged"), ("forget", "quarantined")):
            words = (verb, PORT, "--dry-run")
            self.assertEqual(
                f"{PORT} is not {state}: nothing to do\n",
                self.run_command(*words),
            )
            self.assertEqual(
                [], json.loads(self.run_command(*words, "--json"))
            )
        self.plugger.plug(fakes.asked())
        self.assertIn(PORT, self.run_command("unplug", PORT, "--dry-run"))
        self.assertEqual(1, len(self.plugger.show()))

    def test_everything_of_a_port(self):
        self.run_command(
            *PLUG, "--mode", "private", "--name", "eth1", "--mac",
            "02:00:5E:10:00:01", "--vlan", "7", "--mtu", "1400", "--address",
            "192.0.2.1/24", "--address", "2001:db8::1/64", "--route",
            "default=192.0.2.254", "--out-kbps", "100", "--in-kbps", "200",
            "--numa-node", "0",
        )  # fmt: skip
        (found,) = self.plugger.show()
        self.assertEqual(
            ("private", "eth1", "02:00:5e:10:00:01", 7, 1400),
            (found.mode, found.interface, found.mac, found.vlan, found.mtu),
        )

    def test_what_is_wrong_is_said(self):
        for words in (
            (*PLUG, "--route", "default"),
            (*PLUG, "--mac", "x"),
            (*PLUG, "--name", "a/b"),
            (*PLUG, "--network", "physnet9"),
            ("unplug", "x"),
        ):
            said = self.run_command(*words, code=2)
            self.assertTrue(said.startswith("sriov-rt: error: "), said)
            self.assertEqual(1, len(said.splitlines()))

    def test_numbers_are_whole(self):
        for text in ("x", "-1", "1e3", "١", "9" * 40):
            with self.assertRaises(SystemExit) as caught:
                self.run_command(*PLUG, "--vlan", text)
            self.assertEqual(2, caught.exception.code)

    def test_a_start_recovers_first(self):
        self.plugger.plug(fakes.asked(port=fakes.OTHER))
        store = Records(self.directory)
        record = store.get(fakes.OTHER)
        store.put(dataclasses.replace(record, state=State.UNPLUGGING))
        self.run_command("unplug", PORT)
        self.assertIsNone(store.get(fakes.OTHER))

    def test_a_failed_recovery_of_others_stops_nothing(self):
        broken = errors.RecordsBroken("/x")
        with mock.patch.object(
            self.plugger, "recover_pending", side_effect=broken
        ):
            said = self.run_command(*PLUG)
        self.assertIn("not recovered: /x", said)
        self.assertIn(PORT, said)

    def test_recover(self):
        self.assertEqual(
            "nothing to do: no port was interrupted\n",
            self.run_command("recover"),
        )
        found = json.loads(self.run_command("recover", "--json"))
        self.assertEqual({()}, {tuple(each) for each in found.values()})
        done = Recovered(
            undone=(PORT,),
            failed=((fakes.OTHER, "eth1: not permitted"),),
        )
        with mock.patch.object(self.plugger, "recover", return_value=done):
            self.assertEqual(
                [
                    f"undone: {PORT}",
                    f"failed: {fakes.OTHER}: eth1: not permitted",
                ],
                self.run_command("recover", code=1).splitlines(),
            )
            found = json.loads(self.run_command("recover", "--json", code=1))
        self.assertEqual([PORT], found["undone"])

    def test_the_lines_for_lxc(self):
        hook = ("lxc-hook", *PLUG[1:-2], "--address", "192.0.2.1/24")
        lines = self.run_command(*hook, "--config-file", "/a b").splitlines()
        self.assertIn("lxc.hook.version = 1", lines)
        start = next(each for each in lines if "start-host" in each)
        self.assertTrue(start.endswith(" --namespace=pid:$LXC_PID"))
        self.assertIn("'--config-file=/a b'", start)
        self.assertIn("--address=192.0.2.1/24", start)
        self.assertTrue(
            lines[-1].endswith(f"unplug '--config-file=/a b' {PORT}")
        )
        self.configured.assert_not_called()
        self.assertEqual(lines, json.loads(self.run_command(
            *hook, "--config-file", "/a b", "--json"
        )))  # fmt: skip


class ConfiguredTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.file = pathlib.Path(place.name) / "sriov-rt.conf"

    def test_a_file(self):
        self.file.write_text(
            "[vif]\nparents = physnet1:eth0,physnet2:pf:eth1\n"
        )
        found = pluggers.configured([str(self.file)])
        self.assertEqual(("physnet1", "physnet2"), found.pools.networks)

    def test_none(self):
        with mock.patch.object(host, "CONFIG_FILE", str(self.file)):
            self.assertEqual((), pluggers.configured().pools.members)

    def test_what_cannot_be_read(self):
        for text in ("no section", "[vif]\nlock_timeout = x\n"):
            self.file.write_text(text)
            with self.assertRaises(config.ConfigurationUnreadable) as caught:
                pluggers.configured([str(self.file)])
            self.assertIn("correct it, or name another", str(caught.exception))
        with self.assertRaises(config.ConfigurationUnreadable):
            pluggers.configured(["/nowhere"])

    def test_one_of_another_user(self):
        refused = cfg.ConfigFilesPermissionDeniedError(["sriov-rt.conf"])
        with (
            mock.patch.object(host, "read", side_effect=refused),
            self.assertRaises(config.ConfigurationUnreadable) as caught,
        ):
            pluggers.configured([str(self.file)])
        self.assertIn("run as root, or as a user who", str(caught.exception))
        self.assertNotIn("correct it", str(caught.exception))
