# SPDX-License-Identifier: Apache-2.0

import json
import subprocess
import sys
import threading
import unittest
import unittest.mock

from oslo_privsep import capabilities
from oslo_privsep import daemon

from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.neutron import privileged
from sriov_rt.nic import errors
from sriov_rt.nic.model import ADDRESS_SET
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.use import Use
from sriov_rt.parse.errors import ParseError
from tests.unit.nic import fakes

SLOT = "0000:01:10.1"
PORT_MAC = "fa:16:3e:00:00:01"

_CAPABILITIES = """\
import json
from sriov_rt.neutron import privileged
found = ("vf_set", "vf_clean")
print(json.dumps({
    each: sorted(getattr(privileged, each).conf.capabilities) for each in found
}))
"""

WANTED = VfSettings(
    vlan=117,
    qos=0,
    vlan_protocol=VlanProtocol.Q,
    trust=False,
    min_tx_rate=0,
    max_tx_rate=0,
    query_rss=False,
)


class VfCase(unittest.TestCase):
    def setUp(self):
        self.kernel = fakes.FakeKernel("igb")
        self.vfs = fakes.vfs(self.kernel)
        self.users = {}
        self.idle = fakes.vfs(
            self.kernel, lambda states: self.users, Kind.PORT
        )

    def clean(self, leftover=None, remains=None):
        """Clean the VF; return why not and what was changed."""
        error, why_not, changed, found = privileged.clean(
            self.idle, SLOT, leftover
        )
        self.assertIsNone(error)
        self.assertEqual(remains, found)
        return why_not, changed


class SettleTest(VfCase):
    def set_right(self, wanted=WANTED):
        """Set the VF right; return what was changed."""
        answer = privileged.set_right(self.vfs, SLOT, wanted, ())
        error, why_not, changed, remains = answer
        self.assertEqual([None] * 3, [error, why_not, remains])
        return changed

    def test_a_vf_as_it_should_be_is_not_written_to(self):
        self.kernel.change(1, mac=PORT_MAC, vlan=117, spoofchk=False)
        self.assertEqual([], self.set_right())
        self.assertEqual([], self.kernel.writes)

    def test_only_what_differs_is_set(self):
        self.kernel.change(1, mac=PORT_MAC, vlan=117, trust=True)
        self.assertEqual(["trust on -> off"], self.set_right())
        self.assertEqual([{1: VfSettings(trust=False)}], self.kernel.writes)

    def test_what_the_last_tenant_left_is_gone(self):
        self.kernel.change(
            1, mac=PORT_MAC, vlan=300, qos=5, trust=True, max_tx_rate=40
        )
        self.set_right()
        found = self.kernel.settings[1]
        self.assertEqual((117, 0), (found.vlan, found.qos))
        self.assertIs(False, found.trust)
        self.assertEqual(0, found.max_tx_rate)
        self.assertEqual(PORT_MAC, found.mac)

    def test_both_rates_are_written_together(self):
        self.kernel.change(1, vlan=117, max_tx_rate=40)
        self.set_right()
        (written,) = self.kernel.writes
        self.assertEqual(
            (0, 0), (written[1].min_tx_rate, written[1].max_tx_rate)
        )

    def test_a_vf_in_a_guest_keeps_its_driver(self):
        self.kernel.devices[1] = VfDevice("vfio-pci", iommu_group=40)
        self.kernel.change(1, mac=PORT_MAC, vlan=300)
        self.set_right()
        self.assertEqual([], self.kernel.binds)
        self.assertEqual(117, self.kernel.settings[1].vlan)

    def test_a_nic_without_trust_and_rates_is_no_failure(self):
        self.kernel = fakes.FakeKernel("sfc")
        self.vfs = fakes.vfs(self.kernel)
        self.kernel.change(
            1, trust=None, min_tx_rate=None, max_tx_rate=None, vlan=300
        )
        self.set_right()
        self.assertEqual(117, self.kernel.settings[1].vlan)


