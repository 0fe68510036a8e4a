# SPDX-License-Identifier: Apache-2.0

import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.cni import sriov_cni
from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.nic.model import BASELINE

VF = "0000:01:10.0"


def note(**fields):
    """Return a note as sriov-cni writes it."""
    found = {
        "OrigVfState": {"SpoofChk": True, "AdminMAC": "00:00:00:00:00:00"},
        "Master": "enp1s0",
        "MAC": "",
        "MTU": None,
        "VFID": 0,
        "cniVersion": "0.3.1",
        "deviceID": VF,
        "max_tx_rate": None,
        "min_tx_rate": None,
        "name": "fast",
        "type": "sriov",
        "vlan": None,
        "vlanProto": None,
        "vlanQoS": None,
    }
    return {**found, **fields}


class SettingsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        (self.path / "pci").mkdir()

    def write(self, name="c1-net1", at=1000, **fields):
        path = self.path / name
        path.write_text(json.dumps(note(**fields)))
        os.utime(path, (at, at))

    def read(self):
        return sriov_cni.settings(VF, self.path)

    def refused(self, part):
        with self.assertRaises(sriov_cni.CniUnknown) as caught:
            self.read()
        self.assertIn(VF, str(caught.exception))
        self.assertIn(part, str(caught.exception))

    def test_a_network_that_says_nothing_wants_the_baseline(self):
        self.write()
        self.assertEqual(BASELINE, self.read())

    def test_what_a_network_says(self):
        self.write(
            MAC="52:54:00:AA:BB:CC",
            vlan=100,
            vlanQoS=3,
            vlanProto="802.1ad",
            spoofchk="off",
            trust="on",
            link_state="enable",
            min_tx_rate=10,
            max_tx_rate=1000,
        )
        found = self.read()
        self.assertEqual("52:54:00:aa:bb:cc", found.mac)
        self.assertEqual((100, 3), (found.vlan, found.qos))
        self.assertEqual(VlanProtocol.AD, found.vlan_protocol)
        self.assertEqual((False, True), (found.spoofchk, found.trust))
        self.assertEqual(LinkState.ENABLE, found.link_state)
        self.assertEqual((10, 1000), (found.min_tx_rate, found.max_tx_rate))

    def test_of_two_notes_the_later_counts(self):
        self.write("z-net1", at=1000, vlan=1)
        self.write("a-net1", at=2000, vlan=2)
        self.write("b-net1", at=3000, vlan=3, deviceID="0000:01:10.1")
        self.assertEqual(2, self.read().vlan)

    def test_none_names_it(self):
        self.write(deviceID="0000:01:10.1")
        self.refused("no network has set it up")

    def test_a_damaged_note_may_be_the_latest(self):
        self.write(at=1000, vlan=1)
        for text in ('{"deviceID": "0000:01', "[]", ""):
            with self.subTest(text=text):
                other = self.path / "a-net1"
                other.write_text(text)
                os.utime(other, (2000, 2000))
                self.refused(f"{other} is damaged")
                os.utime(other, (999, 999))
                self.assertEqual(1, self.read().vlan)

    def test_too_many_notes(self):
        self.write()
        with mock.patch.object(sriov_cni, "_MAX_FILES", 1):
            self.refused("more than 1 files); remove those ")

    def test_a_note_that_cannot_be_read(self):
        for field, value in (
            ("vlan", "7"),
            ("vlan", True),
            ("spoofchk", "maybe"),
            ("trust", 1),
        ):
            with self.subTest(field=field):
                self.write(**{field: value})
                self.refused(f"({field}: ")

    def test_a_directory_that_is_not_mounted(self):
        self.path = self.path / "missing"
        self.refused("mount ")
