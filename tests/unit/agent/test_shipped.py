# SPDX-License-Identifier: Apache-2.0

"""What is shipped beside the code says the same as the code."""

import configparser
import pathlib
import re
import unittest

from oslo_config import cfg

from sriov_rt import opts
from sriov_rt.agent import options
from sriov_rt.host import cpus
from sriov_rt.placement import host_traits

ROOT = pathlib.Path(__file__).resolve().parents[3]
GUIDE = ROOT / "doc/source/admin/agent.rst"
SAMPLE = ROOT / "etc/sriov_rt/sriov-rt.conf.sample"
UNIT = ROOT / "etc/systemd/sriov-rt-agent.service"


class SampleTest(unittest.TestCase):
    def test_it_has_every_option_with_its_help(self):
        text = SAMPLE.read_text()
        for group, found in opts.list_opts():
            for opt in found:
                with self.subTest(group=group, option=opt.name):
                    self.assertRegex(text, rf"(?m)^#{opt.dest} =")
                    first = opt.help.strip().split("\n")[0][:60]
                    self.assertIn(f"# {first}", text)

    def test_it_tells_the_defaults(self):
        text = SAMPLE.read_text()
        for opt in options.AGENT_OPTS:
            if isinstance(opt, cfg.FloatOpt):
                self.assertIn(f"#{opt.name} = {opt.default}\n", text)


class GuideTest(unittest.TestCase):
    def test_its_example_names_options_that_there_are(self):
        (block,) = re.findall(
            r"code-block:: ini\n\n((?:   .*\n|\n)+)", GUIDE.read_text()
        )
        example = configparser.ConfigParser(default_section="")
        example.read_string(re.sub(r"(?m)^   ", "", block))
        known = {
            (group or "DEFAULT", opt.dest)
            for group, found in opts.list_opts()
            for opt in found
        }
        named = {
            (section, name)
            for section in example.sections()
            for name in example[section]
        }
        self.assertGreater(len(named), 5)
        self.assertEqual(set(), named - known)

    def test_its_table_is_that_of_the_traits(self):
        rows = re.findall(
            r"\* - ``(CUSTOM_\w+)``\n +- (.*)\n", GUIDE.read_text()
        )
        told = {
            trait: set(re.findall(r"``([^`=]+)=([^`]+)``", words))
            for trait, words in rows
        }
        self.assertEqual(
            {
                name: set(specs.items())
                for name, specs in host_traits.TRAITS.items()
            },
            told,
        )


class UnitFileTest(unittest.TestCase):
    def setUp(self):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        unit.read_string(UNIT.read_text())
        self.service = unit["Service"]

    def test_it_leaves_time_to_say_goodbye(self):
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf([])
        self.assertGreater(
            float(self.service["TimeoutStopSec"]), conf.agent.stop_timeout
        )

    def test_it_gives_two_capabilities_and_no_more(self):
        for name in ("AmbientCapabilities", "CapabilityBoundingSet"):
            self.assertEqual(
                {"CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"},
                set(self.service[name].split()),
            )

    def test_it_may_read_how_deep_cpus_may_sleep(self):
        self.assertEqual("closed", self.service["DevicePolicy"])
        self.assertEqual(f"/{cpus.DMA_LATENCY} r", self.service["DeviceAllow"])

    def test_it_does_not_hide_what_the_agent_looks_for(self):
        for name in ("PrivateDevices", "ProtectKernelModules", "ProtectProc"):
            self.assertNotIn(name, self.service)
        self.assertIn("AF_NETLINK", self.service["RestrictAddressFamilies"])
