# SPDX-License-Identifier: Apache-2.0

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
