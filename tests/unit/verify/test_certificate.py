# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.facts import certificate as document
from sriov_rt.host import latency
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import certificate
from sriov_rt.verify.errors import CertificateRefused
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Measurement
from tests.unit.host import trees
from tests.unit.verify import test_bound

NOW = 1_790_000_000.0
CONDITIONS = {**trees.CONDITIONS, "isolated CPUs": "2-3", "SMT": "0"}
SUBJECT = certificate.Subject(
    host="rt-1",
    kernel="6.1.0-44-rt-amd64",
    cpus=CpuSet((2, 3)),
    before=CONDITIONS,
    after=CONDITIONS,
    emulated=False,
)


def measured(tool, *worst, duration_s=900.0, problems=()):
    cpus = tuple(
        CpuLatency(cpu, 4_500_000, each) for cpu, each in enumerate(worst, 2)
    )
    return Measurement(tool, "2.40", tool, NOW, duration_s, cpus, problems)


GOOD = (
    measured("hwlat"),
    measured("cyclictest", 18, 16),
    measured("oslat", 7, 19),
)


class IssueTest(unittest.TestCase):
    def issue(self, measurements=GOOD, load="compute", subject=SUBJECT):
        return certificate.issue(
            subject, measurements, "standard", LOADS[load], NOW
        )

    def refused(self, *args, **kwargs):
        with self.assertRaises(CertificateRefused) as caught:
            self.issue(*args, **kwargs)
        return caught.exception.reasons

    def test_worst_of_all_tools(self):
        found = self.issue()
        self.assertEqual(19, found.max_latency_us)
        self.assertEqual(
            [(2, 18), (3, 19)], [(e.cpu, e.max_us) for e in found.cpus]
        )
        self.assertEqual(NOW + certificate.VALIDITY_S, found.expires_at)
        self.assertEqual(
            ["hwlat", "cyclictest", "oslat"], [e.tool for e in found.tools]
        )

    def test_an_estimate_or_why_there_is_none(self):
        rising = tuple(10 + i // 30 for i in range(240))
        cpus = (
            CpuLatency(2, 4_500_000, 18, maxima_us=rising),
            CpuLatency(3, 4_500_000, 16, maxima_us=test_bound.normal(900)),
        )
        cyclictest = dataclasses.replace(measured("cyclictest"), cpus=cpus)
        oslat = measured("oslat", 7, 9)
        first, second = self.issue((cyclictest, oslat)).cpus
        self.assertEqual(
            (None, "the maxima rise with time"),
            (first.estimate_us, first.estimate_refused),
        )
        self.assertGreaterEqual(second.estimate_us, 16)
        self.assertEqual("", second.estimate_refused)

    def test_an_idle_measurement_earns_none(self):
        (reason,) = self.refused(load="none")
        self.assertIn("an idle host says nothing", reason)

    def test_a_tool_that_was_not_run(self):
        self.assertEqual(("oslat was not run",), self.refused(GOOD[:2]))

    def test_a_run_that_does_not_count(self):
        bad = measured("oslat", 7, 19, problems=("steal time",))
        self.assertEqual(
            ("oslat: steal time",), self.refused((*GOOD[:2], bad))
        )

    def test_too_short(self):
        short = measured("oslat", 7, 19, duration_s=60.0)
        (reason,) = self.refused((*GOOD[:2], short))
        self.assertEqual(
            "oslat ran for 60 s, at least 900 s are needed", reason
        )

    def test_a_second_in_a_hundred_may_be_missing(self):
        for duration_s, is_refused in ((891.0, False), (890.9, True)):
            last = measured("oslat", 7, 19, duration_s=duration_s)
            found = certificate.refused(
                SUBJECT, (*GOOD[:2], last), LOADS["compute"]
            )
            self.assertEqual(is_refused, bool([*found]))

    def test_it_counts_for_a_leap_year_at_most(self):
        most = 366 * 24 * 3600
        for validity_s, days in ((most, []), (most + 1, ["366 days"])):
            try:
                certificate.issue(
                    SUBJECT,
                    GOOD,
                    "standard",
                    LOADS["compute"],
                    NOW,
                    validity_s=validity_s,
                )
                found = []
            except CertificateRefused as error:
                found = [x.partition("most ")[2] for x in error.reasons]
            self.assertEqual(days, found)

    def test_a_condition_that_changed_meanwhile(self):
        subject = dataclasses.replace(
            SUBJECT, after={**CONDITIONS, "SMT": "1"}
        )
        self.assertEqual(
            ("SMT changed while it was measured",),
            self.refused(subject=subject),
        )

    def test_a_machine_that_cannot_be_told_from_another(self):
        for machine in ("-", "uninitialized", "?"):
            now = {**CONDITIONS, "machine": machine}
            subject = dataclasses.replace(SUBJECT, before=now, after=now)
            (reason,) = self.refused(subject=subject)
            self.assertIn("systemd-machine-id-setup", reason)
            now = {**now, "product UUID": "3f5a7c019be2d846"}
            subject = dataclasses.replace(SUBJECT, before=now, after=now)
            self.issue(subject=subject)

    def test_a_hundred_years(self):
        with self.assertRaises(CertificateRefused) as caught:
            certificate.issue(
                SUBJECT, GOOD, "standard", LOADS["compute"], NOW,
                validity_s=100 * 365 * 24 * 3600,
            )  # fmt: skip
        self.assertEqual(
            ("a certificate counts for at most 366 days",),
            caught.exception.reasons,
        )

    def test_what_is_issued_has_no_contradiction(self):
        self.assertEqual([], list(document.contradictions(self.issue())))


class FileTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        self.issued = certificate.issue(
            SUBJECT, GOOD, "standard", LOADS["compute"], NOW
        )

    def read(self):
        return document.from_bytes((self.root / document.PATH).read_bytes())

    def test_written_and_read(self):
        path = certificate.write(self.issued, self.root)
        self.assertEqual(0o644, path.stat().st_mode & 0o777)
        self.assertEqual(
            self.issued, dataclasses.replace(self.read(), digest="")
        )

    def test_one_of_a_version_without_reasons_for_estimates(self):
        plain = json.loads(document.to_bytes(self.issued))
        for each in plain["cpus"]:
            self.assertIn("no maximum", each.pop("estimate_refused"))
        plain["digest"] = document.digest_of(plain)
        found = document.from_bytes(json.dumps(plain).encode())
        self.assertEqual(19, found.max_latency_us)
        self.assertEqual("", found.cpus[0].estimate_refused)

    def test_withdrawn(self):
        certificate.write(self.issued, self.root)
        certificate.withdraw(self.read(), "a sample of 88 µs", self.root)
        self.assertEqual("a sample of 88 µs", self.read().withdrawn)

    def test_withdrawn_on_a_full_disk(self):
        """Its readers see it withdrawn: now, and after the next boot."""
        path = certificate.write(self.issued, self.root)
        host = Root(str(self.root))
        with (
            mock.patch("os.fsync", side_effect=OSError(28, "No space left")),
            self.assertLogs("sriov_rt.verify.certificate") as logs,
        ):
            certificate.withdraw(self.read(), "a sample of 88 µs", self.root)
            certificate.retry(host)
        self.assertFalse(path.exists())
        self.assertIn("No space left", logs.output[0])
        self.assertIn("free space", logs.output[0])
        self.assertEqual("a sample of 88 µs", latency.read(host).withdrawn)
        (self.root / document.IN_MEMORY_PATH).unlink()
        self.assertIn("took no data", latency.read(host).withdrawn)
        certificate.retry(host)
        self.assertIn("took no data", self.read().withdrawn)
        self.assertFalse((self.root / document.RENAMED_PATH).exists())

    def test_what_is_in_memory_is_of_one_certificate(self):
        path = certificate.write(self.issued, self.root)
        with (
            mock.patch("os.fsync", side_effect=OSError(28, "No space left")),
            self.assertLogs("sriov_rt.verify.certificate"),
        ):
            certificate.withdraw(self.read(), "a sample of 88 µs", self.root)
        other = dataclasses.replace(self.issued, issued_at=NOW + 1)
        path.write_bytes(document.to_bytes(other))
        self.assertEqual("", latency.read(Root(str(self.root))).withdrawn)
        certificate.retry(Root(str(self.root)))
        self.assertEqual("", self.read().withdrawn)

    def test_what_can_be_written_nowhere_is_an_error(self):
        certificate.write(self.issued, self.root)
        with (
            mock.patch("os.write", side_effect=OSError(28, "No space left")),
            mock.patch("pathlib.Path.replace", side_effect=OSError(28, "x")),
            self.assertRaises(OSError),
        ):
            certificate.withdraw(self.read(), "a sample of 88 µs", self.root)

    def test_what_cannot_be_written_is_known_before(self):
        certificate.prepare(self.root)
        directory = (self.root / document.PATH).parent
        self.assertEqual([], list(directory.iterdir()))
        with (
            mock.patch("tempfile.TemporaryFile", side_effect=OSError(30, "")),
            self.assertRaises(OSError),
        ):
            certificate.prepare(self.root)

    def test_a_full_disk_leaves_the_one_before(self):
        certificate.write(self.issued, self.root)
        other = dataclasses.replace(self.issued, max_latency_us=1)
        with (
            mock.patch("os.fsync", side_effect=OSError(28, "No space")),
            self.assertRaises(OSError),
        ):
            certificate.write(other, self.root)
        self.assertEqual(19, self.read().max_latency_us)
        self.assertEqual(
            1, len(list((self.root / document.PATH).parent.iterdir()))
        )
