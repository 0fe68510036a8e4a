# SPDX-License-Identifier: Apache-2.0

"""What a real API server says when access, time and history run out."""

import time
from collections.abc import Callable
from typing import Any

from kubernetes.client import ApiException
from kubernetes.client import CoreV1Api
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from sriov_rt.kubernetes import errors
from sriov_rt.kubernetes.api import NodeApi
from sriov_rt.kubernetes.api import Settings
from tests.kubernetes.base import KubernetesTestCase
from tests.testbed.kube.identities import CertificateUser
from tests.testbed.kube.identities import ServiceAccountUser
from tests.testbed.waiting import wait_for


def _selected(node: str) -> str:
    return f"metadata.name={node}"


class ControlPlaneTest(KubernetesTestCase):
    """One control plane; a Node and its agent for each test."""

    def assertStatus(
        self, status: int, ask: Callable[..., object], *words: Any, **more: Any
    ) -> None:
        with self.assertRaises(ApiException) as caught:
            ask(*words, **more)
        self.assertEqual(status, caught.exception.status)

    def client(self, user: CertificateUser | ServiceAccountUser) -> CoreV1Api:
        return CoreV1Api(self.kube.server.client(user.kubeconfig))

    def wait_until_allowed(self, api: CoreV1Api, node: str) -> None:
        # RBAC follows its objects by watching them.
        def allowed() -> bool:
            try:
                api.read_node(node)
            except ApiException as error:
                if error.status != 403:
                    raise
                return False
            return True

        wait_for(f"{node} may be read", allowed, timeout=60)

    def wait_until_refused(
        self, api: CoreV1Api, node: str, status: int
    ) -> None:
        def refused() -> bool:
            try:
                api.read_node(node)
            except ApiException as error:
                return bool(error.status == status)
            return False

        wait_for(f"{node} is answered {status}", refused, timeout=60)

    def first_event(self, api: CoreV1Api, node: str, version: str) -> Any:
        events = Watch().stream(
            api.list_node,
            field_selector=_selected(node),
            resource_version=version,
            timeout_seconds=20,
        )
        return next(events)

    def test_an_agent_reads_its_own_node_and_no_other(self) -> None:
        self.node("own")
        self.node("other")
        self.kube.agents.grant("own")
        for user in (
            self.kube.agents.with_certificate("own"),
            self.kube.agents.with_token("own"),
        ):
            api = self.client(user)
            self.wait_until_allowed(api, "own")
            listed = api.list_node(field_selector=_selected("own"))
            names = [each.metadata.name for each in listed.items]
            self.assertEqual(["own"], names)
            version = listed.metadata.resource_version
            self.kube.nodes.label("own", {"version": version})
            event = self.first_event(api, "own", version)
            self.assertEqual("MODIFIED", event["type"])
            self.assertStatus(403, api.list_node)
            self.assertStatus(403, api.read_node, "other")
            self.assertStatus(
                403, api.list_node, field_selector=_selected("other")
            )
            self.assertStatus(403, api.list_pod_for_all_namespaces)
            change: Any = {"metadata": {"labels": {"a": "b"}}}
            self.assertStatus(403, api.patch_node, "own", body=change)

    def test_a_grant_can_be_withdrawn_and_given_again(self) -> None:
        self.node("granted")
        self.kube.agents.grant("granted")
        user = self.kube.agents.with_certificate("granted")
        api = self.client(user)
        self.wait_until_allowed(api, "granted")
        self.kube.agents.withdraw("granted")
        self.wait_until_refused(api, "granted", 403)
        self.kube.agents.grant("granted")
        self.wait_until_allowed(api, "granted")

    def test_a_certificate_ends_and_its_successor_works(self) -> None:
        self.node("certified")
        self.kube.agents.grant("certified")
        user = self.kube.agents.with_certificate("certified", seconds=4)
        api = self.client(user)
        self.wait_until_allowed(api, "certified")
        self.wait_until_refused(api, "certified", 401)
        user.rotate()
        again = self.client(user)
        self.assertEqual(
            "certified", again.read_node("certified").metadata.name
        )

    def test_a_token_ends_when_its_successor_is_there(self) -> None:
        self.node("tokened")
        self.kube.agents.grant("tokened")
        user = self.kube.agents.with_token("tokened")
        old = self.client(user)
        self.wait_until_allowed(old, "tokened")
        user.rotate()
        new = self.client(user)
        self.assertEqual("tokened", new.read_node("tokened").metadata.name)
        self.wait_until_refused(old, "tokened", 401)

    def test_an_expired_version_is_gone(self) -> None:
        self.node("expired")
        version = self.kube.nodes.label("expired", {"a": "b"})
        self.kube.expire()
        api = CoreV1Api(self.kube.admin())
        self.assertStatus(410, self.first_event, api, "expired", version)
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
        self.wait_until_allowed(self.client(user), "listed")
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
        api = CoreV1Api(self.kube.admin())
        api.read_node("hanging")
        # All tests of the class have this one server.
        self.addCleanup(self.kube.server.resume)
        self.kube.server.hang()
        began = time.monotonic()
        with self.assertRaises(HTTPError):
            api.read_node("hanging", _request_timeout=1)
        self.assertLess(time.monotonic() - began, 30)
        self.kube.server.resume()
        api.read_node("hanging")
