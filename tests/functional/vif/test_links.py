# SPDX-License-Identifier: Apache-2.0

"""Links of this machine's kernel."""

import itertools
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
from concurrent import futures
from unittest import mock

from sriov_rt.kernel import announce
from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel import inventory
from sriov_rt.kernel import link
from sriov_rt.kernel import namespaces
from sriov_rt.kernel import taps
from sriov_rt.kernel.namespace_links import NamespaceLinks
from sriov_rt.kernel.tc import Limits
from tests.functional.vif.isolated import MAC
from tests.functional.vif.isolated import IsolatedTestCase
from tests.testbed.isolation import sh

#: Seconds that something may take on a busy machine.
PATIENCE = 60.0

ETH_P_ALL = 3


class CreateTest(IsolatedTestCase):
    def test_a_macvlan_is_made_in_its_namespace(self):
        made = self.make(mtu=1400)
        (seen,) = self.ip("link", "show", "srt0")
        self.assertEqual(seen["ifalias"], self.alias)
        self.assertEqual(seen["address"], MAC)
        self.assertEqual(seen["mtu"], 1400)
        self.assertNotIn("UP", seen["flags"])
        self.assertEqual(seen["linkinfo"]["info_data"]["mode"], "bridge")
        parent = self.links.get("vf0")
        self.assertEqual(seen["link_index"], parent.index)
        self.assertEqual(made.parent, parent.index)
        self.assertIsNone(self.links.get("srt0"))

    def test_every_mode(self):
        for mode in ("bridge", "private", "vepa", "passthru"):
            with self.subTest(mode=mode):
                # A passthru shares its parent's MAC.
                mac = None if mode == "passthru" else MAC
                made = self.make(mode=mode, mac=mac)
                self.assertEqual(self.links.get("srt0", "tenant"), made)
                self.assertEqual(made.mode, mode)
                self.assertTrue(self.links.delete(made))

    def test_in_the_namespace_of_a_process(self):
        with subprocess.Popen(
            ("unshare", "-n", "sleep", "600"), start_new_session=True
        ) as process:
            self.addCleanup(process.wait)
            self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
            own = pathlib.Path("/proc/thread-self/ns/net").readlink()
            other = pathlib.Path(f"/proc/{process.pid}/ns/net")
            _until(lambda: other.readlink() != own)
            name = f"pid:{process.pid}"
            made = self.make(namespace=name)
            self.assertEqual(made.namespace, name)
            found = self.links.all(everywhere=True)
            self.assertIn(made, found)
            self.doCleanups()

    def test_a_parent_with_the_number_that_its_child_has(self):
        parent = self.links.get("vf0")
        sh(
            "ip",
            "-n",
            "tenant",
            "link",
            "add",
            "x",
            "index",
            str(parent.index - 1),
            "type",
            "bridge",
        )
        made = self.make(index=parent.index)
        self.assertEqual((made.index, made.parent), (parent.index,) * 2)

    def test_a_macvtap_has_its_device_node(self):
        with (
            tempfile.TemporaryDirectory() as dev,
            mock.patch.object(taps, "DEV", pathlib.Path(dev)),
        ):
            made = self.make(kind="macvtap", namespace=None)
            self.links.configure(made, up=True)
            node = pathlib.Path(dev, f"tap{made.index}")
            with node.open("rb"):
                pass

    def test_a_name_that_is_taken(self):
        before = self.make()
        with self.assertRaises(kernel_errors.NameTaken):
            self.make(mac=None)
        self.assertEqual(self.links.get("srt0", "tenant"), before)

    def test_a_parent_that_cannot_be_shared(self):
        self.make(mode="passthru", mac=None)
        with self.assertRaises(kernel_errors.LinkError):
            self.make(name="srt1")

    def test_a_parent_that_a_bridge_has_is_asked_for_once(self):
        sh("ip", "link", "add", "br0", "type", "bridge")
        sh("ip", "link", "set", "vf0", "master", "br0")
        # pyroute2 would sleep before it asks again.
        with (
            mock.patch.object(time, "sleep", side_effect=AssertionError),
            self.assertRaises(kernel_errors.ParentIsPort) as caught,
        ):
            self.make()
        told = str(caught.exception)
        self.assertIn("it is a port of br0", told)
        self.assertIn("'ip link set vf0 nomaster'", told)

    def test_nothing_is_left_of_what_is_not_as_asked_for(self):
        with (
            mock.patch.object(link, "_kind", return_value=("macvlan", "vepa")),
            self.assertRaises(kernel_errors.NotVerified),
        ):
            self.make()
        self.assertIsNone(self.links.get("srt0", "tenant"))

    def test_what_the_kernel_refuses(self):
        for changes, error in (
            ({"parent": "vf9"}, kernel_errors.NoSuchLink),
            ({"namespace": "nobody"}, kernel_errors.NoSuchNamespace),
            ({"mtu": 9000}, kernel_errors.LinkRefused),
            ({"name": "lo"}, kernel_errors.NameTaken),
        ):
            with self.subTest(changes=changes), self.assertRaises(error):
                self.make(**changes)
        self.assertEqual([x["ifname"] for x in self.ip("link")], ["lo"])


