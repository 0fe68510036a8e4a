# SPDX-License-Identifier: Apache-2.0

"""What hook programs import, while a domain waits for them."""

import json
import subprocess
import sys
import unittest

#: Each takes longer to import than a hook may take to answer, or scans what
#: is installed.
_SLOW = frozenset(
    {
        *("cliff", "nova", "oslo_i18n", "oslo_utils"),
        *("pyroute2", "stevedore"),
    }
)

_LOOK = """
import json, sys
{imports}
from sriov_rt.host import selected
from sriov_rt.host.root import Root
from sriov_rt.request.guest_request import from_text
from sriov_rt.guest import admission
from sriov_rt.libvirt.hook import MANAGER
request = from_text("realtime=required & max_latency_us=9 & nic=any")
parts = selected.parts_for(admission.parse(request, MANAGER))
selected.observe(Root("/nonexistent"), parts)
print(json.dumps(sorted(sys.modules)))
"""


class ImportsTest(unittest.TestCase):
    def test_nothing_slow(self):
        for name in ("sriov_rt.libvirt.hook", "sriov_rt.vdsm.hook"):
            done = subprocess.run(
                (
                    *(sys.executable, "-c"),
                    _LOOK.format(imports=f"import {name}"),
                ),
                capture_output=True,
                text=True,
                check=True,
            )
            found = {each.split(".")[0] for each in json.loads(done.stdout)}
            with self.subTest(name):
                self.assertEqual(set(), found & _SLOW)
