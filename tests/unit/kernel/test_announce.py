# SPDX-License-Identifier: Apache-2.0

"""Gratuitous ARP and unsolicited NA, beside known bytes."""

import ipaddress
import struct
import unittest
from unittest import mock

from sriov_rt.kernel import announce

MAC = "02:00:5e:10:00:01"

ARP = bytes.fromhex(
    "ffffffffffff 02005e100001 0806"
    "0001 0800 06 04 0001"
    "02005e100001 c0000209"
    "000000000000 c0000209"
)

#: By RFC 4861, 4.4, the checksum left out: it is proved on its own below.
NA = bytes.fromhex(
    "333300000001 02005e100001 86dd"
    "60000000 0020 3a ff"
    "20010db8000000000000000000000009"
    "ff020000000000000000000000000001"
    "88 00 0000 20000000"
    "20010db8000000000000000000000009"
    "02 01 02005e100001"
)
SUM_AT = 14 + 40 + 2


class PacketsTest(unittest.TestCase):
    def test_arp(self):
        self.assertEqual(announce.packets(MAC, ["192.0.2.9/24"]), [ARP])

    def test_na_but_for_its_checksum(self):
        (found,) = announce.packets(MAC, ["2001:db8::9/64"])
        bare = found[:SUM_AT] + b"\0\0" + found[SUM_AT + 2 :]
        self.assertEqual(bare, NA)

    def test_the_checksum_makes_the_whole_come_out_as_ones(self):
        for address in ("2001:db8::9", "fe80::1", "ffff:ffff::ffff"):
            found = announce.unsolicited_na(
                bytes.fromhex("02005e100001"), ipaddress.IPv6Address(address)
            )
            body = found[14 + 40 :]
            data = found[22:54] + struct.pack("!II", len(body), 58) + body
            total = sum(struct.unpack(f"!{len(data) // 2}H", data))
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            with self.subTest(address=address):
                self.assertEqual(total, 0xFFFF)

    def test_one_frame_an_address(self):
        addresses = ["192.0.2.9/24", "2001:db8::9/64", "192.0.2.10/24"]
        found = announce.packets(MAC, addresses)
        self.assertEqual(
            [each[12:14].hex() for each in found],
            [
                "0806",
                "86dd",
                "0806",
            ],
        )

    def test_a_link_without_ethernet_announces_nothing(self):
        self.assertEqual(announce.packets("", ["192.0.2.9/24"]), [])
        infiniband = ":".join(["00"] * 20)
        self.assertEqual(announce.packets(infiniband, ["192.0.2.9/24"]), [])

    def test_no_address(self):
        with self.assertRaises(ValueError):
            announce.packets(MAC, ["nowhere"])


class SendTest(unittest.TestCase):
    def test_frames_go_out_by_the_interface_and_none_come_in(self):
        with mock.patch.object(announce.socket, "socket") as made:
            announce.send("srt0", [ARP, NA])
        opened = made.return_value.__enter__.return_value
        self.assertEqual(made.call_args.args[2], 0)
        opened.bind.assert_called_once_with(("srt0", 0))
        sent = [each.args[0] for each in opened.send.call_args_list]
        self.assertEqual(sent, [ARP, NA])
