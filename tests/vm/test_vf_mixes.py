# SPDX-License-Identifier: Apache-2.0

"""Two holders of one VF of an 82576 that QEMU emulates, by frames.

Pods, libvirt's domains, VMIs, ports of Neutron's agent and of sriov-rt, and
what the host itself or a container has on a VF.
"""

import time
from typing import Any

from tests.periodic import periodic
from tests.vm import base
from tests.vm import network
from tests.vm import test_pod_vf
from tests.vm import test_vf_attacks
from tests.vm.test_vf_attacks import ADDRESS
from tests.vm.test_vf_attacks import HELD
from tests.vm.test_vf_attacks import INDEX
from tests.vm.test_vf_attacks import MAC
from tests.vm.test_vf_attacks import NEAR
from tests.vm.test_vf_attacks import NETDEV
from tests.vm.test_vf_attacks import VF
from tests.vm.test_vif_kinds import PEER
from tests.vm.test_vif_kinds import PortTestCase

POD = "pod-rt"
OTHER = "srt-other"
_DONE = "/root/plugged"
KINDS = ("vf", "macvlan:bridge", "ipvlan:l2")

_DOMAIN = f"""
import sys
from sriov_rt.exceptions import SriovRtError
from sriov_rt.guest.passthrough import PassedThrough
from sriov_rt.libvirt import vfs
act = getattr(vfs, sys.argv[1])
try:
    act(vfs.of_host(), (PassedThrough("{ADDRESS}", managed=True),), "rt")
except SriovRtError as error:
    raise SystemExit(str(error))
"""

#: Writes down who has the VF, as the managers do that are not in the machine.
_HOLD = f"""
import sys
from sriov_rt.nic.tenancy import Holder, Kind, State, Tenancies
kind, state = Kind(sys.argv[1]), sys.argv[2]
if state == "none":
    Tenancies().release("{ADDRESS}", kind)
else:
    holder = Holder(kind, "h1", "realtime/rt", State(state), "dirty")
    Tenancies().assign("{ADDRESS}", holder)
"""

#: What is on the VF, how that is made and how it goes.
_ON_IT = {
    "a macvlan of the host": (
        f"ip link add mv0 link {NETDEV} type macvlan mode bridge",
        "ip link del mv0",
    ),
    "a macvlan of a container": (
        f"ip netns add {OTHER}; ip link add mv0 link {NETDEV} netns {OTHER} "
        "type macvlan mode bridge",
        f"ip netns del {OTHER}",
    ),
    "an ipvlan of a container": (
        f"ip netns add {OTHER}; ip link add iv0 link {NETDEV} netns {OTHER} "
        "type ipvlan mode l2",
        f"ip netns del {OTHER}",
    ),
    "a bridge": (
        f"ip link add br0 type bridge; ip link set {NETDEV} master br0",
        "ip link del br0",
    ),
    "an address": (
        f"ip address add 198.51.100.1/24 dev {NETDEV}",
        f"ip address flush dev {NETDEV}",
    ),
}


