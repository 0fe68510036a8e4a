# SPDX-License-Identifier: Apache-2.0

"""Where commands find the message queue."""

import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import facts
from sriov_rt.cmd import collect
from sriov_rt.scheduler import listener
from sriov_rt.scheduler import options
from tests.unit import builders

URL = "rabbit://u:p@broker/"


class QueueTest(unittest.TestCase):
    """A host with neither nova.conf nor sriov-rt.conf."""

    def setUp(self) -> None:
        patch = mock.patch.object(collect, "CONFIG_FILES", ("/none/a.conf",))
        patch.start()
        self.addCleanup(patch.stop)
        options.register(cfg.CONF)
        self.addCleanup(cfg.CONF.reset)
        # What a command was told before, in this process.
        cfg.CONF.clear_override("transport_url", group="sriov_rt")
        self.addCleanup(
            cfg.CONF.clear_override, "transport_url", group="sriov_rt"
        )

    def test_a_variable_names_it(self) -> None:
        with mock.patch.dict(os.environ, {collect.TRANSPORT_VARIABLE: URL}):
            conf = collect.configuration(None, None)
            self.assertEqual(URL, conf.sriov_rt.transport_url)

    def test_nothing_names_it(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop(collect.TRANSPORT_VARIABLE, None)
            with self.assertRaisesRegex(collect.QueueUnnamed, "/none/a.conf"):
                collect.configuration(None, None)

    def test_a_configuration_without_a_queue(self) -> None:
        place = self.enterContext(tempfile.TemporaryDirectory())
        file = pathlib.Path(place) / "nova.conf"
        for text in ("", "[DEFAULT]\nhost = a\n", "[sriov_rt]\n"):
            file.write_text(text)
            with self.assertRaisesRegex(
                collect.QueueUnnamed,
                "nova.conf .no transport_url.; set .sriov_rt. transport_url",
            ):
                collect.configuration([str(file)], None)
        file.write_text(f"[DEFAULT]\ntransport_url = {URL}\n")
        collect.configuration([str(file)], None)

    def test_a_broken_file_is_named_with_its_mistake(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        file = pathlib.Path(place.name) / "nova.conf"
        fifo = file.with_name("fifo")
        os.mkfifo(fifo)
        for text, problem in (
            ("[sriov_rt", "Invalid section"),
            ("[sriov_rt]\nfacts_max_age = soon\n", "facts_max_age"),
            (None, "not a regular file"),
        ):
            path = fifo if text is None else file
            file.write_text(text or "")
            with (
                self.subTest(problem),
                self.assertRaises(config.ConfigurationUnreadable) as caught,
            ):
                collect.configuration([str(path)], None)
            sentence = str(caught.exception)
            self.assertIn(str(path), sentence)
            self.assertIn(problem, sentence)
            self.assertIn("--config-file", sentence)
            self.assertNotIn("message queue", sentence)


class RefusedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.collector = collect.Collector(2)
        self.endpoint = listener.Endpoint(self.collector, lambda host: None)

    def report(self, host: str, schema: int | None = None) -> None:
        found = builders.realtime_host(host)
        plain = found.to_plain()
        if schema is not None:
            plain["schema"] = schema
        document = json.dumps(plain)
        self.endpoint.facts({}, host, host, found.digest(), document)

    def test_facts_of_another_schema_are_kept_with_the_problem(self) -> None:
        self.report("a", facts.SCHEMA_VERSION + 1)
        self.assertEqual(["a"], list(self.collector.refused))
        self.assertIn("schema", self.collector.refused["a"])
        self.assertEqual(set(), self.collector.names())

    def test_a_host_that_reports_again_is_refused_no_more(self) -> None:
        self.report("a", facts.SCHEMA_VERSION + 1)
        self.report("a")
        self.assertEqual({}, self.collector.refused)
        self.assertEqual({"a"}, self.collector.names())

    def test_no_more_are_kept_than_a_table_takes(self) -> None:
        for host in "abc":
            self.report(host, facts.SCHEMA_VERSION + 1)
        self.assertEqual(2, len(self.collector.refused))
