# SPDX-License-Identifier: Apache-2.0

"""The vendordata service answers Nova, and by the flavor alone."""

import io
import json
import pathlib
import tempfile
import unittest
import uuid

from sriov_rt.host.root import Root
from sriov_rt.nova import vendordata
from sriov_rt.onload.settings import Settings

INSTANCE = str(uuid.uuid4())
BODY = {
    "instance-id": INSTANCE,
    "hostname": "h",
    "metadata": {"LD_PRELOAD": "/tmp/evil.so", "sriov_rt:onload": "required"},
    "user-data": "EF_LD_PRELOAD=/tmp/evil.so",
}
ASKS = {"sriov_rt:onload": "required", "sriov_rt:onload_profile": "latency"}


class ApplicationTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        path = pathlib.Path(place.name)
        (path / "p").mkdir()
        (path / "p/latency.opf").write_text("onload_set EF_POLL_USEC 9\n")
        settings = Settings(
            profile_directories=("/p",), profiles=frozenset({"latency"})
        )
        self.specs = {INSTANCE: ASKS}
        self.asked = []
        self.app = vendordata.Application(
            settings, Root(place.name), self.flavors
        )

    def flavors(self, instance):
        self.asked.append(instance)
        return self.specs.get(instance)

    def post(self, body=BODY, **environ):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {
            "REQUEST_METHOD": "POST",
            "CONTENT_LENGTH": str(len(data)),
            "HTTP_X_IDENTITY_STATUS": "Confirmed",
            "HTTP_X_ROLES": "reader,service",
            "wsgi.input": io.BytesIO(data),
            **environ,
        }
        said = []
        (answer,) = self.app(given, lambda *each: said.append(each))
        status, headers = said[0]
        self.assertEqual(str(len(answer)), dict(headers)["Content-Length"])
        return int(status[:3]), json.loads(answer)

    def test_an_instance_with_onload(self):
        status, answer = self.post()
        self.assertEqual(200, status)
        self.assertTrue(answer.startswith("#cloud-config\n"))
        self.assertIn("LD_PRELOAD=libonload.so", answer)
        self.assertIn("EF_POLL_USEC=9", answer)
        self.assertNotIn("evil", answer)
        self.assertEqual([INSTANCE], self.asked)

    def test_what_the_tenant_says_counts_for_nothing(self):
        self.specs[INSTANCE] = {"hw:cpu_policy": "dedicated"}
        self.assertEqual((200, {}), self.post())

    def test_who_may_not_ask(self):
        for headers, status in (
            ({"HTTP_X_IDENTITY_STATUS": "Invalid"}, 401),
            ({"HTTP_X_IDENTITY_STATUS": ""}, 401),
            ({"HTTP_X_ROLES": "member,reader"}, 403),
            ({"HTTP_X_ROLES": ""}, 403),
        ):
            with self.subTest(headers=headers):
                self.assertEqual(status, self.post(**headers)[0])
        self.assertEqual([], self.asked)

    def test_requests_that_are_none(self):
        for body, environ, status in (
            (b"{", {}, 400),
            (b"[" * 100_000, {}, 400),
            ([], {}, 400),
            ({}, {}, 400),
            ({"instance-id": "../x"}, {}, 400),
            ({"instance-id": 7}, {}, 400),
            (BODY, {"REQUEST_METHOD": "GET"}, 405),
            (BODY, {"CONTENT_LENGTH": ""}, 411),
            (BODY, {"CONTENT_LENGTH": "-1"}, 411),
            (BODY, {"CONTENT_LENGTH": "99999999"}, 413),
        ):
            with self.subTest(body=str(body)[:40], environ=environ):
                code, answer = self.post(body, **environ)
                self.assertEqual(status, code)
                self.assertIn("error", answer)
        self.assertEqual([], self.asked)

    def test_an_instance_that_is_not_there(self):
        self.specs.clear()
        self.assertEqual(404, self.post()[0])

    def test_a_profile_that_is_not_allowed(self):
        self.specs[INSTANCE] = {**ASKS, "sriov_rt:onload_profile": "other"}
        with self.assertLogs("sriov_rt.nova", "ERROR"):
            status, answer = self.post()
        self.assertEqual(500, status)
        self.assertIn("is not allowed", answer["error"])
