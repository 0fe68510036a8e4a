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

import json

from sriov_rt.codec import Unknown
from sriov_rt.facts import LatencyCertificate
from sriov_rt.host import latency
from tests.unit.host import trees


class LatencyTest(trees.TreeTest):
    def certificate(self, text=None):
        if text is not None:
            self.tree.write(latency.CERTIFICATE, text)
        return latency.observe(self.root).certificate

    def test_certificate(self):
        self.assertEqual(
            LatencyCertificate(18, trees.RELEASE, 1798761600.0),
            self.certificate(),
        )

    def test_form_that_the_module_documents(self):
        text = latency.__doc__.partition("::\n")[2].partition("\n\n``")[0]
        self.assertEqual(18, self.certificate(text).max_latency_us)

    def test_further_keys_are_passed_over(self):
        text = json.dumps(
            {"max_latency_us": 1, "kernel": "6", "expires_at": 2, "by": "me"}
        )
        self.assertEqual(
            LatencyCertificate(1, "6", 2.0), self.certificate(text)
        )

    def test_least_and_greatest_latency(self):
        for value in (0, latency.MAX_LATENCY_US):
            text = json.dumps(
                {"max_latency_us": value, "kernel": "6", "expires_at": 2}
            )
            self.assertEqual(value, self.certificate(text).max_latency_us)

    def test_no_certificate(self):
        self.tree.remove("var")
        self.assertIsNone(self.certificate())

    def test_garbled(self):
        good = {"max_latency_us": 1, "kernel": "6", "expires_at": 2}
        for text in (
            "",
            "{",
            "[]",
            "[" * 60000,
            "9" * 6000,
            json.dumps({**good, "max_latency_us": -1}),
            json.dumps({**good, "max_latency_us": 10**12}),
            json.dumps({**good, "max_latency_us": 1.5}),
            json.dumps({**good, "max_latency_us": True}),
            json.dumps({**good, "expires_at": float("inf")}),
            json.dumps({**good, "kernel": None}),
            json.dumps({"kernel": "6", "expires_at": 2}),
        ):
            with self.subTest(text[:60]):
                found = self.certificate(text)
                self.assertIsInstance(found, Unknown)
                self.assertIn(f"/{latency.CERTIFICATE}: ", found.reason)

    def test_unreadable(self):
        self.tree.make_unreadable(latency.CERTIFICATE)
        self.assertEqual(
            Unknown(f"/{latency.CERTIFICATE}: Is a directory"),
            self.certificate(),
        )
