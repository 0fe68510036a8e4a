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

"""Tests of Nova in process, run against a release in a process of its own."""

from tests import releases

#: Seconds that a run may take.
_RUN_S = 1800

#: Nova 32 and 33 run on eventlet, which has to be first in the process;
#: Nova 34 does not, see tests.functional.
_RUNNER = """
import sys
from nova import monkey_patch
monkey_patch.patch()
from nova import version
if not version.version_string().startswith(sys.argv[1] + "."):
    sys.exit(f"Nova {version.version_string()} and not {sys.argv[1]}")
import testtools.run
testtools.run.main(sys.argv[1:], sys.stdout)
"""


def run(release: releases.Release, *tests: str) -> tuple[int, str]:
    """Run tests against a release and return exit code and output.

    :param tests: names of modules, classes or methods.
    :raises errors.TestbedError: if it can't be installed.
    :raises subprocess.SubprocessError: if it hangs.
    """
    native = str(release is releases.NEWEST).lower()
    return release.run(
        _RUNNER,
        str(release.nova),
        *tests,
        timeout=_RUN_S,
        environment={"OS_NOVA_DISABLE_EVENTLET_PATCHING": native},
    )
