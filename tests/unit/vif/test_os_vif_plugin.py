# SPDX-License-Identifier: Apache-2.0

import json
import subprocess
import sys
import unittest
from unittest import mock

import os_vif
from os_vif import exception
from os_vif import objects
from os_vif.objects import vif as vifs

from sriov_rt.kernel.tc import Limits
from sriov_rt.vif import log
from sriov_rt.vif import os_vif_plugin
from sriov_rt.vif import privsep
from sriov_rt.vif.model import Kind
from tests.unit.vif import fake_plugger

PORT = "0f6b7f4a-2a3c-4a5e-9f0b-6b5d1c2e3f40"
NETWORK = "7a5e1f6c-2f43-4a53-9a2a-5a3c07d5f0c1"
INSTANCE = "5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa"

#: Loads the plugins as nova-compute does, and tells what that touched.
#: os_vif itself imports pyroute2, whose import runs uname(1) and file(1) up
#: to release 0.8, so it is imported before anything is watched.
_LOAD = """
import json, sys
import pyroute2
seen = []
def hook(event, arguments):
    if event == "socket.__new__":
        seen.append("socket")
    elif event == "subprocess.Popen":
        seen.append("process")
    elif event == "open" and str(arguments[0]).startswith("/etc/sriov"):
        seen.append(str(arguments[0]))
sys.addaudithook(hook)
import os_vif
os_vif.initialize()
names = [each.plugin_name for each in os_vif.host_info().plugin_info]
edges = [m for m in ("sriov_rt.kernel.links", "sriov_rt.vif.plugger")
         if m in sys.modules]
print(json.dumps([names, seen, edges]))
"""


def profile(**given: object) -> os_vif_plugin.VIFPortProfileSriovRt:
    wanted = {"kind": "macvlan", "physical_network": "physnet1", **given}
    return os_vif_plugin.VIFPortProfileSriovRt(**wanted)


def generic(**given: object) -> vifs.VIFGeneric:
    wanted = {
        "id": PORT,
        "plugin": os_vif_plugin.NAME,
        "vif_name": "srt0f6b7f4a-2a",
        "port_profile": profile(),
        **given,
    }
    return vifs.VIFGeneric(**wanted)


class PluginTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.plugger = fake_plugger.FakePlugger()
        for target, name, new in (
            (privsep, "_host_plugger", lambda: self.plugger),
            (privsep.vif_plug, "client_mode", False),
        ):
            patched = mock.patch.object(target, name, new)
            patched.start()
            self.addCleanup(patched.stop)
        self.plugin = os_vif_plugin.SriovRtPlugin.load("sriov_rt")
        self.instance = objects.instance_info.InstanceInfo(
            uuid=INSTANCE, name="instance-1"
        )


class PlugTest(PluginTest):
    def test_a_vif_becomes_a_port(self):
        network = objects.network.Network(id=INSTANCE, mtu=9000)
        self.plugin.plug(
            generic(
                address="02:00:00:00:00:07",
                network=network,
                port_profile=profile(
                    kind="macvtap",
                    mode="private",
                    vlan=100,
                    out_kbps=8000,
                    in_kbps=16000,
                    numa_node=1,
                ),
            ),
            self.instance,
        )
        (asked,) = self.plugger.asked
        self.assertEqual(PORT, asked.port)
        self.assertEqual(INSTANCE, asked.owner)
        self.assertIs(Kind.MACVTAP, asked.kind)
        self.assertEqual("private", asked.mode)
        self.assertEqual("physnet1", asked.physical_network)
        self.assertEqual("srt0f6b7f4a-2a", asked.name)
        self.assertEqual("02:00:00:00:00:07", asked.mac)
        self.assertEqual(100, asked.vlan)
        self.assertEqual(9000, asked.mtu)
        self.assertEqual(Limits(8000, 16000), asked.limits)
        self.assertEqual(1, asked.numa_node)
        self.assertIsNone(asked.namespace)

    def test_what_the_profile_leaves_out_has_the_kinds_default(self):
        self.plugin.plug(generic(), self.instance)
        (asked,) = self.plugger.asked
        self.assertEqual("bridge", asked.mode)
        self.assertEqual(0, asked.vlan)
        self.assertIsNone(asked.mtu)
        self.assertEqual(Limits(), asked.limits)

    def test_a_vif_without_an_address_gets_that_of_the_port(self):
        vif = generic()
        self.plugin.plug(vif, self.instance)
        self.assertEqual(fake_plugger.MAC, vif.address)

    def test_an_ipvlan_has_the_mac_of_its_parent(self):
        vif = generic(
            address="02:00:00:00:00:07", port_profile=profile(kind="ipvlan")
        )
        self.plugin.plug(vif, self.instance)
        self.assertIsNone(self.plugger.asked[0].mac)
        self.assertEqual("02:00:00:00:00:07", vif.address)

    def test_the_profile_says_whether_it_is_accelerated(self):
        for wins in (True, False):
            self.plugger.ports.clear()
            self.plugger.accelerates = wins
            vif = generic(port_profile=profile(network=NETWORK, onload=True))
            self.plugin.plug(vif, self.instance)
            asked = self.plugger.asked[-1]
            self.assertEqual((NETWORK, True), (asked.network, asked.onload))
            self.assertIs(wins, vif.port_profile.onload)

    def test_a_profile_of_before_asks_for_no_onload(self):
        vif = generic()
        self.plugin.plug(vif, self.instance)
        (asked,) = self.plugger.asked
        self.assertEqual((None, False), (asked.network, asked.onload))
        self.assertIs(False, vif.port_profile.onload)

    def test_an_older_reader_gets_a_profile_that_it_knows(self):
        made = profile(network=NETWORK, onload=True)
        for version, there in (("1.0", False), ("1.1", True)):
            plain = made.obj_to_primitive(target_version=version)
            found = plain["versioned_object.data"]
            self.assertEqual(there, "onload" in found)
            self.assertEqual(there, "network" in found)
            self.assertIn("physical_network", found)

    def test_a_port_and_its_vf_are_in_the_log(self):
        with self.assertLogs(os_vif_plugin.__name__, "INFO") as logged:
            self.plugin.plug(generic(), self.instance)
        said = logged.records[0].getMessage()
        self.assertTrue(
            said.startswith(log.about(PORT, fake_plugger.VF)), said
        )
        self.assertIn(f" instance={INSTANCE} plugged as ", said)

    def test_a_refusal_keeps_its_sentence(self):
        self.plugger.fail = fake_plugger.no_parent(PORT)
        with self.assertRaises(exception.PlugException) as caught:
            self.plugin.plug(generic(), self.instance)
        self.assertEqual(
            str(self.plugger.fail), caught.exception.format_message()
        )

    def test_a_vif_of_another_class_is_refused(self):
        vif = vifs.VIFDirect(id=PORT, port_profile=profile())
        with self.assertRaisesRegex(
            exception.PlugException, "takes a VIFGeneric"
        ):
            self.plugin.plug(vif, self.instance)

    def test_a_profile_that_is_not_ours_is_refused(self):
        vif = generic(port_profile=vifs.VIFPortProfileOpenVSwitch())
        with self.assertRaisesRegex(exception.PlugException, "port_profile"):
            self.plugin.plug(vif, self.instance)

    def test_a_profile_without_a_network_is_refused(self):
        half = os_vif_plugin.VIFPortProfileSriovRt(kind="vf")
        with self.assertRaisesRegex(
            exception.PlugException, "physical_network"
        ):
            self.plugin.plug(generic(port_profile=half), self.instance)

    def test_values_that_no_port_can_have_are_refused(self):
        for wrong in (
            {"mode": "l2"},
            {"vlan": 4095},
            {"physical_network": "../etc"},
            {"out_kbps": 0},
        ):
            with (
                self.subTest(**wrong),
                self.assertRaises(exception.PlugException),
            ):
                vif = generic(port_profile=profile(**wrong))
                self.plugin.plug(vif, self.instance)
        self.assertEqual([], self.plugger.asked)


