# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import unittest

from sriov_rt.codec import Unknown
from sriov_rt.decide import realtime
from sriov_rt.facts import Governor
from sriov_rt.facts import GuestCgroup
from sriov_rt.facts import HostFacts
from sriov_rt.facts import IdleState
from sriov_rt.facts import IrqGroup
from sriov_rt.facts import PowerManagement
from sriov_rt.facts import decisive
from sriov_rt.host import fix_plan
from sriov_rt.host import readiness
from sriov_rt.parse import kernel as kernel_parse
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from sriov_rt.parse.cpulist import parse_cpu_mask
from tests.unit import builders
from tests.unit.host import trees


def ordinary_host(**parts) -> HostFacts:
    """Return the facts of a host that nobody made realtime."""
    every = cpus("0-3")
    wrong = {
        "cpus": {
            "isolated": cpus(""),
            "nohz_full": cpus(""),
            "rcu_nocbs": cpus(""),
            "isolcpus_flags": (),
            "governors": (Governor("powersave", every),),
            "idle_states": (IdleState("C6", 133, every),),
            "workqueues": every,
        },
        "kernel": {
            "command_line": 'BOOT_IMAGE=/vmlinuz root="UUID=1 2" quiet',
            "rt_runtime_us": 950_000,
            "timer_migration": True,
            "nmi_watchdog": True,
            "clock_source": "hpet",
            "watchdog": every,
        },
        "memory": {"thp": "always", "ksm_run": 1, "swap": ("/dev/sda2",)},
        "irqs": {
            "default_affinity": every,
            "groups": (IrqGroup(every, cpus("2"), (24,), None),),
        },
        "compute": {"dedicated": None},
    }
    for part, fields in parts.items():
        wrong[part] = {**wrong.get(part, {}), **fields}
    return builders.realtime_host(**wrong)


def apply(facts: HostFacts, plan: fix_plan.FixPlan) -> HostFacts:
    """Return the facts after a boot with a plan, as the kernel has them."""
    line = kernel_parse.parse_kernel_command_line(plan.command_line)
    isolation = kernel_parse.parse_isolcpus(line.get("isolcpus"))
    online = facts.cpus.online
    sysctls = plan.sysctls
    sysfs, cpu = plan.tuned["sysfs"], plan.tuned.get("cpu_dedicated", {})
    managed = frozenset(
        int(each.removeprefix("cpu"))
        for each in cpu.get("devices", "").split(",")
        if each
    )
    watched = sysctls.get("kernel.watchdog_cpumask")
    dedicated = plan.nova.get("compute", {}).get("cpu_dedicated_set")
    default = cpus(line.get("irqaffinity"))

    def replaced(part, **fields):
        return dataclasses.replace(getattr(facts, part), **fields)

    return dataclasses.replace(
        facts,
        cpus=replaced(
            "cpus",
            isolated=isolation.cpus,
            isolcpus_flags=tuple(sorted(isolation.flags)),
            nohz_full=cpus(line.get("nohz_full")),
            rcu_nocbs=cpus(line.get("rcu_nocbs")),
            governors=(
                Governor(cpu["governor"], managed),
                Governor("powersave", online - managed),
            )
            if "governor" in cpu
            else facts.cpus.governors,
            idle_states=(IdleState("POLL", 0, managed),)
            if "pm_qos_resume_latency_us" in cpu
            else facts.cpus.idle_states,
            workqueues=parse_cpu_mask(
                sysfs["/sys/devices/virtual/workqueue/cpumask"]
            ),
        ),
        kernel=replaced(
            "kernel",
            command_line=plan.command_line,
            rt_runtime_us=int(sysctls["kernel.sched_rt_runtime_us"]),
            timer_migration=sysctls["kernel.timer_migration"] != "0",
            nmi_watchdog=line.get("nmi_watchdog") != "0",
            clock_source=line.get("clocksource") or facts.kernel.clock_source,
            watchdog=cpus(watched) if watched else facts.kernel.watchdog,
        ),
        memory=replaced(
            "memory",
            thp=line.get("transparent_hugepage"),
            ksm_run=int(sysfs["/sys/kernel/mm/ksm/run"]),
            swap=tuple(
                each
                for each in facts.memory.swap
                if line.get(
                    "systemd.zram"
                    if each in facts.memory.on_zram
                    else "systemd.swap"
                )
                != "0"
            ),
        ),
        irqs=replaced(
            "irqs",
            default_affinity=default,
            groups=tuple(
                IrqGroup(default, frozenset({min(default)}), each.irqs, None)
                for each in facts.irqs.groups
            ),
        ),
        compute=replaced(
            "compute",
            dedicated=cpus(dedicated)
            if dedicated
            else facts.compute.dedicated,
        ),
    )


