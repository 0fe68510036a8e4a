# SPDX-License-Identifier: Apache-2.0

"""A libvirtd of a test's own, with our hook, and QEMU without KVM."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

from tests.functional import pinned

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOOK = ROOT / "etc/libvirt/sriov-rt"

INTERPRETER = "python=/usr/bin/python3"

#: No other's sockets, files or domains; what stands for files of the kernel
#: is over them for this daemon and its hooks alone.
DAEMON = """
set -e
hostname "$2"
mount -t tmpfs tmpfs /run
mkdir -p /run/libvirt /var/lib/libvirt /etc/libvirt /var/log/libvirt
mkdir -p /var/cache/libvirt /etc/sriov_rt
mount --bind "$1/lib" /var/lib/libvirt
mount --bind "$1/etc" /etc/libvirt
mount --bind "$1/log" /var/log/libvirt
mount --bind "$1/cache" /var/cache/libvirt
mount --bind "$1/sriov_rt" /etc/sriov_rt
# libvirt 9 can't bind both kinds of cgroups into a container.
if mountpoint -q /sys/fs/cgroup/unified; then
    umount /sys/fs/cgroup/unified
fi
cpus=/sys/devices/system/cpu
mount -t overlay -o "lowerdir=$1/kernel:$cpus" overlay $cpus
# Interrupts of this machine fire on each of its CPUs.
cat /proc/interrupts > "$1/interrupts"
mount --bind "$1/interrupts" /proc/interrupts
exec libvirtd -p "$1/pid"
"""

LIBVIRTD = """auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_dir = "{place}/socket"
host_uuid = "{uuid}"
log_filters = "1:util.hook 3:*"
log_outputs = "2:file:{place}/log/libvirtd.log"
"""

#: No virtlogd, no udev, no cgroups that this machine may not write to.
QEMU = """user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
namespaces = []
cgroup_controllers = []
security_driver = "none"
stdio_handler = "file"
"""

DOMAIN = """<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>32</memory>
  <vcpu>1</vcpu>
  <metadata>{request}</metadata>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cputune>{cputune}</cputune>
  <devices>{devices}</devices>
</domain>"""

REQUEST = (
    "<sriov_rt:request xmlns:sriov_rt='https://docs.openstack.org/sriov-rt/"
    "request/1.0' {}/>"
)

needs_qemu = unittest.skipUnless(
    shutil.which("libvirtd")
    and shutil.which("qemu-system-x86_64")
    and pathlib.Path(
        "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/"
        "libvirt_driver_qemu.so"
    ).exists(),
    "libvirt has no QEMU driver here",
)
needs_root = unittest.skipUnless(
    os.geteuid() == 0, "a daemon's directories are root's"
)


class Libvirt:
    """One daemon.

    :param kernel: file of /sys/devices/system/cpu to its text, for hosts
        that this machine is not.
    :param policy: the text of guests.conf; None for no file.
    :param python: that the hook names.
    """

    def __init__(
        self,
        kernel: dict[str, str] | None = None,
        policy: str | None = None,
        driver: str = "qemu",
        python: str = sys.executable,
    ) -> None:
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(pinned.alone())
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="srt-"))
        self.stack.callback(shutil.rmtree, self.place, ignore_errors=True)
        for each in ("lib", "cache", "socket", "sriov_rt", "kernel"):
            (self.place / each).mkdir()
        (self.place / "log/qemu").mkdir(parents=True)
        hooks = self.place / f"etc/hooks/{driver}.d"
        hooks.mkdir(parents=True)
        script = HOOK.read_text().replace(INTERPRETER, f"python={python}")
        (hooks / "sriov-rt").write_text(script)
        (hooks / "sriov-rt").chmod(0o755)
        (self.place / "etc/libvirtd.conf").write_text(
            LIBVIRTD.format(place=self.place, uuid=uuid.uuid4())
        )
        (self.place / "etc/qemu.conf").write_text(QEMU)
        for name, text in (kernel or {}).items():
            (self.place / "kernel" / name).write_text(text)
        if policy is not None:
            (self.place / "sriov_rt/guests.conf").write_text(policy)
        self.uri = (
            f"{driver}+unix:///system?socket={self.place}/socket/libvirt-sock"
        )
        self._start()

    def _start(self) -> None:
        with (self.place / "log/stderr").open("wb") as stderr:
            self.process = subprocess.Popen(
                [
                    *("unshare", "--mount", "--uts"),
                    *("--propagation", "private"),
                    *("sh", "-c", DAEMON, "sh", str(self.place)),
                    f"srt-{uuid.uuid4().hex[:12]}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        self.stack.callback(self.process.wait, timeout=60)
        self.stack.callback(self.process.terminate)
        deadline = time.monotonic() + 60
        while self.virsh("version").returncode:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(self.log())
            time.sleep(0.1)

    def close(self) -> None:
        """Destroy the guests and end the daemon."""
        for name in self.virsh("list", "--name").stdout.split():
            self.virsh("destroy", name)
        self.stack.close()

    def log(self) -> str:
        """Return what the daemon has logged."""
        texts = [
            path.read_text(errors="replace")
            for path in sorted((self.place / "log").glob("*"))
            if path.is_file()
        ]
        return "".join(texts)

    def virsh(self, *words: str, **more) -> subprocess.CompletedProcess:
        """Run virsh on the daemon."""
        return subprocess.run(
            ("virsh", "-c", self.uri, *words),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
            stdin=None if "input" in more else subprocess.DEVNULL,
            **more,
        )

    def define(self, xml: str) -> subprocess.CompletedProcess:
        """Define a domain."""
        path = self.place / "domain.xml"
        path.write_text(xml)
        return self.virsh("define", str(path))
