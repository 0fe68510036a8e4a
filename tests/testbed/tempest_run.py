# SPDX-License-Identifier: Apache-2.0

"""Run Tempest inside a cloud that is up.

python3 -m tests.testbed inside -- python3 -m tests.testbed.tempest_run
"""

import argparse
import os
import pathlib
import subprocess
import sys
from typing import IO

from tests import periodic
from tests.testbed import tempest_config
from tests.testbed.cloud import Cloud
from tests.testbed.tempest_tests import LEFT_OUT
from tests.testbed.tempest_tests import PLUGIN
from tests.testbed.tempest_tests import Results

#: Parallel tests. Those with realtime servers take turns anyway.
WORKERS = 2


def run(
    cloud: Cloud,
    config: pathlib.Path,
    *arguments: str,
    workers: int = WORKERS,
    sink: IO[str] | None = None,
) -> Results:
    """Run Tempest, and print what it prints.

    :param cloud: the cloud.
    :param config: tempest.conf.
    :param arguments: arguments that choose tests, as in ("--regex", "...").
    :param workers: number of parallel tests.
    :param sink: stream to print to; our own outputs if None.
    """
    command = (
        cloud.env.program("tempest"),
        "run",
        f"--config-file={config}",
        f"--concurrency={workers}",
        *arguments,
    )
    # Use the installed plugin, not the one in the checkout.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=sink,
        text=True,
        cwd=config.parent,
        env=environment,
    )
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        print(line, end="", flush=True, file=sink)
        lines.append(line)
    return Results.of(child.wait(), "".join(lines))


def leave_out(cloud: Cloud, config: pathlib.Path) -> tuple[str, str]:
    """Name the tests that are left to the periodic run, as stestr does.

    :param cloud: the cloud.
    :param config: tempest.conf.
    :returns: the arguments that leave them out.
    """
    if not (config.parent / ".stestr").exists():
        # stestr lists nothing without a repository, which only a run makes.
        subprocess.run(
            (cloud.env.program("stestr"), "--test-path", ".", "init"),
            check=True,
            stdin=subprocess.DEVNULL,
            cwd=config.parent,
        )
    listed = subprocess.run(
        (
            cloud.env.program("tempest"),
            "run",
            f"--config-file={config}",
            "--list-tests",
            f"--regex={LEFT_OUT}",
        ),
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        text=True,
        cwd=config.parent,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    ).stdout
    names = [
        each.partition("[")[0]
        for each in listed.split()
        if each.startswith("sriov_rt_tempest_plugin.")
    ]
    for name in names:
        print(f"{{0}} {name} ... SKIPPED: {periodic.REASON}")
    print(f" - Skipped: {len(names)}", flush=True)
    return "--exclude-regex", LEFT_OUT


def main() -> int:
    """Run the plugin or the named tests, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.testbed.tempest_run", description=__doc__
    )
    parser.add_argument("regex", nargs="?")
    parser.add_argument("--workers", type=int, default=WORKERS)
    options = parser.parse_args()
    cloud = Cloud()
    config = tempest_config.write(cloud)
    chosen: tuple[str, ...] = ("--regex", options.regex or PLUGIN)
    if options.regex is None and not periodic.wanted():
        chosen += leave_out(cloud, config)
    return run(cloud, config, *chosen, workers=options.workers).status


if __name__ == "__main__":
    sys.exit(main())
