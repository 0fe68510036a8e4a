# SPDX-License-Identifier: Apache-2.0

"""Running guests that others meddle with, and what operators see of it.

Thirteen drifts are made by hand on rt-1, one after the other, with the tools
that an administrator has. Each is to be seen in the log of the agent, in a
notification, in its metrics and in ``sriov-rt agent show``, within two periods
of the audit. What threads can mend, ``sriov-rt guest repin`` does.

Three things stand in for others. Another file is mounted over the kernel's
list of isolated CPUs, as after a boot with other arguments; the file of a
kubelet's CPU manager is written by the test, since no kubelet runs there; and
tests.cloud.inject does what a guest's driver or QEMU itself would do.
"""

import contextlib
import dataclasses
import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from tests.cloud import guests
from tests.cloud import notifications
from tests.cloud.base import REALTIME
from tests.cloud.base import RT_AGENT_LOG
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.cloud.test_guest import START_SECONDS
from tests.cloud.test_refusal import BARE
from tests.cloud.test_vif import NORMAL
from tests.periodic import periodic
from tests.testbed import network
from tests.testbed import programs
from tests.testbed import realtime_host
from tests.testbed import seed
from tests.testbed import settings
from tests.testbed.paths import CHECKOUT
from tests.testbed.servers import Server
from tests.testbed.services import RT

#: Seconds from one audit to the next.
PERIOD = 15.0
#: Seconds in which a drift has to be seen; and those that the machine, which
#: is emulated, may take to write and send what it has seen.
LIMIT = 2 * PERIOD
SLACK = 10.0

PORT = 9836
EVENT = "sriov_rt.guest.drift"
KUBELET = "/run/test-kubelet"
POD = "b1f0a1de-7c66-4b0d-9d0c-3f3f0b0a9f55"
OWN_PORT = "6b1d5c1e-9d6b-4f0e-8f6c-1f2a3b4c5d6e"
OWN_OWNER = "7c2e6d2f-0e7c-4a1f-9a7d-2a3b4c5d6e7f"

#: Seconds that one command in rt-1 may take.
PATIENCE = 300.0

_RNG = """<rng model='virtio'>
  <backend model='random'>/dev/urandom</backend>
</rng>"""

#: libvirt keeps each kind of thread in a cgroup of its own.
_WIDEN = """
group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup")
[ ! -e "$group/cpuset.cpus" ] || echo 0-3 > "$group/cpuset.cpus"
"""

_REMOVE_CGROUPS = (
    *("find", "/sys/fs/cgroup", "-depth", "-type", "d"),
    *("-path", "*qemu-*-instance-*", "-exec", "rmdir", "{}", "+"),
)

_VSOCK = """<vsock model='virtio'>
  <cid auto='yes'/>
</vsock>"""

_CONFIGURATION = f"""
[metrics]
enabled = true
address = {network.REALTIME_ADDRESS}
port = {PORT}
"""


@dataclasses.dataclass(frozen=True)
class Made:
    """A drift that was made by hand.

    :param name: how it was made.
    :param code: of its Reason.
    :param instance: whose it is.
    :param make: makes it.
    :param mend: ends it; None where ``guest repin`` does.
    """

    name: str
    code: str
    instance: str
    make: Callable[[], object]
    mend: Callable[[], object] | None = None


