# SPDX-License-Identifier: Apache-2.0

"""A cloud of many hosts: real RabbitMQ, real scheduler workers, many agents.

Run as root: ``python -m tests.benchmarks.scale --hosts 100 1000``. It has
network, mount and PID namespaces of its own, and a directory that is removed.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from tests.benchmarks.scale import broker
from tests.benchmarks.scale import scenarios
from tests.benchmarks.scale import table

#: Set where the namespaces are ours.
_INSIDE = "SRIOV_RT_SCALE_INSIDE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulation and return the exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.scale", description=__doc__
    )
    parser.add_argument(
        "--hosts",
        type=int,
        nargs="+",
        default=[100, 1000],
        metavar="NUMBER",
        help="compute hosts, one cloud after the other (default: 100 1000)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        help="how long heartbeats and flapping are watched (default: 20)",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=10.0,
        help="the agents' observe_interval and heartbeat_interval, seconds "
        "(default: 10)",
    )
    parser.add_argument(
        "--spread",
        type=float,
        default=2.0,
        help="the agents' report_spread, seconds (default: 2)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        help="workers of nova-scheduler (default: 2)",
    )
    parser.add_argument(
        "--scenarios",
        nargs="+",
        choices=scenarios.NAMES,
        default=scenarios.NAMES,
        metavar="NAME",
        help=f"of {', '.join(scenarios.NAMES)}, in this order (default: all)",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build", "scale.json"),
        help="where the JSON goes (default: %(default)s)",
    )
    args = parser.parse_args(arguments)
    if _INSIDE not in os.environ:
        _enter(sys.argv[1:] if arguments is None else arguments)
    broker.lay_network()
    found = []
    for number in args.hosts:
        print(f"{number:,} hosts …", file=sys.stderr, flush=True)
        settings = scenarios.Settings(
            hosts=number,
            interval_s=args.interval,
            spread_s=args.spread,
            seconds=args.seconds,
            workers=args.workers,
        )
        with tempfile.TemporaryDirectory() as state:
            found += scenarios.run(
                settings, args.scenarios, pathlib.Path(state)
            )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(found, indent=1))
    print("\n".join(table.lines(found)))
    return 0


def _enter(arguments: Sequence[str]) -> None:
    """Become the same program in namespaces of its own; does not return."""
    os.execvpe(
        "unshare",
        (
            *("unshare", "--net", "--mount", "--pid", "--fork"),
            *("--kill-child", "--mount-proc"),
            *(sys.executable, "-m", "tests.benchmarks.scale", *arguments),
        ),
        {**os.environ, _INSIDE: "1"},
    )


if __name__ == "__main__":
    sys.exit(main())
