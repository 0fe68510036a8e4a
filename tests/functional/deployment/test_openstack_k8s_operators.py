# SPDX-License-Identifier: Apache-2.0

"""The samples for openstack-k8s-operators, as far as they can be run here.

Its operators are in no package index. The play of the data plane service is
run by Ansible in a container of this machine, without starting the units.
"""

import configparser
import os
import pathlib
import tempfile
import unittest

import yaml

from sriov_rt import config
from sriov_rt.agent import options as agent_options
from sriov_rt.cmd import upgrade_checks
from sriov_rt.vif import host
from tests.functional.deployment import tools
from tests.periodic import periodic
from tests.testbed import overlay_container
from tests.testbed import paths

SHIPPED = paths.CHECKOUT / "etc/openstack-k8s-operators"
AGENTS = ("sriov-rt-agent", "sriov-rt-neutron-agent")

#: What the inventory of a node set has.
VARIABLES = """\
canonical_hostname: compute-0.ctlplane.example.org
edpm_nova_compute_image: registry.example.org/nova-compute:1
edpm_neutron_sriov_image: registry.example.org/neutron-sriov-agent:1
"""


def documents(name):
    """Return the documents of a file, by kind and name."""
    found = yaml.safe_load_all((SHIPPED / name).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


class SamplesTest(unittest.TestCase):
    def test_the_scheduler_has_both_lines_and_the_filter(self):
        patch = yaml.safe_load((SHIPPED / "controlplane.yaml").read_text())
        template = patch["spec"]["nova"]["template"]
        text = template["schedulerServiceTemplate"]["customServiceConfig"]
        lines = [each.partition(" = ") for each in text.splitlines()]
        available = [
            value for key, _, value in lines if key == "available_filters"
        ]
        (enabled,) = (
            value for key, _, value in lines if key == "enabled_filters"
        )
        judged = upgrade_checks.filters(
            upgrade_checks.Filters(tuple(enabled.split(",")), tuple(available))
        )
        self.assertEqual((0, None), (judged.code.value, judged.details))
        self.assertEqual(2, len(available))

    def test_ports_behind_ovn_have_a_config_drive(self):
        patch = yaml.safe_load((SHIPPED / "controlplane.yaml").read_text())
        ml2 = configparser.ConfigParser()
        template = patch["spec"]["neutron"]["template"]
        ml2.read_string(template["customServiceConfig"])
        nova = configparser.ConfigParser()
        found = documents("dataplane.yaml")
        for text in found["ConfigMap", "nova-extra-config"]["data"].values():
            nova.read_string(text)
        dhcp = upgrade_checks.Dhcp(
            tuple(ml2["ml2"]["mechanism_drivers"].split(",")),
            networks=bool(ml2["ml2_sriov_rt"]["physical_networks"]),
            config_drive=nova.getboolean("DEFAULT", "force_config_drive"),
            agent=False,
        )
        self.assertIn("ovn", dhcp.drivers)
        self.assertEqual(0, upgrade_checks.dhcp(dhcp).code.value)

    def test_the_roles_find_our_files(self):
        found = documents("dataplane.yaml")
        # The patterns of edpm_nova and edpm_neutron_sriov.
        for name, pattern in (
            ("nova-extra-config", "*nova*.conf"),
            ("neutron-sriov-extra-config", "*sriov*conf"),
        ):
            for each in found["ConfigMap", name]["data"]:
                self.assertTrue(pathlib.PurePath(each).match(pattern))

    def test_what_outlives_a_container_is_mounted(self):
        patch = yaml.safe_load((SHIPPED / "nodeset.yaml").read_text())
        values = patch["spec"]["nodeTemplate"]["ansible"]["ansibleVars"]
        for role in ("nova_compute", "neutron_sriov"):
            volumes = values[f"edpm_{role}_common_volumes"]
            self.assertIn("/run/sriov-rt:/run/sriov-rt", volumes)
        for each in values["edpm_nova_extra_bind_mounts"]:
            self.assertRegex(each["dest"], "^(/etc|/opt|/var/lib)/")
        services = patch["spec"]["services"]
        for each in ("neutron-sriov", "libvirt", "nova"):
            self.assertLess(services.index("sriov-rt"), services.index(each))


@periodic
@unittest.skipUnless(os.geteuid() == 0, "a container is made by root")
class PlayTest(unittest.TestCase):
    """One run of the play; each test looks at what came of it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.place = pathlib.Path(scratch)
        found = documents("dataplane.yaml")
        service = found["OpenStackDataPlaneService", "sriov-rt"]["spec"]
        secret = found["Secret", "sriov-rt-etc"]["stringData"]
        for name, text in (
            ("play.yml", service["playbookContents"]),
            ("variables.yml", VARIABLES),
            ("sriov-rt.conf", secret["sriov-rt.conf"]),
        ):
            (cls.place / name).write_text(text)
        for name in ("container", "out"):
            (cls.place / name).mkdir()
        home = tools.home(tools.KOLLA)
        tools.output_of(
            overlay_container.inside(
                cls.place / "container",
                (cls.place, pathlib.Path("/dev")),
                f"ANSIBLE_HOME={cls.place}/home",
                *("sh", "-e", "-c"),
                # Where the operator puts the Secret; and back out of it.
                "mkdir -p /var/lib/openstack/configs/sriov-rt; "
                'cp "$1/sriov-rt.conf" /var/lib/openstack/configs/sriov-rt/; '
                'out=$1/out; shift; "$@"; '
                'cp -a /etc/sriov_rt/* /etc/containers/systemd/* "$out/"',
                *("sh", str(cls.place)),
                str(home / "bin/ansible-playbook"),
                *("--connection", "local", "--inventory", "localhost,"),
                *("-e", f"ansible_python_interpreter={home}/bin/python"),
                *("-e", f"@{cls.place}/variables.yml"),
                *("--skip-tags", "start", str(cls.place / "play.yml")),
            ),
            timeout=120,
        )

    def unit(self, name):
        """Return the lines of a unit's container."""
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str
        parser.read(self.place / "out" / f"{name}.container")
        return parser["Container"]

    def test_the_agents_see_the_host(self):
        for name in AGENTS:
            text = (self.place / f"out/{name}.container").read_text()
            self.assertIn("--pid=host", self.unit(name)["PodmanArgs"])
            self.assertEqual("host", self.unit(name)["Network"])
            self.assertIn("\nVolume=/run:/run:rslave\n", text)

    def test_each_has_the_capabilities_of_its_unit(self):
        for name in AGENTS:
            shipped = paths.CHECKOUT / f"etc/systemd/{name}.service"
            needed = upgrade_checks.capabilities(
                "CapabilityBoundingSet", (shipped.read_text(),)
            )
            (bounding,) = (
                each.partition("=")[2].split(",")
                for each in self.unit(name)["Exec"].split()
                if each.startswith("--bounding-set=")
            )
            self.assertEqual(
                needed, {f"CAP_{each[1:].upper()}" for each in bounding[1:]}
            )

    def test_the_agents_can_read_their_configuration(self):
        files = [
            self.place / "out/sriov-rt.conf",
            self.place / "out/host.conf",
        ]
        self.assertEqual(0o600, files[0].stat().st_mode & 0o777)
        conf = config.load([str(each) for each in files])
        agent_options.register(conf)
        host.check(conf, "test")
        self.assertEqual("compute-0.ctlplane.example.org", conf.host)
        self.assertEqual(
            ["/etc/nova/nova.conf.d"], conf.agent.nova_config_files
        )
