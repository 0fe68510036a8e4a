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

"""Rates of an interface by tc."""

import errno
import struct
import unittest

from sriov_rt.vif import errors
from sriov_rt.vif import limits
from sriov_rt.vif.attributes import Attributes
from sriov_rt.vif.edge import Link
from sriov_rt.vif.rtnl import Answer
from sriov_rt.vif.words import Limits

LINK = Link(
    name="srt0",
    index=3,
    namespace="tenant",
    kind="macvlan",
    mode="bridge",
    parent=7,
    mac="02:00:5e:10:00:01",
    mtu=1500,
    up=True,
    carrier=True,
    alias="",
)

#: struct tc_htb_opt, and tc_police with its action, as 'tc class add … htb
#: rate 10mbit' and 'tc filter add … u32 match u32 0 0 police rate 8mbit burst
#: 131072 mtu 131072 drop' send them (iproute2 6.1), but for the link layer,
#: 1 there, which the kernel finds out by itself (__detect_linklayer).
HTB = bytes.fromhex(
    "03000000ffff0000d0121300" * 2 + "204e0000204e0000" + "00" * 12
)
POLICE = bytes.fromhex(
    "00000000020000000000000000401f00000002000a000000ffff000040420f00"
    + "00" * 24
)


def parts(request: bytes) -> tuple[int, int, int, int, Attributes]:
    """Return type, handle, parent and info of a request, and the rest."""
    kind = struct.unpack_from("=4xH", request)[0]
    _, handle, parent, info = struct.unpack_from("=4xiIII", request, 16)
    return kind, handle, parent, info, Attributes(request[36:])


class FakeChannel:
    """A kernel that keeps what it is given, and gives it back.

    :param refuse: RTM_* to the errno that it gives.
    :param spoil: whether it keeps nothing at all.
    """

    def __init__(
        self, refuse: dict[int, int] | None = None, spoil: bool = False
    ) -> None:
        self.asked: list[bytes] = []
        self._refuse = refuse or {}
        self._spoil = spoil

    def ask(self, *requests: bytes) -> list[Answer]:
        for request in requests:
            kind = parts(request)[0]
            self.asked.append(request)
            if kind in self._refuse:
                raise OSError(self._refuse[kind], "said the kernel")
            if kind in (limits.RTM_GETTCLASS, limits.RTM_GETTFILTER):
                return [] if self._spoil else self._told(kind - 2)
        return []

    def _told(self, kind: int) -> list[Answer]:
        return [
            Answer(kind, each[16:])
            for each in self.asked
            if parts(each)[0] == kind
        ]

    def kinds(self) -> list[int]:
        return [parts(each)[0] for each in self.asked]

    def of(self, kind: int) -> list[tuple[int, int, int, int, Attributes]]:
        found = [parts(each) for each in self.asked]
        return [each for each in found if each[0] == kind]


class OutTest(unittest.TestCase):
    def test_the_classes_of_seed_000(self):
        channel = FakeChannel()
        limits.apply(channel, LINK, Limits(out_kbps=10_000))
        _, handle, parent, _, found = channel.of(limits.RTM_NEWQDISC)[0]
        self.assertEqual((handle, parent), (0x10000, 0xFFFFFFFF))
        self.assertEqual(found.text(1, 16), "htb")
        glob = struct.unpack("=5I", found.nested(2)[2])
        self.assertEqual(glob, (3, 10, 0x11, 0, 0))
        classes = channel.of(limits.RTM_NEWTCLASS)
        self.assertEqual(
            [each[1:3] for each in classes],
            [(0x10001, 0x10000), (0x10011, 0x10001)],
        )
        for each in classes:
            self.assertEqual(each[4].nested(2)[1], HTB)

    def test_a_rate_above_32_bits(self):
        channel = FakeChannel()
        limits.apply(channel, LINK, Limits(out_kbps=100_000_000))
        self.assertEqual(
            limits.read(channel, LINK), Limits(out_kbps=100_000_000)
        )

    def test_a_rate_that_does_not_read_back(self):
        with self.assertRaises(errors.NotVerified) as caught:
            limits.apply(FakeChannel(spoil=True), LINK, Limits(out_kbps=9))
        self.assertIn("not 9", str(caught.exception))


