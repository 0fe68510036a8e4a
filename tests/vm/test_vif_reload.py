# SPDX-License-Identifier: Apache-2.0

"""A PF that goes and comes back while a container has its VF."""

import json
import pathlib
import re
import uuid
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import paths
from tests.testbed.rtvm import Job
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network
from tests.vm import test_lxc
from tests.vm import test_vf_netdevsim
from tests.vm import test_vif_kill
from tests.vm import test_vif_kinds
from tests.vm.test_vif_kinds import ADDRESS
from tests.vm.test_vif_kinds import MAC
from tests.vm.test_vif_kinds import NAMESPACE
from tests.vm.test_vif_kinds import PEER

_DEVICE = "0000:01:00.0"
_PLACE = f"/sys/bus/pci/devices/{_DEVICE}"
_RELOAD = (
    f"echo {_DEVICE} > {_PLACE}/driver/unbind\n"
    f"echo {_DEVICE} > /sys/bus/pci/drivers/igb/bind"
)

#: Ways in which the VFs of a PF are destroyed.
_WAYS = {
    "another sriov_numvfs": f"echo 0 > {_PLACE}/sriov_numvfs",
    "a reload of the PF's driver": _RELOAD,
    "a removal and a rescan": (
        f"echo 1 > {_PLACE}/remove\necho 1 > /sys/bus/pci/rescan"
    ),
    # As an update of firmware does. igb does not know that its device was
    # reset (no reset_prepare in igb_err_handler), and has to be loaded again.
    "a PCI reset": f"echo 1 > {_PLACE}/reset\n{_RELOAD}",
}

#: There is no udev that would name and set up the PF.
_BACK = f"""
set -e
for try in $(seq 100); do
    [ -e {_PLACE}/net ] && break
    sleep 0.2
done
now=$(ls {_PLACE}/net)
[ "$now" = {network.PF} ] || {{
    ip link set "$now" down; ip link set "$now" name {network.PF}
}}
ip link set {network.PF} up
"""

#: udev with the shipped rule, and the shipped unit without systemd.
_UDEV = paths.CHECKOUT / "tests/vm/pf_reload.sh"
_LOG = "/run/pf-reload/log"

#: Seconds in which a container has its network again. An emulated CPU takes
#: three to start Python; a VF that its PF has not answered is tried again.
_AGAIN = 400.0


class ReloadTestCase(test_vif_kinds.PortTestCase):
    """A PF with as many VFs as there are, as configured."""

    @classmethod
    def setUpClass(cls) -> None:
        """Configure them."""
        super().setUpClass()
        numvfs = cls.vm.run(("cat", f"{_PLACE}/sriov_numvfs")).text.strip()
        config = (
            f"[vif]\nparents = physnet1:pf:{network.PF}\n"
            f"[nic]\nvfs = {network.PF}:{numvfs}:host\n"
        )
        cls.vm.push(config.encode(), test_vif_kinds.CONFIG)

    def restore(self) -> dict[str, list[str]]:
        """Restore as the shipped unit does: again until none is left."""
        found: dict[str, list[str]] = {}

        def is_done() -> bool:
            nonlocal found
            self.done("vf", "provision")
            network.serve_mailboxes(self.vm, network.MAILBOX_CPU)
            result = self.command("vif", "restore", "--json")
            found = json.loads(result.stdout)
            return result.status == 0

        wait_for("none is left", is_done, timeout=_AGAIN, interval=10)
        return found

    def destroy(self, script: str) -> None:
        """Destroy the VFs, and have their PF under its name again.

        :param script: of _WAYS.
        """
        self.vm.run(("bash", "-c", script), timeout=base.PATIENCE)
        self.vm.run(("bash", "-c", _BACK), timeout=base.PATIENCE)
        network.serve_mailboxes(self.vm, network.MAILBOX_CPU)