class DeleteTest(IsolatedTestCase):
    def test_what_is_gone_is_gone(self):
        made = self.make()
        self.assertTrue(self.links.delete(made))
        self.assertFalse(self.links.delete(made))

    def test_a_link_goes_with_its_namespace(self):
        made = self.make()
        sh("ip", "netns", "del", "tenant")
        self.assertFalse(self.links.delete(made))

    def test_a_link_goes_with_its_parent(self):
        made = self.make()
        sh("ip", "link", "del", "vf0")
        self.assertFalse(self.links.delete(made))


class AllTest(IsolatedTestCase):
    def test_links_everywhere_once(self):
        sh("ip", "netns", "attach", "again", str(os.getpid()))
        made = self.make()
        found = self.links.all(everywhere=True)
        self.assertEqual([x for x in found if x.alias == self.alias], [made])
        self.assertIn(self.links.get("vf0"), found)
        own = [x.name for x in found if x.namespace is None]
        self.assertEqual(
            sorted(own),
            sorted(x["ifname"] for x in self.ip("link", namespace=None)),
        )

    def test_whatever_a_tenant_writes_is_read(self):
        self.make()
        alias = "/sys/class/net/srt0/ifalias"
        sh(
            "ip",
            "netns",
            "exec",
            "tenant",
            "sh",
            "-c",
            f"printf 'a\\377\\033[2J%0240d' 1 > {alias}",
        )
        found = self.links.get("srt0", "tenant")
        self.assertTrue(found.alias.startswith("a\ufffd\x1b[2J"))
        self.assertIn(found, self.links.all(everywhere=True))


class InventoryTest(IsolatedTestCase):
    def test_names_and_processes_are_followed_first(self):
        node = self.links.node(self.make())
        with mock.patch.object(
            namespaces, "others", wraps=namespaces.others
        ) as others:
            found = self.links.inventory()
        self.assertEqual("srt0", found.places[node].name)
        thorough = [each.kwargs["thorough"] for each in others.mock_calls]
        # Somebody on this machine may have hidden a namespace.
        self.assertIn(thorough, ([False], [False, True]))

    def test_each_interface_is_found_by_its_node(self):
        made = self.make()
        found = self.links.inventory()
        for each in (made, *self.links.all()):
            with self.subTest(each.name):
                place = found.places[self.links.node(each)]
                self.assertEqual(each.name, place.name)
                self.assertEqual(each.namespace_id, place.namespace_id)

    def test_what_is_on_a_parent_is_told_by_the_index_it_is_on(self):
        node = self.links.node(self.make())
        index = self.links.get("vf0").index
        self.assertIn(node, self.links.inventory(index).on)
        self.assertNotIn(node, self.links.inventory(index, {node}).on)
        self.assertNotIn(node, self.links.inventory(index + 9000).on)
        hosts = self.make(name="srt1", namespace=None, mac=None)
        self.assertNotIn(
            self.links.node(hosts), self.links.inventory(index).on
        )
        # Whatever it is called.
        for name, other in (("lo", "lo9"), ("srt0", "lo")):
            self.ip("link", "set", name, "down", "name", other)
        found = self.links.inventory(index)
        self.assertIn(node, found.on)
        self.assertEqual("lo", found.places[node].name)

    def test_what_moves_while_it_is_looked_at_may_be_on_a_parent(self):
        """It is counted and listed; what it is on can't be read any more."""
        node = self.links.node(self.make())
        look, names = (
            vars(inventory)["_look"],
            itertools.cycle(("srt1", "srt2")),
        )

        def renamed(*arguments):
            (found,) = (
                each
                for each in self.ip("link")
                if each["ifname"] in ("srt0", "srt1", "srt2")
            )
            self.ip("link", "set", found["ifname"], "name", next(names))
            look(*arguments)

        with mock.patch.object(inventory, "_look", renamed):
            found = self.links.inventory(9000)
        self.assertEqual({node}, found.on)

    def test_a_socket_leads_to_what_is_unseen(self):
        """Its owner has no privilege, and the namespace is its user's."""
        command = (
            *("setpriv", "--reuid", "65534", "--clear-groups", "unshare"),
            *("--user", "--map-root-user", "--net", "/usr/bin/python3", "-c"),
            "import ctypes, os, socket, sys\n"
            "net = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "assert ctypes.CDLL(None).unshare(0x40000000) == 0\n"
            "print(flush=True)\n"
            "sys.stdin.read()",
        )
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            # The kernel counts those of an earlier test until it is done
            # with their namespaces.
            _until(lambda: self.links.inventory().unseen == 0)
            places = self.links.inventory().places.values()
            process.stdin.close()
        # The one that it is in, and the one that its socket keeps.
        name = f"{namespaces.PID}{process.pid}"
        found = {
            each.namespace_id for each in places if each.namespace == name
        }
        self.assertEqual(2, len(found))

    def test_a_descriptor_leads_to_what_is_unseen(self):
        node = self.links.node(self.make())
        command = ("ip", "netns", "exec", "tenant", "cat")
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            there = f"/proc/{process.pid}/ns/net"
            own = pathlib.Path(namespaces.OWN)
            _until(lambda: not own.samefile(there))
            kept = os.open(there, os.O_RDONLY)
        try:
            sh("ip", "netns", "delete", "tenant")
            found = self.links.inventory().places[node]
        finally:
            os.close(kept)
        self.assertEqual(f"{namespaces.PID}{os.getpid()}", found.namespace)


