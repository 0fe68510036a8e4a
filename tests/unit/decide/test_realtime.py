# SPDX-License-Identifier: Apache-2.0

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.decide import realtime
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from tests.unit import builders
from tests.unit.decide.case import NOW
from tests.unit.decide.case import DecideTestCase


class RealtimeTest(DecideTestCase):
    def test_a_realtime_host_satisfies(self):
        self.assertEqual([], self.codes())

    def test_the_flavor_must_pin(self):
        specs = {"sriov_rt:realtime": "required"}
        self.assertEqual(["cpu_policy_not_dedicated"], self.codes(specs))
        self.assertEqual([], self.codes({**specs, "resources:PCPU": "2"}))
        elsewhere = decide.View(now=NOW, placed_by_nova=False)
        self.assertEqual([], self.codes(specs, elsewhere))

    def test_a_mixed_policy_is_refused_by_its_name(self):
        specs = {"sriov_rt:realtime": "required", "hw:cpu_policy": "mixed"}
        self.assertEqual(["cpu_policy_mixed"], self.codes(specs))

    def test_each_condition_of_the_cpus(self):
        cases = {
            "cpus_not_isolated": {"isolated": cpus("2")},
            "cpus_not_tick_free": {"nohz_full": cpus("2")},
            "cpus_offline": {"online": cpus("0-2")},
            "siblings_shared": {"siblings": (cpus("0,2"), cpus("1,3"))},
        }
        for code, changed in cases.items():
            with self.subTest(code=code):
                self.assertEqual([code], self.codes(cpus=changed))

    def test_a_bpf_scheduler_has_every_cpu(self):
        for state, codes in (
            (None, []),
            ("disabled", []),
            ("enabled", ["sched_ext_on"]),
            ("enabling", ["sched_ext_on"]),
            (facts.NOT_REPORTED, []),
            (Unknown("garbled"), ["fact_unknown"]),
        ):
            with self.subTest(state):
                self.assertEqual(codes, self.codes(cpus={"sched_ext": state}))

    def test_rcu_follows_the_tick(self):
        # A kernel offloads its nohz_full CPUs by itself.
        self.assertEqual([], self.codes(cpus={"rcu_nocbs": cpus("")}))
        both = {"rcu_nocbs": cpus(""), "nohz_full": cpus("")}
        self.assertEqual(
            ["cpus_not_tick_free", "cpus_not_rcu_free"], self.codes(cpus=both)
        )

    def test_times_are_in_microseconds(self):
        states = (facts.IdleState("C6", 133, cpus("2")),)
        self.assertIn(
            "takes 133 µs to leave (the limit is 3 µs)",
            self.message("idle_too_deep", cpus={"idle_states": states}),
        )

    def test_the_remedy_names_the_cpus(self):
        self.assertIn(
            "boot with isolcpus=managed_irq,domain,2-3",
            self.message("cpus_not_isolated", cpus={"isolated": cpus("2")}),
        )
        self.assertIn(
            "cpu_dedicated_set in nova.conf to 0,2 and boot with "
            "isolcpus=managed_irq,domain,0,2 nohz_full=0,2",
            self.message(
                "siblings_shared",
                cpus={"siblings": (cpus("0,2"), cpus("1,3"))},
                compute={"dedicated": cpus("2")},
            ),
        )

    def test_the_remedy_of_a_split_core_leaves_the_host_a_cpu(self):
        self.assertIn(
            "cpu_dedicated_set in nova.conf to 1,3 and boot",
            self.message(
                "siblings_shared",
                cpus={"siblings": (cpus("0,2"), cpus("1,3"))},
            ),
        )

    def test_what_the_kernel_does_on_dedicated_cpus(self):
        every = cpus("0-3")
        for code, part, name, value in (
            ("clock_slow", "kernel", "clock_source", "hpet"),
            ("swap_on", "memory", "swap", ("/dev/sda2",)),
            ("workqueues_on_dedicated", "cpus", "workqueues", every),
            ("watchdog_on_dedicated", "kernel", "watchdog", cpus("3")),
            (
                "frequency_varies",
                "cpus",
                "governors",
                (facts.Governor("powersave", cpus("3")),),
            ),
            (
                "idle_too_deep",
                "cpus",
                "idle_states",
                (facts.IdleState("C1E", 10, cpus("2")),),
            ),
        ):
            with self.subTest(code=code):
                self.assertEqual([code], self.codes(**{part: {name: value}}))
                # What was published by an agent of before cannot say it.
                untold = {part: {name: facts.NOT_REPORTED}}
                self.assertEqual([], self.codes(**untold))
                unread = {part: {name: Unknown("garbled")}}
                self.assertEqual(["fact_unknown"], self.codes(**unread))

    def test_the_host_may_save_power_on_its_own_cpus(self):
        self.assertEqual(
            [],
            self.codes(
                cpus={
                    "governors": (
                        facts.Governor("performance", cpus("2-3")),
                        facts.Governor("powersave", cpus("0-1")),
                    ),
                    "idle_states": (
                        facts.IdleState("C6", 133, cpus("0-1")),
                        facts.IdleState("C1", 2, cpus("2-3")),
                    ),
                }
            ),
        )

    def test_advice_keeps_no_guest_away(self):
        host = builders.realtime_host(
            irqs={"default_affinity": cpus("0-3")},
            memory={"thp": "madvise"},
            cpus={"siblings": (cpus("0-1"), cpus("2-3"))},
        )
        host = facts.decisive(host)
        self.assertEqual([], list(realtime.reasons(host, placed_by_nova=True)))
        self.assertEqual(
            ["irqs_default_on_dedicated", "smt_on", "thp_madvise"],
            [e.code for e in realtime.advice(host, placed_by_nova=True)],
        )
        best = facts.decisive(builders.realtime_host())
        self.assertEqual([], list(realtime.advice(best, placed_by_nova=True)))

    def test_smt_where_some_cores_have_one_thread(self):
        """Of a hybrid CPU it is told if a dedicated core has two."""
        for siblings, codes in (
            ((cpus("0"), cpus("1"), cpus("2-3")), ["smt_on"]),
            ((cpus("0-1"), cpus("2"), cpus("3")), []),
        ):
            host = facts.decisive(
                builders.realtime_host(cpus={"siblings": siblings})
            )
            with self.subTest(siblings):
                self.assertEqual(
                    [], list(realtime.reasons(host, placed_by_nova=True))
                )
                found = realtime.advice(host, placed_by_nova=True)
                self.assertEqual(codes, [each.code for each in found])

    def test_a_host_that_is_a_virtual_machine(self):
        """It has kvm-clock and no cpufreq, and its CPUs poll when idle."""
        self.assertEqual(
            [],
            self.codes(
                kernel={"clock_source": "kvm-clock"},
                cpus={
                    "governors": (),
                    "idle_states": (
                        facts.IdleState("haltpoll idle", 1, cpus("2-3")),
                    ),
                },
            ),
        )

    def test_advice_is_of_the_cpus_that_guests_get(self):
        host = facts.decisive(
            builders.realtime_host(
                compute={"dedicated": None},
                irqs={"default_affinity": cpus("0-3")},
            )
        )
        for placed_by_nova, codes in (
            (True, []),
            (False, ["irqs_default_on_dedicated"]),
        ):
            found = realtime.advice(host, placed_by_nova=placed_by_nova)
            self.assertEqual(codes, [each.code for each in found])

    def test_nothing_left_for_the_host(self):
        every = cpus("0-3")
        self.assertEqual(
            ["no_housekeeping"],
            self.codes(
                cpus={"isolated": every, "nohz_full": every},
                compute={"dedicated": every},
                irqs={"groups": ()},
            ),
        )

    def test_nothing_is_moved_to_cpus_that_there_are_not(self):
        """To name no CPU in a remedy would be of no use."""
        every = cpus("0-3")
        group = facts.IrqGroup(every, cpus("3"), (40,), False, 7)
        host = facts.decisive(
            builders.realtime_host(
                cpus={
                    "isolated": every,
                    "nohz_full": every,
                    "workqueues": every,
                },
                compute={"dedicated": every},
                irqs={"groups": (group,), "default_affinity": every},
            )
        )
        found = {
            each.code: each.fields.get("wanted", "-")
            for judge in (realtime.reasons, realtime.advice)
            for each in judge(host, placed_by_nova=True)
        }
        self.assertIn("no_housekeeping", found)
        self.assertNotIn("", found.values(), found)

    def test_nothing_left_where_none_is_dedicated(self):
        every = cpus("0-3")
        elsewhere = decide.View(now=NOW, placed_by_nova=False)
        self.assertEqual(
            ["all_isolated"],
            self.codes(
                view=elsewhere,
                cpus={"isolated": every, "nohz_full": every},
                compute={"dedicated": None},
                irqs={"groups": ()},
            ),
        )

    def test_nothing_dedicated(self):
        self.assertEqual(
            ["dedicated_unset"], self.codes(compute={"dedicated": None})
        )
        self.assertEqual(
            ["nothing_isolated", "dedicated_unset"],
            self.codes(
                compute={"dedicated": None}, cpus={"isolated": cpus("")}
            ),
        )
        elsewhere = decide.View(now=NOW, placed_by_nova=False)
        self.assertEqual(
            [], self.codes(view=elsewhere, compute={"dedicated": None})
        )

    def test_each_condition_of_kernel_and_memory(self):
        cases = {
            "rt_throttled": {"kernel": {"rt_runtime_us": 950_000}},
            "timers_migrate": {"kernel": {"timer_migration": True}},
            "nmi_watchdog_on": {"kernel": {"nmi_watchdog": True}},
            "kernel_not_rt": {"kernel": {"preempt_rt": False}},
            "ksm_running": {"memory": {"ksm_run": 1}},
            "thp_always": {"memory": {"thp": "always"}},
        }
        for code, changed in cases.items():
            with self.subTest(code=code):
                self.assertEqual([code], self.codes(**changed))

    def test_an_unknown_fact_never_passes(self):
        for part, names in {
            "cpus": (
                "online",
                "isolated",
                "nohz_full",
                "rcu_nocbs",
                "siblings",
            ),
            "kernel": (
                "preempt_rt",
                "rt_runtime_us",
                "timer_migration",
                "nmi_watchdog",
            ),
            "memory": ("thp", "ksm_run"),
            "irqs": ("groups",),
            "compute": ("dedicated",),
        }.items():
            for name in names:
                with self.subTest(fact=f"{part}.{name}"):
                    spoilt = {part: {name: Unknown("garbled")}}
                    self.assertEqual(["fact_unknown"], self.codes(**spoilt))
                    told = self.message("fact_unknown", **spoilt)
                    self.assertIn(f"{part}.{name} is unknown", told)


