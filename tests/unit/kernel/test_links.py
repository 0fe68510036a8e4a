# SPDX-License-Identifier: Apache-2.0

"""The verbs on links, on a kernel that gives prepared answers."""

import contextlib
import dataclasses
import errno
import pathlib
import unittest
from unittest import mock

import pyroute2

from sriov_rt.kernel import errors
from sriov_rt.kernel import links
from sriov_rt.kernel import namespace_links
from sriov_rt.kernel import namespaces
from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.link import Subinterface
from sriov_rt.kernel.tc import Limits
from tests.unit.kernel import messages

WANTED = Subinterface(
    name="srt0",
    kind="macvlan",
    mode="bridge",
    parent="vf0",
    mac="02:00:5e:10:00:01",
    mtu=1400,
    alias="sriov-rt:p:o",
)
PARENT = 7


@dataclasses.dataclass
class Told:
    """What the fake kernel says of the one link that it has."""

    name: str = "srt0"
    index: int = 2
    mac: str = "02:00:5e:10:00:01"
    mtu: int = 1400
    alias: str = "sriov-rt:p:o"
    kind: str = "macvlan"
    mode: str = "bridge"
    parent: int = PARENT
    carrier: int = 1
    flags: int = 0

    def message(self):
        return messages.link(
            ("IFLA_IFNAME", self.name),
            ("IFLA_ADDRESS", self.mac),
            ("IFLA_MTU", self.mtu),
            ("IFLA_LINK", self.parent),
            ("IFLA_IFALIAS", self.alias),
            ("IFLA_CARRIER", self.carrier),
            messages.info(self.kind, self.mode),
            index=self.index,
            flags=self.flags,
        )


class FakeRoute:
    """A conversation with a kernel that has one link, or none.

    :param refuse: command of ``link`` to the errno that it gets.
    """

    def __init__(self, told=None):
        self.told = told
        self.refuse = {}
        self.requested = []
        self.addr = mock.Mock()
        self.route = mock.Mock()

    def link(self, command, **wanted):
        self.requested.append(command)
        if command in self.refuse:
            raise pyroute2.NetlinkError(
                self.refuse[command], "said the kernel"
            )
        if command in ("get", "dump") and self.told is not None:
            return [self.told.message()]
        return []


class NetlinkTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.route = FakeRoute(Told())

        @contextlib.contextmanager
        def conversation(opened=None):
            yield self.route

        self._patch(rtnetlink, "conversation", conversation)
        self._patch(rtnetlink.socket, "if_nametoindex", lambda name: PARENT)
        self.links = links.Links()

    def _patch(self, where, name, value):
        patched = mock.patch.object(where, name, value)
        patched.start()
        self.addCleanup(patched.stop)

    def link(self):
        return self.links.get("srt0")


class GetTest(NetlinkTestCase):
    def test_a_link(self):
        found = self.links.get("srt0")
        self.assertEqual((found.name, found.parent), ("srt0", PARENT))

    def test_none_of_the_name(self):
        self.route.refuse = {"get": errno.ENODEV}
        self.assertIsNone(self.links.get("srt0"))

    def test_not_permitted(self):
        self.route.refuse = {"get": errno.EPERM}
        with self.assertRaises(errors.NotPermitted) as caught:
            self.links.get("srt0")
        self.assertEqual(caught.exception.device, "srt0")
        self.assertIn("look up: said the kernel", str(caught.exception))

    def test_no_answer_is_no_link(self):
        self.route.told = None
        with self.assertRaises(errors.NoSuchLink):
            self.links.get("srt0")


class AllTest(NetlinkTestCase):
    def _others(self, *found: str):
        self._patch(
            links.namespaces,
            "others",
            lambda own, thorough: [
                namespaces.Namespace(
                    each, namespaces.Identity(1, 2), f"/proc/none/{each}"
                )
                for each in found
            ],
        )

    def test_those_of_the_caller(self):
        self.assertEqual([each.name for each in self.links.all()], ["srt0"])

    def test_a_namespace_that_goes_meanwhile_has_none(self):
        self._others("gone")
        found = self.links.all(everywhere=True)
        self.assertEqual([each.namespace for each in found], [None])

    def test_a_name_that_is_another_namespaces_meanwhile(self):
        # As when a process ends and its number is given out again.
        self._others(f"pid:{pathlib.Path('/proc/self').readlink()}")
        found = self.links.all(everywhere=True)
        self.assertEqual([each.namespace for each in found], [None])


