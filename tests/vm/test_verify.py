# SPDX-License-Identifier: Apache-2.0

"""sriov-rt verify with the real tools, on an emulated realtime host.

Its figures mean nothing; that they are measured, judged and kept does.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import sys
import threading
import time
import unittest
from typing import Any
from typing import ClassVar

from sriov_rt.facts import certificate
from sriov_rt.facts import culprit
from sriov_rt.verify import blame
from tests.periodic import periodic
from tests.testbed import latency
from tests.testbed import packages
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import Result
from tests.testbed.rtvm import RtVm
from tests.testbed.rtvm.debian import Unpacker
from tests.testbed.rtvm.machine import EXPORT
from tests.vm import base
from tests.vm import network
from tests.vm import test_lxc

#: What measures, and what loads.
PACKAGES = ("fio", "iperf3", "sockperf", *latency.PACKAGES)

#: Seconds of the longest command: four tools under load.
PATIENCE = 900.0

TUNED = "/etc/tuned/active_profile"

#: Bytes of the disk that is measured.
DISK = 512 * 1024 * 1024

_ADDRESSES = """
ip -n verify-a address add 192.0.2.1/24 dev {0}
ip -n verify-b address add 192.0.2.2/24 dev {1}
ip -n verify-a link set {0} up; ip -n verify-b link set {1} up
"""

#: Each joins the namespaces verify-a and verify-b.
VETH = (
    "ip -n verify-a link add va type veth peer vb netns verify-b\n"
    + _ADDRESSES.format("va", "vb")
)
BRIDGE = (
    "ip link add verify-br type bridge; ip link set verify-br up\n"
    "for each in a b; do\n"
    "ip -n verify-$each link add v$each type veth peer verify-$each netns 1\n"
    "ip link set verify-$each master verify-br up\n"
    "done\n" + _ADDRESSES.format("va", "vb")
)
MACVLAN = (
    f"ip link set {network.PF} up\n"
    "for each in a b; do\n"
    f"ip link add link {network.PF} name v$each netns verify-$each "
    "type macvlan mode bridge\n"
    "done\n" + _ADDRESSES.format("va", "vb")
)
VF = (
    f"ip link set {network.PF}v0 netns verify-a\n"
    f"ip link set {network.FAR}v0 netns verify-b\n"
    + _ADDRESSES.format(f"{network.PF}v0", f"{network.FAR}v0")
)

#: Runs the program that follows its one option.
STAND_IN = '#!/bin/sh\nshift\nexec "$@"\n'


class MeasuredTestCase(unittest.TestCase):
    """What an operator runs in a machine that has the tools.

    :cvar vm: the machine, ready.
    """

    vm: ClassVar[RtVm]
    directory: str

    @classmethod
    def install(cls) -> None:
        """Install the tools; a machine sees them at once."""
        base.place().make()
        packages.install(PACKAGES, base.place().log / "apt-verify.log")

    def bash(self, script: str, *programs: pathlib.Path) -> Result:
        """Run a script inside, with the project's commands on its PATH.

        :param programs: directories that come before.
        """
        path = (*programs, base.product().bin)
        return self.vm.run(
            ("bash", "-c", f"PATH={':'.join(map(str, path))}:$PATH\n{script}"),
            timeout=PATIENCE,
            check=False,
        )

    def latency(self, *arguments: str) -> str:
        """Return the command line of a quick measurement."""
        return " ".join(
            (
                "verify latency --profile quick --min-duration 4s --json",
                f"--output {self.directory}",
                *arguments,
            )
        )

    def answer(self, result: Result) -> Any:
        """Return what a command has printed as JSON."""
        self.assertTrue(result.stdout, result.complaint)
        return json.loads(result.text)

    def python(self, code: str, arguments: str = "") -> Result:
        """Run Python with the project inside."""
        return self.bash(f"python -I -c '{code}' {arguments}")

    def certificate(self) -> tuple[int, Any]:
        """Return the exit status and what is said of the certificate."""
        result = self.bash("sriov-rt verify certificate --json")
        return result.status, self.answer(result)

    def earn(self) -> Any:
        """Return what was measured when it has earned a certificate."""
        for _ in range(latency.ATTEMPTS):
            # What counts is kept, what does not is measured again.
            result = self.python(latency.SRIOV_RT, self.latency("--resume"))
            self.assertIn(result.status, (0, 1), result.complaint)
            if result.status == 0:
                break
        found = self.answer(result)
        self.assertEqual([], found["refused"])
        return found

    def assert_all_measured(self, found: Any) -> None:
        """Each of the four tools has samples of both isolated CPUs."""
        self.assertTrue(found["emulated"])
        tools = [each["tool"] for each in found["measurements"]]
        self.assertEqual(["hwlat", "cyclictest", "oslat", "timerlat"], tools)
        for each in found["measurements"][1:]:
            with self.subTest(each["tool"]):
                self.assertEqual([2, 3], [cpu["cpu"] for cpu in each["cpus"]])
                self.assertTrue(all(cpu["samples"] for cpu in each["cpus"]))


@periodic
class VerifyTest(MeasuredTestCase, base.VmTestCase):
    """On rt-1."""

    @classmethod
    def setUpClass(cls) -> None:
        """Have the tools and the tracers."""
        cls.install()
        super().setUpClass()
        cls.vm.run(("bash", "-c", latency.MOUNT_TRACEFS))

    def setUp(self) -> None:
        """Begin without a certificate and results."""
        super().setUp()
        self.directory = f"/tmp/{self.id().rpartition('.')[2]}"
        self.bash(f"rm -rf {self.directory} {latency.CERTIFICATE} {TUNED}")

    def kept(self, tool: str) -> Any:
        """Return the measurement of a tool that is kept."""
        text = self.vm.read_file(f"{self.directory}/{tool}.json")
        return json.loads(text)["measurement"]

    def assert_none(self) -> None:
        """There is no certificate."""
        status, shown = self.certificate()
        self.assertEqual((1, None), (status, shown["certificate"]))

    def test_all_four_tools(self) -> None:
        """Each measures both isolated CPUs under load, and is judged."""
        result = self.bash(f"sriov-rt {self.latency()}")
        found = self.answer(result)
        self.assert_all_measured(found)
        # At 5 kHz an emulated CPU misses samples; where it does, that is
        # said, and earns nothing.
        cyclictest = self.kept("cyclictest")
        few = [each["samples"] < 24750 for each in cyclictest["cpus"]]
        said = re.findall(
            r"of 25000 samples", " ".join(cyclictest["problems"])
        )
        self.assertEqual(sum(few), len(said))
        if any(few):
            self.assertEqual(1, result.status)
            self.assertIsNone(found["certificate"])
            self.assert_none()
        left = self.bash("pgrep -x 'stress-ng|cyclictest|oslat|rtla'")
        self.assertEqual(1, left.status, left.text)

    def test_a_certificate_s_life(self) -> None:
        """It is earned, shown, withdrawn by a change and by a sample."""
        # An idle host earns none.
        result = self.python(latency.SRIOV_RT, self.latency("--load none"))
        self.assertEqual(1, result.status, result.complaint)
        (reason, *_) = self.answer(result)["refused"]
        self.assertIn("an idle host says nothing of a busy one", reason)
        found = self.earn()
        self.assertTrue(found["certificate"]["emulated"])
        status, shown = self.certificate()
        self.assertEqual((0, True), (status, shown["counts"]))
        again = self.python(latency.SRIOV_RT, self.latency("--resume"))
        self.assertEqual(
            found["measurements"], self.answer(again)["measurements"]
        )
        # A condition that changes withdraws it, in the facts as well.
        self.bash(f"mkdir -p /etc/tuned; echo balanced > {TUNED}")
        status, shown = self.certificate()
        self.assertEqual((1, False), (status, shown["counts"]))
        why = "tuned profile changed from '-' to 'balanced'"
        self.assertEqual(why, shown["why_not"])
        facts = self.answer(self.bash("sriov-rt host show --json"))
        certificate = facts["latency"]["certificate"]
        self.assertEqual(
            (why, True), (certificate["withdrawn"], certificate["emulated"])
        )
        # The command wrote it down: a reverted change withdraws it, too.
        self.bash(f"rm {TUNED}")
        status, shown = self.certificate()
        self.assertEqual((1, why), (status, shown["why_not"]))
        self.earn()
        # So does whoever watches.
        probe = "sriov-rt verify watch --once --duration 3s"
        for change, back in (
            (f"echo balanced > {TUNED}", f"rm {TUNED}"),
            (
                "echo 900000 > /proc/sys/kernel/sched_rt_runtime_us",
                "echo -1 > /proc/sys/kernel/sched_rt_runtime_us",
            ),
        ):
            self.bash(change)
            probed = self.bash(probe)
            self.assertEqual(1, probed.status, probed.text + probed.complaint)
            self.bash(back)
            status, shown = self.certificate()
            self.assertEqual((1, False), (status, shown["counts"]))
            self.assertIn(" changed from ", shown["why_not"])
            self.assertIn("no certificate counts", self.bash(probe).text)
            self.earn()
            self.assertEqual(0, self.certificate()[0])
        # No housekeeping CPU is as late as 100 s.
        probed = self.bash(f"{probe} --housekeeping 99999999")
        self.assertEqual(0, probed.status, probed.text + probed.complaint)
        self.assertRegex(probed.text, r"^housekeeping CPU [01]: at most \d+ ")
        # And so does a sample above its bound.
        self.python(latency.lowered())
        probed = self.bash(probe)
        self.assertEqual(1, probed.status, probed.text + probed.complaint)
        self.assertIn("above the certified 1 µs", probed.text)
        status, shown = self.certificate()
        self.assertEqual((1, False), (status, shown["counts"]))
        self.assertIn("above the certified 1 µs", shown["why_not"])

    def test_guest_beside_its_host(self) -> None:
        """A realtime guest measures itself; its host's figures are beside.

        rt-1 is a realtime guest of this machine. Nobody has measured this
        machine, so what stands for its file is rt-1's own certificate.
        """
        host = self.earn()["certificate"]
        inside = (
            "verify guest --profile quick --duration 4s "
            f"--host {latency.CERTIFICATE} --output {self.directory}/guest"
        )
        # As somebody who may have a realtime priority, lock memory, and read
        # the programs, which are below root's home here; and nothing else.
        caps = "+sys_nice,+ipc_lock,+dac_read_search"
        measured = self.bash(
            f"chmod 755 {self.directory}; install -d -o nobody "
            f"{self.directory}/guest; chmod 644 {latency.CERTIFICATE}\n"
            f"setpriv --reuid nobody --clear-groups --inh-caps={caps} "
            f"--ambient-caps={caps} sriov-rt {inside}"
        )
        self.assertIn(measured.status, (0, 1), measured.complaint)
        worst = {each["tool"]: each["max_us"] for each in host["tools"]}
        for tool in ("cyclictest", "oslat"):
            found = re.findall(
                rf"\| {tool} +\| ([23]) +\| (\d+) +\| {worst[tool]} +\|",
                measured.text,
            )
            self.assertEqual(["2", "3"], [cpu for cpu, _ in found], tool)
            self.assertTrue(all(int(us) > 0 for _, us in found))
        self.assertIn("measured inside a guest", measured.text)

    def test_ctrl_c_keeps_what_was_measured(self) -> None:
        """And leaves no program behind."""
        line = self.latency("--duration 10m", "--skip hwlat")
        result = self.bash(
            f"set -m; sriov-rt {line} & p=$!\n"
            "while kill -0 $p && ! pgrep -x cyclictest; do sleep 1; done >&2\n"
            "sleep 5; kill -INT $p; wait $p"
        )
        found = self.answer(result)
        self.assertEqual(130, result.status)
        self.assertEqual(
            ["cyclictest"], [each["tool"] for each in found["measurements"]]
        )
        self.assertIn(
            "it was interrupted before its end",
            self.kept("cyclictest")["problems"],
        )
        left = self.bash("pgrep -x 'stress-ng|cyclictest|oslat|rtla'")
        self.assertEqual(1, left.status, left.text)

    def test_what_does_not_count(self) -> None:
        """Steal time, refused realtime scheduling: each with its reason."""
        only = "--skip hwlat --skip oslat --skip timerlat --load none"
        # What a hypervisor would count: a tick more each second.
        result = self.bash(
            f"""unshare --mount bash -c '
            cp /proc/stat /tmp/stat; mount --bind /tmp/stat /proc/stat
            for n in $(seq 600); do
                echo "cpu2 0 0 0 0 0 0 0 $n 0 0" > /tmp/stat; sleep 1
            done & sriov-rt {self.latency(only)}; c=$?; kill $!; exit $c'"""
        )
        found = self.answer(result)
        self.assertEqual(1, result.status)
        self.assertIn(
            "the hypervisor took time from CPU 2 (steal time)",
            found["measurements"][0]["problems"],
        )
        result = self.bash(
            "setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice "
            f"sriov-rt {self.latency(only)}"
        )
        self.assertIn(result.status, (1, 2), result.text)
        self.assertRegex(
            result.text + result.complaint,
            "cyclictest failed: |SCHED_FIFO 95 of its own",
        )
        self.assert_none()

    def namespaces(self, script: str = "") -> None:
        """Have two of them until the test ends, joined by a script.

        :param script: by default it makes a pair of veth, va and vb.
        """
        self.apart()
        self.addCleanup(self.apart)
        made = self.bash(
            "set -e\nfor each in a b; do ip netns add verify-$each; done\n"
            + (script or VETH)
        )
        self.assertEqual(0, made.status, made.complaint)

    def apart(self) -> None:
        """Have no such namespaces; a VF in one comes back to the machine."""
        self.bash(
            "for each in a b; do ip netns delete verify-$each; done\n"
            "ip link delete verify-br"
        )

    def network(self, name: str, *arguments: str) -> list[Any]:
        """Return what is measured between the namespaces."""
        result = self.bash(
            "sriov-rt verify network --to 192.0.2.2 --namespace verify-a "
            f"--server-namespace verify-b --name {name} --duration 3s "
            f"--output {self.directory} --json {' '.join(arguments)}"
        )
        found = self.answer(result)
        self.assertTrue(all(each["emulated"] for each in found))
        self.assertEqual(
            {"namespaces of one host"}, {each["way"] for each in found}
        )
        left = self.bash("pgrep -x 'iperf3|sockperf'")
        self.assertEqual(1, left.status, left.text)
        return list(found)

    def test_network_between_namespaces(self) -> None:
        """pktgen sends 64 bytes, and the other end counts them."""
        self.bash("modprobe pktgen")
        self.namespaces()
        found = self.network("veth", "--streams 2", "--packets va vb")
        self.assertEqual(
            [("send", ""), ("receive", ""), ("requests", ""), ("packets", "")],
            [(each["cell"]["test"], each["problem"]) for each in found],
        )
        self.assertGreater(found[-1]["figure"], 0)
        self.assertGreater(found[-1]["received"], 0)

    def test_packets_over_each_way_of_seed_001(self) -> None:
        """A bridge, a macvlan and a VF; the veth is the test above."""
        self.addCleanup(
            network.serve_mailboxes, self.vm, network.OWN_MAILBOX_CPU
        )
        network.serve_mailboxes(self.vm, network.MAILBOX_CPU)
        self.bash("for each in pktgen bridge macvlan; do modprobe $each; done")
        for name, script, ends in (
            ("bridge", BRIDGE, "va vb"),
            ("macvlan", MACVLAN, "va vb"),
            ("vf", VF, f"{network.PF}v0 {network.FAR}v0"),
        ):
            with self.subTest(name):
                self.namespaces(script)
                self.assertTrue(network.ping(self.vm, "verify-a", "192.0.2.2"))
                found = self.network(name, "--streams 1", f"--packets {ends}")
                self.assertEqual([""] * 4, [x["problem"] for x in found])
                (packets,) = (
                    x for x in found if x["cell"]["test"] == "packets"
                )
                self.assertGreater(packets["figure"], 0)
                self.assertGreater(packets["received"], 0)

    def test_requests_over_a_stand_in_for_onload(self) -> None:
        """It drops its option and runs the program: no card has Onload."""
        self.namespaces()
        self.vm.push(STAND_IN.encode(), "/usr/local/bin/onload")
        self.addCleanup(self.bash, "rm /usr/local/bin/onload")
        self.bash("chmod 755 /usr/local/bin/onload")
        found = self.network("veth", "--streams 2", "--onload")
        self.assertEqual(
            [("send", False), ("receive", False), ("requests", False),
             ("requests", True)],
            [(x["cell"]["test"], x["cell"]["onload"]) for x in found],
        )  # fmt: skip
        self.assertEqual([""] * 4, [each["problem"] for each in found])
        self.assertIn("onload --profile=latency sockperf", found[3]["command"])
        shown = self.bash(
            f"COLUMNS=200 sriov-rt verify report {self.directory}"
        )
        self.assertRegex(
            shown.text, r"\| requests, Onload .* \d+\.\d\d × kernel +\|"
        )

    def test_network_of_a_container(self) -> None:
        """Its namespace has no name; the host's figure is beside its own."""
        self.namespaces()
        self.bash(test_lxc.MAKE_ROOT)
        config = f"{test_lxc.CONFIG}lxc.net.0.type = empty\n"
        name = f"{test_lxc.PATH}/{test_lxc.NAME}/config"
        self.vm.push(config.encode(), name)
        lxc = f"-P {test_lxc.PATH} -n {test_lxc.NAME}"
        self.addCleanup(self.bash, f"lxc-stop {lxc} -k")
        started = self.bash(f"lxc-start {lxc} -d && lxc-info {lxc} -pH")
        self.assertEqual(started.status, 0, started.complaint)
        pid = started.text.split()[-1]
        common = (
            "verify network --to 192.0.2.2 --server-namespace verify-b "
            f"--streams 1 --duration 3s --output {self.directory}"
        )
        host = self.bash(
            f"sriov-rt {common} --namespace verify-a --name host --json"
        )
        self.assertEqual(0, host.status, host.text + host.complaint)
        self.bash(
            f"""
            ip -n verify-a link set va netns {pid}
            nsenter -n -t {pid} ip address add 192.0.2.1/24 dev va
            nsenter -n -t {pid} ip link set va up
            """
        )
        inside = f"{common} --namespace pid:{pid} --name container"
        found = self.bash(f"COLUMNS=200 sriov-rt {inside}")
        self.assertEqual(0, found.status, found.text + found.complaint)
        for test in ("send", "receive", "requests"):
            self.assertRegex(
                found.text,
                rf"\| container +\| {test} .* \d+\.\d\d × host +\|",
            )

    def test_disk_of_a_guest(self) -> None:
        """The place is named by what the file system is attached by."""
        directory = base.place().state / "verify-disk"
        self.addCleanup(self.bash, f"rm -rf {directory}")
        result = self.bash(
            f"sriov-rt verify disk {directory} --suite matrix --clients 1 "
            "--pattern read --size 4m --duration 1s --json"
        )
        found = self.answer(result)
        self.assertEqual(
            [("virtio-fs", ""), ("container", "")],
            [(each["cell"]["place"], each["problem"]) for each in found],
        )
        self.assertTrue(all(each["figures"]["iops"] > 0 for each in found))
        listed = self.bash(f"ls {directory}").text.split()
        self.assertEqual(
            [
                "disk-matrix-container-read-1-64k.json",
                "disk-matrix-virtio-fs-read-1-64k.json",
            ],
            listed,
        )


