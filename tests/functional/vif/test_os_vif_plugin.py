# SPDX-License-Identifier: Apache-2.0

"""The os-vif plugin with its daemon, which has few capabilities."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from oslo_privsep import capabilities

from tests.functional.vif.isolated import IsolatedTestCase
from tests.functional.vif.isolated import sh

PORT = "b3f2e1d0-1111-4222-8333-444455556666"
NAME = "srtb3f2e1d0-11"
MAC = "02:00:5e:10:00:07"

#: What a service does that plugs by os-vif. Its arguments: a configuration,
#: a port, its name, MAC and kind, and what is to be done one after another.
_CALLER = """
import json, os, pathlib, signal, sys, time
import os_vif
from os_vif import objects
from os_vif.objects import vif as vifs
from oslo_config import cfg

config, uuid, name, mac, kind, *todo = sys.argv[1:]
cfg.CONF([], project="caller", default_config_files=[config])
os_vif.initialize()
from sriov_rt.vif import os_vif_plugin, privsep

instance = objects.instance_info.InstanceInfo(
    uuid="5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa", name="i")
port = vifs.VIFGeneric(
    id=uuid, plugin="sriov_rt", vif_name=name, address=mac,
    port_profile=os_vif_plugin.VIFPortProfileSriovRt(
        kind=kind, physical_network="physnet1", out_kbps=8000))
def daemons():
    found = [int(each.parent.name)
             for each in pathlib.Path("/proc").glob("[0-9]*/cmdline")
             if config.encode() in each.read_bytes()]
    return set(found) - {os.getpid()}
told = []
for what in todo:
    try:
        if what.startswith("SIG"):
            for each in daemons():
                os.kill(each, getattr(signal, what))
        elif what == "plug at last":
            while True:
                try:
                    told.append(os_vif.plug(port, instance))
                    break
                except os_vif.exception.PlugException:
                    time.sleep(0.2)
        elif what == "recover":
            told.append(privsep.recover())
        else:
            told.append(getattr(os_vif, what)(port, instance))
    except os_vif.exception.ExceptionBase as error:
        told.append(str(error.kwargs["err"]))
    except privsep.HostRefused as error:
        told.append(str(error))
children = [
    line.split()[1]
    for status in pathlib.Path("/proc").glob("[0-9]*/status")
    if "privsep" in status.with_name("cmdline").read_text()
    for line in status.read_text().splitlines()
    if line.startswith("CapEff")
]
print(json.dumps([told, children]))
"""

_HOLDER = """
import pathlib, sys, time
from sriov_rt.vif.lock import Locks
with Locks(pathlib.Path(sys.argv[1]), 1.0).port(sys.argv[2]):
    print(flush=True)
    time.sleep(60)
