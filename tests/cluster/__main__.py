# SPDX-License-Identifier: Apache-2.0

"""Run the tests of this package as those of ``tests/cloud`` are run."""

import sys

from tests.cloud.__main__ import main

if __name__ == "__main__":
    sys.exit(main("tests.cluster", *sys.argv[1:]))
