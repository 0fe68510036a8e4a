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

"""Conversations with rtnetlink."""

import errno
import socket
import struct
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from sriov_rt.vif import rtnl
from sriov_rt.vif.attributes import attribute

REQUEST = struct.pack("=IHHII", 16, 18, 5, 0, 0)
SINGLE = struct.pack("=IHHII", 16, 18, 1, 0, 0)
NEWLINK = 16


def message(number: int, kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body


def done(number: int, code: int = 0, words: str = "") -> bytes:
    body = struct.pack("=i", -code) + REQUEST
    flags = rtnl.NLM_F_CAPPED
    if words:
        body += attribute(1, words.encode() + b"\0")
        flags |= rtnl.NLM_F_ACK_TLVS
    return message(number, rtnl.NLMSG_ERROR, body, flags)


class FakeSocket:
    """A socket that gives prepared datagrams."""

    def __init__(self, *answers: bytes) -> None:
        self.sent: list[bytes] = []
        self.closed = False
        self.flags = 0
        self._answers = list(answers)

    def send(self, data: bytes) -> None:
        self.sent.append(bytes(data))

    def recvmsg(self, size: int, ancillary: int, how: int):
        assert how == socket.MSG_DONTWAIT
        if not self._answers:
            raise BlockingIOError(errno.EAGAIN, "timed out")
        return self._answers.pop(0), [], self.flags, (0, 0)

    def close(self) -> None:
        self.closed = True


def channel(*answers: bytes) -> rtnl.Channel:
    with mock.patch.object(
        rtnl.rtnetlink, "open_socket", return_value=FakeSocket(*answers)
    ):
        return rtnl.Channel()


class ChannelTest(unittest.TestCase):
    def test_an_answer_and_its_end(self):
        asked = channel(message(1, NEWLINK, b"body"), done(1))
        self.assertEqual(asked.ask(REQUEST), [(NEWLINK, b"body")])

    def test_requests_are_numbered(self):
        fake = FakeSocket(done(1), done(2))
        with mock.patch.object(
            rtnl.rtnetlink, "open_socket", return_value=fake
        ):
            asked = rtnl.Channel()
        asked.ask(REQUEST)
        asked.ask(REQUEST)
        numbers = [struct.unpack_from("=I", d, 8)[0] for d in fake.sent]
        self.assertEqual(numbers, [1, 2])

    def test_what_is_not_acknowledged_ends_with_its_answer(self):
        asked = channel(
            done(1),
            message(2, NEWLINK, b"it00"),
            done(4, errno.ENODEV),
            message(5, NEWLINK, b"else"),
        )
        found = asked.ask(REQUEST, SINGLE)
        self.assertEqual(found, [(NEWLINK, b"it00")])
        asked._sequence = iter((4, 5))
        with self.assertRaises(OSError) as caught:
            asked.ask(SINGLE)
        self.assertEqual(caught.exception.errno, errno.ENODEV)
        self.assertEqual(asked.ask(SINGLE), [(NEWLINK, b"else")])

    def test_several_go_at_once(self):
        fake = FakeSocket(done(1), message(2, NEWLINK, b"x"), done(2))
        with mock.patch.object(
            rtnl.rtnetlink, "open_socket", return_value=fake
        ):
            asked = rtnl.Channel()
        self.assertEqual(asked.ask(REQUEST, REQUEST), [(NEWLINK, b"x")])
        self.assertEqual(len(fake.sent), 1)

    def test_a_dump_ends_with_done(self):
        asked = channel(
            message(1, NEWLINK, b"a000") + message(1, NEWLINK, b"b000"),
            message(1, NEWLINK, b"c000")
            + message(1, rtnl.NLMSG_DONE, bytes(4)),
        )
        bodies = [body for _, body in asked.ask(REQUEST)]
        self.assertEqual(bodies, [b"a000", b"b000", b"c000"])

    def test_a_dump_that_was_torn_is_asked_for_again(self):
        torn = rtnl.NLM_F_DUMP_INTR
        asked = channel(
            message(1, NEWLINK, b"old0", torn)
            + message(1, rtnl.NLMSG_DONE, bytes(4), torn),
            message(2, NEWLINK, b"new0")
            + message(2, rtnl.NLMSG_DONE, bytes(4)),
        )
        self.assertEqual(asked.dump(REQUEST), [(NEWLINK, b"new0")])

    def test_a_dump_that_never_stands_still(self):
        torn = [
            message(n, rtnl.NLMSG_DONE, bytes(4), rtnl.NLM_F_DUMP_INTR)
            for n in range(1, rtnl.MAX_DUMPS + 1)
        ]
        with self.assertRaises(InterruptedError):
            channel(*torn).dump(REQUEST)

    def test_the_kernels_own_words(self):
        asked = channel(done(1, errno.EOPNOTSUPP, "Unknown device type"))
        with self.assertRaises(OSError) as caught:
            asked.ask(REQUEST)
        self.assertEqual(caught.exception.errno, errno.EOPNOTSUPP)
        self.assertEqual(caught.exception.strerror, "Unknown device type")

    def test_words_behind_a_whole_request(self):
        body = struct.pack("=i", -errno.EINVAL) + struct.pack(
            "=IHHII", 20, 18, 5, 0, 0
        )
        body += b"rest" + attribute(1, b"no\0")
        asked = channel(
            message(1, rtnl.NLMSG_ERROR, body, rtnl.NLM_F_ACK_TLVS)
        )
        with self.assertRaises(OSError) as caught:
            asked.ask(REQUEST)
        self.assertEqual(caught.exception.strerror, "no")

    def test_the_first_error_of_several_is_raised_when_all_are_done(self):
        asked = channel(done(1, errno.EPERM), done(2, errno.ENODEV), done(3))
        with self.assertRaises(PermissionError):
            asked.ask(REQUEST, REQUEST)
        # Nothing is left over for the next.
        self.assertEqual(asked.ask(REQUEST), [])

    def test_an_answer_to_something_else_is_passed_over(self):
        asked = channel(done(77, errno.EPERM), done(1))
        self.assertEqual(asked.ask(REQUEST), [])

    def test_no_answer(self):
        # The second is what a socket gives where Python's own has a default.
        for each in (BlockingIOError(errno.EAGAIN, "no"), TimeoutError("no")):
            asked = channel()
            with (
                self.subTest(error=each),
                mock.patch.object(asked._socket, "recvmsg", side_effect=each),
                self.assertRaises(OSError) as caught,
            ):
                asked.ask(REQUEST)
            self.assertEqual(caught.exception.errno, errno.ETIMEDOUT)

    def test_an_answer_that_was_cut(self):
        fake = FakeSocket(done(1))
        fake.flags = socket.MSG_TRUNC
        with mock.patch.object(
            rtnl.rtnetlink, "open_socket", return_value=fake
        ):
            asked = rtnl.Channel()
        with self.assertRaises(OSError) as caught:
            asked.ask(REQUEST)
        self.assertEqual(caught.exception.errno, errno.EMSGSIZE)

    def test_an_acknowledgement_too_short(self):
        asked = channel(message(1, rtnl.NLMSG_ERROR, b"\0"))
        with self.assertRaises(OSError) as caught:
            asked.ask(REQUEST)
        self.assertEqual(caught.exception.errno, errno.EBADMSG)

    def test_it_is_closed_at_the_end(self):
        fake = FakeSocket()
        with (
            mock.patch.object(
                rtnl.rtnetlink, "open_socket", return_value=fake
            ),
            rtnl.Channel(),
        ):
            self.assertFalse(fake.closed)
        self.assertTrue(fake.closed)


class MessagesTest(unittest.TestCase):
    @settings(derandomize=True)
    @given(st.binary(max_size=200))
    def test_no_bytes_make_it_raise(self, data):
        total = sum(len(body) + 16 for *_, body in rtnl.messages(data))
        self.assertLessEqual(total, len(data) + 3)
