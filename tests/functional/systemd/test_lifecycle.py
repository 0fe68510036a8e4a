# SPDX-License-Identifier: Apache-2.0

"""The shipped units, as systemd and udev start, restart and stop them."""

import os
import pathlib
import tempfile
import time
import unittest
from typing import ClassVar

from tests.functional.systemd.container import INSTALLED
from tests.functional.systemd.container import Container
from tests.periodic import periodic
from tests.testbed import errors
from tests.testbed import paths
from tests.testbed.waiting import wait_for

AGENT = "sriov-rt-agent"
RESTORE = "sriov-rt-restore"
PATH = f"{RESTORE}.path"
VFS = "sriov-rt-vfs"

ETC = paths.CHECKOUT / "etc"
#: Ours, and where packages put it.
FILES = {
    "udev/90-sriov-rt.rules": "/usr/lib/udev/rules.d/90-sriov-rt.rules",
    "tmpfiles.d/sriov-rt.conf": "/usr/lib/tmpfiles.d/sriov-rt.conf",
    "sysusers.d/sriov-rt.conf": "/usr/lib/sysusers.d/sriov-rt.conf",
}

CONFIGURATION = """[DEFAULT]
host = rt-1
transport_url = fake://
[agent]
publish_traits = false
[vif]
parents = physnet1:up0
"""

#: The kernel's own sysfs of the container's network, to which units and udev
#: may write, as on a host. systemd keeps its control groups.
_SYSFS = """
set -e
mkdir -p /run/sysfs
mount -t sysfs none /run/sysfs
# systemd-nspawn has made it one that nobody writes to.
mount -o remount,rw /run/sysfs
mount --rbind /sys/fs/cgroup /run/sysfs/fs/cgroup
mount --rbind /run/sysfs /sys
"""

PORT = "6b1d5a0c-63b4-4f0e-9d4c-000000000001"
PLUG = (
    *("sriov-rt", "vif", "plug", "--port", PORT, "--owner", "me"),
    *("--kind", "macvlan", "--network", "physnet1", "--namespace", "red"),
    *("--name", "p0", "--address", "192.0.2.1/24"),
)
#: What such a run leaves: the note, and no record.
_LOSE = """
set -e
cd /run/sriov-rt/vif
install -d -m 700 lost
mv records/"$1" lost/
"""
PARENT = "ip link add up0 type veth peer name up1"

#: The id of the container's boot is a file that systemd-nspawn has mounted on
#: its /proc; a unit gets a /proc anew, with the id of the machine's boot.
_BOOT = "/proc/sys/kernel/random/boot_id"
_SAME_BOOT = f"[Service]\nBindReadOnlyPaths=/opt/boot_id:{_BOOT}\n"

#: Seconds until a unit has done what it was started for.
DONE = 120.0

#: Seconds in which a unit would have been started that is off.
OFF_S = 3.0

NOTED = "/run/sriov-rt/restore"


class _Host(Container):
    def prepare(self) -> None:
        """Write what the packages bring, beside the units."""
        super().prepare()
        for source, target in FILES.items():
            self.write(target, (ETC / source).read_text())
        self.write("/etc/sriov_rt/sriov-rt.conf", CONFIGURATION)
        self.write(
            f"/etc/systemd/system/{RESTORE}.service.d/boot.conf", _SAME_BOOT
        )
        # It is started once it may write to sysfs.
        (self.root / "etc/systemd/system/systemd-udevd.service").unlink()


