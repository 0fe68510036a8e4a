# SPDX-License-Identifier: Apache-2.0

"""The shipped units under a real systemd: each program can do its work."""

import dataclasses
import json
import os
import pathlib
import re
import tempfile
import time
import unittest
from typing import Any
from typing import ClassVar
from unittest import mock

import nova.conf
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from oslo_config import cfg

from sriov_rt import facts
from sriov_rt.facts import certificate
from sriov_rt.nova import filters
from sriov_rt.scheduler import listener
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.functional.scheduler import test_filter
from tests.functional.systemd.container import INSTALLED
from tests.functional.systemd.container import Container
from tests.periodic import periodic
from tests.testbed import errors
from tests.testbed import latency
from tests.testbed import paths
from tests.testbed.waiting import wait_for
from tests.unit.host import trees

#: Seconds until a program has said that it is ready.
READY = 120.0

_AGENT = """[DEFAULT]
host = rt-1
transport_url = fake://
[agent]
publish_traits = false
"""

_NEUTRON = """[DEFAULT]
host = rt-1
transport_url = fake://
log_dir = /var/log/neutron
rpc_response_timeout = 1
"""

#: The file that has systemd make the agent's user.
_USERS = "sysusers.d/sriov-rt.conf"
_SYSUSERS = f"/usr/lib/{_USERS}"

_PARENTS = "[vif]\nparents = physnet1:up0\n"

#: Looks into every network namespace, as 'vf provision' does.
_LINKS = """
from sriov_rt.kernel.links import Links
for each in Links().all(everywhere=True):
    print(each.name, "in", each.namespace)
"""

#: Plugs a port, as 'vif restore' does.
_PLUG = """
import logging
from sriov_rt.cmd import main
port = "b3f2e1d0-1111-4222-8333-444455556666"
words = "--owner me --kind macvlan --network physnet1 --namespace red"
name = "--name p0 --address 192.0.2.1/24"
print(main.main(["-v", "vif", "plug", "--port", port, *words.split(),
    *name.split()]))
print(main.main(["-v", "vif", "unplug", port]))
"""

#: Sees each process's files, and writes what 'device clean' writes.
_DEVICES = """
from sriov_rt.devices import cleaning
from sriov_rt.host.root import Root
from sriov_rt.host.vfio import Holders
print("hidden:", Holders(Root()).of("sys/bus/pci/devices/none", None))
with cleaning.alone(Root()):
    cleaning.keep(Root(), (), 1.0)
print("kept")
"""

#: Sees what the agent for Neutron sees.
_HERE = f"""
{_LINKS}
from sriov_rt.host import compute_driver_socket
from sriov_rt.neutron.this_host import ThisHost, settings
driver = compute_driver_socket.bind(
    "rt-1", compute_driver_socket.Driver("test", "lxc")
)
here = ThisHost(settings("/etc/sriov_rt/sriov-rt.conf"), "rt-1")
here.recover()
print("ports", here.ports(), "parents", here.offer().parents)
"""

#: What is mounted on the container's /proc, which a unit gets anew: the id of
#: its boot, by systemd-nspawn, of a file that is gone; drivers, by tests.
_BOOT = "/proc/sys/kernel/random/boot_id"
_MOUNTED = f"/opt/boot_id:{_BOOT} -/proc/driver"

#: Where the agent's report is written, in its StateDirectory.
_REPORT = "/var/lib/sriov-rt/report.json"

#: The agent's program, until it has published: what it would send to the
#: schedulers is written into a file.
_PUBLISH = f"""
import json, os, signal, sys
from oslo_service import backend
# As the program does; oslo.messaging would take eventlet, where it is there.
backend.init_backend(backend.BackendType.THREADING)
from sriov_rt.agent import process, publisher
from sriov_rt.host import compute_driver_socket

# As a nova-compute with our driver, which is not in the container.
driver = compute_driver_socket.bind(
    "rt-1", compute_driver_socket.Driver("test", "kvm")
)

def cast(self, method, **arguments):
    if method == "facts":
        with open({_REPORT!r}, "w") as file:
            json.dump(arguments, file)
        os.kill(os.getpid(), signal.SIGTERM)

publisher.Bus.cast = cast
sys.exit(process.main([]))
"""

#: What the agent looks for of Onload, with up0 as a NIC that it can use by
#: AF_XDP.
_INTERFACE = "0123456789abcdef0123456789abcdef"
_ONLOAD = f"""
set -e
mount -o remount,rw /sys
mkdir -p /sys/module/onload /sys/module/sfc_resource
mount -t tmpfs none /proc/driver
mkdir -p /proc/driver/onload /proc/driver/sfc_resource/up0
echo 1 > /proc/driver/sfc_resource/up0/enable
echo 'onload_version: 9.0.2' > /proc/driver/onload/version
echo 'uk_intf_ver: {_INTERFACE}' >> /proc/driver/onload/version
mknod /dev/onload c 10 250
echo {_INTERFACE} > /usr/lib/libonload.so
"""
_NO_ONLOAD = """
umount /proc/driver
rm -r /sys/module
rm -f /dev/onload /usr/lib/libonload.so
"""

