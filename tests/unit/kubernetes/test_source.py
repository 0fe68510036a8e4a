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

import sys
import types
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt.kubernetes import source
from sriov_rt.labels.source import Wiring
from sriov_rt.labels.sources import LabelSourceMissing


class FakeConnection(types.ModuleType):
    Settings = types.SimpleNamespace


class FakeHttp(types.ModuleType):
    NodeApi = staticmethod(lambda settings: settings)


class SourceTest(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        self.conf.register_opts([cfg.StrOpt("host", default="Compute-7")])
        self.conf([])

    def make(self, **modules):
        found = {
            f"sriov_rt.kubernetes.{name}": module
            for name, module in modules.items()
        }
        wiring = Wiring(self.conf, mock.Mock(), mock.Mock())
        # Both as imported and as attributes of the room.
        with (
            mock.patch.dict(sys.modules, found),
            mock.patch.multiple("sriov_rt.kubernetes", create=True, **modules),
        ):
            return source.make(wiring)

    def settings(self):
        watcher = self.make(
            connection=FakeConnection("connection"), http=FakeHttp("http")
        )
        return watcher._api

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
        # None in sys.modules: the import fails.
        with (
            mock.patch.dict(
                sys.modules,
                {
                    "kubernetes": None,
                    "sriov_rt.kubernetes.connection": None,
                    "sriov_rt.kubernetes.http": None,
                },
            ),
            self.assertRaises(LabelSourceMissing) as caught,
        ):
            wiring = Wiring(self.conf, mock.Mock(), mock.Mock())
            source.make(wiring)
        self.assertIn("sriov-rt[kubernetes]", str(caught.exception))