#: Two cores of two threads: the threads of a core, as most machines number
#: them and as some do.
APART = (cpus("0,2"), cpus("1,3"))
BESIDE = (cpus("0-1"), cpus("2-3"))


#: Nova as it is set up to give guests a governor that varies.
LOW = PowerManagement("governor", "powersave", "schedutil")


class TunedTest(trees.TreeTest):
    def included(self, active, *, own=""):
        self.tree.write("etc/tuned/active_profile", active)
        self.tree.write("etc/tuned/sriov-rt/tuned.conf", own)
        return fix_plan.tuned_of(self.root).included

    def test_active_profiles(self):
        for active, included in (
            ("virtual-host\n", "virtual-host"),
            ("virtual-host powersave\n", "virtual-host,powersave"),
            ("", ""),
            ("\n", ""),
            ("a/../b\n", ""),
            ("$(x)\n", ""),
            ("x" * 65, ""),
        ):
            with self.subTest(active):
                self.assertEqual(included, self.included(active))

    def test_the_plan_in_effect_keeps_what_it_includes(self):
        own = "[main]\nsummary=x\ninclude = virtual-host\n[sysfs]\n"
        self.assertEqual("virtual-host", self.included("sriov-rt\n", own=own))
        self.assertEqual("", self.included("sriov-rt\n", own="[main]\n"))

    def test_no_tuned(self):
        self.assertEqual("", fix_plan.tuned_of(self.root).included)
        self.assertFalse(fix_plan.tuned_of(self.root).installed)
        self.tree.write("usr/sbin/tuned-adm", "")
        self.assertTrue(fix_plan.tuned_of(self.root).installed)


