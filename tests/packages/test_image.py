# SPDX-License-Identifier: Apache-2.0

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
