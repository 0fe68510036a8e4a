# SPDX-License-Identifier: Apache-2.0

"""What root in a container tries, and what the kernel says of it after."""

import contextlib
import ctypes
import errno
import itertools
import json
import os
import pathlib
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from concurrent import futures
from typing import Any
from unittest import mock

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel import inventory
from sriov_rt.kernel import links
from sriov_rt.kernel import namespaces
from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.links import Links
from sriov_rt.kernel.tc import Limits
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import errors
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Records
from tests.functional.vif.isolated import PATIENCE
from tests.functional.vif.isolated import until
from tests.functional.vif.test_plugger import OTHER
from tests.functional.vif.test_plugger import PORT
from tests.functional.vif.test_plugger import DressedLinks
from tests.functional.vif.test_plugger import DyingRecords
from tests.functional.vif.test_plugger import OneVf
from tests.functional.vif.test_plugger import PluggerTestCase
from tests.periodic import periodic
from tests.testbed.isolation import sh

CLONE_NEWNET = 0x40000000
OWN = "/proc/thread-self/ns/net"

FOREIGN = (*("link", "vf0", "type", "macvlan", "mode", "bridge"),)


class Flight:
    """A socket that no process has: it is in another's queue (unix(7)).

    Made by who is on the host: what it has keeps no other namespace.
    """

    def __init__(self) -> None:
        self._ends = socket.socketpair()

    def put(self, kept: socket.socket) -> None:
        socket.send_fds(self._ends[0], [b"."], [kept.fileno()])
        kept.close()

    def take(self) -> socket.socket:
        (found,) = socket.recv_fds(self._ends[1], 1, 1)[1]
        return socket.socket(fileno=found)

    def close(self) -> None:
        for each in self._ends:
            each.close()


class Hidden:
    """A namespace without a name and without a process.

    :param by: what keeps it: ``descriptor``, ``socket``, or ``flight``: a
        socket that no process has either.
    """

    def __init__(self, by: str = "descriptor") -> None:
        self._by = by
        self._flight = Flight()
        self.kept: list[Any] = []

    def take(self, interface: str) -> None:
        """Move an interface of the tenant's into it, as root there would."""
        _in_thread(lambda: self._take(interface))

    def _take(self, interface: str) -> None:
        _enter(pathlib.Path("/run/netns/tenant"))
        tenant = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        assert _libc().unshare(CLONE_NEWNET) == 0
        hidden = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        assert _libc().setns(tenant, CLONE_NEWNET) == 0
        path = f"/proc/{os.getpid()}/fd/{hidden}"
        sh("ip", "link", "set", interface, "netns", path)
        os.close(tenant)
        if self._by == "descriptor":
            kept.close()
            self.kept.append(os.fdopen(hidden))
        else:
            os.close(hidden)
            if self._by == "flight":
                self._flight.put(kept)
            self.kept.append(kept)

    @contextlib.contextmanager
    def landed(self) -> Iterator[socket.socket]:
        """Have the socket that no process has."""
        found = self._flight.take()
        yield found
        self._flight.put(found)

    def end(self) -> None:
        """Let it end."""
        self._flight.close()
        for each in self.kept:
            each.close()
        self.kept.clear()


