# SPDX-License-Identifier: Apache-2.0

"""The vCPUs of a guest of libvirt's test driver come and go."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest
from unittest import mock

from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import errors
from sriov_rt.verify import hotplug
from tests.functional.onload.test_libvirt import DAEMON

#: Calls the real one inside the daemon's namespace.
VIRSH = "exec nsenter --mount --target {pid} {virsh} -c {uri} "

#: The driver in a daemon: its guests are those of each connection there.
URI = "test+unix:///default"


@unittest.skipUnless(
    shutil.which("libvirtd") and shutil.which("virsh"), "no libvirt here"
)
@unittest.skipUnless(os.geteuid() == 0, "a daemon's directories are root's")
class HotplugTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        daemon = subprocess.Popen(
            [
                *("unshare", "--mount", "--propagation", "private"),
                *("sh", "-c", DAEMON, "sh", str(place / "libvirt")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(daemon.wait, timeout=60)
        self.addCleanup(daemon.terminate)
        call = VIRSH.format(
            pid=daemon.pid, virsh=shutil.which("virsh"), uri=URI
        )
        program = place / "virsh"
        program.write_text(f'#!/bin/sh\n{call} "$@"\n')
        program.chmod(0o755)
        path = f"{place}:{os.environ['PATH']}"
        self.enterContext(mock.patch.dict(os.environ, {"PATH": path}))
        deadline = time.monotonic() + 30
        while self.virsh("version").returncode:
            if time.monotonic() > deadline:
                self.fail(self.virsh("version").stderr)
            time.sleep(0.1)
        # The driver forgets what was set with its last connection.
        held = subprocess.Popen(
            ["virsh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.addCleanup(held.communicate)
        held.stdin.write(b"list\n")
        for line in held.stdout:
            if b"running" in line:
                break

    def virsh(self, *words):
        return subprocess.run(
            ("virsh", *words),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def vcpus(self):
        found = self.virsh("vcpucount", "test", "--active", "--live")
        return int(found.stdout)

    def test_it_has_as_many_in_the_end(self):
        cpus = CpuSet((min(os.sched_getaffinity(0)),))
        self.assertEqual(2, self.vcpus())
        seen = []
        with hotplug.running("test", cpus, 60) as ended:
            deadline = time.monotonic() + 30
            while seen[-3:] != [2, 1, 2] and time.monotonic() < deadline:
                now = self.vcpus()
                if [now] != seen[-1:]:
                    seen.append(now)
            self.assertEqual("", ended())
            while self.vcpus() == 2 and time.monotonic() < deadline:
                pass
        self.assertEqual([2, 1, 2], seen)
        self.assertEqual(2, self.vcpus())

    def test_a_guest_with_room_is_plugged_first(self):
        self.virsh("setvcpus", "test", "1", "--live")
        self.assertEqual(hotplug.Hotplug("test", 1, 2), hotplug.plan("test"))

    def test_a_guest_that_does_not_run(self):
        with self.assertRaisesRegex(errors.HotplugRefused, "domain 'rt-9'"):
            hotplug.plan("rt-9")
        self.virsh("destroy", "test")
        with self.assertRaisesRegex(
            errors.HotplugRefused, "'test': .*domain is not running; name"
        ):
            hotplug.plan("test")
