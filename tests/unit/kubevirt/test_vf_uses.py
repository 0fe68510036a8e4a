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


import pathlib
import tempfile
import unittest

from sriov_rt.kubevirt.vf_uses import RecordsUnusable
from sriov_rt.kubevirt.vf_uses import VfUse
from sriov_rt.kubevirt.vf_uses import VfUses

VF = "0000:01:10.0"
USE = VfUse(VF, "uid", "realtime/rt", ready=True)


class VfUsesTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "kubevirt")
        self.uses = VfUses(self.path)

    def test_what_was_put_is_there_until_it_is_removed(self):
        self.assertEqual((), self.uses.all())
        self.uses.put(USE)
        self.assertEqual((USE,), VfUses(self.path).all())
        self.assertEqual(USE, self.uses.get(VF))
        self.uses.remove(VF)
        self.uses.remove(VF)
        self.assertIsNone(self.uses.get(VF))

    def test_a_damaged_record_is_of_nobody_and_stays(self):
        self.uses.put(USE)
        (self.path / f"{VF}.json").write_text("{")
        (self.path / ".half.new").write_text("{")
        (found,) = self.uses.all()
        self.assertEqual((VF, "", False), (found.vf, found.uid, found.ready))
        self.assertIn("damaged", found.reason)

    def test_others_may_not_write_there(self):
        self.path.mkdir()
        self.path.chmod(0o777)
        with self.assertRaises(RecordsUnusable) as caught:
            self.uses.put(USE)
        self.assertIn("can be written by others", str(caught.exception))

    def test_a_file_in_the_directorys_place(self):
        self.path.write_text("x")
        for act in (self.uses.all, lambda: self.uses.put(USE)):
            with self.assertRaises(RecordsUnusable):
                act()
