# SPDX-License-Identifier: Apache-2.0

"""Threads get the schedulers that the flavor asks for."""

import itertools
import unittest

from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest.domain import parse_domain
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.unit import builders
from tests.unit.guest import documents
from tests.unit.guest.documents import REALTIME
from tests.unit.guest.documents import cputune
from tests.unit.guest.documents import domain
from tests.unit.guest.documents import pins
from tests.unit.guest.documents import render

RT_HOST = builders.realtime_host()
PINNED = pins(2, 3) + '<emulatorpin cpuset="0"/>'
FIFO_1 = {"scheduler": "fifo", "priority": "1"}
OTHERS = {
    **REALTIME,
    "sriov_rt:iothread_sched": "fifo:2",
    "sriov_rt:emulator_sched": "rr:3",
}


def promised(rendered):
    """Return whether the metadata say that the guest is realtime."""
    return metadata.promised(parse_domain(rendered.xml)).realtime


class VcpusTest(unittest.TestCase):
    def test_novas_are_kept(self):
        for name, vcpus in (
            ("nova-realtime", "0-1"),
            ("nova-realtime-mask", "1"),
        ):
            rendered = render(documents.load(name), REALTIME, RT_HOST)
            self.assertEqual(
                [{"vcpus": vcpus, **FIFO_1}], cputune(rendered)["vcpusched"]
            )

    def test_vcpus_that_the_guest_has_not_are_refused(self):
        for scheduler in ("fifo", "batch"):
            for vcpus in ("5", "0-5"):
                for specs in (REALTIME, OTHERS):
                    xml = domain(
                        cputune=f'{PINNED}<vcpusched vcpus="{vcpus}" '
                        f'scheduler="{scheduler}" priority="1"/>'
                    )
                    with self.assertRaises(engine.Refused) as caught:
                        render(xml, specs, RT_HOST)
                    self.assertEqual(
                        ["vcpusched_beyond"], documents.codes(caught.exception)
                    )

    def test_all_are_realtime_where_nova_said_nothing(self):
        rendered = render(domain(cputune=PINNED), REALTIME, RT_HOST)
        self.assertEqual(
            [{"vcpus": "0-1", **FIFO_1}], cputune(rendered)["vcpusched"]
        )

    def test_as_the_flavor_says(self):
        specs = {**REALTIME, "sriov_rt:vcpu_sched": "rr:7"}
        for cpus, xml in (
            ("0-1", domain(cputune=PINNED)),
            ("1", documents.load("nova-realtime-mask")),
        ):
            self.assertEqual(
                [{"vcpus": cpus, "scheduler": "rr", "priority": "7"}],
                cputune(render(xml, specs, RT_HOST))["vcpusched"],
            )

    def test_vcpus_that_are_not_pinned_are_promised_to_nobody(self):
        for scheds in ("", '<vcpusched vcpus="0-1" scheduler="fifo"/>'):
            once = render(domain(cputune=scheds), REALTIME)
            self.assertFalse(promised(once))
            host = builders.realtime_host(compute={"dedicated": None})
            again = render(once.xml, REALTIME, host)
            self.assertTrue(promised(again))

    def test_an_ordinary_guest_gets_none(self):
        rendered = render(domain(cputune=PINNED), documents.LEAN, RT_HOST)
        self.assertNotIn("vcpusched", cputune(rendered))


