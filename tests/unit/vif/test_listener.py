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
"""Events of rtnetlink, from all namespaces."""

import errno
import socket
import struct
import unittest
from unittest import mock

from sriov_rt.vif import listener
from sriov_rt.vif.listener import SO_RCVBUFFORCE
from sriov_rt.vif.rtnl import MSG_TRUNC
from sriov_rt.vif.rtnl import SOL_NETLINK

NEWLINK = 16
NSID = (SOL_NETLINK, listener.NETLINK_LISTEN_ALL_NSID, struct.pack("=i", 7))


def event(body: bytes, *ancillary, flags: int = 0, sender: int = 0):
    """Return what a socket receives."""
    data = struct.pack("=IHHII", 16 + len(body), NEWLINK, 0, 0, 0) + body
    return data, list(ancillary), flags, (sender, 1)


class ListenerTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.socket = mock.Mock()
        patched = mock.patch.object(
            listener, "open_socket", return_value=self.socket
        )
        patched.start()
        self.addCleanup(patched.stop)
        self.nothing = BlockingIOError(errno.EAGAIN, "nothing")

    def heard(self, *events):
        self.socket.recvmsg.side_effect = [*events, self.nothing]
        return listener.Listener().heard()

    def test_events_of_here_and_elsewhere(self):
        found = self.heard(event(b"here"), event(b"away", NSID))
        self.assertEqual(
            found, [(None, NEWLINK, b"here"), (7, NEWLINK, b"away")]
        )

    def test_what_another_process_sends_is_passed_over(self):
        self.assertEqual(self.heard(event(b"liar", sender=4711)), [])

    def test_an_event_that_was_cut_is_a_lost_one(self):
        with self.assertRaises(OSError) as caught:
            self.heard(event(b"half", flags=MSG_TRUNC))
        self.assertEqual(caught.exception.errno, errno.ENOBUFS)

    def test_who_may_not_hear_of_others_is_told(self):
        self.socket.setsockopt.side_effect = PermissionError(errno.EPERM, "no")
        with self.assertRaises(PermissionError):
            listener.Listener()
        self.socket.close.assert_called_once_with()

    def test_who_may_not_have_more_memory_takes_what_there_is(self):
        def setsockopt(level, option, value):
            if (level, option) == (socket.SOL_SOCKET, SO_RCVBUFFORCE):
                raise PermissionError(errno.EPERM, "no")

        self.socket.setsockopt.side_effect = setsockopt
        listener.Listener()
        self.socket.setsockopt.assert_called_with(
            socket.SOL_SOCKET, socket.SO_RCVBUF, listener.MEMORY
        )
        self.socket.bind.assert_called_once_with((0, listener.GROUPS))
