# SPDX-License-Identifier: Apache-2.0

import errno
import itertools
import os
import pathlib
import re
import shutil
import sys
import time
import unittest
from unittest import mock

from sriov_rt import files
from sriov_rt.codec import Unknown
from sriov_rt.host import maintenance
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from sriov_rt.tuning import apply
from sriov_rt.tuning import records
from sriov_rt.tuning.apply import Refused
from sriov_rt.tuning.apply import Result
from sriov_rt.tuning.apply import Tuning
from sriov_rt.tuning.settings import Kind
from sriov_rt.tuning.settings import Setting
from tests import periodic
from tests.testbed import death
from tests.unit.host import trees
from tests.unit.tuning import fakes

SYSCTL = "etc/sysctl.d/90-sriov-rt.conf"
PROFILE = "etc/tuned/sriov-rt/tuned.conf"
WRITE = records.Records.write
UUID = "b3f2e1d0-1111-4222-8333-444455556666"


class TuningTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.reset()

    def reset(self, kind=fakes.debian) -> None:
        """Make an ordinary host of a distribution."""
        shutil.rmtree(self.tree.path)
        self.tree.path.mkdir()
        self.tree = trees.realtime_host(self.tree.path)
        fakes.make_ordinary(self.tree)
        kind(self.tree)
        self.host = fakes.FakeHost(self.tree.root)
        self.reports = []
        self.before = fakes.snapshot(self.tree)

    def tuning(self) -> Tuning:
        return Tuning(self.host, cpus(trees.ISOLATED), self.reports.append)

    def apply(self, codes=("thp_always",)):
        chosen = fakes.settings_of(self.tree)
        return {x.path: x for x in self.tuning().apply(chosen, codes)}

    def undo(self, **options):
        return {x.path: x for x in self.tuning().undo(Kind, **options)}

    def read(self, relative: str) -> str:
        return (self.tree.path / relative).read_text()

    def boot(self) -> None:
        self.tree.write("proc/sys/kernel/random/boot_id", "boot-2\n")

    def claim(self, numbers: str) -> None:
        """Have a realtime guest on pCPUs, as a manager's hook claims them."""
        path = f"run/sriov-rt/cpus/{UUID}.json"
        self.tree.write(path, f'{{"schema":1,"cpus":"{numbers}"}}')
        for each in ("run/sriov-rt/cpus", path):
            (self.tree.path / each).chmod(0o700)

    def assert_as_before(self, message=None) -> None:
        self.assertEqual(self.before, fakes.snapshot(self.tree), message)


class ProgramTest(unittest.TestCase):
    def test_a_shell_without_root_s_path(self):
        """As 'su' leaves it on Debian: update-grub is in /usr/sbin."""
        with mock.patch.dict(os.environ, {"PATH": "/usr/bin:/bin"}):
            apply.Host(Root("/")).run(("sh", "-c", "chroot --version"))

    def test_a_terminal_does_not_interrupt_it(self):
        """Ctrl-C goes to the terminal's session."""
        code = "import os; raise SystemExit(os.getsid(0) != os.getpid())"
        apply.Host(Root("/")).run((sys.executable, "-c", code))


