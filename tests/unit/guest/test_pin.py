# SPDX-License-Identifier: Apache-2.0

"""Pins are checked, completed, and never taken from Nova."""

import dataclasses
import unittest
from typing import Any

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.guest import engine
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from sriov_rt.parse.pinning import parse_pinning
from tests.unit import builders
from tests.unit.guest import documents
from tests.unit.guest.documents import REALTIME
from tests.unit.guest.documents import cputune
from tests.unit.guest.documents import domain
from tests.unit.guest.documents import pins
from tests.unit.guest.documents import render

RT_HOST = builders.realtime_host()
OFF = '<emulatorpin cpuset="0-1"/>'


def big_host(**changes: Any) -> facts.HostFacts:
    """Return a host of two NUMA nodes, 8 CPUs each, 2 for the host."""
    quiet = cpus("2-7,10-15")
    found = {
        "online": cpus("0-15"),
        "isolated": quiet,
        "nohz_full": quiet,
        "numa": (
            facts.NumaNode(0, cpus("0-7")),
            facts.NumaNode(1, cpus("8-15")),
        ),
        **changes,
    }
    return builders.realtime_host(
        cpus=found, compute={"dedicated": None, "shared": None}
    )


def vcpupins(rendered: engine.Rendered) -> dict[str, str]:
    """Return vCPU to cpuset."""
    found = cputune(rendered).get("vcpupin", [])
    return {each["vcpu"]: each["cpuset"] for each in found}


class CheckTest(unittest.TestCase):
    def _codes(
        self,
        xml: str,
        host: facts.HostFacts = RT_HOST,
        **more: Any,
    ) -> list[str]:
        with self.assertRaises(engine.Refused) as caught:
            render(xml, REALTIME, host, **more)
        self.sentence = str(caught.exception)
        return documents.codes(caught.exception)

    def test_novas_pins_are_kept(self):
        for name in ("nova-realtime", "nova-realtime-mask", "nova-dedicated"):
            with self.subTest(domain=name):
                rendered = render(documents.load(name), REALTIME, RT_HOST)
                self.assertEqual({"0": "2", "1": "3"}, vcpupins(rendered))

    def test_a_pcpu_that_is_not_isolated(self):
        xml = domain(cputune=pins(1, 3) + OFF)
        self.assertEqual(
            ["vcpus_not_isolated", "vcpus_not_tick_free"], self._codes(xml)
        )
        self.assertIn("vCPUs 0 run on pCPUs 1", self.sentence)
        self.assertIn("isolcpus=managed_irq,domain,1", self.sentence)

    def test_a_pcpu_with_the_tick(self):
        host = builders.realtime_host(cpus={"nohz_full": cpus("3")})
        xml = domain(cputune=pins(2, 3) + OFF)
        self.assertEqual(["vcpus_not_tick_free"], self._codes(xml, host))
        self.assertIn("nohz_full=2", self.sentence)

    def test_a_part_of_a_cpuset_is_enough(self):
        xml = domain(cputune=pins("1-2", 3) + OFF)
        self.assertIn("vcpus_not_isolated", self._codes(xml))

    def test_vcpus_that_are_not_realtime_may_be_anywhere(self):
        sched = '<vcpusched vcpus="1" scheduler="fifo" priority="1"/>'
        rendered = render(
            domain(cputune=pins(1, 3) + OFF + sched), REALTIME, RT_HOST
        )
        self.assertEqual({"0": "1", "1": "3"}, vcpupins(rendered))

    def test_a_vcpu_without_a_pin(self):
        xml = domain(cputune=pins(2) + OFF)
        self.assertEqual(["vcpus_unpinned"], self._codes(xml))
        self.assertIn("vCPUs 1 ", self.sentence)

    def test_a_pcpu_for_two(self):
        for cpusets in ((2, 2), ("2-3", "2-3"), ("2-3", 3)):
            xml = domain(cputune=pins(*cpusets) + OFF)
            self.assertEqual(["vcpus_share_pcpus"], self._codes(xml))

    def test_unknown_facts_are_no_facts_to_start_on(self):
        for name in ("isolated", "nohz_full"):
            host = builders.realtime_host(
                cpus={name: Unknown("permission denied")}
            )
            xml = domain(cputune=pins(2, 3) + OFF)
            self.assertEqual(["fact_unknown"], self._codes(xml, host))
            self.assertIn(f"cpus.{name}", self.sentence)

    def test_a_nova_instance_without_pins(self):
        xml = documents.load("nova-realtime")
        start, end = xml.index("<cputune>"), xml.index("</cputune>")
        xml = xml[:start] + xml[end + len("</cputune>") :]
        self.assertEqual(["cpu_policy_not_dedicated"], self._codes(xml))

    def test_without_facts_it_is_said_that_nothing_was_checked(self):
        rendered = render(domain(cputune=pins(0, 1) + OFF), REALTIME)
        self.assertIn("pins were not checked", rendered.report.summary())

    def test_a_guest_that_is_not_realtime_is_left_alone(self):
        xml = domain(cputune=pins(0, 0))
        rendered = render(xml, documents.LEAN, RT_HOST)
        self.assertFalse(
            [c for c in rendered.report.changes if c.hook == "pin"]
        )


