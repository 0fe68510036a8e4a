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

from unittest import mock

from sriov_rt.nic import errors
from sriov_rt.nic import kernel
from sriov_rt.nic import vfs
from sriov_rt.nic.families import Families
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from tests.unit.host import trees
from tests.unit.nic import fakes

VF = VfId("eno1", 0, "0000:3b:02.0")


class MachineTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(kernel, "Rtnetlink")
        self.netlink = patch.start().return_value
        self.addCleanup(patch.stop)
        patch = mock.patch.object(kernel, "sysfs")
        self.drivers = patch.start()
        self.addCleanup(patch.stop)
        self.machine = kernel.Machine(str(self.tree.path))

    def flags(self, text):
        self.tree.write(
            f"sys/bus/pci/devices/{VF.address}/net/eno1v0/flags", text
        )

    def test_sysfs_tells_what_there_is(self):
        self.assertEqual(("eno1",), self.machine.pfs())
        self.assertEqual(VF, self.machine.pf("eno1").vfs[0])
        self.assertEqual(VF, self.machine.locate("eno1v0"))

    def test_netlink_is_asked_only_if_an_interface_takes_all(self):
        self.flags("0x1003\n")
        self.assertIs(False, self.machine.device(VF).promisc)
        self.netlink.flags.assert_not_called()
        # Something on top, such as a bridge, needs it: nobody set it.
        self.flags("0x1103\n")
        self.netlink.flags.return_value = (False, False)
        self.assertIs(False, self.machine.device(VF).promisc)

    def test_a_mark_ends_with_the_vf(self):
        self.assertFalse(self.machine.has_mark(VF))
        for _ in range(2):
            self.machine.mark_filters(VF)
            self.assertTrue(self.machine.has_mark(VF))
        device = self.tree.path / f"sys/bus/pci/devices/{VF.address}"
        # Its VFs are made again: the directory is another one.
        device.rename(device.with_name("before"))
        self.assertFalse(self.machine.has_mark(VF))
        self.machine.mark_filters(VF)
        self.assertFalse(self.machine.has_mark(VF))
        device.mkdir()
        self.assertFalse(self.machine.has_mark(VF))

    def test_a_mark_that_cannot_be_written(self):
        self.tree.write("run/sriov-rt", "no directory")
        with self.assertRaises(errors.NotMarked) as caught:
            self.machine.mark_filters(VF)
        self.assertIn("filters/0000:3b:02.0 cannot", str(caught.exception))

    def test_settings_go_over_netlink(self):
        wanted = {0: VfSettings(vlan=3)}
        self.netlink.read.return_value = {0: fakes.FRESH}
        self.assertEqual({0: fakes.FRESH}, self.machine.read("eno1"))
        self.machine.write("eno1", wanted)
        self.netlink.write.assert_called_once_with("eno1", wanted)
        self.machine.set_netdev("eno1v0", wanted[0])
        self.netlink.set_netdev.assert_called_once_with("eno1v0", wanted[0])
        self.machine.rename("eth0", "eno1v0")
        self.netlink.rename.assert_called_once_with("eth0", "eno1v0")

    def test_drivers_are_bound_through_sysfs(self):
        self.machine.bind(VF, "iavf")
        self.machine.flr(VF)
        self.machine.provision("eno1", 4, probe=True)
        for verb, words in (
            (self.drivers.bind, (VF, "iavf")),
            (self.drivers.flr, (VF,)),
            (self.drivers.provision, ("eno1", 4)),
        ):
            self.assertEqual(words, verb.call_args.args[1:])

    def test_verbs_of_this_host(self):
        found = vfs.Vfs(self.machine, Families.installed())
        self.netlink.read.return_value = dict.fromkeys(range(4), fakes.FRESH)
        state = found.observe(VF)
        self.assertEqual("i40e", state.family)
        self.assertEqual("eno1v0", state.netdev)
        self.assertEqual("sriov-rt instance 7c", state.alias)
