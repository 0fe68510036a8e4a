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
