# SPDX-License-Identifier: Apache-2.0

"""Run the tests of this package, and those again in which rt-1 hung.

Arguments are stestr's repository and those of ``stestr run``.
"""

import sys

from tests import again
from tests.testbed import paths


def main(repository: str, *arguments: str) -> int:
    """Run them, and return stestr's exit status.

    :param repository: where stestr keeps its results.
    :param arguments: its options, or what names of tests match.
    """
    command = (
        *("stestr", "--repo-url", repository),
        *("--test-path", str(paths.CHECKOUT / "tests/vm")),
        *("run", "--concurrency", "1"),
    )
    return again.run("tests.vm", command, arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
