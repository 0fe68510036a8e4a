# SPDX-License-Identifier: Apache-2.0

import errno
import struct
import subprocess
import sys
import unittest
from unittest import mock

import pyroute2

from sriov_rt.kernel import rtnetlink


class RtnetlinkTestCase(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(pyroute2, "IPRoute")
        self.opened = patch.start()
        self.addCleanup(patch.stop)
        self.route = self.opened.return_value.__enter__.return_value
        self.opened.return_value.__exit__.return_value = False
        patch = mock.patch.object(rtnetlink, "open_socket")
        patch.start().return_value.detach.return_value = 7
        self.addCleanup(patch.stop)
        patch = mock.patch.object(
            rtnetlink.socket, "if_nametoindex", return_value=4
        )
        self.index = patch.start()
        self.addCleanup(patch.stop)


class OpenSocketTest(unittest.TestCase):
    def test_a_socket_that_cannot_be_set_up_is_closed(self):
        opened = mock.Mock()
        opened.setsockopt.side_effect = OSError(errno.ENOPROTOOPT, "no")
        with (
            mock.patch.object(rtnetlink.socket, "socket", return_value=opened),
            self.assertRaises(OSError),
        ):
            rtnetlink.open_socket()
        opened.close.assert_called_once_with()

    def test_an_answer_that_does_not_come_is_waited_for_so_long(self):
        """Ours and pyroute2's: one that was lost has none that is late."""
        with mock.patch.object(
            rtnetlink, "_LIMIT", struct.pack("@ll", 0, 100_000)
        ):
            with (
                rtnetlink.open_socket() as opened,
                self.assertRaises(BlockingIOError),
            ):
                opened.recv(1)
            with (
                rtnetlink.conversation() as route,
                self.assertRaises(BlockingIOError),
            ):
                next(route.get(msg_seq=99))


class ConversationTest(RtnetlinkTestCase):
    def refused(self, error):
        with self.assertRaises(OSError) as caught, rtnetlink.conversation():
            raise error
        return caught.exception

    def test_it_is_in_no_group_and_hears_the_kernels_words(self):
        with rtnetlink.conversation() as route:
            self.assertIs(self.route, route)
        self.opened.assert_called_once_with(fileno=7, groups=0, ext_ack=True)
        self.opened.return_value.__exit__.assert_called_once()

    def test_what_is_refused_has_errno_and_words(self):
        error = self.refused(pyroute2.NetlinkError(errno.EINVAL, "too big"))
        self.assertEqual((errno.EINVAL, "too big"), error.args)
        error = self.refused(pyroute2.NetlinkError(errno.EPERM))
        self.assertEqual("Operation not permitted", error.strerror)

    def test_a_dump_that_changed_is_interrupted(self):
        error = self.refused(pyroute2.NetlinkError(-1, "dump interrupted"))
        self.assertEqual(errno.EINTR, error.errno)


class ImportTest(unittest.TestCase):
    def test_pyroute2_is_imported_with_the_first_conversation(self):
        program = (
            "import sys\n"
            "import sriov_rt.nic.provision\n"
            "import sriov_rt.vif.tenants\n"
            "from sriov_rt.kernel import rtnetlink\n"
            "print('pyroute2' in sys.modules)\n"
            "with rtnetlink.conversation():\n"
            "    print('pyroute2' in sys.modules)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertEqual("False\nTrue\n", done.stdout)


class LinksTest(RtnetlinkTestCase):
    def test_no_counters_are_requested(self):
        self.route.link.return_value = iter(["a", "b"])
        self.assertEqual(["a", "b"], rtnetlink.links(self.route))
        self.route.link.assert_called_once_with(
            "dump", match=mock.ANY, ext_mask=rtnetlink.SKIP_STATS
        )

    def test_a_dump_that_changed_is_requested_again(self):
        torn = pyroute2.NetlinkError(-1, "dump interrupted")
        self.route.link.side_effect = [torn, torn, ["a"]]
        self.assertEqual(["a"], rtnetlink.links(self.route))

    def test_a_dump_that_always_changes(self):
        torn = pyroute2.NetlinkError(-1, "dump interrupted")
        self.route.link.side_effect = torn
        with self.assertRaises(pyroute2.NetlinkError) as caught:
            rtnetlink.links(self.route)
        self.assertEqual(
            errno.EINTR, rtnetlink.refusal(caught.exception).errno
        )
        self.assertEqual(rtnetlink.MAX_DUMPS, self.route.link.call_count)

    def test_any_other_error_is_raised_at_once(self):
        self.route.link.side_effect = pyroute2.NetlinkError(errno.EPERM)
        with self.assertRaises(pyroute2.NetlinkError):
            rtnetlink.links(self.route)
        self.route.link.assert_called_once()


class NumberTest(RtnetlinkTestCase):
    def test_a_namespace_with_and_without_one(self):
        for found, wanted in (
            ({"nsid": 3}, 3),
            ({"nsid": 0xFFFFFFFF}, None),
            (None, None),
        ):
            self.route.get_netnsid.return_value = found
            self.assertEqual(wanted, rtnetlink.number(self.route, 9))


class FlagsTest(unittest.TestCase):
    def test_what_is_none_is_left(self):
        up, promisc = rtnetlink.IFF_UP, rtnetlink.IFF_PROMISC
        for wanted, flags, change in (
            ({up: True, promisc: False}, up, up | promisc),
            ({up: None, promisc: False}, 0, promisc),
            ({up: None}, 0, 0),
        ):
            found = rtnetlink.flags(wanted)
            self.assertEqual({"flags": flags, "change": change}, found)


class IndexTest(RtnetlinkTestCase):
    def test_no_interface_has_an_errno(self):
        self.assertEqual(4, rtnetlink.index_of("vf0"))
        self.index.side_effect = OSError("no interface with this name")
        with self.assertRaises(OSError) as caught:
            rtnetlink.index_of("vf0")
        self.assertEqual(errno.ENODEV, caught.exception.errno)


class IdleTest(RtnetlinkTestCase):
    def test_what_could_be_made_is_gone_at_once(self):
        self.assertIs(True, rtnetlink.is_idle("vf0"))
        made, removed = self.route.link.call_args_list
        self.assertEqual(mock.call("del", index=mock.ANY), removed)
        self.assertEqual(made.kwargs["index"], removed.kwargs["index"])
        self.assertEqual(4, made.kwargs["link"])
        # It is never up.
        self.assertNotIn("flags", made.kwargs)

    def test_it_has_a_name_and_a_mode_that_show_what_it_is(self):
        rtnetlink.is_idle("vf0")
        made = self.route.link.call_args_list[0]
        self.assertEqual(("add",), made.args)
        self.assertTrue(made.kwargs["ifname"].startswith("srtq"))
        self.assertEqual("macvlan", made.kwargs["kind"])
        self.assertEqual("passthru", made.kwargs["macvlan_mode"])

    def test_what_the_kernel_says_else(self):
        for code, told in (
            (errno.EINVAL, False),
            (errno.EBUSY, False),
            (errno.EOPNOTSUPP, None),
        ):
            refused = pyroute2.NetlinkError(code)
            self.route.link.side_effect = refused
            with self.subTest(code=code):
                self.assertIs(told, rtnetlink.is_idle("vf0"))
        refused = pyroute2.NetlinkError(errno.EPERM)
        self.route.link.side_effect = refused
        with self.assertRaises(PermissionError):
            rtnetlink.is_idle("vf0")