class OthersTest(unittest.TestCase):
    """Emulator and I/O threads."""

    def _placed(self, xml: str, host: facts.HostFacts | None) -> list[str]:
        self.rendered = render(xml, REALTIME, host)
        found = cputune(self.rendered)
        return [
            each["cpuset"]
            for tag in ("emulatorpin", "iothreadpin")
            for each in found.get(tag, [])
        ]

    def test_where_nova_shares_they_stay(self):
        xml = documents.load("nova-realtime")
        self.assertEqual(["0-1", "0-1"], self._placed(xml, RT_HOST))
        self.assertFalse(self.rendered.report.changes)

    def test_where_nova_has_a_mask_they_stay(self):
        # On the pCPU of the vCPU that is not realtime.
        xml = documents.load("nova-realtime-mask")
        self.assertEqual(["2", "2"], self._placed(xml, RT_HOST))

    def test_off_the_realtime_vcpus(self):
        # Nova leaves them there without emulator_threads_policy.
        xml = documents.load("nova-dedicated")
        self.assertEqual(["0-1", "0-1"], self._placed(xml, RT_HOST))
        moved = [
            (each.action, each.element, each.why)
            for each in self.rendered.report.changes
            if each.hook == "pin"
        ]
        why = "it was on pCPUs of realtime vCPUs"
        self.assertEqual(
            [("set", "emulatorpin", why), ("set", "iothreadpin", why)], moved
        )

    def test_where_nothing_placed_them(self):
        xml = domain(cputune=pins(2, 3), more="<iothreads>2</iothreads>")
        self.assertEqual(["0-1", "0-1", "0-1"], self._placed(xml, RT_HOST))
        found = cputune(self.rendered)["iothreadpin"]
        self.assertEqual(["1", "2"], [each["iothread"] for each in found])

    def test_on_novas_shared_cpus_if_it_has_any(self):
        host = builders.realtime_host(
            compute={"dedicated": cpus("2-3"), "shared": cpus("1")}
        )
        xml = domain(cputune=pins(2, 3))
        self.assertEqual(["1"], self._placed(xml, host))

    def test_never_on_isolated_or_dedicated_ones(self):
        host = builders.realtime_host(
            compute={"dedicated": cpus("1-3"), "shared": cpus("2")}
        )
        xml = domain(cputune=pins(2, 3))
        self.assertEqual(["0"], self._placed(xml, host))

    def test_only_where_the_cgroup_of_guests_lets_them(self):
        for path, has, state, placed in (
            ("/sys/fs/cgroup", "0-3", None, "0-1"),
            ("/sys/fs/cgroup/machine.slice", "1-3", "member", "1"),
            ("/sys/fs/cgroup/machine.slice", "1-3", "isolated", "1"),
        ):
            with self.subTest(has=has, state=state):
                isolated = cpus("1-3") if state == "isolated" else cpus("2-3")
                host = builders.realtime_host(
                    cpus={
                        "isolated": isolated,
                        "guest_cgroup": facts.GuestCgroup(
                            path, cpus(has), state
                        ),
                    },
                )
                xml = domain(cputune=pins(2, 3))
                self.assertEqual([placed], self._placed(xml, host))

    def test_refused_where_the_cgroup_of_guests_has_none(self):
        cgroup = facts.GuestCgroup(
            "/sys/fs/cgroup/machine.slice", cpus("2-3"), "isolated"
        )
        host = builders.realtime_host(cpus={"guest_cgroup": cgroup})
        with self.assertRaises(engine.Refused) as caught:
            render(domain(cputune=pins(2, 3)), REALTIME, host)
        self.assertEqual(
            ["no_cpu_for_emulator"], documents.codes(caught.exception)
        )

    def test_refused_where_there_are_none(self):
        host = builders.realtime_host(
            cpus={"online": cpus("2-3")}, compute={"shared": None}
        )
        with self.assertRaises(engine.Refused) as caught:
            render(domain(cputune=pins(2, 3)), REALTIME, host)
        self.assertEqual(
            ["no_cpu_for_emulator"], documents.codes(caught.exception)
        )

    def test_without_facts_they_are_left_alone(self):
        xml = documents.load("nova-dedicated")
        self.assertEqual(["2-3", "2-3"], self._placed(xml, None))
        told = [each.message for each in self.rendered.report.notes]
        self.assertIn(
            "emulatorpin, iothreadpin left where they are: there are no "
            "facts of the host",
            told,
        )


