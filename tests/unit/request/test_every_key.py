# SPDX-License-Identifier: Apache-2.0

"""Each extra spec changes what is decided, or what is made of a guest.

One that the grammar has and nothing reads would be accepted by the API, and
promise what nobody keeps.
"""

import unittest
from collections.abc import Mapping
from typing import Any

from sriov_rt import decide
from sriov_rt import request
from sriov_rt.facts import decisive
from sriov_rt.guest import engine
from sriov_rt.request import grammar
from tests.unit import builders
from tests.unit.guest import documents

#: Name to a value that not every host or guest has as it is.
EXAMPLES: Mapping[str, str] = {
    "realtime": "required",
    "kernel": "preempt_rt",
    "node_selector": "pci-1924.present",
    "nic": "solarflare",
    "vif": "ipvlan",
    "onload": "required",
    "onload_profile": "throughput",
    "guest": "lean",
    "keep": "video",
    "vcpu_sched": "rr:5",
    "iothread_sched": "fifo:2",
    "emulator_sched": "fifo:3",
    "max_latency_us": "1",
}

#: Names that a weigher alone reads: tests/functional/scheduler has its test.
WEIGHED = frozenset[str]()

#: Name to what has to be asked for with it.
WITH: Mapping[str, Mapping[str, str]] = {
    "onload_profile": {"sriov_rt:onload": "required"},
    "keep": {"sriov_rt:guest": "lean"},
}

HOSTS = (
    builders.realtime_host(kernel={"preempt_rt": False}),
    builders.onload_host(),
)
VIDEO = '<video><model type="vga"/></video>'
DOMAIN = documents.domain(
    VIDEO, cputune=documents.pins(2, 3), more="<iothreads>1</iothreads>"
)


def outcomes(specs: Mapping[str, str]) -> list[Any]:
    """Return what becomes of a flavor on several hosts."""
    asked, view = request.parse(specs), decide.View(now=0.0)
    found: list[Any] = [
        [each.message for each in decide.why_not(asked, decisive(host), view)]
        for host in HOSTS
    ]
    try:
        found.append(engine.render(DOMAIN, asked, HOSTS[1]).xml)
    except engine.Refused as refused:
        found.append(documents.codes(refused))
    return found


class EveryKeyTest(unittest.TestCase):
    def test_there_is_an_example_of_each(self):
        self.assertEqual(set(grammar.KEYS), set(EXAMPLES))

    def test_each_is_read(self):
        for name, value in EXAMPLES.items():
            if name in WEIGHED:
                continue
            with self.subTest(name=name):
                without = WITH.get(name, {})
                self.assertNotEqual(
                    outcomes(without),
                    outcomes({**without, f"sriov_rt:{name}": value}),
                )
