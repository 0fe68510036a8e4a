# SPDX-License-Identifier: Apache-2.0

"""Each extra spec changes what is decided, or what is made of a guest.

One that the grammar has and nothing reads would be accepted by the API, and
promise what nobody keeps.
"""

import dataclasses
import pathlib
import tomllib
import unittest
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from unittest import mock

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.guest import engine
from sriov_rt.host import selected
from sriov_rt.host.observer import Observer
from sriov_rt.request import grammar
from tests.unit import builders
from tests.unit.guest import documents
from tests.unit.host import trees

PROJECT = pathlib.Path(__file__).parents[3] / "pyproject.toml"

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

#: Parts that are observed for every guest.
ALWAYS = {"cpus", "compute"}

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
    return [*found, rendered(asked)]


def rendered(asked: request.Request) -> Any:
    """Return what becomes of a guest."""
    try:
        return engine.render(DOMAIN, asked, HOSTS[1]).xml
    except engine.Refused as refused:
        return documents.codes(refused)


def messages(specs: Mapping[str, str], host: HostFacts) -> list[str]:
    """Return the verdict of a manager that is not Nova, such as libvirt."""
    view = decide.View(now=0.0, placed_by_nova=False)
    found = decide.why_not(request.parse(specs), decisive(host), view)
    return [each.message for each in found]


def limited(host: HostFacts, parts: Collection[str]) -> HostFacts:
    """Return facts of which only some parts were observed."""
    left = facts.PARTS.keys() - parts
    return dataclasses.replace(
        host, **{each: facts.unknown(each, "not observed") for each in left}
    )


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

    def test_the_parts_of_its_key_decide_on_it(self):
        """Facts of other parts must not change the verdict, nor be missed."""
        for name, value in EXAMPLES.items():
            specs = {**WITH.get(name, {}), f"sriov_rt:{name}": value}
            keys = [grammar.KEYS[each.partition(":")[2]] for each in specs]
            parts = ALWAYS.union(*(each.parts for each in keys))
            self.assertLessEqual(parts, facts.PARTS.keys())
            for host in HOSTS:
                with self.subTest(name=name, host=host.host):
                    self.assertEqual(
                        messages(specs, host),
                        messages(specs, limited(host, parts)),
                    )

    def test_each_is_read_without_nova(self):
        """What the filter alone reads, no libvirt and no oVirt keeps."""
        for name, value in EXAMPLES.items():
            if name in WEIGHED or name.startswith("onload"):
                continue  # no hook admits it
            without = WITH.get(name, {})
            both = (without, {**without, f"sriov_rt:{name}": value})
            before, after = (
                [
                    [messages(specs, host) for host in HOSTS],
                    rendered(request.parse(specs)),
                ]
                for specs in both
            )
            with self.subTest(name=name):
                self.assertNotEqual(before, after)


class HookTest(trees.TreeTest):
    def test_each_part_is_read_by_its_source(self):
        """A key may name any of them; hooks look up no entry points."""
        project = tomllib.loads(PROJECT.read_text())["project"]
        sources = project["entry-points"]["sriov_rt.fact_sources"]
        for name, source in sources.items():
            path, part = source.replace(":", "."), facts.unknown(name, "read")
            with self.subTest(name), mock.patch(path, return_value=part):
                found = selected.observe(self.root, {name})
                self.assertEqual(part, getattr(found, name))

    def test_hooks_of_guests_judge_as_who_has_observed_all(self):
        """None is refused for a fact that nobody has looked for."""
        observer = Observer(self.root, "rt-1", "rt-1", trees.SOURCES)
        every = selected.readable(observer.observe())
        for name, value in EXAMPLES.items():
            if name.startswith("onload"):
                continue  # no hook admits it
            specs = {**WITH.get(name, {}), f"sriov_rt:{name}": value}
            found = selected.for_request(self.root, request.parse(specs))
            with self.subTest(name=name):
                self.assertEqual(
                    messages(specs, every), messages(specs, found)
                )