class WhoseTest(VfCase):
    def test_who_has_which_vf_is_read_again_after_a_start(self):
        tenancies = self.kernel.tenancies
        privileged.assign(tenancies, SLOT, "p1", False)
        privileged.assign(tenancies, "0000:01:10.0", "p2", True)
        found = privileged.assigned(tenancies)[2]
        self.assertEqual(
            ["0000:01:10.0 p2 leaving", f"{SLOT} p1 in use"], found
        )
        with unittest.mock.patch.object(
            privileged, "_assigned", lambda: privileged.assigned(tenancies)
        ):
            self.assertEqual(
                {
                    "0000:01:10.0": privileged.Slot("p2", left=True),
                    SLOT: privileged.Slot("p1", left=False),
                },
                privileged.PrivilegedVfs().assigned(),
            )
        privileged.assign(tenancies, SLOT, "", False)
        self.assertEqual(1, len(privileged.assigned(tenancies)[2]))

    def test_what_is_no_port_or_no_vf_is_not_written_down(self):
        tenancies = self.kernel.tenancies
        for slot, port in (("../x", "p1"), (SLOT, "p 1"), (SLOT, "x" * 99)):
            with self.assertRaises(ParseError):
                privileged.assign(tenancies, slot, port, False)
        with self.assertRaises(errors.NoSuchDevice):
            privileged.assign(tenancies, "0000:99:00.0", "p1", False)
        self.assertEqual([], privileged.assigned(tenancies)[2])

    def test_a_vf_of_another_manager_is_neither_set_nor_cleaned(self):
        for kind in (Kind.POD, Kind.VMI):
            for state in State:
                holder = Holder(kind, "x", "team/web-0", state, "dirty")
                self.kernel.tenancies.assign(SLOT, holder)
                self.kernel.change(1, vlan=7)
                with self.subTest(holder):
                    why_not, _ = self.clean()
                    self.assertIn("team/web-0", why_not)
                    if kind is Kind.POD:
                        with self.assertRaises(privileged.NotAllowed):
                            privileged.set_right(self.vfs, SLOT, WANTED, ())
                    self.assertEqual(7, self.kernel.settings[1].vlan)
                self.kernel.tenancies.release(SLOT, kind)

    def test_a_clean_vf_with_somebody_on_it_is_not_given_back(self):
        self.users = {SLOT: Use(on=("ipvlan ipvl0 in aa",))}
        why_not, _ = self.clean()
        self.assertIn("ipvl0", why_not)


