# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import unittest

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import reason
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.decide import realtime
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from tests.unit import builders

NOW = 1_790_000_000.0
VIEW = decide.View(now=NOW)
REALTIME = {
    "sriov_rt:realtime": "required",
    "sriov_rt:kernel": "preempt_rt",
    "hw:cpu_policy": "dedicated",
}


class DecideTestCase(unittest.TestCase):
    def codes(self, specs=REALTIME, view=VIEW, **parts):
        host = builders.realtime_host(**parts)
        asked = request.parse(specs)
        found = decide.why_not(asked, host, view)
        self.assertEqual(not found, decide.satisfies(asked, host, view))
        return [each.code for each in found]

    def message(self, code, specs=REALTIME, view=VIEW, **parts):
        host = builders.realtime_host(**parts)
        for each in decide.why_not(request.parse(specs), host, view):
            if each.code == code:
                return each.message
        return self.fail(f"no Reason {code}")


class FreshnessTest(DecideTestCase):
    def test_a_host_never_heard_of(self):
        found = decide.why_not(request.parse(REALTIME), None, VIEW)
        self.assertEqual(["facts_missing"], [each.code for each in found])

    def test_facts_at_and_past_the_limit(self):
        fresh = decide.View(now=NOW, facts_age_s=60, max_age_s=60)
        self.assertEqual([], self.codes(view=fresh))
        stale = decide.View(now=NOW, facts_age_s=61, max_age_s=60)
        self.assertEqual(["facts_stale"], self.codes(view=stale))


