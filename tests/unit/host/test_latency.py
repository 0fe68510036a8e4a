# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import json
import os
import pathlib
import time
import tracemalloc
from unittest import mock

import hypothesis
from hypothesis import strategies

from sriov_rt import codec
from sriov_rt import decide
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import certificate
from sriov_rt.facts import decisive
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host import latency
from sriov_rt.host import table
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from tests.unit import builders
from tests.unit.host import trees


class LatencyTest(trees.TreeTest):
    def certificate(self, **changes):
        """Return what is read of the certificate with some changes."""
        self.tree.write(latency.CERTIFICATE, self.made(**changes))
        return latency.observe(self.root).certificate

    def made(self, conditions=None, **changes):
        """Return the file of a certificate with some changes."""
        made = dataclasses.replace(
            trees.CERTIFICATE,
            conditions={**trees.CONDITIONS, **(conditions or {})},
            **changes,
        )
        return certificate.to_bytes(made)

    def text(self, text):
        self.tree.write(latency.CERTIFICATE, text)
        return latency.observe(self.root).certificate

    def test_certificate(self):
        self.assertEqual(
            LatencyCertificate(
                18,
                trees.RELEASE,
                1798761600.0,
                cpus=cpulist.parse_cpu_list(trees.ISOLATED),
                issued_at=1788000000.0,
            ),
            latency.observe(self.root).certificate,
        )

    def test_of_an_emulated_host(self):
        found = self.certificate(emulated=True)
        self.assertTrue(found.emulated)
        shown = dict(
            table.rows(builders.realtime_host(latency={"certificate": found}))
        )
        self.assertIn("emulated=yes", shown["latency.certificate"])

    def test_no_certificate(self):
        self.tree.remove("var")
        self.assertIsNone(latency.observe(self.root).certificate)

    def test_least_and_greatest_latency(self):
        for value in (18, certificate.MAX_LATENCY_US):
            found = self.certificate(max_latency_us=value)
            self.assertEqual(value, found.max_latency_us)

    def test_what_changed_is_named(self):
        found = self.certificate(
            conditions={"kernel release": "6.1.0-43", "SMT": "1"}
        )
        self.assertEqual(
            "SMT changed from '1' to '-'; kernel release changed from "
            f"'6.1.0-43' to '{trees.RELEASE}'",
            found.withdrawn,
        )

    def test_of_a_long_text_the_words_that_changed_are_named(self):
        common = "console=ttyS0 mitigations=off tsc=reliable nosmt=force quiet"
        self.tree.write("proc/cmdline", f"{common} isolcpus=3 rcu_nocbs=3")
        for then, sentence in (
            (
                f"isolcpus=2-3 {common} rcu_nocbs=3",
                "from 'isolcpus=2-3' to 'isolcpus=3'",
            ),
            (f"{common} isolcpus=3", "from '-' to 'rcu_nocbs=3'"),
            # The same words in another order.
            (f"isolcpus=3 {common} rcu_nocbs=3", "from 'isolcpus=3 console"),
        ):
            with self.subTest(sentence):
                found = self.certificate(
                    conditions={"kernel command line": then}
                )
                self.assertIn(
                    f"kernel command line changed {sentence}", found.withdrawn
                )

    def test_a_condition_that_can_not_be_read_has_changed(self):
        self.tree.remove("proc/sys/kernel/osrelease")
        found = self.certificate()
        self.assertIn("kernel release changed", found.withdrawn)

    def test_of_the_future(self):
        found = self.certificate(issued_at=time.time() + 3600)
        self.assertEqual(
            "it is dated ahead of the host's clock", found.withdrawn
        )

    def test_copied_from_another_host(self):
        self.tree.write("etc/machine-id", "5f0c3a9e71d2b846\n")
        found = self.certificate(conditions={"machine": "3b7e1f90c2d4a586"})
        self.assertEqual(
            "machine changed from '3b7e1f90c2d4a586' to '5f0c3a9e71d2b846'",
            found.withdrawn,
        )
        self.tree.write("etc/machine-id", f"{trees.MACHINE}\n")
        # So does the next boot, for one that hangs on it.
        found = self.certificate(conditions={"boot": "another"})
        self.assertIn("boot changed from 'another'", found.withdrawn)

    def test_a_machine_with_the_same_machine_id(self):
        """Of one image: its name, model, firmware or serial is another."""
        dmi = "sys/class/dmi/id"
        for path, value in (
            ("proc/sys/kernel/hostname", "compute-8\n"),
            (f"{dmi}/product_name", "PowerEdge R760\n"),
            (f"{dmi}/product_uuid", "4c4c4544-0042-3510-8056-b4c04f4e4b32\n"),
            (f"{dmi}/product_serial", "8B5VNK2\n"),
            (
                "sys/devices/system/cpu/modalias",
                "cpu:type:x86,ven0000fam0006mod00CF:feature:,0000,0001\n",
            ),
        ):
            with self.subTest(path):
                self.assertEqual("", self.certificate().withdrawn)
                before = self.tree.path / path
                kept = before.read_bytes() if before.exists() else None
                self.tree.write(path, value)
                found = latency.observe(self.root).certificate.withdrawn
                self.assertIn(" changed from ", found)
                # A serial number is root's alone; the file is anybody's.
                self.assertNotIn("8B5VNK2", found)
                self.tree.remove(path)
                if kept is not None:
                    self.tree.write(path, kept)

    def test_what_root_alone_reads_is_no_change_to_others(self):
        place = "sys/class/dmi/id/product_uuid"
        self.tree.write(place, "4c4c4544-0042-3510-8056-b4c04f4e4b32\n")
        now = conditions.observe(self.root, compute.observe(self.root))
        self.assertRegex(now["product UUID"], "^[0-9a-f]{16}$")
        self.tree.remove(place)
        # Something that is there and cannot be read.
        (self.tree.path / place).mkdir()
        self.assertEqual("", self.certificate(conditions=now).withdrawn)

    def test_what_cannot_be_read_has_not_changed(self):
        now = conditions.observe(self.root, compute.observe(self.root))
        cpu = "sys/devices/system/cpu"
        read_text, list_dir = Root.read_text, Root.list_dir
        for path in (
            *conditions.FILES.values(),
            "proc/swaps",
            f"{cpu}/modalias",
            f"{cpu}/cpufreq",
            f"{cpu}/cpu2/cpuidle/state1/disable",
            f"{cpu}/cpu2/cpuidle",
        ):
            refused = Unknown(f"/{path}: Too many open files")

            def read(root, relative, *args, path=path, refused=refused, **kw):
                if relative == path:
                    return refused
                return read_text(root, relative, *args, **kw)

            def listed(root, relative, path=path, refused=refused):
                return (
                    refused if relative == path else list_dir(root, relative)
                )

            if not (self.tree.path / path).exists():
                self.tree.write(path)
            with (
                self.subTest(path),
                mock.patch.object(Root, "read_text", read),
                mock.patch.object(Root, "list_dir", listed),
            ):
                found = self.certificate(conditions=now)
                self.assertNotIn("changed from", found.withdrawn)

    def test_a_placeholder_of_the_firmware_names_no_machine(self):
        for text in (
            "To Be Filled By O.E.M.", "Not Specified", "0", "Default string",
            "00000000-0000-0000-0000-000000000000", "System Serial Number",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "", "None",
        ):  # fmt: skip
            self.tree.write("sys/class/dmi/id/product_serial", f"{text}\n")
            found = conditions.observe(self.root, compute.observe(self.root))[
                "product serial"
            ]
            self.assertEqual("-", found, text)

    def test_of_no_machine(self):
        for text in ("uninitialized\n", None):
            self.tree.remove("etc/machine-id")
            if text:
                self.tree.write("etc/machine-id", text)
            now = conditions.observe(self.root, compute.observe(self.root))
            found = self.certificate(conditions=now)
            self.assertIn("of which machine it is", found.withdrawn)
            if not text:
                self.tree.write("etc/machine-id")

    def test_settings_that_are_put_back(self):
        cpu = "sys/devices/system/cpu"
        for path, value, named in (
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n",
             "sched_rt_runtime_us changed from '-1' to '950000'"),
            (f"{cpu}/cpufreq/policy0/scaling_governor", "powersave\n",
             "governor changed from 'performance' to 'performance, "
             "powersave'"),
            (f"{cpu}/cpu2/cpuidle/state1/disable", "1\n",
             "idle states changed from 'POLL,C1,C6' to 'POLL,C1,C6; "
             "POLL,C1=off,C6'"),
            ("proc/swaps", "Filename\n/dev/sda2 partition 9 0 -2\n",
             "swap changed from 'none' to '/dev/sda2'"),
        ):  # fmt: skip
            with self.subTest(path):
                self.assertEqual("", self.certificate().withdrawn)
                before = (self.tree.path / path).read_bytes()
                self.tree.write(path, value)
                found = latency.observe(self.root).certificate
                self.assertEqual(named, found.withdrawn)
                self.tree.write(path, before)

    def test_settings_of_cpus_that_are_offline_are_no_change(self):
        """Nova takes idle pCPUs offline; that they are is one change."""
        self.tree.write(
            "sys/devices/system/cpu/online", f"{trees.HOUSEKEEPING}\n"
        )
        found = self.certificate().withdrawn
        self.assertEqual(
            "online CPUs changed from '0-15' to '0-1,4-5,8-9,12-13'", found
        )

    def test_contradictions_are_refused(self):
        tool, *_ = trees.CERTIFICATE.tools
        cpu, *cpus = trees.CERTIFICATE.cpus
        for changes, problem in (
            ({"tools": ()}, "no tool has measured anything"),
            ({"cpus": ()}, "no CPU was measured"),
            ({"load": "none"}, "measured under the load 'none'"),
            ({"load": ""}, "measured under the load ''"),
            ({"expires_at": 1787999999.0}, "it expires before it was issued"),
            (
                {"expires_at": 1788000000.0 + 100 * 365 * 86400},
                "it counts for more than 366 days",
            ),
            (
                {"tools": (dataclasses.replace(tool, max_us=19),)},
                "cyclictest has a maximum of 19 µs, the certificate of 18 µs",
            ),
            (
                {"cpus": (dataclasses.replace(cpu, max_us=19), *cpus)},
                "CPU 2 has a maximum of 19 µs, the certificate of 18 µs",
            ),
            (
                {"cpus": (dataclasses.replace(cpu, max_us=-1), *cpus)},
                "CPU 2 has a maximum of -1 µs",
            ),
            (
                {"cpus": (dataclasses.replace(cpu, samples=0), *cpus)},
                "CPU 2 has no sample",
            ),
            (
                {"tools": (dataclasses.replace(tool, duration_s=0.0),)},
                "cyclictest has no sample",
            ),
            ({"cpus": (cpu, cpu, *cpus)}, "a CPU is in it twice"),
            *(
                (
                    {"cpus": (dataclasses.replace(cpu, cpu=each), cpu, *cpus)},
                    "a CPU in it is not one of 0 to 8191",
                )
                for each in (-1, 8192)
            ),
            (
                {"cpus": tuple(cpus)},
                "CPU 2 is isolated and was not measured",
            ),
        ):
            with self.subTest(problem):
                found = self.certificate(**changes)
                self.assertIsInstance(found, Unknown)
                self.assertIn(f"its figures: {problem}", found.reason)
        made = dataclasses.replace(trees.CERTIFICATE, conditions={})
        found = self.text(certificate.to_bytes(made))
        self.assertIn("it hangs on no condition", found.reason)

    def test_a_dedicated_cpu_that_was_not_measured(self):
        asked = request.parse({"sriov_rt:max_latency_us": "1000"})
        for dedicated, codes in (
            ("2-3", []),
            ("2-5", ["latency_unmeasured"]),
        ):
            facts = builders.realtime_host(
                kernel={"release": trees.RELEASE},
                compute={"dedicated": cpulist.parse_cpu_list(dedicated)},
                latency={"certificate": self.certificate()},
            )
            found = decide.why_not(asked, facts, decide.View(now=1.79e9))
            self.assertEqual(codes, [each.code for each in found])

    def test_the_golden_document_of_the_first_schema(self):
        """It loads, and does not count: it says too little."""
        data = (
            pathlib.Path(__file__).with_name("latency-certificate-1.json")
        ).read_bytes()
        found = certificate.from_bytes(data)
        self.assertEqual((19, "rt-1"), (found.max_latency_us, found.host))
        self.assertEqual(0.0, found.withdrawn_at)
        for name, value in found.conditions.items():
            path = conditions.FILES[name]
            if value != conditions.ABSENT:
                self.tree.write(path, f"{value}\n")
        self.assertEqual("", latency.status(found, self.root).changes)
        self.assertEqual(
            "an older sriov-rt wrote it, without sched_rt_runtime_us, host "
            "name, product, product UUID, product serial, CPU model, "
            "governor, idle states, swap",
            latency.status(found, self.root).withdrawn,
        )

    def test_what_the_agent_keeps(self):
        data = self.made()
        digest = certificate.from_bytes(data).digest
        kept = certificate.Withdrawal(digest, "SMT changed", 1.0)
        path = certificate.WITHDRAWAL_PATH
        for written, said in (
            (certificate.withdrawal_to_bytes(kept), "SMT changed"),
            (
                certificate.withdrawal_to_bytes(
                    dataclasses.replace(kept, times=50)
                ),
                "SMT changed (50×)",
            ),
            (
                certificate.withdrawal_to_bytes(
                    dataclasses.replace(kept, digest="of another")
                ),
                "",
            ),
            (b"{", "whether it was withdrawn cannot be read"),
            (b"", "whether it was withdrawn cannot be read"),
            (b"x" * 99999, "whether it was withdrawn cannot be read"),
        ):
            with self.subTest(said):
                self.tree.write(path, written)
                self.assertIn(said, self.text(data).withdrawn)
        self.assertEqual(bool(said), bool(self.text(data).withdrawn))

    @hypothesis.settings(
        derandomize=True, deadline=None, max_examples=300, database=None
    )
    @hypothesis.given(
        place=strategies.integers(0, 3000),
        cut=strategies.integers(0, 3000),
        other=strategies.binary(max_size=40),
    )
    def test_any_bytes(self, place, cut, other):
        good = certificate.to_bytes(trees.CERTIFICATE)
        for data in (good[:place] + other + good[place + cut :], other):
            for read in (
                certificate.from_bytes,
                lambda data: certificate.withdrawal_from_text(
                    data.decode(errors="replace")
                ),
            ):
                with contextlib.suppress(codec.SchemaError):
                    read(data)

    def test_of_100_mb(self):
        path = self.tree.path / latency.CERTIFICATE
        with path.open("r+b") as file:
            file.truncate(100_000_000)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        found = latency.observe(self.root).certificate
        self.assertIn(
            f"longer than {certificate.MAX_FILE} bytes", found.reason
        )
        _, most = tracemalloc.get_traced_memory()
        self.assertLess(most, 4 * certificate.MAX_FILE)

    def test_none_of_these_places_a_server(self):
        """Whatever is wrong with it, the decision has its Reason."""
        asked = request.parse({"sriov_rt:max_latency_us": "1000"})
        good = certificate.to_bytes(trees.CERTIFICATE)

        def refusals():
            part = latency.observe(self.root)
            facts = builders.realtime_host(
                kernel={"release": trees.RELEASE},
                latency={"certificate": part.certificate},
            )
            view = decide.View(now=1.79e9)
            return [
                each.code
                for each in decide.why_not(asked, decisive(facts), view)
            ]

        self.text(good)
        self.assertEqual([], refusals())
        for name, change, code in (
            ("edited", lambda: self.text(good[:-3]), "fact_unknown"),
            ("long", lambda: self.text(good * 1000), "fact_unknown"),
            (
                "future",
                lambda: self.certificate(issued_at=time.time() + 3600),
                "latency_withdrawn",
            ),
            (
                "copied",
                lambda: self.certificate(conditions={"machine": "another"}),
                "latency_withdrawn",
            ),
            (
                "expired",
                lambda: self.certificate(issued_at=1.779e9, expires_at=1.78e9),
                "latency_expired",
            ),
            (
                "removed",
                lambda: self.tree.remove(latency.CERTIFICATE),
                "latency_uncertified",
            ),
            (
                "unreadable",
                lambda: (self.tree.path / latency.CERTIFICATE).mkdir(),
                "fact_unknown",
            ),
        ):
            with self.subTest(name):
                change()
                self.assertEqual([code], refusals())

    def test_withdrawn_by_the_probe(self):
        found = self.certificate(withdrawn="a sample of 88 µs")
        self.assertEqual("a sample of 88 µs", found.withdrawn)

    def test_edited(self):
        data = certificate.to_bytes(trees.CERTIFICATE)
        found = self.text(data.replace(b'_us": 18', b'_us": 17'))
        self.assertEqual(
            Unknown(f"/{latency.CERTIFICATE}: digest: the file was edited"),
            found,
        )

    def test_others_may_not_write_it(self):
        path = self.tree.path / latency.CERTIFICATE
        path.chmod(0o664)
        found = latency.observe(self.root).certificate
        self.assertIn("others than root may write it", found.reason)

    def test_another_user_wrote_it(self):
        path = self.tree.path / latency.CERTIFICATE
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        os.chown(path, 65534, 65534)
        found = latency.observe(self.root).certificate
        self.assertIn("not root's file", found.reason)

    def test_garbled(self):
        good = json.loads(certificate.to_bytes(trees.CERTIFICATE))
        for text in (
            "",
            "{",
            "[]",
            "[" * 60000,
            "9" * 6000,
            "x" * (certificate.MAX_FILE + 2),
            json.dumps({**good, "schema": 2}),
            json.dumps({**good, "max_latency_us": 1.5}),
            json.dumps({**good, "max_latency_us": True}),
            json.dumps({**good, "expires_at": float("inf")}),
            json.dumps({**good, "kernel": None}),
            '{"max_latency_us": 1, "kernel": "6", "expires_at": 2}',
        ):
            with self.subTest(text[:60]):
                found = self.text(text)
                self.assertIsInstance(found, Unknown)
                self.assertIn(f"/{latency.CERTIFICATE}: ", found.reason)

    def test_out_of_range(self):
        for value in (-1, 10**12):
            self.assertIsInstance(
                self.certificate(max_latency_us=value), Unknown
            )

    def test_unreadable(self):
        self.tree.make_unreadable(latency.CERTIFICATE)
        self.assertIsInstance(latency.observe(self.root).certificate, Unknown)
