# SPDX-License-Identifier: Apache-2.0

"""A host and a flavor, and what is decided of them."""

import unittest

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import request
from tests.unit import builders

NOW = 1_790_000_000.0
VIEW = decide.View(now=NOW)
REALTIME = {
    "sriov_rt:realtime": "required",
    "sriov_rt:kernel": "preempt_rt",
    "hw:cpu_policy": "dedicated",
}


class DecideTestCase(unittest.TestCase):
    def codes(self, specs=REALTIME, view=VIEW, **parts):
        host = facts.decisive(builders.realtime_host(**parts))
        asked = request.parse(specs)
        found = decide.why_not(asked, host, view)
        self.assertEqual(not found, decide.satisfies(asked, host, view))
        return [each.code for each in found]

    def message(self, code, specs=REALTIME, view=VIEW, **parts):
        host = facts.decisive(builders.realtime_host(**parts))
        for each in decide.why_not(request.parse(specs), host, view):
            if each.code == code:
                return each.message
        return self.fail(f"no Reason {code}")
