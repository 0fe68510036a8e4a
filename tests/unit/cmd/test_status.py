# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt-status upgrade check`` on a host's files."""

import contextlib
import importlib.metadata
import io
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from sriov_rt import config
from sriov_rt.cmd import collect
from sriov_rt.cmd import status
from sriov_rt.cmd import upgrade_checks
from sriov_rt.cmd import upgrade_state
from sriov_rt.codec import Unknown
from sriov_rt.host import compute_driver_socket
from sriov_rt.kubevirt import contract
from sriov_rt.scheduler.rivals import Rivals
from sriov_rt.vif import records
from sriov_rt.vif.model import Kind
from tests.unit.vif import fakes

ROOT = pathlib.Path(__file__).parents[3]

CHECKS = [name for name, _ in status.Checks._upgrade_checks]  # noqa: SLF001


class StatusTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = self.enterContext(tempfile.TemporaryDirectory())
        self.root = pathlib.Path(place)
        self.own = self.write("own.conf", "")
        self.configure("")
        self.write("proc/1/cmdline", "init\0")
        # Whether this environment has Nova is no part of the host's files.
        self.spec = self.enterContext(
            mock.patch.object(
                upgrade_state.importlib.util, "find_spec", return_value=None
            )
        )
        self.write("proc/1/net/unix", "Num RefCount\n")
        self.kubeconfig = self.enterContext(
            mock.patch.object(
                upgrade_state.paths, "kubeconfig", return_value=None
            )
        )

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure(self, text):
        self.own.write_text(
            f"[DEFAULT]\nhost = rt-1\n[agent]\nroot = {self.root}\n{text}"
        )

    def run_command(self, *options):
        """Return the exit code and what is printed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = status.main(
                ["--config-file", str(self.own), "upgrade", "check", *options]
            )
        return code, printed.getvalue()

    def results(self):
        """Return the exit code, and code and details by check."""
        code, printed = self.run_command("--json")
        found = json.loads(printed)["checks"]
        self.assertEqual(CHECKS, [each["check"] for each in found])
        return code, {x["check"]: (x["result"], x["details"]) for x in found}

    def failing(self, check, details):
        code, results = self.results()
        self.assertEqual(2, code)
        self.assertEqual(2, results[check][0], results)
        self.assertIn(details, results[check][1])

    def test_a_host_without_a_queue_has_one_warning(self):
        code, results = self.results()
        self.assertEqual(1, code)
        worst = {name: found for name, found in results.items() if found[0]}
        self.assertEqual(["Agents"], list(worst), results)
        self.assertIn("transport_url", worst["Agents"][1])

    def test_the_table_has_each_check(self):
        _, printed = self.run_command()
        for name in CHECKS:
            self.assertIn(f"| Check: {name} ", printed)

    def test_the_page_shows_what_such_a_host_prints(self):
        page = (ROOT / "doc/source/admin/upgrade.rst").read_text()
        _, _, sample = page.partition("# sriov-rt-status upgrade check\n")
        lines = itertools.takewhile(str.strip, sample.splitlines())
        shown = "\n".join(line.strip() for line in lines)
        self.assertEqual(shown, self.run_command()[1].strip())

    def test_a_value_that_a_service_rejects(self):
        for path, text, found in (
            ("own.conf", "[vif]\nparents = x\n", "[vif] parents"),
            ("own.conf", "[nic]\nvf_mode = x\n", "[nic] vf_mode"),
            ("own.conf", "[agent]\nroot = x\n", "[agent] root"),
            ("etc/nova/nova.conf", "[sriov_rt]\nunfit_host = x\n", "unfit_h"),
            (
                "etc/neutron/plugins/ml2/ml2_conf.ini",
                "[ml2_sriov_rt]\nvif = x\n",
                "[ml2_sriov_rt] vif",
            ),
            (
                "etc/magnum/magnum.conf",
                "[sriov_rt_magnum]\nhost_check = x\n",
                "host_check",
            ),
        ):
            with self.subTest(path, text=text):
                kept = self.own.read_text()
                if path == "own.conf":
                    self.own.write_text(f"{kept}{text}")
                else:
                    self.write(path, text)
                self.failing("Configuration", found)
                self.own.write_text(kept)
                if path != "own.conf":
                    (self.root / path).unlink()

    def test_a_reader_that_has_seen_enough(self):
        code = (
            "import sys\nfrom unittest import mock\n"
            "from sriov_rt.cmd import status\n"
            "with mock.patch.object(status.upgradecheck, 'main', "
            "lambda *_, **__: print('x')):\n"
            "    sys.exit(status.main(['upgrade', 'check']))\n"
        )
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code],
                stdout=write,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                check=False,
                timeout=60,
            )
        finally:
            os.close(write)
        self.assertEqual((141, b""), (done.returncode, done.stderr))

    def test_nova_conf_that_cannot_be_parsed(self):
        self.write("etc/nova/nova.conf", "[DEFAULT\n")
        self.failing("Configuration", "nova.conf")

    def test_a_named_file_that_cannot_be_parsed(self):
        self.own.write_text("[DEFAULT\n")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(2, self.run_command()[0])
        self.assertIn("own.conf", said.getvalue())

    def test_a_check_that_ends_by_a_bug_is_no_result(self):
        with mock.patch.object(
            upgrade_state.Host, "units", side_effect=RuntimeError("a bug")
        ):
            code, printed = self.run_command()
        self.assertEqual(255, code)
        self.assertIn("a bug", printed)

    def test_a_directory_that_may_not_be_read_is_a_warning(self):
        nova = self.root / "etc/nova"
        refused = PermissionError(13, "Permission denied")
        denied = upgrade_state.cfg.ConfigFilesPermissionDeniedError(
            [str(nova / "nova.conf")]
        )
        real = config.load

        def load(files):
            if nova / "nova.conf" in files:
                raise denied
            return real(files)

        with mock.patch.object(pathlib.Path, "lstat", side_effect=refused):
            host = self.host()
        with mock.patch.object(config, "load", load):
            (problem,) = host.problems()
        self.assertTrue(problem.is_unreadable)
        self.assertIn("nova.conf", problem.text)

    def test_filters_of_nova_conf(self):
        self.write(
            "etc/nova/nova.conf",
            "[filter_scheduler]\n"
            "available_filters = nova.scheduler.filters.all_filters\n"
            f"available_filters = {upgrade_checks.AVAILABLE}\n"
            f"enabled_filters = NUMATopologyFilter, {upgrade_checks.FILTER}\n",
        )
        code, results = self.results()
        self.assertEqual(1, code)
        self.assertEqual(1, results["Scheduler filters"][0], results)
        self.assertIn("NUMATopologyFilter", results["Scheduler filters"][1])

    def test_agents_that_report_on_the_queue(self):
        self.configure("[sriov_rt]\ntransport_url = fake:/\n")
        found = mock.Mock(spec=collect.Collector)
        found.candidates.return_value = []
        found.refused = {"rt-2": "schema: 1 expected"}
        found.rivals = Rivals(2, 60.0)
        for agent in ("cmp1/1", "cmp2/2", "cmp1/1"):
            found.rivals.hear("rt-3", agent)
        with mock.patch.object(collect, "hear", return_value=found) as hear:
            self.failing("Agents", "rt-2")
            self.failing("Agents", "rt-3: two agents report as this host")
        self.assertEqual([str(self.own)], hear.call_args.args[0])

    def test_a_queue_that_does_not_answer_is_a_warning(self):
        self.configure("[sriov_rt]\ntransport_url = fake:/\n")
        error = collect.BrokerUnreachable("rabbit:5672", "refused")
        refused = collect.BrokerRefuses("rabbit:5672", "me", "/", "403")
        for each in (error, refused):
            with mock.patch.object(collect, "hear", side_effect=each):
                code, results = self.results()
            self.assertEqual(1, code)
            self.assertIn("rabbit:5672", results["Agents"][1])
            # This program has no such option.
            self.assertNotIn("--transport-url", results["Agents"][1])

    def test_a_running_nova_compute(self):
        self.write("proc/7/cmdline", "python3\0/usr/bin/nova-compute\0")
        _, results = self.results()
        self.assertEqual(1, results["Compute driver"][0])
        driver = f"compute_driver = {upgrade_checks.DRIVER}\n"
        self.write("etc/nova/nova.conf", f"[DEFAULT]\n{driver}")
        # It may be that of a release before, whose driver does not say so.
        _, results = self.results()
        result, details = results["Compute driver"]
        self.assertEqual(1, result)
        self.assertIn("of an older release; restart it", details)
        version = status.importlib.metadata.version("sriov-rt")
        name = f"@{compute_driver_socket.prefix('rt-1')}{version}/kvm/0\n"
        self.write("proc/1/net/unix", f"0: 2 0 0 2 01 1 {name}")
        _, results = self.results()
        self.assertEqual((0, None), results["Compute driver"])

    def test_kubevirt_of_the_cluster_that_kubectl_has(self):
        answers = {
            contract.PLUGIN_PATH: {"spec": {"condition": "true"}},
            contract.KUBEVIRT_PATH: {
                "items": [{"status": {"observedKubeVirtVersion": "v1.9.0"}}]
            },
        }
        self.kubeconfig.return_value = "/x"
        with mock.patch.object(
            upgrade_state.cluster, "connect", return_value=answers.get
        ):
            self.failing("Plugin of KubeVirt", "KubeVirt v1.9.0 has spec.")
            answers.clear()
            self.assertIn("no kubeconfig", str(self.results()))
        self.kubeconfig.return_value = str(self.root / "missing")
        self.assertIn("cannot be judged", str(self.results()))

    def test_ports_behind_ovn_need_dhcp_or_a_config_drive(self):
        def result():
            return self.results()[1]["DHCP beside OVN"]

        self.assertEqual((0, None), result())
        ml2 = "etc/neutron/plugins/ml2/ml2_conf.ini"
        drivers = "[ml2]\nmechanism_drivers = sriov_rt,sriovnicswitch,{}\n"
        networks = "[ml2_sriov_rt]\nphysical_networks = physnet1\n"
        self.write(ml2, drivers.format("openvswitch") + networks)
        self.assertEqual((0, None), result())
        self.write(ml2, drivers.format("ovn"))
        self.assertEqual((0, None), result())
        self.write(ml2, drivers.format("ovn") + networks)
        code, details = result()
        self.assertEqual(1, code)
        for way in ("run neutron-dhcp-agent", "force_config_drive = true"):
            self.assertIn(way, details)
        drive = self.write(
            "etc/nova/nova.conf", "[DEFAULT]\nforce_config_drive = True\n"
        )
        self.assertEqual((0, None), result())
        drive.unlink()
        self.write("proc/7/cmdline", "python3\0/usr/bin/neutron-dhcp-agent\0")
        self.assertEqual((0, None), result())

    def test_units_of_the_package_and_their_drop_ins(self):
        units = {each.name: each for each in self.host().units()}
        self.assertIn("sriov-rt-agent.service", units)
        unit = units["sriov-rt-agent.service"]
        self.assertEqual((), unit.installed)
        place = f"{upgrade_state.UNITS}/{unit.name}"
        self.write(place, unit.shipped)
        self.write(f"{place}.d/a.conf", "[Service]\nAmbientCapabilities=\n")
        _, results = self.results()
        self.assertEqual(1, results["Capabilities of units"][0], results)
        self.assertIn("AmbientCap", results["Capabilities of units"][1])

    def test_the_module_beside_nova(self):
        nova = self.write("site/nova/__init__.py", "raise ImportError\n")
        path = nova.parent / "virt/sriov_rt.py"
        self.spec.return_value = mock.Mock(origin=str(nova))
        missing = upgrade_checks.Shim(str(path), is_there=False)
        self.assertEqual(missing, self.host().shim())
        self.write("site/nova/virt/sriov_rt.py", "")
        self.assertTrue(self.host().shim().is_there)

    def test_the_package_of_a_distribution(self):
        """It has no list of its files; systemd's directory has its units."""
        site = self.root / "site"
        self.write("site/sriov_rt-1.0.0.dist-info/METADATA", "Name: sriov-rt")
        self.write("site/sriov_rt-1.0.0.dist-info/INSTALLER", "debian")
        found = importlib.metadata.distributions(path=[str(site)])
        listed = self.enterContext(
            mock.patch.object(
                upgrade_state.importlib.metadata, "distributions"
            )
        )
        listed.return_value = list(found)
        unit = (ROOT / "etc/systemd/sriov-rt-agent.service").read_text()
        self.write("usr/lib/systemd/system/sriov-rt-agent.service", unit)
        (shipped,) = self.host().units()
        self.assertEqual((unit, ()), (shipped.shipped, shipped.installed))

    def test_a_host_of_neutron_with_defaults(self):
        self.write("etc/neutron/neutron.conf", "[DEFAULT]\n")
        _, results = self.results()
        self.assertEqual(0, results["Configuration"][0], results)

    def host(self):
        return upgrade_state.Host([str(self.own)])


