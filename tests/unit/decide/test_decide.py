# SPDX-License-Identifier: Apache-2.0

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