class FixPlanTest(unittest.TestCase):
    def plan(self, facts, placed_by_nova=True):
        found = readiness.judge(decisive(facts), placed_by_nova=placed_by_nova)
        return fix_plan.make(facts, found.must, placed_by_nova=placed_by_nova)

    def assert_ready_by_plan(self, facts, placed_by_nova=True):
        plan = self.plan(facts, placed_by_nova)
        after = apply(facts, plan)
        found = readiness.judge(decisive(after), placed_by_nova=placed_by_nova)
        self.assertEqual((), found.must)
        self.assertNotIn("thp_madvise", [each.code for each in found.should])
        # The plan of a host that is ready changes nothing.
        again = self.plan(after, placed_by_nova)
        self.assertEqual(plan.dedicated, again.dedicated)
        self.assertEqual((), again.removed)
        self.assertEqual({}, again.nova)
        return plan

    def test_an_ordinary_host_is_ready_after_its_plan(self):
        plan = self.assert_ready_by_plan(ordinary_host())
        self.assertEqual(cpus("1-3"), plan.dedicated)
        self.assertEqual({"compute": {"cpu_dedicated_set": "1-3"}}, plan.nova)

    def test_a_host_without_nova(self):
        plan = self.assert_ready_by_plan(ordinary_host(), False)
        self.assertEqual({}, plan.nova)

    def test_the_plan_keeps_the_cpus_that_nova_was_given(self):
        facts = ordinary_host(compute={"dedicated": cpus("2-3")})
        plan = self.assert_ready_by_plan(facts)
        self.assertEqual({}, plan.nova)
        self.assertIn("nohz_full=2-3", plan.arguments)
        self.assertIn("irqaffinity=0-1", plan.arguments)

    def test_no_core_is_split(self):
        for siblings, given, wanted in (
            (APART, None, "1,3"),
            (APART, "2-3", "1,3"),
            (APART, "1", "1,3"),
            (APART, "0-3", "1,3"),
            (BESIDE, None, "2-3"),
            (BESIDE, "1-3", "2-3"),
            (BESIDE, "3", "2-3"),
            (BESIDE, "1", "0-1"),
        ):
            with self.subTest(siblings=siblings, given=given):
                facts = ordinary_host(
                    cpus={"siblings": siblings},
                    compute={"dedicated": given and cpus(given)},
                )
                plan = self.assert_ready_by_plan(facts)
                self.assertEqual(wanted, format_cpu_list(plan.dedicated))

    def test_one_core_has_no_plan(self):
        facts = ordinary_host(
            cpus={"online": cpus("0-1"), "siblings": (cpus("0-1"),)}
        )
        plan = self.plan(facts)
        self.assertEqual(frozenset(), plan.dedicated)
        self.assertIn("No plan", "\n".join(plan.lines()))
        json.dumps(plan.to_plain())

    def test_a_plan_replaces_what_contradicts_it(self):
        line = (
            "root=/dev/sda1 isolcpus=1 nohz=off quiet nohz_full=1 notsc "
            "transparent-hugepage=madvise irqaffinity=3 nmi_watchdog=1 "
            "-- nohz_full=9"
        )
        facts = ordinary_host(
            kernel={"command_line": line},
            compute={"dedicated": cpus("2-3")},
        )
        plan = self.assert_ready_by_plan(facts)
        self.assertEqual(
            (
                "isolcpus=1",
                "nohz=off",
                "nohz_full=1",
                "notsc",
                "transparent-hugepage=madvise",
                "irqaffinity=3",
                "nmi_watchdog=1",
            ),
            plan.removed,
        )
        self.assertTrue(plan.command_line.startswith("root=/dev/sda1 quiet "))
        self.assertTrue(plan.command_line.endswith(" -- nohz_full=9"))

    def test_an_argument_without_a_value_goes(self):
        """tuned leaves one whose variable is empty."""
        plan = self.assert_ready_by_plan(
            ordinary_host(kernel={"command_line": "quiet isolcpus= splash"})
        )
        self.assertEqual(("isolcpus=",), plan.removed)
        self.assertTrue(plan.command_line.startswith("quiet splash isolcpus="))

    def test_lists_with_strides_are_the_same_cpus(self):
        strided = ("isolcpus=managed_irq,domain,1-3:1/2", "nohz_full=1-3:1/2")
        odd = cpus("1,3")
        facts = ordinary_host(
            kernel={"command_line": " ".join(("quiet", *strided))},
            cpus={"isolated": odd, "nohz_full": odd},
            compute={"dedicated": odd},
        )
        plan = self.assert_ready_by_plan(facts)
        self.assertEqual(odd, plan.dedicated)
        self.assertEqual(strided, plan.removed)
        self.assertIn("nohz_full=1,3", plan.arguments)

    def test_threads_that_are_offline_are_in_no_plan(self):
        """Those of nosmt, and the online ones have even numbers."""
        facts = ordinary_host(
            cpus={
                "online": cpus("0,2,4,6"),
                "offline": cpus("1,3,5,7"),
                "smt": "off",
                "siblings": tuple(cpus(str(cpu)) for cpu in (0, 2, 4, 6)),
            }
        )
        plan = self.assert_ready_by_plan(facts)
        self.assertEqual(cpus("2,4,6"), plan.dedicated)

    def test_swap_by_each_maker(self):
        for swap, generator, arguments, by_hand in (
            (("/dev/sda2",), False, ["systemd.swap=0"], []),
            (("/dev/zram0",), True, ["systemd.zram=0"], []),
            (
                ("/dev/zram0", "/swapfile"),
                True,
                ["systemd.swap=0", "systemd.zram=0"],
                [],
            ),
            (("/dev/zram0",), False, [], ["zram_unmanaged"]),
            (("/dev/zram0",), Unknown("EIO"), [], ["zram_unmanaged"]),
        ):
            with self.subTest(swap=swap, generator=generator):
                memory = {"swap": swap, "zram_generator": generator}
                facts = ordinary_host(memory=memory)
                plan = self.plan(facts)
                planned = [a for a in plan.arguments if a[:8] == "systemd."]
                self.assertEqual(arguments, planned)
                self.assertEqual(by_hand, [r.code for r in plan.by_hand])
                if not by_hand:
                    self.assert_ready_by_plan(facts)

    def test_a_line_that_is_too_long_has_short_lists(self):
        odd = cpus("1-287:1/2")
        facts = ordinary_host(
            cpus={"online": cpus("0-287"), "siblings": ()},
            compute={"dedicated": odd},
        )
        plan = self.assert_ready_by_plan(facts)
        self.assertIn("nohz_full=1-287:1/2", plan.arguments)
        self.assertIn("irqaffinity=0-286:1/2", plan.arguments)
        self.assertEqual((), plan.by_hand)
        self.assertLessEqual(len(plan.command_line), 2047)

    def test_a_line_that_is_too_long_in_any_form(self):
        line = "quiet " + " ".join(f"x{n}=1" for n in range(400))
        plan = self.plan(ordinary_host(kernel={"command_line": line}))
        (reason,) = plan.by_hand
        self.assertEqual("command_line_too_long", reason.code)
        self.assertIn("beyond 2047", reason.message)

    def test_the_profile_includes_the_active_one(self):
        facts = ordinary_host()
        found = readiness.judge(decisive(facts), placed_by_nova=True)
        for included in ("throughput-performance", ""):
            plan = fix_plan.make(
                facts,
                found.must,
                placed_by_nova=True,
                tuned=fix_plan.Tuned(included=included),
            )
            text = "\n".join(plan.lines())
            self.assertEqual(
                included or None, plan.tuned["main"].get("include")
            )
            self.assertEqual(bool(included), "include=" in text)

    def test_each_setting_is_in_one_place(self):
        plan = self.plan(ordinary_host())
        text = "\n".join(plan.lines())
        for word in ("hugepage", "watchdog_cpumask", "ksm", "isolcpus"):
            self.assertEqual(1, text.count(word), word)

    def test_nova_s_governors_are_not_fought(self):
        facts = ordinary_host(
            compute={"dedicated": cpus("2-3"), "power_management": LOW}
        )
        plan = self.plan(facts)
        self.assertNotIn("governor", plan.tuned["cpu_dedicated"])
        self.assertEqual(
            {"libvirt": {"cpu_power_governor_high": "performance"}}, plan.nova
        )
        self.assertEqual((), plan.by_hand)
        without = ordinary_host(
            compute={"dedicated": cpus("2-3"), "power_management": LOW},
            cpus={"governors": ()},
        )
        self.assertEqual(
            {"libvirt": {"cpu_power_management_strategy": "cpu_state"}},
            self.plan(without).nova,
        )

    def test_a_host_that_isolates_by_a_partition_keeps_its_way(self):
        path = "/sys/fs/cgroup/machine.slice"
        for state in ("isolated", "isolated invalid (Cpu list is empty)"):
            facts = ordinary_host(
                compute={"dedicated": cpus("2-3")},
                cpus={"guest_cgroup": GuestCgroup(path, cpus("3"), state)},
            )
            plan = self.plan(facts)
            self.assertIn("isolcpus=managed_irq,2-3", plan.arguments)
            self.assertIn("nohz_full=2-3", plan.arguments)
            self.assertEqual(
                [
                    f"echo 1-3 > {path}/cpuset.cpus",
                    f"echo isolated > {path}/cpuset.cpus.partition",
                ],
                [each for each in plan.lines() if each.startswith("echo")],
            )

    def test_what_no_setting_mends_is_named(self):
        facts = ordinary_host(kernel={"preempt_rt": False})
        plan = self.plan(facts)
        self.assertEqual(
            ["kernel_not_rt"], [each.code for each in plan.by_hand]
        )
        self.assertIn("boot a realtime kernel", "\n".join(plan.lines()))

    def test_every_code_of_a_plan_is_one(self):
        for code in fix_plan.PLANNED:
            self.assertIn(code, realtime_codes())


def realtime_codes() -> set[str]:
    """Return the codes that the worst of hosts has, and of some others."""
    found = set()
    for facts in (
        ordinary_host(),
        ordinary_host(compute={"dedicated": cpus("2-3")}),
        ordinary_host(
            compute={"dedicated": cpus("2")}, cpus={"siblings": APART}
        ),
        ordinary_host(
            compute={"dedicated": cpus("2-3"), "power_management": LOW}
        ),
        ordinary_host(
            compute={"dedicated": cpus("2-3"), "power_management": LOW},
            cpus={"governors": ()},
        ),
        ordinary_host(
            compute={"dedicated": cpus("0-3")},
            cpus={"isolated": cpus("0-3")},
        ),
        ordinary_host(cpus={"isolated": cpus("2-3")}),
        ordinary_host(
            compute={"dedicated": cpus("2-3")},
            memory={"swap": ("/dev/zram0",), "zram_generator": True},
        ),
    ):
        found |= {
            each.code
            for each in realtime.reasons(decisive(facts), placed_by_nova=True)
        }
    apart = ordinary_host(cpus={"isolated": cpus("0-3")})
    found |= {
        each.code
        for each in realtime.reasons(decisive(apart), placed_by_nova=False)
    }
    return found