class UnplugTest(PluginTest):
    def test_it_is_gone(self):
        self.plugin.plug(generic(), self.instance)
        with self.assertLogs(os_vif_plugin.__name__, "INFO") as logged:
            self.plugin.unplug(generic(), self.instance)
        self.assertEqual({}, self.plugger.ports)
        self.assertEqual(
            f"{log.about(PORT)} instance={INSTANCE} unplugged",
            logged.records[0].getMessage(),
        )

    def test_what_is_gone_is_no_error(self):
        with self.assertLogs(os_vif_plugin.__name__, "INFO") as logged:
            self.plugin.unplug(generic(), self.instance)
        self.assertIn("was not plugged", logged.records[0].getMessage())

    def test_a_refusal_keeps_its_sentence(self):
        self.plugger.fail = fake_plugger.no_parent(PORT)
        with self.assertRaises(exception.UnplugException) as caught:
            self.plugin.unplug(generic(), self.instance)
        self.assertEqual(
            str(self.plugger.fail), caught.exception.format_message()
        )


class LoadingTest(unittest.TestCase):
    def test_it_is_loaded_without_configuration_and_touches_nothing(self):
        done = subprocess.run(
            (sys.executable, "-W", "ignore", "-c", _LOAD),
            check=True,
            capture_output=True,
            text=True,
        )
        names, seen, edges = json.loads(done.stdout)
        self.assertIn("sriov_rt", names)
        self.assertEqual([], seen)
        self.assertEqual([], edges)

    def test_a_caller_of_os_vif_gets_the_sentence(self):
        os_vif.initialize()
        refused = fake_plugger.FakePlugger(fake_plugger.no_parent(PORT))
        instance = objects.instance_info.InstanceInfo(uuid=INSTANCE, name="i")
        with (
            mock.patch.object(privsep, "_host_plugger", lambda: refused),
            mock.patch.object(privsep.vif_plug, "client_mode", False),
            self.assertRaises(exception.PlugException) as caught,
        ):
            os_vif.plug(generic(), instance)
        self.assertIn(str(refused.fail), str(caught.exception))

    def test_the_profile_survives_a_message(self):
        objects.register_all()
        sent = generic(port_profile=profile(mode="vepa", vlan=7))
        found = vifs.VIFGeneric.obj_from_primitive(sent.obj_to_primitive())
        self.assertIsInstance(
            found.port_profile, os_vif_plugin.VIFPortProfileSriovRt
        )
        self.assertEqual("vepa", found.port_profile.mode)
        self.assertEqual(7, found.port_profile.vlan)

    def test_callers_find_what_is_supported(self):
        objects.register_all()
        described = os_vif_plugin.SriovRtPlugin(None).describe()
        (info,) = described.vif_info
        self.assertEqual("VIFGeneric", info.vif_object_name)
        self.assertEqual("1.0", info.get_common_version())
        (supported,) = info.supported_port_profiles
        self.assertEqual("1.1", supported.get_common_version())
