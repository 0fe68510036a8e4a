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

"""What the demonstration says about a guest."""

import unittest

from tests.testbed import guest_view

_DOMAIN = """
<domain>
  <metadata>
    <sriov_rt:guest xmlns:sriov_rt="https://docs.openstack.org/sriov-rt/g"
        class="lean">strip: rng</sriov_rt:guest>
  </metadata>
  <cputune>
    <vcpupin vcpu="0" cpuset="2"/>
  </cputune>
  <devices>
    <disk type="file"><target dev="sda" bus="sata"/></disk>
    <disk type="file"><target dev="sdb" bus="sata"/></disk>
    <memballoon model="none"/>
    <controller type="pci" model="pcie-root-port"/>
  </devices>
</domain>
"""


_THREADS = """\
71:3:1:1:3:CPU 1/TCG
70:0:0:0:0-1:qemu-system-x86
72:1:0:7:0-1:IO mon: iothread
"""


class ThreadsTest(unittest.TestCase):
    def test_a_line_is_a_thread(self) -> None:
        vcpu, main, worker = guest_view.parse_threads(_THREADS)
        self.assertEqual(
            guest_view.Thread(
                tid=71,
                name="CPU 1/TCG",
                processor=3,
                priority=1,
                policy="FIFO",
                allowed=frozenset({3}),
            ),
            vcpu,
        )
        self.assertEqual(("OTHER", {0, 1}), (main.policy, main.allowed))
        # A name may have a colon; a policy that is new keeps its number.
        self.assertEqual(
            ("IO mon: iothread", "7"), (worker.name, worker.policy)
        )

    def test_vcpus_are_told_by_their_names(self) -> None:
        self.assertEqual(
            [1, None, None],
            [each.vcpu for each in guest_view.parse_threads(_THREADS)],
        )

    def test_lists_of_cpus_in_any_form_are_equal(self) -> None:
        self.assertEqual({0, 1, 2, 5}, guest_view.cpus("0-2,5\n"))
        self.assertEqual(guest_view.cpus("0,1"), guest_view.cpus("0-1"))
        self.assertEqual(set(), guest_view.cpus(""))


class GuestViewTest(unittest.TestCase):
    def test_counts_devices_by_kind(self) -> None:
        self.assertEqual(
            {"disk file sata": 2, "memballoon none": 1},
            guest_view.devices(_DOMAIN),
        )

    def test_shows_pins(self) -> None:
        self.assertEqual(
            ["vcpupin vcpu=0 cpuset=2"], guest_view.cpu_tuning(_DOMAIN)
        )

    def test_a_domain_without_pins_has_none_to_show(self) -> None:
        self.assertEqual([], guest_view.cpu_tuning("<domain/>"))

    def test_shows_our_metadata(self) -> None:
        self.assertEqual(
            "class=lean: strip: rng", guest_view.our_metadata(_DOMAIN)
        )
