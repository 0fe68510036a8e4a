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

import pathlib
import tempfile
import unittest

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import opts
from sriov_rt.agent import options


class OptionsTest(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        options.register(self.conf)
        self.conf([])

    def test_the_node_is_called_like_the_host_unless_named(self):
        self.conf.set_override("host", "rt-1")
        self.assertEqual("rt-1", options.node_name(self.conf))
        self.conf.set_override("node", "rt-1.example.org", group="agent")
        self.assertEqual("rt-1.example.org", options.node_name(self.conf))

    def test_no_request_to_placement_waits_without_an_end(self):
        self.assertEqual(
            options.REQUEST_TIMEOUT_S, self.conf.placement.timeout
        )
        self.assertEqual("placement", self.conf.placement.service_type)

    def test_heartbeats_cannot_be_turned_off(self):
        for name in ("observe_interval", "heartbeat_interval"):
            with self.subTest(name), self.assertRaises(ValueError):
                self.conf.set_override(name, 0, group="agent")


class ListOptsTest(unittest.TestCase):
    def test_every_option_of_ours_has_help_of_three_sentences(self):
        for group, found in opts.list_opts() + opts.list_nova_opts():
            if group == options.PLACEMENT_GROUP:
                continue
            for opt in found:
                with self.subTest(group=group, option=opt.name):
                    text = opt.help.replace("\n", " ")
                    self.assertGreaterEqual(text.count(". "), 2)

    def test_all_that_is_registered_is_listed(self):
        conf = cfg.ConfigOpts()
        options.register(conf)
        listed = {
            (group, opt.dest)
            for group, some in opts.list_opts()
            for opt in some
        }
        for group in (None, "agent", "placement", "sriov_rt"):
            section = conf if group is None else conf[group]
            for name in section:
                if group is None and name in (
                    *conf._groups,  # noqa: SLF001
                    "config_file",
                    "config_dir",
                    "config_source",
                    "shell_completion",
                ):
                    continue
                self.assertIn((group, name), listed)


class CheckTest(unittest.TestCase):
    """Options as sriov-rt-agent checks them when it starts."""

    def check(self, text):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "sriov-rt.conf")
            path.write_text(text)
            conf = config.load([path])
            options.register(conf)
            options.check(conf)

    def test_options_of_no_group_are_checked_too(self):
        self.check("")
        self.check("[DEFAULT]\nhost = rt-1\n")

    def test_a_bad_value_names_its_option(self):
        named = r"\[agent\] observe_interval .* sriov-rt-agent"
        with self.assertRaisesRegex(config.OptionRejected, named):
            self.check("[agent]\nobserve_interval = often\n")
