# SPDX-License-Identifier: Apache-2.0

"""The figures of the simulation as a table."""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

HEADING = (
    f"| {'':11} {'hosts':>6} {'known':>7} {'messages':>9} {'decoded':>8} "
    f"{'worker':>8} {'worker':>7} {'RabbitMQ':>8} {'RabbitMQ':>8} "
    f"{'request':>8} {'control':>8} {'late':>5}"
)
UNITS = (
    f"| {'':11} {'':>6} {'s':>7} {'a second':>9} {'in all':>8} "
    f"{'CPU, s':>8} {'MB':>7} {'CPU, s':>8} {'MB':>8} "
    f"{'ms':>8} {'ms':>8} {'s':>5}"
)


def lines(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the rows of the table: of the workers the busier one counts."""
    yield HEADING
    yield UNITS
    for row in rows:
        messages = max(each["messages"] for each in row["workers"])
        yield (
            f"| {row['scenario']:11} {row['hosts']:6,} {row['seconds']:7.1f} "
            f"{messages / row['elapsed_s']:9.1f} "
            f"{max(each['decoded'] for each in row['workers']):8,.0f} "
            f"{max(each['cpu_s'] for each in row['workers']):8.2f} "
            f"{max(row['worker_memory_mb']):7.0f} "
            f"{row['broker_cpu_s']:8.2f} {row['broker_memory_mb']:8.0f} "
            f"{max(row['request_ms']):8.1f} {row['control_ms']:8.1f} "
            f"{row['agents_late_s']:5.1f}"
        )