class FindTest(unittest.TestCase):
    """A domain that nobody pinned, and that is not Nova's."""

    def _found(self, host: facts.HostFacts, vcpus: int = 2) -> dict[str, str]:
        self.rendered = render(domain(vcpus=vcpus), REALTIME, host)
        return vcpupins(self.rendered)

    def test_the_first_quiet_pcpus_of_the_first_node(self):
        self.assertEqual({"0": "2", "1": "3"}, self._found(big_host()))

    def test_of_one_node_alone(self):
        quiet = cpus("6-7,10-15")
        host = big_host(isolated=quiet, nohz_full=quiet)
        self.assertEqual(
            {"0": "10", "1": "11", "2": "12"}, self._found(host, 3)
        )

    def test_isolated_tick_free_and_online(self):
        host = big_host(
            isolated=cpus("2-7"),
            nohz_full=cpus("3-7"),
            online=cpus("0-3,5-15"),
        )
        self.assertEqual({"0": "3", "1": "5"}, self._found(host))

    def test_novas_own_are_left_to_it(self):
        host = builders.realtime_host(compute={"dedicated": cpus("2-3")})
        with self.assertRaises(engine.Refused) as caught:
            self._found(host)
        self.assertEqual(
            ["too_few_isolated"], documents.codes(caught.exception)
        )

    def test_a_pcpu_that_a_daemon_is_pinned_to_is_left_out(self):
        row = facts.Occupant("thread", "pinned", "pmd-c02", cpus("2"))
        may = facts.Occupant("thread", "may", "top", cpus("3-7"))
        host = dataclasses.replace(
            big_host(), occupancy=facts.OccupancyFacts((row, may))
        )
        self.assertEqual({"0": "3", "1": "4"}, self._found(host))

    def test_refused_if_no_node_has_enough(self):
        with self.assertRaises(engine.Refused) as caught:
            self._found(big_host(), 7)
        (reason,) = caught.exception.reasons
        self.assertEqual({"wanted": 7, "found": 6}, dict(reason.fields))

    def test_within_the_domains_own_cpuset(self):
        xml = domain().replace("<vcpu>", "<vcpu cpuset='5-9,11'>")
        host = big_host(online=cpus("0-15"))
        rendered = render(xml, REALTIME, host)
        self.assertEqual({"0": "5", "1": "6"}, vcpupins(rendered))
        (emulator,) = cputune(rendered)["emulatorpin"]
        self.assertEqual("8-9", emulator["cpuset"])
        for text, found in (("4,11", 1), ("0-1", 0)):
            xml = domain().replace("<vcpu>", f"<vcpu cpuset='{text}'>")
            with self.assertRaises(engine.Refused) as caught:
                render(xml, REALTIME, host)
            (reason,) = caught.exception.reasons
            self.assertEqual(
                ("too_few_in_cpuset", found),
                (reason.code, reason.fields["found"]),
            )

    def test_a_cpuset_that_numad_overrules(self):
        xml = domain().replace("<vcpu>", "<vcpu placement='auto' cpuset='9'>")
        self.assertEqual(
            {"0": "2", "1": "3"}, vcpupins(render(xml, REALTIME, big_host()))
        )

    def test_where_the_memory_is_kept(self):
        for memory, first in (
            ("<memory mode='strict' nodeset='1'/>", "10"),
            ("<memory nodeset='1'/>", "10"),
            ("<memory mode='restrictive' nodeset='1'/>", "10"),
            ("<memnode cellid='0' mode='strict' nodeset='1'/>", "10"),
            (
                "<memory nodeset='0-1'/>"
                "<memnode cellid='0' mode='strict' nodeset='1'/>",
                "10",
            ),
            ("<memory mode='preferred' nodeset='1'/>", "2"),
            ("<memory mode='interleave' nodeset='1'/>", "2"),
            ("<memory mode='strict' placement='auto'/>", "2"),
        ):
            for kind in ("kvm", "lxc"):
                with self.subTest(memory=memory, kind=kind):
                    xml = domain(
                        kind=kind, more=f"<numatune>{memory}</numatune>"
                    )
                    rendered = render(xml, REALTIME, big_host())
                    found = (
                        documents.tree(rendered).find("vcpu").get("cpuset")
                        if kind == "lxc"
                        else vcpupins(rendered)["0"]
                    )
                    self.assertEqual(first, found.partition("-")[0])

    def test_refused_if_the_memory_is_kept_elsewhere(self):
        for nodes in (("2",), ("0", "1")):
            memory = "".join(
                f"<memnode cellid='{cell}' mode='strict' nodeset='{node}'/>"
                for cell, node in enumerate(nodes)
            )
            xml = domain(more=f"<numatune>{memory}</numatune>")
            with self.assertRaises(engine.Refused) as caught:
                render(xml, REALTIME, big_host())
            self.assertEqual(
                ["too_few_in_cpuset"], documents.codes(caught.exception)
            )

    def test_refused_if_the_nodes_are_unknown(self):
        for name in ("numa", "online", "isolated"):
            host = big_host(**{name: Unknown("no such file")})
            with self.assertRaises(engine.Refused) as caught:
                self._found(host)
            self.assertIn("fact_unknown", documents.codes(caught.exception))

    def test_without_facts_it_is_left_alone(self):
        rendered = render(domain(), REALTIME)
        self.assertFalse(vcpupins(rendered))
        self.assertIn("no vCPU was pinned", rendered.report.summary())
        # A FIFO vCPU that floats is worse than an ordinary one.
        self.assertIn("no vcpusched was added", rendered.report.summary())


