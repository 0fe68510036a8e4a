# SPDX-License-Identifier: Apache-2.0

"""libvirt starts a container as the hook rendered it."""

import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest
import uuid

from sriov_rt import request as requests
from sriov_rt.agent import audit
from sriov_rt.guest import engine
from sriov_rt.guest import running
from sriov_rt.guest import thread_plan
from sriov_rt.host.root import Root
from sriov_rt.onload import hook
from sriov_rt.onload import instances
from sriov_rt.onload import settings as onload_settings
from sriov_rt.onload.hook import Onload
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.functional.onload import containers
from tests.unit import builders
from tests.unit.onload import elves

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
  <uuid>{uuid}</uuid>
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
        self.uuid = str(uuid.uuid4())
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

    def inside_daemon(self):
        return ("nsenter", "--mount", "--target", str(self.daemon.pid))

    def virsh(self, *words, **more):
        return subprocess.run(
            [
                *self.inside_daemon(),
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
            DOMAIN.format(name=self.name, uuid=self.uuid, image=self.image),
            requests.parse(ASKS),
            hooks={
                "onload": Onload(
                    lambda: onload_settings.load([config]), Root()
                )
            },
        )

    def start(self, xml):
        file = self.path / "domain.xml"
        file.write_text(xml)
        done = self.virsh("create", str(file))
        self.assertEqual(0, done.returncode, done.stderr)

    def test_a_container_starts_with_the_preload(self):
        self.assert_no_module()
        shutil.copy(self.dynamic, self.image / "init")
        rendered = self.render()
        self.assertNotIn("evil", rendered.xml)
        self.start(rendered.xml)
        said = self.said(lambda: self.virsh("list", "--all").stdout)
        self.assertIn(f"LD_PRELOAD={self.INSIDE}/libonload.so", said)
        self.assertIn("EF_POLL_USEC=100000", said)
        self.assertNotIn("evil", " ".join(said))
        self.check_effect(self.init_pid())

    def init_pid(self):
        """Return the process whose program is the image's init."""
        self.said(lambda: self.virsh("list", "--all").stdout)
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

    def test_whose_a_process_is(self):
        self.assert_no_module()
        shutil.copy(self.dynamic, self.image / "init")
        xml = self.render().xml
        self.start(xml.replace("<vcpu>", "<vcpu cpuset='0'>"))
        pid = self.init_pid()
        root = f"/proc/{self.daemon.pid}/root"
        done = containers.run("status", "--root", root, "--json")
        found = json.loads(done.stdout)
        mine = {each["pid"]: each for each in found["processes"]}[pid]
        self.assertEqual(self.uuid, mine["instance"])
        why = "no onload module (the library is a stand-in for Onload's)"
        self.assertEqual(
            [{"instance": self.uuid, "state": "injected", "why": why}],
            [e for e in found["instances"] if e["instance"] == self.uuid],
        )
        said = containers.run("status", "--root", root).stdout
        self.assertIn(f"instance={self.uuid} injected: {why}", said)
        self.assertIn(f"| {pid} | {self.uuid} | ", said)
        self.assertEqual("init", mine["name"])
        # As the agent of that host publishes it.
        (told,) = instances.observe(Root(root))
        self.assertEqual(("injected", why), (told.state, told.why))
        self.check_audit(Root(root), pid, told)
        self.virsh("destroy", self.name)
        self.assertEqual((), instances.observe(Root(root)))

    def check_audit(self, root, pid, workload):
        """Audit the container, while it is as promised and when it is not.

        The host of the facts has no onload module, as this one.
        """
        facts = builders.realtime_host(
            cpus={"isolated": parse_cpu_list("0")},
            onload={"workloads": (workload,), "modules": ()},
        )

        def codes():
            return {
                each.code
                for each in audit.observe(root, facts)
                if each.instance == self.uuid
            }

        self.assertEqual({"guest_onload_idle"}, codes())
        guest = thread_plan.find(root, self.uuid)
        self.assertEqual(
            {pid},
            {each.thread for each in thread_plan.observe(root, guest)},
        )
        # Out of its cgroup, as a manager of cgroups beside libvirt does it.
        for each in ("cpuset/cgroup.procs", "cgroup.procs"):
            file = pathlib.Path("/sys/fs/cgroup") / each
            if file.exists():
                file.write_text(str(pid))
                break
        os.sched_setaffinity(pid, {0, 1})
        self.assertEqual({"guest_onload_idle", "guest_thread_moved"}, codes())
        steps = thread_plan.plan(thread_plan.observe(root, guest))
        thread_plan.apply(root, guest, steps)
        self.assertEqual({"guest_onload_idle"}, codes())

    def test_a_process_that_calls_itself_another_is_not(self):
        """A tenant names its init as the keeper of containers is named."""
        shutil.copy(self.dynamic, self.image / "init")
        os.link(self.image / "init", self.image / running.KEEPER)
        xml = self.render().xml
        self.start(xml.replace(">/init<", f">/{running.KEEPER}<"))
        pid = self.init_pid()
        name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        self.assertEqual(running.KEEPER, name)
        root = Root(f"/proc/{self.daemon.pid}/root")
        (kept,) = instances.containers(root)
        self.assertNotEqual(pid, kept.keeper)
        self.assertEqual(self.uuid, instances.processes(root, (kept,))[pid])

    def test_one_that_is_taken_out_again(self):
        self.assert_no_module()
        shutil.copy(self.dynamic, self.image / "init")
        rendered = self.started(accelerated=False)
        self.start(rendered.xml)
        said = self.said(lambda: self.virsh("list", "--all").stdout)
        for each in said:
            self.assertNotRegex(each, "^(LD_PRELOAD|EF_)")
        (told,) = instances.observe(Root(f"/proc/{self.daemon.pid}/root"))
        self.assertEqual("asked", told.state)
        self.assertIn("runs over the kernel", told.why)

    def started(self, accelerated=True):
        """Return the domain as it is when its image has been mounted."""
        config = self.configured()
        return hook.started(
            self.render().xml,
            requests.parse(ASKS),
            accelerated=accelerated,
            load=lambda: onload_settings.load([config]),
            host=Root(),
        )

    def test_what_is_mounted_later_is_checked_before_the_start(self):
        whole = self.image
        self.image = self.path / "rootfs"
        self.image.mkdir()
        rendered = self.render()
        self.assertIn(
            "the image was not checked", rendered.report.notes[0].message
        )
        with self.assertRaises(engine.Refused) as caught:
            self.started()
        self.assertIn("can't be read", str(caught.exception))
        for program, code in (
            (self.static(), "onload_init_static"),
            (None, "onload_musl"),
            (self.dynamic, None),
        ):
            with self.subTest(code):
                if program is None:
                    data = elves.MUSL.bytes()
                    (whole / "init").write_bytes(data)
                else:
                    shutil.copy(program, whole / "init")
                self.mount(whole)
                self.check(code)
                self.unmount()
        self.mount(whole)
        self.start(self.started().xml)
        said = self.said(lambda: self.virsh("list", "--all").stdout)
        self.assertIn(f"LD_PRELOAD={self.INSIDE}/libonload.so", said)

    def check(self, code):
        if code is None:
            self.started()
            return
        with self.assertRaises(engine.Refused) as caught:
            self.started()
        self.assertEqual(
            [code], [each.code for each in caught.exception.reasons]
        )

    def mount(self, source):
        """Mount an image where the domain has it, as Nova does."""
        for where in ((), self.inside_daemon()):
            subprocess.run(
                [*where, "mount", "--bind", str(source), str(self.image)],
                check=True,
            )
        self.addCleanup(self.unmount)

    def unmount(self):
        for where in (self.inside_daemon(), ()):
            subprocess.run(
                [*where, "umount", "--quiet", str(self.image)],
                check=False,
                stderr=subprocess.DEVNULL,
            )

    def test_a_static_init_is_refused(self):
        shutil.copy(self.static(), self.image / "init")
        with self.assertRaises(engine.Refused) as caught:
            self.render()
        self.assertEqual(
            ["onload_init_static"],
            [each.code for each in caught.exception.reasons],
        )
