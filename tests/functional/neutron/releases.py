# SPDX-License-Identifier: Apache-2.0

"""Tests beside Neutron, run against a release in a process of their own.

Neutron and Nova cannot be in one process: both register the same options,
and Nova's modules, which tests.functional imports, refuse eventlet.
"""

import pathlib

from tests import releases

CASES = pathlib.Path(__file__).parent / "cases"

#: Seconds that a run may take.
_RUN_S = 1800

_RUNNER = """
import importlib.metadata
import sys
found = importlib.metadata.version("neutron")
if not found.startswith(sys.argv[1] + "."):
    sys.exit(f"Neutron {found} and not {sys.argv[1]}")
import testtools.run
testtools.run.main(sys.argv[1:], sys.stdout)
"""


def run(release: releases.Release, *tests: str) -> tuple[int, str]:
    """Run modules of cases against a release; return exit code and output.

    :param tests: names of modules, classes or methods.
    :raises errors.TestbedError: if it can't be installed.
    :raises subprocess.SubprocessError: if it hangs.
    """
    return release.run(
        _RUNNER,
        str(release.neutron),
        *tests,
        timeout=_RUN_S,
        path=(CASES,),
    )
