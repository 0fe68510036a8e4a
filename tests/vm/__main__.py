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

Arguments are stestr's repository and those of ``stestr run``. QEMU now and
then loses the timer of an emulated CPU, and nothing on that CPU goes on. Tests
of a machine that hangs are skipped, and run once more with a new one; where
that hangs as well, they fail.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from tests import results
from tests.testbed import paths
from tests.vm import base

_STESTR = (
    *("--test-path", str(paths.CHECKOUT / "tests/vm")),
    *("run", "--concurrency", "1"),
)
#: Begins the lines of tests of which stestr has no result.
_NO_STATUS = "\t* "
_CLASS = re.compile(r"tests\.vm\.\w+\.\w+")


def main(repository: str, *arguments: str) -> int:
    """Run them, and return stestr's exit status.

    :param repository: where stestr keeps its results.
    :param arguments: its options, or what names of tests match.
    """
    first = ("--repo-url", repository, *_STESTR)
    code, lines = _run((*first, *arguments), os.environ)
    hung = _classes(line for line in lines if line.endswith(base.REPEATED))
    if not hung:
        return code
    # One that was skipped in a subtest is of no status, and makes stestr fail.
    # Any other is one in which the whole run ended.
    lost = _classes(line for line in lines if line.startswith(_NO_STATUS))
    _, failed, _ = results.totals("\n".join(lines))
    names = "|".join(map(re.escape, sorted(hung)))
    print(f"rt-1 hung; run again: {', '.join(sorted(hung))}", flush=True)
    environment = {**os.environ, base.AGAIN: "1"}
    again, _ = _run((*first, f"^({names})\\."), environment)
    return again or (code if failed or lost - hung else 0)


def _classes(lines: Iterable[str]) -> set[str]:
    return {name for line in lines for name in _CLASS.findall(line)}


def _run(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, Sequence[str]]:
    """Run stestr, and return its exit status and the lines it printed."""
    lines = []
    with subprocess.Popen(
        ("stestr", *arguments),
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    return process.returncode, lines


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
