# SPDX-License-Identifier: Apache-2.0

"""Nodes, as objects: nothing runs on them."""

import json
from collections.abc import Mapping

from kubernetes.client import ApiClient
from kubernetes.client import ApiException
from kubernetes.client import CoreV1Api
from urllib3.exceptions import HTTPError

from tests.testbed.waiting import wait_for


class Nodes:
    """The Nodes of a control plane.

    :param api: a client that may do all.
    """

    def __init__(self, api: ApiClient) -> None:
        self._core = CoreV1Api(api)

    def create(
        self, name: str, labels: Mapping[str, str] | None = None
    ) -> None:
        """Create a Node, with an annotation: nfd-master patches those.

        nfd-master v0.18.3 fails for ever on a Node without any.

        :param name: its name.
        :param labels: its labels beside its name's.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        metadata = {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": {"sriov-rt.test/made-by": "testbed"},
        }
        self._core.create_node({"metadata": metadata})

    def delete(self, name: str) -> None:
        """Delete a Node, or do nothing when there is none.

        :param name: its name.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        try:
            self._core.delete_node(name)
        except ApiException as error:
            if error.status != 404:
                raise

    def labels(self, name: str) -> Mapping[str, str]:
        """Return all labels of a Node.

        :param name: its name.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        return dict(self._core.read_node(name).metadata.labels)

    def label(self, name: str, labels: Mapping[str, str | None]) -> str:
        """Set and remove labels, and return the new resource version.

        :param name: the Node.
        :param labels: None removes one.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        # A model of the whole Node would take longer than the request.
        answer = self._core.patch_node(
            name, {"metadata": {"labels": labels}}, _preload_content=False
        )
        return str(json.loads(answer.data)["metadata"]["resourceVersion"])

    def set_resources(
        self, name: str, resources: Mapping[str, str | None]
    ) -> None:
        """Set what a device plugin would announce, all of it free.

        :param name: the Node.
        :param resources: as in {"solarflare.com/sfc": "8"}; None removes
            one.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        self._core.patch_node_status(
            name,
            {"status": {"capacity": resources, "allocatable": resources}},
        )

    def wait_for_label(
        self, name: str, key: str, value: str | None, timeout: float = 30.0
    ) -> None:
        """Wait until a label has a value.

        :param name: the Node.
        :param key: the label.
        :param value: its value; None to wait until it is gone.
        :param timeout: seconds to wait at most.
        :raises errors.TimedOut: when it never had.
        :raises kubernetes.client.ApiException: when the API server refuses.
        """
        wait_for(
            f"{name} has {key}={json.dumps(value)}",
            lambda: self.labels(name).get(key) == value,
            timeout=timeout,
            interval=0.1,
            unanswered=HTTPError,
        )