class MixTestCase(test_vf_attacks.AttackerTestCase, PortTestCase):
    """One VF, and several who want it."""

    @classmethod
    def setUpClass(cls) -> None:
        """Have filters for MACs, and the programs of other managers."""
        super().setUpClass()
        network.remake_vfs(cls.vm)
        cls.vm.push(_DOMAIN.encode(), "/root/domain.py")
        cls.vm.push(_HOLD.encode(), "/root/hold.py")
        cls.vm.push(test_vf_attacks.XDP.encode(), "/root/xdp.py")
        cls.vm.push(test_vf_attacks.HIDE.encode(), "/root/hide.py")

    def setUp(self) -> None:
        """Have the VF, and a pod that may get it."""
        super().setUp()
        self.addCleanup(self._restore)
        self.sh(f"rm -f /run/sriov-rt/vfs/*; ip netns add {POD}")

    def _restore(self) -> None:
        # Whole VFs first: they are not here otherwise.
        self._unplug_all()
        self.sh(
            f"ip netns del {POD}; ip netns del {OTHER}; sleep 1; "
            f"rm -f /run/sriov-rt/vfs/*",
            check=False,
        )
        self.command("vf", "reset", VF)
        now = f"$(ls /sys/bus/pci/devices/{ADDRESS}/net)"
        self.sh(
            f"now={now}; ip link set $now down; "
            f'[ "$now" = {NETDEV} ] || ip link set $now name {NETDEV}'
        )
        self.sh("rm -f /run/sriov-rt/vfs/*")

    def python(self, *words: str, check: bool = True) -> Any:
        """Run a program with the product's interpreter."""
        python = base.product().program("python")
        command = (python, "-I", *words)
        return self.vm.run(command, timeout=base.PATIENCE, check=check)

    def cni(self, verb: str, container: str = "c1", **more: Any) -> Any:
        """Return what the CNI plug-in answers to a runtime."""
        return test_pod_vf.call(
            self.vm, ADDRESS, verb, container, None, **more
        )

    def parent(self, kind: str, *more: str) -> tuple[str, ...]:
        """Return the words of a port on the VF."""
        mac = () if kind.startswith("ipvlan") else ("--mac", MAC)
        return self.words(kind, "--parent", NETDEV, *mac, *more)

    def nobody_else(self, clause: str, *, but: str = "") -> None:
        """Assert that whoever else wants the VF is refused, and told why."""
        shown = self.sh(f"cat /sys/bus/pci/devices/{ADDRESS}/uevent").text
        before = shown, network.vf_settings(self.vm, INDEX)
        for kind in KINDS:
            if but != kind:
                with self.subTest(second=f"port {kind}"):
                    said = self.refused("vif", "plug", *self.parent(kind))
                    self.assertIn(clause, said)
        if but != "pod":
            with self.subTest(second="pod"):
                status, answer = self.cni("ADD", "c9")
                self.assertEqual((1, 101), (status, answer["code"]), answer)
                self.assertIn(clause, answer["msg"])
        if but != "domain":
            with self.subTest(second="domain"):
                done = self.python("/root/domain.py", "prepare", check=False)
                self.assertNotEqual(0, done.status)
                self.assertIn(clause, done.complaint)
        shown = self.sh(f"cat /sys/bus/pci/devices/{ADDRESS}/uevent").text
        after = shown, network.vf_settings(self.vm, INDEX)
        self.assertEqual(before, after)


