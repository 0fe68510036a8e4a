# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""libvirt starts a container as the hook rendered it."""

import os
import pathlib
import shutil
import subprocess
import time
import unittest

from sriov_rt import request as requests
from sriov_rt.guest import engine
from sriov_rt.host.root import Root
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.hook import Onload
from tests.functional.onload import containers

#: A libvirtd of the test's own: no other's sockets, files or domains.
DAEMON = """
set -e
mount -t tmpfs tmpfs /run
# libvirt 9 can't bind both kinds of cgroups into a container.
if mountpoint -q /sys/fs/cgroup/unified; then
    umount /sys/fs/cgroup/unified
fi
for each in run lib etc log cache; do mkdir -p "$1/$each"; done
mkdir -p /run/libvirt /var/lib/libvirt /etc/libvirt /var/log/libvirt
mkdir -p /var/cache/libvirt
mount --bind "$1/lib" /var/lib/libvirt
mount --bind "$1/etc" /etc/libvirt
mount --bind "$1/log" /var/log/libvirt
mount --bind "$1/cache" /var/cache/libvirt
printf 'auth_unix_ro = "none"\\nauth_unix_rw = "none"\\n' \
    > /etc/libvirt/libvirtd.conf
exec libvirtd -p "$1/pid"
"""

DOMAIN = """<domain type='lxc'>
  <name>{name}</name>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os>
    <type>exe</type>
    <init>/init</init>
    <initarg>/said</initarg>
    <initenv name='EF_LD_PRELOAD'>/tmp/evil.so</initenv>
  </os>
  <devices>
    <emulator>/usr/lib/libvirt/libvirt_lxc</emulator>
    <filesystem type='mount' accessmode='passthrough'>
      <source dir='{image}'/>
      <target dir='/'/>
    </filesystem>
    <console type='pty'/>
  </devices>
</domain>"""

ASKS = {"sriov_rt:onload": "required"}


@unittest.skipUnless(
    pathlib.Path("/usr/lib/libvirt/libvirt_lxc").exists()
    and shutil.which("libvirtd"),
    "libvirt has no LXC driver here",
)
@unittest.skipUnless(os.geteuid() == 0, "starting containers needs root")
class LibvirtTest(containers.ContainerTest):
    def setUp(self):
        super().setUp()
        self.daemon = subprocess.Popen(
            [
                *("unshare", "--mount", "--propagation", "private"),
                *("sh", "-c", DAEMON, "sh", str(self.path / "libvirt")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(self.daemon.wait, timeout=60)
        self.addCleanup(self.daemon.terminate)
        self.addCleanup(self.virsh, "destroy", self.name)
        deadline = time.monotonic() + 30
        while self.virsh("version").returncode:
            if time.monotonic() > deadline:
                self.fail(self.virsh("version").stderr)
            time.sleep(0.1)

    def virsh(self, *words, **more):
        return subprocess.run(
            [
                *("nsenter", "--mount", "--target", str(self.daemon.pid)),
                *("virsh", "-c", "lxc:///system", *words),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **more,
        )

    def render(self):
        config = self.configured()
        return engine.render(
            DOMAIN.format(name=self.name, image=self.image),
            requests.parse(ASKS),
            hooks={
                "onload": Onload(
                    lambda: onload_settings.load([config]), Root()
                )
            },
        )

    def test_a_container_starts_with_the_preload(self):
        self.assert_no_module()
        shutil.copy(self.dynamic, self.image / "init")
        rendered = self.render()
        self.assertNotIn("evil", rendered.xml)
        file = self.path / "domain.xml"
        file.write_text(rendered.xml)
        done = self.virsh("create", str(file))
        self.assertEqual(0, done.returncode, done.stderr)
        said = self.said(lambda: self.virsh("list", "--all").stdout)
        self.assertIn(f"LD_PRELOAD={self.INSIDE}/libonload.so", said)
        self.assertIn("EF_POLL_USEC=100000", said)
        self.assertNotIn("evil", " ".join(said))
        self.check_effect(self.init_pid())

    def init_pid(self):
        """Return the process whose program is the image's init."""
        inode = (self.image / "init").stat().st_ino
        for each in pathlib.Path("/proc").iterdir():
            try:
                if each.name.isdigit() and (
                    (each / "exe").stat().st_ino == inode
                ):
                    return int(each.name)
            except OSError:
                continue
        raise AssertionError("the container's init is not there")

    def test_a_static_init_is_refused(self):
        shutil.copy(self.static(), self.image / "init")
        with self.assertRaises(engine.Refused) as caught:
            self.render()
        self.assertEqual(
            ["onload_init_static"],
            [each.code for each in caught.exception.reasons],
        )
