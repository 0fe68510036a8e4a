# SPDX-License-Identifier: Apache-2.0

"""Run every benchmark, print a table and write it down as JSON.

A missed target is told, and fails the run only with ``--strict``: how busy a
machine is must not decide whether the tests pass.
"""

import argparse
import importlib
import json
import pathlib
import pkgutil
import sys
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

# Nova's native threads, before a benchmark imports what imports eventlet.
import tests.functional  # noqa: F401
from tests import benchmarks
from tests.benchmarks.measure import PARITY

Row = dict[str, Any]

#: These boot a machine, whose emulation would slow the others down.
LAST = ("bench_vf", "bench_path")

#: These work in a cloud that is up, and run if they are named.
CLOUD = ("bench_boot",)

HEADING = (
    f"| {'':52} {'ours':>10} {'peer':>10} {'unit':6} {'ratio':>6} "
    f"{'target':>8}"
)


def modules() -> list[str]:
    """Return the names of those that run if none is named, in order."""
    found = {
        module.name for module in pkgutil.iter_modules(benchmarks.__path__)
    }
    others = (name for name in found if name.startswith("bench_"))
    return [*sorted(set(others) - {*LAST, *CLOUD}), *LAST]


def met(row: Row) -> bool | None:
    """Tell whether a row's target is met; None if it has none to miss."""
    if row["target"] in (None, PARITY):
        return None
    held = row["ours"] if row["ratio"] is None else row["ratio"]
    return bool(held <= row["target"])


def lines(rows: Iterable[Row]) -> Iterable[str]:
    """Yield rows of the table."""
    for row in rows:
        verdict = {True: "met", False: "MISSED", None: ""}[met(row)]
        yield (
            f"| {row['name']:52} {_number(row['ours']):>10} "
            f"{_number(row['peer']):>10} {row['unit']:6} "
            f"{_number(row['ratio']):>6} {_number(row['target']):>8} "
            f"{verdict}"
        ).rstrip()


def _number(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and return the exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    names = modules()
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__
    )
    parser.add_argument(
        "benchmarks",
        nargs="*",
        metavar="BENCHMARK",
        help=f"of {', '.join(names)}, which all run by default, and "
        f"{', '.join(CLOUD)}, which needs the test cloud",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build", "benchmarks.json"),
        help="where the JSON goes (default: %(default)s)",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 1 if a target is missed",
    )
    args = parser.parse_args(arguments)
    if unknown := set(args.benchmarks) - {*names, *CLOUD}:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    print(HEADING, flush=True)
    for name in args.benchmarks or names:
        print(f"{name} …", file=sys.stderr, flush=True)
        module = importlib.import_module(f"tests.benchmarks.{name}")
        found = module.run()
        if note := getattr(module, "NOTE", None):
            print(f"| {note}:")
        print("\n".join(lines(found)), flush=True)
        rows += found
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(rows, indent=2, ensure_ascii=False))
    verdicts = [met(row) for row in rows]
    held, missed = verdicts.count(True), verdicts.count(False)
    print(f"| {held} targets met, {missed} missed", flush=True)
    return 1 if args.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
