# SPDX-License-Identifier: Apache-2.0

import contextlib
import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.nic import errors
from sriov_rt.nic import rules
from sriov_rt.nic.model import NO_MAC
from sriov_rt.parse import link
from tests.unit.nic import fakes
from tests.unit.nic.fakes import vf_id

FAMILIES = ("ixgbe", "i40e", "ice", "sfc", "igb", "nobody")
WANTED = st.builds(
    VfSettings,
    mac=st.sampled_from((None, NO_MAC, fakes.ADMIN_MAC)),
    vlan=st.none() | st.integers(0, link.MAX_VLAN),
    qos=st.none() | st.integers(0, rules.MAX_QOS),
    vlan_protocol=st.none() | st.sampled_from(VlanProtocol),
    spoofchk=st.none() | st.booleans(),
    trust=st.none() | st.booleans(),
    link_state=st.none() | st.sampled_from(LinkState),
    min_tx_rate=st.none() | st.integers(0, 2),
    max_tx_rate=st.none() | st.integers(0, 20000),
    mtu=st.none() | st.integers(68, 9000),
    promisc=st.none() | st.booleans(),
    allmulti=st.none() | st.booleans(),
)


class PlanPropertyTest(unittest.TestCase):
    @settings(derandomize=True, max_examples=150, deadline=None)
    @given(st.sampled_from(FAMILIES), WANTED)
    def test_what_a_plan_accepts_is_taken_and_then_there(self, driver, wanted):
        kernel = fakes.FakeKernel(driver)
        vfs = fakes.vfs(kernel)
        try:
            made = vfs.plan(vf_id(0), wanted)
        except errors.NicError as error:
            self.assertTrue(error.remedy)
            self.assertEqual([], kernel.writes)
            return
        try:
            vfs.apply(made)
        except errors.UnsupportedByNic:
            # What was to be probed.
            self.assertIn(driver, ("nobody", "sfc", "ixgbe", "ice"))
            return
        if driver == "sfc" and wanted.spoofchk is not None:
            return  # not reported, so written each time
        again = vfs.plan(vf_id(0), wanted)
        self.assertEqual((), again.steps)
        self.assertIsNone(again.rebind)

    @settings(derandomize=True, max_examples=100, deadline=None)
    @given(st.sampled_from(FAMILIES), WANTED)
    def test_whatever_was_set_a_reset_vf_is_clean(self, driver, wanted):
        kernel = fakes.FakeKernel(driver)
        vfs = fakes.vfs(kernel)
        with contextlib.suppress(errors.NicError):
            vfs.apply(vfs.plan(vf_id(0), wanted))
        state = vfs.reset(vf_id(0))
        found = state.settings
        if driver != "sfc":
            self.assertEqual(NO_MAC, found.mac)
        self.assertEqual((0, 0, "802.1q"), (*_vlan(found),))
        self.assertEqual((0, 0), (found.min_tx_rate, found.max_tx_rate))
        self.assertFalse(found.trust or found.promisc or found.allmulti)
        if driver != "sfc":
            self.assertTrue(found.spoofchk)


def _vlan(found):
    return found.vlan, found.qos, found.vlan_protocol


