# SPDX-License-Identifier: Apache-2.0

"""The phases of the DevStack plugin, on configuration files."""

import configparser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from tests.periodic import slow
from tests.testbed import devstack
from tests.unit.vif import fakes

ROOT = pathlib.Path(__file__).parents[3]

#: Programs that the phases call; each writes what it was called with. "ip"
#: makes and removes what the kernel would show.
_PROGRAMS = {
    "sudo": '[ "$1" != -n ] || shift\nexec "$@"\n',
    "virsh": "echo virsh-host\n",
    "ip": """\
case "$1 $2" in
"link add") mkdir "$SYS/class/net/$3" ;;
"link delete") rmdir "$SYS/class/net/$3" ;;
esac
""",
    "openstack": """\
case "$*" in
*"flavor create"*) shift $(($# - 1)); touch "$FLAVORS/$1" ;;
*"flavor list"*) ls "$FLAVORS" ;;
esac
""",
}

#: The command itself, on a host of memory with two ports that stay.
_TWO_PORTS = f"""\
[ "$2" != unplug ] || exit 2
PYTHONPATH='{ROOT}' exec '{sys.executable}' - "$@" <<'END'
import pathlib
import sys
import tempfile
from unittest import mock
from sriov_rt.cmd import main
from sriov_rt.vif import plugger as pluggers
from tests.unit.vif import fakes

with tempfile.TemporaryDirectory() as place:
    plugger = fakes.plugger(pathlib.Path(place) / "vif")
    plugger.plug(fakes.asked())
    plugger.plug(fakes.asked(port=fakes.OTHER, name="eth2"))
    with mock.patch.object(pluggers, "configured", return_value=plugger):
        sys.exit(main.main(sys.argv[1:]))
END
"""

_NOVA = """
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
my_ip = 10.0.0.1

[filter_scheduler]
enabled_filters = ComputeFilter,ImagePropertiesFilter

[scheduler]
workers = 2
"""
_ML2 = """
[ml2]
mechanism_drivers = ovn

[ml2_type_flat]
flat_networks = public,

[ml2_type_vlan]
network_vlan_ranges = public:100:199
"""
#: All services of a node that is a whole cloud.
ALL = "key,n-api,n-sch,n-cpu,q-svc,tempest"