#: A host of two CPUs, of which the second is isolated and idle.
_ISOLATED = f"""
set -e
mkdir -p /opt/cpu
echo 0-1 > /opt/cpu/online
echo 1 > /opt/cpu/isolated
for each in online isolated; do
    mount --bind /opt/cpu/$each /sys/devices/system/cpu/$each
done
cp /proc/stat /opt/cpu/stat
mount --bind /opt/cpu/stat /proc/stat
{latency.MOUNT_TRACEFS}
"""
#: What the latency hangs on, as it is observed inside.
_CONDITIONS = """
import json
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host.root import Root
print(json.dumps(dict(conditions.observe(Root(), compute.observe(Root())))))
"""

#: The interpreter of the programs inside, with what they import.
_PYTHON = """
export PYTHONPATH=$(sed -n 's/^export PYTHONPATH=//p' /usr/bin/sriov-rt)
exec /opt/python/bin/python3 -c "$1"
"""

_NOT_ISOLATED = """
umount /proc/stat
umount /sys/devices/system/cpu/online /sys/devices/system/cpu/isolated
rm -r /usr/bin/rtla /var/lib/sriov-rt-verify /opt/cpu
"""

#: What rtla needs rights for; then what it has once printed.
_RTLA = """#!/bin/sh
set -e
chrt --fifo 95 true
mkdir /sys/kernel/tracing/instances/sriov-rt-test
rmdir /sys/kernel/tracing/instances/sriov-rt-test
cat /opt/cpu/timerlat
"""
_TIMERLAT = paths.CHECKOUT / (
    "tests/unit/verify/recorded/timerlat-6.1-overflow.txt"
)

NETWORK = "3cb9bc59-5699-4588-a4b1-b87f96708bc6"
OTHER_NETWORK = "1b70879f-fd00-411e-8ea9-143e7820e61d"
PORT = "ce531f90-199f-48c0-816c-13e38010b442"
INSTANCE = "6a7a3c1e-4b0d-4f0e-9d4c-000000000001"


def passing(report: dict[str, str], network: str) -> list[str]:
    """Return the hosts that Nova's filter handler gives an Onload flavor.

    :param report: as the agent has published it.
    :param network: UUID of the network that the server asks for.
    """
    objects.register_all()
    options.register(nova.conf.CONF)
    here = worker.Worker(cfg.CONF)
    listener.Endpoint(here.table, mock.Mock()).facts({}, **report)
    spec = objects.RequestSpec(
        flavor=objects.Flavor(name="f", extra_specs=test_filter.ONLOAD),
        instance_uuid="6a7a3c1e-4b0d-4f0e-9d4c-000000000002",
        scheduler_hints={},
        requested_networks=test_filter.networks({"network_id": network}),
        network_metadata=test_filter.metadata("physnet1"),
    )
    state = host_manager.HostState("rt-1", "rt-1", "cell")
    with (
        mock.patch.object(here, "start"),
        mock.patch.object(here, "warm_up"),
        mock.patch.object(worker, "of_this_process", lambda: here),
    ):
        found = nova_filters.HostFilterHandler().get_filtered_objects(
            [filters.RealtimeSriovFilter()], [state], spec, 0
        )
    return [each.host for each in found]


