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


from sriov_rt import decide
from sriov_rt import request
from tests.unit.decide.case import NOW
from tests.unit.decide.case import REALTIME
from tests.unit.decide.case import VIEW
from tests.unit.decide.case import DecideTestCase


class FreshnessTest(DecideTestCase):
    def test_a_host_never_heard_of(self):
        found = decide.why_not(request.parse(REALTIME), None, VIEW)
        self.assertEqual(["facts_missing"], [each.code for each in found])

    def test_facts_at_and_past_the_limit(self):
        fresh = decide.View(now=NOW, facts_age_s=60, max_age_s=60)
        self.assertEqual([], self.codes(view=fresh))
        stale = decide.View(now=NOW, facts_age_s=61, max_age_s=60)
        self.assertEqual(["facts_stale"], self.codes(view=stale))