class ApplyTest(TuningTest):
    def test_each_setting_is_made_and_undone(self):
        found = self.apply()
        self.assertEqual({Result.DONE}, {x.result for x in found.values()})
        self.assertEqual("-1\n", self.read(fakes.RUNTIME))
        self.assertEqual("always madvise [never]\n", self.read(fakes.THP))
        self.assertEqual("performance\n", self.read(fakes.GOVERNOR.format(0)))
        self.assertEqual("n/a\n", self.read(fakes.LATENCY.format(2)))
        self.assertEqual("0\n", self.read(fakes.LATENCY.format(0)))
        self.assertIn("include=virtual-host\n", self.read(PROFILE))
        self.assertEqual("sriov-rt\n", self.read("etc/tuned/active_profile"))
        self.assertIn(" nohz_full=2-3", self.read("boot/grub/grub.cfg"))
        self.assertNotIn("isolcpus=2 ", self.read("boot/grub/grub.cfg"))
        self.assertNotIn("nohz=off", self.read("boot/grub/grub.cfg"))
        self.assertEqual([("update-grub",)], self.host.commands)
        self.assertIn("update-grub: ", self.reports[-1])
        found = self.undo()
        self.assertEqual({Result.UNDONE}, {x.result for x in found.values()})
        self.assert_as_before()

    def test_the_last_one_is_undone_first(self):
        """What depends on another setting was made after it."""
        made = [x for x, each in self.apply().items() if each.when == "now"]
        undone = [x for x, each in self.undo().items() if each.when == "now"]
        self.assertGreater(len(made), 5)
        self.assertEqual(made[::-1], undone)

    def test_it_is_done_once(self):
        self.apply()
        self.assertEqual({}, self.apply())
        self.undo()
        self.assertEqual({}, self.undo())
        self.assert_as_before()

    def test_the_least_dangerous_comes_first(self):
        found = [*self.apply()]
        kernel = [x for x in found if x.startswith(("/proc", "/sys"))]
        self.assertEqual(f"/{fakes.RUNTIME}", found[0])
        self.assertEqual(found[: len(kernel)], kernel)
        self.assertEqual(f"/{fakes.GOVERNOR.format(8)}", kernel[-1])
        self.assertEqual("update-grub", found[-1])

    def test_modes_stay(self):
        (self.tree.path / "etc/tuned/active_profile").chmod(0o600)
        self.before = fakes.snapshot(self.tree)
        self.apply()
        path = self.tree.path / "etc/tuned/active_profile"
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.undo()
        self.assert_as_before()

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_owners_stay(self):
        path = self.tree.path / "etc/tuned/active_profile"
        os.chown(path, 0, 8)
        self.apply()
        self.assertEqual((0, 8), (path.stat().st_uid, path.stat().st_gid))
        os.chown(path, 0, 9)
        self.undo()
        self.assertEqual((0, 8), (path.stat().st_uid, path.stat().st_gid))

    def test_the_record_is_root_s_alone(self):
        self.apply()
        place = self.tree.path / records.PLACE
        self.assertEqual(0o700, place.stat().st_mode & 0o777)
        place.chmod(0o777)
        with self.assertRaises(OSError):
            self.apply()

    def test_two_at_a_time(self):
        with (
            records.Records(self.tree.root).locked(),
            self.assertRaises(records.TuningRuns),
        ):
            self.apply()

    def test_a_program_that_outlives_it_keeps_the_lock(self):
        place = records.Records(self.tree.root)
        host = apply.Host(Root("/"))
        with place.locked() as lock:
            host.locks = (lock,)
            host.run(("sh", "-c", "sleep 2 > /dev/null 2>&1 &"))
        with self.assertRaises(records.TuningRuns):
            self.apply()
        time.sleep(2.5)
        self.apply()

    def test_a_damaged_record_stops_it(self):
        self.apply()
        self.tree.write(f"{records.PLACE}/record.json", "{")
        with self.assertRaises(records.RecordDamaged):
            self.undo()
        self.assertEqual("-1\n", self.read(fakes.RUNTIME))

    def test_one_that_the_kernel_refuses_is_left(self):
        self.host.refuses[fakes.KSM] = OSError(errno.EIO, "I/O error")
        found = self.apply()
        self.assertEqual(Result.REFUSED, found[f"/{fakes.KSM}"].result)
        self.assertIn("I/O error", found[f"/{fakes.KSM}"].why)
        self.assertEqual("-1\n", self.read(fakes.RUNTIME))
        self.assertNotIn(f"/{fakes.KSM}", self.undo())
        self.assert_as_before()

    def test_one_that_reads_back_otherwise_is_set_back(self):
        write = self.host.write

        def other(path, text):
            is_it = path == f"/{fakes.KSM}" and text == "2\n"
            write(path, "3\n" if is_it else text)

        self.host.write = other
        found = self.apply()[f"/{fakes.KSM}"]
        self.assertEqual(Result.REFUSED, found.result)
        self.assertIn("the kernel made 3 of it", found.why)
        self.assertEqual("1\n", self.read(fakes.KSM))

    def test_a_program_that_fails_leaves_its_files(self):
        def fail():
            self.tree.write("boot/grub/grub.cfg", "half")
            raise Refused("update-grub: no space")

        self.host.before = fail
        found = self.apply()["update-grub"]
        self.assertEqual(
            (Result.REFUSED, "update-grub: no space"),
            (found.result, found.why),
        )
        self.host.before = lambda: None
        self.undo()
        self.assert_as_before()

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_arguments_that_do_not_reach_the_boot_loader_are_no_success(self):
        """Another file of /etc/default/grub.d sets the line after ours."""
        self.tree.write(
            "etc/default/grub.d/99-site.cfg",
            'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n',
        )
        fakes.update_grub(self.tree)
        self.before = fakes.snapshot(self.tree)
        found = self.apply()["update-grub"]
        self.assertIs(Result.REFUSED, found.result)
        self.assertIn("/boot/grub/grub.cfg has no isolcpus=", found.why)
        self.assertIn("take precedence", found.why)
        self.undo()
        self.assert_as_before()

    def test_a_file_that_somebody_else_writes_just_then_is_his(self):
        sync = files.sync

        def written(directory):
            if directory.name == "sysctl.d":
                self.tree.write(SYSCTL, "theirs\n")
            sync(directory)

        with mock.patch.object(files, "sync", written):
            found = self.apply()[f"/{SYSCTL}"]
        self.assertIs(Result.REFUSED, found.result)
        self.assertIn("somebody else has written it", found.why)
        self.assertIs(Result.CHANGED, self.undo()[f"/{SYSCTL}"].result)
        self.assertEqual("theirs\n", self.read(SYSCTL))

    def test_an_undo_that_the_kernel_makes_another_value_of(self):
        """It is not called undone, and the next one undoes it."""
        self.apply()
        self.host.deaf = {fakes.RUNTIME}
        found = self.undo()[f"/{fakes.RUNTIME}"]
        self.assertIs(Result.REFUSED, found.result)
        self.assertIn("sched_rt_runtime_us has -1 still", found.why)
        self.host.deaf = set()
        self.assertEqual([f"/{fakes.RUNTIME}"], list(self.undo()))
        self.assert_as_before()

    def test_a_file_of_somebody_else_is_not_replaced(self):
        os.chown(self.tree.path / "etc/tuned/active_profile", 7, 8)
        found = self.apply()["/etc/tuned/active_profile"]
        self.assertEqual(Result.REFUSED, found.result)
        self.assertIn("belongs to user 7", found.why)

    def test_a_link_is_not_replaced(self):
        self.tree.link(SYSCTL, "/etc/other.conf")
        found = self.apply()[f"/{SYSCTL}"]
        self.assertEqual(Result.REFUSED, found.result)
        self.assertIn("a link", found.why)
        self.assertFalse((self.tree.path / "etc/other.conf").exists())

    def test_a_dry_run_writes_nothing(self):
        chosen = fakes.settings_of(self.tree)
        found = [*self.tuning().apply(chosen, dry=True)]
        self.assertEqual({Result.PLANNED}, {x.result for x in found})
        self.assertFalse((self.tree.path / records.PLACE).exists())
        self.apply()
        before = fakes.snapshot(self.tree)
        self.assertEqual({*self.undo(dry=True)}, {x.path for x in found})
        self.assertEqual(before, fakes.snapshot(self.tree))


