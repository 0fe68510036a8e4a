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

"""What a real API server says when access, time and history run out."""

import time
import urllib.parse
from typing import Any

from sriov_rt.kubernetes import errors
from sriov_rt.kubernetes.api import NodeApi
from sriov_rt.kubernetes.api import Settings
from tests.kubernetes.base import KubernetesTestCase
from tests.testbed.errors import HttpError
from tests.testbed.kube.api import Api
from tests.testbed.waiting import wait_for

_NODES = "/api/v1/nodes"


def _selected(node: str, **query: str) -> str:
    asked = {"fieldSelector": f"metadata.name={node}", **query}
    return f"{_NODES}?{urllib.parse.urlencode(asked)}"


class ControlPlaneTest(KubernetesTestCase):
    """One control plane; a Node and its agent for each test."""

    def assertStatus(self, status: int, api: Api, path: str) -> None:
        with self.assertRaises(HttpError) as caught:
            api.get(path)
        self.assertEqual(status, caught.exception.status)

    def wait_until_allowed(self, api: Api, path: str) -> None:
        # RBAC follows its objects by watching them.
        def allowed() -> bool:
            try:
                api.get(path)
            except HttpError as error:
                if error.status != 403:
                    raise
                return False
            return True

        wait_for(f"GET {path} is allowed", allowed, timeout=10)

    def wait_until_refused(self, api: Api, path: str, status: int) -> None:
        def refused() -> bool:
            try:
                api.get(path)
            except HttpError as error:
                return error.status == status
            return False

        wait_for(f"GET {path} is answered {status}", refused, timeout=30)

    def first_event(self, api: Api, node: str, version: str) -> Any:
        return next(
            api.watch(
                _NODES,
                {
                    "fieldSelector": f"metadata.name={node}",
                    "resourceVersion": version,
                },
                seconds=20,
            )
        )

    def test_an_agent_reads_its_own_node_and_no_other(self) -> None:
        self.node("own")
        self.node("other")
        self.kube.agents.grant("own")
        for user in (
            self.kube.agents.with_certificate("own"),
            self.kube.agents.with_token("own"),
        ):
            api = self.kube.server.client(user.credentials)
            self.wait_until_allowed(api, f"{_NODES}/own")
            listed = api.get(_selected("own"))
            names = [each["metadata"]["name"] for each in listed["items"]]
            self.assertEqual(["own"], names)
            version = listed["metadata"]["resourceVersion"]
            self.kube.nodes.label("own", {"version": version})
            event = self.first_event(api, "own", version)
            self.assertEqual("MODIFIED", event["type"])
            for path in (
                _NODES,
                f"{_NODES}/other",
                _selected("other"),
                "/api/v1/pods",
            ):
                self.assertStatus(403, api, path)
            with self.assertRaises(HttpError) as caught:
                api.patch(
                    f"{_NODES}/own", {"metadata": {"labels": {"a": "b"}}}
                )
            self.assertEqual(403, caught.exception.status)

    def test_a_grant_can_be_withdrawn_and_given_again(self) -> None:
        self.node("granted")
        self.kube.agents.grant("granted")
        user = self.kube.agents.with_certificate("granted")
        api = self.kube.server.client(user.credentials)
        path = f"{_NODES}/granted"
        self.wait_until_allowed(api, path)
        self.kube.agents.withdraw("granted")
        self.wait_until_refused(api, path, 403)
        self.kube.agents.grant("granted")
        self.wait_until_allowed(api, path)

    def test_a_certificate_ends_and_its_successor_works(self) -> None:
        self.node("certified")
        self.kube.agents.grant("certified")
        user = self.kube.agents.with_certificate("certified", seconds=4)
        path = f"{_NODES}/certified"
        api = self.kube.server.client(user.credentials)
        self.wait_until_allowed(api, path)
        self.wait_until_refused(api, path, 401)
        user.rotate()
        again = self.kube.server.client(user.credentials)
        self.assertEqual("certified", again.get(path)["metadata"]["name"])

    def test_a_token_ends_when_its_successor_is_there(self) -> None:
        self.node("tokened")
        self.kube.agents.grant("tokened")
        user = self.kube.agents.with_token("tokened")
        path = f"{_NODES}/tokened"
        old = self.kube.server.client(user.credentials)
        self.wait_until_allowed(old, path)
        user.rotate()
        new = self.kube.server.client(user.credentials)
        self.assertEqual("tokened", new.get(path)["metadata"]["name"])
        self.wait_until_refused(old, path, 401)

    def test_an_expired_version_is_gone(self) -> None:
        self.node("expired")
        version = self.kube.nodes.label("expired", {"a": "b"})
        self.kube.expire()
        event = self.first_event(self.kube.admin(), "expired", version)
        self.assertEqual("ERROR", event["type"])
        self.assertEqual(410, event["object"]["code"])
        self.assertEqual("b", self.kube.nodes.labels("expired")["a"])

    def test_the_agents_client_lists_again_after_an_expired_version(
        self,
    ) -> None:
        self.node("listed")
        self.kube.agents.grant("listed")
        user = self.kube.agents.with_certificate("listed")
        api = NodeApi(
            Settings(
                node_name="listed",
                kubeconfig=str(user.kubeconfig),
                context=None,
                api_server=None,
                token_file=None,
                ca_file=None,
                connect_timeout_s=30.0,
                read_timeout_s=30.0,
                watch_timeout_s=30,
            )
        )
        self.wait_until_allowed(
            self.kube.server.client(user.credentials), f"{_NODES}/listed"
        )
        version = api.list().version
        self.kube.nodes.label("listed", {"a": "b"})
        self.kube.expire()
        found = api.list()
        assert found.labels is not None
        self.assertEqual("b", found.labels["a"])
        with self.assertRaises(errors.Expired):
            next(api.watch(version))
        self.kube.nodes.label("listed", {"a": "c"})
        event = next(api.watch(found.version))
        assert event.labels is not None
        self.assertEqual("c", event.labels["a"])

    def test_a_hanging_server_keeps_its_connections(self) -> None:
        self.node("hanging")
        api = self.kube.admin()
        api.get(f"{_NODES}/hanging")
        # All tests of the class have this one server.
        self.addCleanup(self.kube.server.resume)
        self.kube.server.hang()
        began = time.monotonic()
        with self.assertRaises(ConnectionError):
            api.call("GET", f"{_NODES}/hanging", seconds=1)
        self.assertLess(time.monotonic() - began, 10)
        self.kube.server.resume()
        api.get(f"{_NODES}/hanging")
