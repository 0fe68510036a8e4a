# SPDX-License-Identifier: Apache-2.0

"""The filter of magnum-api: what it refuses, and what passes unchanged."""

import io
import json
import typing

import conductor
import requests

from sriov_rt.magnum import api_filter


class FilterTest(conductor.ConductorCase):
    BROKEN: typing.ClassVar = {"name": "broken", "flavor_id": "rt.broken"}

    def setUp(self):
        super().setUp()
        self.create()
        self.settle()
        self.passed = []

    def _app(self, environ, start_response):
        self.passed.append(environ["wsgi.input"].read())
        start_response("202 Accepted", [])
        return []

    def _send(self, body, path="/v1/clusters/kube/nodegroups", method="POST"):
        """Return the status, and the sentence of a refusal."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answered = []
        found = api_filter.factory({})(self._app)(
            {
                "REQUEST_METHOD": method,
                "PATH_INFO": path,
                "CONTENT_LENGTH": str(len(data)),
                "wsgi.input": io.BytesIO(data),
                "HTTP_X_AUTH_TOKEN": "token",
                "HTTP_X_PROJECT_ID": "fake_project",
                "HTTP_X_USER_ID": "fake_user",
            },
            lambda status, headers: answered.append(status),
        )
        (status,) = answered
        text = b"".join(found)
        # Of an error python-magnumclient shows the title alone.
        return status, json.loads(text)["errors"][0]["title"] if text else ""

    def _passes(self, body, **kwargs):
        self.passed.clear()
        status, _ = self._send(body, **kwargs)
        self.assertEqual("202 Accepted", status)
        # Whoever follows reads the whole of it.
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.assertEqual([data], self.passed)

    def test_one_that_cannot_be_is_answered_with_400(self):
        cluster = self.cluster()
        for body, word in (
            (self.BROKEN, "hw:cpu_policy=mixed"),
            ({"name": "ab", "flavor_id": "m1.medium"}, "another name"),
            ({"name": "new", "flavor_id": "gone"}, "no flavor"),
            ({"name": "new", "labels": {"sriov_rt_vif": "tap"}}, "macvlan"),
        ):
            for path in ("kube", cluster.uuid):
                status, said = self._send(
                    body, path=f"/v1/clusters/{path}/nodegroups"
                )
                with self.subTest(body):
                    self.assertEqual("400 Bad Request", status)
                    self.assertIn(word, said)
        self.assertEqual([], self.passed)

    def test_one_that_can_be_passes(self):
        self._passes({"name": "fast", "flavor_id": "rt.large"})
        self._passes({"name": "plain"})

    def test_labels_are_merged_as_magnum_does(self):
        cluster = self.cluster()
        cluster.labels = {"sriov_rt_networks": "nope"}
        cluster.save()
        self.assertEqual("400 Bad Request", self._send({"name": "new"})[0])
        body = {"name": "new", "labels": {"a": "b"}}
        self._passes(body)
        merged = {**body, "merge_labels": True}
        self.assertIn("'nope'", self._send(merged)[1])

    def test_what_it_cannot_judge_passes(self):
        for body in (b"", b"{", b"[]", b"\xff", b"1", b" " * 300_000):
            with self.subTest(body[:9]):
                self._passes(body)
        for body in ({"labels": 1}, {"name": 1}, {"flavor_id": []}):
            with self.subTest(body):
                status, _ = self._send({**body, "node_count": 1})
                self.assertIn(status, ("202 Accepted", "400 Bad Request"))
        self._passes(self.BROKEN, path="/v1/clusters/other/nodegroups")
        self.http.get(
            f"{conductor.CLOUD}/compute/flavors/detail",
            exc=requests.exceptions.ConnectTimeout,
        )
        self._passes(self.BROKEN)

    def test_other_requests_are_not_looked_at(self):
        before = self.http.call_count
        self._passes(self.BROKEN, method="PATCH")
        self._passes(self.BROKEN, path="/v1/clusters/kube/actions/resize")
        self._passes(self.BROKEN, path="/v1/clusters")
        self.assertEqual(before, self.http.call_count)

    def test_clusters_of_other_drivers_pass(self):
        self._patch(
            api_filter.magnum_driver.Driver,
            "get_driver_for_cluster",
            lambda *_: object(),
        )
        self._passes(self.BROKEN)
