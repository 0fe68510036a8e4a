# SPDX-License-Identifier: Apache-2.0

"""HTTP server of the metrics endpoint, bounded in connections and time.

prometheus_client's own server starts a thread for each connection and waits
for its request for ever: a thousand silent connections use up the agent's
file descriptors, and its facts become unknown.
"""

import socket
import socketserver
import threading
from typing import Any
from wsgiref import simple_server

#: Connections that are served at a time, which bounds their descriptors.
CONNECTIONS = 8
#: Seconds that a connection may last.
WHOLE_S = 10.0


class _Handler(simple_server.WSGIRequestHandler):
    """Serves a request without logging it."""

    timeout = WHOLE_S

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """Server of a WSGI application.

    A connection beyond CONNECTIONS is closed at once, so that the client tries
    again; a connection that lasts longer than WHOLE_S is cut off.

    :param address: address and port to listen on.
    :raises OSError: if it is impossible to listen there.
    """

    daemon_threads = True
    # _free limits the threads; none is joined.
    block_on_close = False

    def __init__(self, address: tuple[str, int], application: Any) -> None:
        self.address_family, _, _, _, found = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM
        )[0]
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__(found[:2], _Handler)  # type: ignore[arg-type]
        self.set_app(application)

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(
            target=self.serve_forever, name="sriov-rt-metrics", daemon=True
        ).start()

    def stop(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        """Bind without a DNS query for the host's name."""
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; close it if there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(
        self, request: Any, client_address: Any
    ) -> None:
        """Serve a connection until it ends or its time limit expires."""
        limit = threading.Timer(WHOLE_S, _cut_off, (request,))
        limit.daemon = True
        limit.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about a client that has gone or was cut off."""


def _cut_off(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the connection has ended by itself