class _Phases(unittest.TestCase):
    """A node with the files that DevStack would have written by then."""

    def setUp(self) -> None:
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.sys = self.top / "sys"
        self.etc = self.top / "etc"
        for each in (
            self.sys / "class/net",
            self.top / "flavors",
            self.top / "nova/nova/virt",
            self.etc,
        ):
            each.mkdir(parents=True)
        self.nova = self.file("nova.conf", _NOVA)
        self.ml2 = self.file("ml2_conf.ini", _ML2)
        self.neutron = self.file("neutron.conf", "\n[DEFAULT]\n")
        self.tempest = self.file("tempest.conf", "\n[service_available]\n")
        self.shim = self.top / "nova/nova/virt/sriov_rt.py"
        self.own = self.etc / "sriov_rt/sriov-rt.conf"
        self.units = self.top / "units"
        self.calls = self.top / "calls"
        self.calls.touch()
        self.variables = {
            "DATA_DIR": str(self.top / "data"),
            "DEVSTACK_TRANSPORT_URL": "rabbit://one/",
            "DEVSTACK_VENV": str(self.top / "venv"),
            "ENABLE_DEBUG_LOG_LEVEL": "True",
            "ENABLED_SERVICES": ALL,
            "KEYSTONE_SERVICE_URI": "http://one/identity",
            "LIBVIRT_TYPE": "qemu",
            "NEUTRON_CONF": str(self.neutron),
            "NOVA_CONF": str(self.nova),
            "NOVA_CPU_CONF": str(self.etc / "nova-cpu.conf"),
            "NOVA_DIR": str(self.top / "nova"),
            "NOVA_FILTERS": "ComputeFilter,ImagePropertiesFilter",
            "Q_ML2_PLUGIN_MECHANISM_DRIVERS": "ovn",
            "Q_PLUGIN_CONF_FILE": str(self.ml2).lstrip("/"),
            "REGION_NAME": "RegionOne",
            "SERVICE_DOMAIN_NAME": "Default",
            "SERVICE_PASSWORD": "secret",
            "SERVICE_PROJECT_NAME": "service",
            "SRIOV_RT_CONF_DIR": str(self.own.parent),
            "SRIOV_RT_LIB_DIR": str(self.top / "lib"),
            "SRIOV_RT_RUN_DIR": str(self.top / "run"),
            "SRIOV_RT_SYSFS": str(self.sys),
            "STACK_USER": str(os.getuid()),
            "SYSTEMD_DIR": str(self.units),
            "TEMPEST_CONFIG": str(self.tempest),
            "VIRT_DRIVER": "libvirt",
        }
        programs = self.top / "bin"
        programs.mkdir()
        for name, script in _PROGRAMS.items():
            self.program(programs / name, script)
        self.environment = {
            **os.environ,
            "CALLS": str(self.calls),
            "FLAVORS": str(self.top / "flavors"),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "SYS": str(self.sys),
        }

    def program(self, path: pathlib.Path, script: str) -> None:
        """Make a program that writes down how it was called."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'#!/bin/sh\necho "${{0##*/}} $*" >> "$CALLS"\n{script}'
        )
        path.chmod(0o755)

    def file(self, name: str, text: str) -> pathlib.Path:
        """Write a configuration file."""
        path = self.etc / name
        path.write_text(text)
        return path

    def nic(self, name: str, *, vfs: int | None = None) -> pathlib.Path:
        """Make an interface; with SR-IOV if it can have VFs."""
        device = self.sys / "class/net" / name / "device"
        device.mkdir(parents=True)
        if vfs is not None:
            (device / "sriov_totalvfs").write_text(f"{vfs}\n")
            (device / "sriov_numvfs").write_text("0\n")
        return device

    def run_phases(self, *phases: str, **variables: str) -> None:
        """Run phases, which succeed."""
        done = self.attempt(*phases, **variables)
        self.assertEqual(0, done.returncode, done.stderr)

    def attempt(
        self, *phases: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run phases, and return how that ended."""
        node = devstack.Node(self.top, {**self.variables, **variables})
        return node.attempt(*phases, environment=self.environment)

    def called(self, program: str) -> list[str]:
        """Return how a program was called."""
        return [
            each.removeprefix(f"{program} ")
            for each in self.calls.read_text().splitlines()
            if each.startswith(f"{program} ")
        ]

    def values(
        self, path: pathlib.Path, section: str, option: str
    ) -> list[str]:
        """Return every value of an option, as oslo.config sees them."""
        found = []
        inside = False
        for line in path.read_text().splitlines():
            if line.startswith("["):
                inside = line == f"[{section}]"
            elif inside and line.partition("=")[0].strip() == option:
                found.append(line.partition("=")[2].strip())
        return found

    def snapshot(self) -> dict[str, str]:
        """Return every file of the node but those of the test itself."""
        return {
            str(each.relative_to(self.top)): each.read_text()
            for each in sorted(self.top.rglob("*"))
            if each.is_file() and each.name not in ("calls", "localrc")
        }

    def options(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Return the options in the files of other projects."""
        found = {}
        for path in (self.nova, self.ml2, self.neutron, self.tempest):
            parser = configparser.ConfigParser(
                strict=False, interpolation=None, default_section="-"
            )
            parser.read(path)
            found[path.name] = {
                section: {
                    option: self.values(path, section, option)
                    for option in parser.options(section)
                }
                for section in parser.sections()
                if parser.options(section)
            }
        return found


@slow
class ConfigureTest(_Phases):
    """post-config."""

    def test_nova_scheduler_has_our_filter_beside_its_own(self) -> None:
        self.run_phases(devstack.POST_CONFIG)
        get = self.values
        self.assertEqual(
            [
                "ComputeFilter,ImagePropertiesFilter,RealtimeSriovFilter,"
                "NUMATopologyFilter,PciPassthroughFilter"
            ],
            get(self.nova, "filter_scheduler", "enabled_filters"),
        )
        self.assertEqual(
            [
                "nova.scheduler.filters.all_filters",
                "sriov_rt.nova.filters.all_filters",
            ],
            get(self.nova, "filter_scheduler", "available_filters"),
        )
        self.assertEqual(
            [
                "nova.scheduler.weights.all_weighers,"
                "sriov_rt.nova.weights.all_weighers"
            ],
            get(self.nova, "filter_scheduler", "weight_classes"),
        )

    def test_our_filter_is_asked_just_before_novas_dear_ones(self) -> None:
        ours, dear = "RealtimeSriovFilter", "NUMATopologyFilter"
        for given, expected in (
            (f"{dear},A", f"{ours},{dear},A,PciPassthroughFilter"),
            (f"A,{dear}", f"A,{ours},{dear},PciPassthroughFilter"),
            (
                f"PciPassthroughFilter,{dear}Too",
                f"{ours},PciPassthroughFilter,{dear}Too,{dear}",
            ),
            (
                f"A,PciPassthroughFilter,{dear},B",
                f"A,{ours},PciPassthroughFilter,{dear},B",
            ),
            # Who has it somewhere wants it there.
            (f"{dear},{ours}", f"{dear},{ours},PciPassthroughFilter"),
        ):
            with self.subTest(given):
                self.run_phases(devstack.POST_CONFIG, NOVA_FILTERS=given)
                self.assertEqual(
                    [expected],
                    self.values(
                        self.nova, "filter_scheduler", "enabled_filters"
                    ),
                )

    def test_filters_and_weighers_of_others_stay(self) -> None:
        text = _NOVA.replace(
            "enabled_filters",
            "available_filters = theirs.filters\n"
            "weight_classes = theirs.Weigher\nenabled_filters",
        )
        self.nova.write_text(text)
        self.run_phases(devstack.POST_CONFIG)
        self.assertEqual(
            ["theirs.filters", "sriov_rt.nova.filters.all_filters"],
            self.values(self.nova, "filter_scheduler", "available_filters"),
        )
        self.assertEqual(
            ["theirs.Weigher,sriov_rt.nova.weights.all_weighers"],
            self.values(self.nova, "filter_scheduler", "weight_classes"),
        )

    def test_nova_compute_has_our_driver(self) -> None:
        self.run_phases(
            devstack.POST_CONFIG,
            SRIOV_RT_DEDICATED_CPUS="2-3",
            SRIOV_RT_SHARED_CPUS="0,1",
        )
        for section, option, value in (
            ("DEFAULT", "compute_driver", "sriov_rt.RealtimeLibvirtDriver"),
            ("compute", "cpu_dedicated_set", "2-3"),
            ("compute", "cpu_shared_set", "0,1"),
            ("os_vif_sriov_rt", "config_file", str(self.own)),
            (
                "sriov_rt_privileged",
                "helper_command",
                f"sudo {self.top}/venv/bin/privsep-helper --config-file "
                f"{self.etc}/nova-cpu.conf",
            ),
        ):
            with self.subTest(option):
                self.assertEqual(
                    [value], self.values(self.nova, section, option)
                )

    def test_neutron_has_our_mechanism_driver_first(self) -> None:
        self.run_phases(
            devstack.POST_CONFIG,
            SRIOV_RT_PHYSICAL_NETWORKS="physnet1,physnet2:ipvlan:l2",
        )
        for section, option, value in (
            ("ml2", "mechanism_drivers", "sriov_rt,ovn"),
            ("ml2_type_flat", "flat_networks", "public,physnet1,physnet2"),
            (
                "ml2_type_vlan",
                "network_vlan_ranges",
                "public:100:199,physnet1,physnet2",
            ),
            (
                "ml2_sriov_rt",
                "physical_networks",
                "physnet1,physnet2:ipvlan:l2",
            ),
            ("ml2_sriov_rt", "vif", "macvlan:bridge"),
        ):
            with self.subTest(option):
                self.assertEqual(
                    [value], self.values(self.ml2, section, option)
                )

    def test_the_range_of_a_physical_network_stays(self) -> None:
        self.run_phases(
            devstack.POST_CONFIG, SRIOV_RT_PHYSICAL_NETWORKS="public"
        )
        self.assertEqual(
            ["public:100:199"],
            self.values(self.ml2, "ml2_type_vlan", "network_vlan_ranges"),
        )

    def test_the_agents_have_a_file_of_their_own(self) -> None:
        self.run_phases(
            devstack.POST_CONFIG,
            SRIOV_RT_NOTIFICATION_DRIVER="messagingv2",
            SRIOV_RT_OBSERVE_INTERVAL="5",
        )
        for section, option, value in (
            ("sriov_rt", "transport_url", "rabbit://one/"),
            ("oslo_messaging_notifications", "driver", "messagingv2"),
            ("agent", "node", "virsh-host"),
            ("agent", "nova_config_files", f"{self.etc}/nova-cpu.conf"),
            ("agent", "observe_interval", "5"),
            ("placement", "username", "sriov_rt"),
            ("placement", "region_name", "RegionOne"),
            ("vif", "parents", "sriovrt:rtveth0"),
        ):
            with self.subTest(option):
                self.assertEqual(
                    [value], self.values(self.own, section, option)
                )
        self.assertEqual([], self.values(self.own, "DEFAULT", "host"))
        # A daemon that is root without CAP_DAC_OVERRIDE reads it.
        self.assertEqual(0o644, self.own.stat().st_mode & 0o777)

    def test_the_agents_have_a_directory_that_outlives_them(self) -> None:
        """A package's unit makes it: no unit of DevStack's does."""
        self.run_phases(devstack.POST_CONFIG)
        self.assertTrue((self.top / "lib").is_dir())
        self.assertEqual(
            [str(self.own)],
            self.values(
                self.own.with_name("neutron-agent.conf"),
                "sriov_rt_agent",
                "config_file",
            ),
        )

    def test_the_agents_have_novas_name_of_the_host(self) -> None:
        text = self.nova.read_text()
        self.nova.write_text(text.replace("my_ip", "host = one\nmy_ip"))
        self.run_phases(devstack.POST_CONFIG)
        self.assertEqual(["one"], self.values(self.own, "DEFAULT", "host"))

    def test_the_hypervisor_of_containers_is_asked_for_its_name(self) -> None:
        self.run_phases(devstack.POST_CONFIG, LIBVIRT_TYPE="lxc")
        self.assertEqual(["-c lxc:///system hostname"], self.called("virsh"))

    def test_placement_has_a_user_of_ours(self) -> None:
        self.run_phases(devstack.POST_CONFIG)
        self.assertIn(
            "--os-cloud devstack-admin role add service --user sriov_rt "
            "--project service",
            self.called("openstack"),
        )

    def test_each_physical_network_without_a_nic_has_a_veth(self) -> None:
        self.run_phases(
            devstack.POST_CONFIG, SRIOV_RT_PHYSICAL_NETWORKS="one,two"
        )
        self.assertEqual(
            ["one:rtveth0,two:rtveth1"],
            self.values(self.own, "vif", "parents"),
        )
        made = [each for each in self.called("ip") if "add" in each]
        self.assertEqual(
            [
                f"link add rtveth{each} type veth peer name rtveth{each}-wire"
                for each in (0, 1)
            ],
            made,
        )

    def test_a_host_may_have_no_parents(self) -> None:
        self.run_phases(
            devstack.PRE_INSTALL,
            devstack.POST_CONFIG,
            SRIOV_RT_PARENTS="none",
        )
        self.assertEqual([""], self.values(self.own, "vif", "parents"))
        self.assertEqual([], self.called("ip"))

    def test_vfs_are_made_of_pfs(self) -> None:
        self.nic("enp1s0", vfs=8)
        self.program(self.top / "venv/bin/sriov-rt", "")
        self.run_phases(
            devstack.PRE_INSTALL,
            devstack.POST_CONFIG,
            SRIOV_RT_PARENTS="sriovrt:pf:enp1s0",
            SRIOV_RT_VFS="enp1s0:4:host",
        )
        self.assertEqual(
            ["enp1s0:4:host"], self.values(self.own, "nic", "vfs")
        )
        self.assertEqual(
            [f"vf provision --config-file {self.own}"], self.called("sriov-rt")
        )
        self.assertEqual([], self.called("ip"))

    def test_the_sriov_agent_loads_our_extension(self) -> None:
        conf = self.file("sriov_agent.ini", "\n[agent]\nextensions = qos\n")
        self.run_phases(
            devstack.POST_CONFIG,
            ENABLED_SERVICES=f"{ALL},q-sriov-agt",
            L2_AGENT_EXTENSIONS="qos",
            SRIOV_AGENT_CONF=str(conf).lstrip("/"),
        )
        self.assertEqual(
            ["qos,sriov_rt"], self.values(conf, "agent", "extensions")
        )
        for each in ("sriov_rt_vf_set", "sriov_rt_vf_clean"):
            self.assertEqual(
                [
                    f"sudo {self.top}/venv/bin/privsep-helper --config-file "
                    f"{self.neutron}"
                ],
                self.values(self.neutron, each, "helper_command"),
            )

    def test_a_compute_only_node_has_what_is_of_a_compute_host(self) -> None:
        self.run_phases(
            devstack.POST_CONFIG, devstack.EXTRA, ENABLED_SERVICES="n-cpu"
        )
        self.assertEqual([], self.called("openstack"))
        self.assertEqual(_ML2, self.ml2.read_text())
        self.assertEqual(
            [],
            self.values(self.nova, "filter_scheduler", "available_filters"),
        )
        self.assertTrue(self.own.exists())

    def test_a_controller_has_nothing_of_a_compute_host(self) -> None:
        self.run_phases(
            devstack.INSTALL,
            devstack.POST_CONFIG,
            devstack.EXTRA,
            ENABLED_SERVICES="key,n-api,n-sch,q-svc",
        )
        self.assertEqual(
            ["libvirt.LibvirtDriver"],
            self.values(self.nova, "DEFAULT", "compute_driver"),
        )
        self.assertFalse(self.own.exists())
        self.assertFalse(self.units.exists())
        self.assertFalse(self.shim.exists())


class RunTest(_Phases):
    """install, extra, test-config and unstack."""

    def test_novas_tree_has_the_module_of_our_driver(self) -> None:
        self.run_phases(devstack.INSTALL)
        self.assertEqual(
            (ROOT / "shim/nova/virt/sriov_rt.py").read_text(),
            self.shim.read_text(),
        )

    def test_containers_have_libvirts_driver_of_them(self) -> None:
        for kind, packages in (
            ("lxc", ["install_package libvirt-daemon-driver-lxc"]),
            ("qemu", []),
        ):
            with self.subTest(kind):
                done = self.attempt(devstack.INSTALL, LIBVIRT_TYPE=kind)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual(packages, done.stdout.splitlines())

    def test_both_agents_run_as_root(self) -> None:
        self.run_phases(devstack.EXTRA)
        for name, files in (
            ("sriov-rt-agent", (self.own,)),
            (
                "sriov-rt-neutron-agent",
                (self.neutron, self.own.with_name("neutron-agent.conf")),
            ),
        ):
            unit = self.units / f"devstack@{name}.service"
            given = " ".join(f"--config-file {each}" for each in files)
            self.assertEqual(
                [f"{self.top}/venv/bin/{name} {given}"],
                self.values(unit, "Service", "ExecStart"),
            )
            self.assertEqual(["root"], self.values(unit, "Service", "User"))
            self.assertTrue(unit.with_name(f"{unit.name}.running").exists())

    def test_an_agent_that_is_disabled_does_not_run(self) -> None:
        self.run_phases(
            devstack.EXTRA, DISABLED_SERVICES="sriov-rt-neutron-agent"
        )
        self.assertEqual(
            ["devstack@sriov-rt-agent.service"],
            [each.name for each in self.units.glob("*.service")],
        )

    def test_flavors_are_made(self) -> None:
        self.run_phases(devstack.EXTRA)
        self.assertEqual(
            {"rt.small", "rt.bare", "onload.small"},
            {each.name for each in (self.top / "flavors").iterdir()},
        )

    def test_flavors_that_are_there_are_set_right(self) -> None:
        self.run_phases(devstack.EXTRA)
        self.calls.write_text("")
        self.run_phases(devstack.EXTRA, SRIOV_RT_FLAVOR_RAM="128")
        listed, *others = self.called("openstack")
        self.assertIn("flavor list", listed)
        self.assertEqual(3, len(others))
        for each in others:
            self.assertIn("flavor set --property", each)

    def test_a_flavor_whose_properties_are_refused_stops_the_run(self) -> None:
        # As OpenStackClient does: "create" only logs what it can't set.
        self.program(
            self.top / "bin/openstack",
            'case "$*" in *"flavor set"*) exit 1 ;; esac\n',
        )
        self.assertNotEqual(0, self.attempt(devstack.EXTRA).returncode)

    def test_properties_are_set_where_nova_validates_them(self) -> None:
        self.run_phases(devstack.EXTRA)
        for each in self.called("openstack"):
            if "--property" in each:
                self.assertIn("--os-compute-api-version 2.86", each)
                self.assertIn("flavor set", each)

    def test_a_single_vcpu_is_realtime(self) -> None:
        self.run_phases(devstack.EXTRA, SRIOV_RT_FLAVOR_VCPUS="1")
        made = "\n".join(self.called("openstack"))
        self.assertIn("hw:cpu_realtime=yes", made)
        # Nova refuses a mask that leaves none.
        self.assertNotIn("hw:cpu_realtime_mask", made)

    def test_flavors_are_not_made_if_nobody_wants_them(self) -> None:
        self.run_phases(devstack.EXTRA, SRIOV_RT_CREATE_FLAVORS="no")
        self.assertEqual([], self.called("openstack"))

    def test_tempest_knows_what_there_is(self) -> None:
        self.run_phases(
            devstack.TEST_CONFIG,
            LIBVIRT_TYPE="lxc",
            SRIOV_RT_PHYSICAL_NETWORKS="one,two:ipvlan:l2",
        )
        group = "sriov_rt"
        for section, option, value in (
            ("service_available", "sriov_rt", "True"),
            ("sriov_rt-feature-enabled", "realtime", "False"),
            (
                group,
                "domain_xml_command",
                "sudo virsh -c lxc:///system dumpxml {name}",
            ),
            (
                group,
                "explain_command",
                f"env OS_CLOUD=devstack-admin {self.top}/venv/bin/sriov-rt"
                f" explain --config-file {self.nova} --json"
                " --flavor {flavor}",
            ),
            (group, "port_networks", "macvlan:one,ipvlan:two"),
            (group, "port_network_type", "flat"),
            (
                group,
                "guest_command",
                "sudo virsh -c lxc:///system lxc-enter-namespace"
                " --noseclabel {name} /bin/sh",
            ),
        ):
            with self.subTest(option):
                self.assertEqual(
                    [value], self.values(self.tempest, section, option)
                )

    def test_tempest_knows_a_realtime_host(self) -> None:
        self.run_phases(devstack.TEST_CONFIG, SRIOV_RT_DEDICATED_CPUS="2-3")
        self.assertEqual(
            ["True"],
            self.values(self.tempest, "sriov_rt-feature-enabled", "realtime"),
        )
        self.assertEqual(
            [], self.values(self.tempest, "sriov_rt", "guest_command")
        )

    def test_no_agent_runs_after_unstack(self) -> None:
        self.run_phases(devstack.EXTRA, devstack.UNSTACK)
        self.assertEqual([], list(self.units.glob("*.running")))


@slow
class TwiceTest(_Phases):
    """Restack, unstack and clean."""

    PHASES = (
        devstack.PRE_INSTALL,
        devstack.INSTALL,
        devstack.POST_CONFIG,
        devstack.EXTRA,
        devstack.TEST_CONFIG,
    )

    def test_a_second_run_changes_nothing(self) -> None:
        self.run_phases(*self.PHASES)
        once = self.snapshot()
        made = len([each for each in self.called("ip") if "add" in each])
        self.run_phases(*self.PHASES)
        self.assertEqual(once, self.snapshot())
        self.assertEqual(
            made, len([each for each in self.called("ip") if "add" in each])
        )

    def test_a_run_in_one_shell_with_another_changes_nothing(self) -> None:
        # As where another plugin sources what we do.
        self.run_phases(*self.PHASES, *self.PHASES)
        once = self.snapshot()
        self.run_phases(*self.PHASES)
        self.assertEqual(once, self.snapshot())

    def test_clean_leaves_what_was_there_before(self) -> None:
        self.nic("enp1s0", vfs=8)
        self.program(self.top / "venv/bin/sriov-rt", "")
        before, files = self.options(), set(self.snapshot())
        for parents in ("", "sriovrt:pf:enp1s0"):
            with self.subTest(parents=parents):
                wanted = {
                    "SRIOV_RT_FACTS_MAX_AGE": "40",
                    "SRIOV_RT_PARENTS": parents,
                    "SRIOV_RT_VFS": "enp1s0:4",
                }
                self.run_phases(*self.PHASES, **wanted)
                self.run_phases(*self.PHASES, **wanted)
                pf = self.sys / "class/net/enp1s0/device/sriov_numvfs"
                pf.write_text("4\n")
                self.run_phases(devstack.UNSTACK, devstack.CLEAN, **wanted)
                self._set_as_devstack_does()
                self.assertEqual(before, self.options())
                # Those of the cloud go with its databases.
                shutil.rmtree(self.top / "flavors")
                self.assertEqual(files, set(self.snapshot()))
                (self.top / "flavors").mkdir()
                self.assertEqual("0\n", pf.read_text())
                self.assertEqual(
                    ["enp1s0"],
                    [each.name for each in (self.sys / "class/net").iterdir()],
                )

    def _set_as_devstack_does(self) -> None:
        # What it has written itself, of our settings, goes with its files.
        for path, given, before in (
            (
                self.nova,
                ",RealtimeSriovFilter,NUMATopologyFilter,PciPassthroughFilter",
                "",
            ),
            (self.ml2, "sriov_rt,ovn", "ovn"),
        ):
            path.write_text(path.read_text().replace(given, before))

    def test_clean_leaves_no_section_that_it_made(self) -> None:
        before = "\n[theirs]\n\n[service_available]\nnova = True\n"
        self.tempest.write_text(before)
        self.run_phases(*self.PHASES)
        self.run_phases(*self.PHASES)
        self.assertIn("[sriov_rt]", self.tempest.read_text())
        self.run_phases(devstack.UNSTACK, devstack.CLEAN)
        self.assertEqual(before, self.tempest.read_text())

    def test_clean_keeps_what_others_have_put_into_a_section(self) -> None:
        self.run_phases(*self.PHASES)
        text = self.tempest.read_text()
        self.tempest.write_text(
            text.replace("[sriov_rt]\n", "[sriov_rt]\n# mine\nown = 1\n")
        )
        self.run_phases(devstack.UNSTACK, devstack.CLEAN)
        self.assertEqual(["1"], self.values(self.tempest, "sriov_rt", "own"))
        self.assertIn("# mine\n", self.tempest.read_text())

    def test_clean_takes_the_package_from_tempests_environment(self) -> None:
        tempest = self.top / "tempest"
        pip = tempest / ".tox/tempest/bin/pip"
        self.program(pip, "")
        self.run_phases(*self.PHASES, TEMPEST_DIR=str(tempest))
        self.run_phases(
            devstack.UNSTACK, devstack.CLEAN, TEMPEST_DIR=str(tempest)
        )
        self.assertEqual(["uninstall -q -y sriov-rt"], self.called("pip"))

    def test_clean_of_what_never_was_there_fails_not(self) -> None:
        before = self.options()
        self.run_phases(devstack.UNSTACK, devstack.CLEAN)
        self.assertEqual(before, self.options())

    def test_ports_that_instances_have_left_are_unplugged(self) -> None:
        self.program(self.top / "venv/bin/sriov-rt", _TWO_PORTS)
        self.run_phases(devstack.POST_CONFIG, devstack.CLEAN)
        self.assertEqual(
            [
                f"vif unplug --config-file {self.own} {port}"
                for port in (fakes.PORT, fakes.OTHER)
            ],
            [each for each in self.called("sriov-rt") if "unplug" in each],
        )

    def test_phases_leave_tracing_as_it_was(self) -> None:
        for given in ("-o", "+o"):
            with self.subTest(given):
                trace = self.top / "trace"
                node = {
                    **self.variables,
                    "BASH_XTRACEFD": "9",
                }
                lines = "".join(
                    f"{name}='{value}'\n" for name, value in node.items()
                )
                localrc = self.top / "localrc.trace"
                localrc.write_text(
                    f"{lines}exec 9>/dev/null\nset {given} xtrace\n"
                    f"trap 'set +o | grep xtrace > {trace}' EXIT\n"
                )
                done = self._run_with(localrc, *self.PHASES)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual(f"set {given} xtrace\n", trace.read_text())

    def _run_with(
        self, localrc: pathlib.Path, *phases: str
    ) -> subprocess.CompletedProcess[str]:
        script = ROOT / "tests/testbed/devstack/run_phases.sh"
        return subprocess.run(
            ("bash", str(script), str(localrc), *phases),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )


class ReadmeTest(_Phases):
    """README.rst says what there is."""

    README = (ROOT / "devstack/README.rst").read_text()

    def test_each_local_conf_passes_the_check(self) -> None:
        blocks = re.findall(
            r"^ +\[\[local\|localrc\]\]\n((?: +[^\n]+\n|\n)+)",
            self.README,
            re.MULTILINE,
        )
        self.assertEqual(3, len(blocks))
        self.nic("enp1s0", vfs=4)
        for block in blocks:
            given = dict(
                re.findall(
                    r"^ +((?:SRIOV_RT|LIBVIRT)_\w+)=(\S+)$",
                    block,
                    re.MULTILINE,
                )
            )
            with self.subTest(given):
                self.assertIn("enable_plugin sriov-rt ", block)
                self.run_phases(devstack.PRE_INSTALL, **given)

    def test_a_nic_beside_them_passes_too(self) -> None:
        (given,) = re.findall(r"``(SRIOV_RT_PARENTS)=(\S+)``", self.README)
        self.nic("eno2")
        self.run_phases(
            devstack.PRE_INSTALL,
            SRIOV_RT_PHYSICAL_NETWORKS="physnet1",
            **dict([given]),
        )

    def test_rt_small_is_the_flavor_of_the_projects_readme(self) -> None:
        shown = re.search(
            r"flavor create rt\.small .*\n.*\\\n(?: +--property .*\n)+",
            (ROOT / "README.rst").read_text(),
        )
        assert shown is not None
        self.run_phases(devstack.EXTRA)
        made = "\n".join(
            each
            for each in self.called("openstack")
            if each.endswith(" rt.small")
        )
        for of in (r"--property (\S+)", r"--(?:vcpus|ram|disk) \d+"):
            self.assertEqual(
                sorted(re.findall(of, shown[0])), sorted(re.findall(of, made))
            )

    def test_each_page_names_the_branch(self) -> None:
        # DevStack takes "master" where none is named; and goes on without the
        # plugin, next time, in the empty directory that it has left.
        seen = 0
        for page in (
            ROOT / "README.rst",
            ROOT / "devstack/README.rst",
            *(ROOT / "doc/source").rglob("*.rst"),
            *(ROOT / "releasenotes/notes").glob("*.yaml"),
        ):
            for line in re.findall(
                r"(?m)^ *enable_plugin .*$", page.read_text()
            ):
                with self.subTest(page=page.name):
                    self.assertEqual("main", line.split()[3:][0])
                seen += 1
        self.assertEqual(4, seen)
        self.assertIn("rm -r /opt/stack/sriov-rt\n", self.README)

    def test_every_variable_in_it_is_one_of_settings(self) -> None:
        settings = (ROOT / "devstack/settings").read_text()
        known = set(re.findall(r"^(SRIOV_RT_\w+)=", settings, re.MULTILINE))
        named = set(re.findall(r"SRIOV_RT_[A-Z_]+", self.README))
        self.assertEqual(set(), named - known)


class BadInputTest(_Phases):
    """pre-install stops with a sentence that names the variable."""

    def refused(self, sentence: str, **variables: str) -> None:
        before = self.snapshot()
        done = self.attempt(devstack.PRE_INSTALL, **variables)
        self.assertNotEqual(0, done.returncode)
        (line,) = done.stderr.splitlines()
        self.assertRegex(line, r"^\[ERROR\] \S+/lib/sriov_rt:\d+ ")
        self.assertEqual(sentence, line.partition(" ")[2].partition(" ")[2])
        self.assertEqual(before, self.snapshot())

    def test_a_physical_network_without_a_nic(self) -> None:
        self.nic("eth1")
        self.refused(
            "SRIOV_RT_PHYSICAL_NETWORKS names 'physnet2', but "
            "SRIOV_RT_PARENTS has no interface for it.",
            SRIOV_RT_PHYSICAL_NETWORKS="physnet1,physnet2",
            SRIOV_RT_PARENTS="physnet1:eth1",
        )

    def test_a_kind_of_port_that_there_is_not(self) -> None:
        for name, value in (
            ("SRIOV_RT_VIF", "macvlan:bride"),
            ("SRIOV_RT_PHYSICAL_NETWORKS", "physnet1:macvlan:bride"),
        ):
            with self.subTest(name):
                self.refused(
                    f"{name} has 'macvlan:bride', which is neither macvlan, "
                    "ipvlan nor vf with a mode of it.",
                    **{name: value},
                )

    def test_a_value_that_is_no_number_and_no_list_of_cpus(self) -> None:
        for name, value, problem in (
            ("SRIOV_RT_FLAVOR_RAM", "1g", "is not a number."),
            ("SRIOV_RT_FACTS_MAX_AGE", "5m", "is not a number of seconds."),
            (
                "SRIOV_RT_DEDICATED_CPUS",
                "2..7",
                "is not a list of CPUs such as 2-7.",
            ),
        ):
            with self.subTest(name):
                self.refused(
                    f"{name} is '{value}', which {problem}", **{name: value}
                )

    def test_cpus_that_are_none(self) -> None:
        for name in ("SRIOV_RT_DEDICATED_CPUS", "SRIOV_RT_SHARED_CPUS"):
            for value in ("7-2", "^1", "2-3,^2-3", "9999"):
                with self.subTest(name, value=value):
                    self.refused(
                        f"{name} is '{value}', which names no CPU, or a range "
                        "that runs backwards; give a list such as 2-7.",
                        **{name: value},
                    )

    def test_cpus_of_both_sets(self) -> None:
        self.refused(
            "SRIOV_RT_DEDICATED_CPUS and SRIOV_RT_SHARED_CPUS both have 3,4; "
            "give each CPU to one of them.",
            SRIOV_RT_DEDICATED_CPUS="3-7",
            SRIOV_RT_SHARED_CPUS="0-4",
        )
        self.run_phases(
            devstack.PRE_INSTALL,
            SRIOV_RT_DEDICATED_CPUS="2-7",
            SRIOV_RT_SHARED_CPUS="0-7,^2-7",
        )

    def test_numbers_that_nothing_takes(self) -> None:
        for name in ("SRIOV_RT_FLAVOR_VCPUS", "SRIOV_RT_FLAVOR_RAM"):
            with self.subTest(name):
                self.refused(
                    f"{name} is '0'; a flavor needs at least 1.", **{name: "0"}
                )
        for value in ("0", "0.0"):
            with self.subTest(value):
                self.refused(
                    f"SRIOV_RT_FACTS_MAX_AGE is '{value}', which is not a "
                    "number of seconds.",
                    SRIOV_RT_FACTS_MAX_AGE=value,
                )

    def test_kinds_that_are_for_containers(self) -> None:
        for name, value, network in (
            ("SRIOV_RT_VIF", "vf", "sriovrt"),
            ("SRIOV_RT_VIF", "ipvlan:l2", "sriovrt"),
            ("SRIOV_RT_PHYSICAL_NETWORKS", "a,b:vf", "b"),
        ):
            kind = value.removeprefix("a,b:")
            with self.subTest(name, value=value):
                self.refused(
                    f"Ports of '{network}' are '{kind}', which is for "
                    "containers; set LIBVIRT_TYPE=lxc, or use macvlan.",
                    LIBVIRT_TYPE="qemu",
                    **{name: value},
                )

    def test_physical_networks_that_cannot_be(self) -> None:
        for value, problem in (
            (
                "public",
                "names 'public', which is DevStack's own physical network; "
                "give ours another name.",
            ),
            ("a,b,a", "names 'a' twice."),
            ("a/b", "has 'a/b', which is not the name of a physical network."),
        ):
            with self.subTest(value):
                self.refused(
                    f"SRIOV_RT_PHYSICAL_NETWORKS {problem}",
                    SRIOV_RT_PHYSICAL_NETWORKS=value,
                )

    def test_a_pf_that_is_named_twice(self) -> None:
        self.nic("enp1s0", vfs=7)
        self.refused(
            "SRIOV_RT_VFS names the PF 'enp1s0' twice.",
            SRIOV_RT_VFS="enp1s0:2,enp1s0:3",
        )

    def test_a_parent_that_a_bridge_has(self) -> None:
        self.nic("eth1")
        (self.top / "sys/class/net/eth1/master").symlink_to("../br0")
        (self.top / "sys/class/net/br0").mkdir()
        self.refused(
            "SRIOV_RT_PARENTS names 'eth1', which is a port of a bridge or "
            "bond; take it out of that first.",
            SRIOV_RT_PARENTS="sriovrt:eth1",
        )

    def test_a_nic_without_its_physical_network(self) -> None:
        self.nic("eth1")
        self.refused(
            "SRIOV_RT_PARENTS has 'physnet9:eth1', but "
            "SRIOV_RT_PHYSICAL_NETWORKS does not name 'physnet9'.",
            SRIOV_RT_PARENTS="physnet9:eth1",
        )

    def test_no_physical_network(self) -> None:
        self.refused(
            "SRIOV_RT_PHYSICAL_NETWORKS is empty; name at least one physical "
            "network.",
            SRIOV_RT_PHYSICAL_NETWORKS=",",
        )

    def test_an_interface_that_is_not_there(self) -> None:
        self.refused(
            "SRIOV_RT_PARENTS names the interface 'eth7', which this host "
            "does not have.",
            SRIOV_RT_PARENTS="sriovrt:eth7",
        )

    def test_parents_out_of_the_grammar(self) -> None:
        self.refused(
            "SRIOV_RT_PARENTS has 'eth1', which is neither NETWORK:INTERFACE "
            "nor NETWORK:pf:PF.",
            SRIOV_RT_PARENTS="eth1",
        )

    def test_a_pf_that_does_not_exist(self) -> None:
        for name, value in (
            ("SRIOV_RT_VFS", "enp9s0:4"),
            ("SRIOV_RT_PARENTS", "sriovrt:pf:enp9s0"),
        ):
            with self.subTest(name):
                self.refused(
                    f"{name} names the PF 'enp9s0', which this host does not "
                    "have.",
                    **{name: value},
                )

    def test_a_pf_without_sriov(self) -> None:
        self.nic("eth1")
        self.refused(
            "SRIOV_RT_VFS names 'eth1', which is not a PF: it has no SR-IOV.",
            SRIOV_RT_VFS="eth1:4",
        )

    def test_more_vfs_than_the_pf_has(self) -> None:
        self.nic("enp1s0", vfs=7)
        self.refused(
            "SRIOV_RT_VFS asks for 08 VFs of 'enp1s0', which can have 7.",
            SRIOV_RT_VFS="enp1s0:08",
        )

    def test_vfs_out_of_the_grammar(self) -> None:
        for entry in ("enp1s0", "enp1s0:x", "enp1s0:4:both", ":4"):
            with self.subTest(entry):
                self.refused(
                    f"SRIOV_RT_VFS has '{entry}', which is neither PF:NUMBER "
                    "nor PF:NUMBER:MODE with a mode of host or guests.",
                    SRIOV_RT_VFS=entry,
                )

    def test_no_root(self) -> None:
        self.program(self.top / "bin/sudo", "exit 1\n")
        self.refused(
            "STACK_USER 'stack' has to become root by sudo without a "
            "password.",
            STACK_USER="stack",
        )

    def test_another_hypervisor(self) -> None:
        self.refused(
            "VIRT_DRIVER is 'ironic'; sriov-rt's compute driver needs "
            "'libvirt'.",
            VIRT_DRIVER="ironic",
        )
        self.refused(
            "LIBVIRT_TYPE is 'parallels'; sriov-rt serves 'kvm', 'qemu' and "
            "'lxc'.",
            LIBVIRT_TYPE="parallels",
        )

    def test_a_node_without_a_compute_host_needs_no_nic(self) -> None:
        self.run_phases(
            devstack.PRE_INSTALL,
            ENABLED_SERVICES="key,n-api,q-svc",
            SRIOV_RT_VFS="enp9s0:4",
        )

    def test_each_way_of_running_instances(self) -> None:
        for kind in ("kvm", "qemu", "lxc"):
            with self.subTest(kind):
                self.run_phases(devstack.PRE_INSTALL, LIBVIRT_TYPE=kind)