class CreateTest(NetlinkTestCase):
    def test_it_is_made_and_then_has_its_alias(self):
        made = self.links.create(WANTED)
        self.assertEqual(made.alias, "sriov-rt:p:o")
        self.assertEqual(
            self.route.requested,
            [
                "add",
                "set",
                "get",
            ],
        )

    def test_no_such_parent(self):
        gone = OSError(errno.ENODEV, "no such device")
        self._patch(
            rtnetlink.socket, "if_nametoindex", mock.Mock(side_effect=gone)
        )
        with self.assertRaises(errors.NoSuchLink) as caught:
            self.links.create(WANTED)
        self.assertEqual(caught.exception.device, "vf0")
        self.assertEqual(self.route.requested, [])

    def test_errors_of_the_kernel(self):
        for code, error in (
            (errno.EBUSY, errors.ParentTaken),
            (errno.EEXIST, errors.NameTaken),
            (errno.EOPNOTSUPP, errors.Unsupported),
            (errno.EPERM, errors.NotPermitted),
            (errno.EINVAL, errors.LinkRefused),
        ):
            self.route.requested.clear()
            self.route.refuse = {"add": code}
            with self.subTest(code=code), self.assertRaises(error):
                self.links.create(WANTED)
            self.assertLessEqual({*self.route.requested}, {"add", "get"})

    def test_what_is_not_as_asked_for_is_deleted(self):
        for spoilt in (
            Told(mac="02:00:5e:10:ff:ff"),
            Told(mtu=1500),
            Told(alias=""),
            Told(mode="passthru"),
            Told(parent=PARENT + 1),
        ):
            self.route.told = spoilt
            with (
                self.subTest(told=spoilt),
                self.assertRaises(errors.NotVerified),
            ):
                self.links.create(WANTED)
            self.assertEqual(self.route.requested[-1], "del")

    def test_an_alias_that_is_refused(self):
        self.route.refuse = {"set": errno.EPERM}
        with self.assertRaises(errors.NotPermitted):
            self.links.create(WANTED)
        self.assertEqual(self.route.requested[-1], "del")

    def test_what_cannot_be_deleted_again_hides_no_error(self):
        self.route.refuse = {
            "set": errno.EINVAL,
            "get": errno.ENODEV,
        }
        with self.assertRaises(errors.LinkRefused):
            self.links.create(WANTED)

    def test_a_macvtap_of_the_host_gets_its_device_node(self):
        what = dataclasses.replace(WANTED, kind="macvtap")
        ensure = mock.Mock()
        self._patch(links.taps, "ensure", ensure)
        self.route.told = Told(kind="macvtap")
        self.links.create(what)
        ensure.assert_called_once_with("srt0", 2)


class IdleTest(NetlinkTestCase):
    def test_what_the_kernel_refuses_is_named(self):
        refused = OSError(errno.EPERM, "no")
        self._patch(rtnetlink, "is_idle", mock.Mock(side_effect=refused))
        with self.assertRaises(errors.NotPermitted) as caught:
            self.links.idle("vf0")
        self.assertEqual("vf0", caught.exception.device)


class DeleteTest(NetlinkTestCase):
    def test_deleted(self):
        self.assertTrue(self.links.delete(self.link()))
        self.assertEqual(self.route.requested[-1], "del")

    def test_gone_already(self):
        link = self.link()
        self.route.refuse = {"del": errno.ENODEV}
        self.assertFalse(self.links.delete(link))

    def test_gone_with_its_namespace(self):
        link = dataclasses.replace(self.link(), namespace="no-such-tenant")
        self.assertFalse(self.links.delete(link))

    def test_another_errno_is_told(self):
        link = self.link()
        self.route.refuse = {"del": errno.EPERM}
        with self.assertRaises(errors.NotPermitted):
            self.links.delete(link)


class MoveTest(NetlinkTestCase):
    def setUp(self):
        super().setUp()
        self.found = self.link()
        # Nothing has the name; then the link has.
        self.there = mock.Mock(side_effect=[None, self.found])
        self._patch(namespace_links.NamespaceLinks, "find", self.there)

    def test_moved_and_renamed(self):
        self.assertEqual(self.links.move(self.found, None), self.found)
        self.assertEqual(self.route.requested[-1], "set")

    def test_a_name_that_is_taken(self):
        self.there.side_effect = [self.found]
        self.route.requested.clear()
        with self.assertRaises(errors.NameTaken):
            self.links.move(self.found, None, "eth0")
        self.assertEqual(self.route.requested, [])

    def test_one_that_did_not_go_stays(self):
        self.route.refuse = {"set": errno.EPERM}
        with self.assertRaises(errors.NotPermitted):
            self.links.move(self.found, None)
        self.assertEqual(self.route.requested[-1], "get")

    def test_one_that_went_half_way_is_brought_back(self):
        self.route.refuse = {
            "set": errno.EEXIST,
            "get": errno.ENODEV,
        }
        with self.assertRaises(errors.NameTaken):
            self.links.move(self.found, None)
        self.assertEqual(self.route.requested[-1], "set")

    def test_gone_on_the_way(self):
        self.there.side_effect = [None, None]
        with self.assertRaises(errors.NoSuchLink):
            self.links.move(self.found, None)

    def test_another_link_of_the_name(self):
        other = dataclasses.replace(self.found, mac="02:00:5e:10:ff:ff")
        self.there.side_effect = [None, other]
        with self.assertRaises(errors.NotVerified):
            self.links.move(self.found, None)

    def test_into_no_namespace(self):
        with self.assertRaises(errors.NoSuchNamespace):
            self.links.move(self.found, "no-such-tenant")


