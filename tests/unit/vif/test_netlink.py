# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The verbs on links, on a kernel that gives prepared answers."""

import contextlib
import dataclasses
import errno
import pathlib
import struct
import unittest
from unittest import mock

import pyroute2

from sriov_rt import rtnetlink
from sriov_rt.vif import errors
from sriov_rt.vif import inventory
from sriov_rt.vif import making
from sriov_rt.vif import namespaces
from sriov_rt.vif import netlink
from sriov_rt.vif import places
from sriov_rt.vif import requests
from sriov_rt.vif.attributes import attribute
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.model import Limits
from sriov_rt.vif.rtnl import Answer
from tests.unit.vif.test_answers import link_info
from tests.unit.vif.test_answers import number

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
    mac: str = "02005e100001"
    mtu: int = 1400
    alias: bytes = b"sriov-rt:p:o\0"
    mode: int = 4
    parent: int = PARENT
    carrier: bytes = b"\1"
    flags: int = 0

    def answer(self) -> Answer:
        body = struct.pack("=BxHiII", 0, 1, self.index, self.flags, 0)
        body += attribute(3, self.name.encode() + b"\0")
        body += attribute(1, bytes.fromhex(self.mac))
        body += number(4, self.mtu) + number(5, self.parent)
        body += attribute(20, self.alias) + attribute(33, self.carrier)
        body += link_info(b"macvlan", struct.pack("=I", self.mode))
        return Answer(requests.RTM_NEWLINK, body)


class FakeChannel:
    """A kernel with one link, or with none.

    :param refuse: RTM_* to the errno that it gives.
    """

    def __init__(
        self, told: Told | None = None, refuse: dict[int, int] | None = None
    ) -> None:
        self.told = told
        self.refuse = refuse or {}
        self.asked: list[int] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        pass

    cookie = 0

    def dump(self, request: bytes) -> list[Answer]:
        return self.ask(request)

    def ask(self, *asked: bytes, size: int = 0) -> list[Answer]:
        found = []
        for request in asked:
            kind = struct.unpack_from("=4xH", request)[0]
            self.asked.append(kind)
            if kind in self.refuse:
                raise OSError(self.refuse[kind], "said the kernel")
            if kind == requests.RTM_GETLINK and self.told is not None:
                found.append(self.told.answer())
        return found


class NetlinkTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.channel = FakeChannel(Told())
        for where in (places, making):
            self._patch(where, "Channel", lambda: self.channel)
        self._patch(rtnetlink.socket, "if_nametoindex", lambda name: PARENT)
        self.links = netlink.NetlinkLinks()

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
        self.channel.refuse = {requests.RTM_GETLINK: errno.ENODEV}
        self.assertIsNone(self.links.get("srt0"))

    def test_not_permitted(self):
        self.channel.refuse = {requests.RTM_GETLINK: errno.EPERM}
        with self.assertRaises(errors.NotPermitted) as caught:
            self.links.get("srt0")
        self.assertEqual(caught.exception.device, "srt0")
        self.assertIn("look up: said the kernel", str(caught.exception))

    def test_no_answer_is_no_link(self):
        self.channel.told = None
        with self.assertRaises(errors.NoSuchLink):
            self.links.get("srt0")


