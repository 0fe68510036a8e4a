# SPDX-License-Identifier: Apache-2.0

import pathlib
import queue
import signal
import socket
import stat
import sys
import tempfile
import unittest
from unittest import mock

import grpc

from sriov_rt.host.root import Root
from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt import domain
from sriov_rt.kubevirt import server
from sriov_rt.kubevirt.domain_hook import DomainHook
from sriov_rt.service import signals
from tests.unit.kubevirt import documents

MUTATE = f"/{contract.DOMAIN_SERVICE}/MutateDomain"


class Served(unittest.TestCase):
    """A real server, and a client of gRPC's own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "domain.sock")
        self.hook = DomainHook(lambda: domain.node_facts(Root("/nowhere")))

    def start(self, call=None):
        calls = server.domain_calls(call or self.hook.mutate_domain)
        running = server.start(self.path, calls, 0o660)
        self.addCleanup(lambda: running.stop(0).wait())
        return running

    def call(self, data, method=MUTATE):
        channel = grpc.insecure_channel(f"unix:{self.path}")
        with channel:
            return channel.unary_unary(method)(data, timeout=20)

    def mutated(self, *args, **options):
        data = self.call(documents.mutate(*args, **options))
        return contract.message("MutateDomainResponse").FromString(data).domain

    def refused(self, data, method=MUTATE):
        with (
            self.assertLogs("sriov_rt", "ERROR"),
            self.assertRaises(grpc.RpcError) as caught,
        ):
            self.call(data, method)
        return caught.exception.code(), caught.exception.details()


class ServerTest(Served):
    def test_a_domain_that_asks(self):
        self.start()
        with self.assertLogs("sriov_rt", "INFO") as logs:
            found = self.mutated(documents.vmi(guest="lean"))
        self.assertNotIn(b"<video", found)
        self.assertIn("vmi=realtime/rt removed video", logs.output[0])

    def test_a_domain_that_asks_nothing_is_not_even_read(self):
        self.start()
        for domain_ in (b"", b"<half", b"\xff\0", documents.DOMAIN.encode()):
            found = self.mutated(documents.vmi(), domain=domain_, kind="x")
            self.assertEqual(domain_, found)

    def test_a_refusal_is_one_sentence(self):
        self.start()
        code, sentence = self.refused(
            documents.mutate(documents.vmi(guest="bare"))
        )
        self.assertEqual(grpc.StatusCode.FAILED_PRECONDITION, code)
        self.assertIn("guest_agent=off", sentence)

    def test_half_of_a_domain(self):
        self.start()
        code, sentence = self.refused(
            documents.mutate(documents.vmi(guest="lean"), domain="<domain>\n")
        )
        self.assertEqual(grpc.StatusCode.FAILED_PRECONDITION, code)
        self.assertIn("the domain XML is rejected", sentence)
        self.assertTrue(sentence.isprintable())

    def test_a_vmi_and_a_domain_of_hundreds_of_kilobytes(self):
        self.start()
        big = documents.vmi(guest="lean") + b" " * 200_000
        comment = f"<!--{'x' * 500_000}--></domain>"
        text = documents.DOMAIN.replace("</domain>", comment)
        self.assertNotIn(b"<video", self.mutated(big, domain=text))

    def test_a_message_beyond_the_limit(self):
        self.start()
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(b"x" * (server.MAX_MESSAGE + 1))
        self.assertEqual(
            grpc.StatusCode.RESOURCE_EXHAUSTED, caught.exception.code()
        )

    def test_what_is_no_message_of_the_contract(self):
        self.start()
        code, sentence = self.refused(b"\xff\xff")
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, code)
        self.assertIn("no MutateDomainRequest", sentence)

    def test_another_kind_of_domain(self):
        self.start()
        code, sentence = self.refused(
            documents.mutate(documents.vmi(guest="lean"), kind="ch")
        )
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, code)
        self.assertIn("'ch'", sentence)

    def test_another_version_of_the_contract(self):
        self.start()
        code, sentence = self.refused(
            b"", "/kubevirt.hooks.plugins.v1/DomainHookService/MutateDomain"
        )
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, code)
        self.assertIn(MUTATE, sentence)

    def test_on_a_migrations_target_nothing_is_changed(self):
        self.start()
        for text in (documents.DOMAIN, "<half"):
            found = self.mutated(
                documents.vmi(guest="lean"),
                domain=text,
                context=contract.MIGRATION_TARGET,
            )
            self.assertEqual(text.encode(), found)

    def test_a_fault_of_ours_fails_who_asks(self):
        self.start(mock.Mock(side_effect=RuntimeError("a\nb")))
        code, sentence = self.refused(b"")
        self.assertEqual(grpc.StatusCode.INTERNAL, code)
        self.assertIn("RuntimeError: a b", sentence)

    def test_a_long_sentence_is_cut(self):
        self.start(mock.Mock(side_effect=RuntimeError("µ" * 100_000)))
        _, sentence = self.refused(b"")
        self.assertTrue(sentence.endswith("..."))

    def test_the_socket_is_the_pods(self):
        self.start()
        mode = self.path.lstat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(0o660, stat.S_IMODE(mode))


class SocketTest(Served):
    def unusable(self, part):
        with self.assertRaises(server.SocketUnusable) as caught:
            self.start()
        self.assertIn(part, str(caught.exception))

    def test_a_socket_that_was_left_is_replaced(self):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(self.path))
        self.start()
        self.mutated(documents.vmi())

    def test_a_socket_in_use_is_not(self):
        with socket.socket(socket.AF_UNIX) as used:
            used.bind(str(self.path))
            used.listen()
            self.unusable("another server listens")

    def test_a_link_or_a_file_in_its_place(self):
        target = self.path.with_name("target")
        target.write_text("precious")
        self.path.symlink_to(target)
        self.unusable("a link or a file")
        self.assertEqual("precious", target.read_text())
        self.path.unlink()
        self.path.write_text("precious")
        self.unusable("a link or a file")

    def test_a_directory_that_is_a_link_or_missing(self):
        real = self.path.parent
        link = real / "link"
        link.symlink_to(real)
        self.path = link / "domain.sock"
        self.unusable("directory is a link")
        self.path = real / "missing" / "domain.sock"
        self.unusable("is missing")

    def test_a_path_that_no_socket_can_have(self):
        self.path = self.path.with_name("x" * 120)
        self.unusable("107 bytes")


class RunTest(unittest.TestCase):
    def test_it_sweeps_until_it_is_stopped(self):
        stops, running = [], mock.Mock()
        faults = [OSError("gone"), server.SocketUnusable(pathlib.Path(), "x")]

        def sweep():
            if faults:
                raise faults.pop()
            stops.append(True)

        with self.assertLogs("sriov_rt", "ERROR") as logs:
            server.run(running, lambda seconds: bool(stops), sweep, 0.001)
        self.assertEqual(2, len(logs.output))
        running.stop.assert_called_once()

    def test_a_signal_ends_it_wherever_it_comes(self):
        # An Event would be locked by the thread itself at some of these.
        self.addCleanup(
            signal.signal, signal.SIGUSR1, signal.getsignal(signal.SIGUSR1)
        )
        for number in range(1, 60):
            received, running = queue.SimpleQueue(), mock.Mock()
            signal.signal(
                signal.SIGUSR1, lambda sent, _, q=received: q.put(sent)
            )
            sys.settrace(raising_at(number))
            try:
                server.run(
                    running,
                    lambda seconds, q=received: signals.within(q, seconds),
                    lambda: None,
                    0.01,
                )
            finally:
                sys.settrace(None)
            running.stop.assert_called_once()


def raising_at(number):
    """Return a function for settrace: a signal comes at the n-th line."""
    seen = 0

    def trace(frame, event, argument):
        nonlocal seen
        seen += 1
        if seen == number:
            sys.settrace(None)
            signal.raise_signal(signal.SIGUSR1)
        return trace

    return trace