@periodic
class ReloadTest(ReloadTestCase):
    """Its VFs are made again, and its port is plugged again."""

    def _check(self, kind: str, *more: str) -> None:
        """Destroy the VFs of a container in each way, and see it answer."""
        words = self.words(kind, *more)
        plugged = self.plug(*words)
        self.assert_answers(PEER)
        nothing: dict[str, list[str]] = {
            "restored": [],
            "left": [],
            "guests": [],
            "ended": [],
        }
        self.assertEqual(self.done("vif", "restore"), nothing)
        for way, script in _WAYS.items():
            with self.subTest(kind, way=way):
                self.destroy(script)
                self.assertIsNone(network.link(self.vm, "p0", NAMESPACE))
                result = self.command("vif", "restore", "--json")
                self.assertEqual(result.status, 1, result.text)
                found = self.restore()
                port = plugged["port"]
                self.assertEqual({**nothing, "restored": [port]}, found)
                link = network.link(self.vm, "p0", NAMESPACE) or {}
                if kind == "vf":
                    self.assertEqual(MAC, link["address"])
                self.assertIn(port, link["ifalias"])
                (shown,) = self.done("vif", "show")
                self.assertEqual("plugged", shown["state"])
                self.assert_answers(PEER)
                self.assertEqual(self.done("vif", "restore"), nothing)
        self.assertTrue(self.unplug(plugged["port"]))

    def test_a_whole_vf(self) -> None:
        """It has its MAC, and answers, whatever became of its VF."""
        self._check("vf", "--mac", MAC)

    def test_an_ipvlan(self) -> None:
        """It is on another VF, and answers."""
        self._check("ipvlan")


@periodic
class MacsTest(ReloadTestCase):
    """VFs that the host uses itself, by ``[nic] vf_macs``."""

    #: Of VF 0; that of VF 2 has another fifth byte.
    FIRST = "02:00:5e:20:00:fe"

    def test_a_vf_has_the_same_mac_whenever_it_is_made(self) -> None:
        """The PF and the VF's interface show it, after each way."""
        self.addCleanup(network.remake_vfs, self.vm)
        number = len(self.done("vf", "list", network.PF))
        config = (
            f"[nic]\nvfs = {network.PF}:{number}:host\n"
            f"vf_macs = {network.PF}:{self.FIRST}\n"
        )
        self.vm.push(config.encode(), test_vif_kinds.CONFIG)
        first = int(self.FIRST.replace(":", ""), 16)
        macs = [
            (first + index).to_bytes(6).hex(":") for index in range(number)
        ]
        for way in ("another sriov_numvfs", "a reload of the PF's driver"):
            with self.subTest(way=way):
                self.destroy(_WAYS[way])
                self.restore()
                found = self.done("vf", "list", network.PF)
                self.assertEqual(
                    [(mac, mac) for mac in macs],
                    [
                        (each["settings"]["mac"], each["interface_mac"])
                        for each in found
                    ],
                )


#: Prints the drifts of VFs that were changed, as the agent finds them.
_CHANGED = """
import dataclasses, json
from sriov_rt.agent import audit
from sriov_rt.host.root import Root
from sriov_rt.vif import changed_vfs
found = audit.changed(Root(), changed_vfs.of_host)
print(json.dumps([dataclasses.asdict(each) for each in found]))
"""


@periodic
class ChangedTest(ReloadTestCase):
    """MACs that somebody changes while the VFs stay: drift, and its remedy."""

    OTHER = "02:66:66:66:66:66"

    def drifts(self) -> list[dict[str, str]]:
        shown = self.vm.run(
            (base.product().program("python"), "-I", "-c", _CHANGED),
            timeout=base.PATIENCE,
        )
        found: list[dict[str, str]] = json.loads(shown.text)
        return found

    def test_a_tenants_vf_through_its_pf(self) -> None:
        """The container goes on; the command of the drift ends it."""
        owner = str(uuid.uuid4())
        plugged = self.plug(*self.words("vf", "--mac", MAC, "--owner", owner))
        self.assertEqual([], self.drifts())
        index = next(
            each["vf"]["index"]
            for each in self.done("vf", "list", network.PF)
            if each["vf"]["address"] == plugged["vf"]
        )
        self.sh(f"ip link set {network.PF} vf {index} mac {self.OTHER}")
        (drift,) = self.drifts()
        self.assertEqual(
            (owner, "port_vf_changed", plugged["vf"]),
            (drift["instance"], drift["code"], drift["subject"]),
        )
        command = f"ip link set {network.PF} vf {index} mac {MAC}"
        self.assertIn(f"'{command}'", drift["remedy"])
        (shown,) = self.done("vif", "show")
        self.assertEqual("drifted", shown["state"])
        # It is not given back unasked.
        self.done("vif", "restore")
        self.assertEqual([drift], self.drifts())
        self.sh(command)
        self.assertEqual([], self.drifts())
        self.assertTrue(self.unplug(plugged["port"]))

    def test_the_hosts_own_vf(self) -> None:
        """One that is up is left as it is, and one that is idle is set."""
        self.addCleanup(network.remake_vfs, self.vm)
        number = len(self.done("vf", "list", network.PF))
        config = (
            f"[nic]\nvfs = {network.PF}:{number}:host\n"
            f"vf_macs = {network.PF}:{MacsTest.FIRST}\n"
        )
        self.vm.push(config.encode(), test_vif_kinds.CONFIG)
        self.done("vf", "provision")
        self.assertEqual([], self.drifts())
        name = f"{network.PF}v0"
        self.sh(
            f"ip link set {name} address {self.OTHER}\nip link set {name} up"
        )
        (drift,) = self.drifts()
        self.assertEqual(
            ("", "vf_mac_changed"),
            tuple(drift[each] for each in ("instance", "code")),
        )
        self.done("vf", "provision")
        self.assertEqual([drift], self.drifts())
        self.sh(f"ip link set {name} down")
        self.done("vf", "provision")
        self.assertEqual([], self.drifts())


