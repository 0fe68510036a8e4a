# SPDX-License-Identifier: Apache-2.0

"""VFs in the hands of who means no good, by what the kernel does then."""

import json
import pathlib
from typing import Any
from typing import ClassVar

from tests.periodic import periodic
from tests.vm import base
from tests.vm import network
from tests.vm import test_vif_kinds

#: The VF under test in what nic does alone.
INDEX = 1
VF = f"{network.PF}/{INDEX}"
NETDEV = f"{network.PF}v{INDEX}"
ADDRESS = "0000:01:10.2"
DEVICE = f"/sys/bus/pci/devices/{ADDRESS}"
#: That its PF keeps filters of it.
MARK = f"/run/sriov-rt/vfs/{ADDRESS}"

MAC = "52:54:00:aa:00:11"
#: Whose frames an attacker wants.
VICTIM = "52:54:00:fe:ed:01"

FAR = "srt-far"
NEAR = "srt-near"
HELD = "/run/held"

_FRAMES = pathlib.Path(__file__).with_name("frames.py")

#: Keeps a namespace that has no name and no process: a descriptor is all that
#: holds it. With ip-link(8) it is HELD.
HIDE = f"""
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
own = os.open("/proc/self/ns/net", os.O_RDONLY)
assert libc.unshare(0x40000000) == 0
held = os.open("/proc/self/ns/net", os.O_RDONLY)
assert libc.setns(own, 0x40000000) == 0
os.symlink(f"/proc/{{os.getpid()}}/fd/{{held}}", "{HELD}")
time.sleep(600)
"""

#: Dies as SIGKILL would after the Nth write to sysfs, in a reset of the VF.
#: Prints which files it wrote.
_KILL = """
import os, sys
from sriov_rt.nic import sysfs
from sriov_rt.nic.tenancy import Reset
from sriov_rt.nic.vfs import Vfs
left, write = int(sys.argv[2]), sysfs.write
def counted(*arguments, **named):
    global left
    write(*arguments, **named)
    print(os.path.basename(arguments[1]), flush=True)
    left -= 1
    if not left:
        os._exit(77)
sysfs.write = counted
vfs = Vfs.of_host()
vfs.reset(vfs.locate(sys.argv[1]), depth=Reset(fresh=True))
"""

#: Puts a program on an interface that lets each frame pass: BPF_PROG_LOAD of
#: "mov r0, XDP_PASS; exit", and IFLA_XDP.
XDP = """
import ctypes, struct, sys
from pyroute2 import IPRoute
code = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0)
text, name = ctypes.create_string_buffer(code), ctypes.c_char_p(b"GPL")
pointer = lambda what: ctypes.cast(what, ctypes.c_void_p).value
attr = struct.pack("=IIQQ", 6, 2, pointer(text), pointer(name))
attr = attr.ljust(128, b"\\0")
libc = ctypes.CDLL(None, use_errno=True)
program = libc.syscall(321, 5, ctypes.create_string_buffer(attr), len(attr))
assert program >= 0, ctypes.get_errno()
with IPRoute() as route:
    (index,) = route.link_lookup(ifname=sys.argv[1])
    route.link("set", index=index, xdp_fd=program)
"""

#: What a VF that was handed out by hand may come back with.
_LEAVE = f"""
set -e
ip link set {NETDEV} mtu 1400 txqueuelen 77 group 9
ip link property add dev {NETDEV} altname tenants
ip link set {NETDEV} alias tenants
echo 3 > /sys/class/net/{NETDEV}/queues/rx-0/rps_cpus
"""


