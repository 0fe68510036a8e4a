# SPDX-License-Identifier: Apache-2.0

import math
import sys
import tempfile
import types
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt.config import OptionRejected
from sriov_rt.kubernetes import errors
from sriov_rt.kubernetes import node_labels
from sriov_rt.kubernetes.node import BOOKMARK
from sriov_rt.kubernetes.node import DELETED
from sriov_rt.kubernetes.node import Event
from sriov_rt.kubernetes.node import Listing
from sriov_rt.labels.label_source import LabelSourceMissing
from sriov_rt.labels.label_source import Wiring
from sriov_rt.service.backoff import Backoff
from tests.unit import imports
from tests.unit.labels import fakes

NFD = "feature.node.kubernetes.io/"
CARD = {NFD + "pci-1924.present": "true", NFD + "kernel-version.major": "6"}
NO_CARD = {NFD + "kernel-version.major": "6"}


class FakeModule(types.ModuleType):
    """Stands for ``sriov_rt.kubernetes.api``."""

    Settings = types.SimpleNamespace

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.NodeApi = mock.Mock()


class MakeTest(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        self.conf.register_opts([cfg.StrOpt("host", default="Compute-7")])
        self.conf([])

    def settings(self):
        api = FakeModule("api")
        wiring = Wiring(self.conf, mock.Mock(), mock.Mock())
        # Both as imported and as an attribute of the room.
        with (
            imports.replaced("sriov_rt.kubernetes.api", api),
            mock.patch.multiple("sriov_rt.kubernetes", create=True, api=api),
        ):
            node_labels.make(wiring)
        return api.NodeApi.call_args.args[0]

    def test_an_option_that_cannot_be_is_refused_at_the_start(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("[kubernetes]\ntoken_file = token\n")
            file.flush()
            self.conf([], default_config_files=[file.name])
        with self.assertRaises(OptionRejected) as caught:
            self.settings()
        self.assertIn("[kubernetes] token_file", str(caught.exception))

    def test_the_node_is_named_as_the_host_in_lower_case(self):
        self.assertEqual("compute-7", self.settings().node_name)

    def test_settings_are_the_options(self):
        # Registers the options.
        self.settings()
        for name, value in {
            "node_name": "n",
            "kubeconfig": "/k",
            "watch_timeout": 7,
            "read_timeout": 3.0,
        }.items():
            self.conf.set_override(name, value, group="kubernetes")
        found = self.settings()
        self.assertEqual(
            ("n", "/k", 7, 3.0),
            (
                found.node_name,
                found.kubeconfig,
                found.watch_timeout_s,
                found.read_timeout_s,
            ),
        )

    def test_without_the_package_the_remedy_is_named(self):
        with (
            mock.patch.dict(sys.modules, {"kubernetes": None}),
            imports.replaced("sriov_rt.kubernetes.api", None),
            self.assertRaises(LabelSourceMissing) as caught,
        ):
            wiring = Wiring(self.conf, mock.Mock(), mock.Mock())
            node_labels.make(wiring)
        self.assertIn("sriov-rt[kubernetes]", str(caught.exception))


def modified(labels):
    return Event("MODIFIED", labels)


class FakeApi:
    """An API server that plays a script: one entry a request.

    A list is answered with labels, None for no Node; a watch with a list of
    Events and of numbers, which are seconds that pass; or either with a
    problem.
    """

    def __init__(self, clock):
        self._clock = clock
        self.script = []
        self.requests = []
        self.interrupted = False

    def list(self):
        self.requests.append("list")
        return Listing(str(len(self.requests)), self._next())

    def watch(self, version):
        self.requests.append(f"watch {version}")
        for each in self._next():
            if isinstance(each, Exception):
                raise each
            if isinstance(each, Event):
                yield each
            else:
                self._clock.now += each

    def interrupt(self):
        self.interrupted = True

    def _next(self):
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class NodeLabelsTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.api = FakeApi(self.clock)
        self.changes = 0
        self.source = node_labels.NodeLabels(
            self.api,
            "h",
            Backoff(1.0, 30.0, uniform=max),
            self.changed,
            self.fail,
            monotonic=self.clock.monotonic,
        )

    def changed(self):
        self.changes += 1

    def play(self, *script):
        """Play a script to its end; return the last step's delay."""
        self.api.script = list(script)
        self.api.requests = []
        while self.api.script:
            delay_s = self.source.step()
        return delay_s

    def begin(self, labels=CARD, known=None):
        if known is not None:
            with mock.patch.object(self.source.worker, "start"):
                self.source.start(known)
        return self.play(labels, [10.0])

    def test_listed_then_watched_from_there(self):
        delay_s = self.begin()
        self.assertEqual(["list", "watch 1"], self.api.requests)
        answer = self.source.read()
        self.assertEqual(CARD, answer.labels)
        self.assertIsNone(answer.problem)
        self.assertEqual(self.clock.now, answer.confirmed)
        self.assertEqual(1, self.changes)
        self.assertEqual(0.0, delay_s)

    def test_events_move_the_labels(self):
        self.play(CARD, [modified(NO_CARD), 5.0])
        self.assertEqual(NO_CARD, self.source.read().labels)
        self.assertEqual(2, self.changes)

    def test_what_leaves_the_labels_wakes_nobody(self):
        self.begin()
        before = self.source.read()
        self.play(dict(CARD), [modified(dict(CARD)), 5.0])
        self.assertIs(before.labels, self.source.read().labels)
        self.assertEqual(1, self.changes)

    def test_bookmarks_confirm(self):
        self.play(
            CARD,
            [60.0, Event(BOOKMARK), 30.0, errors.Unreachable("x")],
        )
        self.assertEqual(self.clock.now - 30.0, self.source.read().confirmed)

    def test_an_outage_keeps_labels_and_confirms_nothing(self):
        self.begin()
        confirmed = self.source.read().confirmed
        down = errors.Unreachable("Connection refused")
        delays = [self.play(down) for _ in range(7)]
        self.assertEqual([1, 2, 4, 8, 16, 30, 30], delays)
        answer = self.source.read()
        self.assertEqual(CARD, answer.labels)
        self.assertEqual(confirmed, answer.confirmed)
        self.assertIn("check that it runs", answer.problem)
        self.assertEqual(2, self.changes)
        self.clock.now += 60
        self.begin()
        self.assertIsNone(self.source.read().problem)
        self.assertEqual(1, self.play(down))

    def test_a_watch_that_breaks_after_a_while_begins_the_delays_again(self):
        broken = [60.0, errors.Unreachable("reset by peer")]
        self.assertEqual([1, 1], [self.play(CARD, broken) for _ in range(2)])

    def test_an_expired_version_is_listed_again_but_not_without_a_pause(self):
        self.begin()
        gone = [errors.Expired()]
        delays = [self.play(CARD, gone) for _ in range(3)]
        self.assertEqual([1, 2, 4], delays)
        with self.assertLogs(node_labels.LOG, "DEBUG") as logged:
            self.play(CARD, gone, NO_CARD, [5.0])
        self.assertIn("listed again", logged.output[0])
        self.assertEqual(NO_CARD, self.source.read().labels)

    def test_each_refusal_names_its_remedy(self):
        self.begin()
        for problem, words in (
            (errors.CredentialsRefused(), "renew its certificate"),
            (errors.Forbidden("no"), "let it get, list and watch"),
            (errors.CredentialsUnreadable("no"), "correct [kubernetes]"),
            (errors.Garbled("no JSON"), "see what answers"),
        ):
            self.play(problem)
            self.assertIn(words, self.source.read().problem)
            self.assertEqual(CARD, self.source.read().labels)
        self.begin()
        self.assertIsNone(self.source.read().problem)

    def test_retry_after_is_kept(self):
        self.begin()
        busy = errors.Refused(429, "too many", retry_after_s=20.0)
        self.assertEqual(20.0, self.play(busy))

    def test_watches_that_end_at_once_are_a_failure(self):
        delays = [self.play(CARD, []) for _ in range(3)]
        self.assertEqual([1, 2, 4], delays)
        self.assertIn("at once", self.source.read().problem)

    def test_a_node_that_is_deleted_and_comes_back(self):
        self.begin()
        confirmed = self.source.read().confirmed
        self.play(CARD, [5.0, Event(DELETED, CARD), 60.0], None, [60.0])
        answer = self.source.read()
        self.assertEqual(CARD, answer.labels)
        self.assertIn("there is no Node 'h'", answer.problem)
        self.assertLess(answer.confirmed, confirmed + 6.0)
        self.play(None, [Event("ADDED", NO_CARD), 1.0])
        self.assertEqual(NO_CARD, self.source.read().labels)
        self.assertIsNone(self.source.read().problem)

    def test_a_node_that_was_never_there(self):
        self.begin(labels=None)
        answer = self.source.read()
        self.assertIsNone(answer.labels)
        self.assertEqual(-math.inf, answer.confirmed)
        self.assertIn("node_name", answer.problem)

    def test_all_labels_of_nfd_gone_is_nfd_gone(self):
        self.begin(labels=CARD | {"zone": "a"})
        self.play(CARD | {"zone": "a"}, [modified({"zone": "b"}), 60.0])
        answer = self.source.read()
        self.assertEqual(CARD | {"zone": "a"}, answer.labels)
        self.assertIn("nfd-master", answer.problem)
        self.play({"zone": "b"}, [modified(NO_CARD), 1.0])
        self.assertEqual(NO_CARD, self.source.read().labels)

    def test_the_same_after_a_restart(self):
        self.begin(labels={"zone": "b"}, known=CARD)
        self.assertIsNone(self.source.read().labels)
        self.assertIn("nfd-master", self.source.read().problem)

    def test_a_node_that_nfd_never_knew_is_none_of_its(self):
        self.begin(labels={"zone": "b"})
        self.assertEqual({"zone": "b"}, self.source.read().labels)

    def test_stop_cuts_off_the_watch_and_is_no_problem(self):
        self.begin()
        self.source.stop()
        self.assertTrue(self.api.interrupted)
        self.assertEqual(math.inf, self.play(errors.Unreachable("cut")))
        self.assertIsNone(self.source.read().problem)