_GUEST = """
<domain type='qemu'>
  <name>srt-guest</name>
  <uuid>{owner}</uuid>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <interface type='ethernet'>
      <mac address='{mac}'/>
      <target dev='{name}' managed='no'/>
      <model type='virtio'/>
    </interface>
  </devices>
</domain>
"""

#: Prints the drifts that the agent makes of the facts on standard input.
_DRIFTS = """
import dataclasses, json, sys
from sriov_rt.agent import audit
from sriov_rt.facts import host_facts
found = audit.lost(host_facts.from_json(sys.stdin.read()))
print(json.dumps([dataclasses.asdict(each) for each in found]))
"""


@periodic
class GuestTest(ReloadTestCase):
    """A guest of libvirt's whose port is a macvtap: QEMU has it open."""

    def test_its_vf_is_pulled(self) -> None:
        """The drift names the instance to reboot; an unplug ends it."""
        owner = str(uuid.uuid4())
        words = self.words(
            *("macvtap:bridge", "--mac", MAC, "--owner", owner),
            address="",
            namespace="",
        )
        plugged = self.plug(*words)
        domain = _GUEST.format(owner=owner, mac=MAC, name="p0")
        self.vm.push(domain.encode(), "/root/guest.xml")
        self.addCleanup(self.sh, "virsh -q destroy srt-guest", check=False)
        self.sh("virsh -q create /root/guest.xml")
        self.destroy(_WAYS["another sriov_numvfs"])
        port = plugged["port"]
        self.assertEqual([port], self.restore_guests())
        facts = self.command("host", "show", "--json")
        shown = self.vm.run(
            (base.product().program("python"), "-I", "-c", _DRIFTS),
            timeout=base.PATIENCE,
            stdin=facts.stdout,
        )
        (drift,) = json.loads(shown.text)
        self.assertEqual(
            (owner, "port_lost_by_guest", port),
            (drift["instance"], drift["code"], drift["subject"]),
        )
        self.assertIn(f"hard-reboot instance {owner}", drift["remedy"])
        self.assertIn("running", self.sh("virsh domstate srt-guest").text)
        # As Nova does at a hard reboot.
        self.sh("virsh -q destroy srt-guest")
        self.unplug(port)
        self.plug(*words)
        self.sh("virsh -q create /root/guest.xml")
        again = self.done("vif", "restore")
        self.assertEqual([], again["guests"])

    def restore_guests(self) -> list[str]:
        """Return the ports of guests that a run of 'vif restore' leaves."""
        self.done("vf", "provision")
        result = self.command("vif", "restore", "--json")
        self.assertEqual(3, result.status, result.complaint)
        return [port for port, _ in json.loads(result.stdout)["guests"]]


_OTHER = "srt-other"
_NSIM = """
set -e
place=/sys/bus/netdevsim/devices/netdevsim1/net
for try in $(seq 50); do [ -n "$(ls $place)" ] && break; sleep 0.2; done
ip link set $(ls $place) name nsim0
ip link set nsim0 up
"""


