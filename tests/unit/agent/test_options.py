# SPDX-License-Identifier: Apache-2.0

import pathlib
import tempfile
import unittest

from oslo_config import cfg

from sriov_rt import config
from sriov_rt import opts
from sriov_rt.agent import options
from sriov_rt.placement import options as placement_options


class OptionsTest(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        options.register(self.conf)
        self.conf([])

    def test_the_node_is_called_like_the_host_unless_named(self):
        self.conf.set_override("root", "/nowhere", group="agent")
        self.conf.set_override("host", "rt-1")
        self.assertEqual("rt-1", options.node_name(self.conf, "x"))
        self.conf.set_override("node", "rt-1.example.org", group="agent")
        self.assertEqual("rt-1.example.org", options.node_name(self.conf, "x"))

    def test_no_request_to_placement_waits_without_an_end(self):
        self.assertEqual(
            placement_options.REQUEST_TIMEOUT_S, self.conf.placement.timeout
        )
        self.assertEqual("placement", self.conf.placement.service_type)

    def test_heartbeats_cannot_be_turned_off(self):
        for name in ("observe_interval", "heartbeat_interval"):
            with self.subTest(name), self.assertRaises(ValueError):
                self.conf.set_override(name, 0, group="agent")


class HostNameTest(unittest.TestCase):
    """The name is nova-compute's, on a host that is called cmp2."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.write("proc/sys/kernel/hostname", "cmp2\n")
        self.conf = cfg.ConfigOpts()
        options.register(self.conf)
        self.conf([])
        self.conf.set_override("root", directory.name, group="agent")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def name(self, configured=None):
        self.conf.set_override("host", configured)
        return options.host_name(self.conf, "sriov-rt-agent")

    def test_a_name_in_nova_conf_alone_is_the_agents(self):
        self.write("etc/nova/nova.conf", "[DEFAULT]\nhost = cmp2.rack1\n")
        self.assertEqual("cmp2.rack1", self.name())
        self.assertEqual("cmp2.rack1", self.name("cmp2.rack1"))

    def test_without_any_it_is_the_hostname(self):
        self.assertEqual("cmp2", self.name())
        self.write("etc/nova/nova.conf", "[DEFAULT]\n")
        self.assertEqual("cmp2", self.name())
        self.assertEqual("cmp2", self.name("cmp2"))

    def test_without_novas_files_the_operator_decides(self):
        self.assertEqual("cmp1", self.name("cmp1"))

    def test_a_later_file_of_novas_decides(self):
        self.write("etc/nova/nova.conf", "[DEFAULT]\nhost = cmp1\n")
        self.write("etc/nova/nova-cpu.conf", "[DEFAULT]\nhost = cmp3\n")
        self.assertEqual("cmp3", self.name())

    def test_a_copied_sriov_rt_conf_is_refused(self):
        self.write("etc/nova/nova.conf", "[DEFAULT]\n")
        with self.assertRaises(config.OptionRejected) as caught:
            self.name("cmp1")
        said = str(caught.exception)
        self.assertIn("[DEFAULT] host = cmp1", said)
        self.assertIn("is cmp2 by its configuration files", said)
        self.assertIn("remove this line", said)
        self.write("etc/nova/nova.conf", "[DEFAULT]\nhost = cmp2.rack1\n")
        with self.assertRaisesRegex(config.OptionRejected, "cmp2.rack1 by"):
            self.name("cmp2")

    def test_what_cannot_be_known_contradicts_nothing(self):
        self.write("etc/nova/nova.conf", "[DEFAULT]\nhost = cmp-$my_ip\n")
        self.assertEqual("cmp1", self.name("cmp1"))
        self.write("etc/nova/nova.conf", "no option\n")
        self.assertEqual("cmp1", self.name("cmp1"))
        self.assertEqual("cmp2", self.name())


class ListOptsTest(unittest.TestCase):
    def test_every_option_of_ours_has_help_of_three_sentences(self):
        for group, found in opts.list_opts() + opts.list_nova_opts():
            if group == placement_options.GROUP:
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