@periodic
class LifecycleTest(unittest.TestCase):
    """One host, whose units no test leaves running."""

    host: ClassVar[Container]
    device: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        """Boot it, and start udev with the shipped rule."""
        super().setUpClass()
        if os.geteuid() != 0:
            raise unittest.SkipTest("containers are made by root")
        cls.device = next(
            each
            for each in pathlib.Path("/sys/bus/pci/devices").iterdir()
            if (each / "class").read_text().startswith("0x02")
        )
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.host = cls.enterClassContext(_Host(pathlib.Path(directory)))
        for command in (
            ("systemd-sysusers",),
            ("cp", _BOOT, "/opt/boot_id"),
            ("bash", "-c", _SYSFS),
            ("systemctl", "start", "systemd-udevd"),
            ("systemctl", "enable", VFS),
            ("ip", "netns", "add", "red"),
        ):
            done = cls.host.run(*command)
            assert done.returncode == 0, done.stderr

    def does(self, *command: str) -> str:
        """Run a command as root, which succeeds; return its output."""
        done = self.host.run(*command)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def log(self, unit: str) -> str:
        """Return what a unit and systemd have logged of a unit."""
        return self.does("journalctl", "-u", unit, "-o", "cat")

    def property(self, unit: str, name: str) -> str:
        return self.host.property(unit, name)

    def wait(self, unit: str, **properties: str) -> None:
        """Wait until a unit has properties, such as ActiveState."""
        try:
            wait_for(
                f"{unit} has {properties}",
                lambda: all(
                    self.property(unit, name) == value
                    for name, value in properties.items()
                ),
                timeout=DONE,
                interval=0.5,
            )
        except errors.TimedOut:
            self.fail(self.log(unit))

    def start(self, unit: str) -> None:
        self.does("systemctl", "start", unit)
        self.addCleanup(self.host.run, "systemctl", "stop", unit)

    def announce(self, action: str) -> None:
        """Let the kernel announce a NIC's function to udev.

        What it announces at a write to this file is made up: the device stays.
        """
        path = f"/sys/bus/pci/devices/{self.device.name}"
        self.does("udevadm", "trigger", f"--action={action}", path)
        self.does("udevadm", "settle")

    def runs(self) -> int:
        """Return how often the unit has begun.

        By its log: a unit that has ended is forgotten with its InvocationID.
        """
        return self.log(RESTORE).count("Starting ")

    # -- what is packaged

    def test_systemd_finds_nothing_wrong(self) -> None:
        units = sorted(each.name for each in (ETC / "systemd").iterdir())
        done = self.host.run("systemd-analyze", "verify", "--man=no", *units)
        said = done.stdout + done.stderr
        self.assertEqual(0, done.returncode, said)
        self.assertNotIn("sriov-rt", said)

    def test_records_have_a_directory_from_the_boot_on(self) -> None:
        said = self.does("stat", "-c", "%U %a", "/run/sriov-rt")
        self.assertEqual("root 755", said.strip())

    # -- a PF that goes and comes back

    def test_a_function_that_goes_starts_the_unit(self) -> None:
        self.start(VFS)
        before = self.runs()
        self.announce("change")
        self.assertEqual(before, self.runs())
        self.announce("remove")
        wait_for(
            "the rule starts the unit",
            lambda: self.runs() > before,
            timeout=DONE,
        )
        self.wait(RESTORE, ActiveState="inactive", Result="success")
        self.assertIn("no port has lost its interface", self.log(RESTORE))

    def test_it_waits_for_who_enables_the_making_of_vfs(self) -> None:
        self.host.run("systemctl", "stop", VFS)
        before = self.runs()
        self.announce("remove")
        self.assertEqual("inactive", self.property(RESTORE, "ActiveState"))
        self.assertEqual(before, self.runs())

    def test_it_tries_again_until_the_port_is_back(self) -> None:
        """A container's interface goes with its parent, which comes back.

        The port was noted as lost by a run that was killed: in a container,
        which has not all namespaces of its kernel, no parent but a VF is ever
        known to be destroyed.
        """
        self.does("bash", "-c", PARENT)
        self.does(*PLUG)
        self.does("bash", "-c", _LOSE, "-", PORT)
        self.addCleanup(self.host.run, "ip", "link", "del", "up0")
        self.addCleanup(self.host.run, "sriov-rt", "vif", "unplug", PORT)
        self.start(VFS)
        self.does("ip", "link", "del", "up0")
        self.announce("remove")
        self.addCleanup(self.host.run, "systemctl", "stop", RESTORE)
        self.wait(RESTORE, SubState="auto-restart", Result="exit-code")
        self.assertIn(f"left: {PORT}", self.log(RESTORE))
        self.does("bash", "-c", PARENT)
        self.wait(RESTORE, ActiveState="inactive", Result="success")
        self.assertIn(f"restored: {PORT}", self.log(RESTORE))
        shown = self.does("ip", "-n", "red", "-brief", "address", "show", "p0")
        self.assertIn("192.0.2.1/24", shown)

    def test_what_goes_while_it_runs_has_it_run_again(self) -> None:
        """A second PF whose event comes when the first one's is seen to."""
        path = f"/etc/systemd/system/{RESTORE}.service.d/slow.conf"
        self.addCleanup(self.host.run, "systemctl", "daemon-reload")
        self.addCleanup(self.host.run, "rm", path)
        self.host.write(path, "[Service]\nExecStartPost=/bin/sleep 15\n")
        self.does("systemctl", "daemon-reload")
        self.start(VFS)
        self.announce("remove")
        self.wait(RESTORE, SubState="start-post")
        before = self.runs()
        self.announce("remove")
        self.assertEqual("start-post", self.property(RESTORE, "SubState"))
        self.assertEqual(before, self.runs())
        wait_for("it runs again", lambda: self.runs() > before, timeout=DONE)
        self.wait(RESTORE, ActiveState="inactive", Result="success")

    # -- who does not want that

    def assert_off(self) -> None:
        """See that what goes has nothing run, and nothing fail."""
        before = self.runs()
        self.announce("remove")
        time.sleep(OFF_S)
        self.assertEqual(before, self.runs())
        self.assertEqual("", self.does("systemctl", "--failed", "-q"))

    def test_it_is_disabled(self) -> None:
        """It stays off when VFs are made; once enabled it does the rest."""
        self.start(VFS)
        self.addCleanup(self.host.run, "systemctl", "enable", PATH)
        self.does("systemctl", "disable", "--now", PATH)
        self.assert_off()
        self.does("systemctl", "restart", VFS)
        self.assert_off()
        before = self.runs()
        self.does("systemctl", "enable", "--now", PATH)
        wait_for("it runs", lambda: self.runs() > before, timeout=DONE)
        self.wait(RESTORE, ActiveState="inactive", Result="success")
        self.does("test", "!", "-e", NOTED)

    def test_it_is_masked(self) -> None:
        """It stays off, and who enables the making of VFs succeeds."""
        self.start(VFS)
        self.addCleanup(self.host.run, "systemctl", "unmask", PATH)
        self.does("systemctl", "mask", "--now", PATH)
        self.assert_off()
        self.does("systemctl", "enable", VFS)
        self.does("systemctl", "restart", VFS)
        self.assert_off()

    def test_its_package_is_removed(self) -> None:
        """As of Debian: units are stopped, the rule may be read still."""
        self.start(VFS)
        names = (f"{VFS}.service", f"{RESTORE}.service", PATH)
        self.addCleanup(self.host.run, "systemctl", "daemon-reload")
        for name in names:
            text = (ETC / "systemd" / name).read_text()
            place = f"{INSTALLED}/{name}"
            self.addCleanup(self.host.write, place, text)
        self.does("systemctl", "stop", *names)
        self.does("rm", *(f"{INSTALLED}/{name}" for name in names))
        self.does("systemctl", "daemon-reload")
        self.assert_off()

    # -- what always fails

    def replace_command(self, name: str, *lines: str) -> None:
        """Replace what the unit starts."""
        path = f"/etc/systemd/system/{RESTORE}.service.d/{name}.conf"
        self.addCleanup(self.host.run, "systemctl", "daemon-reload")
        self.addCleanup(self.host.run, "rm", path)
        text = "\n".join(("[Service]", "ExecStart=", *lines, ""))
        self.host.write(path, text)
        self.does("systemctl", "daemon-reload")
        self.addCleanup(self.host.run, "systemctl", "stop", RESTORE)

    def count(self, seconds: float) -> int:
        """Return how often the unit begins in some seconds."""
        before = self.runs()
        self.announce("remove")
        time.sleep(seconds)
        return self.runs() - before

    def test_one_that_is_stopped_in_the_middle_has_not_failed(self) -> None:
        self.replace_command("sleeps", "ExecStart=/bin/sleep 100")
        self.start(VFS)
        self.announce("remove")
        self.wait(RESTORE, SubState="start")
        self.does("systemctl", "stop", RESTORE)
        self.assertEqual("inactive", self.property(RESTORE, "ActiveState"))

    def test_one_that_fails_pauses(self) -> None:
        self.replace_command("fails", "ExecStart=/bin/false")
        self.start(VFS)
        self.assertIn(self.count(25), (2, 3))
        self.wait(RESTORE, SubState="auto-restart", Result="exit-code")
        self.assertEqual("active", self.property(PATH, "ActiveState"))

    def test_one_that_announces_itself_pauses(self) -> None:
        """As a PF does that makes VFs and gives them up in each run."""
        touch = f"ExecStart=/usr/bin/touch {NOTED}"
        self.replace_command("announces", touch)
        self.start(VFS)
        self.assertIn(self.count(25), range(3, 7))
        self.assertEqual("active", self.property(PATH, "ActiveState"))

    # -- the agent

    def test_the_agent_is_started_again_after_a_crash(self) -> None:
        self.start(AGENT)
        pid = self.property(AGENT, "MainPID")
        self.does("systemctl", "reload", AGENT)
        self.assertEqual(pid, self.property(AGENT, "MainPID"))
        # Of all, the kernel here refuses those that have just ended (EIO).
        kill = ("systemctl", "kill", "--signal=KILL", "--kill-whom=main")
        self.does(*kill, AGENT)
        self.wait(AGENT, NRestarts="1", ActiveState="active")
        self.assertNotEqual(pid, self.property(AGENT, "MainPID"))
        self.does("systemctl", "stop", AGENT)
        self.assertEqual("success", self.property(AGENT, "Result"))

    def test_the_agent_waits_for_a_configuration(self) -> None:
        """It ends with what to correct, and once that is done it runs."""
        conf = "/etc/sriov_rt/sriov-rt.conf"
        self.addCleanup(self.host.write, conf, CONFIGURATION)
        self.host.write(conf, CONFIGURATION + "[agent]\nobserve_interval=no\n")
        self.host.run("systemctl", "start", AGENT)
        self.addCleanup(self.host.run, "systemctl", "reset-failed", AGENT)
        self.wait(AGENT, ActiveState="failed", ExecMainStatus="2")
        self.assertEqual("0", self.property(AGENT, "NRestarts"))
        self.assertIn("observe_interval", self.log(AGENT))
        self.host.write(conf, CONFIGURATION)
        self.start(AGENT)
        self.assertEqual("active", self.property(AGENT, "ActiveState"))
