# SPDX-License-Identifier: Apache-2.0

"""What is shipped beside the code says the same as the code."""

import configparser
import importlib.util
import pathlib
import re
import tomllib
import unittest

from oslo_config import cfg

from sriov_rt import opts
from sriov_rt.neutron import options
from sriov_rt.vif import options as vif_options

ROOT = pathlib.Path(__file__).resolve().parents[3]
GUIDE = ROOT / "doc/source/admin/neutron.rst"
UNIT = ROOT / "etc/systemd/sriov-rt-neutron-agent.service"

#: Options of others that the guide's examples have.
OTHERS = {
    ("ml2", "mechanism_drivers"),
    ("agent", "extensions"),
    ("sriov_nic", "physical_device_mappings"),
    ("sriov_nic", "exclude_devices"),
    ("sriov_rt_vf_clean", "helper_command"),
    ("sriov_rt_vf_set", "helper_command"),
}


def examples():
    """Return the options of the guide's examples, by section and name."""
    found = {}
    blocks = re.findall(
        r"code-block:: ini\n\n((?:   .*\n|\n)+)", GUIDE.read_text()
    )
    for block in blocks:
        example = configparser.ConfigParser(default_section="")
        example.read_string(re.sub(r"(?m)^   ", "", block))
        for section in example.sections():
            for name, value in example[section].items():
                found[section, name] = value
    return found


class GuideTest(unittest.TestCase):
    def test_its_examples_name_options_that_there_are(self):
        known = OTHERS | {
            (group, opt.dest)
            for group, found in opts.list_neutron_opts()
            for opt in found
        }
        known |= {
            (vif_options.GROUP, opt.dest) for opt in vif_options.VIF_OPTS
        }
        self.assertEqual(set(), examples().keys() - known)

    def test_its_example_of_the_driver_is_taken(self):
        conf = cfg.ConfigOpts()
        options.register_ml2(conf)
        conf([], default_config_files=[])
        given = examples()
        conf.set_override(
            "physical_networks",
            given[options.ML2_GROUP, "physical_networks"].split(","),
            options.ML2_GROUP,
        )
        conf.set_override(
            "vif", given[options.ML2_GROUP, "vif"], options.ML2_GROUP
        )
        found = options.networks(conf)
        self.assertEqual(
            {"physnet1": "macvlan", "physnet2": "ipvlan"},
            {name: vif.kind.value for name, vif in found.items()},
        )

    def test_it_names_the_agent_as_neutron_lists_it(self):
        text = GUIDE.read_text()
        self.assertIn(options.AGENT_TYPE, text)
        self.assertIn(options.AGENT_BINARY, text)


class UnitTest(unittest.TestCase):
    def test_it_starts_the_program_that_is_installed(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        scripts = project["project"]["scripts"]
        self.assertIn(options.AGENT_BINARY, scripts)
        self.assertRegex(
            UNIT.read_text(),
            rf"(?m)^ExecStart=/usr/bin/{options.AGENT_BINARY} ",
        )

    def test_a_wrong_configuration_is_not_tried_again(self):
        self.assertIn("RestartPreventExitStatus=2", UNIT.read_text())


class EntryPointTest(unittest.TestCase):
    def test_what_neutron_looks_for_is_there(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        points = project["project"]["entry-points"]
        for group in (
            "neutron.ml2.mechanism_drivers",
            "neutron.agent.l2.extensions",
        ):
            module, name = points[group]["sriov_rt"].split(":")
            with self.subTest(group):
                spec = importlib.util.find_spec(module)
                self.assertIn(
                    f"class {name}(", pathlib.Path(spec.origin).read_text()
                )
