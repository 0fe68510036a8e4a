# SPDX-License-Identifier: Apache-2.0

"""Run the tests of this package, and those again in which a host hung.

Arguments are those of ``stestr run``. A cloud is up; where one of its machines
hangs, those are run in a new one.
"""

import subprocess
import sys

from tests import again
from tests.testbed import paths

_TESTBED = (sys.executable, "-m", "tests.testbed")


def main(package: str, *arguments: str) -> int:
    """Run the tests of a package, and return stestr's exit status.

    :param package: whose tests need such a cloud.
    :param arguments: stestr's options, or what names of tests match.
    """
    directory = paths.CHECKOUT / package.replace(".", "/")
    command = (
        *(*_TESTBED, "inside", "--"),
        *("stestr", "--test-path", str(directory)),
        *("run", "--concurrency", "1"),
    )
    return again.run(package, command, arguments, _renew)


def _renew() -> None:
    for verb in ("down", "up"):
        subprocess.run((*_TESTBED, verb), check=True)


if __name__ == "__main__":
    sys.exit(main("tests.cloud", *sys.argv[1:]))
