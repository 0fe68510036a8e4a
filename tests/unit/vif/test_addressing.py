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

"""Requests on addresses and routes."""

import ipaddress
import socket
import struct
import unittest

from sriov_rt.vif import addressing
from sriov_rt.vif.attributes import Attributes


class AddressRequestsTest(unittest.TestCase):
    def test_ipv4(self):
        request = addressing.new_address(3, "192.0.2.9/24")
        family, length, flags, _, index = struct.unpack_from(
            "=BBBBI", request, 16
        )
        self.assertEqual((family, length, flags, index), (2, 24, 0, 3))
        found = Attributes(request[24:])
        self.assertEqual(found[1], ipaddress.ip_address("192.0.2.9").packed)
        self.assertEqual(found[2], ipaddress.ip_address("192.0.2.9").packed)
        self.assertEqual(found[4], ipaddress.ip_address("192.0.2.255").packed)

    def test_a_network_of_two_has_no_broadcast(self):
        for address in ("192.0.2.9/31", "192.0.2.9/32"):
            found = Attributes(addressing.new_address(3, address)[24:])
            self.assertNotIn(4, found)

    def test_ipv6_does_not_wait_for_its_duplicate(self):
        request = addressing.new_address(3, "2001:db8::9/64")
        family, length, flags, _, _ = struct.unpack_from("=BBBBI", request, 16)
        self.assertEqual((family, length), (10, 64))
        self.assertEqual(flags, addressing.IFA_F_NODAD)

    def test_no_address(self):
        with self.assertRaises(ValueError):
            addressing.new_address(3, "192.0.2.999/24")


class GivenTest(unittest.TestCase):
    def _is_given(self, family, flags, scope, index=3):
        body = struct.pack("=BBBBI", family, 64, flags, scope, index)
        return addressing.is_given(body, 3)

    def test_ipv4_of_any_sort_is(self):
        for flags in (0, addressing.IFA_F_PERMANENT):
            self.assertTrue(self._is_given(socket.AF_INET, flags, 0))

    def test_ipv6_with_a_lifetime_or_for_the_link_was_made_by_the_kernel(self):
        link = addressing.RT_SCOPE_LINK
        for flags, scope, given in (
            (addressing.IFA_F_PERMANENT, 0, True),
            (addressing.IFA_F_PERMANENT, link, False),
            (0, 0, False),
        ):
            with self.subTest(flags=flags, scope=scope):
                found = self._is_given(socket.AF_INET6, flags, scope)
                self.assertIs(given, found)

    def test_another_interfaces_is_not(self):
        self.assertFalse(self._is_given(socket.AF_INET, 0, 0, index=4))

    def test_too_short_it_is_no_address(self):
        self.assertFalse(addressing.is_given(b"\2" * 7, 3))


class RouteRequestsTest(unittest.TestCase):
    def _parts(self, request: bytes):
        fields = struct.unpack_from("=BBBBBBBBI", request, 16)
        return fields, Attributes(request[28:])

    def test_a_default_route(self):
        fields, found = self._parts(
            addressing.new_route(3, "default", "192.0.2.254")
        )
        self.assertEqual(fields[:2], (2, 0))
        self.assertEqual(found[5], ipaddress.ip_address("192.0.2.254").packed)
        self.assertEqual(found.number(4), 3)
        self.assertNotIn(1, found)

    def test_a_route_to_a_network(self):
        fields, found = self._parts(
            addressing.new_route(3, "2001:db8:1::/48", "2001:db8::1")
        )
        self.assertEqual(fields[:2], (10, 48))
        self.assertEqual(found[1], ipaddress.ip_address("2001:db8:1::").packed)

    def test_two_families_in_one_route(self):
        with self.assertRaises(ValueError):
            addressing.new_route(3, "198.51.100.0/24", "2001:db8::1")

    def test_a_network_with_host_bits(self):
        with self.assertRaises(ValueError):
            addressing.new_route(3, "198.51.100.1/24", "192.0.2.254")