class GuestTest(TuningTest):
    """A realtime guest runs meanwhile."""

    def waits(self, found):
        return {k for k, x in found.items() if x.result is Result.WAITS}

    def test_nothing_disturbs_its_cpus(self):
        self.claim("2-3")
        left = self.waits(self.apply())
        self.assertEqual(
            {
                f"/{fakes.KSM}",
                f"/{fakes.GOVERNOR.format(0)}",
                "/proc/sys/kernel/nmi_watchdog",
                "/proc/sys/kernel/timer_migration",
                "/proc/sys/kernel/watchdog_cpumask",
                "/sys/devices/virtual/workqueue/cpumask",
            },
            left,
        )
        self.assertEqual("powersave\n", self.read(fakes.GOVERNOR.format(0)))
        self.assertEqual("performance\n", self.read(fakes.GOVERNOR.format(8)))
        self.assertEqual("-1\n", self.read(fakes.RUNTIME))

    def test_the_sentence_names_it(self):
        self.claim("2-3")
        why = self.apply()[f"/{fakes.KSM}"].why
        self.assertIn("merged pages are split", why)
        self.assertIn(f"stop guest {UUID} on CPUs 2-3 first", why)

    def test_the_same_is_planned(self):
        self.claim("2-3")
        chosen = fakes.settings_of(self.tree)
        planned = {x.path: x for x in self.tuning().apply(chosen, dry=True)}
        self.assertEqual(self.waits(planned), self.waits(self.apply()))

    def test_it_goes(self):
        self.claim("2-3")
        left = self.waits(self.apply())
        self.tree.remove(f"run/sriov-rt/cpus/{UUID}.json")
        self.assertEqual(left, {*self.apply()})
        self.undo()
        self.assert_as_before()

    def test_an_undo_respects_it(self):
        self.apply()
        self.claim("2-3")
        left = self.waits(self.undo())
        self.assertIn(f"/{fakes.RUNTIME}", left)
        self.assertIn(f"/{fakes.LATENCY.format(2)}", left)
        self.assertNotIn(f"/{fakes.LATENCY.format(6)}", left)
        self.assertEqual("-1\n", self.read(fakes.RUNTIME))
        self.tree.remove(f"run/sriov-rt/cpus/{UUID}.json")
        self.assertEqual(left, {*self.undo()})
        self.assert_as_before()

    def test_a_realtime_program_counts_as_one(self):
        task = "proc/77/task/77"
        fields = ["S", "1", "1", "1", "0", "-1", "0"] + ["0"] * 29
        fields += ["2", "99", "1"] + ["0"] * 9
        stat = f"77 (cyclictest) {' '.join(fields)}\n"
        self.tree.write(f"{task}/stat", stat)
        self.tree.write(f"{task}/status", "Cpus_allowed_list:\t2-3\n")
        why = self.apply()[f"/{fakes.KSM}"].why
        self.assertIn("stop thread 77 (cyclictest) on CPUs 2-3 first", why)
        self.tree.write(f"{task}/status", "Cpus_allowed_list:\t0-15\n")
        self.assertIn(f"/{fakes.KSM}", self.apply())

    def test_unknown_guests_stop_what_would_disturb_them(self):
        self.tree.write("run/libvirt/qemu", "")
        found = self.apply()
        self.assertIn(
            "which guests run is unknown", found[f"/{fakes.KSM}"].why
        )
        self.assertEqual(Result.DONE, found[f"/{fakes.RUNTIME}"].result)

    def test_a_container_sees_no_guest(self):
        with mock.patch.object(
            apply, "sees_host_processes", lambda proc: False
        ):
            found = self.apply()
        self.assertIn("a container", found[f"/{fakes.KSM}"].why)
        self.assertEqual(Result.DONE, found[f"/{fakes.RUNTIME}"].result)

    def test_interrupts_of_nics_stay(self):
        self.tree.write(f"sys/{trees.X710}/msi_irqs/26", "msix\n")
        self.claim("6")
        path = "/proc/irq/26/smp_affinity_list"
        found = self.apply()[path]
        self.assertEqual(Result.WAITS, found.result)
        self.assertIn("the interrupt of a NIC", found.why)
        self.assertEqual("2-3\n", self.read(path[1:]))


