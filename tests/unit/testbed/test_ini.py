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

"""Configuration files of the test cloud."""

import unittest

from tests.testbed import ini


class RenderTest(unittest.TestCase):
    def test_writes_values_as_oslo_config_reads_them(self) -> None:
        text = ini.render({"DEFAULT": {"debug": True, "workers": 2}})
        self.assertEqual("[DEFAULT]\ndebug = true\nworkers = 2\n", text)

    def test_repeats_the_option_for_each_value_of_a_tuple(self) -> None:
        text = ini.render({"pci": {"device_spec": ("a", "b")}})
        self.assertEqual("[pci]\ndevice_spec = a\ndevice_spec = b\n", text)

    def test_leaves_an_option_without_values_out(self) -> None:
        self.assertEqual("[pci]\n", ini.render({"pci": {"device_spec": ()}}))
