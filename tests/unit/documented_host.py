# SPDX-License-Identifier: Apache-2.0

"""A host on which every documented command runs and prints the same.

Parts that need a kernel, a cloud or an hour have a stand-in; the output comes
from the same code as on a real host.
"""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import tempfile
import unittest
from collections.abc import Callable
from unittest import mock

from sriov_rt.cmd import collect
from sriov_rt.cmd import device as cmd_device
from sriov_rt.cmd import host as cmd_host
from sriov_rt.cmd import host_apply as cmd_host_apply
from sriov_rt.cmd import host_maintenance
from sriov_rt.cmd import main
from sriov_rt.cmd import paths
from sriov_rt.cmd import pod as cmd_pod
from sriov_rt.cmd import verify_regression
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.devices import settings as device_settings
from sriov_rt.facts import decisive
from sriov_rt.host import conditions
from sriov_rt.host import container
from sriov_rt.host import latency as host_latency
from sriov_rt.host.root import Root
from sriov_rt.nic import tenancy
from sriov_rt.nic import vfs
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.tuning import apply
from sriov_rt.verify import certificate
from sriov_rt.verify import disk
from sriov_rt.verify import figures
from sriov_rt.verify import fio
from sriov_rt.verify import guest
from sriov_rt.verify import latency
from sriov_rt.verify import network
from sriov_rt.verify import results
from sriov_rt.verify import tools
from sriov_rt.verify import watch
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Step
from sriov_rt.vif import plugger as pluggers
from tests.unit import builders
from tests.unit.devices import fakes as device_fakes
from tests.unit.host import trees
from tests.unit.nic import fakes
from tests.unit.onload import test_instances
from tests.unit.tuning import fakes as tuning_fakes
from tests.unit.verify import test_report
from tests.unit.verify.test_certificate import GOOD
from tests.unit.verify.test_certificate import NOW
from tests.unit.verify.test_certificate import SUBJECT
from tests.unit.vif import fakes as vif_fakes

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: A host that merges pages.
KSM = {"ksm_run": 1}

#: Its facts that maintenance changes.
USUAL = {
    "hold": None,
    "microcode": "0x500320a",
    "tuned_profile": "realtime-virtual-host",
    "boot_owed": "",
}

CPUS = Cpus(CpuSet((2, 3)), CpuSet((0, 1)))

#: Tools that measure in a guest.
GUEST = tools.IN_GUESTS

ISSUED = certificate.issue(SUBJECT, GOOD, "standard", LOADS["compute"], NOW)


def stored(place: str, bandwidth: float) -> disk.Measured:
    """Return a result of a disk measurement, with made-up figures."""
    job = fio.Job("randread", 65536, 8, 4, 1024, False, 30)
    return disk.Measured(
        disk.Cell(disk.MATRIX, place, 1, job),
        "ext4",
        SUBJECT.kernel,
        "fio-3.33",
        "fio",
        NOW,
        False,
        fio.Figures(bandwidth, bandwidth / 65536, 900.0, 2000.0, 5000.0),
    )


def carried(test: str, figure: float, **fields) -> network.Measured:
    """Return a result of a network measurement, with made-up figures."""
    return network.Measured(
        network.Cell("host", test, 1, 20),
        "two hosts",
        SUBJECT.kernel,
        "3.12",
        test,
        NOW,
        False,
        figure,
        **fields,
    )


DISK = [stored("bare", 9e8), stored(disk.CONTAINER, 8.8e8)]

NETWORK = [
    carried(network.SEND, 9.41e9, error=1e7),
    carried(network.RECEIVE, 9.4e9, error=1e7),
    carried(network.REQUESTS, 2.1e4, p99_us=31.0),
]


