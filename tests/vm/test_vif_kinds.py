# SPDX-License-Identifier: Apache-2.0

"""sriov-rt vif: every kind and mode on emulated VFs, with traffic."""

import json
import uuid
from typing import Any
from typing import ClassVar

from tests.periodic import periodic
from tests.vm import base
from tests.vm import network

NAMESPACE = "srt-near"
FAR, FAR_100, FAR_200 = "srt-far", "srt-far100", "srt-far200"
ADDRESS = "192.0.2.1/24"
PEER, PEER_100, PEER_200 = "192.0.2.2", "192.0.2.3", "192.0.2.4"
MAC = "52:54:00:aa:00:07"

CONFIG = "/etc/sriov_rt/sriov-rt.conf"
UNTRUSTED = "/root/untrusted.conf"
_CONFIG = f"[vif]\nparents = physnet1:pf:{network.PF}\n"

#: Seconds in which what is to get no answer gets none.
SILENCE = 3

#: Asks for an address through a macvtap, as a guest would (RFC 826), behind
#: the header that a tap has (struct virtio_net_hdr), and waits for the reply.
_ARP = r"""
import os, select, sys, time
tap, mac = os.open(sys.argv[1], os.O_RDWR), bytes.fromhex(sys.argv[2])
ask = b"\xff" * 6 + mac + bytes.fromhex("08060001080006040001") + mac
ask += bytes((192, 0, 2, 1)) + bytes(6) + bytes((192, 0, 2, 2))
end = time.monotonic() + 30
while time.monotonic() < end:
    os.write(tap, bytes(10) + ask.ljust(60, b"\0"))
    while select.select([tap], [], [], 0.5)[0]:
        got = os.read(tap, 4096)[10:]
        if got[12:14] == b"\x08\x06" and got[20:22] == b"\0\2":
            print(got[28:32] == bytes((192, 0, 2, 2)))
            raise SystemExit
"""


