# SPDX-License-Identifier: Apache-2.0

"""Tests beside Magnum, run against a release in a process of their own.

Magnum and Nova cannot be in one process: both register the same options.
"""

import pathlib

from tests import releases

CASES = pathlib.Path(__file__).parent / "cases"

#: Seconds that a run may take.
_RUN_S = 1800

#: Each release of OpenStack, and its major version of Magnum.
MAGNUM = {"2025.2": 21, "2026.1": 22, "2026.2": 23}

_RUNNER = """
import importlib.metadata
import sys
found = importlib.metadata.version("magnum")
if not found.startswith(sys.argv[1] + "."):
    sys.exit(f"Magnum {found} and not {sys.argv[1]}")
import testtools.run
testtools.run.main(sys.argv[1:], sys.stdout)
"""


def run(
    release: releases.Release,
    *tests: str,
    environment: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Run modules of cases against a release; return exit code and output.

    :param tests: names of modules, classes or methods.
    :param environment: variables to set.
    :raises errors.TestbedError: if it can't be installed.
    :raises subprocess.SubprocessError: if it hangs.
    """
    return release.run(
        _RUNNER,
        str(MAGNUM[release.name]),
        *tests,
        timeout=_RUN_S,
        path=(CASES,),
        environment=environment,
    )
