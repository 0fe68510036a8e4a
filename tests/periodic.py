# SPDX-License-Identifier: Apache-2.0

"""Tests that are left out of the gate, and of ``tools/test quick``.

The gate takes twenty minutes, in which two emulated hosts on two cores cannot
run every test. ``@periodic`` leaves a test to ``tools/test --periodic`` if a
quicker test shows nearly the same, if it waits for long, or if it boots a
machine of its own.
Before a commit, tests should take minutes: ``@slow`` leaves a test to the
gate. Elsewhere both are counted as skipped, and reported at the end.
``python -m tests.periodic COMMAND`` runs a command in the periodic run alone.
"""

import os
import subprocess
import sys
import unittest
from typing import Any

#: Set, to anything, if all tests are to run.
VARIABLE = "SRIOV_RT_PERIODIC"

#: Set, to anything, in ``tools/test quick``.
QUICK = "SRIOV_RT_QUICK"

#: Reason for skipping a test that is left to the periodic run.
REASON = "periodic: tools/test --periodic runs it"

#: Reason for skipping a test that is left to the gate.
SLOW_REASON = "slow: tools/test runs it"


def wanted() -> bool:
    """Return whether this is a periodic run."""
    return bool(os.environ.get(VARIABLE))


def periodic(test: Any) -> Any:
    """Leave a test, or a class of them, to the periodic run."""
    return unittest.skipUnless(wanted(), REASON)(test)


def slow(test: Any) -> Any:
    """Leave a test, or a class of them, to the gate."""
    return unittest.skipIf(os.environ.get(QUICK), SLOW_REASON)(test)


if __name__ == "__main__":
    sys.exit(subprocess.call(sys.argv[1:]) if wanted() else 0)