class RealtimeTest(DecideTestCase):
    def test_a_realtime_host_satisfies(self):
        self.assertEqual([], self.codes())

    def test_the_flavor_must_pin(self):
        specs = {"sriov_rt:realtime": "required"}
        self.assertEqual(["cpu_policy_not_dedicated"], self.codes(specs))
        elsewhere = decide.View(now=NOW, placed_by_nova=False)
        self.assertEqual([], self.codes(specs, elsewhere))

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

    def test_rcu_follows_the_tick(self):
        # A kernel offloads its nohz_full CPUs by itself.
        self.assertEqual([], self.codes(cpus={"rcu_nocbs": cpus("")}))
        both = {"rcu_nocbs": cpus(""), "nohz_full": cpus("")}
        self.assertEqual(
            ["cpus_not_tick_free", "cpus_not_rcu_free"], self.codes(cpus=both)
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
                untold = {part: {name: facts.NOT_TOLD}}
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
        self.assertEqual([], list(realtime.reasons(host, placed_by_nova=True)))
        self.assertEqual(
            ["irqs_default_on_dedicated", "smt_on", "thp_madvise"],
            [e.code for e in realtime.advice(host, placed_by_nova=True)],
        )
        best = builders.realtime_host()
        self.assertEqual([], list(realtime.advice(best, placed_by_nova=True)))

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

    def test_nothing_dedicated(self):
        self.assertEqual(
            ["dedicated_unset"], self.codes(compute={"dedicated": None})
        )
        self.assertEqual(
            ["nothing_isolated"],
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
            (facts.NOT_TOLD, None, []),
        ):
            with self.subTest(managed=managed, fired=fired):
                irqs = self._irqs("3", "3", managed, fired)
                self.assertEqual(expected, self.codes(irqs=irqs))


class DemandTest(DecideTestCase):
    def test_labels(self):
        ask = "sriov_rt:node_selector"
        self.assertEqual([], self.codes({ask: "pci-8086.present=true"}))
        specs = {ask: "pci-8086.present,pci-1924.present=true"}
        self.assertEqual(["labels_mismatch"], self.codes(specs))
        told = self.message("labels_mismatch", specs)
        self.assertIn("finds no such label", told)

    def test_labels_of_a_source_that_is_down(self):
        prefix = "feature.node.kubernetes.io/"
        labels = {
            "values": {prefix + "pci-1924.present": "true", "zone": "a"},
            "sources": {
                prefix + "pci-1924.present": "kubernetes",
                prefix + "kernel-config.PREEMPT_RT": "kernel",
                "zone": "other",
            },
            "stale": ("kubernetes", "nfd_local"),
        }
        stale, mismatch = ["labels_stale"], ["labels_mismatch"]
        for selector, expected in (
            ("pci-1924.present=true", stale),
            ("pci-1924.present!=true", stale),
            ("pci-1924.present>5", stale),
            ("pci-8086.present", stale),
            # A missing key is neither a match of a negation nor a mismatch.
            ("!pci-8086.present", stale),
            ("pci-8086.present notin (true)", stale),
            # The kernel is never down, also where it says that there is no
            # such label.
            ("!kernel-config.PREEMPT_RT", []),
            ("kernel-config.PREEMPT_RT=true", mismatch),
        ):
            with self.subTest(selector=selector):
                specs = {"sriov_rt:node_selector": selector}
                self.assertEqual(expected, self.codes(specs, labels=labels))
        specs = {"sriov_rt:node_selector": "pci-1924.present"}
        told = self.message("labels_stale", specs, labels=labels)
        self.assertIn("label source kubernetes for longer", told)
        specs = {"sriov_rt:node_selector": "!pci-8086.present"}
        told = self.message("labels_stale", specs, labels=labels)
        self.assertIn("label source kubernetes, nfd_local for", told)

    def test_labels_whose_part_is_unknown(self):
        specs = {"sriov_rt:node_selector": "!pci-1924.present"}
        for name in ("values", "sources", "stale"):
            with self.subTest(fact=name):
                spoilt = {name: Unknown("garbled")}
                self.assertEqual(
                    ["fact_unknown"], self.codes(specs, labels=spoilt)
                )

    def test_nics(self):
        for wanted in ("any", "intel", "8086", "8086:10c9", "8086:10ca"):
            with self.subTest(nic=wanted):
                self.assertEqual([], self.codes({"sriov_rt:nic": wanted}))
        for wanted in ("solarflare", "8086:1572"):
            with self.subTest(nic=wanted):
                self.assertEqual(
                    ["nic_missing"], self.codes({"sriov_rt:nic": wanted})
                )

    def test_nic_of_unknown_make(self):
        specs = {"sriov_rt:nic": "8086:1572"}
        for changes, wanted in (
            ({"vendor": Unknown("garbled")}, "fact_unknown"),
            ({"device": Unknown("garbled")}, "fact_unknown"),
            ({"vf_device": Unknown("garbled")}, "fact_unknown"),
            (
                {"vendor": "1924", "device": Unknown("garbled")},
                "nic_missing",
            ),
        ):
            with self.subTest(changes):
                nics = {"nics": (builders.nic(**changes),)}
                self.assertEqual([wanted], self.codes(specs, nics=nics))

    def test_vfs(self):
        specs = {"sriov_rt:vif": "vf"}
        self.assertEqual([], self.codes(specs))
        none = builders.nic(sriov_numvfs=0)
        self.assertEqual(["no_vfs"], self.codes(specs, nics={"nics": (none,)}))
        dark = builders.nic(sriov_numvfs=Unknown("garbled"))
        self.assertEqual(
            ["fact_unknown"], self.codes(specs, nics={"nics": (dark,)})
        )

    def test_modules(self):
        self.assertEqual([], self.codes({"sriov_rt:vif": "macvlan"}))
        self.assertEqual(
            ["module_missing"], self.codes({"sriov_rt:vif": "ipvlan:l3"})
        )

    def test_latency(self):
        specs = {"sriov_rt:max_latency_us": "20"}
        kernel = "6.1.0-44-rt-amd64"

        def holds(*fields):
            return {"certificate": facts.LatencyCertificate(*fields)}

        self.assertEqual(["latency_uncertified"], self.codes(specs))
        for expected, fields in (
            ([], (20, kernel, NOW + 1)),
            (["latency_above"], (21, kernel, NOW + 1)),
            (["latency_expired"], (20, kernel, NOW)),
            (["latency_other_kernel"], (20, "6.1.0-1", NOW + 1)),
        ):
            with self.subTest(expected=expected):
                self.assertEqual(
                    expected, self.codes(specs, latency=holds(*fields))
                )


class ReasonTest(unittest.TestCase):
    def test_json_has_code_fields_and_message(self):
        told = reason.reason("kernel_not_rt", release="6.1").to_plain()
        self.assertEqual("kernel_not_rt", told["code"])
        self.assertEqual("6.1", told["release"])
        self.assertIn("kernel 6.1 is not PREEMPT_RT", told["message"])

    def test_sentences_are_one_clause_and_its_remedy(self):
        for code, sentence in reason.SENTENCES.items():
            with self.subTest(code=code):
                self.assertFalse(sentence.endswith("."))
                self.assertIn("; ", sentence)
