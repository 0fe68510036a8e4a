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