class PortTestCase(network.WireTestCase):
    """A test that plugs ports into a namespace of its own."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {
        FAR: (0, f"{PEER}/24", 0),
    }

    @classmethod
    def setUpClass(cls) -> None:
        """Configure the pool."""
        super().setUpClass()
        cls.vm.push(_CONFIG.encode(), CONFIG)
        cls.addClassCleanup(cls.vm.run, ("rm", CONFIG))

    def setUp(self) -> None:
        """Have the namespace."""
        super().setUp()
        self._plugged: set[str] = set()
        self.addCleanup(self.sh, f"ip netns del {NAMESPACE}", check=False)
        self.addCleanup(self._unplug_all)
        self.sh(f"ip netns add {NAMESPACE}")

    def make_room(self) -> None:
        """Have all the VFs' filters for MACs free.

        For macvlans that are to be heard; nothing may be on the VFs.
        """
        network.remake_vfs(self.vm)

    def words(
        self,
        kind: str,
        *more: str,
        address: str = ADDRESS,
        namespace: str = NAMESPACE,
    ) -> tuple[str, ...]:
        """Return the arguments that describe a new port.

        :param kind: with its mode, such as ``macvlan:bridge``.
        :param more: further arguments; the last of a kind counts.
        :param address: with its prefix length; empty for none.
        :param namespace: empty for the machine's own.
        """
        name, _, mode = kind.partition(":")
        return (
            *("--port", str(uuid.uuid4()), "--owner", "vm-test"),
            *("--kind", name, *(("--mode", mode) if mode else ())),
            *("--network", "physnet1", "--name", "p0"),
            *(("--namespace", namespace) if namespace else ()),
            *(("--address", address) if address else ()),
            *more,
        )

    def plug(self, *words: str) -> dict[str, Any]:
        """Return a port, plugged until the end of the test.

        :param words: what words() returns.
        """
        self._plugged.add(words[words.index("--port") + 1])
        return dict(self.done("vif", "plug", *words))

    def unplug(self, port: str) -> bool:
        """Return whether there was something to unplug.

        :param port: its UUID.
        """
        unplugged = self.done("vif", "unplug", port)["unplugged"]
        self._plugged.discard(port)
        return bool(unplugged)

    def _unplug_all(self) -> None:
        for port in self._plugged:
            self.command("vif", "unplug", port)

    def assert_answers(self, address: str, **where: str) -> None:
        """See that a neighbour answers.

        :param address: of it.
        """
        namespace = where.get("namespace", NAMESPACE)
        self.assertTrue(network.ping(self.vm, namespace, address), address)

    def assert_silent(self, *addresses: str) -> None:
        """See that others on the same wire do not.

        :param addresses: of these.
        """
        for address in addresses:
            heard = network.ping(self.vm, NAMESPACE, address, SILENCE)
            self.assertFalse(heard, address)


class KindsTest(PortTestCase):
    """Ports carry traffic, and leave nothing when they go."""

    def _check(self, kind: str, *more: str) -> None:
        """Plug, look, ping, plug again, unplug.

        Again only in the mode that is the kind's first.
        """
        name, _, mode = kind.partition(":")
        if name == "macvlan" and mode != "passthru":
            self.make_room()
        words = self.words(kind, *more)
        plugged = self.plug(*words)
        link = network.link(self.vm, "p0", NAMESPACE) or {}
        info = link.get("linkinfo", {})
        if mode:
            self.assertEqual(info["info_kind"], name)
            self.assertEqual(info["info_data"]["mode"], mode)
        self.assertEqual(link["address"], plugged["mac"])
        self.assertIn(plugged["port"], link["ifalias"])
        if mode in ("l3", "l3s"):
            # It answers no ARP: the network has to route to its host.
            self.sh(
                f"ip -n {FAR} neigh replace {ADDRESS.partition('/')[0]} "
                f"lladdr {plugged['mac']} nud permanent "
                f"dev {network.FAR}v0"
            )
        self.assert_answers(PEER)
        if mode in ("", "bridge", "l2"):
            self.assertEqual(self.done("vif", "plug", *words), plugged)
            self.assertIn(plugged, self.done("vif", "show"))
        self.assertTrue(self.unplug(plugged["port"]))
        self.assertIsNone(network.link(self.vm, "p0", NAMESPACE))
        if mode in ("l3", "l3s"):
            self.sh(f"ip -n {FAR} neigh flush all nud permanent")

    # One in a VLAN is in the gate.
    @periodic
    def test_macvlan_in_bridge_mode(self) -> None:
        """It reaches a neighbour."""
        self._check("macvlan:bridge")

    @periodic
    def test_macvlan_in_private_mode(self) -> None:
        """It reaches a neighbour."""
        self._check("macvlan:private")

    @periodic
    def test_macvlan_in_vepa_mode(self) -> None:
        """It reaches a neighbour."""
        self._check("macvlan:vepa")

    @periodic
    def test_macvlan_in_passthru_mode(self) -> None:
        """It reaches a neighbour."""
        self._check("macvlan:passthru")

    def test_ipvlan_in_l2_mode(self) -> None:
        """It reaches a neighbour."""
        self._check("ipvlan:l2")

    @periodic
    def test_ipvlan_in_l3s_mode(self) -> None:
        """It reaches a neighbour."""
        self._check("ipvlan:l3s")

    @periodic
    def test_ipvlan_in_l3_mode(self) -> None:
        """It reaches a neighbour."""
        self._check("ipvlan:l3")

    def test_whole_vf(self) -> None:
        """It has the MAC asked for, and is home and clean afterwards."""
        self._check("vf", "--mac", MAC)
        for vf in self.done("vf", "list", network.PF):
            self.assertEqual(vf["netdev"], f"{network.PF}v{vf['vf']['index']}")
            self.assertNotEqual(vf["interface_mac"], MAC)
            self.assertEqual(vf["alias"], "")

    # tests/cloud has a guest that does.
    @periodic
    def test_macvtap_talks_by_its_tap(self) -> None:
        """What QEMU opens gets an answer of the neighbour."""
        self.make_room()
        words = self.words("macvtap:bridge", address="", namespace="")
        plugged = self.plug(*words)
        answer = self.vm.run(
            (
                *("python3", "-I", "-c", _ARP, plugged["tap"]),
                plugged["mac"].replace(":", ""),
            ),
            timeout=base.PATIENCE,
        )
        self.assertEqual(answer.text, "True\n")

    @periodic
    def test_unplug_of_what_is_gone_succeeds(self) -> None:
        """Never plugged, or gone with its namespace."""
        self.assertFalse(self.unplug(str(uuid.uuid4())))
        plugged = self.plug(*self.words("macvlan:bridge"))
        self.sh(f"ip netns del {NAMESPACE}")
        self.assertFalse(self.unplug(plugged["port"]))

    @periodic
    def test_dry_run_changes_nothing(self) -> None:
        """The plan is printed, a line a step."""
        before = network.look(self.vm)
        lines = self.done("vif", "plug", "--dry-run", *self.words("vf"))
        self.assertTrue(any("move" in line for line in lines), lines)
        self.assertEqual(network.look(self.vm), before)

    # tests/functional/vif measures them on this machine's kernel.
    @periodic
    def test_rates_are_kept(self) -> None:
        """tc has them, iperf3 measures no more, and they go."""
        self.make_room()
        self.plug(
            *self.words("macvlan:bridge"),
            *("--out-kbps", "4000", "--in-kbps", "8000"),
        )
        shown = self.sh(f"tc -n {NAMESPACE} -j qdisc show dev p0").text
        kinds = {each["kind"] for each in json.loads(shown)}
        self.assertLessEqual({"htb", "ingress"}, kinds)
        # tc of iproute2 6.1 has no JSON of classes.
        classes = self.sh(f"tc -n {NAMESPACE} class show dev p0").text
        self.assertIn(" rate 4Mbit ", classes)
        self.assert_answers(PEER)
        measured = self.sh(
            f"ip netns exec {FAR} iperf3 -s -1 -D\n sleep 1\n"
            f"ip netns exec {NAMESPACE} iperf3 -c {PEER} -t 3 -J"
        )
        sent = json.loads(measured.text)["end"]["sum_received"]
        self.assertLess(sent["bits_per_second"], 5_000_000)
        self.assertGreater(sent["bits_per_second"], 500_000)


# tests/unit/vif has each of them, as the plan judges it.
@periodic
class RulesTest(PortTestCase):
    """The rules of the hardware are kept before it breaks them silently."""

    def test_macs_are_counted_before_the_nic_drops(self) -> None:
        """An igbvf has filters for three, and a fourth is refused.

        Whether the third hears anything is for igb to say, which frees no
        filter (network._REMAKE) and may have used up the last by then: the
        first alone is held to it.
        """
        self.make_room()
        parent = ("--parent", f"{network.PF}v1")
        # Three interfaces on one wire: each answers for itself only.
        self.sh(
            f"ip netns exec {NAMESPACE} "
            "sysctl -qw net.ipv4.conf.all.arp_ignore=1"
        )
        for number in range(3):
            words = self.words(
                "macvlan:bridge",
                *parent,
                *("--name", f"p{number}"),
                address=f"192.0.2.{10 + number}/24",
            )
            self.plug(*words)
            if number == 0:
                self.sh(
                    f"ip netns exec {NAMESPACE} "
                    f"ping -I p0 -c 2 -w {network.ANSWER} {PEER}"
                )
        sentence = self.refused(
            *("vif", "plug", *self.words("macvlan:bridge", *parent)),
            *("--name", "p3"),
        )
        self.assertIn("3 of them", sentence)

    def test_macvlan_and_ipvlan_share_no_parent(self) -> None:
        """Whichever comes second is refused, not given EBUSY."""
        parent = ("--parent", f"{network.PF}v1")
        for first, second in (("macvlan", "ipvlan"), ("ipvlan", "macvlan")):
            with self.subTest(first=first):
                plugged = self.plug(*self.words(first, *parent))
                sentence = self.refused(
                    *("vif", "plug", *self.words(second, *parent)),
                    *("--name", "p1"),
                )
                self.assertIn("exclude each other", sentence)
                self.unplug(plugged["port"])

    def test_macvlan_on_a_vf_with_a_mac_needs_trust(self) -> None:
        """Without it the NIC would drop everything: refused or trusted."""
        self.make_room()
        vf = f"{network.PF}/1"
        self.addCleanup(self.command, "vf", "reset", vf)
        parent = ("--parent", f"{network.PF}v1")
        self.vm.push(f"{_CONFIG}allow_trust = false\n".encode(), UNTRUSTED)
        self.done("vf", "set", vf, f"mac={MAC}", "trust=off")
        words = self.words("macvlan:bridge", *parent)
        sentence = self.refused(
            "vif", "plug", "--config-file", UNTRUSTED, *words
        )
        self.assertIn("trust", sentence)
        plugged = self.plug(*words)
        self.assertTrue(network.vf_settings(self.vm, 1)["trust"])
        self.assert_answers(PEER)
        self.unplug(plugged["port"])
        self.assertFalse(network.vf_settings(self.vm, 1)["trust"])


class VlanTest(PortTestCase):
    """A VLAN reaches its own neighbours and no others."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {
        FAR: (0, f"{PEER}/24", 0),
        FAR_100: (1, f"{PEER_100}/24", 100),
        FAR_200: (2, f"{PEER_200}/24", 200),
    }

    def test_ports_reach_their_own_vlan_alone(self) -> None:
        """A macvlan in VLAN 100 and a whole VF in VLAN 200."""
        self.make_room()
        for kind, vlan, own, others in (
            ("macvlan:bridge", "100", PEER_100, (PEER, PEER_200)),
            ("vf", "200", PEER_200, (PEER, PEER_100)),
        ):
            with self.subTest(kind):
                plugged = self.plug(*self.words(kind, "--vlan", vlan))
                self.assert_answers(own)
                self.assert_silent(*others)
                self.unplug(plugged["port"])
        for index in range(4):
            settings = network.vf_settings(self.vm, index)
            self.assertEqual(settings["vlan_list"], [{}])