class GivenTest(unittest.TestCase):
    """A pinning that is given, as the seed's own ``0#6_1#7``."""

    def test_it_is_written(self):
        rendered = render(
            domain(vcpus=4),
            {},
            pinning=parse_pinning("0#6_1#7_2#8_3#9"),
        )
        self.assertEqual(
            {"0": "6", "1": "7", "2": "8", "3": "9"}, vcpupins(rendered)
        )

    def test_it_is_checked(self):
        with self.assertRaises(engine.Refused) as caught:
            render(
                domain(), REALTIME, RT_HOST, pinning=parse_pinning("0#2_1#1")
            )
        self.assertIn("vcpus_not_isolated", documents.codes(caught.exception))

    def test_every_realtime_vcpu_is_in_it(self):
        with self.assertRaises(engine.Refused) as caught:
            render(domain(), REALTIME, RT_HOST, pinning=parse_pinning("0#2"))
        self.assertEqual(["vcpus_unpinned"], documents.codes(caught.exception))

    def test_it_names_vcpus_of_the_guest(self):
        with self.assertRaises(engine.Refused) as caught:
            render(domain(), {}, pinning=parse_pinning("0#2_2#3"))
        (reason,) = caught.exception.reasons
        self.assertEqual(
            ("pinning_beyond", "2", 2),
            (reason.code, reason.fields["vcpus"], reason.fields["count"]),
        )

    def test_the_domains_own_pins_are_not_overruled(self):
        xml = domain(cputune=pins(2, 3))
        same = render(xml, {}, RT_HOST, pinning=parse_pinning("1#3_0#2"))
        self.assertEqual({"0": "2", "1": "3"}, vcpupins(same))
        with self.assertRaises(engine.Refused) as caught:
            render(xml, {}, RT_HOST, pinning=parse_pinning("0#2_1#2"))
        (reason,) = caught.exception.reasons
        self.assertEqual(
            ("pins_differ", "1"), (reason.code, reason.fields["vcpus"])
        )