@periodic
class TestDrifts(CloudTestCase):
    """A bare server with a VF, and a lean one with a vhost worker."""

    def setUp(self) -> None:
        """Boot two servers, and audit them often."""
        super().setUp()
        # It runs when the servers are deleted.
        self.addCleanup(self.remove_cgroups)
        self.bare = self.server(BARE, "physnet1", image=seed.SATA_IMAGE)
        self.lean = self.server(REALTIME, realtime_host.POOL_NETWORK, **NORMAL)
        # Afterwards: a host is not scheduled to while its agent starts.
        self.addCleanup(self.wait_realtime, START_SECONDS)
        file = self.cloud.place.etc / RT / "sriov_rt" / "sriov-rt.conf"
        self.assertIn("[agent]\n", file.read_text())
        self.reconfigure(
            file,
            lambda text: (
                text.replace(
                    "[agent]\n",
                    f"[agent]\naudit_interval = {PERIOD}\n"
                    f"kubelet_directory = {KUBELET}\n",
                    1,
                )
                + _CONFIGURATION
            ),
            lambda: self.cloud.services.restart(realtime_host.AGENT, RT),
        )
        self.attach_vsock()
        self.heard = notifications.listen(self)
        self.seen: list[str] = []
        self.addCleanup(self.write_table)

    def remove_cgroups(self) -> None:
        """Remove the cgroup that libvirt leaves because of a vhost worker.

        The worker ends after QEMU has, and libvirt tries for one second
        (qemuProcessStop in its src/qemu/qemu_process.c).
        """
        self.wait_for(
            "the cgroups of guests are removed",
            lambda: self.host(*_REMOVE_CGROUPS, check=False).status == 0,
            timeout=PATIENCE,
        )
        self.assert_nothing_left()

    def server(
        self,
        specs: dict[str, str],
        physical_network: str,
        image: str = seed.IMAGE,
        **fields: object,
    ) -> Server:
        """Boot a server with a port."""
        port = self.cloud.create_port(physical_network, **fields)
        self.addCleanup(self.cloud.api.network.delete_port, port)
        return self.boot_on(RT, self.flavor(specs), image=image, ports=[port])

    def attach_vsock(self) -> None:
        """Attach a device with a vhost worker to the lean server.

        libvirt gives emulated guests no vhost worker for their network
        (qemuInterfaceOpenVhostNet in its src/qemu/qemu_interface.c).
        """
        self.host("modprobe", "vhost_vsock")
        file = "/run/test-vsock.xml"
        self.host("sh", "-c", f'echo "$1" > {file}', "sh", _VSOCK)
        self.host(
            *("virsh", "attach-device", self.lean.domain, file, "--live")
        )

    def test_each_is_seen_in_four_places_and_mended(self) -> None:
        """One after the other, each from a host without drifts."""
        self.wait_for(
            "the guests are as promised",
            lambda: (
                self.metric("sriov_rt_audit_known") == 1
                and not self.drifts_shown()
            ),
            timeout=PATIENCE,
        )
        for made in (*self.of_threads(), *self.of_devices(), *self.of_host()):
            with self.subTest(made.name):
                self.try_one(made)
        self.try_memory()
        self.assertEqual("ACTIVE", self.cloud.servers.get(self.bare.id).status)
        self.assertEqual(13, len(self.seen), self.seen)

    def of_threads(self) -> list[Made]:
        """Return the drifts that ``guest repin`` mends."""
        bare = self.bare.id
        process, vcpu = self.process(self.bare), self.vcpu(self.bare)
        worker = self.vhost_worker(self.lean)
        moved, other = "guest_thread_moved", "guest_thread_rescheduled"
        cpu = str(self.pcpu(self.bare))

        def run(*words: str) -> Callable[[], object]:
            return lambda: self.host(*words)

        def move(thread: str, to: str) -> Callable[[], object]:
            return lambda: self.move(thread, to)

        return [
            Made("taskset a vCPU", moved, bare, move(vcpu, "0")),
            Made("chrt -o a vCPU", other, bare, run("chrt", "-op", "0", vcpu)),
            Made("chrt -f 50", other, bare, run("chrt", "-fp", "50", vcpu)),
            Made("taskset the emulator", moved, bare, move(process, cpu)),
            Made(
                *("taskset a vhost worker", moved, self.lean.id),
                move(worker, cpu),
            ),
        ]

    def move(self, thread: str, cpu: str) -> None:
        """Move a thread, out of the CPUs of its cgroup if it has some."""
        self.host("sh", "-ec", _WIDEN, "sh", thread)
        self.host("taskset", "-pc", cpu, thread)

    def of_devices(self) -> list[Made]:
        """Return the drifts of devices, which are mended by hand."""
        bare, domain = self.bare.id, self.bare.domain
        cpu = self.pcpu(self.bare)
        file = "/run/test-rng.xml"
        self.host("sh", "-c", f'echo "$1" > {file}', "sh", _RNG)
        self.inject(self.process(self.bare), "interrupt")

        def virsh(verb: str) -> Callable[[], object]:
            return lambda: self.host("virsh", verb, domain, file, "--live")

        return [
            Made(
                *("virsh attach-device", "guest_device_forbidden", bare),
                *(virsh("attach-device"), virsh("detach-device")),
            ),
            Made(
                *("a VF's interrupt moved", "guest_irq_on_pcpu", bare),
                lambda: self.route_interrupts(cpu),
                lambda: self.route_interrupts(0),
            ),
        ]

    def of_host(self) -> list[Made]:
        """Return the drifts of what is beside the guests."""
        bare, cpu = self.bare.id, self.pcpu(self.bare)
        busy = f"taskset -c {cpu} sh -c 'while :; do :; done' & echo $!"
        stranger: list[str] = []

        def begin() -> None:
            done = self.host("sh", "-c", f"{busy} > /run/test-busy")
            self.assertEqual(0, done.status)
            stranger.append(self.host("cat", "/run/test-busy").text.strip())

        record = f"{realtime_host.RECORDS}/records/{OWN_PORT}"
        other = self.pcpu(self.lean)
        isolated = "/sys/devices/system/cpu/isolated"
        state = json.dumps(
            {
                "policyName": "static",
                "defaultCpuSet": "0-1",
                "entries": {POD: {"app": str(cpu)}},
                "checksum": 1,
            }
        )
        return [
            Made(
                *("a stranger's thread", "guest_cpu_shared", bare),
                begin,
                lambda: self.host("kill", stranger[-1]),
            ),
            Made(
                *("a CPU no longer isolated", "guest_cpus_not_isolated", bare),
                lambda: self.host(
                    *("sh", "-c"),
                    f"echo {other} > /run/test-isolated && mount --bind "
                    f"/run/test-isolated {isolated}",
                ),
                lambda: self.host("umount", isolated),
            ),
            Made(
                *("a port's record damaged", "port_quarantined", ""),
                lambda: self.damage(record),
                self.forget,
            ),
            Made(
                *("a pod on the pCPU", "pod_cpus_dedicated", POD),
                lambda: self.host(
                    *("sh", "-c"),
                    f"mkdir -p {KUBELET} && printf %s '{state}' > "
                    f"{KUBELET}/cpu_manager_state",
                ),
                lambda: self.host("rm", "-r", KUBELET),
            ),
        ]

    def damage(self, record: str) -> None:
        """Plug a port, and damage its record."""
        self.host(
            *("sriov-rt", "vif", "plug", "--port", OWN_PORT),
            *("--owner", OWN_OWNER, "--kind", "macvlan"),
            *("--network", settings.WIRE_NETWORK),
        )
        self.host("truncate", "-s", "20", record)

    def forget(self) -> None:
        """Remove a port's interface, and then what is kept for the port."""
        self.host("ip", "link", "delete", f"srt{OWN_PORT[:11]}")
        self.host("sriov-rt", "vif", "forget", OWN_PORT, "--force")

    def try_memory(self) -> None:
        """Unlock the memory, take a huge page; a hard reboot mends both."""
        process, bare = self.process(self.bare), self.bare.id
        drifts = [
            Made(
                *("munlockall in QEMU", "guest_memory_unlocked", bare),
                lambda: self.inject(process, "unlock"),
            ),
            Made(
                *("a huge page swapped", "guest_memory_small", bare),
                lambda: self.inject(process, "shrink"),
            ),
        ]
        for made in drifts:
            self.see(made)
        began = time.monotonic()
        self.cloud.api.compute.reboot_server(bare, "HARD")
        self.wait_for(
            "the hard reboot is over",
            lambda: (
                self.process(self.bare) != process
                and self.cloud.servers.get(bare).status == "ACTIVE"
            ),
            timeout=PATIENCE,
        )
        for made in drifts:
            self.wait_mended(made)
        self.note(f"both mended by a hard reboot, {self.since(began)}")

    def try_one(self, made: Made) -> None:
        """Make a drift, see it in all places, and mend it."""
        try:
            self.see(made)
        finally:
            if made.mend is not None:
                made.mend()
                how = "by hand"
            else:
                shown = self.host(
                    *("sriov-rt", "guest", "repin", made.instance),
                    *("-f", "value"),
                )
                how = f"by repin: {'; '.join(shown.text.splitlines())}"
        began = time.monotonic()
        self.wait_mended(made)
        self.note(f"{made.name}: mended {how}; noticed {self.since(began)}")

    def see(self, made: Made) -> None:
        """Make a drift, and see it in all four places within two periods."""
        log = self.log(RT_AGENT_LOG)
        self.heard.skip(len(self.heard.new()))
        made.make()
        began = time.monotonic()
        whose = f"guest drifted: instance={made.instance}"
        if not made.instance:
            whose = r"(guest drifted: instance=\S+|host drifted:)"
        line = f"{whose} host={RT} "
        places: dict[str, Callable[[], object]] = {
            "log": lambda: re.search(f"{line}\\[{made.code}\\]", log.text),
            "notification": lambda: self.is_heard(made),
            "metrics": lambda: self.metric(
                "sriov_rt_guest_drifts", f'code="{made.code}"'
            ),
            "agent show": lambda: self.is_shown(made),
        }
        times = {}
        for name, probe in places.items():
            self.wait_for(
                f"'{made.name}' is in {name}", probe, timeout=PATIENCE
            )
            times[name] = time.monotonic() - began
        words = ", ".join(f"{n} {s:.0f} s" for n, s in times.items())
        self.note(f"{made.name}: {made.code}: {words}")
        self.seen.append(made.name)
        # The last one is a command that takes some seconds by itself.
        del times["agent show"]
        self.assertLess(max(times.values()), LIMIT + SLACK)

    def wait_mended(self, made: Made) -> None:
        """Wait until a drift is reported no more."""
        self.wait_for(
            f"'{made.name}' is mended",
            lambda: (
                not self.metric("sriov_rt_guest_drifts", f'code="{made.code}"')
            ),
            timeout=PATIENCE,
        )

    def is_heard(self, made: Made) -> bool:
        """Return whether a notification has a drift."""
        return any(
            (made.code, made.instance or each["instance"])
            == (each["code"], each["instance"])
            for heard in self.heard.new()
            if heard["event"] == EVENT and heard["host"] == RT
            for each in heard["found"]
        )

    def is_shown(self, made: Made) -> bool:
        """Return whether ``sriov-rt agent show`` has a drift."""
        return any(
            (made.code, made.instance or each["instance"])
            == (each["code"], each["instance"])
            and each["remedy"]
            for each in self.drifts_shown()
        )

    def drifts_shown(self) -> list[dict[str, Any]]:
        """Return the drifts of rt-1 as ``sriov-rt agent show`` has them."""
        nova = self.cloud.place.etc / "nova" / "nova.conf"
        done = self.command(
            *("sriov-rt", "agent", "show", f"--config-file={nova}"),
            *("--wait", "60", "--json", RT),
        )
        self.assertIn(done.returncode, (0, 1), done.stderr)
        found = json.loads(done.stdout)["facts"]["audit"]["drifts"]
        return found if isinstance(found, list) else []

    def metric(self, name: str, labels: str = "") -> float:
        """Return a metric of rt-1's agent; 0 if it is not there."""
        url = f"http://{network.REALTIME_ADDRESS}:{PORT}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        pattern = rf"(?m)^{name}(?:\{{{labels}\}})? (\S+)$"
        found = re.search(pattern, text)
        return float(found[1]) if found else 0.0

    def host(self, *command: str, check: bool = True) -> Any:
        """Run a command in rt-1, the project's programs on its PATH."""
        place, env = self.cloud.place, self.cloud.env
        return self.cloud.realtime.machine.run(
            command,
            timeout=PATIENCE,
            check=check,
            environment=programs.environment(place, env),
        )

    def inject(self, process: str, verb: str) -> None:
        """Make a system call in QEMU."""
        done = self.host(
            *("env", "-C", str(CHECKOUT), sys.executable),
            *("-m", "tests.cloud.inject", process, verb),
        )
        self.assertEqual(0, done.status, done.complaint)

    def process(self, server: Server) -> str:
        """Return QEMU's process; empty while there is none."""
        path = f"/run/libvirt/qemu/{server.domain}.pid"
        return str(self.host("cat", path, check=False).text).strip()

    def vcpu(self, server: Server) -> str:
        """Return the thread of the vCPU."""
        directory = f"/proc/{self.process(server)}/task"
        script = f"grep -l '^CPU 0/' {directory}/*/comm"
        found = str(self.host("sh", "-c", script).text)
        return found.strip().rsplit("/", 2)[1]

    def vhost_worker(self, server: Server) -> str:
        """Return the vhost worker, a thread of the kernel (Linux 6.1)."""
        script = f"grep -lx vhost-{self.process(server)} /proc/[0-9]*/comm"
        return str(self.host("sh", "-c", script).text).split("/")[2]

    def pcpu(self, server: Server) -> int:
        """Return the pCPU of the vCPU."""
        domain = guests.document(self.cloud.host(RT), server.domain)
        ((cpu,),) = guests.pins(domain).values()
        return cpu

    def route_interrupts(self, cpu: int) -> None:
        """Route the interrupts of the bare server's VF to a CPU."""
        domain = guests.document(self.cloud.host(RT), self.bare.domain)
        address = domain.find("devices/interface/source/address")
        assert address is not None
        name = "{:04x}:{:02x}:{:02x}.{:x}".format(
            *(
                int(address.get(key, "0"), 16)
                for key in ("domain", "bus", "slot", "function")
            )
        )
        directory = f"/sys/bus/pci/devices/{name}/msi_irqs"
        self.host(
            *("sh", "-ec"),
            f"for irq in $(ls {directory}); do "
            f"echo {cpu} > /proc/irq/$irq/smp_affinity_list; done",
        )

    @staticmethod
    def since(began: float) -> str:
        """Return the seconds since then, in words."""
        return f"after {time.monotonic() - began:.0f} s"

    def note(self, text: str) -> None:
        """Keep a line for the log, and say it."""
        self.lines.append(text)
        say(text)

    @property
    def lines(self) -> list[str]:
        """The lines of this run."""
        found: list[str] = self.__dict__.setdefault("_lines", [])
        return found

    def write_table(self) -> None:
        """Write what was seen beside the other logs."""
        path = self.cloud.place.log / "test-drifts.log"
        with contextlib.suppress(OSError):
            path.write_text("\n".join([*self.lines, ""]))
