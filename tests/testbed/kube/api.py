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

"""A client of the API server, with the standard library."""

import http.client
import json
import ssl
import threading
import urllib.parse
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from tests.testbed import errors

_SECONDS = 30.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
#: Server-side apply; takes YAML as people write it.
APPLY = "application/apply-patch+yaml"


class _Local(threading.local):
    connection: http.client.HTTPSConnection | None = None


class Api:
    """A kept-alive connection for each thread that uses it.

    :param host: the server's address.
    :param port: its TCP port.
    :param context: whom to trust, and the certificate of the client.
    :param token: a bearer token; none when empty.
    """

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext, token: str = ""
    ) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._token = token
        self._local = _Local()

    def get(self, path: str) -> Any:
        """Return an object or a list.

        :param path: as in "/api/v1/nodes".
        :raises errors.HttpError: when the server refuses.
        :raises OSError: when it doesn't answer.
        """
        return self.call("GET", path)

    def post(self, path: str, body: object) -> Any:
        """Create an object.

        :param path: the collection.
        :param body: the object.
        :raises errors.HttpError: when the server refuses.
        :raises OSError: when it doesn't answer.
        """
        return self.call("POST", path, json.dumps(body).encode())

    def patch(self, path: str, body: object) -> Any:
        """Merge into an object; None deletes a key.

        :param path: the object.
        :param body: what is merged.
        :raises errors.HttpError: when the server refuses.
        :raises OSError: when it doesn't answer.
        """
        return self.call("PATCH", path, json.dumps(body).encode(), MERGE_PATCH)

    def delete(self, path: str) -> None:
        """Delete an object, or do nothing when there is none.

        :param path: the object.
        :raises errors.HttpError: when the server refuses.
        :raises OSError: when it doesn't answer.
        """
        try:
            self.call("DELETE", path)
        except errors.HttpError as error:
            if error.status != 404:
                raise

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = JSON,
        seconds: float = _SECONDS,
    ) -> Any:
        """Make one request, once more if a kept connection was closed.

        :param method: as in "GET".
        :param path: with its query.
        :param body: what is sent.
        :param content_type: what that is.
        :param seconds: how long each step may take.
        :returns: the JSON of the answer, or its text.
        :raises errors.HttpError: when the server refuses.
        :raises OSError: when it doesn't answer.
        """
        kept = self._local.connection is not None
        try:
            response = self._send(method, path, body, content_type, seconds)
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if kept and not isinstance(error, TimeoutError):
                return self.call(method, path, body, content_type, seconds)
            raise ConnectionError(f"{method} {path}: {error}") from error
        if response.status >= 400:
            raise errors.HttpError(
                method, path, response.status, text.decode(errors="replace")
            )
        kind = response.headers.get("Content-Type", "")
        return json.loads(text) if kind.startswith(JSON) else text.decode()

    def watch(
        self, path: str, query: Mapping[str, str], seconds: float
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a watch until the server ends it.

        Uses a connection of its own.

        :param path: the collection.
        :param query: as in {"resourceVersion": "7"}.
        :param seconds: how long the server shall keep it.
        :raises errors.HttpError: when the server refuses.
        :raises OSError: when the connection breaks.
        """
        asked = {
            **query,
            "watch": "true",
            "timeoutSeconds": str(int(seconds)),
        }
        whole = f"{path}?{urllib.parse.urlencode(asked)}"
        watcher = Api(self._host, self._port, self._context, self._token)
        try:
            response = watcher._send("GET", whole, None, JSON, seconds + 10)
            if response.status >= 400:
                raise errors.HttpError(
                    "GET", whole, response.status, response.read().decode()
                )
            while line := response.readline():
                yield json.loads(line)
        finally:
            watcher.close()

    def close(self) -> None:
        """Close this thread's connection; its next call opens another."""
        if self._local.connection is not None:
            self._local.connection.close()
            self._local.connection = None

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content_type: str,
        seconds: float,
    ) -> http.client.HTTPResponse:
        if self._local.connection is None:
            self._local.connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=seconds, context=self._context
            )
        elif self._local.connection.sock is not None:
            self._local.connection.sock.settimeout(seconds)
        headers = {"Accept": JSON, "Content-Type": content_type}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        self._local.connection.request(method, path, body, headers)
        return self._local.connection.getresponse()