class ContainerTest(unittest.TestCase):
    def _cpuset(self, rendered: engine.Rendered) -> str | None:
        return documents.tree(rendered).find("vcpu").get("cpuset")

    def test_a_pinning_becomes_its_cpuset(self):
        rendered = render(
            documents.load("nova-container"),
            REALTIME,
            RT_HOST,
            pinning=parse_pinning("0#3"),
        )
        self.assertEqual("3", self._cpuset(rendered))
        self.assertFalse(cputune(rendered))

    def test_a_pinning_is_checked(self):
        for text, code in (
            ("0#1", "vcpus_not_isolated"),
            ("1#2", "pinning_beyond"),
        ):
            with self.assertRaises(engine.Refused) as caught:
                render(
                    documents.load("nova-container"),
                    REALTIME,
                    RT_HOST,
                    pinning=parse_pinning(text),
                )
            self.assertIn(code, documents.codes(caught.exception))

    def test_novas_cpuset_is_no_pinning(self):
        with self.assertRaises(engine.Refused) as caught:
            render(documents.load("nova-container"), REALTIME, RT_HOST)
        self.assertEqual(
            ["container_unpinned"], documents.codes(caught.exception)
        )

    def test_its_own_cpuset_is_checked(self):
        xml = domain(kind="lxc").replace("<vcpu>", "<vcpu cpuset='{}'>")
        self.assertEqual(
            "2-3", self._cpuset(render(xml.format("2-3"), REALTIME, RT_HOST))
        )
        with self.assertRaises(engine.Refused) as caught:
            render(xml.format("0-3"), REALTIME, RT_HOST)
        self.assertIn("vcpus_not_isolated", documents.codes(caught.exception))

    def test_pcpus_are_found_for_one_that_has_none(self):
        rendered = render(domain(kind="lxc"), REALTIME, big_host())
        self.assertEqual("2-3", self._cpuset(rendered))
        self.assertIn("moves no task", rendered.report.summary())

    def test_a_comment_before_the_number_of_cpus(self):
        xml = domain(kind="lxc").replace("<vcpu>", "<vcpu><!-- c -->")
        found = documents.tree(render(xml, REALTIME, big_host())).find("vcpu")
        self.assertEqual("2", found.xpath("string()"))
        self.assertEqual("2-3", found.get("cpuset"))

    def test_refused_if_there_are_too_few(self):
        with self.assertRaises(engine.Refused) as caught:
            render(domain(kind="lxc", vcpus=9), REALTIME, big_host())
        self.assertEqual(
            ["too_few_isolated"], documents.codes(caught.exception)
        )

    def test_without_facts_it_is_left_alone(self):
        rendered = render(domain(kind="lxc"), REALTIME)
        self.assertIsNone(self._cpuset(rendered))
        self.assertIn("no cpuset was set", rendered.report.summary())
        given = render(
            domain(kind="lxc"), REALTIME, pinning=parse_pinning("0#2_1#3")
        )
        self.assertEqual("2-3", self._cpuset(given))
        self.assertIn("not checked", given.report.summary())

    def test_one_that_is_not_realtime_is_left_alone(self):
        rendered = render(
            documents.load("nova-container"), documents.LEAN, RT_HOST
        )
        self.assertEqual("0-1", self._cpuset(rendered))
