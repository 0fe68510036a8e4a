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

import errno
import socket
import struct
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from sriov_rt.nic import channel

REQUEST = struct.pack("=IHHII", 16, 18, 5, 7, 0)


def packet(kind, body, number=7, flags=0):
    return struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body


def acknowledgement(code=0, words=None, *, capped=True, number=7):
    body = struct.pack("=i", -code)
    body += REQUEST
    flags = channel.NLM_F_CAPPED if capped else 0
    if words is not None:
        flags |= channel.NLM_F_ACK_TLVS
        text = words.encode() + b"\0"
        body += struct.pack("=HH", 4 + len(text), 1) + text
    return packet(channel.NLMSG_ERROR, body, number, flags)


class ChannelTest(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(channel.socket, "socket")
        self.open = patch.start()
        self.addCleanup(patch.stop)
        self.socket = self.open.return_value.__enter__.return_value

    def answer(self, *packets):
        self.socket.recvmsg.side_effect = [
            each if isinstance(each, tuple) else (each, [], 0, (0, 0))
            for each in packets
        ]
        return channel.ask(REQUEST)

    def refused(self, *packets):
        with self.assertRaises(OSError) as caught:
            self.answer(*packets)
        return caught.exception

    def test_answer_and_acknowledgement(self):
        link = packet(16, b"link")
        self.assertEqual([link], self.answer(link, acknowledgement()))
        self.assertEqual([link], self.answer(link + acknowledgement()))
        self.socket.send.assert_called_with(REQUEST)
        self.open.return_value.__exit__.assert_called()

    def test_what_is_not_the_answer_is_passed_over(self):
        self.assertEqual(
            [],
            self.answer(
                (acknowledgement(errno.EPERM), [], 0, (4242, 0)),
                packet(16, b"late", number=6),
                acknowledgement(),
            ),
        )

    def test_kernels_errno_and_words(self):
        error = self.refused(acknowledgement(errno.EBUSY))
        self.assertEqual(errno.EBUSY, error.errno)
        for capped in (True, False):
            error = self.refused(
                acknowledgement(errno.EINVAL, "no such VF", capped=capped)
            )
            self.assertEqual((errno.EINVAL, "no such VF"), error.args)

    def test_answer_that_was_cut(self):
        error = self.refused((b"", [], socket.MSG_TRUNC, (0, 0)))
        self.assertEqual(errno.EMSGSIZE, error.errno)

    def test_no_answer(self):
        self.socket.recvmsg.side_effect = TimeoutError
        with self.assertRaises(OSError) as caught:
            channel.ask(REQUEST)
        self.assertEqual(errno.ETIMEDOUT, caught.exception.errno)

    def test_acknowledgement_too_short(self):
        error = self.refused(packet(channel.NLMSG_ERROR, b"\0"))
        self.assertEqual(errno.EBADMSG, error.errno)

    def test_words_that_are_none(self):
        for attribute in (
            struct.pack("=HH", 0, 1),
            struct.pack("=HHI", 8, 9, 1),
        ):
            body = struct.pack("=i", -errno.EIO) + REQUEST + attribute
            flags = channel.NLM_F_CAPPED | channel.NLM_F_ACK_TLVS
            error = self.refused(
                packet(channel.NLMSG_ERROR, body, flags=flags)
            )
            self.assertEqual("Input/output error", error.strerror)

    @settings(derandomize=True, max_examples=200, deadline=None)
    @given(st.binary(max_size=200))
    def test_any_bytes_are_messages_or_none(self, data):
        for kind, flags, _, message in channel.split(data):
            try:
                channel.check(message, flags)
            except OSError:
                self.assertGreaterEqual(kind, 0)
