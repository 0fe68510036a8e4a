# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt verify``, with stand-ins for the measuring itself."""

import contextlib
import dataclasses
import io
import json
import pathlib
import re
import tempfile
import time
import unittest
from unittest import mock

from sriov_rt.cmd import main
from sriov_rt.facts import certificate as facts_certificate
from sriov_rt.facts import culprit
from sriov_rt.host import latency as host_latency
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import certificate
from sriov_rt.verify import figures
from sriov_rt.verify import latency
from sriov_rt.verify import results
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.measurement import Cpus
from tests.unit.cmd import tables
from tests.unit.verify.test_certificate import GOOD
from tests.unit.verify.test_certificate import SUBJECT


def issued(**changes):
    found = certificate.issue(
        SUBJECT, GOOD, "standard", LOADS["compute"], time.time()
    )
    return dataclasses.replace(found, **changes)


class VerifyTest(unittest.TestCase):
    def setUp(self):
        for place, name, value in (
            (latency, "cpus_of", lambda root: Cpus(*CPUS)),
            (latency, "missing", lambda *_: ()),
            (latency, "without_tracers", lambda profile, _: (profile, ())),
            (certificate, "prepare", lambda root: None),
            (
                *(host_latency, "status"),
                lambda found, *_: host_latency.Status(found, None, ""),
            ),
        ):
            patch = mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_main(self, *words):
        printed, said = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            code = main.main(["verify", *words])
        return code, printed.getvalue() + said.getvalue()


CPUS = CpuSet((2, 3)), CpuSet((0, 1))


class CertificateTest(VerifyTest):
    def show(self, found, *words):
        with mock.patch.object(host_latency, "read", return_value=found):
            return self.run_main("certificate", *words)

    def test_one_that_counts(self):
        code, printed = self.show(issued())
        self.assertEqual(0, code)
        self.assertIn("certificate: 19 µs, until ", printed)
        first, second = tables.rows(printed)
        self.assertEqual(("2", "18"), (first["CPU"], first["Max µs"]))
        self.assertEqual(("3", "19"), (second["CPU"], second["Max µs"]))
        self.assertLessEqual(tables.width(printed), 80)
        code, printed = self.show(issued(), "--json")
        found = json.loads(printed)
        self.assertEqual(["certificate", "counts", "why_not"], list(found))
        self.assertEqual(19, found["certificate"]["max_latency_us"])

    def test_why_there_is_no_estimate(self):
        first, second = issued().cpus
        for cpus, lines in (
            (
                (first, second),
                ["CPU 2-3: the tool reports no maximum of each second"],
            ),
            (
                (
                    dataclasses.replace(first, estimate_refused="x"),
                    dataclasses.replace(second, estimate_refused="y"),
                ),
                ["CPU 2: x", "CPU 3: y"],
            ),
            (
                (
                    dataclasses.replace(
                        first, estimate_us=20, estimate_refused=""
                    ),
                ),
                [],
            ),
        ):
            with self.subTest(lines):
                _, printed = self.show(issued(cpus=cpus))
                found = re.findall("^no estimate for (.*)$", printed, re.M)
                self.assertEqual(lines, found)

    def from_file(self, data, *words):
        """Judge a certificate of elsewhere; this host is not looked at."""
        place = self.enterContext(tempfile.TemporaryDirectory())
        path = pathlib.Path(place) / "c.json"
        path.write_bytes(data)
        with (
            mock.patch.object(host_latency, "read", side_effect=OSError),
            mock.patch.object(host_latency, "status", side_effect=OSError),
        ):
            code, printed = self.run_main(
                *("certificate", "--file", str(path)), *words
            )
        return code, printed.replace(str(path), "FILE")

    def test_one_of_elsewhere(self):
        code, printed = self.from_file(facts_certificate.to_bytes(issued()))
        self.assertEqual(0, code, printed)
        self.assertRegex(
            printed,
            r"^certificate: 19 µs, until .* UTC \(FILE\)\n"
            rf"of {SUBJECT.host}, kernel {SUBJECT.kernel}, measured by "
            "profile standard under load compute\n",
        )

    def test_one_of_elsewhere_that_does_not_count(self):
        for change, why in (
            (
                {"issued_at": time.time() - 9, "expires_at": time.time() - 1},
                "it has expired",
            ),
            ({"withdrawn": "the SMT changed"}, "the SMT changed"),
            ({"issued_at": time.time() + 9999}, "ahead of the host's clock"),
            ({"conditions": {"SMT": "0"}}, "an older sriov-rt wrote it"),
        ):
            with self.subTest(why):
                found = facts_certificate.to_bytes(issued(**change))
                code, printed = self.from_file(found)
                self.assertEqual(1, code, printed)
                self.assertIn(why, printed)
        good = facts_certificate.to_bytes(issued())
        for bad, why in (
            (
                good.replace(b'"max_latency_us": 19', b'"max_latency_us": 9'),
                "the file was edited",
            ),
            (b"{", "not JSON"),
            (b" " * (facts_certificate.MAX_FILE + 9), "longer than"),
        ):
            with self.subTest(why):
                code, printed = self.from_file(bad)
                self.assertEqual(2, code)
                self.assertIn(why, printed)

    def test_one_of_elsewhere_that_steers_the_terminal(self):
        evil = "\x1b]0;x\x07\x9b2J\nroot#"
        named = culprit.Culprit("thread", evil, 2, 30, 9, evil, (evil,))
        found = issued(host=evil, kernel=evil, withdrawn=evil, culprit=named)
        data = facts_certificate.to_bytes(found)
        for words in ((), ("--json",), ("-f", "csv")):
            code, printed = self.from_file(data, *words)
            self.assertEqual(1, code, printed)
            self.assertNotRegex(printed, "[\x1b\x07\x9b]|(?m:^root#)")
            if words == ("--json",):
                plain = json.loads(printed)
                self.assertEqual(evil, plain["why_not"])
        plain = json.loads(facts_certificate.to_bytes(issued()))
        plain["conditions"] = {evil: 1}
        code, printed = self.from_file(json.dumps(plain).encode())
        self.assertEqual(2, code)
        self.assertNotRegex(printed, "[\x1b\x07\x9b]")

    def test_one_of_elsewhere_at_no_time(self):
        for at in (1e12, 1e16, 1e300, -1e16):
            found = issued(issued_at=at, expires_at=at + 1e6)
            code, printed = self.from_file(facts_certificate.to_bytes(found))
            self.assertEqual(2, code, printed)
            self.assertIn("FILE: its figures: ", printed)

    def test_one_that_has_expired(self):
        code, printed = self.show(issued(expires_at=1.0))
        self.assertEqual(1, code)
        self.assertIn("it counts no more: it has expired", printed)

    def test_none(self):
        code, printed = self.show(None)
        self.assertEqual(1, code)
        self.assertEqual(
            "no certificate; measure with 'sriov-rt verify latency'\n",
            printed,
        )
        _, printed = self.show(None, "--json")
        self.assertIn("no certificate", json.loads(printed)["why_not"])