class ChangedTest(TuningTest):
    """Somebody else changes what was set."""

    def test_a_value_of_others_is_left(self):
        self.apply()
        self.tree.write(fakes.RUNTIME, "900000\n")
        self.tree.write(SYSCTL, "kernel.timer_migration = 1\n")
        found = self.undo()
        changed = {k for k, x in found.items() if x.result is Result.CHANGED}
        self.assertEqual({f"/{fakes.RUNTIME}", f"/{SYSCTL}"}, changed)
        self.assertIn(
            "900000, which is not ours", found[f"/{fakes.RUNTIME}"].why
        )
        self.assertEqual("900000\n", self.read(fakes.RUNTIME))
        self.undo(force=True)
        self.assert_as_before()

    def test_one_that_is_as_it_was_is_undone(self):
        self.apply()
        self.tree.write(fakes.RUNTIME, "950000\n")
        self.assertEqual(
            Result.UNDONE, self.undo()[f"/{fakes.RUNTIME}"].result
        )
        self.assert_as_before()

    def test_what_others_set_is_what_an_apply_undoes(self):
        self.apply()
        self.tree.write(fakes.RUNTIME, "900000\n")
        self.apply()
        self.undo()
        self.assertEqual("900000\n", self.read(fakes.RUNTIME))

    def test_a_plan_that_changes_keeps_what_was_there_first(self):
        self.apply()
        conf = "[compute]\ncpu_dedicated_set = 2-3,10-11\n"
        old = self.read("etc/nova/nova.conf")
        self.tree.write("etc/nova/nova.conf", conf)
        found = self.apply()
        self.assertIn(f"/{SYSCTL}", found)
        self.assertIn("/sys/devices/virtual/workqueue/cpumask", found)
        self.assertIn("update-grub", found)
        self.undo()
        self.tree.write("etc/nova/nova.conf", old)
        self.assert_as_before()

    def test_a_kernel_that_came_meanwhile_stays_bootable(self):
        self.apply()
        text = self.read("boot/grub/grub.cfg")
        self.tree.write("boot/grub/grub.cfg", f"{text}{text}")
        self.undo()
        self.assertEqual(2, len(self.host.commands))
        self.assert_as_before()

    def came(self, directory: str) -> str:
        """Install a kernel, whose entry has the line of those to come."""
        line = self.read("etc/kernel/cmdline")
        path = f"{directory}/loader/entries/4f2a-6.12.conf"
        self.tree.write(path, f"title New\noptions {line}")
        self.assertIn("nohz_full=", self.read(path))
        return path

    def test_a_kernel_that_grubby_has_given_the_arguments_loses_them(self):
        self.reset(fakes.fedora)
        self.apply()
        path = self.came("boot")
        self.assertIn(Result.UNDONE, {x.result for x in self.undo().values()})
        self.assertNotIn("nohz_full=", self.read(path))
        self.tree.remove(path)
        self.assert_as_before()

    def test_a_kernel_that_keeps_the_arguments_is_named(self):
        """kernel-install writes the entry of one kernel alone."""
        self.reset(fakes.systemd_boot)
        self.apply()
        path = self.came("efi")
        for _ in range(2):
            (found,) = (
                x for x in self.undo().values() if x.kind is Kind.PROGRAM
            )
            self.assertIs(Result.REFUSED, found.result)
            self.assertIn(f"/{path} has the arguments still", found.why)
        self.tree.remove(path)
        self.undo()
        self.assert_as_before()
        self.assertEqual({}, self.undo())

    def test_a_freed_interrupt_is_nothing_to_undo(self):
        self.apply()
        self.tree.remove("proc/irq/26")
        found = self.undo()["/proc/irq/26/smp_affinity_list"]
        self.assertEqual(Result.UNDONE, found.result)
        self.assertFalse((self.tree.path / "proc/irq/26").exists())

    def test_a_directory_of_others_stays(self):
        self.apply()
        self.tree.write("etc/default/grub.d/mine.cfg", "")
        self.undo()
        self.assertTrue((self.tree.path / "etc/default/grub.d").is_dir())

    def test_a_plan_that_changes_twice_beside_a_kernel_that_came(self):
        """What a program changed at first is as it was before that."""
        self.reset(fakes.fedora)
        self.apply()
        came = f"title New\noptions {fakes.LINE}\n"
        self.tree.write(f"boot/{fakes.ENTRY}".replace("6.1", "6.2"), came)
        self.assertIn("grubby", "".join(self.apply()))
        self.undo()
        self.tree.remove(f"boot/{fakes.ENTRY}".replace("6.1", "6.2"))
        self.assert_as_before()

    def test_the_number_of_an_interrupt_comes_again(self):
        """It is another device's by then, with the affinity that we set."""
        actions = "sys/kernel/irq/26/actions"
        self.tree.write(actions, "i40e-eno1-TxRx-0\n")
        self.apply()
        path = "proc/irq/26/smp_affinity_list"
        value = self.read(path)
        self.tree.write(actions, "nvme0q1\n")
        found = self.undo()[f"/{path}"]
        self.assertEqual(Result.UNDONE, found.result)
        self.assertEqual(value, self.read(path))

    def test_a_dry_run_of_an_undo_says_what_is_left(self):
        self.apply()
        self.tree.write(fakes.RUNTIME, "900000\n")
        self.tree.remove(SYSCTL)
        self.tree.write(SYSCTL, "")
        found = self.undo(dry=True)
        for path in (fakes.RUNTIME, SYSCTL):
            self.assertEqual(Result.CHANGED, found[f"/{path}"].result)
        self.assertIn("it is empty, which", found[f"/{SYSCTL}"].why)
        found = self.undo(dry=True, force=True)
        self.assertEqual({Result.PLANNED}, {x.result for x in found.values()})

    def test_attributes_of_a_file_stay(self):
        """SELinux has its label there, and ACLs are such attributes."""
        path = self.tree.path / "etc/tuned/active_profile"
        try:
            os.setxattr(path, "user.label", b"tuned_rw_etc_t")
        except OSError as error:
            self.skipTest(str(error))
        names = ["user.label", "security.ima"]
        for act in (self.apply, self.undo):
            with (
                mock.patch("os.listxattr", return_value=names),
                mock.patch("os.getxattr", return_value=b"tuned_rw_etc_t"),
                mock.patch("os.setxattr", wraps=os.setxattr) as given,
            ):
                act()
            self.assertEqual(
                {"user.label"}, {x[0][1] for x in given.call_args_list}
            )
            self.assertEqual(
                b"tuned_rw_etc_t", os.getxattr(path, "user.label")
            )