class AttackerTestCase(base.VmTestCase):
    """What root in a namespace tries."""

    def frames(self, mac: str, target: str) -> int:
        """Return how many of eight frames for a MAC an interface gets."""
        found = self.vm.run(
            (
                *("python3", "-I", str(_FRAMES), mac),
                *(f"{FAR}/{network.FAR}v0", target),
            ),
            timeout=base.PATIENCE,
        )
        return int(json.loads(found.text)[target])

    def attack(self, name: str) -> None:
        """Try all that root in a namespace can, and see what comes of it."""
        inside = f"ip -n {NEAR}"
        self.assertEqual(self.frames(MAC, f"{NEAR}/{name}"), 8)
        for way, script in (
            ("its MAC", f"{inside} link set {name} address {VICTIM}"),
            (
                "a macvlan",
                f"{inside} link add mv0 link {name} address {VICTIM} "
                f"type macvlan; {inside} link set mv0 up",
            ),
            ("promiscuous", f"{inside} link set {name} promisc on"),
        ):
            with self.subTest(way):
                self.sh(script, check=False)
                self.assertEqual(self.frames(VICTIM, f"{NEAR}/{name}"), 0)
        self.sh(f"{inside} link del mv0", check=False)


class VfAttackTestCase(AttackerTestCase, network.WireTestCase):
    """A test on a VF that is clean."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {
        FAR: (0, "192.0.2.2/24", 0),
    }

    def setUp(self) -> None:
        """Have the VF, and again afterwards, whatever happens."""
        super().setUp()
        # Macvlans of other tests may have been on it.
        self.sh(f"rm -f {MARK}")
        self.addCleanup(self._restore)

    def _restore(self) -> None:
        self.sh(f"rm -f {MARK}")
        self.command("vf", "reset", VF)
        self.sh(
            f"now=$(ls {DEVICE}/net); ip link set $now down; "
            f'[ "$now" = {NETDEV} ] || ip link set $now name {NETDEV}'
        )

    def kernel(self) -> dict[str, Any]:
        """Return what the PF says of the VF."""
        return network.vf_settings(self.vm, INDEX)

    def driver(self) -> str:
        """Return the VF's driver, empty for none."""
        found = self.sh(f'basename "$(readlink {DEVICE}/driver)"')
        return str(found.text).strip()


@periodic
class TenantTest(VfAttackTestCase):
    """A tenant gets what is sent to it, and nothing else."""

    def test_vf_whose_own_write_the_pf_shows_is_pinned(self) -> None:
        """A MAC that was set on the interface is set through the PF, too."""
        self.sh(
            f"ip link set {NETDEV} down; ip link set {NETDEV} address {MAC}"
        )
        self.assertEqual(self.kernel()["address"], MAC)
        self.done("vf", "set", VF, f"mac={MAC}")
        self.addCleanup(self.sh, f"ip netns del {NEAR}; sleep 1")
        self.sh(
            f"ip netns add {NEAR}; ip link set {NETDEV} netns {NEAR}; "
            f"ip -n {NEAR} link set {NETDEV} up"
        )
        self.attack(NETDEV)

    def test_pf_keeps_filters_of_a_trusted_vf_until_vfs_are_made(self) -> None:
        """No reset frees them, and none says that it did (igb 6.1)."""
        network.remake_vfs(self.vm)
        self.addCleanup(network.remake_vfs, self.vm)
        self.done("vf", "set", VF, f"mac={MAC}", "trust=on")
        self.sh(
            f"ip link set {NETDEV} up; "
            f"ip link add mv0 link {NETDEV} address {VICTIM} type macvlan; "
            "ip link set mv0 up"
        )
        self.assertEqual(self.frames(VICTIM, NETDEV), 8)
        self.sh(f"ip link del mv0; ip link set {NETDEV} down")
        for words in ((), ("--flr",)):
            sentence = self.refused("vf", "reset", VF, *words)
            self.assertIn("keeps MAC filters", sentence)
            self.assertFalse(self.kernel()["trust"])
            self.sh(f"test -e {MARK}")
        self.sh(f"ip link set {NETDEV} up")
        self.assertEqual(self.frames(VICTIM, NETDEV), 8)
        self.sh(f"ip link set {NETDEV} down")
        network.remake_vfs(self.vm)
        self.done("vf", "reset", VF)
        self.sh(f"ip link set {NETDEV} up")
        self.assertEqual(self.frames(VICTIM, NETDEV), 0)


