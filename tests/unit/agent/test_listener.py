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

import unittest

from sriov_rt.agent.listener import Endpoint


class EndpointTest(unittest.TestCase):
    def setUp(self):
        self.asked = 0
        self.endpoint = Endpoint("rt-1", self._ask)

    def _ask(self):
        self.asked += 1

    def test_all_are_asked(self):
        self.endpoint.report_now({})
        self.endpoint.report_now({}, hosts=None)
        self.assertEqual(2, self.asked)

    def test_this_host_is_asked_by_name(self):
        self.endpoint.report_now({}, hosts=["rt-2", "rt-1"])
        self.assertEqual(1, self.asked)

    def test_others_are_asked(self):
        for hosts in ([], ["rt-2"], "rt-1", {"rt-1": 1}, 7, [["rt-1"]]):
            with self.subTest(hosts):
                self.endpoint.report_now({}, hosts=hosts)
                self.assertEqual(0, self.asked)
