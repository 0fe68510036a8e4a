# SPDX-License-Identifier: Apache-2.0

import pathlib
import tempfile
import unittest

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.labels import own
from sriov_rt.labels.feature_file import FeatureFile
from sriov_rt.parse.features import parse_features
from tests.unit import builders
from tests.unit.labels import fakes

NOW = 1_790_000_000.0
KERNEL = "6.1.0-44-rt-amd64"
ONLOAD = {
    "modules": ("onload",),
    "devices": ("/dev/onload",),
    "library": "/usr/lib64/libonload.so",
    "profiles": (),
}


def latency(expires_at=NOW + 1, kernel=KERNEL):
    return {"certificate": facts.LatencyCertificate(18, kernel, expires_at)}


class OwnTest(unittest.TestCase):
    def test_a_realtime_host(self):
        host = builders.realtime_host(onload=ONLOAD, latency=latency())
        self.assertEqual(
            {
                "sriov-rt.certified": "true",
                "sriov-rt.cpus.isolated": "2",
                "sriov-rt.cpus.nohz_full": "2",
                "sriov-rt.latency-us": "18",
                "sriov-rt.onload": "true",
                "sriov-rt.ready": "true",
            },
            own.of(host, NOW),
        )

    def test_what_is_not_so_is_not_said(self):
        why = Unknown("garbled")
        emulated = {
            "certificate": facts.LatencyCertificate(
                18, KERNEL, NOW + 1, emulated=True
            )
        }
        for name, part in (
            ("ready", {"memory": {"ksm_run": 1}}),
            ("ready", {"memory": {"ksm_run": why}}),
            ("cpus.isolated", {"cpus": {"isolated": why}}),
            ("cpus.nohz_full", {"cpus": {"nohz_full": why}}),
            ("latency-us", {"latency": latency(expires_at=NOW)}),
            ("latency-us", {"latency": latency(kernel="6.2")}),
            ("certified", {"latency": latency(expires_at=NOW)}),
            ("certified", {"latency": emulated}),
            ("latency-us", {"latency": {"certificate": None}}),
            ("latency-us", {"latency": {"certificate": why}}),
            *(
                ("onload", {"onload": ONLOAD | {each: value}})
                for each, values in (
                    ("modules", ((), why)),
                    ("devices", ((), why)),
                    ("library", (None, why)),
                )
                for value in values
            ),
        ):
            with self.subTest(name=name, part=part):
                every = {"onload": ONLOAD, "latency": latency()}
                host = builders.realtime_host(**every | part)
                self.assertNotIn(f"sriov-rt.{name}", own.of(host, NOW))

    def test_nfd_reads_the_text_until_it_expires(self):
        text = own.text({"sriov-rt.ready": "true"}, NOW + 60)
        for now, expected in ((NOW + 60, 1), (NOW + 61, 0)):
            found = parse_features(text, now)
            self.assertEqual((), found.problems)
            self.assertEqual(expected, len(found.labels))


class FeatureFileTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name) / "sriov-rt"
        self.clock = fakes.Clock()
        self.file = FeatureFile(self.path, 60.0, wall=self.clock.wall)
        self.host = builders.realtime_host()

    def expires_in(self):
        text = self.path.read_text()
        return parse_features(text, 0.0).expires_at - self.clock.wall()

    def test_refreshed_before_it_expires_and_not_sooner(self):
        self.file.update(self.host)
        self.assertEqual(60.0, self.expires_in())
        written = self.path.stat().st_ino
        self.clock.now += 30
        self.file.update(self.host)
        self.assertEqual(written, self.path.stat().st_ino)
        self.clock.now += 1
        self.file.update(self.host)
        self.assertEqual(60.0, self.expires_in())
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_a_change_is_written_at_once(self):
        self.file.update(self.host)
        self.file.update(builders.realtime_host(memory={"ksm_run": 1}))
        self.assertNotIn("ready", self.path.read_text())

    def test_a_clock_that_was_set_back(self):
        self.file.update(self.host)
        self.clock.now -= 3600
        self.file.update(self.host)
        self.assertEqual(60.0, self.expires_in())

    def test_removed(self):
        self.file.update(self.host)
        self.file.remove()
        self.file.remove()
        self.assertFalse(self.path.exists())

    def test_no_directory_is_said_once(self):
        file = FeatureFile(self.path / "no" / "such", 60.0)
        with self.assertLogs("sriov_rt.labels.feature_file") as logged:
            file.update(self.host)
            file.update(self.host)
        self.assertEqual(1, len(logged.output))
        self.assertIn("feature_file = false", logged.output[0])
