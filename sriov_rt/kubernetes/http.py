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

"""One Node, asked for over HTTP.

Not by the package's own client, which waits without end, reads answers of any
length, and makes of a Node some hundred objects of which labels are one.
"""

import contextlib
import json
import random
import re
import time
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import urllib3

from sriov_rt.kubernetes import node
from sriov_rt.kubernetes import problems
from sriov_rt.kubernetes.connection import MAX_MESSAGE
from sriov_rt.kubernetes.connection import Connection
from sriov_rt.kubernetes.connection import Settings

#: Bytes that are read at a time.
PIECE = 65536

#: urllib3 names the connection by its address in memory.
_OBJECT = re.compile(r"<[^<>]* at 0x[0-9a-f]+>:? ?")


class NodeApi:
    """List and watch one Node. To be used by one thread.

    :param settings: see there.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connection: Connection | None = None
        self._response: Any = None

    def list(self) -> node.Listing:
        """Return the Node as it is now, by the API server's own quorum.

        :raises ApiProblem: if the API server does not tell.
        :raises Garbled: if it tells nonsense.
        """
        seconds = self._settings.read_timeout_s
        with self._get({"limit": "2"}) as response:
            data = bytearray()
            for piece in _pieces(response, time.monotonic() + seconds):
                data += piece
                if len(data) > node.MAX_OBJECT:
                    break
            return node.parse_listing(bytes(data))

    def watch(self, version: str) -> Iterator[node.Event]:
        """Yield what happens to the Node, until the API server ends it.

        The first event is that the API server has taken the request.

        :param version: resourceVersion to begin after.
        :raises ApiProblem: if the API server does not tell.
        :raises Garbled: if it tells nonsense.
        """
        longest_s = self._settings.watch_timeout_s
        # Watches that began together, after an outage, drift apart.
        lasts_s = random.randint(-(-3 * longest_s // 4), longest_s)  # noqa: S311
        seconds = lasts_s + self._settings.read_timeout_s
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(lasts_s),
        }
        with self._get(query) as response:
            deadline = time.monotonic() + seconds
            # Up to here an answer was due; now silence is none.
            if (sock := response.connection.sock) is not None:
                sock.settimeout(seconds)
            yield node.Event(node.Kind.OPENED, version)
            for line in _lines(_pieces(response, deadline)):
                yield node.parse_event(line)

    def interrupt(self) -> None:
        """End a request that is under way; from any thread."""
        response = self._response
        if response is not None:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                response.shutdown()

    @contextlib.contextmanager
    def _get(self, query: Mapping[str, str]) -> Iterator[Any]:
        """Make a request; what fails while it is read is a problem too."""
        name = self._settings.node_name
        fields = {"fieldSelector": f"metadata.name={name}", **query}
        timeout = urllib3.Timeout(
            connect=self._settings.connect_timeout_s,
            read=self._settings.read_timeout_s,
        )
        response = None
        try:
            connection = self._connected()
            response = connection.get("/api/v1/nodes", fields, timeout)
            self._response = response
            if response.status != 200:
                raise _refusal(response)
            yield response
        except problems.CredentialsRefused:
            # What is on disk may be newer than what was read.
            self._disconnect()
            raise
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._disconnect()
            raise problems.Unreachable(_why(error)) from error
        finally:
            self._response = None
            if response is not None:
                # Closed, not given back: a watch may be cut off anywhere.
                response.close()

    def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and connection.is_current():
            return connection
        self._disconnect()
        self._connection = Connection(self._settings)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _pieces(response: Any, deadline: float) -> Iterator[bytes]:
    """Yield the body as it comes.

    :raises Unreachable: if it is still coming at the deadline (monotonic,
        seconds): one byte a second is no answer.
    """
    while piece := response.read1(PIECE):
        yield piece
        if time.monotonic() > deadline:
            raise problems.Unreachable("its answer does not end")


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = bytearray()
    for piece in pieces:
        rest += piece
        if b"\n" not in piece:
            if len(rest) > node.MAX_OBJECT:
                raise node.Garbled(f"a line above {node.MAX_OBJECT} bytes")
            continue
        *lines, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        yield from (line for line in lines if line.strip())


def _refusal(response: Any) -> problems.ApiProblem:
    status = response.status
    message = _message(response.read(PIECE)) or response.reason or "no reason"
    if status == 401:
        return problems.CredentialsRefused()
    if status == 403:
        return problems.Forbidden(message)
    if status == problems.GONE:
        return problems.Expired()
    after = response.headers.get("Retry-After", "")
    seconds = float(after) if after.isascii() and after.isdigit() else 0.0
    return problems.Refused(status, message, min(seconds, 3600.0))


def _message(body: bytes) -> str:
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    found = plain.get("message") if type(plain) is dict else None
    text = found if type(found) is str else ""
    return "".join(each for each in text if each.isprintable())[:MAX_MESSAGE]


def _why(error: Exception) -> str:
    text = _OBJECT.sub("", str(error)).strip()
    return f"{type(error).__name__}: {text}"[:MAX_MESSAGE]
