# SPDX-License-Identifier: Apache-2.0

"""Kolla and Kolla-Ansible with the files that are shipped for them.

Kolla renders its Dockerfiles, and Kolla-Ansible's own modules merge its own
templates with our overrides and run our play, in a container of this machine.
Nothing is built, and no engine is reached.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from keystoneauth1 import loading
from oslo_config import cfg

from sriov_rt import config
from sriov_rt.agent import options as agent_options
from sriov_rt.cmd import upgrade_checks
from sriov_rt.nic import tenancy
from sriov_rt.vif import host
from sriov_rt.vif import options as vif_options
from sriov_rt.vif.settings import Pools
from tests.functional.deployment import tools
from tests.periodic import periodic
from tests.testbed import overlay_container
from tests.testbed import paths

SHIPPED = paths.CHECKOUT / "etc/kolla"
PLAYS = paths.CHECKOUT / "tests/functional/deployment/plays"

#: What an operator sets in globals.yml, and what follows from the machine.
GLOBALS = """\
CONFIG_DIR: {place}/etc/kolla
node_config_directory: {place}/node
ansible_become: false
ansible_python_interpreter: {python}
kolla_internal_vip_address: 127.0.0.1
# Otherwise asked of a collection that is no package.
kolla_same_external_internal_vip: true
kolla_action: deploy
network_interface: lo
kolla_base_distro: debian
enable_neutron_sriov: true
"""

PASSWORDS = """\
sriov_rt_transport_url: rabbit://sriov_rt:s3cret@rabbit.example.org:5672/
sriov_rt_keystone_password: s4cret
"""

#: What the last element of a path is in a volume "FROM:TO[:MODE]".
_FROM, _TO = 0, 1

#: Options of setpriv for a user that each Linux has.
_NOBODY = "--reuid 65534 --regid 65534"


def options(path: pathlib.Path, group: str, *found: cfg.Opt) -> cfg.ConfigOpts:
    """Return options of a file, read as a service reads them."""
    conf = cfg.ConfigOpts()
    conf.register_opts(found, group=group)
    conf(["--config-file", str(path)], project="test")
    return conf[group]


@periodic
@unittest.skipUnless(os.geteuid() == 0, "a container is made by root")
class KollaAnsibleTest(unittest.TestCase):
    """One run of the plays; each test looks at what came of it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.place = pathlib.Path(scratch)
        cls.node = cls.place / "node"
        real = tools.home(tools.KOLLA) / "share/kolla-ansible/ansible"
        tree = cls.place / "ansible"
        cls._lay_out(real, tree)
        empty = cls.place / "container"
        empty.mkdir()
        files = ("globals.yml", "passwords.yml", "globals.d/sriov-rt.yml")
        extra = [f"@{cls.place}/etc/kolla/{each}" for each in files]
        cls.output = tools.output_of(
            overlay_container.inside(
                empty,
                (cls.place, pathlib.Path("/dev"), pathlib.Path("/sys")),
                f"PATH={tools.home(tools.KOLLA)}/bin:{os.environ['PATH']}",
                f"ANSIBLE_HOME={cls.place}/home",
                *("sh", "-c", 'cd "$1" && shift && exec "$@"', "sh"),
                str(tree),
                *("ansible-playbook", "--inventory"),
                str(real / "inventory/all-in-one"),
                *(word for each in extra for word in ("-e", each)),
                *("kolla.yml", "sriov-rt.yml"),
            ),
            timeout=300,
        )

    @classmethod
    def _lay_out(cls, real, tree):
        """Put our play beside the tool's own, and our files in /etc/kolla."""
        (tree / "library").mkdir(parents=True)
        for name in (
            *("action_plugins", "filter_plugins", "group_vars"),
            *("module_utils", "roles"),
        ):
            (tree / name).symlink_to(real / name)
        for each in (real / "library").glob("*.py"):
            (tree / "library" / each.name).symlink_to(each)
        stand_in = tree / "library/kolla_container.py"
        stand_in.unlink()
        text = (PLAYS / "kolla_container.py").read_text()
        for name, value in (
            ("@REAL@", real / "library/kolla_container.py"),
            ("@KEPT@", cls.place),
        ):
            text = text.replace(name, str(value))
        stand_in.write_text(text)
        shutil.copy(PLAYS / "kolla.yml", tree)
        shutil.copy(SHIPPED / "sriov-rt.yml", tree)
        etc = cls.place / "etc/kolla"
        shutil.copytree(SHIPPED / "config", etc / "config")
        shutil.copytree(SHIPPED / "globals.d", etc / "globals.d")
        python = tools.home(tools.KOLLA) / "bin/python"
        (etc / "globals.yml").write_text(
            GLOBALS.format(place=cls.place, python=python)
        )
        passwords = real.parent / "etc_examples/kolla/passwords.yml"
        (etc / "passwords.yml").write_text(passwords.read_text() + PASSWORDS)

    def container(self, name):
        """Return the arguments that the engine would get."""
        return json.loads((self.place / f"{name}.json").read_text())

    def start(self, name):
        """Return what Kolla's images do when they start."""
        return json.loads((self.node / name / "config.json").read_text())

    def volumes(self, service):
        """Return what a service of Kolla-Ansible mounts, by where."""
        text = (self.node / "volumes.json").read_text()
        volumes = filter(None, json.loads(text)[service])
        words = [each.split(":") for each in volumes]
        return {each[_TO].rstrip("/"): each[_FROM] for each in words}

    def test_the_scheduler_has_both_lines_and_the_filter(self):
        section = options(
            self.node / "nova-scheduler/nova.conf",
            "filter_scheduler",
            cfg.MultiStrOpt("available_filters"),
            cfg.ListOpt("enabled_filters"),
        )
        found = upgrade_checks.Filters(
            tuple(section.enabled_filters), tuple(section.available_filters)
        )
        self.assertIn("nova.scheduler.filters.all_filters", found.available)
        judged = upgrade_checks.filters(found)
        self.assertEqual(0, judged.code.value, judged.details)

    def test_nova_compute_has_the_driver_and_a_way_to_be_root(self):
        path = self.node / "nova-compute/nova.conf"
        default = options(path, "DEFAULT", cfg.StrOpt("compute_driver"))
        self.assertEqual(upgrade_checks.DRIVER, default.compute_driver)
        ours = options(
            path, "sriov_rt_privileged", cfg.StrOpt("helper_command")
        )
        theirs = options(
            path, "privsep_entrypoint", cfg.StrOpt("helper_command")
        )
        self.assertEqual(theirs.helper_command, ours.helper_command)

    def test_nova_compute_sees_what_outlives_it(self):
        mounted = self.volumes("nova-compute")
        self.assertEqual("/run", mounted["/run"])
        self.assertEqual(f"{self.node}/sriov-rt/", mounted["/etc/sriov_rt"])
        for each in ("/etc/machine-id", "/var/lib/sriov-rt", "/dev"):
            self.assertEqual(each, mounted[each])

    def test_the_sriov_agent_keeps_whose_each_vf_is(self):
        mounted = self.volumes("neutron-sriov-agent")
        self.assertEqual("/run/sriov-rt", mounted["/run/sriov-rt"])
        (directory,) = (
            each.default
            for each in vif_options.VIF_OPTS
            if each.name == "records"
        )
        for each in (directory, f"/{tenancy.DIRECTORY}"):
            self.assertTrue(each.startswith("/run/sriov-rt/"))

    def test_neutron_has_the_driver_and_the_extension(self):
        server = options(
            self.node / "neutron-server/ml2_conf.ini",
            "ml2",
            cfg.ListOpt("mechanism_drivers"),
        )
        self.assertEqual("sriov_rt", server.mechanism_drivers[0])
        path = self.node / "neutron-sriov-agent/sriov_agent.ini"
        agent = options(path, "agent", cfg.ListOpt("extensions"))
        self.assertIn("sriov_rt", agent.extensions)
        for group in ("sriov_rt_vf_set", "sriov_rt_vf_clean"):
            section = options(path, group, cfg.StrOpt("helper_command"))
            self.assertIn("neutron-rootwrap", section.helper_command)

    def test_the_agents_can_read_their_configuration(self):
        path = self.node / "sriov-rt/sriov-rt.conf"
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        conf = config.load([str(path)])
        agent_options.register(conf)
        host.check(conf, "test")
        auth = loading.load_auth_from_conf_options(conf, "placement")
        self.assertEqual("http://127.0.0.1:5000", auth.auth_url)
        found = auth.get_cache_id_elements()
        self.assertEqual(
            ("sriov_rt", "s4cret"), (found["username"], found["password"])
        )
        (member,) = Pools.parse(conf.vif.parents).members
        self.assertEqual("physnet2", member.network)

    def test_the_agents_see_the_processes_of_the_host(self):
        for name in ("sriov_rt_agent", "sriov_rt_neutron_agent"):
            found = self.container(name)
            self.assertEqual("host", found["pid_mode"])
            self.assertIn("/run:/run:shared", found["volumes"])
            image = found["image"].rpartition(":")[0].rpartition("/")[2]
            self.assertEqual(name.replace("_", "-"), image)

    def test_the_agents_get_their_files_from_what_is_mounted(self):
        for name in ("sriov-rt-agent", "sriov-rt-neutron-agent"):
            volumes = self.container(name.replace("-", "_"))["volumes"]
            there = [each.split(":")[_TO].rstrip("/") for each in volumes]
            for each in self.start(name)["config_files"]:
                parent = str(pathlib.Path(each["source"]).parent)
                self.assertIn(parent, there)

    def test_the_agents_have_their_capabilities_and_no_others(self):
        for name, expected in (
            # CAP_DAC_READ_SEARCH 2 and CAP_SYS_PTRACE 19.
            ("sriov-rt-agent", 1 << 2 | 1 << 19),
            # The same, CAP_NET_ADMIN 12 and CAP_SYS_ADMIN 21.
            (
                "sriov-rt-neutron-agent",
                1 << 2 | 1 << 12 | 1 << 19 | 1 << 21,
            ),
        ):
            command = self.start(name)["command"].split()
            program = command.index(name)
            text = " ".join(command[:program])
            # There is no user nova on this machine.
            text = text.replace("--reuid nova --regid nova", _NOBODY)
            status = tools.output_of(
                (*text.split(), "cat", "/proc/self/status"), timeout=30
            )
            lines = dict(line.split(":", 1) for line in status.splitlines())
            self.assertEqual(expected, int(lines["CapEff"], 16), name)
            self.assertEqual(expected, int(lines["CapBnd"], 16), name)
            self.assertEqual("1", lines["NoNewPrivs"].strip())

    def test_passwords_are_not_printed(self):
        for each in ("s3cret", "s4cret"):
            self.assertNotIn(each, self.output)


