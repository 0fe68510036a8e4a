# SPDX-License-Identifier: Apache-2.0

"""Attributes on every VF, beside ip(8)."""

from typing import Any

from tests.benchmarks import machine

NOTE = machine.NOTE


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    return machine.measure("attributes", "netdevsim", "enp1s0")
