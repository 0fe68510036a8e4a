# SPDX-License-Identifier: Apache-2.0

import dataclasses
import subprocess

from sriov_rt.reason import Reason
from sriov_rt.tuning import boot
from sriov_rt.tuning.settings import Kind
from tests.unit.host import trees
from tests.unit.tuning import fakes

GRUB = "/etc/default/grub.d/90-sriov-rt.cfg"


class FilesTest(trees.TreeTest):
    """Each file is where the distribution has it."""

    def setUp(self):
        super().setUp()
        fakes.make_ordinary(self.tree)

    def found(self):
        _, plan = fakes.planned(self.tree)
        return {x.path: x.value for x in boot.of_disk(plan, self.tree.root)}

    def test_debian_12_and_13_with_tuned(self):
        for version, directory in ((12, "tuned"), (13, "tuned/profiles")):
            with self.subTest(version):
                fakes.debian(self.tree, version)
                found = self.found()
                profile = f"/etc/{directory}/sriov-rt/tuned.conf"
                self.assertEqual(
                    {
                        "/etc/sysctl.d/90-sriov-rt.conf",
                        profile,
                        boot.ACTIVE_PROFILE,
                        boot.PROFILE_MODE,
                    },
                    {*found},
                )
                self.assertIn("include=virtual-host\n", found[profile])
                self.assertEqual("sriov-rt\n", found[boot.ACTIVE_PROFILE])

    def test_without_tuned_it_is_tmpfiles_d(self):
        found = self.found()
        self.assertEqual(
            {"/etc/sysctl.d/90-sriov-rt.conf", boot.TMPFILES}, {*found}
        )
        lines = found[boot.TMPFILES].splitlines()
        self.assertIn("w /sys/kernel/mm/ksm/run - - - - 2", lines)
        path = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"
        self.assertIn(f"w {path} - - - - performance", lines)
        path = f"/{fakes.LATENCY.format(15)}"
        self.assertIn(f"w {path} - - - - n/a", lines)

    def test_a_partition_is_a_drop_in_of_its_slice(self):
        self.tree.guest_cgroup("1-3", "1-3", "isolated")
        path = "/etc/systemd/system/machine.slice.d/90-sriov-rt.conf"
        text = self.found()[path]
        self.assertIn("AllowedCPUs=1-3,6-7,10-11,14-15\n", text)
        self.assertIn("CPUSetPartition=isolated\n", text)

    def test_sysctls_are_those_of_the_plan(self):
        _, plan = fakes.planned(self.tree)
        text = self.found()["/etc/sysctl.d/90-sriov-rt.conf"]
        for key, value in plan.sysctls.items():
            self.assertIn(f"{key} = {value}\n", text)


class LoaderTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        fakes.make_ordinary(self.tree)

    def found(self):
        facts, plan = fakes.planned(self.tree)
        return [*boot.of_loader(facts, plan, self.tree.root)]

    def test_debian_has_a_drop_in_of_grub(self):
        for version in (12, 13):
            with self.subTest(version):
                fakes.debian(self.tree, version)
                drop_in, program = self.found()
                self.assertEqual(
                    (Kind.FILE, GRUB), (drop_in.kind, drop_in.path)
                )
                self.assertEqual(("update-grub",), program.command)
                # What a kill of grub-mkconfig leaves is undone as well.
                config = "/boot/grub/grub.cfg"
                self.assertEqual((config, f"{config}.new"), program.files)

    def test_the_shell_of_the_drop_in(self):
        _, plan = fakes.planned(self.tree)
        before = 'GRUB_CMDLINE_LINUX="a isolcpus=2 nohz-full=3 *"\n'
        before += 'GRUB_CMDLINE_LINUX_DEFAULT="quiet nohz=off"\n'
        shown = 'echo "$GRUB_CMDLINE_LINUX$GRUB_CMDLINE_LINUX_DEFAULT"\n'
        done = subprocess.run(
            ("sh", "-e", "-u"),
            input=f"{before}{boot.grub_text(plan)}{shown}",
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual("", done.stderr)
        self.assertEqual(
            ["a", "*", "quiet", *plan.arguments], done.stdout.split()
        )

    def test_fedora_has_grubby(self):
        fakes.fedora(self.tree)
        (program,) = self.found()
        self.assertEqual("grubby", program.command[0])
        self.assertIn("--remove-args=isolcpus=2 nohz=off", program.command)
        self.assertIn("--args=isolcpus=2 nohz=off", program.undo_command)
        self.assertIn(f"/boot/{fakes.ENTRY}", program.files)
        self.assertIn("/etc/kernel/cmdline", program.files)

    def test_grubby_takes_nothing_away_where_nothing_is(self):
        fakes.fedora(self.tree)
        self.tree.write("proc/cmdline", "root=/dev/sda1 ro\n")
        (program,) = self.found()
        words = (*program.command, *program.undo_command)
        self.assertEqual(1, sum(x.startswith("--remove") for x in words))
        self.assertEqual(1, sum(x.startswith("--args") for x in words))

    def test_a_line_that_is_too_long_is_the_operator_s(self):
        fakes.debian(self.tree)
        line = " ".join(f"option{number}" for number in range(250))
        self.tree.write("proc/cmdline", f"{line}\n")
        (reason,) = self.found()
        self.assertEqual("command_line_by_hand", reason.code)

    def test_entries_that_name_a_variable_are_the_operator_s(self):
        """As RHEL 8 has them: grubby changes grubenv, which we do not read."""
        fakes.fedora(self.tree)
        self.tree.write(f"boot/{fakes.ENTRY}", "options $kernelopts\n")
        (found,) = self.found()
        self.assertIsInstance(found, Reason)
        self.assertEqual("command_line_by_hand", found.code)

    def test_systemd_boot_has_kernel_install(self):
        fakes.systemd_boot(self.tree)
        line, program = self.found()
        self.assertEqual("/etc/kernel/cmdline", line.path)
        self.assertTrue(line.value.startswith("root=/dev/sda1 ro quiet iso"))
        self.assertNotIn("BOOT_IMAGE", line.value)
        image = f"/boot/vmlinuz-{trees.RELEASE}"
        self.assertEqual(
            ("kernel-install", "add", trees.RELEASE, image), program.command
        )

    def test_elsewhere_it_is_the_operator_s(self):
        for relative in ("usr/bin/kernel-install", "usr/sbin/grubby"):
            self.tree.write(relative, "")
            (reason,) = self.found()
            self.assertIsInstance(reason, Reason)
            self.assertEqual("command_line_by_hand", reason.code)
            self.assertIn("nohz_full=2-3", reason.message)
            self.assertIn("take away isolcpus=2 nohz=off", reason.message)

    def test_a_host_that_was_booted_with_them_needs_none(self):
        _, plan = fakes.planned(self.tree)
        self.tree.write("proc/cmdline", f"{plan.command_line}\n")
        self.assertEqual([], self.found())


class ByHandTest(trees.TreeTest):
    def codes(self):
        _, plan = fakes.planned(self.tree)
        return [x.code for x in boot.by_hand(plan, self.tree.root)]

    def test_nova_s_configuration(self):
        self.assertEqual([], self.codes())
        self.tree.write("etc/nova/nova.conf", "[compute]\n")
        _, plan = fakes.planned(self.tree)
        (found,) = (
            x
            for x in boot.by_hand(plan, self.tree.root)
            if x.code == "nova_by_hand"
        )
        self.assertRegex(str(found), r"set \[compute\] \S+ in nova.conf")

    def test_a_tuned_that_is_not_started(self):
        fakes.debian(self.tree, 12)
        self.assertEqual(["tuned_disabled"], self.codes())
        wants = "etc/systemd/system/multi-user.target.wants"
        self.tree.write(f"{wants}/tuned.service", "")
        self.assertEqual([], self.codes())

    def test_what_no_setting_can_change(self):
        _, plan = fakes.planned(self.tree)
        other = Reason("kernel_not_rt", "boot another kernel", {})
        plan = dataclasses.replace(plan, by_hand=(other,))
        self.assertEqual([other], [*boot.by_hand(plan, self.tree.root)])