class FamilyTest(unittest.TestCase):
    def plan(self, pf_driver, *, carrier=True, speed=None, **wanted):
        self.kernel = fakes.FakeKernel(pf_driver, carrier=carrier, speed=speed)
        vfs = fakes.vfs(self.kernel)
        return vfs.plan(vf_id(0), VfSettings(**wanted))

    def refused(self, kind, pf_driver, **options):
        with self.assertRaises(kind) as caught:
            self.plan(pf_driver, **options)
        self.assertEqual([], self.kernel.writes)
        return str(caught.exception)

    def test_99_of_an_x710_is_50_effective(self):
        made = self.plan("i40e", max_tx_rate=99)
        self.assertIn("99 requested, 50 effective", made.notes[0])
        self.assertEqual(50, made.payload.max_tx_rate)
        self.assertEqual(0, made.payload.min_tx_rate)
        self.assertIn("note: max_tx_rate: 99", "\n".join(made.lines()))

    def test_rates_of_an_x710(self):
        for asked, kept in ((0, 0), (1, 50), (50, 50), (149, 100)):
            with self.subTest(asked=asked):
                made = self.plan("i40e", max_tx_rate=asked)
                self.assertEqual(kept, made.expect.max_tx_rate)
        self.refused(errors.OutOfRange, "i40e", max_tx_rate=10050)

    def test_x710_may_keep_the_rate_that_reads_back(self):
        vfs = fakes.vfs(kernel := fakes.FakeKernel("i40e"))
        vfs.apply(vfs.plan(vf_id(0), VfSettings(max_tx_rate=99)))
        self.assertEqual(50, kernel.kept_rate[0])
        self.assertEqual(50, vfs.observe(vf_id(0)).settings.max_tx_rate)

    def test_any_rate_of_a_solarflare_nic_is_refused(self):
        for attribute in ("max_tx_rate", "min_tx_rate"):
            told = self.refused(
                errors.UnsupportedByNic, "sfc", **{attribute: 1000}
            )
            self.assertIn("Solarflare NICs do not limit VFs", told)
        self.assertTrue(self.plan("sfc", max_tx_rate=0).is_empty)

    def test_rates_of_an_x520(self):
        for asked in (0, 11, 10000):
            self.plan("ixgbe", max_tx_rate=asked)
        for asked in (1, 10, 10001):
            self.refused(errors.OutOfRange, "ixgbe", max_tx_rate=asked)

    def test_x520_needs_its_link_at_ten_gigabits(self):
        told = self.refused(
            errors.LinkNeeded, "ixgbe", speed=1000, max_tx_rate=100
        )
        self.assertIn("10000 Mb/s only and enp1s0 is linked at 1000", told)
        self.refused(
            errors.LinkNeeded, "ixgbe", carrier=False, max_tx_rate=100
        )

    def test_82576_needs_a_carrier_for_rates(self):
        self.refused(errors.LinkNeeded, "igb", carrier=False, max_tx_rate=9)
        self.refused(errors.OutOfRange, "igb", max_tx_rate=1001)
        self.plan("igb", carrier=False, max_tx_rate=0, vlan=3)

    def test_minimum_rate(self):
        for driver in ("ixgbe", "i40e", "igb", "sfc"):
            with self.subTest(driver=driver):
                self.refused(errors.UnsupportedByNic, driver, min_tx_rate=5)
        made = self.plan("ice", min_tx_rate=5, max_tx_rate=10)
        self.assertEqual(5, made.payload.min_tx_rate)
        self.refused(errors.OutOfRange, "ice", min_tx_rate=50, max_tx_rate=10)

    def test_rates_are_written_together(self):
        kernel = fakes.FakeKernel("ice")
        kernel.change(0, min_tx_rate=5, max_tx_rate=100)
        made = fakes.vfs(kernel).plan(vf_id(0), VfSettings(max_tx_rate=50))
        self.assertEqual(5, made.payload.min_tx_rate)

    def test_trust_of_an_x710_resets_the_vf(self):
        made = self.plan("i40e", trust=True)
        self.assertIn("changing trust resets the VF", made.notes[0])
        self.assertEqual((), self.plan("i40e", trust=False).notes)

    def test_solarflare_nics_have_no_trust(self):
        self.refused(errors.UnsupportedByNic, "sfc", trust=True)
        self.assertTrue(self.plan("sfc", trust=False).is_empty)

    def test_x520_takes_link_state_enable_and_does_nothing(self):
        told = self.refused(
            errors.UnsupportedByNic, "ixgbe", link_state=LinkState.ENABLE
        )
        self.assertIn("does not do 'enable'", told)
        self.plan("ixgbe", link_state=LinkState.DISABLE)

    def test_8021ad(self):
        for driver in ("igb", "ixgbe", "sfc"):
            with self.subTest(driver=driver):
                self.refused(
                    errors.UnsupportedByNic,
                    driver,
                    vlan=5,
                    vlan_protocol=VlanProtocol.AD,
                )
        made = self.plan("i40e", vlan=5, vlan_protocol=VlanProtocol.AD)
        self.assertEqual(VlanProtocol.AD, made.payload.vlan_protocol)

    def test_values_that_no_nic_takes(self):
        for wanted in (
            {"mac": "01:00:5e:00:00:01"},
            {"mac": "52:54:00:12:34"},
            {"mac": "52:54:00:AA:BB:CC"},
            {"vlan": 4095},
            {"vlan": -1},
            {"qos": 8},
            {"mtu": 67},
            {"mtu": 65536},
            {"driver": "../x"},
        ):
            with self.subTest(wanted=wanted):
                self.refused(errors.OutOfRange, "igb", **wanted)

    def test_qos_alone_keeps_the_vlan(self):
        kernel = fakes.FakeKernel("igb")
        kernel.change(0, vlan=7)
        made = fakes.vfs(kernel).plan(vf_id(0), VfSettings(qos=3))
        self.assertEqual(7, made.payload.vlan)
        self.assertEqual(3, made.payload.qos)

    def test_unknown_nic_is_probed(self):
        kernel = fakes.FakeKernel("nobody")
        kernel.fail = {"trust": [95, ...]}
        vfs = fakes.vfs(kernel)
        made = vfs.plan(vf_id(0), VfSettings(trust=True))
        self.assertEqual("generic", made.family)
        with self.assertRaises(errors.UnsupportedByNic):
            vfs.apply(made)

    def test_plan_as_text(self):
        made = self.plan("igb", vlan=7, mac=fakes.ADMIN_MAC, trust=True)
        self.assertEqual(
            [
                "enp1s0/0 (0000:01:10.0, igb):",
                "  mac 00:00:00:00:00:00 -> 52:54:00:12:34:56",
                "  vlan 0 -> 7",
                "  trust off -> on",
                "  bind its driver again: enp1s0v0 has the MAC "
                "be:ef:00:00:00:00 until then",
            ],
            list(made.lines()),
        )
        self.assertEqual(
            ["enp1s0/0: nothing to do"], list(self.plan("igb").lines())
        )
