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

"""Flavors with our extra specs: made, refused, explained."""

import json

from tests.cloud.base import KERNEL
from tests.cloud.base import REALTIME
from tests.cloud.base import CloudTestCase
from tests.cloud.scheduler import explain
from tests.testbed.errors import HttpError
from tests.testbed.seed import ORDINARY_FLAVOR
from tests.testbed.services import RT
from tests.testbed.services import STD


class TestValidation(CloudTestCase):
    """Nova's API refuses what our extra specs can't be."""

    def test_a_value_that_cannot_be_is_a_400(self) -> None:
        done = self.command(
            "openstack",
            "flavor",
            "set",
            "--property",
            "sriov_rt:kernel=rt",
            self.flavor({}),
        )
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn(": 400: ", done.stderr)
        self.assertIn("sriov_rt:kernel", done.stderr)
        self.assertIn("preempt_rt", done.stderr)

    def test_a_selector_says_where_it_is_wrong(self) -> None:
        sentence = self.refusal("sriov_rt:node_selector", "zone in (a")
        self.assertIn("sriov_rt:node_selector: ", sentence)

    def test_a_number_below_zero_is_a_400(self) -> None:
        sentence = self.refusal("sriov_rt:max_latency_us", "-1")
        self.assertIn("sriov_rt:max_latency_us: ", sentence)

    def test_an_extra_spec_that_is_not_ours_is_a_400(self) -> None:
        sentence = self.refusal("sriov_rt:kernal", "preempt_rt")
        self.assertIn("sriov_rt:kernal: ", sentence)
        # It names those that there are.
        self.assertIn("max_latency_us", sentence)

    def refusal(self, name: str, value: str) -> str:
        """Return what Nova's API says to an extra spec that it refuses.

        :param name: the extra spec's.
        :param value: its value.
        """
        api, flavor = self.cloud.api, self.flavor({})
        key = api.identify("nova-api", "flavors", flavor)
        with self.assertRaises(HttpError) as caught:
            api.post(
                "nova-api",
                f"/flavors/{key}/os-extra_specs",
                {"extra_specs": {name: value}},
            )
        self.assertEqual(400, caught.exception.status)
        return str(json.loads(caught.exception.body)["badRequest"]["message"])


class TestExplain(CloudTestCase):
    """``sriov-rt explain`` asks Nova for the flavor, the agents for facts."""

    def test_which_host_and_why_not_the_other(self) -> None:
        done = explain(self, self.flavor(REALTIME), "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        std, rt = sorted(
            json.loads(done.stdout), key=lambda each: each["host"] == RT
        )
        self.assertEqual((RT, True, []), tuple(rt.values()))
        self.assertEqual((STD, False), (std["host"], std["passes"]))
        messages = {each["code"]: each["message"] for each in std["reasons"]}
        self.assertIn("boot with isolcpus=", messages["nothing_isolated"])

    def test_the_table(self) -> None:
        done = explain(self, self.flavor(KERNEL))
        self.assertEqual(0, done.returncode, done.stderr)
        lines = [line.split(None, 2) for line in done.stdout.splitlines()]
        self.assertEqual(["HOST", "PASSES", "REASONS"], lines[0])
        self.assertEqual([RT, "yes"], lines[1])
        self.assertEqual([STD, "no"], lines[2][:2])
        self.assertTrue(lines[2][2].startswith("kernel_not_rt: "), lines)
        self.assertIn("boot a realtime kernel", lines[2][2])

    def test_a_flavor_that_no_host_satisfies(self) -> None:
        done = explain(
            self, self.flavor({**KERNEL, "sriov_rt:nic": "solarflare"})
        )
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertEqual(2, done.stdout.count("nic_missing: "), done.stdout)

    def test_a_flavor_that_asks_nothing(self) -> None:
        done = explain(self, ORDINARY_FLAVOR, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        verdicts = json.loads(done.stdout)
        self.assertEqual([True, True], [each["passes"] for each in verdicts])

    def test_a_flavor_that_is_not_there(self) -> None:
        done = explain(self, "no-such-flavor")
        self.assertEqual(2, done.returncode, done.stdout)
        (line,) = done.stderr.splitlines()
        self.assertTrue(line.startswith("sriov-rt: error: "), line)
