# SPDX-License-Identifier: Apache-2.0

"""Requests to an API server, and to servers that are none."""

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

import kubernetes

from sriov_rt.kubernetes import errors
from sriov_rt.kubernetes import node
from sriov_rt.kubernetes.api import NodeApi
from sriov_rt.kubernetes.api import Settings
from tests.unit import signatures
from tests.unit.kubernetes.test_node_labels import FakeApi

Conversation = Callable[[socket.socket], None]

#: Seconds in which what ends by itself has ended, on a busy machine too; what
#: hangs is there until the test is.
PATIENCE = 30.0
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


class FakeTest(unittest.TestCase):
    def test_the_unit_tests_api_is_as_this_one(self) -> None:
        self.assertEqual([], signatures.differences(FakeApi, NodeApi))
        self.assertEqual(set(), signatures.missing(FakeApi, NodeApi))


class ApiTest(unittest.TestCase):
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

    def assertEnds(self, problem, call):
        began = time.monotonic()
        with self.assertRaises(problem) as caught:
            call()
        self.assertLess(time.monotonic() - began, PATIENCE)
        return caught.exception

    def watched(self, *conversations, **settings):
        """Return an API that has listed the Node and can watch it."""
        api = self.api(answers(b"200 OK", LISTING), *conversations, **settings)
        self.assertEqual(node.Listing("5", None), api.list())
        return api

    def watch(self, api):
        return [each.type for each in api.watch("5")]

    def test_what_is_requested(self):
        api = self.watched(streams(BOOKMARK + b"\n"))
        self.assertEqual([node.BOOKMARK], self.watch(api))
        first, second = self.server.requests
        for request in (first, second):
            self.assertIn(b"fieldSelector=metadata.name%3Dh", request)
            self.assertIn(b"authorization: Bearer one\r\n", request)
        for word in (
            b"watch=True",
            b"resourceVersion=5",
            b"timeoutSeconds=1",
            b"allowWatchBookmarks=True",
        ):
            self.assertIn(word, second)

    def test_events_come_one_by_one_however_they_are_cut(self):
        line = BOOKMARK + b"\n"
        api = self.watched(
            streams(line[:10], line[10:] + line + line[:1], line[1:], end=True)
        )
        self.assertEqual([node.BOOKMARK] * 3, self.watch(api))

    def test_an_event_does_not_wait_for_the_next(self):
        api = self.watched(
            streams(BOOKMARK + b"\n", 9.0, end=True), read_timeout_s=30.0
        )
        began = time.monotonic()
        events = api.watch("5")
        self.assertEqual(node.BOOKMARK, next(events).type)
        self.assertLess(time.monotonic() - began, 9.0)
        self.assertEqual([], list(events))

    def test_silence_instead_of_an_answer(self):
        self.assertEnds(errors.Unreachable, self.api(silent).list)
        api = self.watched(silent)
        # The watch's own second, and one to wait.
        self.assertEnds(errors.Unreachable, lambda: self.watch(api))

    def test_silence_in_a_watch(self):
        api = self.watched(streams(BOOKMARK + b"\n", end=False))
        self.assertEnds(errors.Unreachable, lambda: self.watch(api))

    def test_a_version_that_expired(self):
        gone = {
            "type": "ERROR",
            "object": {
                "code": 410,
                "reason": "Expired",
                "message": "too old resource version",
            },
        }
        for conversation in (
            streams(json.dumps(gone).encode() + b"\n"),
            answers(b"410 Gone", b'{"message": "too old"}'),
        ):
            watch = functools.partial(self.watch, self.watched(conversation))
            self.assertEnds(errors.Expired, watch)

    def test_answers_that_are_no_api_servers(self):
        for body in (b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"kind":1}'):
            api = self.api(answers(b"200 OK", body))
            with self.subTest(body=body[:10]):
                self.assertEnds(errors.Garbled, api.list)
        for line in (b"{", b"[]", b"5", b'{"type": "ERROR"}', b"[" * 100_000):
            watch = functools.partial(
                self.watch, self.watched(streams(line + b"\n"))
            )
            with self.subTest(line=line[:10]):
                self.assertEnds(errors.Garbled, watch)

    def test_a_connection_that_breaks(self):
        def cut(peer):
            peer.sendall(CHUNKED + b"ff\r\nxx")
            peer.close()

        def nothing(peer):
            peer.close()

        for conversation in (cut, nothing, answers(b"nonsense")):
            api = self.watched(conversation)
            watch = functools.partial(self.watch, api)
            self.assertEnds(errors.ApiProblem, watch)

    def test_nobody_there(self):
        api = self.api()
        self.server.close()
        problem = self.assertEnds(errors.Unreachable, api.list)
        self.assertIn("refused", str(problem))
        self.assertNotIn(" at 0x", str(problem))

    def test_refusals(self):
        for head, problem, words in (
            (b"401 Unauthorized", errors.CredentialsRefused, "renew"),
            (b"403 Forbidden", errors.Forbidden, "why not"),
            (b"410 Gone", errors.Expired, "again"),
            (b"500 Oops", errors.Refused, "why not"),
            # urllib3 2 does not follow it here, and 1.26 does.
            (b"302 Found\r\nLocation: /", errors.ApiProblem, "API server"),
        ):
            api = self.api(answers(head, b'{"message": "why not"}'))
            with self.subTest(head=head):
                found = self.assertEnds(problem, api.list)
                self.assertIn(words, str(found))

    def test_refusals_in_no_words(self):
        for body in (b"", b"{", b"[]", b'{"message": 5}', b"x" * 100_000):
            api = self.api(answers(b"503 Busy", body))
            self.assertEnds(errors.Refused, api.list)
        api = self.api(answers(b"503 Busy", b"\xff" * 100_000))
        problem = self.assertEnds(errors.ApiProblem, api.list)
        self.assertLess(len(str(problem)), 500)

    def test_retry_after(self):
        head = b"429 Too Many Requests\r\nRetry-After: "
        for value, seconds in ((b"7", 7.0), (b"x", 0.0), (b"9" * 9, 3600.0)):
            api = self.api(answers(head + value))
            found = self.assertEnds(errors.Refused, api.list)
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
                    errors.CredentialsUnreadable, api.list
                )
                self.assertIn("correct [kubernetes]", str(problem))
        self.token.unlink()
        self.assertEnds(errors.CredentialsUnreadable, api.list)

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
                    errors.CredentialsUnreadable,
                    NodeApi(settings).list,
                )

    def test_outside_of_a_pod_there_is_no_service_account(self):
        settings = Settings("h", None, None, None, None, None, 1.0, 1.0, 1)
        self.assertEnds(errors.CredentialsUnreadable, NodeApi(settings).list)

    @unittest.skipUnless(
        int(kubernetes.__version__.split(".")[0]) >= 36,
        "a client before 36.0 waits for the next event",
    )
    def test_interrupt_ends_a_watch(self):
        api = self.watched(
            streams(BOOKMARK + b"\n", end=False), read_timeout_s=90.0
        )
        events = api.watch("5")
        next(events)
        threading.Timer(0.2, api.interrupt).start()
        began = time.monotonic()
        with contextlib.suppress(errors.Unreachable):
            list(events)
        self.assertLess(time.monotonic() - began, PATIENCE)
