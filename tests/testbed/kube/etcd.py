# SPDX-License-Identifier: Apache-2.0

"""etcd on loopback, and its history."""

import base64
import http.client
import json
from typing import Any

from tests.testbed import errors
from tests.testbed import paths
from tests.testbed.kube.ports import Ports
from tests.testbed.service import Service

_SECONDS = 10.0
#: A key that Kubernetes doesn't look at, for etcd's gateway to JSON.
_KEY = base64.b64encode(b"sriov-rt/compacted").decode()


class Etcd:
    """The store of one control plane; it forgets all when it is wiped.

    :param place: the directories of the control plane.
    :param ports: its ports.
    :param environment: what it runs with.
    """

    def __init__(
        self, place: paths.Paths, ports: Ports, environment: dict[str, str]
    ) -> None:
        self._place = place
        self._ports = ports
        self._environment = environment

    @property
    def url(self) -> str:
        """Return where clients connect to."""
        return f"http://127.0.0.1:{self._ports.of('etcd')}"

    @property
    def service(self) -> Service:
        """Return the process."""
        peers = f"http://127.0.0.1:{self._ports.of('etcd-peers')}"
        return Service(
            name="etcd",
            command=(
                "etcd",
                f"--data-dir={self._place.data / 'etcd'}",
                f"--listen-client-urls={self.url}",
                f"--advertise-client-urls={self.url}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                # Nothing of it has to survive the machine.
                "--unsafe-no-fsync",
            ),
            environment=self._environment,
            ready=self._healthy,
        )

    def compact(self) -> int:
        """Begin a new revision, forget all before it, and return it.

        Only now nfd-master v0.18.3 sees what changed while the API server
        was away: it lists with a limit and the version that it knew last,
        which means exactly that version (Kubernetes' API concepts). API
        servers compact every five minutes if nobody tells them not to.

        :raises errors.TestbedError: when etcd refuses.
        :raises OSError: when it doesn't answer.
        """
        written = self._ask("/v3/kv/put", {"key": _KEY, "value": _KEY})
        newest = int(written["header"]["revision"])
        self._ask("/v3/kv/compaction", {"revision": newest, "physical": True})
        return newest

    def _healthy(self) -> bool:
        answer = self._call("GET", "/health", None)
        return bool(answer.get("health") == "true")

    def _ask(self, path: str, body: object) -> Any:
        return self._call("POST", path, json.dumps(body))

    def _call(self, method: str, path: str, body: str | None) -> Any:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._ports.of("etcd"), timeout=_SECONDS
        )
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
        if response.status >= 400:
            raise errors.TestbedError(
                f"etcd answered {response.status} to {method} {path}: {text}"
            )
        return json.loads(text)
