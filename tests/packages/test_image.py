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

"""The image of the agent runs it as a user, with two capabilities."""

import pathlib
import tempfile
import unittest

from tests.packages import agent_image
from tests.periodic import periodic

_LOOK = """
agent=$(buildah from sriov-rt-agent)
buildah config --entrypoint '[]' "$agent"
capabilities=CAP_SYS_PTRACE,CAP_DAC_READ_SEARCH
within() { buildah run --cap-add $capabilities "$agent" "$@"; }
echo "user $(within id -u)"
echo "says $(within /opt/sriov-rt/bin/sriov-rt-agent --version 2>&1)"
# CAP_DAC_READ_SEARCH is 2, and CAP_SYS_PTRACE 19.
echo "$(within /opt/sriov-rt/bin/python3 -c '
print(open("/proc/self/status").read())' | grep CapEff)"
within /opt/sriov-rt/bin/python3 -c 'import kubernetes, prometheus_client'
echo "size $(du -sm "$(buildah mount "$agent")" | cut -f1) MB"
"""


@periodic
class ImageTest(unittest.TestCase):
    """The image of etc/container, from a wheel of this tree."""

    def test_it_runs_the_agent_as_a_user_with_two_capabilities(self) -> None:
        """And has what the two extras install."""
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            text = agent_image.build(pathlib.Path(place), _LOOK)
        self.assertIn("user 10064\n", text)
        self.assertIn(f"says {agent_image.VERSION}\n", text)
        effective = 1 << 2 | 1 << 19
        self.assertRegex(text, rf"CapEff:\s0*{effective:x}\n")
        print(text[text.index("size ") :].partition("\n")[0])