class AttackTestCase(PluggerTestCase):
    """The parent is a VF, as far as anybody is told."""

    links_class = DressedLinks
    vfs = OneVf
    # Most of what is waited for here never comes. The kernel ends a
    # namespace in some ten milliseconds.
    patience_s = 1.0

    def links_of(self, namespace: str | None = "tenant") -> dict[str, int]:
        """Return the interfaces of a namespace, by name, but loopbacks."""
        return {
            each["ifname"]: each["ifindex"]
            for each in self.ip("link", namespace=namespace)
            if each["ifname"] != "lo"
        }

    def is_idle(self) -> bool:
        """Ask the kernel whether nothing is on vf0, in any namespace."""
        add = ("ip", "link", "add", "probe0", "link", "vf0")
        done = subprocess.run(
            (*add, "type", "macvlan", "mode", "passthru"),
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            sh("ip", "link", "del", "probe0")
        return done.returncode == 0

    def hide(self, by: str = "descriptor") -> Hidden:
        hidden = Hidden(by)
        self.addCleanup(hidden.end)
        hidden.take("eth1")
        return hidden


class HiddenTest(AttackTestCase):
    def test_a_namespace_that_a_descriptor_holds_is_found(self):
        self.plugger.plug(self.asked())
        self.hide()
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertTrue(self.is_idle())
        self.assertEqual((), self.shown())

    def test_a_namespace_that_only_a_socket_holds_is_found(self):
        self.plugger.plug(self.asked())
        self.hide("socket")
        sh("ip", "netns", "del", "tenant")
        sh("ip", "netns", "add", "tenant")
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertTrue(self.is_idle())

    def _lose(self) -> Hidden:
        """Hide where nothing leads to: the tenant's own namespace ends."""
        self.plugger.plug(self.asked())
        hidden = self.hide("flight")
        sh("ip", "netns", "del", "tenant")
        sh("ip", "netns", "add", "tenant")
        return hidden

    def test_what_is_not_found_is_quarantined_until_it_ends(self):
        hidden = self._lose()
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)
        self.assertFalse(self.is_idle())
        (found,) = self.shown()
        self.assertEqual(State.QUARANTINED, found.state)
        self.assertIn("cannot be seen", found.reason)
        # The parent is nobody else's, and no other VLAN's, meanwhile.
        with self.assertRaises(kernel_errors.ParentTaken):
            self.plugger.plug(self.asked(port=OTHER, name="eth2"))
        with self.assertRaises(errors.Quarantined):
            self.plugger.plug(self.asked())
        self.assertEqual((PORT,), self.another().recover().quarantined)
        hidden.end()
        until("the namespace has ended", self.is_idle)
        self.assertEqual((PORT,), self.another().recover().released)
        self.assertEqual((), self.shown())
        self.plugger.plug(self.asked(port=OTHER, name="eth2"))

    def test_what_is_hidden_while_it_is_made_is_quarantined(self):
        """Its plug fails, and to undo it finds nothing."""
        for name in ("second", "next"):
            sh("ip", "netns", "add", name)
        self.plugger.plug(self.asked(namespace="second", port=OTHER))
        label, hidden = vars(links)["_label"], []

        def late(*arguments):
            hidden.append(_Flying("eth1"))
            return label(*arguments)

        with (
            mock.patch.object(links, "_label", late),
            self.assertRaises(kernel_errors.NoSuchLink),
        ):
            self.plugger.plug(self.asked())
        shown = {each.port: each for each in self.shown()}
        self.assertEqual(State.QUARANTINED, shown[PORT].state)
        with self.assertRaises(kernel_errors.ParentTaken):
            self.plugger.plug(self.asked(port=THIRD, namespace="next"))
        hidden[0].close()
        until(
            "it is released",
            lambda: self.another().recover().released == (PORT,),
        )

    def test_an_operator_can_have_it_forgotten(self):
        hidden = self._lose()
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)
        self.assertTrue(self.plugger.forget(PORT))
        self.assertEqual((), self.shown())
        self.assertFalse(self.plugger.forget(PORT))
        # Nobody else gets its parent while the kernel knows better.
        with self.assertRaises(kernel_errors.ParentTaken):
            self.plugger.plug(self.asked(port=OTHER, name="eth2"))
        hidden.end()
        until("the namespace has ended", self.is_idle)
        self.plugger.plug(self.asked(port=OTHER, name="eth2"))
        with self.assertRaises(errors.NotForgotten):
            self.plugger.forget(OTHER)

    def test_one_that_is_up_is_known_by_its_mac_beside_others(self):
        sh("ip", "netns", "add", "other")
        self.plugger.plug(self.asked(namespace="other", port=OTHER))
        hidden = self._lose()
        with hidden.landed() as kept:
            cookie = kept.getsockopt(socket.SOL_SOCKET, 71, 8)
            self.assertEqual(8, len(cookie))
            # Its owner can set it up with a socket that is in there.
            _set_up(kept, b"eth1")
        with self.assertRaises(errors.Quarantined) as caught:
            self.plugger.unplug(PORT)
        self.assertIn("has the MAC", str(caught.exception))


#: Of IEEE's for experiments: nobody else sends it.
PROTOCOL = 0x88B5
FRAMES = 8

THIRD = str(uuid.uuid4())