class DiskTest(TuningTest):
    """Its disk is full, or read-only."""

    def test_one_that_is_read_only_costs_its_files_alone(self):
        """unlink(2) says so for names that are not there as well."""
        self.apply()
        real = pathlib.Path.unlink

        def unlink(path, *args, **kwargs):
            if path.is_relative_to(self.tree.path / "boot"):
                raise OSError(errno.EROFS, "Read-only file system", str(path))
            real(path, *args, **kwargs)

        with mock.patch.object(pathlib.Path, "unlink", unlink):
            self.tree.write(fakes.KSM, "1\n")
            self.assertEqual(Result.DONE, self.apply()[f"/{fakes.KSM}"].result)

    def test_one_that_is_full_is_named(self):
        """Nothing is changed that cannot be written down."""
        full = OSError(errno.ENOSPC, "No space left on device")
        chosen = fakes.settings_of(self.tree)
        with (
            mock.patch("os.write", side_effect=full),
            self.assertRaises(OSError) as caught,
        ):
            [*self.tuning().apply(chosen)]
        self.assertIn("record.json", str(caught.exception.filename))
        self.assert_as_before()

    def test_a_record_that_nobody_could_read_is_not_written(self):
        self.tree.write("boot/grub/grub.cfg", b"\xff" * 3_900_000)
        found = self.apply()["update-grub"]
        self.assertEqual(Result.REFUSED, found.result)
        self.assertIn("bytes", found.why)
        self.assertEqual([], self.host.commands)
        records.Records(self.tree.root).read()

    def test_a_long_file_is_undone(self):
        """tmpfiles.d of a host with 512 CPUs, which has no tuned."""
        path = "/etc/tmpfiles.d/90-sriov-rt.conf"
        text = "w /sys/devices/system/cpu/cpu1/x - - - - n/a\n" * 2000
        for _ in range(2):
            found = [
                *self.tuning().apply([Setting(Kind.FILE, path, text)]),
                *self.undo().values(),
            ]
            self.assertEqual(
                [Result.DONE, Result.UNDONE], [x.result for x in found]
            )
        self.assert_as_before()

    def test_a_record_of_another_release_is_not_called_damaged(self):
        self.apply()
        path = self.tree.path / records.PLACE / "record.json"
        text = path.read_text().replace('{"schema":1,', '{"schema":9,')
        path.write_text(text)
        with self.assertRaises(records.RecordDamaged) as caught:
            self.undo()
        self.assertIn("release of sriov-rt", str(caught.exception))

    def test_hundreds_of_settings_are_not_as_many_records(self):
        """A host with 512 CPUs and 256 VFs has thousands of them."""
        chosen = []
        for irq in range(500):
            path = f"proc/irq/{1000 + irq}/smp_affinity_list"
            self.tree.write(path, "0-15\n")
            chosen.append(Setting(Kind.KERNEL, f"/{path}", "0-1"))
        self.tree.write("run/libvirt/qemu/x", "")
        with mock.patch.object(
            records.Records, "write", autospec=True, side_effect=WRITE
        ) as write:
            found = [*self.tuning().apply(chosen)]
            self.assertEqual({Result.DONE}, {x.result for x in found})
            self.assertLess(write.call_count, 40)
            write.reset_mock()
            self.assertEqual(500, len(self.undo()))
            self.assertLess(write.call_count, 40)
        self.assertEqual("0-15\n", self.read(path))


