# SPDX-License-Identifier: Apache-2.0

"""What the vendordata service asks Nova, and what it makes of the answer."""

import builtins
import types
import unittest
from unittest import mock

from keystoneauth1 import exceptions as keystone

from sriov_rt.cmd import vendordata


class FakeCompute:
    """Answers as openstacksdk's proxy does."""

    def __init__(self, status=200, body=None, error=None):
        self.status, self.body, self.error = status, body, error
        self.asked = []

    def get(self, path, microversion):
        """Return an answer, or raise."""
        self.asked.append((path, microversion))
        if self.error:
            raise self.error
        return types.SimpleNamespace(status_code=self.status, json=self._json)

    def _json(self):
        if isinstance(self.body, Exception):
            raise self.body
        return self.body


def server(flavor):
    return {"server": {"flavor": flavor}}


class NovaFlavorsTest(unittest.TestCase):
    def test_extra_specs(self):
        compute = FakeCompute(body=server({"extra_specs": {"a": "b"}}))
        self.assertEqual({"a": "b"}, vendordata.NovaFlavors(compute)("u"))
        self.assertEqual([("/servers/u", "2.47")], compute.asked)

    def test_no_such_instance(self):
        compute = FakeCompute(status=404)
        self.assertIsNone(vendordata.NovaFlavors(compute)("u"))

    def test_nova_does_not_tell(self):
        for compute, told in (
            (FakeCompute(status=403), "HTTP 403"),
            (FakeCompute(body=server({"original_name": "x"})), "no extra"),
            (FakeCompute(body={}), "no extra"),
            (FakeCompute(body={"server": []}), "no extra"),
            (FakeCompute(body=server(None)), "no extra"),
            (FakeCompute(body=server({"extra_specs": ["a"]})), "no extra"),
            (FakeCompute(body=server({"extra_specs": {"a": 1}})), "no extra"),
            (FakeCompute(body=ValueError("<html>")), "not JSON"),
            (FakeCompute(error=keystone.ConnectFailure("down")), "down"),
        ):
            with (
                self.subTest(told=told),
                self.assertRaises(vendordata.FlavorUnknown) as caught,
            ):
                vendordata.NovaFlavors(compute)("u")
            self.assertIn(told, str(caught.exception))
            self.assertIn("instance=u", str(caught.exception))


class ApplicationTest(unittest.TestCase):
    def test_without_its_packages(self):
        real = builtins.__import__

        for package in ("keystonemiddleware", "openstack"):

            def missing(name, *args, package=package, **kwargs):
                if name == package:
                    raise ImportError(name)
                return real(name, *args, **kwargs)

            with (
                self.subTest(package),
                mock.patch("builtins.__import__", missing),
                self.assertRaises(vendordata.ServiceIncomplete),
            ):
                vendordata.application([])