class End:
    """Who sends and receives on an interface, in whatever namespace it is.

    :param namespace: where it opens its socket; None for the host's.
    """

    def __init__(self, namespace: str | None, name: str) -> None:
        self.name = name
        place = OWN if namespace is None else f"/run/netns/{namespace}"
        _in_thread(lambda: self._open(pathlib.Path(place)))

    def _open(self, place: pathlib.Path) -> None:
        _enter(place)
        self.socket = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW, socket.htons(PROTOCOL)
        )

    def close(self) -> None:
        self.socket.close()

    @contextlib.contextmanager
    def out(self) -> Iterator[None]:
        """Have its socket."""
        yield

    def mac(self) -> bytes:
        self.socket.bind((self.name, PROTOCOL))
        found = self.socket.getsockname()[4]
        assert isinstance(found, bytes)
        return found

    def reaches(self, other: "End") -> int:
        """Return how many of its frames arrive at another."""
        with self.out(), other.out():
            return self._reaches(other)

    def _reaches(self, other: "End") -> int:
        try:
            _set_up(self.socket, self.name.encode())
            head = other.mac() + self.mac() + PROTOCOL.to_bytes(2)
            for number in range(FRAMES):
                self.socket.send(head + bytes([number] * 60))
        except OSError:
            return 0
        other.socket.settimeout(0.3)
        got = 0
        try:
            while True:
                got += other.socket.recv(2048)[:6] == head[:6]
        except TimeoutError:
            return got