class OtherSchedulersTest(unittest.TestCase):
    """A ``<vcpusched>`` of batch or idle does not stand for realtime."""

    SCHEDS = (
        '<vcpusched vcpus="0-1" scheduler="batch"/>',
        '<vcpusched vcpus="0" scheduler="idle"/>',
        '<vcpusched vcpus="0" scheduler="batch" priority="5"/>'
        '<vcpusched vcpus="1" scheduler="idle"/>',
    )
    SPECS = (REALTIME, {"sriov_rt:vcpu_sched": "fifo:50"})
    CASES = tuple(itertools.product(SCHEDS, SPECS))

    def test_pins_are_checked(self):
        for scheds, specs in self.CASES:
            xml = domain(cputune=pins(0, 1) + scheds)
            with self.assertRaises(engine.Refused) as caught:
                render(xml, specs, RT_HOST)
            self.assertIn(
                "vcpus_not_isolated", documents.codes(caught.exception)
            )

    def test_all_vcpus_become_realtime_on_their_pins(self):
        for scheds, specs in self.CASES:
            once = render(domain(cputune=PINNED + scheds), specs, RT_HOST)
            priority = "1" if specs is REALTIME else "50"
            found = cputune(once)["vcpusched"]
            self.assertEqual(
                {("fifo", priority)},
                {(each["scheduler"], each["priority"]) for each in found},
            )
            self.assertEqual(
                {0, 1},
                frozenset().union(
                    *(parse_cpu_list(each["vcpus"]) for each in found)
                ),
            )
            self.assertEqual(specs is REALTIME, promised(once))
            again = render(once.xml, specs, RT_HOST)
            self.assertEqual(once.xml, again.xml)

    def test_unpinned_vcpus_keep_them(self):
        for scheds, specs in self.CASES:
            rendered = render(domain(cputune=scheds), specs)
            found = cputune(rendered)["vcpusched"]
            self.assertFalse([e for e in found if e["scheduler"] == "fifo"])
            self.assertIn("vCPUs are not pinned", rendered.report.summary())
            self.assertFalse(promised(rendered))

    def test_pins_are_found_for_an_unpinned_domain(self):
        for scheds, specs in self.CASES:
            host = builders.realtime_host(compute={"dedicated": None})
            found = cputune(render(domain(cputune=scheds), specs, host))
            self.assertEqual(
                ["2", "3"], [each["cpuset"] for each in found["vcpupin"]]
            )

    def test_beside_realtime_vcpus_they_stay(self):
        scheds = (
            '<vcpusched vcpus="0" scheduler="batch"/>'
            '<vcpusched vcpus="1" scheduler="fifo" priority="9"/>'
        )
        xml = domain(cputune=pins(0, 3) + '<emulatorpin cpuset="0"/>' + scheds)
        specs = {**REALTIME, "sriov_rt:vcpu_sched": "rr:7"}
        self.assertEqual(
            [
                {"vcpus": "0", "scheduler": "batch"},
                {"vcpus": "1", "scheduler": "rr", "priority": "7"},
            ],
            cputune(render(xml, specs, RT_HOST))["vcpusched"],
        )


class OthersTest(unittest.TestCase):
    def test_those_without_a_scheduler_get_it_too(self):
        xml = domain(
            cputune=PINNED
            + '<iothreadsched iothreads="2" scheduler="batch"/>',
            more="<iothreads>3</iothreads>",
        )
        fifo = {"scheduler": "fifo", "priority": "2"}
        self.assertEqual(
            [{"iothreads": "2", **fifo}, {"iothreads": "1,3", **fifo}],
            cputune(render(xml, OTHERS, RT_HOST))["iothreadsched"],
        )

    def test_added(self):
        xml = domain(cputune=PINNED, more="<iothreads>3</iothreads>")
        found = cputune(render(xml, OTHERS, RT_HOST))
        self.assertEqual(
            [{"iothreads": "1-3", "scheduler": "fifo", "priority": "2"}],
            found["iothreadsched"],
        )
        self.assertEqual(
            [{"scheduler": "rr", "priority": "3"}], found["emulatorsched"]
        )

    def test_set_where_they_are(self):
        xml = domain(
            cputune=PINNED
            + '<iothreadsched iothreads="1" scheduler="rr" priority="9"/>'
            '<emulatorsched scheduler="fifo" priority="9"/>',
            more="<iothreads>1</iothreads>",
        )
        found = cputune(render(xml, OTHERS, RT_HOST))
        self.assertEqual(
            [{"iothreads": "1", "scheduler": "fifo", "priority": "2"}],
            found["iothreadsched"],
        )
        self.assertEqual(
            [{"scheduler": "rr", "priority": "3"}], found["emulatorsched"]
        )

    def test_without_io_threads_there_is_nothing_to_schedule(self):
        rendered = render(domain(cputune=PINNED), OTHERS, RT_HOST)
        self.assertNotIn("iothreadsched", cputune(rendered))
        self.assertIn("no I/O threads", rendered.report.summary())


class ContainerTest(unittest.TestCase):
    def test_a_container_has_no_vcpus_to_schedule(self):
        xml = domain(kind="lxc").replace("<vcpu>", "<vcpu cpuset='2-3'>")
        rendered = render(xml, REALTIME, RT_HOST)
        self.assertFalse(cputune(rendered))
        self.assertTrue(promised(rendered))
        self.assertIn(
            "no schedulers for containers", rendered.report.summary()
        )
        rendered = render(xml, documents.LEAN, RT_HOST)
        self.assertFalse(rendered.report.notes)
        self.assertFalse(promised(render(domain(kind="lxc"), REALTIME)))
