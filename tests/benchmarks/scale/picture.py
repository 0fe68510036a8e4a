# SPDX-License-Identifier: Apache-2.0

"""The picture of the page on scale, drawn from the simulation's JSON.

``python -m tests.benchmarks.scale.picture build/scale.json FILE.svg``, with
what the extra ``report`` installs.
"""

import argparse
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from matplotlib import figure

#: Scenarios that are drawn.
_DRAWN = {
    "cold": "a worker starts, and all hosts report",
    "heartbeats": "heartbeats, for 20 s",
    "change": "one change on all hosts",
}


def _by_scenario(
    rows: Sequence[dict[str, Any]], scenario: str
) -> list[dict[str, Any]]:
    found = [row for row in rows if row["scenario"] == scenario]
    return sorted(found, key=lambda row: int(row["hosts"]))


def draw(rows: Sequence[dict[str, Any]]) -> figure.Figure:
    """Return the picture of a worker's CPU time, and of requests meanwhile.

    :param rows: what the simulation measured, with several numbers of hosts.
    """
    drawn = figure.Figure(figsize=(9.0, 4.0), layout="constrained")
    grows, requests = drawn.subplots(1, 2)
    for scenario, label in _DRAWN.items():
        found = _by_scenario(rows, scenario)
        hosts = [row["hosts"] for row in found]
        cpu_s = [max(w["cpu_s"] for w in row["workers"]) for row in found]
        (line,) = grows.loglog(hosts, cpu_s, marker="o", label=label)
        ratio = [max(r["request_ms"]) / r["control_ms"] for r in found]
        requests.semilogx(
            *(hosts, ratio), marker="o", label=label, color=line.get_color()
        )
    grows.set(xlabel="hosts", ylabel="seconds", title="CPU time of a worker")
    requests.axhline(1.0, color="0.6", linewidth=0.8)
    requests.set(
        xlabel="hosts",
        ylabel="times that of Nova alone",
        ylim=(0.0, 2.0),
        title="Median time of a request meanwhile",
    )
    grows.legend(fontsize="small")
    for axis in (grows.xaxis, grows.yaxis, requests.xaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
    return drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw a picture of what was measured.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=pathlib.Path, nargs="+")
    parser.add_argument("picture", type=pathlib.Path)
    args = parser.parse_args(arguments)
    rows = [
        row for path in args.measured for row in json.loads(path.read_text())
    ]
    # No date in it: the same measurement gives the same file.
    draw(rows).savefig(args.picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