@periodic
class HolderTest(MixTestCase):
    """Who holds a VF keeps everybody else from it."""

    def test_a_port(self) -> None:
        """Of each kind; its frames go on to arrive."""
        for kind in KINDS:
            with self.subTest(first=kind):
                plugged = self.plug(*self.parent(kind))
                mac = plugged["mac"]
                whole = kind == "vf"
                if whole:
                    self.nobody_else("port")
                else:
                    # What is on a parent shares it with its like.
                    self._others_of(kind)
                if kind.startswith("ipvlan"):
                    # It takes what is for its address, of no other protocol.
                    self.assert_answers(PEER)
                else:
                    self.assertEqual(8, self.frames(mac, f"{NEAR}/p0"))
                self.unplug(plugged["port"])
                self.make_room()

    def _others_of(self, kind: str) -> None:
        status, answer = self.cni("ADD", "c9")
        self.assertEqual((1, 101), (status, answer["code"]), answer)
        self.assertIn("port", answer["msg"])
        done = self.python("/root/domain.py", "prepare", check=False)
        self.assertIn("port", done.complaint)
        for other in KINDS:
            if other != kind:
                self.refused("vif", "plug", *self.parent(other))

    def test_a_pod(self) -> None:
        """Before its interface is moved and after; recover leaves it."""
        self.assertEqual(0, self.cni("ADD")[0])
        self.sh(f"ip link set {network.PF} vf {INDEX} vlan 100")
        self.done("vif", "recover")
        found = network.vf_settings(self.vm, INDEX)
        self.assertEqual([{"vlan": 100}], found["vlan_list"])
        self.sh(f"ip link set {network.PF} vf {INDEX} vlan 0")
        self.nobody_else("pod trading/web", but="pod")
        (listed,) = (
            each
            for each in self.done("vf", "list", network.PF)
            if each["vf"]["address"] == ADDRESS
        )
        self.assertEqual("in use", listed["holders"][0]["state"])
        self.sh(
            f"ip link set {NETDEV} netns {POD}; "
            f"ip -n {POD} link set {NETDEV} up"
        )
        mac = network.link(self.vm, NETDEV, POD) or {}
        self.assertEqual(8, self.frames(mac["address"], f"{POD}/{NETDEV}"))
        for kind in KINDS:
            self.refused("vif", "plug", *self.parent(kind))
        self.sh(f"ip netns del {POD}; sleep 1")
        self.assertEqual((0, None), self.cni("DEL"))
        self.plug(*self.parent("vf"))

    def test_a_domain(self) -> None:
        """From prepare to release."""
        self.python("/root/domain.py", "prepare")
        self.nobody_else("libvirt domain rt", but="domain")
        self.python("/root/domain.py", "release")
        self.plug(*self.parent("vf"))

    def test_a_vmi_and_a_port_of_neutrons_agent(self) -> None:
        """In each state; a domain is beside the port of its instance."""
        for kind, but in (("VMI", ""), ("Neutron port", "domain")):
            for state in ("preparing", "in use", "quarantined"):
                with self.subTest(first=kind, state=state):
                    self.python("/root/hold.py", kind, state)
                    self.nobody_else(f"{kind} realtime/rt", but=but)
            self.python("/root/hold.py", kind, "none")
        self.plug(*self.parent("vf"))

    def test_what_the_host_or_a_container_has_on_it(self) -> None:
        """Though nothing is to be set."""
        for what, (make, end) in _ON_IT.items():
            with self.subTest(first=what):
                self.sh(make)
                status, answer = self.cni("ADD")
                self.assertEqual((1, 101), (status, answer["code"]), answer)
                done = self.python("/root/domain.py", "prepare", check=False)
                self.assertNotEqual(0, done.status)
                self.refused("vif", "plug", *self.parent("vf"))
                self.sh(end)
        self.assertEqual(0, self.cni("ADD")[0])
        self.assertEqual((0, None), self.cni("DEL"))

    def test_both_at_once(self) -> None:
        """A pod and a port: one of them has it, six times."""
        for _ in range(6):
            words = self.parent("vf")
            program = base.product().program("sriov-rt")
            self.sh(
                f"rm -f {_DONE}; ({program} vif plug {' '.join(words)}; "
                f"touch {_DONE}) < /dev/null > /dev/null 2>&1 &"
            )
            status, answer = self.cni("ADD")
            self.sh(f"until [ -e {_DONE} ]; do sleep 0.2; done")
            plugged = network.link(self.vm, "p0", NEAR) is not None
            with self.subTest(pod=answer, port=plugged):
                self.assertNotEqual(status == 0, plugged)
            self.command("vif", "unplug", words[1])
            self.assertEqual((0, None), self.cni("DEL"))