class KeepTest(AttackTestCase):
    """A tenant whose port is unplugged exchanges no frame any more."""

    #: Whether libvirt moves the ports into their containers.
    moved = False
    #: Whether another tenant's port is on the parent, before and after.
    beside = True
    #: Whether its parent serves its network on when the port is deleted, and
    #: something else may be left there.
    serves_on = False

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            return
        for name in ("second", "next"):
            sh("ip", "netns", "add", name)
        self.wire = self.end(None, "peer0")
        self._plug("tenant", PORT)
        if self.beside:
            self._plug("second", OTHER)
            self.sibling = self.end("second", "eth1")
        self.old = self.end("tenant", "eth1")
        self.assertEqual((FRAMES, FRAMES), self.frames(self.old, self.wire))

    def end(self, namespace: str | None, name: str) -> End:
        found = End(namespace, name)
        self.addCleanup(found.close)
        return found

    def frames(self, one: End, other: End) -> tuple[int, int]:
        return one.reaches(other), other.reaches(one)

    def _plug(self, namespace: str, port: str) -> None:
        if not self.moved:
            self.plugger.plug(self.asked(port=port, namespace=namespace))
            return
        name = f"srt{port[:8]}"
        self.plugger.plug(self.asked(port=port, namespace=None, name=name))
        sh("ip", "link", "set", name, "netns", namespace, "name", "eth1")
        sh("ip", "-n", namespace, "link", "set", "eth1", "up")

    def hidden(self, name: str, *, seen: bool = False) -> End:
        """Hide an interface where nothing leads to; it is down.

        :param seen: whether a process has the socket that leads there.
        """
        found = (_Hiding if seen else _Flying)(name)
        self.addCleanup(found.close)
        return found

    def lose(self) -> None:
        """End the tenant's namespace: no number leads on from it."""
        self.old.close()
        sh("ip", "netns", "del", "tenant")
        time.sleep(0.2)

    def stack(self, name: str, *words: str, on: str = "eth1") -> None:
        sh(
            *("ip", "-n", "tenant", "link", "add", "name", name, "link", on),
            *(*words, "type", "macvlan", "mode", "bridge"),
        )

    def ended(self, old: End, *, kept: bool, cut: bool = True) -> None:
        """Unplug, and see what the old tenant reaches.

        :param kept: whether its port is quarantined.
        :param cut: whether it has no way to the wire when it is alone.
        """
        try:
            self.plugger.unplug(PORT)
        except errors.Quarantined:
            self.assertTrue(kept)
        shown = {each.port: each for each in self.shown()}
        self.assertEqual(kept, PORT in shown)
        if PORT in shown:
            self.assertEqual(State.QUARANTINED, shown[PORT].state)
            self.assertIn(";", shown[PORT].reason)
        else:
            self.assertEqual((0, 0), self.frames(old, self.wire))
        if self.beside:
            # Who is innocent goes on, and goes.
            self.assertEqual(
                (FRAMES, FRAMES), self.frames(self.sibling, self.wire)
            )
            self.assertEqual(State.PLUGGED, shown[OTHER].state)
        elif cut:
            self.assertEqual((0, 0), self.frames(old, self.wire))
        self.refused(old)
        if self.beside:
            self.assertTrue(self.plugger.unplug(OTHER))
            left = {each.port for each in self.shown()}
            self.assertEqual({PORT} if PORT in shown else set(), left)
            if cut:
                # Nobody else is on it: it is no way to the wire any more.
                self.assertEqual((0, 0), self.frames(old, self.wire))
            self.refused(old)

    def refused(self, old: End) -> None:
        """See that the next tenant and the old one exchange nothing."""
        want = self.asked(port=THIRD, namespace="next")
        try:
            self.plugger.plug(want)
        except kernel_errors.ParentTaken:
            return
        new = self.end("next", "eth1")
        self.assertEqual((FRAMES, FRAMES), self.frames(new, self.wire))
        if not self.serves_on:
            self.assertEqual((0, 0), self.frames(old, new))
        self.plugger.unplug(THIRD)

    def test_hidden_and_down_when_its_namespace_has_ended(self):
        old = self.hidden("eth1")
        self.lose()
        self.ended(old, kept=True)

    def test_round_trip_through_a_namespace_that_has_its_index(self):
        index = str(self.links_of()["eth1"])
        sh("ip", "netns", "add", "way")
        sh("ip", "-n", "way", "link", "add", "taken", "index", index,
           "type", "bridge")  # fmt: skip
        sh("ip", "-n", "tenant", "link", "set", "eth1", "netns", "way")
        sh("ip", "-n", "way", "link", "set", "eth1", "netns", "tenant")
        self.assertNotEqual(index, str(self.links_of()["eth1"]))
        self.ended(self.old, kept=False)

    def _decoy(self, *, seen: bool) -> End:
        index = str(self.links_of()["eth1"])
        self.stack("step")
        old = self.hidden("eth1", seen=seen)
        self.stack("eth1", "index", index, on="step")
        sh("ip", "-n", "tenant", "link", "del", "step")
        return old

    def test_decoy_with_its_index(self):
        # Which of them is the port's, its node tells.
        self.ended(self._decoy(seen=True), kept=False)

    def test_decoy_with_its_index_that_alone_is_seen(self):
        self.ended(self._decoy(seen=False), kept=True, cut=False)

    def test_stacked_on_its_own_and_visible(self):
        self.stack("more")
        old = self.end("tenant", "more")
        self.assertEqual((FRAMES, FRAMES), self.frames(old, self.wire))
        self.ended(old, kept=False)

    def test_stacked_on_its_own_and_moved_on(self):
        """It may be a stranger's there: it is named, and left alone."""
        self.stack("more")
        sh("ip", "netns", "add", "way")
        sh("ip", "-n", "tenant", "link", "set", "more", "netns", "way")
        self.ended(self.end("way", "more"), kept=True, cut=False)
        self.assertIn("more in way", self.shown()[0].reason)

    def test_stacked_on_its_own_and_hidden(self):
        self.stack("more")
        old = self.hidden("more")
        self.lose()
        self.ended(old, kept=True)

    def test_stacked_and_hidden_between_two_looks(self):
        """It is seen when the kernel counts, and hidden when it is listed."""
        self.stack("more")
        sh("ip", "netns", "add", "way")
        sh("ip", "-n", "tenant", "link", "set", "more", "netns", "way")
        bouncer = Bouncer("more", "way")
        self.addCleanup(bouncer.close)
        take = inventory.take

        def counted(*arguments: Any) -> Any:
            bouncer.show()
            found = take(*arguments)
            bouncer.hide()
            return found

        with mock.patch.object(inventory, "take", counted):
            with contextlib.suppress(errors.Quarantined):
                self.plugger.unplug(PORT)
            self.assertIn(PORT, {each.port for each in self.shown()})
            # No quarantine is lifted by less.
            self.assertEqual((PORT,), self.another().recover().quarantined)
        bouncer.show()
        self.ended(self.end("way", "more"), kept=True, cut=False)

    def test_stacked_and_moved_to_and_fro(self):
        self.stack("more")
        sh("ip", "netns", "add", "way")
        sh("ip", "-n", "tenant", "link", "set", "more", "netns", "way")
        bouncer = Bouncer("more", "way")
        self.addCleanup(bouncer.close)
        done = threading.Event()

        def bounce() -> None:
            while not done.wait(0.06):
                bouncer.hide()
                done.wait(0.03)
                bouncer.show()

        with futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(bounce)
            with contextlib.suppress(errors.Quarantined):
                self.plugger.unplug(PORT)
            for _ in range(3):
                self.assertIn(PORT, {each.port for each in self.shown()})
                self.another().recover()
            done.set()
            running.result()
        self.ended(self.end("way", "more"), kept=True, cut=False)

    def test_stacked_where_no_number_leads_to(self):
        """It is made in there, and so it never left the tenant's."""
        old = _Flying("more", made_on="eth1")
        self.addCleanup(old.close)
        self.ended(old, kept=True)

    def test_parent_that_was_renamed(self):
        sh("ip", "link", "set", "vf0", "down")
        sh("ip", "link", "set", "vf0", "name", "vf9")
        sh("ip", "link", "set", "vf9", "up")
        self.plugger.unplug(PORT)
        self.assertEqual((0, 0), self.frames(self.old, self.wire))

    def test_parent_that_was_moved(self):
        sh("ip", "netns", "add", "way")
        sh("ip", "link", "set", "vf0", "netns", "way")
        sh("ip", "-n", "way", "link", "set", "vf0", "up")
        old = self.hidden("eth1")
        self.lose()
        with self.assertRaises(errors.Quarantined) as caught:
            self.plugger.unplug(PORT)
        self.assertIn("parent", str(caught.exception))
        self.assertIn(PORT, {each.port for each in self.shown()})
        self.assertEqual((FRAMES, FRAMES), self.frames(old, self.wire))

    def test_parent_whose_name_is_anothers(self):
        sh("ip", "link", "set", "vf0", "down")
        sh("ip", "link", "set", "vf0", "name", "vf9")
        sh("ip", "link", "add", "vf0", "type", "veth", "peer", "name", "x9")
        sh("ip", "link", "set", "vf9", "up")
        self.plugger.unplug(PORT)
        self.assertEqual((0, 0), self.frames(self.old, self.wire))