#: Probes CPU 2 until a sample exceeds the bound, and prints its culprit.
PROBE = """
import json, pathlib, sys
from sriov_rt import codec
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import watch
from sriov_rt.verify.measurement import Cpus
found = []
cpus = Cpus(CpuSet([2, 3]), CpuSet([0, 1]))
worst = watch.measure(
    2, cpus, 20, int(sys.argv[1]), lambda: None, found.append
)
print(json.dumps([worst, [codec.to_plain(each) for each in found]]))
"""

#: Samples of an emulated CPU above this have a culprit that was planted, µs.
BOUND_US = 60_000

#: A stop_machine is shorter; the emulator's stalls may be longer.
SHORT_US = 15_000

#: How often one is planted until a sample is no stall.
TRIES = 5

#: Has the watch probe CPU 2, since the other is busy, and plants a culprit
#: when it does: a busy CPU is not probed. rtla 6.1 starts its trace when its
#: table has begun, a second later on an emulated CPU that is busy.
WATCHED = """
taskset -c 3 sh -c 'while :; do :; done' & busy=$!
(until grep -qs 1 /sys/kernel/tracing/instances/osnoise_trace/tracing_on
do sleep 0.5; done
exec python3 /tmp/culprits.py {name} >/tmp/{name}.log 2>&1) & planted=$!
sriov-rt verify watch --once --duration 15s --json
code=$?; kill $planted $busy; wait; exit $code
"""

