# SPDX-License-Identifier: Apache-2.0

"""sriov-rt guest, held against libvirt and the kernel."""

import dataclasses
import json
import os
import pathlib
from typing import ClassVar
from xml.etree import ElementTree

from tests.periodic import periodic
from tests.testbed.rtvm import Result
from tests.vm import base

DOMAIN = pathlib.Path(__file__).with_name("domain.xml")
NAME = "sriov-rt-vm-test"
VF = "/sys/bus/pci/devices/0000:01:10.2"

HOUSEKEEPING = frozenset({0, 1})
ISOLATED = frozenset({2, 3})

#: Runs inside, where it asks the kernel about each thread of a process.
_LOOK = """
import json, os, pathlib, sys
tasks = pathlib.Path("/proc", sys.argv[1], "task")
print(json.dumps([
    {
        "name": (task / "comm").read_text().strip(),
        "policy": os.sched_getscheduler(int(task.name)),
        "priority": os.sched_getparam(int(task.name)).sched_priority,
        "cpus": sorted(os.sched_getaffinity(int(task.name))),
        "last": int((task / "stat").read_text().split(")")[-1].split()[36]),
    }
    for task in tasks.iterdir()
]))
"""


@dataclasses.dataclass(frozen=True)
class Thread:
    """A thread of the guest's QEMU, as the kernel has it.

    :param name: QEMU's name for it.
    :param policy: a constant of sched(7).
    :param priority: 0 for an ordinary thread.
    :param cpus: it may run on.
    :param last: CPU that it ran on last.
    """

    name: str
    policy: int
    priority: int
    cpus: list[int]
    last: int


# tests/cloud shows it of a guest that Nova made, on the same kind of machine.
@periodic
class RenderTest(base.VmTestCase):
    """A rendered domain runs as it was asked to.

    :cvar rendered: what the command gave.
    :cvar live: the domain as libvirt runs it.
    :cvar threads: of its QEMU.
    """

    rendered: ClassVar[Result]
    live: ClassVar[ElementTree.Element]
    threads: ClassVar[list[Thread]]

    @classmethod
    def setUpClass(cls) -> None:
        """Render a domain for the facts of its host, and start it."""
        super().setUpClass()
        cls.addClassCleanup(cls._remove)
        cls.rendered = cls._render(DOMAIN.read_bytes())
        cls.vm.push(cls.rendered.stdout, "/root/domain.xml")
        cls._virsh("define", "/root/domain.xml")
        images = "/var/lib/libvirt/images"
        cls.vm.run(("mkdir", "-p", images))
        cls.vm.run(("truncate", "-s", "1M", f"{images}/{NAME}.raw"))
        cls._virsh("start", NAME)
        cls.live = ElementTree.fromstring(cls._virsh("dumpxml", NAME).stdout)
        pid = cls.vm.read_file(f"/run/libvirt/qemu/{NAME}.pid").strip()
        seen = cls.vm.run(
            ("python3", "-I", "-c", _LOOK, pid), timeout=base.PATIENCE
        )
        cls.threads = [Thread(**each) for each in json.loads(seen.stdout)]

    @classmethod
    def _render(cls, xml: bytes) -> Result:
        facts = cls.command("host", "show", "--json")
        cls.vm.push(facts.stdout, "/root/facts.json")
        return cls.command(
            *("guest", "render", "--facts", "/root/facts.json"),
            *("--extra-spec", "sriov_rt:realtime=required"),
            *("--extra-spec", "sriov_rt:guest=lean"),
            stdin=xml.decode(),
        )

    @classmethod
    def _virsh(cls, *arguments: str, check: bool = True) -> Result:
        return cls.vm.run(
            ("virsh", "--quiet", *arguments),
            timeout=base.PATIENCE,
            check=check,
        )

    @classmethod
    def _remove(cls) -> None:
        cls._virsh("destroy", NAME, check=False)
        cls._virsh("undefine", NAME, check=False)

    def _vcpus(self) -> list[Thread]:
        return [each for each in self.threads if each.name.startswith("CPU ")]

    def test_each_vcpu_is_fifo_on_an_isolated_cpu_of_its_own(self) -> None:
        """The kernel says so, thread by thread."""
        vcpus = self._vcpus()
        self.assertEqual(len(vcpus), 2, self.threads)
        for thread in vcpus:
            with self.subTest(thread.name):
                self.assertEqual(thread.policy, os.SCHED_FIFO)
                self.assertGreaterEqual(thread.priority, 1)
                self.assertEqual(thread.cpus, [thread.last])
        self.assertEqual({thread.last for thread in vcpus}, ISOLATED)

    def test_other_threads_stay_on_housekeeping_cpus(self) -> None:
        """No other thread of QEMU may run on a realtime vCPU's CPU."""
        vcpus = self._vcpus()
        others = [each for each in self.threads if each not in vcpus]
        self.assertTrue(others)
        for thread in others:
            with self.subTest(thread.name):
                self.assertLessEqual(set(thread.cpus), HOUSEKEEPING)

    def test_stripped_devices_are_gone(self) -> None:
        """libvirt put none of them back."""
        for name in (
            *("channel", "graphics", "redirdev", "rng"),
            *("sound", "video", "watchdog"),
        ):
            with self.subTest(name):
                self.assertEqual(self.live.findall(f"devices/{name}"), [])
        for path in ("memballoon", "controller[@type='usb']"):
            with self.subTest(path):
                found = self.live.findall(f"devices/{path}")
                self.assertEqual(
                    [each.get("model") for each in found], ["none"]
                )
        self.assertEqual(
            self.live.findall("devices/controller[@type='virtio-serial']"), []
        )

    def test_no_input_device_but_the_machine_s_own_is_left(self) -> None:
        """A PC has PS/2; libvirt lists it whether the domain does or not."""
        buses = {each.get("bus") for each in self.live.iter("input")}
        self.assertLessEqual(buses, {"ps2"})

    def test_what_a_guest_needs_is_still_there(self) -> None:
        """The disk, the VF and the console stay."""
        for path in ("disk", "interface[@type='hostdev']", "serial"):
            with self.subTest(path):
                self.assertEqual(len(self.live.findall(f"devices/{path}")), 1)

    def test_vf_is_the_guest_s(self) -> None:
        """It is bound to vfio-pci and has the address asked for."""
        driver = self.vm.run(("readlink", f"{VF}/driver")).text.strip()
        self.assertEqual(pathlib.PurePath(driver).name, "vfio-pci")
        link = self.vm.run(("ip", "link", "show", "enp1s0")).text
        self.assertIn("vf 1     link/ether 52:54:00:20:00:01", link)

    def test_domain_tells_what_was_done(self) -> None:
        """libvirt keeps the metadata."""
        (ours,) = self.live.findall("metadata/{*}guest")
        self.assertEqual(ours.get("class"), "lean")

    def test_vcpu_on_a_housekeeping_cpu_is_refused(self) -> None:
        """Exit status 3, a sentence that names the CPU, and no domain."""
        pin = b"<cputune><vcpupin vcpu='0' cpuset='1'/></cputune><os>"
        refused = self._render(DOMAIN.read_bytes().replace(b"<os>", pin))
        self.assertEqual((refused.status, refused.stdout), (3, b""))
        self.assertIn("1", refused.complaint)
