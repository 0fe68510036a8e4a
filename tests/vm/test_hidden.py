# SPDX-License-Identifier: Apache-2.0

"""A tenant that hides its interface gets nobody else's VLAN."""

from collections.abc import Sequence
from typing import ClassVar

from tests.periodic import periodic
from tests.vm import network
from tests.vm.test_vif_kinds import FAR
from tests.vm.test_vif_kinds import FAR_100
from tests.vm.test_vif_kinds import FAR_200
from tests.vm.test_vif_kinds import NAMESPACE
from tests.vm.test_vif_kinds import PEER
from tests.vm.test_vif_kinds import PEER_100
from tests.vm.test_vif_kinds import PEER_200
from tests.vm.test_vif_kinds import PortTestCase

#: Moves an interface into a namespace without a name or a process, which is
#: held by a descriptor, or by nothing but a socket in the queue of another
#: (unix(7)), and says how to get there.
_HIDE = r"""
import ctypes, os, socket, subprocess, sys, time
libc, net = ctypes.CDLL(None, use_errno=True), 0x40000000
namespace, interface, by = sys.argv[1:]
queue = socket.socketpair()
tenant = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
assert libc.setns(tenant, net) == 0 and libc.unshare(net) == 0
hidden = os.open("/proc/self/ns/net", os.O_RDONLY)
kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
assert libc.setns(tenant, net) == 0
path = f"/proc/{os.getpid()}/fd/{hidden}"
subprocess.run(("ip", "link", "set", interface, "netns", path), check=True)
assert libc.setns(os.open("/proc/1/ns/net", os.O_RDONLY), net) == 0
os.close(tenant)
if by == "flight":
    os.close(hidden)
    socket.send_fds(queue[0], [b"."], [kept.fileno()])
kept.close()
print(os.getpid(), path, flush=True)
time.sleep(600)
"""
_SCRIPT = "/root/hide.py"

#: Moves an interface to and fro between a namespace and new ones that nothing
#: but a socket holds, by RTM_SETLINK with IFLA_IFNAME and IFLA_NET_NS_FD.
_BOUNCE = r"""
import ctypes, os, socket, struct, sys, time
libc, net = ctypes.CDLL(None, use_errno=True), 0x40000000
seen = os.open(f"/run/netns/{sys.argv[1]}", os.O_RDONLY)
def attribute(kind, value):
    head = struct.pack("=HH", 4 + len(value), kind)
    return head + value + bytes(-len(value) % 4)
def opened():
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
def move(route, target):
    body = bytes(16) + attribute(3, sys.argv[2].encode() + b"\0")
    body += attribute(28, struct.pack("=I", target))
    route.send(struct.pack("=IHHII", 16 + len(body), 19, 5, 1, 0) + body)
    assert struct.unpack_from("=i", route.recv(8192), 16)[0] == 0
assert libc.setns(seen, net) == 0
here = opened()
while True:
    time.sleep(0.06)
    assert libc.unshare(net) == 0
    hidden, there = os.open("/proc/self/ns/net", os.O_RDONLY), opened()
    assert libc.setns(seen, net) == 0
    move(here, hidden)
    os.close(hidden)
    time.sleep(0.03)
    move(there, seen)
    there.close()
"""
_BOUNCER = "/root/bounce.py"

#: How often it is unplugged while it is moved.
ROUNDS = 5