#: How long the emulator is made to stall, and the bound for that.
STALL_S = 0.4
STALL_US = 200_000


@periodic
class CulpritTest(MeasuredTestCase, base.VmTestCase):
    """Culprits that are planted on rt-1, by the old rtla and a newer one."""

    newer: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Have the tools and the tracers."""
        cls.install()
        unpacker = Unpacker(base.place().cache / "debian")
        cls.newer = unpacker.packages("rtla", backport=True).root / "usr/bin"
        super().setUpClass()
        cls.vm.run(("bash", "-c", latency.MOUNT_TRACEFS))
        source = pathlib.Path(__file__).with_name("culprits.py")
        cls.vm.push(source.read_bytes(), "/tmp/culprits.py")

    def planted(
        self, name: str, script: str, *programs: pathlib.Path
    ) -> Result:
        """Return what a script prints while a culprit is there."""
        return self.bash(
            f"python3 /tmp/culprits.py {name} >/tmp/{name}.log 2>&1 & "
            "planted=$!; sleep 3\n"
            f"{script}\ncode=$?; kill $planted; wait $planted; exit $code",
            *programs,
        )

    def measure(
        self, name: str, bound_us: int, *programs: pathlib.Path
    ) -> Any:
        """Return the culprit of a probe; one is planted if it has a name."""
        probe = f"python -I -c '{PROBE}' {bound_us}"
        result = (
            self.planted(name, probe, *programs)
            if name
            else self.bash(probe, *programs)
        )
        worst, found = self.answer(result)
        self.assertGreater(worst, bound_us)
        (named,) = found
        # For tests/unit/verify, and for the page of the documentation.
        log = base.place().log / "culprits.txt"
        with log.open("a") as stream:
            print(name, bool(programs), json.dumps(named), file=stream)
        return named

    def assert_named(
        self, name: str, kind: str, known: str, bound_us: int = BOUND_US
    ) -> None:
        """A culprit is named, by either rtla.

        The emulator's own stalls are among the samples. They have no name, or
        above the short bound that of the code that they fall into.
        """
        stalls = {culprit.UNKNOWN}
        if bound_us == SHORT_US:
            stalls |= culprit.KINDS.keys() - {kind}
        for programs in ((), (self.newer,)):
            with self.subTest(name, newer=bool(programs)):
                for _ in range(TRIES):
                    named = self.measure(name, bound_us, *programs)
                    if named["kind"] not in stalls:
                        break
                self.assertEqual(kind, named["kind"], named)
                self.assertRegex(named["name"], known)

    def test_a_probe_names_a_thread(self) -> None:
        """The watch does."""
        self.assert_named("thread", "thread", "^python3:")

    def test_a_probe_names_a_kernel_thread(self) -> None:
        """It has work for its own CPU."""
        self.assert_named("work", "thread", "^kpktgend_2:")

    def test_a_probe_names_an_interrupt(self) -> None:
        """It was moved to the CPU."""
        self.assert_named("interrupt", "irq", r"^irq/\d+-enp1s0")

    def test_a_probe_names_stop_machine(self) -> None:
        """Another CPU goes offline and comes back."""
        self.assert_named(
            "stop_machine", "stop_machine", "^migration/2:", SHORT_US
        )

    def test_a_breach_is_a_ticket(self) -> None:
        """Each has its culprit in the certificate and in the report."""
        self.directory = "/tmp/tickets"
        results = latency.CERTIFICATE.rpartition("/")[0] + "/results"
        self.bash(f"rm -rf {self.directory} {results} {latency.CERTIFICATE}")
        self.earn()
        kept = "/tmp/certificate.json"
        withdrawal = f"/{certificate.WITHDRAWAL_PATH}"
        self.bash(f"cp {latency.CERTIFICATE} {kept}")
        log = base.place().log / "tickets-tried.txt"
        for name, kind, bound_us in (
            ("thread", "thread", BOUND_US),
            ("work", "thread", BOUND_US),
            ("interrupt", "irq", BOUND_US),
            ("stop_machine", "stop_machine", SHORT_US),
        ):
            for number in range(TRIES):
                self.bash(f"rm {withdrawal}; cp {kept} {latency.CERTIFICATE}")
                self.python(latency.lowered(bound_us))
                probed = self.bash(WATCHED.format(name=name))
                found = self.answer(probed)["culprit"]
                with log.open("a") as stream:
                    print(name, number, json.dumps(found), file=stream)
                self.assertEqual(1, probed.status, probed.text)
                if found["kind"] == kind:
                    break
                # The emulator stood still; no other reason is its own. A
                # stall that falls into running code is charged to that.
                if found["kind"] == culprit.UNKNOWN:
                    self.assertEqual(blame.IDLE_WHY, found["why"])
                else:
                    self.assertEqual(SHORT_US, bound_us, found)
            with self.subTest(name):
                self.assertEqual(kind, found["kind"], found)
                shown = self.bash("sriov-rt verify certificate").text
                self.assertRegex(shown, rf"culprit: .*{found['name']} had the")
        report = self.bash(f"sriov-rt verify report {results}").text
        (base.place().log / "tickets.txt").write_text(report)
        for name in ("python3:", "kpktgend_2:", "enp1s0", "migration/2:"):
            self.assertIn(name, report)
        self.assertIn("-- latency above the bound", report)

    def test_an_emulator_s_stall_has_no_name(self) -> None:
        """QEMU stands still: the machine can't see who had its CPU."""
        pidfile = base.place().state / "vm/rt-1/qemu.pid"
        pid = int(pidfile.read_text())
        ended = threading.Event()

        def stall() -> None:
            while not ended.wait(STALL_S * 3):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(STALL_S)
                os.kill(pid, signal.SIGCONT)

        for programs in ((), (self.newer,)):
            # One that falls into running code is charged to that.
            for _ in range(TRIES):
                ended.clear()
                thread = threading.Thread(target=stall)
                thread.start()
                try:
                    named = self.measure("", STALL_US, *programs)
                finally:
                    ended.set()
                    thread.join()
                if named["kind"] == culprit.UNKNOWN:
                    break
            self.assertEqual(culprit.UNKNOWN, named["kind"], named)
            self.assertEqual(blame.IDLE_WHY, named["why"])
            self.assertGreater(named["latency_us"], STALL_US)


