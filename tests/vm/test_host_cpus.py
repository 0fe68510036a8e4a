# SPDX-License-Identifier: Apache-2.0

"""sriov-rt host, where Nova or a cgroup takes CPUs from guests or gives them.

CPUs go offline and partitions are made as the kernel does it: what it then
shows of them, and what not, is what the verdict is given by.
"""

import json
from typing import Any

from tests.periodic import periodic
from tests.vm import base

CPU = "/sys/devices/system/cpu"
CGROUP = "/sys/fs/cgroup"
GUESTS = f"{CGROUP}/machine.slice"
OTHER = f"{CGROUP}/rt.slice"
#: Below /run, since the machine's /etc is that of the machine around it.
NOVA = "run/sriov-rt-test/nova.conf"

#: A partition that is removed gives its CPUs back when the kernel comes to
#: that (cgroup_destroy_wq); one that becomes a member does so at once.
_CLEAN = f"""
set -e
rm -f /{NOVA}
for cpu in 1 2 3; do echo 1 > {CPU}/cpu$cpu/online; done
for cgroup in {OTHER} {GUESTS}; do
    [ -d $cgroup ] || continue
    while read -r pid; do
        echo $pid > {CGROUP}/cgroup.procs
    done < $cgroup/cgroup.procs
    echo member > $cgroup/cpuset.cpus.partition
    rmdir $cgroup
done
for n in $(seq 300); do
    [ "$(cat {CGROUP}/cpuset.cpus.effective)" != "$(cat {CPU}/online)" ] ||
        exit 0
    sleep 0.1
done
grep . {CGROUP}/cpuset.cpus.effective {CPU}/online {CGROUP}/*/cpuset.cpus* >&2
exit 1
"""


@periodic
class HostCpusTest(base.VmTestCase):
    """The kernel's CPU hotplug and cpusets, and Nova's configuration."""

    def setUp(self) -> None:
        """Begin with no cgroup of guests, and all CPUs online."""
        super().setUp()
        self.addCleanup(self.sh, _CLEAN)

    def _nova(self, *options: str) -> None:
        lines = "\n".join(
            ("[compute]", "cpu_dedicated_set = 2-3", "[libvirt]", *options)
        )
        self.sh(
            f'mkdir -p "$(dirname /{NOVA})"; '
            f"printf '%s\\n' '{lines}' > /{NOVA}"
        )

    def _check(self, *, isolated: bool = True) -> dict[str, str]:
        """Return code and sentence of each thing that must be changed.

        :param isolated: whether the machine's own isolcpus counts; a file
            over the kernel's hides it otherwise.
        """
        hidden = f"{CPU}/isolated"
        if not isolated:
            self.sh(
                "echo > /run/none-isolated; "
                f"mount --bind /run/none-isolated {hidden}"
            )
        try:
            result = self.command(
                "host", "check", "--nova-config", NOVA, "--json"
            )
        finally:
            if not isolated:
                self.sh(f"umount {hidden}")
        found: dict[str, Any] = json.loads(result.text)
        reasons = {each["code"]: each["message"] for each in found["reasons"]}
        # No nova-compute runs in this machine.
        del reasons["compute_driver_missing"]
        return reasons

    def _make(self, cgroup: str, cpus: str, state: str) -> None:
        self.sh(
            f"mkdir {cgroup}; echo {cpus} > {cgroup}/cpuset.cpus; "
            f"echo {state} > {cgroup}/cpuset.cpus.partition"
        )

    def _set_online(self, online: bool) -> None:
        for cpu in (2, 3):
            self.sh(f"echo {int(online)} > {CPU}/cpu{cpu}/online")

    def test_pcpus_that_nova_takes_offline(self) -> None:
        """An idle host of cpu_power_management is ready, on and offline."""
        self._nova()
        self._set_online(False)
        self.assertEqual({"cpus_offline"}, set(self._check()))
        self._nova("cpu_power_management = true")
        self.assertEqual({}, self._check())
        self._set_online(True)
        self.assertEqual({}, self._check())

    def test_a_strategy_that_cannot_hold(self) -> None:
        """The machine's CPUs have no governors for Nova to change."""
        self._nova(
            "cpu_power_management = true",
            "cpu_power_management_strategy = governor",
        )
        self.assertEqual({"governor_missing"}, set(self._check()))

    def test_isolated_by_the_partition_of_guests(self) -> None:
        """With isolcpus hidden, libvirt's own partition isolates."""
        self._nova("cpu_power_management = true")
        found = self._check(isolated=False)
        self.assertEqual({"cpus_not_isolated"}, set(found))
        self._make(GUESTS, "1-3", "isolated")
        self.assertEqual({}, self._check(isolated=False))
        self._set_online(False)
        self.assertEqual({}, self._check(isolated=False))

    def test_a_partition_that_the_kernel_refuses(self) -> None:
        """Its reason is what the operator reads."""
        self._nova()
        self._make(GUESTS, "1-3", "isolated")
        self._make(OTHER, "2", "isolated")
        found = self._check(isolated=False)
        self.assertEqual({"cpus_not_isolated", "partition_invalid"}, {*found})
        self.assertIn(
            "isolated invalid (Cpu list in cpuset.cpus not exclusive)",
            found["partition_invalid"],
        )

    def test_pcpus_in_the_partition_of_another(self) -> None:
        """Guests cannot have them: the kernel refuses, and so does check."""
        self._nova()
        self._make(OTHER, "2-3", "isolated")
        found = self._check()
        self.assertEqual({"cpus_in_other_partition"}, set(found))
        self.assertIn(OTHER, found["cpus_in_other_partition"])
        pinned = self.sh("taskset -c 3 true", check=False)
        self.assertNotEqual(pinned.status, 0)

    def test_pcpus_that_the_slice_of_guests_lacks(self) -> None:
        """What AllowedCPUs= writes, and no partition."""
        self._nova()
        self._make(GUESTS, "0-2", "member")
        found = self._check()
        self.assertEqual({"cpus_outside_cgroup"}, set(found))
        self.assertIn("pCPUs 3 are", found["cpus_outside_cgroup"])
        pinned = self.sh(
            f"echo $$ > {GUESTS}/cgroup.procs; taskset -c 3 true",
            check=False,
        )
        self.assertNotEqual(pinned.status, 0)