class MoveTest(IsolatedTestCase):
    def test_there_and_back_with_a_name_on_each_side(self):
        device = self.links.get("vf0")
        moved = self.links.move(device, "tenant", "eth0")
        self.assertEqual((moved.name, moved.namespace), ("eth0", "tenant"))
        self.assertFalse(moved.up)
        self.assertIsNone(self.links.get("vf0"))
        back = self.links.move(moved, None, "vf0")
        self.assertEqual((back.name, back.namespace), ("vf0", None))
        self.assertEqual(back.mac, device.mac)

    def test_onto_a_name_that_is_taken(self):
        device = self.links.get("vf0")
        with self.assertRaises(kernel_errors.NameTaken):
            self.links.move(device, "tenant", "lo")
        self.assertEqual(self.links.get("vf0"), device)

    def test_onto_a_name_that_is_taken_just_then(self):
        device = self.links.get("vf0")
        with (
            mock.patch.object(NamespaceLinks, "find", return_value=None),
            self.assertRaises(kernel_errors.NameTaken),
        ):
            self.links.move(device, "tenant", "lo")
        self.assertEqual(self.links.get("vf0").mac, device.mac)
        self.assertEqual([x["ifname"] for x in self.ip("link")], ["lo"])

    def test_from_a_namespace_to_another(self):
        sh("ip", "netns", "add", "second")
        made = self.links.move(self.make(), "second")
        self.assertEqual(made.namespace, "second")
        self.assertEqual(made.parent, self.links.get("vf0").index)


class ConfigureTest(IsolatedTestCase):
    def test_all_at_once(self):
        made = self.make()
        now = self.links.configure(
            made,
            mac="02:00:5e:10:00:02",
            mtu=1300,
            alias="another",
            up=True,
            promisc=True,
            allmulti=True,
        )
        (seen,) = self.ip("link", "show", "srt0")
        self.assertEqual(seen["address"], "02:00:5e:10:00:02")
        self.assertEqual(seen["mtu"], 1300)
        self.assertEqual(seen["ifalias"], "another")
        for flag in ("UP", "PROMISC", "ALLMULTI"):
            self.assertIn(flag, seen["flags"])
        self.assertTrue(now.up and now.promisc and now.allmulti)

    def test_and_back(self):
        made = self.make()
        self.links.configure(made, up=True, promisc=True, allmulti=True)
        now = self.links.configure(
            made, alias="", up=False, promisc=False, allmulti=False
        )
        self.assertFalse(now.up or now.promisc or now.allmulti)
        self.assertEqual(now.alias, "")

    def test_of_the_host(self):
        device = self.links.get("vf0")
        self.assertEqual(self.links.configure(device, mtu=1400).mtu, 1400)

    def test_what_the_kernel_refuses(self):
        with self.assertRaises(kernel_errors.LinkRefused) as caught:
            self.links.configure(self.make(), mtu=60000)
        self.assertIn("mtu", str(caught.exception))

    def test_a_carrier_is_waited_for(self):
        made = self.links.configure(self.make(), up=True)
        sh("ip", "link", "set", "peer0", "down")
        # The kernel takes up to a second to tell of it (linkwatch).
        _until(
            lambda: "NO-CARRIER" in self.ip("link", "show", "srt0")[0]["flags"]
        )
        began = time.monotonic()
        self.assertFalse(self.links.wait_carrier(made, 0.2))
        self.assertGreaterEqual(time.monotonic() - began, 0.2)
        cable = threading.Timer(0.1, sh, ("ip", "link", "set", "peer0", "up"))
        cable.start()
        self.assertTrue(self.links.wait_carrier(made, PATIENCE))
        cable.join()