class KeepMovedTest(KeepTest):
    moved = True


class KeepAloneTest(KeepTest):
    beside = False

    def test_cut_off_until_it_is_gone(self):
        """The parent is set up again, as it was."""
        old = self.hidden("eth1")
        self.lose()
        self.ended(old, kept=True)
        (link,) = self.ip("link", "show", "vf0", namespace=None)
        self.assertNotIn("UP", link["flags"])
        old.close()
        until("the namespace has ended", self.is_idle)
        self.assertEqual((PORT,), self.another().recover().released)
        (link,) = self.ip("link", "show", "vf0", namespace=None)
        self.assertIn("UP", link["flags"])


class KeepAloneMovedTest(KeepAloneTest):
    moved = True


@periodic
class KeepPlainTest(KeepTest):
    """The parent is no VF: it may never be idle, and serves its network."""

    serves_on = True
    links_class = Links
    vfs = staticmethod(Vfs.of_host)


class KeepPlainMovedTest(KeepPlainTest):
    moved = True


class ForeignTest(AttackTestCase):
    def test_a_cni_macvlan_made_just_then_survives(self):
        """Same name, kind, parent and namespace, between look and create."""
        made = links._make

        def late(what):
            sh("ip", "-n", "tenant", "link", "add", "dummy", "type", "bridge")
            sh(
                "ip", "link", "add", "name", what.name, "netns", "tenant",
                *FOREIGN,
            )  # fmt: skip
            return made(what)

        with (
            mock.patch.object(links, "_make", late),
            self.assertRaises(kernel_errors.NameTaken),
        ):
            self.plugger.plug(self.asked())
        there = self.links_of()
        self.assertIn("eth1", there)
        self.assertEqual((), Records(self.directory).ports())
        self.plugger.recover()
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertEqual(there, self.links_of())

    def test_a_kill_before_the_create_leaves_a_foreign_one_alone(self):
        self.assertTrue(self._dies(2, lambda it: it.plug(self.asked())))
        sh("ip", "link", "add", "name", "eth1", "netns", "tenant", *FOREIGN)
        there = self.links_of()
        self.assertEqual((PORT,), self.plugger.recover().undone)
        self.assertEqual(there, self.links_of())

    def test_a_kill_between_create_and_alias_leaves_nothing(self):
        def dies(*_):
            os._exit(9)

        with subprocess.Popen(
            ["unshare", "-n", "sleep", "60"], stdout=subprocess.DEVNULL
        ) as process:
            self.addCleanup(process.kill)
            place = f"/proc/{process.pid}/ns/net"
            own = pathlib.Path("/proc/thread-self/ns/net").readlink()
            until(
                "it has left",
                lambda: pathlib.Path(place).readlink() != own,
            )
            # Known by a name as well.
            sh("ip", "netns", "attach", "named", str(process.pid))
            want = self.asked(namespace=f"pid:{process.pid}")
            pid = os.fork()
            if pid == 0:
                try:
                    with mock.patch.object(links, "_label", dies):
                        self.another().plug(want)
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
            self.assertIn("eth1", self.links_of("named"))
            self.assertEqual((PORT,), self.plugger.recover().undone)
            self.assertEqual({}, self.links_of("named"))
            process.kill()

    def test_a_forged_alias_says_nothing(self):
        """Stacked on its own interface, the kernel puts it on vf0."""
        self.plugger.plug(self.asked(port=OTHER))
        sh(
            "ip", "-n", "tenant", "link", "add", "forged", "link", "eth1",
            "type", "macvlan", "mode", "bridge",
        )  # fmt: skip
        sh(
            "ip", "-n", "tenant", "link", "set", "forged", "up", "alias",
            f"sriov-rt:{PORT}:{self.asked().owner}",
        )  # fmt: skip
        sh("ip", "netns", "add", "victim")
        found = self.plugger.plug(self.asked(namespace="victim"))
        self.assertEqual(
            ("victim", "eth1"), (found.namespace, found.interface)
        )
        self.assertIn("eth1", self.links_of("victim"))
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertEqual({}, self.links_of("victim"))

    def test_what_is_stacked_on_a_port_goes_with_it(self):
        self.plugger.plug(self.asked())
        sh(
            "ip", "-n", "tenant", "link", "add", "stacked", "link", "eth1",
            "type", "macvlan", "mode", "bridge",
        )  # fmt: skip
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertEqual({}, self.links_of())
        self.assertTrue(self.is_idle())

    def test_what_is_stacked_and_hidden_keeps_the_parent(self):
        self.plugger.plug(self.asked())
        sh(
            "ip", "-n", "tenant", "link", "add", "stacked", "link", "eth1",
            "type", "macvlan", "mode", "bridge",
        )  # fmt: skip
        hidden = Hidden("socket")
        self.addCleanup(hidden.end)
        hidden.take("stacked")
        with self.assertLogs("sriov_rt", "WARNING"):
            self.plugger.unplug(PORT)
        # It is seen by its number, so it's known for what it is.
        with self.assertRaises(kernel_errors.ParentTaken):
            self.plugger.plug(self.asked(mode="passthru"))

    def test_a_namespace_made_anew_keeps_what_is_in_it(self):
        self.plugger.plug(self.asked())
        index = self.links_of()["eth1"]
        sh("ip", "netns", "del", "tenant")
        until("the namespace has ended", self.is_idle)
        sh("ip", "netns", "add", "tenant")
        sh(
            "ip", "-n", "tenant", "link", "add", "name", "eth1", "index",
            str(index), "type", "bridge",
        )  # fmt: skip
        there = self.links_of()
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertEqual(there, self.links_of())