class BootTest(TuningTest):
    def owed(self):
        return maintenance.boot_owed(self.tree.root)

    def what(self):
        return maintenance.observe(self.tree.root).boot_owed

    def test_it_is_owed_until_then(self):
        self.assertIsNone(self.owed())
        self.assertEqual("", self.what())
        self.apply(codes=("nothing_isolated",))
        self.assertEqual(("nothing_isolated",), self.owed().codes)
        self.assertEqual("kernel command line", self.what())
        self.boot()
        self.assertIsNone(self.owed())
        self.assertEqual("", self.what())

    def test_files_alone_owe_one_for_what_is_wrong_until_then(self):
        self.reset(lambda _tree: None)
        self.apply(codes=("rt_throttled", "ksm_running"))
        self.assertEqual("host apply", self.what())
        self.tuning().keep_reasons({"rt_throttled", "smt_on"})
        self.assertEqual(("rt_throttled",), self.owed().codes)
        self.tuning().keep_reasons(())
        self.assertEqual("", self.what())

    def test_it_is_not_owed_after_an_undo(self):
        self.apply()
        self.undo()
        self.assertEqual("", self.what())

    def test_an_undo_after_the_boot_owes_another(self):
        self.apply()
        self.boot()
        self.undo()
        self.assertEqual("host apply --undo", self.what())
        self.assertEqual((), self.owed().codes)
        self.undo()
        self.assertEqual("host apply --undo", self.what())
        self.tree.write("proc/sys/kernel/random/boot_id", "boot-3\n")
        self.assertEqual("", self.what())
        self.undo()
        self.assertFalse((self.tree.path / maintenance.BOOT_OWED).exists())

    def test_what_was_undone_after_the_boot_is_applied_again(self):
        self.apply()
        line = self.read("boot/grub/grub.cfg")
        self.tree.write("proc/cmdline", line.partition("ro ")[2])
        self.boot()
        self.assertNotIn("update-grub", self.apply())
        self.undo()
        self.assertNotIn("nohz_full", self.read("boot/grub/grub.cfg"))
        self.assertIn("update-grub", self.apply())
        self.assertEqual(line, self.read("boot/grub/grub.cfg"))
        self.assertNotIn("update-grub", self.apply())

    def test_it_is_owed_for_a_program_that_was_killed_at_its_end(self):
        self.host.run = lambda command: (
            fakes.FakeHost.run(self.host, command),
            os._exit(9),
        )
        self.assertTrue(death.killed(self.apply, 10_000))
        self.assertTrue(records.was_killed(self.tree.root))
        del self.host.run
        self.assertNotIn("update-grub", self.apply())
        self.assertEqual("kernel command line", self.what())
        self.assertFalse(records.was_killed(self.tree.root))
        self.undo()
        self.assert_as_before()

    def test_one_that_runs_was_not_killed(self):
        found = []
        self.host.before = lambda: found.append(
            records.was_killed(self.tree.root)
        )
        self.apply()
        self.assertEqual([False], found)

    def test_everybody_may_read_it(self):
        self.addCleanup(os.umask, os.umask(0o077))
        self.apply()
        path = self.tree.path / maintenance.BOOT_OWED
        self.assertEqual(0o644, path.stat().st_mode & 0o777)
        self.assertNotIn(b"entries", path.read_bytes())

    def test_one_that_others_may_write_is_unknown(self):
        self.apply()
        (self.tree.path / maintenance.BOOT_OWED).chmod(0o666)
        self.assertIsInstance(self.what(), Unknown)

    def test_one_that_was_lost_is_written_again(self):
        self.apply()
        self.tree.remove(maintenance.BOOT_OWED)
        self.assertEqual("", self.what())
        self.apply()
        self.assertEqual("kernel command line", self.what())

    def test_a_boot_ends_what_the_kernel_had(self):
        self.apply()
        for relative, text in fakes.ORDINARY.items():
            if relative.startswith(("proc", "sys")):
                self.tree.write(relative, text)
        self.boot()
        found = self.undo()
        self.assertEqual({"next boot"}, {x.when for x in found.values()})