@periodic
class DevlinkTest(ReloadTestCase):
    """'devlink dev reload' of a NIC, whose driver makes its interface again.

    netdevsim's VFs have no interfaces: its own is the parent.
    """

    def test_two_macvlans(self) -> None:
        """They reach one another again, by a run of 'vif restore'."""
        test_vf_netdevsim.load(self)
        self.sh(f"echo '1 1' > /sys/bus/netdevsim/new_device\n{_NSIM}")
        self.addCleanup(self.sh, "echo 1 > /sys/bus/netdevsim/del_device")
        config = b"[vif]\nparents = physnet9:nsim0\n"
        self.vm.push(config, test_vif_kinds.CONFIG)
        self.sh(f"ip netns add {_OTHER}")
        self.addCleanup(self.sh, f"ip netns del {_OTHER}", check=False)
        more = ("--network", "physnet9")
        ports = [
            self.plug(*self.words("macvlan:bridge", *more)),
            self.plug(
                *self.words(
                    *("macvlan:bridge", *more),
                    address="192.0.2.9/24",
                    namespace=_OTHER,
                )
            ),
        ]
        self.assert_answers("192.0.2.9")
        self.sh(f"devlink dev reload netdevsim/netdevsim1\n{_NSIM}")
        self.assertIsNone(network.link(self.vm, "p0", NAMESPACE))
        self.assert_silent("192.0.2.9")
        found = self.done("vif", "restore")
        names = sorted(each["port"] for each in ports)
        self.assertEqual(names, found["restored"])
        self.assert_answers("192.0.2.9")
        for port, place in zip(ports, (NAMESPACE, _OTHER), strict=True):
            link = network.link(self.vm, "p0", place) or {}
            self.assertEqual(port["mac"], link["address"])
            self.assertTrue(self.unplug(port["port"]))


@periodic
class KillTest(ReloadTestCase, test_vif_kill.KillTestCase):
    """A restore that dies, and the next one."""

    def test_dies_on_the_way(self) -> None:
        """At each seventh call and write; the port is there in the end."""
        for kind in ("vf", "ipvlan"):
            with self.subTest(kind):
                found = self.die("restore", kind, "--every", "7")
                self.assertEqual(found["end"], 0)
                self.assertGreater(found["calls"], 10)


