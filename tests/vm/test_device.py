# SPDX-License-Identifier: Apache-2.0

"""sriov-rt device clean, on a PF that QEMU emulates."""

import dataclasses
import json
import pathlib
import sys
import unittest
from typing import Any
from typing import ClassVar

from tests.periodic import periodic
from tests.testbed import packages
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import RtVm
from tests.testbed.waiting import wait_for
from tests.vm import base

#: A PF without VFs; the other one of the machine stays with its driver.
ADDRESS = "0000:02:00.0"
DEVICE = f"/sys/bus/pci/devices/{ADDRESS}"
NODE = "std-5"

PORT = 8778
CONFIG = "/run/device.conf"
RECORD = "/run/sriov-rt/devices.json"
_PLACEMENT = pathlib.Path(__file__).with_name("placement.py")
_SETTINGS = f"""
[DEFAULT]
host = {NODE}
[devices]
clean = 0000:02:*
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:{PORT}
"""

#: The first word of a 82576's table of multicast addresses (MTA, datasheet
#: 8.10.15), which nothing but a driver or a reset changes.
_WORD = f"""
import mmap, struct, sys
with open("{DEVICE}/resource0", "r+b") as file:
    with mmap.mmap(file.fileno(), 0x6000) as memory:
        if len(sys.argv) > 1:
            memory[0x5200:0x5204] = struct.pack("<I", int(sys.argv[1], 16))
        print("%08x" % struct.unpack("<I", memory[0x5200:0x5204]))
"""
LEFT = "5ec2e700"

#: Until its standard input ends.
_HOLD = 'exec 9<> "/dev/vfio/$1"; echo held; sleep 100000'


def _bind(driver: str) -> str:
    """Return the script that gives the device to a driver, or to none."""
    return f"""
set -e
[ ! -e {DEVICE}/driver ] || echo {ADDRESS} > {DEVICE}/driver/unbind
echo "{driver}" > {DEVICE}/driver_override
[ -z "{driver}" ] || echo {ADDRESS} > /sys/bus/pci/drivers/{driver}/bind
"""


# Boots a machine of its own.
@periodic
class DeviceTest(unittest.TestCase):
    """A host with a PF that is for one guest after another."""

    vm: ClassVar[RtVm]

    @classmethod
    def setUpClass(cls) -> None:
        """Start it, with a Placement of its own."""
        super().setUpClass()
        base.place().make()
        packages.install(RtVm.packages(), base.place().log / "apt-device.log")
        machine = dataclasses.replace(
            Machine.ordinary(NODE, 5),
            cpus=2,
            memory_mb=768,
            hugepages=0,
            vfs=0,
            libvirt=False,
        )
        cls.vm = RtVm(base.place(), machine)
        cls.vm.stop()
        cls.addClassCleanup(cls.vm.stop)
        cls.vm.start()
        cls.vm.wait_ready(Progress(sys.stderr).say)
        cls.vm.push(_SETTINGS.encode(), CONFIG)
        cls._sh("install -d -m 0755 /run/sriov-rt")
        cls.vm.spawn(
            (
                base.product().program("python"),
                *("-I", str(_PLACEMENT), str(PORT), f"{NODE}_{ADDRESS}"),
            ),
            log=base.place().log / "device-placement.log",
        )
        probe = f"exec 3<> /dev/tcp/127.0.0.1/{PORT}"
        wait_for(
            "Placement listens",
            lambda: cls.vm.run(("bash", "-c", probe), check=False).status == 0,
            timeout=base.PATIENCE,
        )

    @classmethod
    def _sh(cls, script: str, *words: str) -> str:
        command = ("bash", "-c", script, "-", *words)
        return cls.vm.run(command, timeout=base.PATIENCE).text.strip()

    def setUp(self) -> None:
        """Have the device reserved again."""
        super().setUp()
        self._sh(
            f"exec 3<> /dev/tcp/127.0.0.1/{PORT}; printf 'POST /reserve "
            "HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        )

    def clean(self, *words: str, code: int = 0) -> Any:
        """Return what the command says of the device."""
        done = base.command(
            self.vm,
            *("device", "clean", "--config-file", CONFIG, "--json", *words),
        )
        self.assertEqual(code, done.status, done.complaint)
        (found,) = json.loads(done.text)
        self.assertEqual(ADDRESS, found["device"])
        return found

    def word(self, *value: str) -> str:
        """Write a register of the device, if that is given, and read it."""
        python = base.product().program("python")
        self._sh(f"echo 1 > {DEVICE}/enable")
        command = (python, "-I", "-c", _WORD, *value)
        found = self.vm.run(command, timeout=base.PATIENCE).text.strip()
        self._sh(f"echo 0 > {DEVICE}/enable")
        return found

    def test_a_device_is_reset_verified_and_given_back(self) -> None:
        """What its last user has left in it is gone."""
        self._sh(_bind(""))
        self.assertEqual(LEFT, self.word(LEFT))
        found = self.clean("--dry-run")
        self.assertEqual(("due", "flr"), (found["state"], found["method"]))
        self.assertEqual(LEFT, self.word())
        found = self.clean()
        self.assertEqual(("cleaned", None), (found["state"], found["reason"]))
        self.assertEqual("00000000", self.word())
        self.assertEqual("available", self.clean()["state"])

    def test_a_device_on_vfio_is_cleaned_when_nobody_holds_it(self) -> None:
        """It stays reserved, with the process, while somebody does."""
        self._sh(_bind("vfio-pci"))
        self.addCleanup(self._sh, _bind(""))
        group = pathlib.PurePath(self._sh(f"readlink {DEVICE}/iommu_group"))
        log = base.place().log / "device-holder.log"
        holder = self.vm.spawn(("bash", "-c", _HOLD, "-", group.name), log=log)
        wait_for(
            "the device is held",
            lambda: "held" in log.read_text(),
            timeout=base.PATIENCE,
        )
        found = self.clean(code=1)
        self.assertEqual("reserved", found["state"])
        self.assertEqual("device_held", found["reason"]["code"])
        self.assertIn("pid ", found["reason"]["holder"])
        kept = json.loads(self.vm.read_file(RECORD))["devices"]
        self.assertEqual(["device_held"], [each["code"] for each in kept])
        self.vm.kill(holder)
        self.assertEqual("cleaned", self.clean()["state"])
        driver = self._sh(f"readlink {DEVICE}/driver")
        self.assertEqual("vfio-pci", pathlib.PurePath(driver).name)
        self.assertEqual([], json.loads(self.vm.read_file(RECORD))["devices"])

    def test_a_device_with_a_driver_of_the_host_is_left_alone(self) -> None:
        """Whatever Placement says."""
        self._sh(_bind("igb"))
        self.addCleanup(self._sh, _bind(""))
        found = self.clean(code=1)
        self.assertEqual("device_of_host", found["reason"]["code"])
        self.assertEqual("igb", found["reason"]["driver"])
