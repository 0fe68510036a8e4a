# SPDX-License-Identifier: Apache-2.0

"""Run a package's tests, and repeat those in which an emulated host hung.

QEMU now and then loses the timer of an emulated CPU, and nothing on that CPU
runs any more. Tests of a machine that hangs are skipped, and run once more on
a new one; if that hangs as well, they fail.
"""

import os
import re
import subprocess
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from tests import results

#: Reason of a skipped test that is run again, since its machine hung.
REPEATED = "run again below"
#: Set in the first run only; without it, such a test fails.
VARIABLE = "SRIOV_RT_AGAIN"

#: Prefix of lines for tests without a result in stestr.
_NO_STATUS = "\t* "


def run(
    package: str,
    command: Sequence[str],
    arguments: Sequence[str],
    renew: Callable[[], None] = lambda: None,
) -> int:
    """Run the tests, and return stestr's exit status.

    :param package: package of the tests.
    :param command: command of stestr, up to ``run`` and its options.
    :param arguments: more options, or patterns for names of tests.
    :param renew: makes a new machine, unless the tests do so.
    """
    first = {**os.environ, VARIABLE: "1"}
    code, lines = _run((*command, *arguments), first)
    hung = _classes(package, (x for x in lines if x.endswith(REPEATED)))
    if not hung:
        return code
    # A test that was skipped in a subtest has no status, so stestr fails. Any
    # other test without a status is the one in which the whole run ended.
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
    """Run a command; return its exit status and its output as lines."""
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