class LatencyTest(VerifyTest):
    def test_a_plan(self):
        code, printed = self.run_main("latency", "--dry-run", "--duration=15m")
        self.assertEqual(0, code)
        self.assertIn("profile standard", printed)
        self.assertIn("  cyclictest 15m", printed)

    def measure(self, *words, found=GOOD):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        stand_ins = [mock.Mock(measurement=each) for each in found]
        with (
            mock.patch.object(results, "exclusive", contextlib.nullcontext),
            mock.patch.object(
                latency.LatencyRun, "run", return_value=stand_ins
            ),
            mock.patch.object(certificate, "write"),
            mock.patch.object(figures, "keep"),
        ):
            output = str(pathlib.Path(place.name))
            return self.run_main("latency", "--output", output, *words)

    def test_a_certificate(self):
        code, printed = self.measure()
        self.assertEqual(0, code, printed)
        rows = tables.rows(printed)
        self.assertEqual(["Tool", "CPU", "Max µs", "Samples"], list(rows[0]))
        self.assertEqual(
            {"Tool": "oslat", "CPU": "3", "Max µs": "19",
             "Samples": "4500000"}, rows[-1],
        )  # fmt: skip
        self.assertIn("certificate: 19 µs", printed)
        code, printed = self.measure("--json")
        self.assertEqual(
            ["measurements", "certificate", "refused", "left_out", "emulated"],
            list(json.loads(printed)),
        )

    def test_a_tool_that_the_kernel_cannot_run(self):
        why = "hwlat is left out: no tracefs"
        with mock.patch.object(
            latency, "without_tracers", lambda profile, _: (profile, (why,))
        ):
            _, printed = self.run_main("latency", "--dry-run")
            self.assertIn(why, printed.splitlines())
            code, printed = self.measure()
            self.assertEqual(0, code)
            self.assertIn(why, printed.splitlines())
            _, printed = self.measure("--json")
            self.assertEqual([why], json.loads(printed)["left_out"])

    def test_none(self):
        bad = dataclasses.replace(GOOD[1], problems=("it was disturbed",))
        code, printed = self.measure(found=(bad,))
        self.assertEqual(1, code)
        self.assertIn("does not count: it was disturbed", printed)
        self.assertIn("no certificate:", printed)
