# SPDX-License-Identifier: Apache-2.0

"""What a node selector costs a host, where its kind was not met before."""

from collections.abc import Callable
from typing import Any

from sriov_rt.parse.selector import parse_selector
from tests.benchmarks.measure import best
from tests.benchmarks.measure import row

PREFIX = "feature.node.kubernetes.io"

#: As many labels as a Node has that NFD looks after.
LABELS = {
    f"{PREFIX}/pci-1924.present": "true",
    f"{PREFIX}/kernel-version.major": "6",
    f"{PREFIX}/kernel-config.PREEMPT_RT": "true",
    **{f"{PREFIX}/cpu-cpuid.F{n}": "true" for n in range(150)},
}

#: Three requirements each: the ones in use, and those that cost most.
SELECTORS = {
    "equality and sets": (
        "pci-1924.present=true,kernel-version.major in (5,6),!cpu-model.old"
    ),
    "numbers": (
        "pci-1924.present=true,kernel-version.major>5,kernel-version.major<9"
    ),
}

TIMES = 2000


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    rows = []
    for name, text in SELECTORS.items():
        selector = parse_selector(text, default_prefix=PREFIX)
        assert selector.matches(LABELS), text
        (seconds,) = best(_many(selector.matches))
        rows.append(
            row(
                f"selector, 3 requirements, {name}",
                seconds / TIMES * 1e6,
                "µs",
            )
        )
    return rows


def _many(matches: Callable[[dict[str, str]], bool]) -> Callable[[], None]:
    def subject() -> None:
        for _ in range(TIMES):
            matches(LABELS)

    return subject
