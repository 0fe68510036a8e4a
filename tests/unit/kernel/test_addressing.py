# SPDX-License-Identifier: Apache-2.0

"""Addresses, routes and MACs; tests/functional/vif has them in the kernel."""

import socket
import unittest
from unittest import mock

from sriov_rt.kernel import addressing


class AddressTest(unittest.TestCase):
    def add(self, address):
        route = mock.Mock()
        addressing.add_address(route, 3, address)
        (call,) = route.addr.call_args_list
        return call.kwargs

    def test_ipv4_has_its_broadcast(self):
        self.assertEqual("192.0.2.255", self.add("192.0.2.9/24")["broadcast"])

    def test_a_network_of_two_has_no_broadcast(self):
        for address in ("192.0.2.9/31", "192.0.2.9/32"):
            self.assertNotIn("broadcast", self.add(address))

    def test_ipv6_does_not_wait_for_its_duplicate(self):
        found = self.add("2001:db8::9/64")
        self.assertEqual(addressing.IFA_F_NODAD, found["flags"])

    def test_no_address(self):
        with self.assertRaises(ValueError):
            self.add("192.0.2.999/24")


class AddressedTest(unittest.TestCase):
    def _is_addressed(self, family, flags, scope):
        route = mock.Mock()
        route.get_addr.return_value = [
            {"family": family, "flags": flags, "scope": scope}
        ]
        return addressing.is_addressed(route, 3)

    def test_ipv4_of_any_sort_counts(self):
        for flags in (0, addressing.IFA_F_PERMANENT):
            self.assertTrue(self._is_addressed(socket.AF_INET, flags, 0))

    def test_ipv6_with_a_lifetime_or_for_the_link_was_made_by_the_kernel(self):
        link = addressing.RT_SCOPE_LINK
        for flags, scope, given in (
            (addressing.IFA_F_PERMANENT, 0, True),
            (addressing.IFA_F_PERMANENT, link, False),
            (0, 0, False),
        ):
            with self.subTest(flags=flags, scope=scope):
                found = self._is_addressed(socket.AF_INET6, flags, scope)
                self.assertIs(given, found)


class RouteTest(unittest.TestCase):
    def test_two_families_in_one_route(self):
        with self.assertRaises(ValueError):
            addressing.add_route(
                mock.Mock(), 3, "198.51.100.0/24", "2001:db8::1"
            )

    def test_a_network_with_host_bits(self):
        with self.assertRaises(ValueError):
            addressing.add_route(
                mock.Mock(), 3, "198.51.100.1/24", "192.0.2.254"
            )