class AddressTest(IsolatedTestCase):
    ADDRESSES = ("192.0.2.1/24", "2001:db8::1/64")
    ROUTES = (
        ("default", "192.0.2.254"),
        ("198.51.100.0/24", "192.0.2.253"),
        ("default", "2001:db8::fe"),
    )

    def test_addresses_and_routes(self):
        made = self.links.configure(self.make(), up=True)
        for _ in ("once", "again"):
            self.links.address(made, self.ADDRESSES, self.ROUTES)
            (seen,) = self.ip("address", "show", "srt0")
            found = {
                f"{x['local']}/{x['prefixlen']}": x for x in seen["addr_info"]
            }
            self.assertLessEqual(set(self.ADDRESSES), set(found))
            self.assertNotIn("tentative", found["2001:db8::1/64"])
            self.assertEqual(found["192.0.2.1/24"]["broadcast"], "192.0.2.255")
            routes = self.ip("route") + self.ip("-6", "route")
            ways = {(x["dst"], x.get("gateway")) for x in routes}
            self.assertLessEqual(set(self.ROUTES), ways)

    def test_addressed_is_what_somebody_gave_an_address(self):
        made = self.links.configure(self.make(), up=True)
        # Another's counts not, nor does the one that IPv6 makes (fe80::).
        sh("ip", "address", "add", "192.0.2.2/24", "dev", "peer0")
        self.assertFalse(self.links.addressed(made))
        for address in self.ADDRESSES:
            self.links.address(made, (address,), ())
            self.assertTrue(self.links.addressed(made))
            sh("ip", "-n", "tenant", "address", "del", address, "dev", "srt0")
            self.assertFalse(self.links.addressed(made))

    def test_an_interface_hears_the_macs_of_its_macvlans(self):
        self.assertEqual([], self.links.unknown_macs("vf0", ()))
        self.links.configure(self.make(), up=True)
        self.assertEqual([MAC], self.links.unknown_macs("vf0", ()))
        self.assertEqual([], self.links.unknown_macs("vf0", (MAC,)))
        self.assertEqual([], self.links.unknown_macs("peer0", ()))

    def test_a_gateway_that_is_out_of_reach(self):
        made = self.links.configure(self.make(), up=True)
        with self.assertRaises(kernel_errors.LinkRefused):
            self.links.address(made, (), (("default", "203.0.113.1"),))

    def test_traffic_passes(self):
        made = self.links.configure(self.make(), up=True)
        self.links.address(made, self.ADDRESSES[:1], ())
        sh("ip", "address", "add", "192.0.2.2/24", "dev", "peer0")
        sh("ping", "-c1", "-W5", "192.0.2.1")


class AnnounceTest(IsolatedTestCase):
    def test_the_neighbours_hear_it(self):
        made = self.links.configure(self.make(), up=True)
        addresses = ("192.0.2.1/24", "2001:db8::1/64")
        wanted = set(announce.packets(MAC, addresses))
        with socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)
        ) as heard:
            heard.bind(("peer0", ETH_P_ALL))
            heard.settimeout(PATIENCE)
            self.links.announce(made, addresses)
            while wanted:
                wanted.discard(heard.recv(2048))

    def test_an_interface_that_is_down(self):
        with self.assertRaises(kernel_errors.LinkRefused):
            self.links.announce(self.make(), ("192.0.2.1/24",))