class PluggedTest(AttackerTestCase, test_vif_kinds.PortTestCase):
    """A whole VF that was plugged."""

    def test_tenant_gets_nothing_of_its_neighbours(self) -> None:
        """Neither by its MAC nor by filters for theirs."""
        self.plug(*self.words("vf", "--mac", MAC))
        self.attack("p0")

    @periodic
    def test_names_and_aliases_of_a_tenant_stay_its_own(self) -> None:
        """They claim another port's VF; each VF comes back as itself."""
        mine, other = (
            self.plug(*self.words("vf", "--name", name))
            for name in ("p0", "p1")
        )
        homes = {
            each["port"]: f"{network.PF}v{vf['vf']['index']}"
            for each in (mine, other)
            for vf in self.done("vf", "list", network.PF)
            if vf["vf"]["address"] == each["vf"]
        }
        before = network.link(self.vm, "p1", NEAR)
        alias = f"sriov-rt:{other['port']}:vm-test:{homes[other['port']]}"
        self.sh(
            f"ip -n {NEAR} link set p0 alias {alias}; ip -n {NEAR} link "
            f"property add dev p0 altname {homes[other['port']]}"
        )
        self.assertTrue(self.unplug(mine["port"]))
        link = network.link(self.vm, homes[mine["port"]]) or {}
        self.assertEqual(
            ("", []), (link.get("ifalias", ""), link.get("altnames", []))
        )
        self.assertEqual(mine["vf"], link["parentdev"])
        self.assertEqual(before, network.link(self.vm, "p1", NEAR))
        self.assertTrue(self.unplug(other["port"]))
        link = network.link(self.vm, homes[other["port"]]) or {}
        self.assertEqual(other["vf"], link["parentdev"])

    @periodic
    def test_vf_that_carried_a_macvlan_is_not_handed_out_whole(self) -> None:
        """Its PF sends it the macvlan's frames until it is made again."""
        self.make_room()
        self.addCleanup(self.make_room)
        parent = ("--parent", NETDEV)
        plugged = self.plug(
            *self.words("macvlan:bridge", *parent, "--mac", VICTIM)
        )
        self.assertEqual(self.frames(VICTIM, f"{NEAR}/p0"), 8)
        self.unplug(plugged["port"])
        self.sh(f"ip link set {NETDEV} up")
        self.assertEqual(self.frames(VICTIM, NETDEV), 8)
        self.sh(f"ip link set {NETDEV} down")
        whole = self.words("vf", *parent, "--mac", MAC)
        sentence = self.refused("vif", "plug", *whole)
        self.assertIn("VFs are made again", sentence)
        other = self.plug(*self.words("vf", "--mac", MAC))
        self.assertNotEqual(other["vf"], ADDRESS)
        self.assertEqual(self.frames(VICTIM, f"{NEAR}/p0"), 0)
        self.unplug(other["port"])
        self.make_room()
        self.plug(*whole)
        self.assertEqual(self.frames(VICTIM, f"{NEAR}/p0"), 0)