class AgainTest(AttackTestCase):
    def test_a_container_that_was_started_anew_gets_a_network(self):
        """Its namespace before lives on: something holds it."""
        before = self.plugger.plug(self.asked())
        sh("ip", "netns", "add", "second")
        after = self.plugger.plug(self.asked(namespace="second"))
        self.assertEqual("second", after.namespace)
        self.assertEqual({}, self.links_of())
        self.assertIn(before.interface, self.links_of("second"))
        self.assertEqual(1, len(self.shown()))

    def test_one_that_its_tenant_deleted_is_made_again(self):
        self.plugger.plug(self.asked())
        sh("ip", "-n", "tenant", "link", "del", "eth1")
        self.plugger.plug(self.asked())
        self.assertIn("eth1", self.links_of())

    def test_what_a_port_cannot_become_is_named(self):
        self.plugger.plug(self.asked(addresses=("192.0.2.1/24",)))
        for changes, told in (
            ({"name": "eth2"}, "interface is eth1, not eth2"),
            ({"mac": "02:00:5e:10:00:09"}, "MAC is "),
            ({"addresses": ("192.0.2.9/24",)}, "addresses is 192.0.2.1/24"),
            ({"mode": "private"}, "mode is bridge, not private"),
            ({"owner": "mallory"}, "owner is"),
        ):
            asked = {"addresses": ("192.0.2.1/24",), **changes}
            with (
                self.subTest(changes=changes),
                self.assertRaises(errors.AlreadyPlugged) as caught,
            ):
                self.plugger.plug(self.asked(**asked))
            self.assertIn(told, str(caught.exception))

    def test_mtu_and_rates_become_what_is_asked(self):
        self.plugger.plug(self.asked())
        found = self.plugger.plug(
            self.asked(mtu=1400, limits=Limits(out_kbps=8000))
        )
        self.assertEqual(1400, found.mtu)
        (link,) = self.ip("link", "show", "eth1")
        self.assertEqual((1400, "htb"), (link["mtu"], link["qdisc"]))
        again = self.plugger.plug(
            self.asked(mtu=1400, limits=Limits(out_kbps=8000))
        )
        self.assertEqual(found, again)


