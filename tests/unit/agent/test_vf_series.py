# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib
import tempfile
import unittest

from sriov_rt.agent import vf_series
from sriov_rt.codec import Unknown
from sriov_rt.facts import CountedVf
from sriov_rt.facts import VfCounters
from sriov_rt.host import guest_processes
from sriov_rt.host.root import Root

UUID = "3b7e1f90-1111-2222-3333-3b7e1f903b7e"
VF = CountedVf(
    *("enp1s0", 3, "0000:01:10.3", "port-1", "guest-1", False),
    VfCounters(3, 300, 1, 2, 200, 0),
    1,
)
STATUS = f"""\
<domstatus state='running' reason='booted' pid='90'>
<domain type='kvm'><name>i</name><uuid>{UUID}</uuid><devices>
<hostdev mode='subsystem' type='pci' managed='yes'><source>
<address domain='0x0000' bus='0x01' slot='0x10' function='0x3'/>
</source></hostdev></devices></domain></domstatus>
"""


class SeriesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        self.root = Root(directory.name)

    def samples(self, *found):
        return {
            (name, labels["instance_uuid"]): value
            for name, labels, value in vf_series.samples(found, self.root)
        }

    def test_a_vf(self):
        found = self.samples(VF)
        self.assertEqual(vf_series.HELP.keys(), {name for name, _ in found})
        self.assertEqual(
            300.0, found["sriov_rt_vf_receive_bytes_total", "guest-1"]
        )
        self.assertEqual(
            1.0, found["sriov_rt_vf_settings_differing", "guest-1"]
        )

    def test_another_owner_is_another_series(self):
        other = dataclasses.replace(VF, instance="guest-2")
        before, after = self.samples(VF), self.samples(other)
        self.assertEqual(set(), before.keys() & after.keys())

    def test_what_nobody_counts(self):
        bare = dataclasses.replace(VF, counters=Unknown("no"), differing=None)
        self.assertEqual(
            {("sriov_rt_vf_counters_known", "guest-1"): 0.0},
            self.samples(bare),
        )

    def test_the_guest_that_has_it_as_a_whole(self):
        whole = dataclasses.replace(VF, instance="", passed=True)
        known = "sriov_rt_vf_counters_known"
        self.assertIn((known, ""), self.samples(whole))
        directory = self.place / guest_processes.MACHINES
        directory.mkdir(parents=True)
        (directory / "i.xml").write_text(STATUS)
        (self.place / "proc/90").mkdir(parents=True)
        (self.place / "proc/90/cmdline").write_text(f"qemu\0{UUID}\0")
        self.assertIn((known, UUID), self.samples(whole))
        # One that has a record is its record's.
        self.assertIn((known, "guest-1"), self.samples(VF))

    def test_the_text(self):
        odd = dataclasses.replace(VF, instance='a"b\\c\nd')
        text = vf_series.text(vf_series.samples((odd,), self.root))
        self.assertIn(
            'sriov_rt_vf_receive_packets_total{pf="enp1s0",vf="3",'
            'port="port-1",instance_uuid="a\\"b\\\\c\\nd"} 3\n',
            text,
        )
        for name in vf_series.HELP:
            self.assertEqual(1, text.count(f"# HELP {name} "))
            kind = "counter" if name.endswith("_total") else "gauge"
            self.assertIn(f"# TYPE {name} {kind}\n", text)