class StoredPortsTest(fakes.HostTest):
    def stored(self):
        return upgrade_state.stored_ports(self.directory)

    def path(self):
        return self.directory / records.DIRECTORY / fakes.PORT

    def test_a_good_record_is_not_named(self):
        self.plugger.plug(fakes.asked(Kind.MACVLAN))
        self.assertEqual(upgrade_checks.StoredPorts(), self.stored())

    def test_no_directory_has_no_records(self):
        found = upgrade_state.stored_ports(self.directory / "none")
        self.assertEqual(upgrade_checks.StoredPorts(), found)

    def test_damaged_ones_are_left_as_they_are(self):
        self.plugger.plug(fakes.asked(Kind.MACVLAN))
        self.path().write_text("{")
        (self.path().parent / f"p{records.DAMAGED}0").write_text("")
        found = self.stored()
        self.assertEqual([fakes.PORT], list(found.damaged))
        self.assertEqual(("p.damaged.0",), found.kept)
        self.assertEqual("{", self.path().read_text())

    def test_a_link_is_damaged(self):
        self.plugger.plug(fakes.asked(Kind.MACVLAN))
        self.path().unlink()
        self.path().symlink_to("/dev/zero")
        self.assertIn("a link", self.stored().damaged[fakes.PORT])


class UnreadableTest(unittest.TestCase):
    def test_a_directory_of_records_that_cannot_be_read(self):
        host = upgrade_state.Host([])
        with mock.patch.object(
            upgrade_state,
            "stored_ports",
            side_effect=PermissionError(13, "denied", "/run/sriov-rt"),
        ):
            self.assertEqual(
                Unknown("/run/sriov-rt: denied"), host.stored_ports()
            )