# Boots a machine of its own.
@periodic
class NewerKernelTest(MeasuredTestCase):
    """The same on the PREEMPT_RT kernel of Debian's backports suite.

    It has the mainline's realtime preemption, and timerlat_fd. The machine has
    storage of its own as well.

    :cvar storage: the directory of that, outside.
    """

    storage: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Boot a small machine with it."""
        cls.install()
        super().setUpClass()
        packages.install(RtVm.packages(), base.place().log / "apt-verify.log")
        cls.storage = base.place().state / "verify-storage"
        shutil.rmtree(cls.storage, ignore_errors=True)
        (cls.storage / "export").mkdir(parents=True)
        cls.addClassCleanup(shutil.rmtree, cls.storage)
        with (cls.storage / "disk").open("wb") as disk:
            disk.truncate(DISK)
        machine = Machine(
            name="rt-4",
            number=4,
            backport=True,
            disk=cls.storage / "disk",
            export=cls.storage / "export",
            memory_mb=1024,
            hugepages=0,
            vfs=0,
            libvirt=False,
        )
        cls.vm = RtVm(base.place(), machine)
        cls.vm.stop()
        cls.addClassCleanup(cls.vm.stop)
        cls.vm.start()
        cls.vm.wait_ready(Progress(sys.stderr).say)
        cls.vm.run(("bash", "-c", latency.MOUNT_TRACEFS))

    def test_all_four_tools(self) -> None:
        """With the release's rtla, and with that of the kernel."""
        release = self.bash("uname -r").text
        self.assertRegex(release, r"^6\.(1[2-9]|[2-9]\d)\.")
        unpacker = Unpacker(base.place().cache / "debian")
        rtla = unpacker.packages("rtla", backport=True)
        newer = rtla.root / "usr/bin"
        for name, programs in (("release", ()), ("backport", (newer,))):
            with self.subTest(name):
                self.directory = f"/tmp/newer-{name}"
                result = self.bash(f"sriov-rt {self.latency()}", *programs)
                self.assertIn(result.status, (0, 1), result.complaint)
                self.assert_all_measured(self.answer(result))
        host = self.answer(self.bash("sriov-rt host show --json"))
        self.assertEqual(release.strip(), host["kernel"]["release"])
        self.assertIs(True, host["kernel"]["preempt_rt"])
        # For tests/unit/verify/recorded, where a version is not there yet.
        log = base.place().log / "timerlat-6.12.txt"
        log.write_bytes(
            self.bash(
                "rtla timerlat hist --cpus=2,3 --period=1000 "
                "--priority=f:95 --duration=3s --bucket-size=1 --entries=400",
                newer,
            ).stdout
        )

    def test_disk_by_virtio_blk_and_9p(self) -> None:
        """Each place is known by what its file system is attached by."""
        mounted = self.bash(
            f"""
            set -e
            modprobe -a virtio_blk ext4 9p 9pnet_virtio
            mkdir -p /mnt/blk /mnt/9p
            mkfs.ext4 -q /dev/vda
            mount /dev/vda /mnt/blk
            mount -t 9p -o trans=virtio,version=9p2000.L {EXPORT} /mnt/9p
            """
        )
        self.assertEqual(0, mounted.status, mounted.complaint)
        self.addCleanup(self.bash, "umount /mnt/blk /mnt/9p")
        for where, place in (("blk", "virtio-blk"), ("9p", "9p")):
            with self.subTest(place):
                result = self.bash(
                    f"sriov-rt verify disk /mnt/{where}/verify --suite matrix "
                    "--clients 1 --pattern randread --size 4m --duration 1s "
                    "--json"
                )
                found = self.answer(result)
                self.assertEqual(
                    [(place, ""), ("container", "")],
                    [(x["cell"]["place"], x["problem"]) for x in found],
                )
                for each in found:
                    self.assertGreater(each["figures"]["iops"], 0)
        kept = [each.name for each in (self.storage / "export").iterdir()]
        self.assertEqual(["verify"], kept)


