# SPDX-License-Identifier: Apache-2.0

"""Two hosts on one wire: VFs made, used, given back, and made again."""

import configparser
import dataclasses
import json
import pathlib
import shutil
import sys
from typing import Any
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Cable
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import Result
from tests.testbed.rtvm import RtVm
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network
from tests.vm import test_vif_kinds

_UNIT = paths.CHECKOUT / "etc/systemd/sriov-rt-vfs.service"
_DEVICE = f"/sys/class/net/{network.PF}/device"

#: Of the other host; rt-1's are the tests' of one host.
NAMESPACE = "srt-other"
ADDRESS = "192.0.2.2"

#: Runs the command of the project, which ends as if by SIGKILL when its work
#: is done, but not yet written down as done.
_DIE = """
import os
import sys
from sriov_rt.cmd import main
from sriov_rt.vif.records import Records
Records.put = lambda *_, **__: os._exit(77)
sys.exit(main.main())
"""


# Boots a machine of its own.
@periodic
class PairTest(test_vif_kinds.PortTestCase):
    """A host that has no VFs when it has started, at the other end of a wire.

    :cvar other: that host, since its last start.
    :cvar records: its directory, inside and outside.
    """

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {}
    other: ClassVar[RtVm]
    records: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Start it, with a disk for its records that outlives it."""
        base.place().make()
        packages.install(
            ("iperf3", "sockperf"), base.place().log / "apt-verify.log"
        )
        super().setUpClass()
        cls.records = base.place().state / "pair-records"
        shutil.rmtree(cls.records, ignore_errors=True)
        cls.records.mkdir()
        cls.addClassCleanup(shutil.rmtree, cls.records)
        cls.addClassCleanup(lambda: cls.other.stop())
        cls._start()

    @classmethod
    def _start(cls) -> None:
        """Start it, or cut its power and start it again."""
        machine = dataclasses.replace(
            Machine.ordinary("std-3", 3),
            cpus=2,
            memory_mb=768,
            hugepages=0,
            vfs=0,
            libvirt=False,
            cable=Cable(base.cable(), listens=False),
        )
        cls.other = RtVm(base.place(), machine)
        cls.other.stop()
        cls.other.start()
        cls.other.wait_ready(Progress(sys.stderr).say)
        cls.other.run(("ip", "netns", "add", NAMESPACE))

    def _there(self, *arguments: str) -> Any:
        """Return what a command says in JSON that has to succeed there."""
        result = base.command(self.other, *arguments, "--json")
        self.assertEqual(result.status, 0, result.complaint)
        return json.loads(result.text)

    def _configure(self, number: int) -> None:
        """Write down how many VFs there are to be."""
        text = (
            f"[nic]\nvfs = {network.PF}:{number}:host\n"
            f"[vif]\nparents = physnet1:pf:{network.PF}\n"
            f"records = {self.records}\n"
        )
        self.other.push(text.encode(), test_vif_kinds.CONFIG)

    def _provision(self, number: int) -> list[int]:
        """Have a number of VFs, and return what the kernel was told."""
        self._configure(number)
        (done,) = self._there("vf", "provision")
        self.assertEqual(self._number(), number)
        return list(done["numbers"])

    def _anew(self, number: int) -> None:
        """Have VFs whose filters for MACs are all free."""
        self._provision(0)
        self._provision(number)

    def _number(self) -> int:
        """Return how many VFs the kernel says there are."""
        return int(self.other.read_file(f"{_DEVICE}/sriov_numvfs"))

    def _interfaces(self) -> dict[str, int]:
        """Return the interfaces of the host, with their numbers."""
        shown = self.other.run(("ip", "-j", "link", "show")).text
        return {
            each["ifname"]: each["ifindex"]
            for each in json.loads(shown)
            if each["ifname"] != "lo"
        }

    def _words_there(self, kind: str, *more: str) -> tuple[str, ...]:
        return self.words(
            kind, *more, address=f"{ADDRESS}/24", namespace=NAMESPACE
        )

    def _plug_there(self, kind: str, *more: str) -> dict[str, Any]:
        """Return a port of the other host, plugged until the test ends."""
        words = self._words_there(kind, *more)
        port = words[words.index("--port") + 1]
        self.addCleanup(
            lambda: base.command(self.other, "vif", "unplug", port)
        )
        return dict(self._there("vif", "plug", *words))

    def _unplug_there(self, port: dict[str, Any]) -> None:
        gone = self._there("vif", "unplug", port["port"])
        self.assertTrue(gone["unplugged"])

    def _refused(self) -> str:
        """Return why the VFs are not made."""
        result: Result = base.command(self.other, "vf", "provision")
        self.assertEqual(result.status, 2, result.text)
        return result.complaint

    def test_configured_vfs_are_made_once(self) -> None:
        """None until then, and those that are there stay the same."""
        self._provision(0)
        bare = self._interfaces()
        self._configure(2)
        (planned,) = self._there("vf", "provision", "--dry-run")
        self.assertEqual((planned["numbers"], self._number()), ([2], 0))
        self.assertEqual(self._provision(2), [2])
        made = self._interfaces()
        self.assertEqual(len(made.keys() - bare.keys()), 2)
        self.assertEqual(self._provision(2), [])
        self.assertEqual(self._interfaces(), made)

    def test_vfs_in_use_stay_until_their_last_port_has_gone(self) -> None:
        """They are named; then they are clean and down, and others come."""
        self._anew(2)
        idle = self._interfaces()
        for kind in ("macvlan:bridge", "ipvlan", "vf"):
            with self.subTest(kind):
                port = self._plug_there(kind)
                (vf,) = (
                    each
                    for each in self._there("vf", "list", network.PF)
                    if each["vf"]["address"] == port["vf"]
                )
                self._configure(3)
                reason = self._refused()
                self.assertIn("VFs are in use", reason)
                self.assertIn(f"{network.PF}/{vf['vf']['index']} (", reason)
                self.assertEqual(self._number(), 2)
                self.assertEqual(self._there("vif", "show"), [port])
                mapped = self._there("vf", "map", network.PF)
                self.assertIn(
                    (port["vf"], port["port"]),
                    [(each["vf"]["address"], each["port"]) for each in mapped],
                )
                self._unplug_there(port)
                self._assert_idle(idle)
        self.assertEqual(self._provision(3), [0, 3])

    def _assert_idle(self, names: dict[str, int]) -> None:
        """See that all VFs are home, down, nobody's and at the baseline."""
        self.assertEqual(self._interfaces().keys(), names.keys())
        found = self._there("vf", "list", network.PF)
        for each in found:
            link = network.link(self.other, each["netdev"]) or {}
            self.assertNotIn("UP", link["flags"])
            self.assertNotIn("ifalias", link)
            vf = each["vf"]["address"]
            (plan,) = self._there("vf", "reset", vf, "--dry-run")
            self.assertEqual(plan["steps"], [])
        self.assertEqual(len(found), 2)

    def test_ports_reach_the_other_host_in_their_vlan_alone(self) -> None:
        """A macvlan and a whole VF of each host, either way."""
        self.make_room()
        self._anew(2)
        for kind in ("macvlan:bridge", "vf"):
            with self.subTest(kind):
                near = self.plug(*self.words(kind, "--vlan", "100"))
                far = self._plug_there(kind, "--vlan", "100")
                self.assert_answers(ADDRESS)
                back = test_vif_kinds.ADDRESS.partition("/")[0]
                self.assertTrue(network.ping(self.other, NAMESPACE, back))
                self._unplug_there(far)
                far = self._plug_there(kind, "--vlan", "200")
                self.assert_silent(ADDRESS)
                self._unplug_there(far)
                self.unplug(near["port"])

    def test_throughput_and_requests_are_measured_between_them(self) -> None:
        """One serves until Ctrl-C, the other measures from its macvlan."""
        self.make_room()
        self._anew(2)
        self.plug(*self.words("macvlan:bridge"))
        self._plug_there("macvlan:bridge")
        program = base.product().program("sriov-rt")
        log = base.place().log / "verify-serve.log"
        log.unlink(missing_ok=True)
        enter = ("ip", "netns", "exec", NAMESPACE)
        job = self.other.spawn(
            (*enter, program, "verify", "network", "serve", ADDRESS), log=log
        )
        self.addCleanup(self.other.kill, job)
        wait_for(
            "the other host serves",
            lambda: "measure with" in log.read_text(),
            timeout=base.PATIENCE,
        )
        results = "/tmp/verify-pair"
        self.addCleanup(self.sh, f"rm -rf {results}")
        measured = self.vm.run(
            (
                *(program, "verify", "network", "--to", ADDRESS),
                *("--namespace", test_vif_kinds.NAMESPACE),
                *("--name", "macvlan", "--streams", "2", "--duration", "3s"),
                *("--output", results, "--json"),
            ),
            timeout=base.PATIENCE,
            check=False,
        )
        self.assertTrue(measured.stdout, measured.complaint)
        found = json.loads(measured.text)
        self.assertEqual(
            [("send", ""), ("receive", ""), ("requests", "")],
            [(each["cell"]["test"], each["problem"]) for each in found],
        )
        for each in found:
            self.assertGreater(each["figure"], 0)
            self.assertTrue(each["emulated"])
            self.assertEqual("two hosts", each["way"])
            print(
                f"between two hosts: {each['cell']['test']} "
                f"{each['figure']:.0f} (emulated: means nothing)",
                file=sys.stderr,
            )

    def test_host_that_lost_its_power_is_as_it_was_configured(self) -> None:
        """Its unit makes the VFs, and nothing is left of a port."""
        self._anew(2)
        self._plug_there("ipvlan")
        words = self._words_there("vf", "--name", "p1")
        python = base.product().program("python")
        died = self.other.run(
            (python, "-I", "-c", _DIE, "vif", "plug", *words),
            timeout=base.PATIENCE,
            check=False,
        )
        self.assertEqual(died.status, 77, died.complaint)
        self._start()
        self.assertEqual(self._number(), 0)
        self._configure(2)
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read(_UNIT)
        start = unit["Service"]["ExecStart"].split()[1:]
        made = base.command(self.other, *start)
        self.assertEqual((made.status, self._number()), (0, 2), made.complaint)
        lost = words[words.index("--port") + 1]
        # What the records tell of ended with the power; it says so, once.
        recovered = base.command(self.other, "vif", "recover", "--json")
        self.assertEqual(recovered.status, 0, recovered.complaint)
        self.assertFalse(any(json.loads(recovered.text).values()))
        (said,) = recovered.complaint.splitlines()
        self.assertIn(f"port={lost}", said)
        self.assertIn("of another boot", said)
        again = self._there("vif", "recover")
        self.assertFalse(any(again.values()), again)
        self.assertEqual(self._there("vif", "show"), [])
        self.plug(*self.words("ipvlan"))
        self._plug_there("vf")
        self.assert_answers(ADDRESS)