class CleanTest(VfCase):
    def test_nothing_is_touched_while_another_has_the_vf(self):
        self.kernel.change(1, vlan=7)
        fakes.refused_while_another_holds(self, self.kernel, SLOT, self.clean)

    def test_a_vf_at_rest_is_brought_to_the_baseline(self):
        self.kernel.change(1, vlan=117, qos=3, max_tx_rate=40)
        self.kernel.change_device(1, promisc=True, allmulti=True)
        why_not, changed = self.clean()
        self.assertIsNone(why_not)
        self.assertTrue(changed)
        found = self.kernel.settings[1]
        self.assertEqual(
            (0, 0, False, 0),
            (found.vlan, found.qos, found.trust, found.max_tx_rate),
        )
        self.assertIs(False, self.kernel.devices[1].promisc)

    def test_a_clean_vf_is_not_written_to(self):
        self.assertEqual((None, []), self.clean())
        self.assertEqual([], self.kernel.writes)

    def test_a_mac_is_a_leftover_only_at_the_second_look(self):
        self.kernel.dirty(1)
        mac = "66:66:66:66:66:66"
        why_not, _ = self.clean(remains=mac)
        self.assertEqual(f"it has the MAC {mac} still", why_not)
        self.assertEqual([], self.kernel.writes)
        why_not, _ = self.clean(mac)
        self.assertIsNone(why_not)
        self.assertFalse(self.kernel.devices[1].promisc)
        self.assertNotEqual(mac, self.kernel.settings[1].mac)

    def test_another_mac_at_the_second_look_is_a_new_owners(self):
        self.kernel.change(1, mac=PORT_MAC)
        self.kernel.change_device(1, mac=PORT_MAC, address_type=ADDRESS_SET)
        why_not, _ = self.clean("66:66:66:66:66:66", remains=PORT_MAC)
        self.assertEqual(f"it has the MAC {PORT_MAC} still", why_not)
        self.assertEqual([], self.kernel.writes)

    def _left_alone(self, expected):
        self.kernel.change(1, vlan=117)
        why_not, changed = self.clean()
        self.assertIn(expected, why_not)
        self.assertEqual([], changed)
        self.assertEqual([], self.kernel.writes)

    def test_a_vf_that_a_guest_has_is_left_alone(self):
        self.kernel.devices[1] = VfDevice("vfio-pci", iommu_group=40)
        self._left_alone("a guest has it")

    def test_only_a_mac_becomes_a_leftover(self):
        self.kernel.change(1, vlan=117, mac=PORT_MAC)
        for device in (
            VfDevice("vfio-pci", iommu_group=40),
            VfDevice("igbvf", elsewhere=True),
            VfDevice("igbvf"),
        ):
            self.kernel.devices[1] = device
            first, _ = self.clean()
            again, changed = self.clean(PORT_MAC)
            self.assertEqual((first, []), (again, changed))
            self.assertIsNotNone(again)
        self.assertEqual([], self.kernel.writes)

    def test_a_vf_that_a_container_has_is_left_alone(self):
        self.kernel.devices[1] = VfDevice("igbvf", elsewhere=True)
        self._left_alone("another network namespace")

    def test_a_vf_whose_driver_is_coming_up_is_left_alone(self):
        self.kernel.devices[1] = VfDevice("igbvf")
        self._left_alone("no interface for it yet")

    def test_a_vf_under_a_macvtap_is_left_alone(self):
        self.kernel.change_device(1, uppers=("macvtap0",))
        self._left_alone("macvtap0 on enp1s0v1")

    def test_a_vf_that_others_use_elsewhere_is_left_alone(self):
        self.users = {SLOT: Use(on=("macvlan mv0 in red",))}
        self._left_alone("in use: macvlan mv0 in red")
        self.users = {}
        self.kernel.carrying = {"enp1s0v1"}
        self._left_alone("something that cannot be seen")

    def test_a_trusted_vf_of_an_82576_is_trusted_no_more(self):
        # Its PF keeps filters; Nova hands it on all the same, and that is
        # said of it, now and when it is cleaned the next time.
        remains = "enp1s0 keeps MAC filters that were set through the VF"
        self.kernel.change(1, vlan=117, trust=True)
        self.clean(remains=remains)
        self.clean(remains=remains)
        self.assertEqual(0, self.kernel.settings[1].vlan)
        self.assertFalse(self.kernel.settings[1].trust)

    def test_a_vf_that_is_a_port_of_our_own_is_left_alone(self):
        self.users = {SLOT: Use(ports=("port p1 of web",))}
        self._left_alone("in use: port p1 of web")

    def test_an_alias_keeps_no_vf_dirty(self):
        # The tenant that had it could set one.
        for alias in ("sriov-rt:p1:web", "sriov-rt:parent"):
            self.kernel.change(1, vlan=117)
            self.kernel.change_device(1, alias=alias)
            self.assertEqual(None, self.clean()[0])
            self.assertEqual(0, self.kernel.settings[1].vlan)

    def test_a_vf_without_a_driver_is_cleaned(self):
        for number in (0, 2):
            self.kernel.provision("enp1s0", number, probe=False)
        self.kernel.change(1, vlan=117)
        self.assertIsNone(self.clean()[0])
        self.assertEqual(0, self.kernel.settings[1].vlan)