class BootTest(AttackTestCase):
    def test_another_boots_record_is_nothing(self):
        self.plugger.plug(self.asked())
        file = self.directory / "records" / PORT
        text = json.loads(file.read_text())
        text["boot"] = "00000000-0000-4000-8000-000000000000"
        file.write_text(json.dumps(text))
        self.assertEqual((), Records(self.directory).all())
        with self.assertLogs("sriov_rt", "INFO") as logs:
            self.assertFalse(self.plugger.unplug(PORT))
        self.assertIn("another boot", "".join(logs.output))

    def test_records_of_another_boot_are_nothing(self):
        pid = os.fork()
        if pid == 0:
            try:
                with mock.patch(
                    "sriov_rt.vif.records.boot_id", return_value="old"
                ):
                    self.another(DyingRecords(self.directory, 3)).plug(
                        self.asked()
                    )
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        there = self.links_of()
        self.assertEqual((), self.plugger.recover().undone)
        self.assertEqual(there, self.links_of())
        self.assertEqual((), Records(self.directory).ports())

    def test_nobody_answers_in_the_kernels_place(self):
        """Root in a namespace may send to any netlink socket there."""

        def forge(to):
            with socket.socket(*family) as forger:
                forger.sendto(b"forged", (to.getsockname()[0], 0))

        family = socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE
        with socket.socket(*family) as plain:
            plain.bind((0, 0))
            forge(plain)
            self.assertEqual(b"forged", plain.recv(64))
        with (
            rtnetlink.open_socket() as ours,
            self.assertRaises(ConnectionRefusedError),
        ):
            forge(ours)

    def test_records_are_for_root_alone(self):
        self.plugger.plug(self.asked())
        place = self.directory / "records"
        self.assertEqual(0o700, place.stat().st_mode & 0o777)
        self.assertEqual(0o600, (place / PORT).stat().st_mode & 0o777)


class FullTest(AttackTestCase):
    def test_a_read_only_state_directory_keeps_no_port(self):
        sh("mkdir", "-p", str(self.directory))
        sh("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs",
           str(self.directory))  # fmt: skip
        self.addCleanup(sh, "umount", str(self.directory))
        self.plugger.plug(self.asked())
        (self.directory / "lock").unlink(missing_ok=True)
        sh("mount", "-o", "remount,ro", str(self.directory))
        self.assertTrue(self.another().unplug(PORT))
        self.assertEqual({}, self.links_of())
        self.assertTrue(self.is_idle())

    def test_no_inode_left_and_no_lock_file_keeps_no_port(self):
        sh("mkdir", "-p", str(self.directory))
        sh("mount", "-t", "tmpfs", "-o", "mode=755,nr_inodes=16", "tmpfs",
           str(self.directory))  # fmt: skip
        self.addCleanup(sh, "umount", str(self.directory))
        self.plugger.plug(self.asked())
        self.assertEqual(1, len(self.links_of()))
        (self.directory / "lock").unlink()
        with self.assertRaises(OSError) as caught:
            for number in itertools.count():
                (self.directory / f"full-{number}").touch()
        self.assertEqual(errno.ENOSPC, caught.exception.errno)
        self.assertTrue(self.another().unplug(PORT))
        self.assertEqual({}, self.links_of())
        self.assertTrue(self.is_idle())

    def test_a_lock_does_not_outlive_its_owner_in_a_child(self):
        sh("mkdir", "-p", str(self.directory))
        first, second = (Locks(self.directory, 10) for _ in range(2))
        with first.port(PORT):
            pid = os.fork()
            if pid == 0:
                time.sleep(10 * PATIENCE)
                os._exit(0)
        try:
            # The child lets go as soon as it runs.
            with second.port(PORT):
                pass
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


