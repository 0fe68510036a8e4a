# SPDX-License-Identifier: Apache-2.0

"""Run a package's tests, and those again in which an emulated host hung.

QEMU now and then loses the timer of an emulated CPU, and nothing on that CPU
goes on. Tests of a machine that hangs are skipped, and run once more with a
new one; where that hangs as well, they fail.
"""

import os
import re
import subprocess
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from tests import results

#: How a test ends that is run again, as the machine hung in it.
REPEATED = "run again below"
#: Set in the first run: where it is not, such a test has failed.
VARIABLE = "SRIOV_RT_AGAIN"

#: Begins the lines of tests of which stestr has no result.
_NO_STATUS = "\t* "


def run(
    package: str,
    command: Sequence[str],
    arguments: Sequence[str],
    renew: Callable[[], None] = lambda: None,
) -> int:
    """Run them, and return stestr's exit status.

    :param package: whose tests they are.
    :param command: that runs stestr, up to ``run`` and its options.
    :param arguments: more options, or what names of tests match.
    :param renew: makes a new machine, if they don't do that.
    """
    first = {**os.environ, VARIABLE: "1"}
    code, lines = _run((*command, *arguments), first)
    hung = _classes(package, (x for x in lines if x.endswith(REPEATED)))
    if not hung:
        return code
    # One that was skipped in a subtest is of no status, and makes stestr fail.
    # Any other is one in which the whole run ended.
    lost = _classes(package, (x for x in lines if x.startswith(_NO_STATUS)))
    _, failed, _ = results.totals("\n".join(lines))
    names = "|".join(map(re.escape, sorted(hung)))
    print(f"a machine hung; run again: {', '.join(sorted(hung))}", flush=True)
    renew()
    again, _ = _run((*command, f"^({names})\\."), os.environ)
    return again or (code if failed or lost - hung else 0)


def _classes(package: str, lines: Iterable[str]) -> set[str]:
    pattern = rf"{re.escape(package)}\.\w+\.\w+"
    return {name for line in lines for name in re.findall(pattern, line)}


def _run(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, Sequence[str]]:
    """Run a command; return its exit status and the lines it printed."""
    lines = []
    with subprocess.Popen(
        arguments,
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
