# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import dataclasses
import json
import os
import time
import tracemalloc

from sriov_rt import decide
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import certificate
from sriov_rt.host import latency
from sriov_rt.host import table
from tests.unit import builders
from tests.unit.host import trees


class LatencyTest(trees.TreeTest):
    def certificate(self, **changes):
        """Return what is read of the certificate with some changes."""
        made = dataclasses.replace(trees.CERTIFICATE, **changes)
        self.tree.write(latency.CERTIFICATE, certificate.to_bytes(made))
        return latency.observe(self.root).certificate

    def text(self, text):
        self.tree.write(latency.CERTIFICATE, text)
        return latency.observe(self.root).certificate

    def test_certificate(self):
        self.assertEqual(
            LatencyCertificate(18, trees.RELEASE, 1798761600.0),
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
        for value in (0, certificate.MAX_LATENCY_US):
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
        # So does the next boot, for one that hangs on it.
        found = self.certificate(conditions={"boot": "another"})
        self.assertIn("boot changed from 'another'", found.withdrawn)

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
            return [each.code for each in decide.why_not(asked, facts, view)]

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
                lambda: self.certificate(expires_at=1.78e9),
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