class _Hiding(End):
    """Hides an interface of the tenant's where only its socket leads to.

    :param made_on: what it is stacked on; None for one that is moved there.
    """

    def __init__(self, name: str, made_on: str | None = None) -> None:
        self._made_on = made_on
        super().__init__("tenant", name)

    def _open(self, place: pathlib.Path) -> None:
        _enter(place)
        tenant = os.open(OWN, os.O_RDONLY)
        assert _libc().unshare(CLONE_NEWNET) == 0
        hidden = os.open(OWN, os.O_RDONLY)
        super()._open(pathlib.Path(OWN))
        assert _libc().setns(tenant, CLONE_NEWNET) == 0
        path = f"/proc/{os.getpid()}/fd/{hidden}"
        if self._made_on is None:
            sh("ip", "link", "set", self.name, "netns", path)
        else:
            sh(
                *("ip", "link", "add", "name", self.name, "link"),
                *(self._made_on, "netns", path),
                *("type", "macvlan", "mode", "bridge"),
            )
        os.close(tenant)
        os.close(hidden)


class _Flying(_Hiding):
    """No process has its socket but while frames are sent."""

    def __init__(self, name: str, made_on: str | None = None) -> None:
        self._flight = Flight()
        super().__init__(name, made_on)
        self._flight.put(self.socket)

    @contextlib.contextmanager
    def out(self) -> Iterator[None]:
        self.socket = self._flight.take()
        try:
            yield
        finally:
            self._flight.put(self.socket)

    def close(self) -> None:
        self._flight.close()


class Bouncer:
    """Moves an interface to and fro, where it is seen and where it is not.

    :param name: of the interface.
    :param seen: the namespace that is seen.
    """

    def __init__(self, name: str, seen: str) -> None:
        self._name = name
        self._seen = os.open(f"/run/netns/{seen}", os.O_RDONLY)
        self._hidden: Flight | None = None

    def hide(self) -> None:
        """Move it into a new namespace that only a socket in flight keeps."""
        if self._hidden is not None:
            return
        made: list[Any] = []

        def make() -> None:
            assert _libc().unshare(CLONE_NEWNET) == 0
            made.extend((os.open(OWN, os.O_RDONLY), rtnetlink.open_socket()))

        _in_thread(make)
        hidden, kept = made
        self._move(
            namespaces.inside(self._seen, rtnetlink.open_socket), hidden
        )
        os.close(hidden)
        self._hidden = Flight()
        self._hidden.put(kept)

    def show(self) -> None:
        """Move it back."""
        if self._hidden is not None:
            self._move(self._hidden.take(), self._seen)
            self._hidden.close()
            self._hidden = None

    def _move(self, opened: socket.socket, target: int) -> None:
        with rtnetlink.conversation(opened) as route:
            (index,) = route.link_lookup(ifname=self._name)
            route.link("set", index=index, net_ns_fd=target)

    def close(self) -> None:
        self.show()
        os.close(self._seen)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _enter(path: pathlib.Path) -> None:
    with path.open() as file:
        assert _libc().setns(file.fileno(), CLONE_NEWNET) == 0


def _in_thread(action: Callable[[], None]) -> None:
    problems = []

    def run() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]


def _set_up(opened: socket.socket, name: bytes) -> None:
    """Set an interface up, in the namespace of a socket (netdevice(7))."""
    import fcntl
    import struct

    ask = struct.pack("16sH22x", name, 0)
    flags = struct.unpack("16sH22x", fcntl.ioctl(opened, 0x8913, ask))[1]
    fcntl.ioctl(opened, 0x8914, struct.pack("16sH22x", name, flags | 1))
