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

"""Requests to servers that are no good."""

import contextlib
import functools
import json
import pathlib
import socket
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from unittest import mock

from sriov_rt.kubernetes import node
from sriov_rt.kubernetes import problems
from sriov_rt.kubernetes.connection import Settings
from sriov_rt.kubernetes.http import NodeApi

Conversation = Callable[[socket.socket], None]

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BOOKMARK = json.dumps(
    {
        "type": "BOOKMARK",
        "object": {"metadata": {"resourceVersion": "7"}},
    }
).encode()
LISTING = json.dumps(
    {"kind": "NodeList", "metadata": {"resourceVersion": "5"}, "items": []}
).encode()


class Server:
    """Answers each connection by the next of its conversations."""

    def __init__(self, *conversations: Conversation) -> None:
        self.requests: list[bytes] = []
        self._conversations = list(conversations)
        self._open: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        for each in self._open:
            each.close()

    def _run(self) -> None:
        for conversation in self._conversations:
            try:
                peer, _ = self._socket.accept()
                self._open.append(peer)
                request = b""
                while b"\r\n\r\n" not in request:
                    request += peer.recv(65536)
                self.requests.append(request)
                conversation(peer)
            except OSError:
                # Whoever asked has had enough, or the test is over.
                continue


def answers(head: bytes, body: bytes = b"") -> Conversation:
    """Return a conversation of one answer, after which it hangs up."""

    def conversation(peer: socket.socket) -> None:
        peer.sendall(
            b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (head, len(body), body)
        )
        peer.close()

    return conversation


def streams(*pieces: bytes | float, end: bool = True) -> Conversation:
    """Return a conversation of chunks, and of pauses in seconds."""

    def conversation(peer: socket.socket) -> None:
        peer.sendall(CHUNKED)
        for piece in pieces:
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                peer.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        if end:
            peer.sendall(b"0\r\n\r\n")
            peer.close()

    return conversation


def silent(peer: socket.socket) -> None:
    """Say nothing, and do not hang up."""


class HttpTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.token = pathlib.Path(place.name) / "token"
        self.token.write_text("one\n")
        environment = mock.patch.dict("os.environ", {"no_proxy": "*"})
        environment.start()
        self.addCleanup(environment.stop)

    def api(self, *conversations, read_timeout_s=1.0):
        self.server = Server(*conversations)
        self.addCleanup(self.server.close)
        return NodeApi(
            Settings(
                node_name="h",
                kubeconfig=None,
                context=None,
                api_server=self.server.url,
                token_file=str(self.token),
                ca_file=None,
                connect_timeout_s=1.0,
                read_timeout_s=read_timeout_s,
                watch_timeout_s=1,
            )
        )

    def assertEnds(self, seconds, problem, call):
        began = time.monotonic()
        with self.assertRaises(problem) as caught:
            call()
        self.assertLess(time.monotonic() - began, seconds)
        return caught.exception

    def watch(self, api):
        return [each.kind for each in api.watch("5")]

    def test_what_is_asked(self):
        api = self.api(answers(b"200 OK", LISTING), streams(BOOKMARK + b"\n"))
        self.assertEqual(node.Listing("5", None), api.list())
        self.assertEqual(
            [node.Kind.OPENED, node.Kind.BOOKMARK], self.watch(api)
        )
        first, second = self.server.requests
        self.assertIn(b"fieldSelector=metadata.name%3Dh", first)
        self.assertIn(b"authorization: Bearer one\r\n", first)
        for word in (b"watch=true", b"resourceVersion=5", b"timeoutSeconds=1"):
            self.assertIn(word, second)

    def test_events_come_one_by_one_however_they_are_cut(self):
        line = BOOKMARK + b"\n"
        api = self.api(
            streams(line[:10], line[10:] + line + line[:1], line[1:], end=True)
        )
        self.assertEqual([node.Kind.BOOKMARK] * 3, self.watch(api)[1:])

    def test_an_event_does_not_wait_for_the_next(self):
        api = self.api(streams(BOOKMARK + b"\n", 0.8, end=True))
        events = api.watch("5")
        next(events)
        began = time.monotonic()
        self.assertEqual(node.Kind.BOOKMARK, next(events).kind)
        self.assertLess(time.monotonic() - began, 0.5)
        self.assertEqual([], list(events))

    def test_silence_instead_of_an_answer(self):
        api = self.api(silent, silent)
        self.assertEnds(1.9, problems.Unreachable, api.list)
        self.assertEnds(1.9, problems.Unreachable, lambda: self.watch(api))

    def test_silence_in_a_watch(self):
        api = self.api(streams(BOOKMARK + b"\n", end=False))
        # The watch's own second, and one to wait.
        self.assertEnds(2.9, problems.Unreachable, lambda: self.watch(api))

    def test_an_answer_that_drips(self):
        drips = (b" ", 0.2) * 30
        api = self.api(streams(*drips), streams(*drips))
        self.assertEnds(1.9, problems.Unreachable, api.list)
        self.assertEnds(2.9, problems.Unreachable, lambda: self.watch(api))

    def test_an_answer_without_an_end(self):
        megabyte = b"x" * (1024 * 1024)
        for call in ("list", "watch"):
            api = self.api(streams(*[megabyte] * 8), read_timeout_s=10.0)
            with self.subTest(call=call), self.assertRaises(node.Garbled):
                api.list() if call == "list" else self.watch(api)

    def test_a_connection_that_breaks(self):
        def cut(peer):
            peer.sendall(CHUNKED + b"ff\r\nxx")
            peer.close()

        def nothing(peer):
            peer.close()

        for conversation in (cut, nothing, answers(b"nonsense")):
            watch = functools.partial(self.watch, self.api(conversation))
            self.assertEnds(1.9, problems.ApiProblem, watch)

    def test_nobody_there(self):
        api = self.api()
        self.server.close()
        problem = self.assertEnds(1.5, problems.Unreachable, api.list)
        self.assertIn("refused", str(problem))
        self.assertNotIn(" at 0x", str(problem))

    def test_refusals(self):
        for head, problem, words in (
            (b"401 Unauthorized", problems.CredentialsRefused, "renew"),
            (b"403 Forbidden", problems.Forbidden, "why not"),
            (b"410 Gone", problems.Expired, "again"),
            (b"500 Oops", problems.Refused, "why not"),
            (b"302 Found\r\nLocation: /", problems.Refused, "302"),
        ):
            api = self.api(answers(head, b'{"message": "why not"}'))
            with self.subTest(head=head):
                found = self.assertEnds(1.9, problem, api.list)
                self.assertIn(words, str(found))

    def test_refusals_in_no_words(self):
        for body in (b"", b"{", b"[]", b'{"message": 5}', b"\xff" * 100_000):
            api = self.api(answers(b"503 Busy", body))
            self.assertEnds(1.9, problems.Refused, api.list)

    def test_retry_after(self):
        head = b"429 Too Many Requests\r\nRetry-After: "
        for value, seconds in ((b"7", 7.0), (b"x", 0.0), (b"9" * 9, 3600.0)):
            api = self.api(answers(head + value))
            found = self.assertEnds(1.9, problems.Refused, api.list)
            self.assertEqual(seconds, found.retry_after_s)

    def test_a_token_is_read_again_when_it_changes(self):
        api = self.api(*[answers(b"200 OK", LISTING)] * 2)
        api.list()
        self.token.write_text("another\n")
        api.list()
        self.assertIn(b"Bearer another\r\n", self.server.requests[1])

    def test_a_token_that_is_none(self):
        api = self.api()
        for text in ("", "two\nlines", "\x00", "é"):
            self.token.write_text(text)
            with self.subTest(text=text):
                problem = self.assertEnds(
                    1.0, problems.CredentialsUnreadable, api.list
                )
                self.assertIn("correct [kubernetes]", str(problem))
        self.token.unlink()
        self.assertEnds(1.0, problems.CredentialsUnreadable, api.list)

    def test_a_kubeconfig_that_is_none(self):
        for text in (None, "", "{", "[]", "clusters: 5", "\x00", "a: &a [*a]"):
            path = self.token.with_name("config")
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
            settings = Settings(
                "h", str(path), None, None, None, None, 1.0, 1.0, 1
            )
            with self.subTest(text=text):
                self.assertEnds(
                    2.0,
                    problems.CredentialsUnreadable,
                    NodeApi(settings).list,
                )

    def test_outside_of_a_pod_there_is_no_service_account(self):
        settings = Settings("h", None, None, None, None, None, 1.0, 1.0, 1)
        self.assertEnds(
            2.0, problems.CredentialsUnreadable, NodeApi(settings).list
        )

    def test_interrupt_ends_a_watch(self):
        api = self.api(
            streams(BOOKMARK + b"\n", end=False), read_timeout_s=20.0
        )
        events = api.watch("5")
        next(events)
        next(events)
        threading.Timer(0.2, api.interrupt).start()
        began = time.monotonic()
        with contextlib.suppress(problems.Unreachable):
            list(events)
        self.assertLess(time.monotonic() - began, 5.0)