"""


class PluginTest(IsolatedTestCase):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            return
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.records = self.place / "state" / "records"
        ours = self.place / "sriov-rt.conf"
        ours.write_text(
            "[vif]\nparents = physnet1:vf0\ncarrier_wait = 1\n"
            f"records = {self.records}\n"
        )
        helper = pathlib.Path(sys.executable).with_name("privsep-helper")
        self.config = self.place / "caller.conf"
        self.config.write_text(
            f"[os_vif_sriov_rt]\nconfig_file = {ours}\n"
            "[sriov_rt_privileged]\n"
            f"helper_command = {helper} --config-file {self.config}\n"
        )

    def call(self, kind: str, *what: str) -> list:
        """Let a service do something, and return what it was told."""
        done = subprocess.run(
            (
                *(sys.executable, "-W", "ignore", "-c", _CALLER),
                *(str(self.config), PORT, NAME, MAC, kind, *what),
            ),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr[-4000:])
        told, self.capabilities = json.loads(done.stdout)
        return told

    def named(self, name: str, namespace: str | None = None) -> list:
        return [
            each
            for each in self.ip("link", namespace=namespace)
            if each["ifname"] == name
        ]

    def test_a_macvtap_is_plugged_and_unplugged(self):
        self.assertEqual([None], self.call("macvtap", "plug"))
        (found,) = self.named(NAME)
        self.assertEqual("macvtap", found["linkinfo"]["info_kind"])
        self.assertEqual(MAC, found["address"])
        self.assertIn(f"sriov-rt:{PORT}:", found["ifalias"])
        self.assertIn("UP", found["flags"])
        self.assertTrue(
            pathlib.Path(f"/dev/tap{found['ifindex']}").is_char_device()
        )
        self.assertEqual(
            [None, None], self.call("macvtap", "unplug", "unplug")
        )
        self.assertEqual([], self.named(NAME))
        self.assertFalse((self.records / PORT).exists())

    def test_the_daemon_has_four_capabilities(self):
        self.call("macvtap", "plug")
        expected = 0
        for each in (
            capabilities.CAP_MKNOD,
            capabilities.CAP_NET_ADMIN,
            capabilities.CAP_SYS_ADMIN,
            capabilities.CAP_SYS_PTRACE,
        ):
            expected |= 1 << each
        self.assertIn(expected, [int(each, 16) for each in self.capabilities])

    def test_what_the_daemon_makes_is_roots_alone(self):
        # oslo.privsep sets its umask to 0.
        self.call("macvtap", "plug")
        for place in (self.records.parent, self.records):
            self.assertEqual(0, place.stat().st_mode & 0o022, place)
        lock = self.records / "lock"
        self.assertEqual(0o600, lock.stat().st_mode & 0o777)

    def test_what_was_moved_into_a_container_is_plugged(self):
        self.call("macvlan", "plug")
        sh("ip", "link", "set", NAME, "netns", "tenant")
        self.assertEqual([None], self.call("macvlan", "plug"))
        self.assertEqual([], self.named(NAME))
        self.assertEqual(1, len(self.named(NAME, "tenant")))
        self.assertEqual([None], self.call("macvlan", "unplug"))
        self.assertEqual([], self.named(NAME, "tenant"))

    def test_so_is_what_is_in_one_that_has_no_name(self):
        self.call("macvlan", "plug")
        container = subprocess.Popen(("unshare", "-n", "sleep", "60"))
        self.addCleanup(container.wait)
        self.addCleanup(container.kill)
        self._moved(container.pid)
        self.assertEqual([None], self.call("macvlan", "plug"))
        self.assertEqual([], self.named(NAME))

    def _moved(self, pid: int) -> None:
        # Until unshare has left, the process is in the host's namespace.
        for _ in range(100):
            sh("ip", "link", "set", NAME, "netns", str(pid))
            if not self.named(NAME):
                return
        self.fail("it stays on the host")

    def test_an_error_comes_back_as_its_sentence(self):
        sh("ip", "link", "del", "vf0")
        (told,) = self.call("macvtap", "plug")
        self.assertTrue(told.startswith(f"port={PORT} "), told)

    def test_recovery_tells_what_it_found(self):
        self.call("macvtap", "plug")
        (told,) = self.call("macvtap", "recover")
        self.assertEqual([PORT], told["standing"])
        self.assertEqual([], told["undone"])

    def _answer_within(self, seconds: int) -> None:
        with self.config.open("a") as file:
            file.write(f"[os_vif_sriov_rt]\nanswer_timeout = {seconds}\n")

    def test_a_daemon_that_is_stopped_is_waited_for_so_long(self):
        self._answer_within(12)
        # Another one is started, as long as that takes here.
        _, *late, done, again = self.call(
            *("macvtap", "recover", "SIGSTOP", "plug", "unplug", "recover"),
            *("SIGCONT", "recover", "SIGSTOP", "SIGKILL", "plug at last"),
        )
        self.assertEqual(3, len(late))
        for each in late:
            self.assertIn("has not answered within 12 s", each)
            self.assertIn("pkill -KILL -f sriov_rt.vif.privsep", each)
        # What it was asked for, and nobody waited for, is not made.
        self.assertEqual([], done["standing"])
        self.assertIsNone(again)

    def test_a_helper_that_never_comes_up_is_waited_for_so_long(self):
        name = "helper_command = "
        text = self.config.read_text()
        self.config.write_text(text.replace(name, f"{name}sh -c 'sleep 20' "))
        self._answer_within(1)
        (told,) = self.call("macvtap", "recover")
        self.assertIn("has not answered within 1 s", told)

    def test_a_port_that_is_locked_is_waited_for_so_long(self):
        ours = self.place / "sriov-rt.conf"
        ours.write_text(ours.read_text() + "lock_timeout = 1\n")
        holder = subprocess.Popen(
            (sys.executable, "-c", _HOLDER, str(self.records), PORT),
            stdout=subprocess.PIPE,
        )
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.addCleanup(holder.stdout.close)
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        for told in self.call("macvtap", "plug", "unplug"):
            self.assertIn("another process is working on it", told)
            self.assertIn("[vif] lock_timeout is the wait", told)
        holder.kill()
        holder.wait()
        self.assertEqual([None], self.call("macvtap", "plug"))

    def test_a_configuration_that_is_wrong_is_told_of(self):
        ours = self.place / "sriov-rt.conf"
        ours.write_text("[vif]\nlock_timeout = soon\n")
        (told,) = self.call("macvtap", "plug")
        self.assertIn("lock_timeout", told)