# tests/functional hides macvlans on any NIC.
@periodic
class HiddenTest(PortTestCase):
    """Whole VFs and macvlans, out of everybody's sight."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {
        FAR: (0, f"{PEER}/24", 0),
        FAR_100: (1, f"{PEER_100}/24", 100),
        FAR_200: (2, f"{PEER_200}/24", 200),
    }

    def hide(self, by: str) -> tuple[str, str]:
        """Hide p0; return the process that holds it, and where.

        :param by: ``descriptor`` or ``flight``.
        """
        self.vm.push(_HIDE.encode(), _SCRIPT)
        told = self.sh(
            f"rm -f /root/hidden; nohup python3 -I {_SCRIPT} {NAMESPACE} p0 "
            f"{by} >/root/hidden 2>&1 & for i in $(seq 100); do "
            "grep . /root/hidden && break; sleep 0.2; done"
        ).text
        pid, path = told.split()
        self.addCleanup(self.sh, f"kill {pid}", check=False)
        return pid, path

    def test_a_macvlan_that_a_descriptor_holds_is_removed(self) -> None:
        """It is not there for the next port's VLAN."""
        parent = ("--parent", f"{network.PF}v1")
        words = self.words("macvlan:bridge", *parent, "--vlan", "100")
        plugged = self.plug(*words)
        _, path = self.hide("descriptor")
        self.assertTrue(self.unplug(plugged["port"]))
        left = self.sh(f"nsenter --net={path} ip -br link").text
        self.assertNotIn("p0", left)
        self.plug(*self.words("macvlan:bridge", *parent, "--vlan", "200"))

    def test_a_macvlan_that_is_not_found_keeps_its_vlan(self) -> None:
        """Its parent is given to nobody until its namespace has ended."""
        parent = ("--parent", f"{network.PF}v1")
        words = self.words("macvlan:bridge", *parent, "--vlan", "100")
        plugged = self.plug(*words)
        pid, _ = self.hide("flight")
        # With the tenant's namespace goes the only way there.
        self.sh(f"ip netns del {NAMESPACE}; ip netns add {NAMESPACE}")
        sentence = self.refused("vif", "unplug", plugged["port"])
        self.assertIn("quarantined", sentence)
        self.assertEqual(
            [{"vlan": 100}], network.vf_settings(self.vm, 1)["vlan_list"]
        )
        for kind in ("macvlan:bridge", "vf"):
            other = self.words(kind, *parent, "--vlan", "200")
            self.assertIn("quarantined", self.refused("vif", "plug", *other))
        (shown,) = self.done("vif", "show")
        self.assertEqual("quarantined", shown["state"])
        self.sh(f"kill {pid}; sleep 2")
        released = self.done("vif", "recover")["released"]
        self.assertEqual([plugged["port"]], released)
        self.plug(*self.words("macvlan:bridge", *parent, "--vlan", "200"))

    def test_a_vf_whose_function_is_not_reset_serves_nobody(self) -> None:
        """Until that can be done; the file of sysfs is another one here."""
        self.make_room()
        parent = ("--parent", f"{network.PF}v1")
        plugged = self.plug(*self.words("vf", *parent))
        file = f"/sys/bus/pci/devices/{plugged['vf']}/reset"
        self.sh(f"mount --bind /dev/full {file}")
        self.addCleanup(self.sh, f"umount {file}", check=False)
        sentence = self.refused("vif", "unplug", plugged["port"])
        self.assertIn("its function was not reset", sentence)
        (shown,) = self.done("vif", "show")
        self.assertEqual("quarantined", shown["state"])
        other = self.words("vf", *parent)
        self.assertIn("quarantined", self.refused("vif", "plug", *other))
        self.sh(f"umount {file}")
        released = self.done("vif", "recover")["released"]
        self.assertEqual([plugged["port"]], released)
        self.plug(*self.words("vf", *parent))

    def test_a_whole_vf_that_is_not_found_is_not_reset(self) -> None:
        """It is home and clean when its namespace has ended."""
        # Others may have made macvlans on it.
        self.make_room()
        words = self.words(
            "vf", "--parent", f"{network.PF}v1", "--vlan", "100"
        )
        plugged = self.plug(*words)
        pid, _ = self.hide("flight")
        self.sh(f"ip netns del {NAMESPACE}; ip netns add {NAMESPACE}")
        sentence = self.refused("vif", "unplug", plugged["port"])
        self.assertIn("quarantined", sentence)
        self.assertEqual(
            [{"vlan": 100}], network.vf_settings(self.vm, 1)["vlan_list"]
        )
        mapped = self.done("vf", "map", network.PF)
        (owner,) = [x["instance"] for x in mapped if x["vf"]["index"] == 1]
        self.assertIn("quarantined", owner)
        self.sh(f"kill {pid}; sleep 2")
        released = self.done("vif", "recover")["released"]
        self.assertEqual([plugged["port"]], released)
        found = network.link(self.vm, f"{network.PF}v1") or {}
        self.assertEqual("", found.get("ifalias", ""))
        self.assertEqual(0, network.vf_settings(self.vm, 1).get("vlan", 0))

    def _beside(self, kind: str) -> None:
        """Hide a port beside another tenant's, and see who keeps the VF."""
        parent = ("--parent", f"{network.PF}v1", "--vlan", "100")
        second = "srt-second"
        self.sh(f"ip netns add {second}")
        self.addCleanup(self.sh, f"ip netns del {second}", check=False)
        guilty = self.plug(*self.words(kind, *parent))
        innocent = self.plug(
            *self.words(
                kind, *parent, address="192.0.2.9/24", namespace=second
            )
        )
        self.assert_answers(PEER_100, namespace=second)
        pid, _ = self.hide("flight")
        self.sh(f"ip netns del {NAMESPACE}; ip netns add {NAMESPACE}")
        sentence = self.refused("vif", "unplug", guilty["port"])
        self.assertIn("quarantined", sentence)
        self.assert_answers(PEER_100, namespace=second)
        # The next tenant's port is on another VF, and none on this one.
        again = self.words(kind, *parent)
        self.assertIn("quarantined", self.refused("vif", "plug", *again))
        self.assertTrue(self.unplug(innocent["port"]))
        (shown,) = self.done("vif", "show")
        self.assertEqual(guilty["port"], shown["port"])
        # Nobody else is on it: who holds it has no way to the wire.
        link = network.link(self.vm, f"{network.PF}v1") or {}
        self.assertNotIn("UP", link["flags"])
        self.sh(f"kill {pid}; sleep 2")
        released = self.done("vif", "recover")["released"]
        self.assertEqual([guilty["port"]], released)
        # The PF keeps the macvlans' filters until its VFs are made again.
        self.make_room()
        self.plug(*again)
        self.assert_answers(PEER_100)

    def test_a_macvlan_beside_anothers_is_the_one_that_is_kept(self) -> None:
        """Its sibling goes on, and goes."""
        self.make_room()
        self._beside("macvlan:bridge")

    def test_an_ipvlan_beside_anothers_is_the_one_that_is_kept(self) -> None:
        """Its sibling goes on, and goes."""
        self._beside("ipvlan:l2")

    def test_an_ipvlan_that_moves_to_and_fro_keeps_the_vf(self) -> None:
        """No look in between takes it for gone, nor lifts its quarantine.

        Macvlans would soon leave no room for a MAC in the PF.
        """
        parent = ("--parent", f"{network.PF}v1", "--vlan", "100")
        second, way = "srt-second", "srt-way"
        self.vm.push(_BOUNCE.encode(), _BOUNCER)
        for name in (second, way):
            self.sh(f"ip netns add {name}")
            self.addCleanup(self.sh, f"ip netns del {name}", check=False)
        self.plug(
            *self.words(
                "ipvlan:l2",
                *parent,
                address="192.0.2.9/24",
                namespace=second,
            )
        )
        for number in range(ROUNDS):
            with self.subTest(number=number):
                guilty = self.plug(*self.words("ipvlan:l2", *parent))
                self._bounced(guilty["port"], way, parent)
                released = self.done("vif", "recover")["released"]
                self.assertEqual([guilty["port"]], released)

    def _bounced(self, port: str, way: str, parent: Sequence[str]) -> None:
        """Unplug a port whose tenant moves another interface to and fro.

        :param way: the namespace where that can be seen.
        :param parent: what both are on, and its VLAN, as words.
        """
        inside = f"ip -n {NAMESPACE} link"
        pid = self.sh(
            f"{inside} add more link p0 type ipvlan mode l2; {inside} "
            f"set more netns {way}; nohup python3 -I {_BOUNCER} {way} more "
            ">/root/bounced 2>&1 & echo $!; sleep 0.3"
        ).text.strip()
        try:
            self.unplug(port)
            for _ in range(2):
                shown = {x["port"]: x for x in self.done("vif", "show")}
                self.assertIn(port, shown)
                self.assertEqual("quarantined", shown[port]["state"])
                self.done("vif", "recover")
            other = self.words("ipvlan:l2", *parent)
            self.assertIn("quarantined", self.refused("vif", "plug", *other))
        finally:
            self.sh(
                f"kill {pid}; sleep 1; ip -n {way} link del more; sleep 1",
                check=False,
            )
            self.assertEqual("", self.sh("cat /root/bounced").text)

    def test_a_sibling_goes_where_nothing_is_hidden(self) -> None:
        """The kernel counts as many interfaces as are seen."""
        parent = ("--parent", f"{network.PF}v1", "--vlan", "100")
        second = "srt-second"
        self.sh(f"ip netns add {second}")
        self.addCleanup(self.sh, f"ip netns del {second}", check=False)
        for kind in ("macvlan:bridge", "ipvlan:l2"):
            first = self.plug(*self.words(kind, *parent))
            other = self.plug(
                *self.words(
                    kind, *parent, address="192.0.2.9/24", namespace=second
                )
            )
            self.assertTrue(self.unplug(first["port"]))
            (shown,) = self.done("vif", "show")
            self.assertEqual(other["port"], shown["port"])
            self.assertTrue(self.unplug(other["port"]))
