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


import threading
import unittest
from unittest import mock

import oslo_messaging

from sriov_rt.scheduler import teller
from sriov_rt.scheduler.placements import Placement
from sriov_rt.scheduler.teller import Teller

ONE = Placement("a", "inst-1", ("net-a",))
OTHER = Placement("b", "inst-2", ("net-a",))


class TellerTest(unittest.TestCase):
    def setUp(self):
        self.teller = Teller()
        self.told: list[Placement] = []

    def test_all_is_told_in_its_order(self):
        self.teller.tell(ONE)
        self.teller.tell(OTHER)
        self.teller.stop()
        self.teller.run(self.told.append)
        self.assertEqual([ONE, OTHER], self.told)

    def test_what_cannot_be_sent_does_not_stop_the_rest(self):
        failures = [oslo_messaging.MessageDeliveryFailure("down"), OSError()]

        def cast(placement: Placement) -> None:
            if failures:
                raise failures.pop()
            self.told.append(placement)

        for placement in (ONE, ONE, OTHER):
            self.teller.tell(placement)
        self.teller.stop()
        with self.assertLogs(teller.LOG, "WARNING") as logged:
            self.teller.run(cast)
        self.assertEqual([OTHER], self.told)
        self.assertEqual(2, len(logged.output))
        self.assertIn("host=a instance=inst-1", logged.output[0])

    def test_a_request_never_waits_for_the_queue(self):
        with mock.patch.object(teller, "MAX_WAITING", 2):
            self.teller = Teller()
        self.teller.tell(ONE)
        self.teller.tell(ONE)
        with self.assertLogs(teller.LOG, "WARNING") as logged:
            self.teller.tell(OTHER)
        self.assertIn("host=b instance=inst-2", logged.output[0])
        self.teller.stop()
        self.teller.run(self.told.append)
        self.assertNotIn(OTHER, self.told)

    def test_it_ends_while_it_waits(self):
        thread = threading.Thread(
            target=self.teller.run, args=(self.told.append,)
        )
        thread.start()
        self.teller.stop()
        thread.join(10)
        self.assertFalse(thread.is_alive())