class RepeatedTest(TuningTest):
    def test_a_kill_before_another_value_is_written(self):
        """What is there is the value of the run before."""
        self.apply()
        conf = "[compute]\ncpu_dedicated_set = 2-3,10-11\n"
        old = self.read("etc/nova/nova.conf")
        self.tree.write("etc/nova/nova.conf", conf)
        self.host.write = lambda _path, _text: os._exit(9)
        self.assertTrue(death.killed(self.apply, 10_000))
        del self.host.write
        found = self.undo()
        self.assertEqual({Result.UNDONE}, {x.result for x in found.values()})
        self.tree.write("etc/nova/nova.conf", old)
        self.assert_as_before()

    def test_one_that_waits_with_another_value_is_as_it_was(self):
        self.apply()
        conf = "[compute]\ncpu_dedicated_set = 2-3,10-11\n"
        old = self.read("etc/nova/nova.conf")
        self.tree.write("etc/nova/nova.conf", conf)
        self.claim("2-3")
        mask = "/sys/devices/virtual/workqueue/cpumask"
        self.assertEqual(Result.WAITS, self.apply()[mask].result)
        self.assertFalse(records.was_killed(self.tree.root))
        self.tree.remove(f"run/sriov-rt/cpus/{UUID}.json")
        self.undo()
        self.tree.write("etc/nova/nova.conf", old)
        self.assert_as_before()


