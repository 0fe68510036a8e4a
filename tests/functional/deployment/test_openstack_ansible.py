# SPDX-License-Identifier: Apache-2.0

"""The variables for OpenStack-Ansible, through its own config_template.

Its roles are in no package index; the lines of their templates that our
variables go into are here.
"""

import pathlib
import tempfile
import unittest

import yaml
from oslo_config import cfg

from sriov_rt.cmd import upgrade_checks
from tests.functional.deployment import tools
from tests.periodic import periodic
from tests.testbed import paths

SHIPPED = paths.CHECKOUT / "etc/openstack_deploy/user_variables_sriov_rt.yml"
PLAYS = paths.CHECKOUT / "tests/functional/deployment/plays"

TEMPLATES = {
    "nova.conf": """\
[DEFAULT]
compute_driver = {{ nova_compute_driver }}
[filter_scheduler]
enabled_filters = {{ nova_scheduler_default_filters | join(',') }}
""",
    "ml2_conf.ini": """\
[ml2]
mechanism_drivers = {{ neutron_ml2_mechanism_drivers }}
""",
    "sriov_nic_agent.ini": "[agent]\nextensions = qos\n",
}


@periodic
class OpenStackAnsibleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.place = pathlib.Path(scratch)
        for name, text in TEMPLATES.items():
            (cls.place / f"{name}.j2").write_text(text)
        play = cls.place / "play.yml"
        play.write_text((PLAYS / "openstack_ansible.yml").read_text())
        home = tools.home(tools.OPENSTACK_ANSIBLE)
        plugins = home / "share/ansible/plugins"
        tools.output_of(
            (
                *("env", f"ANSIBLE_HOME={cls.place}/home"),
                f"ANSIBLE_ACTION_PLUGINS={plugins}/action",
                f"ANSIBLE_LIBRARY={plugins}/modules",
                str(home / "bin/ansible-playbook"),
                *("--connection", "local", "--inventory", "localhost,"),
                *("-e", f"ansible_python_interpreter={home}/bin/python"),
                *("-e", f"place={cls.place}"),
                *("-e", "sriov_rt_rabbitmq_password=s3cret"),
                *("-e", f"@{SHIPPED}", str(play)),
            ),
            timeout=120,
        )

    def section(self, name, group, *found):
        """Return a section of a file, read as a service reads it."""
        conf = cfg.ConfigOpts()
        conf.register_opts(found, group=group)
        conf(["--config-file", str(self.place / name)], project="test")
        return conf[group]

    def test_the_scheduler_has_both_lines_and_the_filter(self):
        section = self.section(
            "nova.conf",
            "filter_scheduler",
            cfg.MultiStrOpt("available_filters"),
            cfg.ListOpt("enabled_filters"),
            cfg.ListOpt("weight_classes"),
        )
        self.assertEqual(
            ["nova.scheduler.filters.all_filters", upgrade_checks.AVAILABLE],
            section.available_filters,
        )
        self.assertEqual(2, len(section.weight_classes))
        judged = upgrade_checks.filters(
            upgrade_checks.Filters(
                tuple(section.enabled_filters),
                tuple(section.available_filters),
            )
        )
        self.assertEqual((0, None), (judged.code.value, judged.details))

    def test_the_queue_and_the_driver(self):
        ours = self.section(
            "nova.conf", "sriov_rt", cfg.StrOpt("transport_url")
        )
        self.assertTrue(ours.transport_url.startswith("rabbit://sriov_rt:s3c"))
        default = self.section(
            "nova.conf", "DEFAULT", cfg.StrOpt("compute_driver")
        )
        self.assertEqual(upgrade_checks.DRIVER, default.compute_driver)

    def test_neutron_has_the_driver_and_the_extension(self):
        server = self.section(
            "ml2_conf.ini", "ml2", cfg.ListOpt("mechanism_drivers")
        )
        self.assertEqual("sriov_rt", server.mechanism_drivers[0])
        ours = self.section(
            "ml2_conf.ini", "ml2_sriov_rt", cfg.ListOpt("physical_networks")
        )
        self.assertEqual(["physnet2"], ours.physical_networks)
        agent = self.section(
            "sriov_nic_agent.ini", "agent", cfg.ListOpt("extensions")
        )
        self.assertEqual(["sriov_rt"], agent.extensions)

    def test_the_package_is_in_both_environments(self):
        found = yaml.safe_load(SHIPPED.read_text())
        for each in ("nova_user_pip_packages", "neutron_user_pip_packages"):
            self.assertEqual(["sriov-rt"], found[each])
