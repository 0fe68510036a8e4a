# SPDX-License-Identifier: Apache-2.0

"""Whether some host could take a nodegroup's servers."""

import threading
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt import request
from sriov_rt.magnum import hosts
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.unit import builders
from tests.unit.agent import fakes
from tests.unit.scheduler.fakes import put

REALTIME = request.parse(
    {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
)


class Listener:
    """Hears whatever the test reports while it runs.

    :param reported: the hosts.
    """

    def __init__(self, reported):
        self.reported = reported
        self.ended = threading.Event()

    def __call__(self, conf, server, table):
        """Take the place of the class."""
        self.table = table
        return self

    def run(self):
        """Report the hosts, and wait."""
        for each in self.reported:
            put(self.table, each)
        self.ended.wait()

    def stop(self):
        """End it."""
        self.ended.set()


class HostsTest(unittest.TestCase):
    def _why(self, *reported, vcpus=2):
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf([])
        conf.set_override("warmup_timeout", 1, group="sriov_rt")
        heard = worker.Worker(conf, listen=Listener(reported))
        self.addCleanup(heard.stop)
        heard.start()
        fakes.wait_for(lambda: len(heard.table.entries) == len(reported))
        return hosts.Hosts(heard).why_none(
            REALTIME, vcpus, 2048, hosts.max_age_s(conf)
        )

    def test_one_host_is_enough(self):
        bad = builders.realtime_host("a", memory={"ksm_run": 1})
        self.assertIsNone(self._why(bad, builders.realtime_host("b")))

    def test_each_host_with_its_first_reason(self):
        said = self._why(
            *(
                builders.realtime_host(name, memory={"ksm_run": 1})
                for name in "edcba"
            )
        )
        self.assertRegex(said, r"\Ano host takes it \(a: .*; b: .*; c: ")
        self.assertIn("and 2 more", said)
        self.assertIn("KSM", said.replace("ksm", "KSM"))

    def test_not_even_an_empty_host_has_the_room(self):
        said = self._why(builders.realtime_host("a"), vcpus=999)
        self.assertIn("a: ", said)

    def test_no_agent_is_heard(self):
        self.assertIn("transport_url", self._why())

    def test_one_listener_for_a_process(self):
        # As a process that ends with this test.
        with mock.patch.object(hosts.os, "getpid", return_value=-1):
            self.assertIs(hosts.of_this_process(), hosts.of_this_process())
