# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.facts import KernelFacts
from sriov_rt.host import kernel
from tests.unit.host import trees

SYSCTL = "proc/sys/kernel"
MODULES = f"lib/modules/{trees.RELEASE}"


class KernelTest(trees.TreeTest):
    def observe(self) -> KernelFacts:
        return kernel.observe(self.root)

    def test_realtime_host(self):
        found = self.observe()
        self.assertEqual(trees.RELEASE, found.release)
        self.assertIs(True, found.preempt_rt)
        self.assertTrue(found.command_line.startswith("BOOT_IMAGE="))
        self.assertFalse(found.command_line.endswith("\n"))
        self.assertEqual(-1, found.rt_runtime_us)
        self.assertEqual(1_000_000, found.rt_period_us)
        self.assertIs(False, found.timer_migration)
        self.assertIs(False, found.nmi_watchdog)
        self.assertEqual(
            {
                "8021q": "available",
                "ipvlan": "loaded",
                "macvlan": "builtin",
                "macvtap": "absent",
                "vfio_pci": "available",
            },
            found.modules,
        )

    def test_distribution(self):
        for text, found in (
            ('NAME="Rocky Linux"\nID="rocky"\nVERSION_ID=9\n', "rocky"),
            ("ID=debian\n", "debian"),
            ("NAME=x\n", "linux"),
        ):
            self.tree.write("etc/os-release", text)
            self.assertEqual(found, self.observe().distribution)
        (self.root.path / "etc/os-release").unlink()
        self.assertIsInstance(self.observe().distribution, Unknown)

    def test_numbers_missing_empty_garbled_unreadable(self):
        for name in ("rt_runtime_us", "rt_period_us"):
            path = f"{SYSCTL}/sched_{name}"
            for text in ("", "-2\n", "١\n", "1_0\n", "9" * 5000, "1 2\n"):
                with self.subTest(name=name, text=text[:9]):
                    self.tree.write(path, text)
                    found = getattr(self.observe(), name)
                    self.assertIn(f"/{path}: ", found.reason)
            self.tree.make_unreadable(path)
            self.assertIn(
                "Is a directory", getattr(self.observe(), name).reason
            )
            self.tree.remove(path)
            self.assertIn("No such file", getattr(self.observe(), name).reason)

    def test_switches(self):
        for name in ("timer_migration", "nmi_watchdog"):
            path = f"{SYSCTL}/{name}"
            with self.subTest(name):
                self.tree.write(path, "1\n")
                self.assertIs(True, getattr(self.observe(), name))
                self.tree.write(path, "2\n")
                self.assertIn(f"/{path}", getattr(self.observe(), name).reason)
                self.tree.make_unreadable(path)
                self.assertEqual(
                    Unknown(f"/{path}: Is a directory"),
                    getattr(self.observe(), name),
                )

    def test_setting_that_the_kernel_does_not_have_is_off(self):
        for name in ("timer_migration", "nmi_watchdog"):
            self.tree.remove(f"{SYSCTL}/{name}")
            with self.subTest(name):
                self.assertIs(False, getattr(self.observe(), name))

    def test_setting_without_procfs_is_unknown(self):
        self.tree.remove(SYSCTL)
        found = self.observe()
        self.assertIsInstance(found.nmi_watchdog, Unknown)
        self.assertIsInstance(found.timer_migration, Unknown)
        self.assertIsInstance(found.release, Unknown)

    def test_preempt_rt_by_the_version_of_the_kernel(self):
        self.tree.remove("sys/kernel/realtime")
        self.assertIs(True, self.observe().preempt_rt)
        # Its release may say -rt all the same: the patch was not applied.
        for text in ("#1 SMP PREEMPT_DYNAMIC Debian", "#1 SMP PREEMPT Sun"):
            self.tree.write(f"{SYSCTL}/version", text)
            self.assertIs(False, self.observe().preempt_rt)
        self.tree.remove(f"{SYSCTL}/version")
        self.assertIsInstance(self.observe().preempt_rt, Unknown)

    def test_preempt_rt_garbled(self):
        self.tree.write("sys/kernel/realtime", "yes\n")
        self.assertIsInstance(self.observe().preempt_rt, Unknown)

    def test_release_garbled(self):
        for text in ("linux\n", "6.1 0\n", "6.1" + "0" * 90):
            with self.subTest(text):
                self.tree.write(f"{SYSCTL}/osrelease", text)
                found = self.observe()
                self.assertIsInstance(found.release, Unknown)
                self.assertIsInstance(found.modules, Unknown)

    def test_module_with_parameters_is_seen_built_in(self):
        self.tree.write("sys/module/vfio_pci/parameters/ids", "\n")
        self.assertEqual("builtin", self.observe().modules["vfio_pci"])

    def test_modules_are_unknown_without_their_list(self):
        for name in ("modules.dep", "modules.builtin"):
            path = f"{MODULES}/{name}"
            self.tree.make_unreadable(path)
            with self.subTest(name):
                self.assertEqual(
                    Unknown(f"/{path}: Is a directory"),
                    self.observe().modules,
                )
            self.tree.remove(path)
            self.tree.write(path)

    def test_modules_that_all_run_need_no_list(self):
        for name in kernel.MODULES:
            self.tree.write(f"sys/module/{name}/initstate", "live\n")
        self.tree.remove(MODULES)
        self.assertEqual(
            dict.fromkeys(kernel.MODULES, "loaded"), self.observe().modules
        )

    def test_list_that_is_not_needed_may_be_missing(self):
        self.tree.remove(f"{MODULES}/modules.builtin")
        self.tree.write(
            f"{MODULES}/modules.dep",
            "".join(f"kernel/net/{name}.ko:\n" for name in kernel.MODULES),
        )
        found = self.observe().modules
        self.assertEqual("available", found["macvlan"])
        self.assertEqual("loaded", found["ipvlan"])

    def test_empty_lists_of_modules(self):
        for name in ("modules.dep", "modules.builtin"):
            self.tree.write(f"{MODULES}/{name}")
        self.assertEqual("absent", self.observe().modules["macvlan"])

    def test_a_command_line_may_have_any_bytes(self):
        self.tree.write("proc/cmdline", b"quiet \xff\n")
        self.assertEqual("quiet \ufffd", self.observe().command_line)
