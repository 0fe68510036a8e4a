# SPDX-License-Identifier: Apache-2.0

"""What is planted on a CPU for guests, as a real agent sees it come and go."""

import json
import pathlib
import re
import time
from collections.abc import Callable
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import packages
from tests.testbed.rtvm import Result
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

#: What the agent finds of a nova-compute with sriov-rt's driver.
_DRIVER = """
import signal
from sriov_rt.host import compute_driver_socket as sockets
bound = sockets.bind("rt-1", sockets.Driver("test", "qemu"))
signal.pause()
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

#: Debian's Open vSwitch. Neither DPDK nor a kernel module is needed: a port of
#: the type dummy-pmd is polled as one of DPDK's is.
_SWITCH = ("openvswitch-switch",)
_RUN = "/run/openvswitch"
_MAKE_DATABASE = f"""
set -e
mkdir -p {_RUN}
rm -f {_RUN}/conf.db
ovsdb-tool create {_RUN}/conf.db /usr/share/openvswitch/vswitch.ovsschema
"""
_DATABASE = (
    *("ovsdb-server", f"{_RUN}/conf.db", "--pidfile"),
    f"--remote=punix:{_RUN}/db.sock",
)
_VSWITCHD = ("ovs-vswitchd", "--enable-dummy", "--pidfile")
_SET_MASK = "ovs-vsctl set Open_vSwitch . other_config:pmd-cpu-mask="
_MAKE_BRIDGE = """
set -e
until ovs-vsctl --no-wait init; do sleep 0.5; done
until ovs-appctl version; do sleep 0.5; done
ovs-vsctl --timeout=300 set Open_vSwitch . other_config:pmd-cpu-mask=0x2 \
    -- add-br br0 -- set Bridge br0 datapath_type=netdev \
    -- add-port br0 p0 -- set Interface p0 type=dummy-pmd
"""

#: A flavor that no host serves on whose CPUs another one is.
_FLAVOR = (
    *("--extra-spec", "sriov_rt:realtime=required"),
    *("--extra-spec", "hw:cpu_policy=dedicated"),
)


@periodic
class OccupancyTest(base.VmTestCase):
    """Each is named within two observations, and gone within two."""

    path: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Run an agent of a host whose CPUs 2 and 3 are dedicated."""
        super().setUpClass()
        cls.vm.run(("mkdir", "-p", _PLACE))
        for name, cpus in (("nova.conf", "2-3"), ("without.conf", "3")):
            text = f"[compute]\ncpu_dedicated_set = {cpus}\n"
            cls.vm.push(text.encode(), f"{_PLACE}/{name}")
        cls.vm.push(_CONFIG.encode(), f"{_PLACE}/sriov-rt.conf")
        path = base.place().log / "agent-occupancy.log"
        path.unlink(missing_ok=True)
        cls.path = path
        python = base.product().program("python")
        log = base.place().log / "driver-occupancy.log"
        driver = cls.vm.spawn((python, "-c", _DRIVER), log=log)
        cls.addClassCleanup(cls.vm.kill, driver)
        program = base.product().program("sriov-rt-agent")
        job = cls.vm.spawn(
            (program, "--config-file", f"{_PLACE}/sriov-rt.conf"), log=path
        )
        cls.addClassCleanup(cls.vm.kill, job)
        wait_for(
            "the agent reports",
            lambda: " realtime=yes " in path.read_text(),
            timeout=base.PATIENCE,
        )

    def _changed(self, begin: int) -> str:
        """Return the last change that was logged behind a position."""
        _, _, last = self.path.read_text()[begin:].rpartition("facts changed:")
        return last

    def _see(self, name: str, verb: str, act: Callable[[], object]) -> None:
        """Do something, and wait until an occupant is named or gone.

        That takes two periods, and the host is not ready or ready then.
        """
        begin, start = len(self.path.read_text()), time.monotonic()
        act()
        ready = "yes" if verb == "gone" else "no"

        def is_over() -> bool:
            line = self._changed(begin)
            return (name in line) == (verb == "named") and (
                f" realtime={ready} " in line
            )

        wait_for(f"{name} is {verb}", is_over, timeout=base.PATIENCE)
        took = time.monotonic() - start
        print(f"{name}: {verb} after {took:.0f} s")
        self.assertLessEqual(took, 2 * PERIOD_S + SLACK_S)

    def _come_and_go(
        self,
        name: str,
        plant: Callable[[], object],
        take_away: Callable[[], object],
    ) -> None:
        """Plant something, and take it away once it was named."""
        self._see(name, "named", plant)
        self._see(name, "gone", take_away)

    def _spawn(self, name: str, *words: str) -> None:
        """Run a daemon until the test's end."""
        job = self.vm.spawn(words, log=base.place().log / f"{name}.log")
        self.addCleanup(self.vm.kill, job)

    def _run(self, status: int, *arguments: str) -> Result:
        """Run a command that exits with a status."""
        done = self.command(*arguments)
        self.assertEqual(status, done.status, done.text + done.complaint)
        return done

    def _judge(self, status: int, config: str = "nova.conf") -> list[str]:
        """Return the sentences of the Reasons against a realtime flavor.

        :param status: the exit status of a check, and of the flavor's.
        """
        given = ("--nova-config", f"{_PLACE}/{config}")
        facts = self._run(0, "host", "show", "--json", *given)
        self.vm.push(facts.stdout, f"{_PLACE}/facts.json")
        explain = ("explain", *_FLAVOR, "--facts", f"{_PLACE}/facts.json")
        for words in (
            ("host", "check", *given),
            ("host", "show", *given, "-c", "compute.dedicated"),
            explain,
        ):
            done = self._run(0 if words[1] == "show" else status, *words)
            print(f"# sriov-rt {' '.join(words)}", done.complaint + done.text)
        (host,) = json.loads(self._run(status, *explain, "--json").text)
        return [each["message"] for each in host["reasons"]]

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

    def test_a_pmd_thread_of_open_vswitch(self) -> None:
        """Its owner's remedy as it is printed, and Nova's, end it."""
        packages.install(_SWITCH, base.place().log / "apt-occupancy.log")
        self.assertEqual([], self._judge(0))
        self.sh(_MAKE_DATABASE)
        self._spawn("ovsdb-server", *_DATABASE)
        self._spawn("ovs-vswitchd", *_VSWITCHD)
        self.sh(_MAKE_BRIDGE)
        name = "thread 'pmd-c02/id:"
        self._see(name, "named", lambda: self.sh(f"{_SET_MASK}0x4"))
        (message,) = self._judge(1)
        self.assertRegex(
            message,
            rf"{name}\d+' of ovs-vswitchd is pinned to dedicated pCPUs 2 .*, "
            r"or take them out of \[compute\] cpu_dedicated_set",
        )
        self.assertEqual([], self._judge(0, "without.conf"))
        (remedy,) = re.findall(r"; run '(.+?)'", message)
        self.assertEqual(f"{_SET_MASK}0x3", remedy)
        self._see(name, "gone", lambda: self.sh(remedy))
        self.assertEqual([], self._judge(0))