class LimitTest(IsolatedTestCase):
    def _qdiscs(self) -> set[str]:
        told = sh("tc", "-n", "tenant", "qdisc", "show", "dev", "srt0")
        return {line.split()[1] for line in told.splitlines()}

    def test_what_leaves_is_held_back(self):
        made = self.links.configure(self.make(), up=True)
        self.links.address(made, ("192.0.2.1/24",), ())
        sh("ip", "address", "add", "192.0.2.2/24", "dev", "peer0")
        sh("ping", "-c1", "-W5", "192.0.2.1")
        # The quickest: a machine that does much else sends in bursts.
        free = min(self._seconds_for(60) for _ in range(5))
        self.links.limit(made, Limits(out_kbps=800))
        held = self._seconds_for(60)
        # 60 datagrams of 1,242 bytes are 0.75 s of 800 kbit/s.
        self.assertGreater(held, 0.6)
        self.assertLess(free, 0.3)
        self.links.limit(made, Limits())
        self.assertEqual(self._qdiscs(), {"noqueue"})

    def _seconds_for(self, count: int) -> float:
        """Let the tenant send datagrams, and take the time they need."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ends:
            ends.bind(("192.0.2.2", 0))
            ends.settimeout(PATIENCE)
            port = ends.getsockname()[1]
            program = (
                "import socket\n"
                "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                f"for _ in range({count}):\n"
                f"    s.sendto(bytes(1200), ('192.0.2.2', {port}))\n"
            )
            with subprocess.Popen(
                ("ip", "netns", "exec", "tenant", "python3", "-c", program)
            ):
                ends.recv(2048)
                began = time.monotonic()
                for _ in range(count - 1):
                    ends.recv(2048)
                return time.monotonic() - began

    def test_a_limit_is_replaced(self):
        made = self.make()
        for kbps in (1000, 2_000_000, 100_000_000):
            self.links.limit(made, Limits(out_kbps=kbps))
            told = sh("tc", "-n", "tenant", "class", "show", "dev", "srt0")
            self.assertEqual(told.count("class htb"), 2)
        self.assertIn("rate 100Gbit", told)

    def test_what_comes_in_is_limited_or_refused(self):
        # Not every kernel has the policer; none is left half-limited.
        made = self.make()
        try:
            self.links.limit(made, Limits(out_kbps=1000, in_kbps=1000))
        except kernel_errors.Unsupported:
            self.assertLessEqual(self._qdiscs(), {"noop"})
        else:
            self.assertEqual(self._qdiscs(), {"htb", "ingress"})
            self.links.limit(made, Limits())
            self.assertLessEqual(self._qdiscs(), {"noop"})

    def test_somebody_elses_limit_stays(self):
        made = self.make()
        sh(
            "tc",
            "-n",
            "tenant",
            "qdisc",
            "add",
            "dev",
            "srt0",
            "root",
            "handle",
            "7:",
            "tbf",
            "rate",
            "1mbit",
            "burst",
            "10k",
            "latency",
            "50ms",
        )
        self.links.limit(made, Limits())
        self.assertEqual(self._qdiscs(), {"tbf"})


class ManyTest(IsolatedTestCase):
    def test_threads_do_not_get_into_each_others_way(self):
        namespace = pathlib.Path("/proc/thread-self/ns/net")
        self.assertEqual(self._cycle(0), "srt0000")
        before = self._held()

        def cycle(number: int) -> str:
            # A pool's threads are started by this one, in its namespace.
            found = self._cycle(number)
            self.assertEqual(namespace.readlink(), own)
            return found

        own = namespace.readlink()
        with futures.ThreadPoolExecutor(20) as pool:
            names = list(pool.map(cycle, range(200)))
        self.assertEqual(len(set(names)), 200)
        self.assertEqual(namespace.readlink(), own)
        # Threads that other tests have left may end meanwhile.
        for now, then in zip(self._held(), before, strict=True):
            self.assertLessEqual(now, then)
        self.assertEqual([x["ifname"] for x in self.ip("link")], ["lo"])

    def _cycle(self, number: int) -> str:
        mac = f"02:00:5e:11:{number >> 8:02x}:{number & 255:02x}"
        made = self.make(name=f"srt{number:04}", mac=mac)
        made = self.links.configure(made, up=True)
        self.assertEqual(made.mac, mac)
        self.assertTrue(self.links.delete(made))
        return made.name

    def _held(self) -> tuple[int, int]:
        descriptors = len(list(pathlib.Path("/proc/self/fd").iterdir()))
        return descriptors, threading.active_count()


def _until(probe) -> None:
    deadline = time.monotonic() + PATIENCE
    while not probe():
        assert time.monotonic() < deadline
        time.sleep(0.01)