class AllTest(NetlinkTestCase):
    def _others(self, *found: str):
        self._patch(
            inventory.namespaces,
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
            self.channel.asked,
            [
                requests.RTM_NEWLINK,
                requests.RTM_SETLINK,
                requests.RTM_GETLINK,
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
        self.assertEqual(self.channel.asked, [])

    def test_errors_of_the_kernel(self):
        for code, error in (
            (errno.EBUSY, errors.ParentTaken),
            (errno.EEXIST, errors.NameTaken),
            (errno.EOPNOTSUPP, errors.Unsupported),
            (errno.EPERM, errors.NotPermitted),
            (errno.EINVAL, errors.LinkRefused),
        ):
            self.channel.asked.clear()
            self.channel.refuse = {requests.RTM_NEWLINK: code}
            with self.subTest(code=code), self.assertRaises(error):
                self.links.create(WANTED)
            self.assertEqual({*self.channel.asked}, {requests.RTM_NEWLINK})

    def test_what_is_not_as_asked_for_is_deleted(self):
        for spoilt in (
            Told(mac="02005e10ffff"),
            Told(mtu=1500),
            Told(alias=b"\0"),
            Told(mode=8),
            Told(parent=PARENT + 1),
        ):
            self.channel.told = spoilt
            with (
                self.subTest(told=spoilt),
                self.assertRaises(errors.NotVerified),
            ):
                self.links.create(WANTED)
            self.assertEqual(self.channel.asked[-1], requests.RTM_DELLINK)

    def test_an_alias_that_is_refused(self):
        self.channel.refuse = {requests.RTM_SETLINK: errno.EPERM}
        with self.assertRaises(errors.NotPermitted):
            self.links.create(WANTED)
        self.assertEqual(self.channel.asked[-1], requests.RTM_DELLINK)

    def test_what_cannot_be_deleted_again_hides_no_error(self):
        self.channel.refuse = {
            requests.RTM_SETLINK: errno.EINVAL,
            requests.RTM_GETLINK: errno.ENODEV,
        }
        with self.assertRaises(errors.LinkRefused):
            self.links.create(WANTED)

    def test_a_macvtap_of_the_host_gets_its_device_node(self):
        what = dataclasses.replace(WANTED, kind="macvtap")
        info = link_info(b"macvtap", struct.pack("=I", 4))
        ensure = mock.Mock()
        self._patch(making.taps, "ensure", ensure)
        told = Told().answer()
        body = told.body + info
        self._patch(
            self.channel.told, "answer", lambda: Answer(told.kind, body)
        )
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
        self.assertEqual(self.channel.asked[-1], requests.RTM_DELLINK)

    def test_gone_already(self):
        link = self.link()
        self.channel.refuse = {requests.RTM_DELLINK: errno.ENODEV}
        self.assertFalse(self.links.delete(link))

    def test_gone_with_its_namespace(self):
        link = dataclasses.replace(self.link(), namespace="no-such-tenant")
        self.assertFalse(self.links.delete(link))

    def test_another_errno_is_told(self):
        link = self.link()
        self.channel.refuse = {requests.RTM_DELLINK: errno.EPERM}
        with self.assertRaises(errors.NotPermitted):
            self.links.delete(link)


class MoveTest(NetlinkTestCase):
    def setUp(self):
        super().setUp()
        self.found = self.link()
        # Nothing has the name; then the link has.
        self.there = mock.Mock(side_effect=[None, self.found])
        self._patch(places.Place, "find", self.there)

    def test_moved_and_renamed(self):
        self.assertEqual(self.links.move(self.found, None), self.found)
        self.assertEqual(self.channel.asked[-1], requests.RTM_SETLINK)

    def test_a_name_that_is_taken(self):
        self.there.side_effect = [self.found]
        self.channel.asked.clear()
        with self.assertRaises(errors.NameTaken):
            self.links.move(self.found, None, "eth0")
        self.assertEqual(self.channel.asked, [])

    def test_one_that_did_not_go_stays(self):
        self.channel.refuse = {requests.RTM_SETLINK: errno.EPERM}
        with self.assertRaises(errors.NotPermitted):
            self.links.move(self.found, None)
        self.assertEqual(self.channel.asked[-1], requests.RTM_GETLINK)

    def test_one_that_went_half_way_is_brought_back(self):
        self.channel.refuse = {
            requests.RTM_SETLINK: errno.EEXIST,
            requests.RTM_GETLINK: errno.ENODEV,
        }
        with self.assertRaises(errors.NameTaken):
            self.links.move(self.found, None)
        self.assertEqual(self.channel.asked[-1], requests.RTM_SETLINK)

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
        self.channel.asked.clear()
        self.channel.told = Told(flags=0x1 | 0x100, mtu=1300)
        now = self.links.configure(
            link, mtu=1300, up=True, promisc=True, allmulti=False
        )
        self.assertTrue(now.up)
        self.assertEqual(
            self.channel.asked, [requests.RTM_SETLINK, requests.RTM_GETLINK]
        )

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
        self.channel.refuse = {requests.RTM_SETLINK: errno.EADDRNOTAVAIL}
        with self.assertRaises(errors.LinkRefused) as caught:
            self.links.configure(link, mac="02:00:5e:10:00:02", up=True)
        self.assertIn("set mac up", str(caught.exception))
        self.assertEqual(caught.exception.code, errno.EADDRNOTAVAIL)


class AddressTest(NetlinkTestCase):
    ASKED = (["192.0.2.1/24"], [("default", "192.0.2.254")])

    def setUp(self):
        super().setUp()
        self.route = mock.Mock()
        self.conversation = mock.MagicMock()
        self.conversation.return_value.__enter__.return_value = self.route
        self.conversation.return_value.__exit__.return_value = False
        self._patch(rtnetlink, "conversation", self.conversation)

    def test_addresses_come_before_routes(self):
        self.links.address(self.link(), *self.ASKED)
        self.assertEqual(
            ["addr", "route"], [name for name, *_ in self.route.method_calls]
        )

    def test_those_that_are_there_stay(self):
        there = pyroute2.NetlinkError(errno.EEXIST)
        self.route.addr.side_effect = self.route.route.side_effect = there
        self.links.address(self.link(), *self.ASKED)
        self.route.route.assert_called_once()

    def test_one_that_is_refused_is_named(self):
        refused = pyroute2.NetlinkError(errno.ENETUNREACH, "no way")
        self.route.route.side_effect = refused
        with self.assertRaises(errors.LinkRefused) as caught:
            self.links.address(self.link(), *self.ASKED)
        self.assertIn("default by 192.0.2.254", str(caught.exception))
        self.assertIn("no way", str(caught.exception))

    def test_nothing_to_add(self):
        self.links.address(self.link(), [], [])
        self.conversation.assert_not_called()


class AnnounceTest(NetlinkTestCase):
    def test_an_interface_that_is_down(self):
        down = OSError(errno.ENETDOWN, "down")
        self._patch(netlink.announce, "send", mock.Mock(side_effect=down))
        with self.assertRaises(errors.LinkRefused):
            self.links.announce(self.link(), ["192.0.2.1/24"])

    def test_a_caller_without_packet_sockets(self):
        refused = PermissionError(errno.EPERM, "no")
        self._patch(netlink.announce, "send", mock.Mock(side_effect=refused))
        with self.assertRaises(errors.AnnouncingNotPermitted) as caught:
            self.links.announce(self.link(), ["192.0.2.1/24"])
        self.assertIn("CAP_NET_RAW", str(caught.exception))

    def test_nothing_to_say(self):
        send = mock.Mock()
        self._patch(netlink.announce, "send", send)
        self.links.announce(self.link(), [])
        send.assert_not_called()


class LimitTest(NetlinkTestCase):
    def test_limits_are_set_where_the_interface_is(self):
        apply = mock.Mock()
        self._patch(netlink.rates, "apply", apply)
        conversation = mock.MagicMock()
        self._patch(rtnetlink, "conversation", conversation)
        route = conversation.return_value.__enter__.return_value
        link = self.link()
        self.links.limit(link, Limits(1000))
        apply.assert_called_once_with(route, link, Limits(1000))


class WaitCarrierTest(NetlinkTestCase):
    def test_a_carrier(self):
        self.assertTrue(self.links.wait_carrier(self.link(), 0))

    def test_no_carrier_in_time(self):
        link = self.link()
        self.channel.told = Told(carrier=b"\0")
        self.assertFalse(self.links.wait_carrier(link, 0.001))

    def test_the_interface_goes_meanwhile(self):
        link = self.link()
        self.channel.refuse = {requests.RTM_GETLINK: errno.ENODEV}
        with self.assertRaises(errors.NoSuchLink):
            self.links.wait_carrier(link, 1)


class OpenedTest(unittest.TestCase):
    def test_a_namespace_that_must_not_be_entered(self):
        refused = PermissionError(errno.EPERM, "setns")
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                mock.patch.object(
                    places.namespaces, "inside", side_effect=refused
                )
            )
            stack.enter_context(self.assertRaises(errors.NotPermitted))
            own = pathlib.Path("/proc/self").readlink()
            stack.enter_context(places.opened(f"pid:{own}"))
