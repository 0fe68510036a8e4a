# SPDX-License-Identifier: Apache-2.0

import contextlib
import csv
import io
import json
import time
from unittest import mock

import yaml

from sriov_rt import codec
from sriov_rt import facts
from sriov_rt.cmd import host
from sriov_rt.cmd import main
from sriov_rt.codec import Unknown
from sriov_rt.labels import store
from tests.unit.cmd import tables
from tests.unit.host import trees


class HostCommandTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(
            host, "load_sources", return_value=trees.SOURCES
        )
        self.load = patch.start()
        self.addCleanup(patch.stop)

    def run_command(self, *words, code=0) -> str:
        printed = io.StringIO()
        root = ("--root", str(self.tree.path))
        with contextlib.redirect_stdout(printed):
            self.assertEqual(code, main.main(["host", *words, *root]))
        return printed.getvalue()

    def reasons(self, *words) -> dict[str, str]:
        """Return code and problem of what is in the way."""
        shown = ("-f", "csv", "-c", "code", "-c", "problem")
        printed = self.run_command("check", *words, *shown, code=1)
        return dict(list(csv.reader(io.StringIO(printed)))[1:])

    def make_ready(self) -> None:
        """Take away the interrupt that fires on a dedicated CPU."""
        self.tree.write("proc/irq/26/effective_affinity_list", "0\n")
        self.tree.write("proc/irq/26/smp_affinity_list", "0-1\n")
        thp = "sys/kernel/mm/transparent_hugepage/enabled"
        self.tree.write(thp, "always madvise [never]\n")
        for cpu in range(16):
            topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
            self.tree.write(f"{topology}/core_cpus_list", f"{cpu}\n")

    def test_show(self):
        printed = self.run_command("show")
        found = tables.fields(printed)
        self.assertEqual("2-3,6-7,10-11,14-15", found["cpus.isolated"])
        self.assertLessEqual(tables.width(printed), 80)
        label = "labels.feature.node.kubernetes.io/pci-1924.present"
        self.assertEqual(
            "true\n", self.run_command("show", "-f", "value", "-c", label)
        )

    def test_show_json_is_what_explain_reads(self):
        found = facts.from_json(self.run_command("show", "--json"))
        self.assertEqual("rt-1", found.host)
        self.assertEqual(2, len(found.nics.nics))

    def keep_labels(self, labels, age_s=12.0, boot_id="boot-1"):
        self.tree.write("proc/sys/kernel/random/boot_id", boot_id + "\n")
        record = store.Record(
            store.Origin("rt-1", "boot-1"),
            300.0,
            {"kubernetes": store.Known(labels, time.time() - age_s, None)},
            {"feature.node.kubernetes.io/kernel-version.major": 3},
        )
        plain = {"schema": 1, **codec.to_plain(record)}
        self.tree.write(store.PATH.lstrip("/"), json.dumps(plain))

    def test_show_labels_with_source_and_age(self):
        self.keep_labels({"zone": "a"})
        printed = self.run_command("show")
        found = tables.fields(printed)
        # How old exactly is said by tests whose clock stands still.
        self.assertRegex(
            found["labels.zone"], r"\Aa \(kubernetes, \d+ s ago\)\Z"
        )
        self.assertNotIn("stale", printed)
        self.keep_labels({"zone": "a"}, age_s=400.0)
        found = tables.fields(self.run_command("show"))
        self.assertEqual("kubernetes", found["labels.stale"])
        self.keep_labels({"zone": "a"}, boot_id="boot-2")
        printed = self.run_command("show")
        found = tables.fields(printed)
        self.assertEqual("a (kubernetes, long ago)", found["labels.zone"])
        self.assertEqual("kubernetes", found["labels.stale"])
        found = facts.from_json(self.run_command("show", "--json"))
        self.assertEqual(("kubernetes",), found.labels.stale)

    def test_kept_labels_that_are_garbled_are_passed_over(self):
        for text in ("", "{", '{"schema": 1}'):
            self.tree.write(store.PATH.lstrip("/"), text)
            self.assertIn("preempt_rt", self.run_command("show"))

    def test_check_says_what_the_kernel_contradicts(self):
        self.make_ready()
        key = "feature.node.kubernetes.io/kernel-version.major"
        self.keep_labels({key: "6"})
        self.run_command("check")
        self.keep_labels({key: "5"})
        told = json.loads(self.run_command("check", "--json", code=1))
        (found,) = told["reasons"]
        self.assertEqual("label_contradicted", found["code"])
        self.assertEqual(3, found["count"])
        self.assertIn(f"{key} is '5' by kubernetes, and '6'", found["message"])
        self.keep_labels({key: "5"}, age_s=400.0)
        self.run_command("check")

    def test_features(self):
        self.make_ready()
        printed = self.run_command("features")
        self.assertIn("# +expiry-time=", printed)
        self.assertIn("\nsriov-rt.ready=true\n", printed)
        found = json.loads(self.run_command("features", "--json"))
        self.assertEqual("8", found["sriov-rt.cpus.isolated"])

    def test_name_without_novas(self):
        self.tree.remove("etc/nova/nova.conf")
        found = facts.from_json(self.run_command("show", "--json"))
        self.assertEqual("compute-7", found.host)
        self.tree.remove("proc/sys/kernel/hostname")
        found = facts.from_json(self.run_command("show", "--json"))
        self.assertEqual("unknown", found.host)

    def test_ready(self):
        self.make_ready()
        self.assertEqual(
            "ready: rt-1 can serve realtime instances\n",
            self.run_command("check"),
        )
        for mode in ("container-vf", "passthrough", "macvlan"):
            self.assertEqual(
                f"ready: rt-1 can serve realtime and {mode} instances\n",
                self.run_command("check", "--mode", mode),
            )

    def test_ready_json(self):
        self.make_ready()
        self.assertEqual(
            {
                "host": "rt-1",
                "mode": None,
                "passes": True,
                "reasons": [],
                "advice": [],
                "boot_owed": [],
            },
            json.loads(self.run_command("check", "--json")),
        )

    def test_each_problem_has_its_remedy(self):
        self.make_ready()
        self.tree.write("proc/sys/kernel/sched_rt_runtime_us", "950000\n")
        self.tree.write("sys/kernel/mm/ksm/run", "1\n")
        printed = self.run_command("check", code=1)
        self.assertEqual(
            "not ready: rt-1 cannot serve realtime instances",
            printed.splitlines()[0],
        )
        self.assertEqual(
            [
                {
                    "Severity": "must",
                    "Problem": "realtime tasks are throttled to 950000 µs of "
                    "1000000 µs",
                    "Remedy": "run 'sysctl -w kernel.sched_rt_runtime_us=-1' "
                    "and keep it in /etc/sysctl.d",
                },
                {
                    "Severity": "must",
                    "Problem": "KSM merges and unmerges guest pages",
                    "Remedy": "run 'echo 2 > /sys/kernel/mm/ksm/run' and stop "
                    "ksmtuned",
                },
            ],
            tables.rows(printed),
        )
        self.assertLessEqual(tables.width(printed), 80)
        codes = ("check", "-f", "value", "-c", "code")
        self.assertEqual(
            "rt_throttled\nksm_running\n", self.run_command(*codes, code=1)
        )

    def test_a_remedy_is_a_field_of_its_own(self):
        self.make_ready()
        self.tree.write("sys/kernel/mm/ksm/run", "1\n")
        remedy = "run 'echo 2 > /sys/kernel/mm/ksm/run' and stop ksmtuned"
        found = json.loads(self.run_command("check", "--json", code=1))
        self.assertEqual(remedy, found["reasons"][0]["remedy"])
        self.assertTrue(found["reasons"][0]["message"].endswith(remedy))
        for form in ("yaml", "json"):
            printed = self.run_command("check", "-f", form, code=1)
            first = yaml.safe_load(printed)[0]
            self.assertEqual({"Severity", "Problem", "Remedy"}, set(first))
            self.assertEqual(remedy, first["Remedy"])

    def test_problems_as_json(self):
        self.make_ready()
        self.tree.remove("dev/kvm")
        found = json.loads(
            self.run_command(
                "check", "--json", "--mode", "passthrough", code=1
            )
        )
        self.assertEqual("passthrough", found["mode"])
        self.assertIs(False, found["passes"])
        (reason,) = found["reasons"]
        self.assertEqual("kvm_missing", reason["code"])
        self.assertIn("load kvm_intel or kvm_amd", reason["message"])

    def test_container_vf_does_without_the_iommu(self):
        self.make_ready()
        for group in (41, 42):
            self.tree.remove(f"sys/kernel/iommu_groups/{group}")
        self.run_command("check", "--mode", "container-vf")
        printed = self.run_command("check", "--mode", "passthrough", code=1)
        self.assertIn("no IOMMU is in use", printed)

    def test_same_problem_is_told_once(self):
        self.tree.remove("sys/devices/system/cpu/online")
        found = json.loads(self.run_command("check", "--json", code=1))
        told = [each["message"] for each in found["reasons"]]
        self.assertEqual(
            1, sum(each.startswith("cpus.online is unkn") for each in told)
        )

    def test_unknown_fact_names_its_file(self):
        self.tree.make_unreadable("sys/devices/system/cpu/isolated")
        self.assertIn(
            "cpus.isolated is unknown (/sys/devices/system/cpu/isolated: Is "
            "a directory)",
            self.run_command("check", "-f", "value", code=1),
        )

    def test_host_with_novas_own_driver_is_not_ready(self):
        self.make_ready()
        self.tree.write("proc/1/net/unix", "Num       RefCount Path\n")
        found = self.reasons()
        self.assertEqual(["compute_driver_missing"], list(found))

    def test_host_with_nova_needs_dedicated_cpus(self):
        self.make_ready()
        self.tree.write("etc/nova/nova.conf", "[compute]\n")
        self.assertIn(
            "no pCPUs are dedicated", self.run_command("check", code=1)
        )

    def test_host_without_nova_takes_every_isolated_cpu(self):
        self.make_ready()
        self.tree.remove("etc/nova/nova.conf")
        self.assertEqual(
            "ready: compute-7 can serve realtime instances\n",
            self.run_command("check"),
        )

    def test_configuration_of_nova_elsewhere(self):
        self.make_ready()
        self.tree.write("srv/n.conf", "[compute]\ncpu_dedicated_set = 0\n")
        found = self.reasons("--nova-config", "/srv/n.conf")
        self.assertIn("dedicated pCPUs 0 are not isolated", found.values())

    def test_configuration_of_nova_where_the_agent_reads_it(self):
        self.make_ready()
        self.tree.write(
            "etc/sriov_rt/sriov-rt.conf",
            "[agent]\nnova_config_files = /etc/nova/other.conf, /etc/none\n",
        )
        self.tree.write("etc/nova/other.conf", "[compute]\n")
        self.assertIn("dedicated_unset", self.reasons())
        self.tree.write("etc/sriov_rt/sriov-rt.conf", "no option\n")
        found = self.reasons()
        self.assertIn("sriov-rt.conf: line 1", found["fact_unknown"])
        self.tree.remove("etc/sriov_rt/sriov-rt.conf")
        self.run_command("check")

    def test_advice_is_shown_and_does_not_fail(self):
        self.make_ready()
        self.tree.write("proc/irq/default_smp_affinity", "ffff\n")
        printed = self.run_command("check")
        self.assertIn("ready: rt-1 can serve realtime instances\n", printed)
        (row,) = tables.rows(printed)
        self.assertEqual("should", row["Severity"])
        self.assertIn("irqaffinity=", row["Remedy"])
        told = json.loads(self.run_command("check", "--json"))
        (found,) = told["advice"]
        self.assertEqual("should", found["severity"])

    def test_an_ordinary_kernel_with_powersave_hpet_and_swap(self):
        self.make_ready()
        cpu = "sys/devices/system/cpu"
        for path, text in (
            ("sys/kernel/realtime", "0\n"),
            (f"{cpu}/cpufreq/policy0/scaling_governor", "powersave\n"),
            (f"{cpu}/cpu3/power/pm_qos_resume_latency_us", "0\n"),
            (
                "sys/devices/system/clocksource/clocksource0/"
                "current_clocksource",
                "hpet\n",
            ),
            (
                "proc/swaps",
                "Filename Type Size Used Priority\n/swapfile file 9 0 -2\n",
            ),
        ):
            self.tree.write(path, text)
        told = json.loads(self.run_command("check", "--json", code=1))
        self.assertEqual(
            {
                "kernel_not_rt",
                "frequency_varies",
                "idle_too_deep",
                "clock_slow",
                "swap_on",
            },
            {each["code"] for each in told["reasons"]},
        )

    def test_a_host_for_flavors_of_any_kernel(self):
        self.make_ready()
        self.tree.write("sys/kernel/realtime", "0\n")
        self.assertIn("kernel_not_rt", self.reasons())
        printed = self.run_command("check", "--kernel", "any")
        (row,) = tables.rows(printed)
        self.assertEqual("should", row["Severity"])
        self.assertIn("is not PREEMPT_RT", row["Problem"])

    def test_fix_plan(self):
        self.tree.write("sys/devices/system/cpu/isolated", "\n")
        printed = self.run_command("check", "--fix-plan", code=1)
        cpus = trees.ISOLATED
        self.assertIn(f"isolcpus=managed_irq,domain,{cpus} nohz", printed)
        self.assertIn("kernel.sched_rt_runtime_us = -1\n", printed)
        self.assertIn("[cpu_dedicated]\ntype=cpu\n", printed)
        told = json.loads(
            self.run_command("check", "--fix-plan", "--json", code=1)
        )
        plan = told["fix_plan"]
        self.assertIn(f"nohz_full={cpus}", plan["kernel"]["arguments"])
        self.assertTrue(
            plan["kernel"]["command_line"].startswith("BOOT_IMAGE=/vmlinuz ")
        )

    def test_the_fix_plans_profile_is_where_tuned_looks(self):
        for path in (
            "/etc/tuned/sriov-rt/tuned.conf",
            "/etc/tuned/profiles/sriov-rt/tuned.conf",
        ):
            printed = self.run_command("check", "--fix-plan", code=1)
            self.assertIn(f"\n# {path}; then run 'tuned-adm", printed)
            told = json.loads(
                self.run_command("check", "--fix-plan", "--json", code=1)
            )
            self.assertEqual(path, told["fix_plan"]["tuned"]["path"])
            self.tree.write("usr/lib/tuned/profiles/balanced/tuned.conf", "")

    def test_the_fix_plan_has_tuned_installed_first(self):
        missing = "# There is no tuned here: install it"
        self.assertIn(missing, self.run_command("check", "--fix-plan", code=1))
        self.tree.write("usr/sbin/tuned-adm", "")
        self.assertNotIn(
            missing, self.run_command("check", "--fix-plan", code=1)
        )

    def test_configuration_of_nova_that_does_not_exist(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.run_command("check", "--nova-config", "/srv/no.conf", code=2)
        self.assertIn("/srv/no.conf does not exist", said.getvalue())
        self.assertEqual(1, said.getvalue().count("\n"))

    def test_root_that_is_no_directory(self):
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            code = main.main(["host", "show", "--root", "/nowhere/at/all"])
        self.assertEqual(2, code)
        self.assertEqual(
            "sriov-rt: error: /nowhere/at/all is not a directory; give "
            "--root the directory that is / of the host, or leave it out\n",
            told.getvalue(),
        )

    def test_mode_that_there_is_not(self):
        told = io.StringIO()
        with contextlib.redirect_stderr(told), self.assertRaises(SystemExit):
            main.main(["host", "check", "--mode", "ovs"])
        self.assertIn("container-vf", told.getvalue())

    def test_not_installed(self):
        self.load.return_value = {"cpus": Unknown("not installed")}
        self.assertEqual(
            "cpus.isolated is unknown (not installed)",
            tables.rows(self.run_command("check", code=1))[0]["Problem"],
        )
