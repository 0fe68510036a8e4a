# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import io
import json
import pathlib
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.facts import certificate
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host import latency as host_latency
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import breach
from sriov_rt.verify import errors
from sriov_rt.verify import guest
from sriov_rt.verify import results
from sriov_rt.verify import timerlat
from sriov_rt.verify import watch
from tests.unit.host import test_occupancy
from tests.unit.host import trees
from tests.unit.verify import test_blame
from tests.unit.verify.programs import ProgramTest

RECORDED = pathlib.Path(__file__).with_name("recorded")


def stat(**ticks):
    """Return /proc/stat with the idle and the busy ticks of CPUs."""
    lines = [
        f"{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n"
        for name, (idle, busy) in ticks.items()
    ]
    return "cpu 1 2 3 4 5 6 7 8 9 10\n" + "".join(lines)


class WatchTest(ProgramTest):
    def setUp(self):
        super().setUp()
        # taskset of the host of the tree would find none of its CPUs here.
        self.program("taskset", 'shift 2; exec "$@"')
        self.rtla("timerlat-6.1-overflow.txt")
        self.tree.write("sys/devices/system/cpu/online", "0-3\n")
        self.tree.write("sys/devices/system/cpu/isolated", "2\n")
        self.tree.write("proc/stat", stat(cpu2=(100, 0)))
        self.enterContext(mock.patch.object(watch, "_LOOK_S", 0.0))
        self.certify()

    def rtla(self, name):
        self.program("rtla", f"cat {RECORDED}/{name}")

    def test_what_nova_took_offline_withdraws_nothing(self):
        """Its settings are where [agent] nova_config_files has them."""
        self.tree.write(
            "srv/n.conf",
            "[compute]\ncpu_dedicated_set = 2-3\n"
            "[libvirt]\ncpu_power_management = true\n",
        )
        self.tree.take_offline("3")
        self.tree.write("sys/devices/system/cpu/online", "0-2\n")
        place = self.place / "lock"
        with mock.patch.object(watch, "idle", lambda *_: None):
            found = watch.probe(self.root, 1, place, None, ["/srv/n.conf"])
            self.assertFalse(found.withdrawn, found.said)
            self.assertTrue(watch.probe(self.root, 1, place).withdrawn)

    def certify(self, **changes):
        changes.setdefault(
            "conditions",
            conditions.observe(self.root, compute.observe(self.root)),
        )
        made = dataclasses.replace(trees.CERTIFICATE, **changes)
        self.tree.write(host_latency.CERTIFICATE, certificate.to_bytes(made))

    def probe(self):
        return watch.probe(self.root, 1, self.place / "lock")

    def seen(self):
        return host_latency.observe(self.root).certificate

    def test_a_sample_above_withdraws(self):
        found = self.probe()
        self.assertTrue(found.withdrawn)
        self.assertEqual((2, 70625), (found.cpu, found.max_us))
        why = "CPU 2 had a latency of 70625 µs, above the certified 18 µs"
        self.assertEqual(f"certificate withdrawn: {why}", found.said)
        # The facts say why, and the next probe has nothing to watch.
        self.assertEqual(why, self.seen().withdrawn)
        self.assertIn("no certificate counts", self.probe().said)

    def test_the_culprit_is_in_the_certificate_and_in_a_ticket(self):
        """A newer rtla analyses the sample that stops it."""
        self.certify(packages=("qemu-system-x86 1:7.2",))
        self.tree.write(
            "var/lib/dpkg/status",
            "Package: qemu-system-x86\nStatus: install ok installed\n"
            "Version: 1:7.3\n\nPackage: vim\nStatus: install ok installed\n"
            "Version: 9\n",
        )
        test_occupancy.Host(self.tree.path).thread(
            70, "feed", "2", cgroup="/system.slice/f.service"
        )
        said = self.place / "said"
        analysis = self.place / "analysis"
        analysis.write_bytes(test_blame.ANALYSIS)
        self.program(
            "rtla",
            'case $* in *--help) echo "--no-aa"; exit;; esac; echo "$@" >'
            f"{said}; cat {RECORDED}/timerlat-6.1-overflow.txt {analysis}",
        )
        found = self.probe()
        sentence = "thread objtool:49256 had the CPU for 31 µs (timerlat)"
        self.assertEqual(sentence, found.culprit.sentence)
        self.assertEqual((2, 70625), (found.culprit.cpu, found.max_us))
        self.assertIn("--stack=18", said.read_text())
        self.assertNotIn("--trace", said.read_text())
        self.assertEqual(found.culprit, self.seen().culprit)
        (ticket,) = breach.every(self.root.path / watch.TICKETS)
        rows = dict(breach.rows(ticket))
        self.assertIn("18 µs, certified 2026-", rows["Bound"])
        self.assertEqual("70625 µs on CPU 2", rows["Sample"])
        self.assertEqual(sentence, rows["Culprit"])
        self.assertEqual(
            "package qemu-system-x86 changed from '1:7.2' to '1:7.3'",
            rows["Changed"],
        )
        self.assertEqual("feed:70 of f.service", rows["On the CPU"])

    def test_an_older_rtla_keeps_a_trace(self):
        said, trace = self.place / "said", self.place / "trace"
        trace.write_bytes(test_blame.OsnoiseTest.TRACE)
        self.program(
            "rtla",
            f'case $* in *--help) exit 1;; esac; echo "$@" >{said}; '
            f"cp {trace} timerlat_trace.txt; "
            f"cat {RECORDED}/timerlat-6.1-overflow.txt",
        )
        found = self.probe()
        self.assertEqual("hog:9", found.culprit.name)
        words = said.read_text().split()
        self.assertLessEqual({"--trace", "--event=osnoise"}, set(words))

    def traced(self, *traces):
        """Have an older rtla keep another trace in each of its runs."""
        runs, said = self.place / "runs", self.place / "traces"
        said.mkdir(exist_ok=True)
        runs.write_bytes(b"")
        for number, each in enumerate(traces, 1):
            (said / str(number)).write_bytes(each)
        self.program(
            "rtla",
            f"case $* in *--help) exit 1;; esac; echo >>{runs}; "
            f"cp {said}/$(wc -l <{runs}) timerlat_trace.txt; "
            f"cat {RECORDED}/timerlat-6.1-overflow.txt",
        )

    def test_a_sample_from_before_the_trace_is_waited_for_once_more(self):
        """rtla 6.1 starts its trace when its table has begun."""
        trace = test_blame.OsnoiseTest.TRACE
        self.traced(b"# tracer: timerlat\n", trace)
        withdrawn = []
        run = timerlat.process.run

        def seen(command, *args, **kwargs):
            if "--help" not in command:
                withdrawn.append(bool(self.seen().withdrawn))
            return run(command, *args, **kwargs)

        with mock.patch.object(timerlat.process, "run", seen):
            found = self.probe()
        self.assertEqual("hog:9", found.culprit.name)
        self.assertEqual(found.culprit, self.seen().culprit)
        # It is withdrawn before another one is waited for.
        self.assertEqual([False, True], withdrawn)
        self.traced(b"", b"")
        self.certify()
        self.assertEqual("unknown", self.probe().culprit.kind)

    def test_a_second_run_that_fails_names_nobody(self):
        self.traced(b"# tracer: timerlat\n")
        found = self.probe()
        self.assertTrue(found.withdrawn)
        self.assertIn("does not have the sample", found.culprit.why)

    def test_nobody_had_the_cpu_for_longer_than_the_sample(self):
        """The trace may have another sample than the table, a worse one."""
        line = b"timerlat/2-9 [002] .... 9.900000: #3 context thread "
        noise = b"hog-9 [002] .... 9.800000: thread_noise: hog:9 start "
        self.traced(
            noise + b"9.700000000 duration 150000000 ns\n"
            + line + b"timer_latency 160000000 ns\n"
        )  # fmt: skip
        found = self.probe()
        self.assertEqual("hog:9", found.culprit.name)
        self.assertEqual(160000, found.culprit.latency_us)
        self.assertEqual(160000, found.max_us)

    def test_where_nothing_is_named_it_says_so(self):
        found = self.probe()
        self.assertEqual("unknown", found.culprit.kind)
        (ticket,) = breach.every(self.root.path / watch.TICKETS)
        rows = dict(breach.rows(ticket))
        self.assertIn("nothing can be named: ", rows["Culprit"])
        self.assertRegex(rows["Changed"], r"none of \d+ conditions")

    def test_a_ticket_that_cannot_be_kept_spares_no_certificate(self):
        self.tree.write(watch.TICKETS, "a file")
        with self.assertLogs("sriov_rt.verify.watch") as logged:
            self.assertTrue(self.probe().withdrawn)
        self.assertIn("the ticket is not kept", logged.output[0])

    def test_a_condition_that_changed_is_written_down(self):
        """As before again, it counts no more: what was measured is unsure."""
        for path, value in (
            ("sys/devices/system/cpu/online", "0-2\n"),
            ("etc/tuned/active_profile", "balanced\n"),
            ("proc/sys/kernel/osrelease", "6.1.0-43-rt-amd64\n"),
        ):
            with self.subTest(path):
                self.certify()
                file = self.tree.path / path
                before = file.read_text() if file.exists() else None
                self.tree.write(path, value)
                found = self.probe()
                self.assertTrue(found.withdrawn)
                self.assertIn("certificate withdrawn: ", found.said)
                self.tree.remove(path)
                if before is not None:
                    self.tree.write(path, before)
                self.assertIn(" changed from ", self.seen().withdrawn)
                self.assertIn("no certificate counts", self.probe().said)
                self.assertGreater(host_latency.withdrawn_at(self.root), 0)

    def test_not_while_something_is_measured(self):
        self.tree.write("sys/devices/system/cpu/online", "0-2\n")
        with results.exclusive(self.place / "lock"):
            found = self.probe()
        self.assertFalse(found.withdrawn)
        self.assertIn("a measurement is running", found.said)

    def test_a_sample_within_does_not(self):
        self.certify(max_latency_us=70625)
        found = self.probe()
        self.assertFalse(found.withdrawn)
        self.assertEqual("CPU 2: at most 70625 µs", found.said)
        self.assertEqual("", self.seen().withdrawn)

    def test_a_busy_cpu_is_a_guest_s(self):
        with mock.patch.object(
            watch, "cpu_times", side_effect=[{2: (0, 0)}, {2: (50, 100)}]
        ):
            self.assertIn("no isolated CPU is idle", self.probe().said)
        self.assertEqual("", self.seen().withdrawn)

    def test_the_most_idle(self):
        for after, cpu in (
            ({2: (99, 100), 3: (100, 100)}, 3),
            ({2: (100, 100), 3: (100, 100)}, 2),
            # The counters of a nohz_full CPU may stand still.
            ({2: (0, 0), 3: (50, 100)}, 2),
            ({2: (98, 100), 3: (0, 100)}, None),
            ({}, None),
        ):
            before = {2: (0, 0), 3: (0, 0)}
            with (
                self.subTest(after),
                mock.patch.object(
                    watch, "cpu_times", side_effect=[before, after]
                ),
            ):
                found = watch.idle(self.root, CpuSet((2, 3)))
                self.assertEqual(cpu, found)

    def test_a_housekeeping_cpu_with_a_limit_of_its_own(self):
        # Guests have the isolated one, and no housekeeping CPU is idle.
        before = dict.fromkeys(range(4), (0, 0))
        after = {0: (10, 100), 1: (60, 100), 2: (0, 100), 3: (30, 100)}
        for limit, withdrawn in ((70625, False), (70624, True)):
            with (
                self.subTest(limit),
                mock.patch.object(
                    watch, "cpu_times", side_effect=[before, after]
                ),
            ):
                found = watch.probe(self.root, 1, self.place / "lock", limit)
            self.assertEqual(
                (1, 70625, withdrawn),
                (found.cpu, found.max_us, found.withdrawn),
            )
        why = (
            "housekeeping CPU 1 had a latency of 70625 µs, above the limit of "
            "70624 µs"
        )
        self.assertEqual(f"certificate withdrawn: {why}", found.said)
        self.assertEqual(why, self.seen().withdrawn)

    def test_the_probe_stops_at_the_limit(self):
        said = self.place / "said"
        self.program(
            "rtla",
            "case $* in *--help) exit 1;; esac; "
            f'echo "$@" >{said}; cat {RECORDED}/timerlat-6.1-overflow.txt',
        )
        for limit, words in (
            (None, ("--cpus=2", "--thread=18")),
            (500, ("--cpus=0", "--thread=500")),
        ):
            self.certify()
            self.tree.write("proc/stat", stat(cpu0=(9, 1), cpu2=(100, 0)))
            with self.subTest(limit):
                watch.probe(self.root, 1, self.place / "lock", limit)
                self.assertLessEqual(set(words), set(said.read_text().split()))

    def test_a_breach_withdraws_before_rtla_ends(self):
        """rtla 7.2 runs the command, and prints its table after that."""
        arguments, go_on = self.place / "said", self.place / "go-on"
        self.program(
            "rtla",
            'case $* in *--help) echo "    --on-threshold <action>"; exit;; '
            "esac\n"
            f'for each; do echo "$each"; done >{arguments}\n'
            "for each; do case $each in --on-threshold=shell,command=*) "
            'sh -c "${each#*command=}";; esac; done\n'
            f"while [ ! -e {go_on} ]; do sleep 0.01; done\n"
            f"cat {RECORDED}/timerlat-6.1-overflow.txt",
        )
        withdraw = watch.certificate.withdraw

        def withdrawn(*args):
            withdraw(*args)
            # It waits for the certificate to be withdrawn.
            go_on.touch()

        with mock.patch.object(watch.certificate, "withdraw", withdrawn):
            found = self.probe()
        why = "CPU 2 had a latency above the certified 18 µs"
        self.assertEqual(why, self.seen().withdrawn)
        self.assertEqual(
            (70625, True, f"certificate withdrawn: {why} (70625 µs)"),
            (found.max_us, found.withdrawn, found.said),
        )
        self.assertIn("--thread=18", arguments.read_text().splitlines())

    def test_no_breach_withdraws_nothing_with_that_rtla_either(self):
        self.certify(max_latency_us=70625)
        self.program(
            "rtla",
            'case $* in *--help) echo "--on-threshold" >&2; exit 1;; esac\n'
            f"cat {RECORDED}/timerlat-6.1-overflow.txt",
        )
        self.assertFalse(self.probe().withdrawn)
        self.assertEqual("", self.seen().withdrawn)

    def test_times(self):
        self.tree.write(
            "proc/stat",
            stat(cpu2=(100, 50)) + "cpu3 1\ncpux 1 2 3 4 5 6 7 8\nintr 5\n",
        )
        self.assertEqual({2: (100, 150)}, watch.cpu_times(self.root))

    def test_no_certificate(self):
        self.tree.remove("var")
        self.assertIn("nothing to watch", self.probe().said)

    def test_an_edited_certificate(self):
        self.tree.write(host_latency.CERTIFICATE, "{}")
        self.assertIn("latency-certificate.json", self.probe().said)

    def test_while_something_is_measured(self):
        with results.exclusive(self.place / "lock"):
            self.assertIn("a measurement is running", self.probe().said)
        self.assertEqual("", self.seen().withdrawn)

    def test_another_certificate_meanwhile(self):
        def meanwhile(*_):
            self.certify(max_latency_us=10**5)
            return 88

        with mock.patch.object(watch, "measure", meanwhile):
            self.assertFalse(self.probe().withdrawn)
        self.assertEqual("", self.seen().withdrawn)

    def test_a_full_disk_is_no_reprieve(self):
        with (
            mock.patch("os.fsync", side_effect=OSError(28, "No space left")),
            self.assertLogs("sriov_rt.verify.certificate"),
        ):
            self.assertTrue(self.probe().withdrawn)
        self.assertIn("above the certified 18 µs", self.seen().withdrawn)
        path = self.tree.path / certificate.PATH
        self.assertFalse(path.exists())
        # The next probe finds room.
        self.assertIn("nothing to watch", self.probe().said)
        found = certificate.from_bytes(path.read_bytes())
        self.assertEqual(self.seen().withdrawn, found.withdrawn)

    def test_a_full_disk_is_no_reprieve_at_once_either(self):
        """It is withdrawn by the time that the culprit is known."""
        self.program(
            "rtla",
            'case $* in *--help) echo "--on-threshold"; exit;; esac\n'
            f"echo sriov-rt-breach; cat {RECORDED}/timerlat-6.1-overflow.txt",
        )
        with (
            mock.patch("os.fsync", side_effect=OSError(28, "No space left")),
            self.assertLogs("sriov_rt.verify"),
        ):
            found = self.probe()
        self.assertTrue(found.withdrawn, found.said)
        self.assertIn("above the certified 18 µs", self.seen().withdrawn)

    def test_nobody_else_writes_while_it_judges(self):
        def measured(*_):
            with self.assertRaises(errors.Busy):
                results.exclusive(self.place / "lock").__enter__()
            return 88

        withdraw = watch.certificate.withdraw

        def withdrawn(*args):
            measured()
            withdraw(*args)

        with (
            mock.patch.object(watch, "measure", measured),
            mock.patch.object(watch.certificate, "withdraw", withdrawn),
        ):
            self.assertTrue(self.probe().withdrawn)

    def test_a_probe_that_fails_withdraws_nothing(self):
        for text, error in (
            ("echo 'no timerlat' >&2; exit 1", errors.RunFailed),
            ("echo garbage", errors.OutputInvalid),
            ("kill -9 $$", errors.RunFailed),
        ):
            self.program("rtla", text)
            with self.subTest(text), self.assertRaises(error):
                self.probe()
        self.assertEqual("", self.seen().withdrawn)


class GuestTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.copying("cyclictest", "cyclictest-2.40.json")
        self.copying("oslat", "oslat-2.40.json")

    def copying(self, name, recorded):
        self.program(
            name,
            "for each; do case $each in\n"
            f"--json=*) cp {RECORDED}/{recorded} ${{each#*=}};;\n"
            "esac; done",
        )

    def cpus(self, allowed, online="0-3\n", isolated="\n"):
        self.tree.write("sys/devices/system/cpu/online", online)
        self.tree.write("sys/devices/system/cpu/isolated", isolated)
        with mock.patch("os.sched_getaffinity", return_value=allowed):
            found = guest.cpus_of(self.root)
        return set(found.measured), set(found.housekeeping)

    def test_cpus(self):
        # A guest that isolates, one that does not, and a pod on a host.
        self.assertEqual(({2, 3}, {0, 1}), self.cpus({0, 1}, isolated="2-3\n"))
        self.assertEqual(({1, 2, 3}, {0}), self.cpus({0, 1, 2, 3}))
        self.assertEqual(({11}, {10}), self.cpus({10, 11}, "0-15\n", "8-15\n"))
        with self.assertRaisesRegex(errors.NotIsolated, "give the guest two"):
            self.cpus({0})

    def run_it(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        where = ("--output", str(self.place / "out"), "--duration", "1s")
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch("os.sched_getaffinity", return_value={0, 1}),
        ):
            code = main.main(["verify", "guest", *where, *arguments])
        return code, out.getvalue(), err.getvalue()

    def test_beside_its_host(self):
        tool = certificate.CertifiedTool("cyclictest", "2.40", "x", 900.0, 17)
        made = dataclasses.replace(trees.CERTIFICATE, tools=(tool,))
        path = self.place / "host.json"
        path.write_bytes(certificate.to_bytes(made))
        code, out, err = self.run_it("--host", str(path))
        self.assertEqual("", err)
        self.assertIn(code, (0, 1))
        self.assertRegex(out, r"cyclictest \| 1 +\| 981 +\| 17 +\| 14909 ")
        self.assertRegex(out, r"oslat +\| 1 +\| 50757 +\| - +")
        self.assertRegex(out, r"on its present host alone\n")

    def test_it_says_whether_its_host_is_emulated(self):
        path = self.place / "host.json"
        for host, known, note in (
            (None, None, "; if that one is emulated, they mean nothing"),
            (True, True, ", which is emulated: they mean nothing"),
            (False, False, ""),
        ):
            words = ()
            if host is not None:
                made = dataclasses.replace(trees.CERTIFICATE, emulated=host)
                path.write_bytes(certificate.to_bytes(made))
                words = ("--host", str(path))
            with self.subTest(host):
                _, out, _ = self.run_it(*words)
                self.assertIn(f"present host alone{note}\n", out)
                _, out, _ = self.run_it(*words, "--json")
                self.assertEqual(
                    [known] * 2, [each["emulated"] for each in json.loads(out)]
                )

    def test_a_host_s_file_that_is_none(self):
        path = self.place / "host.json"
        for text in (b"", b"{}", b"x" * (certificate.MAX_FILE + 9)):
            path.write_bytes(text)
            code, _, err = self.run_it("--host", str(path))
            self.assertEqual(2, code)
            self.assertIn("host.json", err)
        path.unlink()
        code, _, err = self.run_it("--host", str(path))
        self.assertEqual((2, True), (code, "No such file" in err))
