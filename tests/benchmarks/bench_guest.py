# SPDX-License-Identifier: Apache-2.0

"""The guest hooks beside round trips of the same document."""

import functools
import pathlib
from typing import Any
from xml.dom import minidom

from lxml import etree

from sriov_rt import request
from sriov_rt.guest import engine
from tests.benchmarks.measure import best
from tests.benchmarks.measure import row
from tests.unit import builders

#: What Nova 34 makes of a realtime flavor: 7 devices to remove, 2 vCPUs to
#: check.
DOCUMENT = (
    pathlib.Path(__file__).parents[1] / "unit/guest/domains/nova-realtime.xml"
)
SPECS = {
    "hw:cpu_policy": "dedicated",
    "hw:cpu_realtime": "yes",
    "sriov_rt:realtime": "required",
    "sriov_rt:guest": "lean",
}

TURNS = 3000


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    xml = DOCUMENT.read_text()
    render = functools.partial(
        engine.render, xml, request.parse(SPECS), builders.realtime_host()
    )
    assert "<video>" in xml
    assert "<video>" not in render().xml
    ours, bare = best(
        render,
        lambda: etree.tostring(etree.fromstring(xml), encoding="unicode"),
        turns=TURNS,
    )
    again, dom = best(
        render, lambda: minidom.parseString(xml).toxml(), turns=TURNS // 10
    )
    size = f"{len(xml) / 1000:.1f} kB"
    return [
        row(
            f"guest hooks, {size} / lxml parse and serialise",
            ours * 1e6,
            "µs",
            peer=bare * 1e6,
        ),
        row(
            f"guest hooks, {size} / minidom parse and toxml",
            again * 1e6,
            "µs",
            peer=dom * 1e6,
        ),
    ]