@periodic
class TriggerTest(ReloadTestCase):
    """By udev's events and the shipped rule, while a ping runs."""

    udev: ClassVar[Job]

    @classmethod
    def setUpClass(cls) -> None:
        """Run udev, with nothing but our rule and the host's own."""
        super().setUpClass()
        program = base.product().program("sriov-rt")
        cls.udev = cls.vm.spawn(
            (
                *("env", f"PF={network.PF}", f"DEVICE={_DEVICE}"),
                *(f"CPU={network.MAILBOX_CPU}", f"PROGRAM={program}"),
                # It sees the namespaces that are made later.
                *("unshare", "-m", "--propagation", "slave"),
                *("bash", str(_UDEV), str(paths.CHECKOUT)),
            ),
            log=base.place().log / "udev.log",
        )
        cls.addClassCleanup(cls.vm.kill, cls.udev)

    def reload(self, enter: str, *ways: str) -> None:
        """Destroy the VFs in each way while a ping runs, which goes on.

        :param enter: what runs a command in the container.
        :param ways: all by default.
        """
        lines = []
        for way in ways or _WAYS:
            script = _WAYS[way]
            with self.subTest(way=way):
                self.sh(f"rm -f {_LOG} /run/ping")
                self.sh(
                    f"setsid {enter} ping -D -O -i 0.2 {PEER} > /run/ping "
                    "2>&1 < /dev/null & echo $! > /run/ping.pid"
                )
                self.addCleanup(
                    self.sh, "kill $(cat /run/ping.pid)", check=False
                )
                # A link that has come up flaps, where emulated.
                wait_for("it is answered", self._replies, timeout=_AGAIN)
                self.sh(f"date +%s.%N > /run/went\n{script}")
                wait_for("it answers", self._answers, timeout=_AGAIN)
                went = float(self.sh("cat /run/went").text)
                self.sh("kill $(cat /run/ping.pid)", check=False)
                before, after = self._gap(went)
                lines += [
                    f"== {way}: no answer for {after - before:.1f} s",
                    *self._log(went),
                ]
        text = "\n".join(lines)
        log = base.place().log / f"pf-reload-{self.id().split('.')[-1]}.log"
        log.write_text(text)

    def _replies(self) -> list[float]:
        text = self.sh("cat /run/ping").text
        return [float(x) for x in re.findall(r"\[([\d.]+)\] \d+ bytes", text)]

    def _answers(self) -> bool:
        went = float(self.sh("cat /run/went").text)
        # One that was on its way comes at once.
        return any(each > went + 2 for each in self._replies())

    def _gap(self, went: float) -> tuple[float, float]:
        replies = self._replies()
        after = min(each for each in replies if each > went + 2)
        return max(each for each in replies if each < after), after

    def _log(self, went: float) -> list[str]:
        """Return what udev and the unit did, in seconds since it went."""
        found = []
        for line in self.sh(f"cat {_LOG}").text.splitlines():
            at, _, text = line.partition(" ")
            stamped = re.fullmatch(r"[\d.]+", at)
            when = f"{float(at) - went:8.1f}  " if stamped else " " * 10
            found.append(when + (text if stamped else line))
        return found

    def test_a_namespace(self) -> None:
        """A whole VF with its MAC, by each way."""
        plugged = self.plug(*self.words("vf", "--mac", MAC))
        self.assert_answers(PEER)
        self.reload(f"ip netns exec {NAMESPACE}")
        link = network.link(self.vm, "p0", NAMESPACE) or {}
        self.assertEqual(MAC, link["address"])
        self.assertTrue(self.unplug(plugged["port"]))

    def test_lxc(self) -> None:
        """A real container of LXC, by our hooks."""
        self.sh(test_lxc.MAKE_ROOT)
        program = base.product().program("sriov-rt")
        self.sh(f"ln -s {program} /usr/local/bin/sriov-rt")
        self.addCleanup(self.sh, "rm /usr/local/bin/sriov-rt")
        words = self.words("vf", "--mac", MAC, namespace="")
        hook = self.done("vif", "lxc-hook", *words)
        text = "\n".join([test_lxc.CONFIG, *hook, ""])
        place = f"{test_lxc.PATH}/{test_lxc.NAME}/config"
        self.vm.push(text.encode(), place)
        lxc = f"-P {test_lxc.PATH} -n {test_lxc.NAME}"
        self.addCleanup(self.sh, f"lxc-stop {lxc} -k", check=False)
        self.sh(f"lxc-start {lxc} -d")
        pid = self.sh(f"lxc-info {lxc} -pH").text.strip()
        self.assert_answers(PEER, namespace=f"pid:{pid}")
        self.reload(f"nsenter -n -t {pid}", "a reload of the PF's driver")
        self.assertEqual(pid, self.sh(f"lxc-info {lxc} -pH").text.strip())
        self.sh(f"lxc-stop {lxc} -k")
        wait_for(
            "the hooks have unplugged it",
            lambda: self.done("vif", "show") == [],
            timeout=base.PATIENCE,
        )

    def test_libvirt_lxc(self) -> None:
        """A real container of libvirt's, whose port was moved into it.

        Its address is its own, as by a client of DHCP: it sets that again.
        """
        self.sh(test_lxc.MAKE_ROOT)
        owner = str(uuid.uuid4())
        words = self.words(
            *("vf", "--mac", MAC, "--owner", owner), address="", namespace=""
        )
        plugged = self.plug(*words)
        domain = pathlib.Path(__file__).with_name("container.xml").read_text()
        domain = re.sub(
            r"(?s)<hostdev.*</hostdev>",
            "<hostdev mode='capabilities' type='net'><source>"
            "<interface>p0</interface></source></hostdev>",
            domain.replace("<memory", f"<uuid>{owner}</uuid><memory", 1),
        )
        self.vm.push(domain.encode(), "/root/container.xml")
        virsh = "virsh --quiet --connect lxc:///system"
        name = test_lxc.NAME
        self.addCleanup(self.sh, f"{virsh} destroy {name}", check=False)
        self.sh(f"{virsh} create /root/container.xml")
        pid = self.sh(f"pgrep -P $(cat /run/libvirt/lxc/{name}.pid)")
        inside = f"nsenter -n -t {pid.text.split()[0]}"
        up = f"ip address replace {ADDRESS} dev p0; ip link set p0 up"
        self.sh(
            f"{inside} sh -c '{up}'\n"
            f"setsid {inside} sh -c 'ip monitor link | while read -r each; "
            f"do {up}; done' > /dev/null 2>&1 < /dev/null & "
            "echo $! > /run/monitor.pid"
        )
        self.addCleanup(
            self.sh, "kill -- -$(cat /run/monitor.pid)", check=False
        )
        self.assert_answers(PEER, namespace=f"pid:{pid.text.split()[0]}")
        self.reload(inside, "a removal and a rescan")
        self.sh(f"{virsh} destroy {name}")
        self.assertTrue(self.unplug(plugged["port"]))