@periodic
class UseTest(VfAttackTestCase):
    """A VF in use is left alone, also where nobody can look."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {}

    def test_macvlan_in_a_namespace_that_nothing_names(self) -> None:
        """It stays, and so do VLAN and driver."""
        self.addCleanup(self.sh, f"kill $(cat {HELD}.pid); rm {HELD}*")
        self.vm.push(HIDE.encode(), "/root/hide.py")
        config = f"[nic]\nvfs = {network.PF}:2\n"
        self.vm.push(config.encode(), "/root/two.conf")
        self.sh(
            "python3 -I /root/hide.py < /dev/null > /dev/null 2>&1 & "
            f"echo $! > {HELD}.pid; until [ -e {HELD} ]; do sleep 0.1; done; "
            f"ip link add mv0 link {NETDEV} type macvlan mode bridge; "
            f"ip link set mv0 netns $(readlink {HELD})"
        )
        before = self.kernel(), self.driver()
        for words in (
            ("set", VF, "vlan=7"),
            ("set", VF, "driver=vfio-pci"),
            ("reset", VF),
            ("reset", VF, "--flr"),
            ("provision", "--config-file", "/root/two.conf"),
        ):
            with self.subTest(words):
                self.assertIn("in use", self.refused("vf", *words))
        self.assertEqual((self.kernel(), self.driver()), before)
        self.sh(f"nsenter --net=$(readlink {HELD}) ip link show mv0")

    def test_interface_that_was_moved_by_hand(self) -> None:
        """Its VLAN stays, and so does its driver."""
        self.sh(
            f"ip link set {network.PF} vf {INDEX} vlan 100; "
            f"ip netns add {NEAR}; ip link set {NETDEV} netns {NEAR}"
        )
        self.addCleanup(
            self.sh,
            f"ip netns del {NEAR}; sleep 1; "
            f"ip link set {network.PF} vf {INDEX} vlan 0",
        )
        for words in (("set", VF, "vlan=7"), ("reset", VF, "--flr")):
            self.assertIn("in use", self.refused("vf", *words))
        self.assertEqual(self.kernel()["vlan_list"], [{"vlan": 100}])

    def test_what_cannot_be_set_is_refused_before_it_is_unbound(self) -> None:
        """By plan as by set; the VF keeps driver and interface."""
        for words in (
            ("mtu=9500", "driver=igbvf"),
            ("driver=igb",),
            ("driver=no_such",),
        ):
            for verb in ("plan", "set"):
                with self.subTest(verb, words=words):
                    self.refused("vf", verb, VF, *words)
                    self.assertEqual(self.driver(), "igbvf")
                    self.sh(f"ip link show {NETDEV}")


# VfTest resets a VF as a tenant leaves it.
@periodic
class ResetTest(VfAttackTestCase):
    """A reset gives what a driver's fresh bind gives."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {}

    def _fresh(self) -> dict[str, Any]:
        """Return what the kernel says of the VF's interface."""
        found = network.link(self.vm, NETDEV) or {}
        # A VF with one queue to send by has no XPS.
        found["steering"] = self.sh(
            f"cat /sys/class/net/{NETDEV}/queues/rx-0/rps_cpus"
        ).text
        names = ("mtu", "txqlen", "group", "altnames", "ifalias", "xdp")
        return {
            each: found.get(each) for each in (*names, "steering", "flags")
        }

    def test_nothing_is_left_of_a_vf_that_was_handed_out_by_hand(self) -> None:
        """XDP, names, group, MTU, queue length, steering."""
        self.done("vf", "reset", VF)
        before = self._fresh()
        self.sh(_LEAVE)
        self.vm.push(XDP.encode(), "/root/xdp.py")
        python = base.product().program("python")
        self.vm.run((python, "-I", "/root/xdp.py", NETDEV))
        left = self._fresh()
        self.assertEqual(
            [each for each in before if left[each] == before[each]], ["flags"]
        )
        self.done("vf", "reset", VF)
        self.assertEqual(self._fresh(), before)

    def test_reset_that_was_killed_at_any_write_can_be_done_again(
        self,
    ) -> None:
        """The VF has its driver and an interface then."""
        self.vm.push(_KILL.encode(), "/root/kill.py")
        python = base.product().program("python")
        bare = []
        for number in range(1, 9):
            died = self.vm.run(
                (python, "-I", "/root/kill.py", ADDRESS, str(number)),
                timeout=base.PATIENCE,
                check=False,
            )
            if died.status == 0:
                break
            self.assertEqual(died.status, 77, died.complaint)
            if self.driver() == "":
                bare.append(died.text.split()[-1])
            self.done("vf", "reset", VF)
            self.assertEqual(self.driver(), "igbvf")
            self.assertEqual(
                self.sh(f"cat {DEVICE}/driver_override").text.strip(), "(null)"
            )
        # The function is reset, and its driver bound again.
        binding = ["unbind", "driver_override", "bind", "driver_override"]
        self.assertEqual(["reset", *binding], died.text.split())
        self.assertEqual(["unbind", "driver_override"], bare)