class InterruptTest(DecideTestCase):
    def _irqs(self, allowed, effective, managed=True, fired=None):
        group = facts.IrqGroup(
            cpus(allowed), cpus(effective), (40, 41), managed, fired
        )
        return {"groups": (group,)}

    def test_a_movable_interrupt_on_a_dedicated_cpu(self):
        told = self.message("irqs_on_dedicated", irqs=self._irqs("0-3", "3"))
        self.assertIn("interrupts 40, 41 are routed", told)
        self.assertIn("irqaffinity=0-1", told)

    def test_a_managed_queue_of_the_dedicated_cpus(self):
        self.assertEqual([], self.codes(irqs=self._irqs("3", "3")))
        self.assertEqual(
            ["irqs_on_dedicated"],
            self.codes(
                irqs=self._irqs("3", "3"), cpus={"isolcpus_flags": ("domain",)}
            ),
        )

    def test_an_interrupt_that_somebody_pinned(self):
        dark = Unknown("not shown")
        for managed, fired, expected in (
            (True, None, []),
            (True, True, []),
            (False, None, ["irqs_on_dedicated"]),
            (False, False, ["irqs_on_dedicated"]),
            (None, False, ["irqs_on_dedicated"]),
            (dark, None, ["irqs_on_dedicated"]),
            (dark, True, ["irqs_on_dedicated"]),
            (dark, False, []),
            (facts.NOT_REPORTED, None, []),
        ):
            with self.subTest(managed=managed, fired=fired):
                irqs = self._irqs("3", "3", managed, fired)
                self.assertEqual(expected, self.codes(irqs=irqs))