@periodic
class KollaTest(unittest.TestCase):
    """Kolla's Dockerfiles, and the archive that its images install."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        scratch = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.place = pathlib.Path(scratch)

    def test_the_images_of_the_agents_are_made_from_kollas(self):
        tools.output_of(
            (
                str(tools.home(tools.KOLLA) / "bin/kolla-build"),
                *("--config-file", str(SHIPPED / "kolla-build.conf")),
                *("--docker-dir", str(SHIPPED / "docker")),
                *("--base", "debian", "--tag", "test", "--template-only"),
                *("--work-dir", str(self.place), "^sriov-rt"),
            ),
            timeout=300,
        )
        for name, base in (
            ("sriov-rt-agent", "nova-base"),
            ("sriov-rt-neutron-agent", "neutron-base"),
        ):
            made = self.place / "docker/sriov-rt" / name / "Dockerfile"
            self.assertIn(f"/{base}:test\n", made.read_text())
            self.assertNotIn("\nUSER", made.read_text())
            (parent,) = self.place.glob(f"docker/*/{base}/Dockerfile")
            self.assertIn("ADD plugins-archive /", parent.read_text())

    def test_the_sections_are_of_images_that_kolla_has(self):
        """Kolla reads them, and packs the plugin as it does when it builds."""
        source = self.place / "opt/sriov-rt"
        done = subprocess.run(
            ("git", "-C", str(paths.CHECKOUT), "archive", "HEAD"),
            check=True,
            capture_output=True,
        )
        source.mkdir(parents=True)
        subprocess.run(
            ("tar", "-x", "-C", str(source)), check=True, input=done.stdout
        )
        text = (SHIPPED / "kolla-build.conf").read_text()
        conf = self.place / "kolla-build.conf"
        conf.write_text(text.replace("/opt/sriov-rt", str(source)))
        tools.output_of(
            (
                str(tools.home(tools.KOLLA) / "bin/python"),
                str(PLAYS / "kolla_plugins.py"),
                *(str(conf), str(self.place)),
            ),
            timeout=300,
        )
        for name in ("nova-base", "neutron-base"):
            with tarfile.open(self.place / f"{name}.tar") as packed:
                names = packed.getnames()
            self.assertIn("sriov-rt/shim/nova/virt/sriov_rt.py", names)
            self.assertIn("sriov-rt/pyproject.toml", names)