@periodic
class UnitsTest(unittest.TestCase):
    """They have the users, capabilities and hardening that are shipped."""

    host: ClassVar[Container]

    @classmethod
    def setUpClass(cls) -> None:
        """Have the host, with a namespace beside its own."""
        super().setUpClass()
        if os.geteuid() != 0:
            raise unittest.SkipTest("containers are made by root")
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.host = cls.enterClassContext(Container(pathlib.Path(directory)))
        cls.host.write("/etc/sriov_rt/sriov-rt.conf", f"{_AGENT}{_PARENTS}")
        cls.host.write("/etc/neutron/neutron.conf", _NEUTRON)
        cls.host.run("install", "-d", "-o", "neutron", "/var/log/neutron")
        cls.host.write(
            _SYSUSERS, (paths.CHECKOUT / "etc" / _USERS).read_text()
        )
        for command in (
            f"systemd-sysusers {_SYSUSERS}",
            f"cp {_BOOT} /opt/boot_id",
            "ip netns add red",
            "ip link add up0 type veth peer name up1",
            # Not on up0: what has no record there is deleted with a port.
            "ip link add mv0 link up1 type macvlan",
            "ip link set mv0 netns red",
        ):
            done = cls.host.run(*command.split())
            assert done.returncode == 0, done.stderr

    def log(self, unit: str) -> str:
        """Return what a unit has logged."""
        return self.host.run("journalctl", "-u", unit, "-o", "cat").stdout

    def runs(self, unit: str) -> int:
        """Start a service that says when it is ready; return its process."""
        self.addCleanup(self.host.run, "systemctl", "stop", unit)
        started = self.host.run("systemctl", "start", unit)
        self.assertEqual(started.returncode, 0, self.log(unit))
        self.assertEqual(self.host.property(unit, "ActiveState"), "active")
        return int(self.host.property(unit, "MainPID"))

    def instead(self, unit: str, code: str) -> str:
        """Run Python as the program of a unit would run; return its output.

        With the unit's own user, capabilities and hardening.
        """
        text = pathlib.Path(
            f"{self.host.root}{INSTALLED}/{unit}.service"
        ).read_text()
        wrapper = pathlib.Path(self.host.root, "usr/bin/sriov-rt").read_text()
        path = re.findall(r"PYTHONPATH=(\S+)", wrapper)[0]
        text = re.sub(r"(?m)^(Type|ExecReload|Restart\w*)=.*\n", "", text)
        text = re.sub(
            r"(?m)^ExecStart=.*$",
            f"Type=oneshot\nEnvironment=PYTHONPATH={path}\n"
            f"BindReadOnlyPaths={_MOUNTED}\n"
            "ExecStart=/opt/python/bin/python3 /opt/instead.py",
            text,
        ).replace("RemainAfterExit=yes\n", "")
        self.host.write("/opt/instead.py", code)
        self.host.write("/etc/systemd/system/instead.service", text)
        self.host.run("systemctl", "daemon-reload")
        done = self.host.run("systemctl", "start", "instead")
        said = self.log("instead")
        self.host.run("journalctl", "--rotate")
        self.host.run("journalctl", "--vacuum-time=1s")
        self.assertEqual(done.returncode, 0, said)
        return said

    def test_agent_says_that_it_is_ready(self) -> None:
        """As its own user, with two capabilities."""
        pid = self.runs("sriov-rt-agent")
        status = self.host.run("cat", f"/proc/{pid}/status").stdout
        uid = self.done("id", "-u", "sriov-rt").strip()
        self.assertRegex(status, rf"(?m)^Uid:\t{uid}\t")
        self.assertNotEqual("0", uid)
        # CAP_DAC_READ_SEARCH is 2, CAP_SYS_PTRACE 19.
        self.assertRegex(status, rf"(?m)^CapEff:\t{1 << 2 | 1 << 19:016x}$")

    def published(self) -> Any:
        """Return what the agent publishes, run as its unit runs it."""
        self.instead("sriov-rt-agent", _PUBLISH)
        return json.loads(self.host.run("cat", _REPORT).stdout)

    def done(self, *command: str) -> str:
        """Run a command as root, which succeeds; return its output."""
        done = self.host.run(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_agent_publishes_accelerated_ports(self) -> None:
        """From root's records; the filter judges an Onload flavor by them."""
        self.done("sh", "-c", _ONLOAD)
        self.addCleanup(self.host.run, "sh", "-c", _NO_ONLOAD)
        self.done(
            *("sriov-rt", "vif", "plug", "--port", PORT, "--owner", INSTANCE),
            *("--kind", "macvlan", "--network", "physnet1"),
            *("--namespace", "red", "--onload", NETWORK),
        )
        self.addCleanup(self.host.run, "sriov-rt", "vif", "unplug", PORT)
        report = self.published()
        found = facts.from_json(report["document"]).vifs
        self.assertEqual({"physnet1": ("up0",)}, found.pools)
        self.assertEqual(
            (facts.Endpoint(PORT, INSTANCE, NETWORK, "up0"),), found.endpoints
        )
        self.assertEqual(["rt-1"], passing(report, OTHER_NETWORK))
        # The one NIC that Onload can use has an endpoint of this network.
        with self.assertLogs(filters.LOG, "INFO") as logged:
            self.assertEqual([], passing(report, NETWORK))
        self.assertIn("onload_same_host", "".join(logged.output))
        self.done("sriov-rt", "vif", "unplug", PORT)
        report = self.published()
        self.assertEqual(
            (), facts.from_json(report["document"]).vifs.endpoints
        )
        self.assertEqual(["rt-1"], passing(report, NETWORK))

    def test_watch_withdraws_a_certificate(self) -> None:
        """At a latency above it; then it stops on Ctrl-C's signal."""
        unit = "sriov-rt-verify-watch"
        self.addCleanup(self.host.run, "sh", "-c", _NOT_ISOLATED)
        self.done("sh", "-c", _ISOLATED)
        self.host.write("/opt/cpu/timerlat", _TIMERLAT.read_text())
        self.host.write("/usr/bin/rtla", _RTLA, 0o755)
        issued = dataclasses.replace(
            trees.CERTIFICATE,
            issued_at=time.time(),
            expires_at=time.time() + 3600,
            cpus=(certificate.CertifiedCpu(1, 18, 4_500_000, 300.0, None),),
            conditions=json.loads(
                self.done("sh", "-c", _PYTHON, "sh", _CONDITIONS)
            ),
        )
        path = self.host.root / certificate.PATH
        self.host.write(
            f"/{certificate.PATH}", certificate.to_bytes(issued).decode()
        )
        pid = self.runs(unit)
        status = self.host.run("cat", f"/proc/{pid}/status").stdout
        # CAP_DAC_OVERRIDE, CAP_IPC_LOCK, CAP_SYS_ADMIN and CAP_SYS_NICE.
        wanted = 1 << 1 | 1 << 14 | 1 << 21 | 1 << 23
        self.assertRegex(status, rf"(?m)^CapEff:\t{wanted:016x}$")
        why = "CPU 1 had a latency of 70625 µs, above the certified 18 µs"
        try:
            wait_for(
                "a probe withdraws it",
                lambda: "certificate withdrawn" in self.log(unit),
                timeout=READY,
            )
        except errors.TimedOut:
            self.fail(self.log(unit))
        self.assertIn(f"certificate withdrawn: {why}", self.log(unit))
        found = certificate.from_bytes(path.read_bytes())
        self.assertEqual(why, found.withdrawn)
        self.assertEqual(
            (0, 0o644), (path.stat().st_uid, path.stat().st_mode & 0o777)
        )
        self.done("systemctl", "stop", unit)
        self.assertEqual("success", self.host.property(unit, "Result"))

    def test_agent_of_neutron_says_that_it_is_ready(self) -> None:
        """Its log is not where neutron's user alone may write."""
        self.runs("sriov-rt-neutron-agent")
        log = self.host.root / "var/log/sriov-rt"
        wait_for("it has a log", lambda: list(log.iterdir()), timeout=READY)

    def test_agent_of_neutron_sees_every_namespace(self) -> None:
        """So that it knows which ports there are."""
        said = self.instead("sriov-rt-neutron-agent", _HERE)
        self.assertIn("mv0 in red", said)
        self.assertIn("parents {'physnet1': 1}", said)

    def test_vfs_are_made_at_boot(self) -> None:
        """With nothing to make there is nothing that fails."""
        started = self.host.run("systemctl", "start", "sriov-rt-vfs")
        self.assertEqual(started.returncode, 0, self.log("sriov-rt-vfs"))
        self.assertIn("nothing to do", self.log("sriov-rt-vfs"))
        reloaded = self.host.run("systemctl", "reload", "sriov-rt-vfs")
        self.assertEqual(reloaded.returncode, 0, self.log("sriov-rt-vfs"))
        self.assertIn(
            "no port has lost its interface", self.log("sriov-rt-vfs")
        )

    def test_a_reload_may_plug_a_port(self) -> None:
        """Into a container, and announce it."""
        self.done("install", "-d", "-m", "0755", "/run/sriov-rt")
        said = self.instead("sriov-rt-vfs", _PLUG)
        self.assertIn("plugged: p0 in red", said)
        self.assertNotIn("not announced", said)

    def test_devices_are_cleaned_by_the_timer(self) -> None:
        """With none named there is nothing that fails."""
        self.done("install", "-d", "-m", "0755", "/run/sriov-rt")
        unit = "sriov-rt-devices"
        self.addCleanup(self.host.run, "systemctl", "stop", f"{unit}.timer")
        self.done("systemctl", "start", f"{unit}.timer", unit)
        self.assertIn("nothing to do", self.log(unit))
        self.assertEqual(
            "active", self.host.property(f"{unit}.timer", "ActiveState")
        )

    def test_cleaning_sees_every_process(self) -> None:
        """So that no device is reset under its guest."""
        self.done("install", "-d", "-m", "0755", "/run/sriov-rt")
        # As QEMU, it is another user's.
        self.done(
            "systemd-run", "-u", "guest", "--uid=neutron", "sleep", "9999"
        )
        self.addCleanup(self.host.run, "systemctl", "stop", "guest")
        said = self.instead("sriov-rt-devices", _DEVICES)
        self.assertIn("hidden: None", said)
        self.assertIn("kept", said)

    def test_provision_sees_every_namespace(self) -> None:
        """So that no VF goes away under its user."""
        said = self.instead("sriov-rt-vfs", _LINKS)
        self.assertIn("mv0 in red", said)