class KillTest(TuningTest):
    """Whatever ends the program, an undo gives the host as it was."""

    #: Each by the last one of its rule, and every file.
    LEFT_OUT = re.compile(r".*/cpu\d/power.*|.*policy0.*")

    def setUp(self):
        # What is written here need not survive this machine's power.
        self.enterContext(mock.patch("os.fsync", lambda _descriptor: None))
        super().setUp()

    def apply(self, codes=("thp_always",)):
        chosen = [
            each
            for each in fakes.settings_of(self.tree)
            if periodic.wanted() or not self.LEFT_OUT.fullmatch(each.path)
        ]
        return {x.path: x for x in self.tuning().apply(chosen, codes)}

    def each(self, program, *kinds):
        """Kill a program of a new host at each of its changes in turn.

        The periodic run has each of them, and others every ninth.
        """
        for kind in kinds:
            for at in itertools.count(0, 1 if periodic.wanted() else 9):
                self.reset(kind)
                was_killed = False
                with self.subTest(change=at):
                    was_killed = program(at)
                    if not was_killed:
                        self.assertGreater(at, 50)
                if not was_killed:
                    break

    def undone(self, at) -> bool:
        was_killed = death.killed(self.apply, at)
        self.undo()
        self.assert_as_before()
        return was_killed

    def finished(self, at) -> bool:
        was_killed = death.killed(self.apply, at)
        self.apply()
        self.assertEqual({}, self.apply())
        self.undo()
        self.assert_as_before()
        return was_killed

    def undone_twice(self, at) -> bool:
        self.apply()
        was_killed = death.killed(self.undo, at)
        self.undo()
        self.assert_as_before()
        return was_killed

    def test_an_apply_that_is_killed_is_undone(self):
        self.each(self.undone, fakes.debian)

    def test_an_undo_that_is_killed_is_finished(self):
        self.each(self.undone_twice, fakes.debian)

    @periodic.slow
    def test_an_apply_that_is_killed_is_finished(self):
        self.each(self.finished, fakes.debian)

    @periodic.slow
    def test_other_distributions(self):
        kinds = (fakes.fedora, fakes.systemd_boot)
        for program in (self.undone, self.finished, self.undone_twice):
            self.each(program, *kinds)
