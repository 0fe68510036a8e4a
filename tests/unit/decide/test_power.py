# SPDX-License-Identifier: Apache-2.0

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.facts import PowerManagement
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from tests.unit.decide.case import DecideTestCase

STATE = PowerManagement("cpu_state", "powersave", "performance")
GOVERNOR = PowerManagement("governor", "powersave", "performance")

#: What an idle host shows whose two dedicated pCPUs Nova took offline.
IDLE = {
    "online": cpus("0-1"),
    "offline": cpus("2-3"),
    "smt": "notsupported",
    "siblings": (cpus("0"), cpus("1")),
    "governors": (facts.Governor("performance", cpus("0-1")),),
    "idle_states": (),
}


class CpuStateTest(DecideTestCase):
    def judge(self, power=STATE, dedicated=None, **changed):
        compute = {"power_management": power}
        if dedicated is not None:
            compute["dedicated"] = dedicated
        return self.codes(cpus=IDLE | changed, compute=compute)

    def test_idle_pcpus_are_offline(self):
        self.assertEqual([], self.judge())

    def test_without_nova_they_stay_so(self):
        for power in (None, facts.NOT_REPORTED, GOVERNOR):
            with self.subTest(power):
                self.assertEqual(["cpus_offline"], self.judge(power))

    def test_one_that_cannot_be_online(self):
        self.assertEqual(["cpus_stay_offline"], self.judge(offline=cpus("3")))

    def test_cpu_0_is_not_nova_s(self):
        # isolcpus can't have the CPU that boots, but on some machines.
        every = {"isolated": cpus("0,2-3"), "nohz_full": cpus("0,2-3")}
        self.assertEqual(
            ["cpus_offline"],
            self.judge(
                dedicated=cpus("0,2-3"),
                online=cpus("1"),
                offline=cpus("0,2-3"),
                workqueues=cpus("1"),
                **every,
            )[:1],
        )

    def test_they_are_isolated_when_they_are_online(self):
        self.assertEqual(
            ["cpus_not_isolated", "cpus_not_tick_free"],
            self.judge(isolated=cpus("2"), nohz_full=cpus("2")),
        )

    def test_what_is_unknown_is_not_guessed(self):
        unknown = Unknown("garbled")
        self.assertEqual(["fact_unknown"], self.judge(offline=unknown))
        self.assertEqual(["fact_unknown"], self.judge(unknown))
        # Nothing is offline: it does not matter.
        self.assertEqual([], self.codes(compute={"power_management": unknown}))

    def test_cores_of_offline_pcpus(self):
        one = (cpus("0"), cpus("1"))
        two = (cpus("0,1"),)
        for smt, siblings, codes in (
            ("off", one, []),
            ("notimplemented", one, []),
            # The host has whole cores: no thread of them is missing.
            ("on", two, []),
            (Unknown("no such file"), two, []),
            # CPU 0 may be on a core with CPU 2, whose thread is not shown.
            ("on", one, ["cores_unknown"]),
            (Unknown("no such file"), one, ["cores_unknown"]),
            ("on", (), ["cores_unknown"]),
        ):
            with self.subTest(smt=smt, siblings=siblings):
                self.assertEqual(codes, self.judge(smt=smt, siblings=siblings))

    def test_one_core_of_the_host_lacks_a_thread(self):
        self.assertEqual(
            ["cores_unknown"],
            self.codes(
                cpus=IDLE
                | {
                    "online": cpus("0-2"),
                    "offline": cpus("3"),
                    "smt": "on",
                    "siblings": (cpus("0,1"), cpus("2")),
                    "isolated": cpus("3"),
                    "workqueues": cpus("0-2"),
                },
                compute={
                    "dedicated": cpus("3"),
                    "power_management": STATE,
                },
            ),
        )

    def test_those_of_guests_are_judged_as_ever(self):
        self.assertEqual(
            ["frequency_varies"],
            self.judge(
                online=cpus("0-2"),
                offline=cpus("3"),
                governors=(facts.Governor("powersave", cpus("0-2")),),
            ),
        )


class GovernorTest(DecideTestCase):
    def judge(self, power=GOVERNOR, governors=None, **compute):
        if governors is None:
            governors = (
                facts.Governor("performance", cpus("0-1")),
                facts.Governor("powersave", cpus("2-3")),
            )
        return self.codes(
            cpus={"governors": governors},
            compute={"power_management": power, **compute},
        )

    def test_idle_pcpus_save_power(self):
        self.assertEqual([], self.judge())
        for power in (None, STATE, facts.NOT_REPORTED):
            with self.subTest(power):
                self.assertEqual(["frequency_varies"], self.judge(power))

    def test_a_high_governor_that_varies(self):
        power = PowerManagement("governor", "powersave", "ondemand")
        self.assertEqual(["governor_high_varies"], self.judge(power))
        message = self.message(
            "governor_high_varies", compute={"power_management": power}
        )
        self.assertIn("'ondemand'", message)
        self.assertIn("set [libvirt] cpu_power_governor_high=perf", message)

    def test_a_kernel_without_governors(self):
        self.assertEqual(["governor_missing"], self.judge(governors=()))

    def test_the_remedy_does_not_fight_nova(self):
        for code in ("governor_missing", "cpus_stay_offline"):
            message = self.message(
                code,
                cpus={"governors": ()}
                if code == "governor_missing"
                else IDLE | {"offline": cpus("")},
                compute={
                    "power_management": GOVERNOR
                    if code == "governor_missing"
                    else STATE
                },
            )
            self.assertIn("nova.conf", message)
            self.assertNotIn("write 1", message)
