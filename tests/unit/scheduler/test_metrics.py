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

import socket
import sys
import unittest
import urllib.request
from unittest import mock

import prometheus_client
from oslo_config import cfg

from sriov_rt.scheduler import metrics
from sriov_rt.scheduler import options


def configuration(**values):
    conf = cfg.ConfigOpts()
    conf([])
    options.register(conf)
    for name, value in values.items():
        conf.set_override(name, value, group="sriov_rt")
    return conf


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class MakeTest(unittest.TestCase):
    def test_they_are_off_by_default(self):
        with mock.patch.dict(sys.modules, {"prometheus_client": None}):
            made = metrics.make(configuration())
        self.assertIs(metrics.Unmeasured, type(made))
        made.serve()
        with made.filtering(), made.weighing():
            made.refused(["code"])
        made.stop()

    def test_without_the_library_nova_schedules_on(self):
        with (
            mock.patch.dict(sys.modules, {"prometheus_client": None}),
            self.assertLogs(metrics.LOG, "ERROR") as logged,
        ):
            made = metrics.make(configuration(metrics_enabled=True))
        self.assertIs(metrics.Unmeasured, type(made))
        self.assertIn("pip install", logged.output[0])

    def test_the_ports_end_with_the_last_one(self):
        made = metrics.make(
            configuration(metrics_enabled=True, metrics_port=65530)
        )
        self.assertEqual(65535, made.ports[-1])


class ServeTest(unittest.TestCase):
    def make(self, *ports):
        made = metrics.Metrics(prometheus_client, "127.0.0.1", ports)
        self.addCleanup(made.stop)
        return made

    def read(self, port):
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()

    def test_what_was_measured(self):
        port = free_port()
        made = self.make(port)
        made.serve()
        with made.filtering():
            pass
        for _ in range(2):
            with made.weighing():
                pass
        made.refused(["ksm_running", "facts_stale"])
        made.refused(["ksm_running"])
        text = self.read(port)
        for each in (
            "sriov_rt_scheduler_filter_seconds_count 1.0",
            "sriov_rt_scheduler_weigher_seconds_count 2.0",
            'sriov_rt_scheduler_refusals_total{code="ksm_running"} 2.0',
        ):
            self.assertIn(f"\n{each}\n", text)

    def test_each_worker_has_a_port_of_its_own(self):
        ports = free_port(), free_port()
        for each in (self.make(*ports), self.make(*ports)):
            with self.assertLogs(metrics.LOG, "INFO"):
                each.serve()
        for port in ports:
            self.assertIn("sriov_rt_scheduler", self.read(port))
        with self.assertLogs(metrics.LOG, "WARNING") as logged:
            self.make(*ports).serve()
        self.assertIn("metrics_ports", logged.output[0])

    def test_an_address_that_is_not_the_hosts(self):
        made = metrics.Metrics(prometheus_client, "192.0.2.1", (free_port(),))
        with self.assertLogs(metrics.LOG, "WARNING") as logged:
            made.serve()
        self.assertIn("metrics_address", logged.output[0])