# Boots a machine of its own.
@periodic
class RebootTest(MeasuredTestCase):
    """A certificate outlives a boot, and not another isolcpus."""

    def setUp(self) -> None:
        """Have the certificate's directory on a disk that outlives both."""
        super().setUp()
        self.install()
        packages.install(RtVm.packages(), base.place().log / "apt-verify.log")
        self.directory = "/tmp/reboot"
        self.kept = base.place().state / "reboot-certificate"
        shutil.rmtree(self.kept, ignore_errors=True)
        self.kept.mkdir()
        self.addCleanup(shutil.rmtree, self.kept)

    def boot(self, isolated: str) -> None:
        """Boot with CPUs isolated that nobody else uses."""
        arguments = [
            f"isolcpus=managed_irq,domain,{isolated}"
            if each.startswith("isolcpus=")
            else each
            for each in Machine().arguments
        ]
        machine = Machine(
            name="rt-5",
            number=5,
            arguments=tuple(arguments),
            memory_mb=1024,
            hugepages=0,
            vfs=0,
            libvirt=False,
        )
        vm = RtVm(base.place(), machine)
        vm.stop()
        self.addCleanup(vm.stop)
        vm.start()
        vm.wait_ready(Progress(sys.stderr).say)
        type(self).vm = vm
        place = pathlib.PurePath(latency.CERTIFICATE).parent
        self.bash(f"mkdir -p {place}; mount --bind {self.kept} {place}")
        self.bash(latency.MOUNT_TRACEFS)

    def test_another_isolcpus_withdraws_it(self) -> None:
        """It says what has changed; so do the facts of the host."""
        self.boot("2,3")
        self.earn()
        status, shown = self.certificate()
        self.assertEqual((0, True), (status, shown["counts"]))
        self.boot("3")
        status, shown = self.certificate()
        self.assertEqual((1, False), (status, shown["counts"]))
        why = shown["why_not"]
        self.assertIn("isolated CPUs changed from '2-3' to '3'", why)
        # The frequency of an emulated counter is another one at each start.
        self.assertRegex(
            why,
            "kernel command line changed from "
            r"'isolcpus=managed_irq,domain,2,3\b.*' to "
            r"'isolcpus=managed_irq,domain,3\b",
        )
        self.assertEqual(
            {"isolated CPUs", "kernel command line"},
            set(re.findall(r"(\w[a-zA-Z ]+) changed from", why)),
        )
        facts = self.answer(self.bash("sriov-rt host show --json"))
        self.assertEqual(why, facts["latency"]["certificate"]["withdrawn"])
