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

import gc
import math
import unittest

from sriov_rt import facts
from sriov_rt import request
from sriov_rt.scheduler.kinds import Kinds
from tests.unit import builders

CERTIFIED = request.Request(max_latency_us=50)


def certified(name: str, expires_at: float) -> facts.HostFacts:
    certificate = facts.LatencyCertificate(20, "6.1.0-44-rt-amd64", expires_at)
    return builders.realtime_host(name, latency={"certificate": certificate})


class KindsTest(unittest.TestCase):
    def test_two_hosts_of_one_build_are_one_kind(self):
        kinds = Kinds()
        one = kinds.of(builders.realtime_host("a"))
        other = kinds.of(builders.realtime_host("b"))
        self.assertIs(one, other)

    def test_a_host_that_differs_is_another_kind_with_another_number(self):
        kinds = Kinds()
        one = kinds.of(builders.realtime_host("a"))
        other = kinds.of(builders.realtime_host("a", memory={"thp": "always"}))
        self.assertNotEqual(one.number, other.number)
        self.assertEqual("always", other.facts.memory.thp)

    def test_equal_parts_of_different_kinds_are_kept_once(self):
        kinds = Kinds()
        one = kinds.of(certified("a", 10.0)).facts
        other = kinds.of(certified("b", 20.0)).facts
        self.assertIsNot(one.latency, other.latency)
        self.assertIs(one.cpus, other.cpus)
        self.assertIs(one.labels, other.labels)

    def test_labels_of_different_kinds_share_their_names(self):
        def label(value: str) -> str:
            # As JSON brings it: a string of its own.
            values = {"".join(("example.org/", "rack")): value}
            host = builders.realtime_host(labels={"values": values})
            (key,) = kinds.of(host).facts.labels.values
            return key

        kinds = Kinds()
        self.assertIs(label("r1"), label("r2"))

    def test_a_kind_without_hosts_is_dropped(self):
        kinds = Kinds()
        kind = kinds.of(builders.realtime_host())
        self.assertEqual(1, len(kinds))
        del kind
        gc.collect()
        self.assertEqual(0, len(kinds))


class PassesUntilTest(unittest.TestCase):
    def _until(self, asked: request.Request, host: facts.HostFacts) -> float:
        return Kinds().of(host).passes_until(asked)

    def test_for_ever_where_time_changes_nothing(self):
        asked = request.Request(kernel=request.grammar.words.Kernel.PREEMPT_RT)
        until = self._until(asked, builders.realtime_host())
        self.assertEqual(math.inf, until)

    def test_never(self):
        until = self._until(CERTIFIED, builders.realtime_host())
        self.assertEqual(-math.inf, until)

    def test_until_the_certificate_expires(self):
        self.assertEqual(5.0, self._until(CERTIFIED, certified("a", 5.0)))

    def test_a_certificate_nobody_asks_for_changes_nothing(self):
        until = self._until(request.Request(), certified("a", 5.0))
        self.assertEqual(math.inf, until)