class DaemonTest(VfCase):
    """The entry points, run in this process."""

    def setUp(self):
        super().setUp()
        for each in (privileged.vf_set, privileged.vf_clean):
            each.set_client_mode(False)
            self.addCleanup(each.set_client_mode, True)
        self._patch("_vfs", lambda: self.vfs)
        self._patch("_idle_vfs", lambda: self.idle)
        self.ports = set()
        self._patch("_ports", lambda: self.ports)
        self.privileged = privileged.PrivilegedVfs()

    def _patch(self, name, value):
        patched = unittest.mock.patch.object(privileged, name, value)
        patched.start()
        self.addCleanup(patched.stop)

    def test_set_and_clean_come_through(self):
        changed = self.privileged.set_right(SLOT, WANTED)
        self.assertEqual(["vlan 0 -> 117"], list(changed))
        why_not, changed, remains = self.privileged.clean(SLOT, None)
        self.assertEqual((None, None), (why_not, remains))
        self.assertEqual(["vlan 117 -> 0"], list(changed))

    def test_what_no_port_has_set_is_refused(self):
        for wanted in (
            VfSettings(driver="vfio-pci"),
            VfSettings(mac=PORT_MAC),
            VfSettings(spoofchk=False, vlan=117),
        ):
            with (
                self.subTest(wanted),
                self.assertRaises(privileged.VfNotDone) as raised,
            ):
                self.privileged.set_right(SLOT, wanted)
            self.assertIn("is not a port's", str(raised.exception))
        self.ports = {SLOT}
        with self.assertRaises(privileged.VfNotDone) as raised:
            self.privileged.set_right(SLOT, WANTED)
        self.assertIn("a port of sriov-rt is on it", str(raised.exception))
        self.assertEqual([], self.kernel.writes)
        self.assertEqual([], self.kernel.binds)

    def test_an_error_comes_with_its_sentence(self):
        with self.assertRaises(privileged.VfNotDone) as raised:
            self.privileged.set_right("0000:09:10.1", WANTED)
        self.assertIn("no VF", str(raised.exception))

    def test_it_can_be_started_before_it_is_needed(self):
        self.privileged.start()
        for name in ("_ready_to_set", "_ready_to_clean"):
            self._patch(name, unittest.mock.Mock(side_effect=OSError))
            with self.assertRaises(privileged.DaemonMissing):
                self.privileged.start()

    def test_each_need_has_its_capabilities_and_no_other(self):
        # In a process of its own, as a configuration that has been read in
        # this one may say it by names.
        done = subprocess.run(
            (sys.executable, "-W", "ignore", "-c", _CAPABILITIES),
            check=True,
            capture_output=True,
            text=True,
        )
        net_admin = capabilities.CAP_NET_ADMIN
        self.assertEqual(
            {
                "vf_set": [net_admin],
                "vf_clean": [
                    net_admin,
                    capabilities.CAP_SYS_PTRACE,
                    capabilities.CAP_SYS_ADMIN,
                ],
            },
            json.loads(done.stdout),
        )
        for name in ("vf_set", "vf_clean"):
            self.assertEqual(
                f"sriov_rt.neutron.privileged.{name}",
                getattr(privileged, name).pypath,
            )

    def test_a_daemon_that_gives_no_answer_is_named(self):
        for error in (
            daemon.FailedToDropPrivileges("no sudo"),
            OSError(32, "Broken pipe"),
        ):
            self._patch("_clean", unittest.mock.Mock(side_effect=error))
            with (
                self.subTest(error=error),
                self.assertRaises(privileged.DaemonMissing) as raised,
            ):
                self.privileged.clean(SLOT, None)
            self.assertIn("helper_command", str(raised.exception))

    def test_a_daemon_that_is_stopped_is_named(self):
        stopped = threading.Event()
        self.addCleanup(stopped.set)
        self._patch("_clean", lambda *_: stopped.wait())
        self._patch("ANSWER_S", 0.5)
        with self.assertRaisesRegex(
            privileged.DaemonMissing, "has not ended within 0.[0-9]+ s"
        ):
            self.privileged.clean(SLOT, None)
