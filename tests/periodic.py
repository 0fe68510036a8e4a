# SPDX-License-Identifier: Apache-2.0

"""Tests that are left out of the gate, and of ``tools/test quick``.

A change is to know in twenty minutes whether it may land, and two emulated
hosts on two cores take longer for all there is to show. What a quicker test
shows up to a detail is left to the periodic run, ``tools/test --periodic``,
and so are long waits and what boots a machine of its own: ``@periodic``.
Before a commit one wants to know in minutes: what is slow is left to the gate:
``@slow``. Both are counted as skipped elsewhere, and told at the end.
``python -m tests.periodic COMMAND`` runs a command in the periodic run alone.
"""

import os
import subprocess
import sys
import unittest
from typing import Any

#: Set, to anything, where all tests are to run.
VARIABLE = "SRIOV_RT_PERIODIC"

#: Set, to anything, in ``tools/test quick``.
QUICK = "SRIOV_RT_QUICK"

#: Why a test was skipped that is left to the periodic run.
REASON = "periodic: tools/test --periodic runs it"

#: Why one was skipped that is left to the gate.
SLOW_REASON = "slow: tools/test runs it"


def wanted() -> bool:
    """Tell whether this is a periodic run."""
    return bool(os.environ.get(VARIABLE))


def periodic(test: Any) -> Any:
    """Leave a test, or a class of them, to the periodic run."""
    return unittest.skipUnless(wanted(), REASON)(test)


def slow(test: Any) -> Any:
    """Leave a test, or a class of them, to the gate."""
    return unittest.skipIf(os.environ.get(QUICK), SLOW_REASON)(test)


if __name__ == "__main__":
    sys.exit(subprocess.call(sys.argv[1:]) if wanted() else 0)
