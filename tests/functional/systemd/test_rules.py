# SPDX-License-Identifier: Apache-2.0

"""The shipped udev rule, as this machine's udev reads it."""

import os
import pathlib
import subprocess
import unittest

from tests.testbed import paths

RULES = paths.CHECKOUT / "etc/udev/90-sriov-rt.rules"
STARTED = "run: '/usr/bin/touch /run/sriov-rt/restore'"

#: In a mount namespace where udev has our rule alone, and where what it notes
#: of devices ends. What a rule runs is printed, and not run.
_TEST = """
set -e
mount -t tmpfs none /run
mount -t tmpfs none /usr/lib/udev/rules.d
cp "$1" /usr/lib/udev/rules.d
exec udevadm test --action="$2" "$3" 2>&1
"""


class RulesTest(unittest.TestCase):
    """What comes and goes starts the unit, and nothing else does."""

    def read(self, action: str, device: pathlib.Path) -> str:
        """Return what udev makes of an event.

        :param action: of the event.
        :param device: its path in sysfs.
        """
        if os.geteuid() != 0:
            raise unittest.SkipTest("mount namespaces are made by root")
        command = ("unshare", "-m", "bash", "-c", _TEST, "-", RULES)
        done = subprocess.run(
            (*command, action, device.resolve()),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn(f"ACTION={action}", done.stdout)
        # It names a line where that runs something, or cannot be parsed.
        for line in done.stdout.splitlines():
            if f"{RULES.name}:" in line:
                self.assertIn(" RUN ", line)
        return done.stdout

    def test_a_nic_that_comes(self) -> None:
        """Its interface has a device; that of a tunnel has none."""
        net = pathlib.Path("/sys/class/net")
        nics = [each for each in net.iterdir() if (each / "device").exists()]
        for nic in nics:
            self.assertIn(STARTED, self.read("add", nic))
            self.assertNotIn(STARTED, self.read("change", nic))
        self.assertTrue(nics)
        self.assertNotIn(STARTED, self.read("add", net / "lo"))

    def test_a_function_that_goes(self) -> None:
        """Network functions by their class, and no other device."""
        found = {True: 0, False: 0}
        for device in pathlib.Path("/sys/bus/pci/devices").iterdir():
            is_net = (device / "class").read_text().startswith("0x02")
            if found[is_net]:
                continue
            found[is_net] += 1
            said = self.read("remove", device)
            (self.assertIn if is_net else self.assertNotIn)(STARTED, said)
        self.assertTrue(found[False])