class ConfigureTest(NetlinkTestCase):
    def test_all_in_one_message(self):
        link = self.link()
        self.route.requested.clear()
        self.route.told = Told(flags=0x1 | 0x100, mtu=1300)
        now = self.links.configure(
            link, mtu=1300, up=True, promisc=True, allmulti=False
        )
        self.assertTrue(now.up)
        self.assertEqual(self.route.requested, ["set", "get"])

    def test_what_reads_back_as_something_else(self):
        link = self.link()
        for wanted in (
            {"up": True},
            {"promisc": True},
            {"allmulti": True},
            {"mtu": 9000},
            {"mac": "02:00:5e:10:ff:ff"},
            {"alias": "else"},
        ):
            with (
                self.subTest(wanted=wanted),
                self.assertRaises(errors.NotVerified),
            ):
                self.links.configure(link, **wanted)

    def test_what_is_refused_is_named(self):
        link = self.link()
        self.route.refuse = {"set": errno.EADDRNOTAVAIL}
        with self.assertRaises(errors.LinkRefused) as caught:
            self.links.configure(link, mac="02:00:5e:10:00:02", up=True)
        self.assertIn("set mac up", str(caught.exception))
        self.assertEqual(caught.exception.code, errno.EADDRNOTAVAIL)


class AddressTest(NetlinkTestCase):
    REQUESTED = (["192.0.2.1/24"], [("default", "192.0.2.254")])

    def test_addresses_come_before_routes(self):
        both = mock.Mock()
        self.route.addr, self.route.route = both.addr, both.route
        self.links.address(self.link(), *self.REQUESTED)
        self.assertEqual(
            ["addr", "route"], [name for name, *_ in both.method_calls]
        )

    def test_those_that_are_there_stay(self):
        there = pyroute2.NetlinkError(errno.EEXIST)
        self.route.addr.side_effect = self.route.route.side_effect = there
        self.links.address(self.link(), *self.REQUESTED)
        self.route.route.assert_called_once()

    def test_one_that_is_refused_is_named(self):
        refused = pyroute2.NetlinkError(errno.ENETUNREACH, "no way")
        self.route.route.side_effect = refused
        with self.assertRaises(errors.LinkRefused) as caught:
            self.links.address(self.link(), *self.REQUESTED)
        self.assertIn("default by 192.0.2.254", str(caught.exception))
        self.assertIn("no way", str(caught.exception))

    def test_nothing_to_add(self):
        link = self.link()
        self.route.requested.clear()
        self.links.address(link, [], [])
        self.assertEqual([], self.route.requested)
        self.route.addr.assert_not_called()


class AnnounceTest(NetlinkTestCase):
    def test_an_interface_that_is_down(self):
        down = OSError(errno.ENETDOWN, "down")
        self._patch(links.announce, "send", mock.Mock(side_effect=down))
        with self.assertRaises(errors.LinkRefused):
            self.links.announce(self.link(), ["192.0.2.1/24"])

    def test_a_caller_without_packet_sockets(self):
        refused = PermissionError(errno.EPERM, "no")
        self._patch(links.announce, "send", mock.Mock(side_effect=refused))
        with self.assertRaises(errors.AnnouncingNotPermitted) as caught:
            self.links.announce(self.link(), ["192.0.2.1/24"])
        self.assertIn("CAP_NET_RAW", str(caught.exception))

    def test_nothing_to_say(self):
        send = mock.Mock()
        self._patch(links.announce, "send", send)
        self.links.announce(self.link(), [])
        send.assert_not_called()


class LimitTest(NetlinkTestCase):
    def test_limits_are_set_where_the_interface_is(self):
        apply = mock.Mock()
        self._patch(links.rates, "apply", apply)
        link = self.link()
        self.links.limit(link, Limits(1000))
        apply.assert_called_once_with(self.route, link, Limits(1000))


class WaitCarrierTest(NetlinkTestCase):
    def test_a_carrier(self):
        self.assertTrue(self.links.wait_carrier(self.link(), 0))

    def test_no_carrier_in_time(self):
        link = self.link()
        self.route.told = Told(carrier=0)
        self.assertFalse(self.links.wait_carrier(link, 0.001))

    def test_the_interface_goes_meanwhile(self):
        link = self.link()
        self.route.refuse = {"get": errno.ENODEV}
        with self.assertRaises(errors.NoSuchLink):
            self.links.wait_carrier(link, 1)


class OpenedTest(unittest.TestCase):
    def test_a_namespace_that_must_not_be_entered(self):
        refused = PermissionError(errno.EPERM, "setns")
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                mock.patch.object(
                    namespace_links.namespaces, "inside", side_effect=refused
                )
            )
            stack.enter_context(self.assertRaises(errors.NotPermitted))
            own = pathlib.Path("/proc/self").readlink()
            stack.enter_context(namespace_links.opened(f"pid:{own}"))