class InTest(unittest.TestCase):
    def test_all_that_comes_in_is_policed(self):
        channel = FakeChannel()
        limits.apply(channel, LINK, Limits(in_kbps=8000))
        _, handle, parent, _, found = channel.of(limits.RTM_NEWQDISC)[0]
        self.assertEqual((handle, parent), (0xFFFF0000, 0xFFFFFFF1))
        self.assertEqual(found.text(1, 16), "ingress")
        _, _, parent, info, found = channel.of(limits.RTM_NEWTFILTER)[0]
        self.assertEqual((parent, info), (0xFFFF0000, 66304))
        self.assertEqual(found.text(1, 16), "u32")
        self.assertEqual(found.nested(2).nested(6)[1], POLICE)

    def test_the_burst_grows_with_the_rate(self):
        channel = FakeChannel()
        limits.apply(channel, LINK, Limits(in_kbps=8_000_000))
        found = channel.of(limits.RTM_NEWTFILTER)[0][4]
        police = found.nested(2).nested(6)[1]
        ticks = struct.unpack_from("=12xI", police)[0]
        # 50 ms, in the packet scheduler's ticks of 64 ns.
        self.assertEqual(ticks, 781_250)

    def test_a_kernel_without_the_policer_leaves_no_limit(self):
        channel = FakeChannel({limits.RTM_NEWTFILTER: errno.ENOENT})
        with self.assertRaises(errors.Unsupported) as caught:
            limits.apply(channel, LINK, Limits(1000, 1000))
        self.assertIn("said the kernel", str(caught.exception))
        self.assertEqual(channel.kinds()[-2:], [limits.RTM_DELQDISC] * 2)

    def test_a_rate_that_the_policer_cannot_have(self):
        channel = FakeChannel()
        with self.assertRaises(errors.Unsupported):
            limits.apply(channel, LINK, Limits(in_kbps=limits.MAX_IN_KBPS + 1))
        self.assertNotIn(limits.RTM_NEWTFILTER, channel.kinds())


class RemoveTest(unittest.TestCase):
    def test_only_ours_is_removed(self):
        channel = FakeChannel()
        limits.apply(channel, LINK, Limits())
        self.assertEqual(channel.kinds(), [limits.RTM_DELQDISC] * 2)
        self.assertEqual(
            [
                (h, p, f.text(1, 16))
                for _, h, p, _, f in map(parts, channel.asked)
            ],
            [
                (0x10000, 0xFFFFFFFF, "htb"),
                (0xFFFF0000, 0xFFFFFFF1, "ingress"),
            ],
        )

    def test_nothing_there(self):
        for code in (errno.ENOENT, errno.EINVAL):
            channel = FakeChannel({limits.RTM_DELQDISC: code})
            with self.subTest(code=code):
                limits.apply(channel, LINK, Limits())

    def test_not_permitted(self):
        channel = FakeChannel({limits.RTM_DELQDISC: errno.EPERM})
        with self.assertRaises(errors.NotPermitted):
            limits.apply(channel, LINK, Limits())

    def test_the_interface_has_gone(self):
        channel = FakeChannel({limits.RTM_DELQDISC: errno.ENODEV})
        with self.assertRaises(errors.NoSuchLink):
            limits.apply(channel, LINK, Limits())


class ReadTest(unittest.TestCase):
    def test_no_limit(self):
        self.assertEqual(limits.read(FakeChannel(), LINK), Limits())

    def test_answers_cut_short_are_no_limit(self):
        class Cut(FakeChannel):
            def ask(self, *requests: bytes) -> list[Answer]:
                return [Answer(0, b""), Answer(0, bytes(20))]

        self.assertEqual(limits.read(Cut(), LINK), Limits())