def kubernetes_node(name, labels, vfs, taints=()):
    """Return a Node of 8 CPUs."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": {
                "cpu": "8",
                "memory": "32Gi",
                "pods": "110",
                "intel.com/fast": str(vfs),
            }
        },
    }


FEATURE = "feature.node.kubernetes.io"
CARD = f"{FEATURE}/pci-1924.present"

#: A pod with exclusive CPUs and a VF, and a cluster with two nodes for it.
WEB = {
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "trading",
        "annotations": {"k8s.v1.cni.cncf.io/networks": "fast"},
    },
    "spec": {
        "nodeSelector": {CARD: "true"},
        "containers": [
            {
                "name": "web",
                "resources": {
                    "limits": {
                        "cpu": "4",
                        "memory": "1Gi",
                        "intel.com/fast": "1",
                    }
                },
            }
        ],
    },
}
CLUSTER = {
    "kind": "List",
    "items": [
        kubernetes_node(
            "rt-1",
            {
                CARD: "true",
                f"{FEATURE}/sriov-rt.cpus.isolated": "6",
            },
            4,
        ),
        kubernetes_node(
            "rt-2",
            {CARD: "true"},
            4,
            [{"key": "maintenance", "effect": "NoSchedule"}],
        ),
        kubernetes_node("web-1", {f"{FEATURE}/cpu-pstate.turbo": "true"}, 0),
        {
            "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "name": "fast",
                "namespace": "trading",
                "annotations": {
                    "k8s.v1.cni.cncf.io/resourceName": "intel.com/fast"
                },
            },
        },
        *(
            {
                "kind": "NodeResourceTopology",
                "metadata": {"name": name},
                "attributes": [
                    {
                        "name": "topologyManagerPolicy",
                        "value": "single-numa-node",
                    }
                ],
                "zones": [
                    {
                        "name": f"node-{number}",
                        "resources": [
                            {"name": "cpu", "available": cpus},
                            {"name": "intel.com/fast", "available": vfs},
                        ],
                    }
                    for number, (cpus, vfs) in enumerate(zones)
                ],
            }
            for name, zones in (
                ("rt-1", (("4", "2"), ("2", "2"))),
                ("rt-2", (("4", "0"), ("2", "4"))),
            )
        ),
    ],
}


class DocumentedHost(unittest.TestCase):
    """A host on which every documented command runs."""

    def setUp(self):
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        ).resolve()
        self.addCleanup(os.chdir, pathlib.Path.cwd())
        os.chdir(self.place)
        document = json.dumps(builders.realtime_host().to_plain())
        pathlib.Path("hosts").mkdir()
        for name in ("facts.json", "rt-1.json", "hosts/rt-1.json"):
            pathlib.Path(name).write_text(document)
        self.hosts = [
            dataclasses.replace(
                builders.realtime_host(name, **parts), version="1.0.0"
            )
            for name, parts in (
                ("rt-1", {"maintenance": USUAL}),
                (
                    "rt-2",
                    {
                        "maintenance": {**USUAL, "microcode": "0x5003102"},
                        "memory": KSM,
                    },
                ),
            )
        ]
        pathlib.Path("hosts/rt-2.json").write_text(
            json.dumps(self.hosts[1].to_plain())
        )
        pathlib.Path("host").mkdir()
        host = trees.realtime_host("host")
        host.write("usr/sbin/tuned-adm", "")
        tuning_fakes.grub(host)
        self._write_configuration()
        domains = ROOT / "tests/unit/guest/domains"
        self.domain = (domains / "nova-realtime.xml").read_text()
        pathlib.Path("domain.xml").write_text(self.domain)
        self.boot()

    def boot(self) -> None:
        """Reset the changes of commands to NICs and ports."""
        self.kernel = fakes.FakeKernel("i40e", vfs=4)
        self.kernel.counted = {
            1: {
                "rx_packets": 81204,
                "rx_bytes": 94832210,
                "tx_packets": 40117,
                "tx_bytes": 3128874,
            }
        }
        for number, reason in ((1, ""), (2, "enp1s0/2: vlan is 7, not 0")):
            address = f"0000:01:10.{number}"
            holder = tenancy.Holder(
                tenancy.Kind.POD,
                f"{number}c0ffee/net1",
                f"trading/web-{number}",
                tenancy.State.IN_USE,
                network="fast",
            )
            self.kernel.tenancies.assign(
                address, holder.quarantined(reason) if reason else holder
            )
        records = pathlib.Path(tempfile.mkdtemp(dir=self.place))
        self.plugger = vif_fakes.plugger(records)
        self.devices = trees.Tree(tempfile.mkdtemp(dir=self.place))
        self.placement = device_fakes.FakePlacement()
        self.placement.add("0000:42:00.0")
        for address, number in (("0000:41:00.0", 0), ("0000:42:00.0", 2)):
            device_fakes.put_device(self.devices, address, vfs=number)

    def _write_configuration(self) -> None:
        place = self.place
        (place / "latency.opf").write_text("onload_set EF_POLL_USEC 100000\n")
        (place / "sriov-rt.conf").write_text(
            f"[onload]\nprofile_directories = {place}\nprofiles = latency\n"
            f"library = {place}/libonload.so\ndevices =\n"
            "[nic]\nvfs = enp1s0:4:host\n"
        )
        (place / "pod.json").write_text(
            '{"spec": {"containers": [{"name": "c", "image": "i"}]}}'
        )
        (place / "web.json").write_text(json.dumps(WEB))
        (place / "cluster.json").write_text(json.dumps(CLUSTER))

    def run_command(self, words: list[str]) -> tuple[int, str]:
        """Return the exit code and the output of a command line.

        :param words: the words from ``sriov-rt`` on, including redirections.
        """
        printed, told = io.StringIO(), io.StringIO()
        to_file = printed
        arguments = words[1:]
        given = self.domain
        for sign in ("<", ">"):
            if sign in arguments:
                place = arguments.index(sign)
                if sign == ">":
                    to_file = io.StringIO()
                elif arguments[place + 1].endswith(".json"):
                    given = pathlib.Path(arguments[place + 1]).read_text()
                arguments = arguments[:place]
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
        with contextlib.ExitStack() as stack:
            self._put_in_place(stack)
            stack.enter_context(
                mock.patch.object(
                    cmd_pod, "Tenancies", lambda: self.kernel.tenancies
                )
            )
            arguments = self._stand_in(stack, arguments)
            stack.enter_context(contextlib.redirect_stdout(to_file))
            stack.enter_context(contextlib.redirect_stderr(told))
            stack.enter_context(mock.patch("sys.stdin", stdin))
            code = main.main(arguments)
        output = printed.getvalue() + told.getvalue()
        return code, output.replace(str(self.place), "/opt/onload/lib")

    def _put_in_place(self, stack: contextlib.ExitStack) -> None:
        """Make all commands use this host."""
        patches: list[tuple[object, str, Callable[..., object]]] = [
            # Changing VFs and ports needs an SR-IOV NIC, and root.
            (
                vfs.Vfs,
                "of_host",
                lambda users=None, kind=None: fakes.vfs(self.kernel),
            ),
            (pluggers, "configured", lambda files: self.plugger),
            (os, "geteuid", lambda: 0),
            # The tests may run in a container.
            (container, "sees_host_processes", lambda *_: True),
            # It needs a kernel and a boot loader.
            (apply, "Host", tuning_fakes.FakeHost),
            (
                *(cmd_host_apply, "Root"),
                lambda path: (
                    self.devices.root if str(path) == "/" else Root(path)
                ),
            ),
            # A checkout that was never installed has no sources of facts.
            (cmd_host, "load_sources", lambda: trees.SOURCES),
            (host_maintenance, "Root", lambda *_: self.devices.root),
            # It needs a message queue with agents.
            (collect, "collect", self._collect),
            # The tests may run in a virtual machine, without isolated CPUs
            # and without the programs that measure.
            (conditions, "emulated", lambda root: False),
            (conditions, "changed", lambda *_: ()),
            (latency, "cpus_of", lambda root: CPUS),
            (guest, "cpus_of", lambda root: CPUS),
            (latency, "missing", lambda *_: ()),
            (latency, "without_tracers", lambda profile, _: (profile, ())),
            (disk, "missing", lambda *_: ()),
            (disk, "place_of", lambda *_: "bare"),
            (disk.Target, "prepare", lambda *_, **__: None),
            (network, "missing", lambda *_: ()),
            (results, "exclusive", contextlib.nullcontext),
        ]
        for where, name, value in patches:
            stack.enter_context(mock.patch.object(where, name, value))
        stack.enter_context(mock.patch("time.time", return_value=NOW))
        stack.enter_context(
            mock.patch.dict(os.environ, COLUMNS="80", SUDO_USER="alice")
        )

    def _collect(self, expected, **options) -> list[Candidate]:
        return [
            Candidate(h.host, decisive(h), 12.0, 300.0, h.version, h)
            for h in self.hosts
        ]

    def _stand_in(
        self, stack: contextlib.ExitStack, arguments: list[str]
    ) -> list[str]:
        """Replace what a command needs that cannot be run here.

        :returns: a command line with the same output.
        """
        name = "_".join(arguments[:2]).replace("-", "_")
        stand_in = getattr(self, f"_in_place_of_{name}", None)
        return stand_in(stack, arguments) if stand_in else arguments

    def _in_place_of_device_clean(self, stack, arguments):
        """It needs Placement, and resets devices."""
        found = mock.Mock(node=device_fakes.NODE, clean=("*",))
        found.placement.return_value = self.placement
        for where, name, value in (
            (device_settings, "configured", lambda files: found),
            (cmd_device, "Root", lambda: self.devices.root),
            (container, "sees_host_processes", lambda proc: True),
        ):
            stack.enter_context(mock.patch.object(where, name, value))
        return arguments

    def _in_place_of_onload_status(self, stack, arguments):
        """The processes would be those of this machine."""
        case = test_instances.HostTest()
        case.setUp()
        stack.callback(case.doCleanups)
        case.run_onload(102, 101)
        return [*arguments, "--root", str(case.tree.path)]

    def _in_place_of_verify_latency(self, stack, arguments):
        """It measures for an hour."""
        if "--dry-run" in arguments:
            return arguments
        self._measure(stack, GOOD)
        stack.enter_context(mock.patch.object(certificate, "prepare"))
        stack.enter_context(mock.patch.object(certificate, "write"))
        stack.enter_context(mock.patch.object(figures, "keep"))
        return [*arguments, "--output", str(self.place / "results")]

    def _in_place_of_verify_guest(self, stack, arguments):
        """It measures for half an hour, in a guest."""
        self._measure(stack, [each for each in GOOD if each.tool in GUEST])
        path = self.place / "latency-certificate.json"
        path.write_bytes(host_latency.certificate.to_bytes(ISSUED))
        return [*arguments, "--output", str(self.place / "guest")]

    def _measure(self, stack, found) -> None:
        done = [mock.Mock(measurement=each) for each in found]
        stack.enter_context(
            mock.patch.object(latency.LatencyRun, "run", return_value=done)
        )

    def _in_place_of_verify_certificate(self, stack, arguments):
        """It belongs to root and to this machine."""
        counts = mock.Mock(withdrawn="", withdrawal="", changes="")
        for name, value in (("read", ISSUED), ("status", counts)):
            stack.enter_context(
                mock.patch.object(host_latency, name, return_value=value)
            )
        return arguments

    def _in_place_of_verify_watch(self, stack, arguments):
        """It needs the kernel's tracer."""
        stack.enter_context(mock.patch("shutil.which", return_value="/x"))
        self._in_place_of_verify_certificate(stack, arguments)
        for name, value in (
            ("cpus_of", CPUS),
            ("idle", 2),
            ("most_idle", 1),
            ("_counts", True),
            ("measure", 12),
        ):
            stack.enter_context(
                mock.patch.object(watch, name, return_value=value)
            )
        stack.enter_context(
            mock.patch.object(results, "exclusive", contextlib.nullcontext)
        )
        return arguments

    def _in_place_of_verify_disk(self, stack, arguments):
        """It measures for half an hour."""
        stack.enter_context(
            mock.patch.object(disk, "run", lambda *_, **__: (DISK, False))
        )
        return arguments

    def _in_place_of_verify_network(self, stack, arguments):
        """It needs another host."""
        kept = network.Results(pathlib.Path(tempfile.mkdtemp(dir=self.place)))
        for each in NETWORK:
            kept.put(each)
        stack.enter_context(
            mock.patch.object(
                network.NetworkRun, "run", lambda *_, **__: (NETWORK, False)
            )
        )
        stack.enter_context(
            mock.patch.object(network, "Results", lambda directory: kept)
        )
        # The directory of results, which is below /var/lib by default.
        stack.enter_context(mock.patch.object(paths, "make_directory"))
        return arguments

    def _in_place_of_verify_report(self, stack, arguments):
        """It needs measurements."""
        self._write_results()
        return arguments

    def _in_place_of_verify_compare(self, stack, arguments):
        """It needs measurements and an earlier certificate."""
        self._write_results()
        figures.keep(self.place, NOW - 8100, [self._result(8, NOW - 9000)])
        stack.enter_context(
            mock.patch.object(
                verify_regression, "Root", lambda _: trees.Tree(self.place)
            )
        )
        return arguments

    def _write_results(self) -> None:
        for name, scale in (("before", 8), ("after", 20)):
            results.Results(self.place / name).put(self._result(scale, NOW))

    def _result(self, scale: int, at: float) -> results.Result:
        cpus = tuple(test_report.cpu(cpu, scale) for cpu in (2, 3))
        measured = Measurement(
            "cyclictest", "2.40", "cyclictest", at, 900.0, cpus, ()
        )
        return results.Result(
            Step("cyclictest", 900, interval_us=200),
            "compute",
            SUBJECT.after,
            measured,
            emulated=False,
        )
