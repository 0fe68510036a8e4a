# SPDX-License-Identifier: Apache-2.0

"""What is planted on a CPU for guests, as a real agent sees it come and go."""

import pathlib
import time
from collections.abc import Callable
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed.waiting import wait_for
from tests.vm import base
from tests.vm import network
from tests.vm import test_lxc

PERIOD_S = 10.0

#: An emulated CPU takes so long for an observation, and a test for a look.
SLACK_S = 15.0

_PLACE = "/run/sriov-rt-occupancy"
_CONFIG = f"""\
[DEFAULT]
host = rt-1
transport_url = fake://
[agent]
publish_traits = false
observe_interval = {PERIOD_S}
nova_config_files = {_PLACE}/nova.conf
"""

#: A daemon in a realtime class on CPU 2, which is for guests.
_DAEMON = f"cp -n /usr/bin/yes {_PLACE}/feed; exec chrt -f 50 taskset -c 2 "

_BOX = f"{test_lxc.CONFIG}lxc.cgroup2.cpuset.cpus = 2\n"
_START = f"""
set -e
echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control
printf '%s' '{_BOX}' > {test_lxc.PATH}/{test_lxc.NAME}/config
lxc-start -P {test_lxc.PATH} -n {test_lxc.NAME}
"""
_STOP = f"lxc-stop -k -P {test_lxc.PATH} -n {test_lxc.NAME}"

#: The last vector of the far PF: a queue, which nobody uses.
_MOVE = f"""
irq=$(ls /sys/class/net/{network.FAR}/device/msi_irqs | sort -n | tail -1)
echo %s > /proc/irq/$irq/smp_affinity_list
cat /proc/irq/$irq/effective_affinity_list
"""


@periodic
class OccupancyTest(base.VmTestCase):
    """Each is named within two observations, and gone within two."""

    path: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Run an agent of a host whose CPUs 2 and 3 are dedicated."""
        super().setUpClass()
        cls.vm.run(("mkdir", "-p", _PLACE))
        cls.vm.push(
            b"[compute]\ncpu_dedicated_set = 2-3\n", f"{_PLACE}/nova.conf"
        )
        cls.vm.push(_CONFIG.encode(), f"{_PLACE}/sriov-rt.conf")
        path = base.place().log / "agent-occupancy.log"
        path.unlink(missing_ok=True)
        cls.path = path
        program = base.product().program("sriov-rt-agent")
        job = cls.vm.spawn(
            (program, "--config-file", f"{_PLACE}/sriov-rt.conf"), log=path
        )
        cls.addClassCleanup(cls.vm.kill, job)
        wait_for(
            "the agent reports",
            lambda: "facts changed: host=rt-1" in path.read_text(),
            timeout=base.PATIENCE,
        )

    def _changed(self, begin: int) -> str:
        """Return the last change that was logged behind a position."""
        _, _, last = self.path.read_text()[begin:].rpartition("facts changed:")
        return last

    def _come_and_go(
        self,
        name: str,
        plant: Callable[[], object],
        take_away: Callable[[], object],
    ) -> None:
        """Plant something, and take it away once it was named."""
        for verb, act in (("named", plant), ("gone", take_away)):
            begin, start = len(self.path.read_text()), time.monotonic()
            act()

            def is_over(begin: int = begin, verb: str = verb) -> bool:
                line = self._changed(begin)
                return (name in line) == (verb == "named") and line != ""

            wait_for(f"{name} is {verb}", is_over, timeout=base.PATIENCE)
            took = time.monotonic() - start
            print(f"{name}: {verb} after {took:.0f} s")
            self.assertLessEqual(took, 2 * PERIOD_S + SLACK_S)

    def test_a_daemon_in_a_realtime_class(self) -> None:
        """It spins on a CPU for guests."""
        jobs = []

        def plant() -> None:
            jobs.append(
                self.vm.spawn(
                    ("bash", "-c", f"{_DAEMON}{_PLACE}/feed > /dev/null"),
                    log=base.place().log / "feed.log",
                )
            )
            self.addCleanup(self.vm.kill, jobs[0])

        self._come_and_go(
            "thread 'feed' of feed is pinned to dedicated pCPUs 2",
            plant,
            lambda: self.vm.kill(jobs[0]),
        )

    def test_a_container(self) -> None:
        """It has a cpuset of LXC's, and sleeps."""
        self.sh(test_lxc.MAKE_ROOT)
        self.addCleanup(self.sh, _STOP, check=False)
        self._come_and_go(
            f"(lxc.payload.{test_lxc.NAME}) is pinned to dedicated pCPUs 2",
            lambda: self.sh(_START),
            lambda: self.sh(_STOP),
        )

    def test_an_interrupt_moved_by_hand(self) -> None:
        """It fires on CPU 2 alone, if at all."""
        self.addCleanup(self.sh, _MOVE % "0-1")
        self._come_and_go(
            "dedicated pCPUs 2",
            lambda: self.sh(_MOVE % "2"),
            lambda: self.sh(_MOVE % "0-1"),
        )