@periodic
class LeftTest(MixTestCase):
    """What one leaves does not reach the next."""

    def test_what_a_pod_hid(self) -> None:
        """Its VF is quarantined, shown, and ends by a look that sees it go."""
        self.addCleanup(self.sh, f"rm -f {HELD}*", check=False)
        self.assertEqual(0, self.cni("ADD")[0])
        self.sh(
            "python3 -I /root/hide.py < /dev/null > /dev/null 2>&1 & "
            f"echo $! > {HELD}.pid; until [ -e {HELD} ]; do sleep 0.1; done; "
            f"ip link set {NETDEV} netns {POD}; ip -n {POD} link add mv0 link "
            f"{NETDEV} type macvlan mode bridge; ip -n {POD} link set mv0 "
            f"netns $(readlink {HELD}); ip netns del {POD}; sleep 1"
        )
        self.assertEqual((0, None), self.cni("DEL"))
        for kind in KINDS:
            said = self.refused("vif", "plug", *self.parent(kind))
            self.assertIn("quarantined for pod trading/web", said)
            self.assertIn(f"'sriov-rt vf reset {ADDRESS}'", said)
        shown = self.done("vf", "show", VF)
        self.assertEqual("quarantined", shown["holders"][0]["state"])
        self.assertIn("in use", self.refused("vf", "reset", VF))
        self.assertNotIn("UP", (network.link(self.vm, NETDEV) or {})["flags"])
        self.sh(f"kill $(cat {HELD}.pid); sleep 1")
        self.done("vf", "reset", VF)
        self.plug(*self.parent("vf"))

    def test_what_was_hidden_keeps_every_first_port_off(self) -> None:
        """Of a pooled parent, whether it is to be set or not."""
        self.addCleanup(self.sh, f"rm -f {HELD}*", check=False)
        self.sh(
            "python3 -I /root/hide.py < /dev/null > /dev/null 2>&1 & "
            f"echo $! > {HELD}.pid; until [ -e {HELD} ]; do sleep 0.1; done; "
            f"ip link add mv0 link {NETDEV} type macvlan mode bridge; "
            f"ip link set mv0 netns $(readlink {HELD})"
        )
        for kind in KINDS:
            said = self.refused("vif", "plug", *self.parent(kind))
            self.assertRegex(said, "mv0|cannot be seen")
        self.sh(f"kill $(cat {HELD}.pid); sleep 1")

    def test_the_first_use_is_clean(self) -> None:
        """Of an XDP program and a name that nobody wrote down."""
        for kind in ("pod", *KINDS):
            with self.subTest(first=kind):
                self.sh("rm -f /run/sriov-rt/vfs/*")
                self.python("/root/xdp.py", NETDEV)
                self.sh(f"ip link property add dev {NETDEV} altname left0")
                if kind == "pod":
                    self.assertEqual(0, self.cni("ADD")[0])
                    now = f"$(ls /sys/bus/pci/devices/{ADDRESS}/net)"
                    shown = self.sh(f"ip -d link show {now}").text
                    self.assertEqual((0, None), self.cni("DEL"))
                else:
                    port = self.plug(*self.parent(kind))["port"]
                    where = f"-n {NEAR} link show p0"
                    if kind != "vf":
                        where = f"link show {NETDEV}"
                    shown = self.sh(f"ip -d {where}").text
                    self.unplug(port)
                self.assertNotIn("xdp", shown)
                self.assertNotIn("left0", shown)
        self.make_room()

    def test_a_vlan_that_was_changed_keeps_the_next_off(self) -> None:
        """One of either VLAN; the port is told as drifted."""
        port = self.plug(*self.parent("macvlan:bridge", "--vlan", "100"))
        self.sh(f"ip link set {network.PF} vf {INDEX} vlan 200")
        for vlan in ("100", "200"):
            words = self.parent(
                "macvlan:bridge", "--vlan", vlan, "--name", "p1"
            )
            said = self.refused("vif", "plug", *words)
            self.assertIn("its vlan is 200 and not 100", said)
        (shown,) = self.done("vif", "show")
        self.assertEqual("drifted", shown["state"])
        self.assertTrue(self.unplug(port["port"]))
        self.make_room()

    def test_a_vf_that_was_made_again_stays_where_it_is(self) -> None:
        """In another container, with what is sent to it."""
        port = self.plug(*self.parent("vf"))
        network.remake_vfs(self.vm)
        time.sleep(2)
        self.sh(
            f"ip netns add {OTHER}; ip link set {NETDEV} netns {OTHER}; "
            f"ip -n {OTHER} link set {NETDEV} up"
        )
        found = network.link(self.vm, NETDEV, OTHER) or {}
        self.assertFalse(self.unplug(port["port"]))
        self.assertIsNotNone(network.link(self.vm, NETDEV, OTHER))
        self.assertEqual(8, self.frames(found["address"], f"{OTHER}/{NETDEV}"))
