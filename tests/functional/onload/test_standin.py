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


"""A stand-in for Onload's library is preloaded, and told of as one."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

from sriov_rt.host.root import Root
from sriov_rt.onload import plan
from sriov_rt.onload import rootfs
from sriov_rt.onload import settings as onload_settings
from tests.functional.onload import standin

CONFIG = """[onload]
profile_directories = {place}/profiles
profiles = mine
default_profile = mine
library = {place}/lib/libonload.so
inside = {inside}
devices = {devices}
"""


def run(*words: str, **more) -> subprocess.CompletedProcess:
    """Run the command on this machine."""
    return subprocess.run(
        [sys.executable, "-m", "sriov_rt.cmd.main", "onload", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **more,
    )


def status(pid: int) -> dict:
    """Return what ``status`` says of a process."""
    done = run("status", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["processes"]
    return {each["pid"]: each for each in rows}[pid]


@unittest.skipIf(standin.missing(), standin.missing() or "")
class Base(unittest.TestCase):
    """A stand-in, a program and an operator's configuration."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.library = standin.library(cls.place)
        cls.dynamic = standin.build(cls.place, "dynamic", standin.PROGRAM)
        (cls.place / "profiles").mkdir()
        (cls.place / "profiles/mine.opf").write_text(
            "# mine\nonload_import latency\nonload_set EF_NAME mine\n"
        )
        (cls.place / "profiles/latency.opf").write_text(
            "onload_set EF_POLL_USEC 100000\n"
        )

    def configure(self, inside=None, devices=""):
        path = self.place / "sriov-rt.conf"
        text = CONFIG.format(
            place=self.place,
            inside=inside or f"{self.place}/lib",
            devices=devices,
        )
        path.write_text(text)
        return str(path)

    def static(self):
        try:
            return standin.build(
                self.place, "static", standin.PROGRAM, "-static"
            )
        except subprocess.CalledProcessError:
            self.skipTest("there is no libc to link a program to statically")

    def environment(self):
        settings = onload_settings.load([self.configure()])
        profile = settings.profile(None, Root())
        return dict(plan.container(settings, profile).environment)

    def assert_no_module(self):
        if pathlib.Path("/sys/module/onload").exists():
            self.skipTest("this machine has Onload's own module")


class StandInTest(Base):
    def test_a_dynamic_program_is_injected_and_no_more(self):
        self.assert_no_module()
        wanted = self.environment()
        with standin.running(self.dynamic, wanted) as (process, said):
            found = status(process.pid)
            self.assertEqual(
                sorted(f"{name}={text}" for name, text in wanted.items()),
                sorted(said),
            )
            self.assertEqual("injected", found["state"])
            self.assertEqual(
                "injected, not accelerated: no onload module (the library "
                "is a stand-in for Onload's)",
                found["message"],
            )
            self.assertTrue(found["stand_in"])
            self.assertEqual(self.library, found["library"])
            self.assertEqual(wanted, found["variables"])
            self.assertEqual("mine", found["variables"]["EF_NAME"])
            process.stdin.close()
            self.assertEqual(
                "stand-in for libonload.so: 3 socket calls\n",
                process.stderr.read(),
            )

    def test_a_static_program_is_not(self):
        program = self.static()
        with standin.running(program, self.environment()) as (process, _):
            found = status(process.pid)
            self.assertEqual("asked", found["state"])
            self.assertEqual(
                "asked, not injected: the program is linked statically",
                found["message"],
            )
            self.assertIsNone(found["library"])
            process.stdin.close()
            self.assertEqual("", process.stderr.read())

    def test_a_program_without_preload_is_not_listed(self):
        with (
            standin.running(self.dynamic, {}) as (process, _),
            self.assertRaises(KeyError),
        ):
            status(process.pid)

    def test_the_stand_in_says_so_in_the_table(self):
        with standin.running(self.dynamic, self.environment()):
            done = run("status")
            self.assertIn("stand-in", done.stdout)

    def test_images_of_this_machine(self):
        root = Root()
        for path, codes in (
            (self.dynamic, []),
            (self.static(), ["onload_init_static"]),
            ("/etc/passwd", ["onload_init_unreadable"]),
        ):
            found = rootfs.why_not(root, path, root, self.library)
            self.assertEqual(codes, [each.code for each in found])

    @unittest.skipUnless(shutil.which("musl-gcc"), "musl is not installed")
    def test_a_program_of_musl(self):
        path = str(self.place / "musl")
        subprocess.run(
            ["musl-gcc", "-x", "c", "-", "-o", path],
            input=standin.PROGRAM,
            text=True,
            check=True,
        )
        found = rootfs.why_not(Root(), path, Root(), self.library)
        self.assertEqual(["onload_musl"], [each.code for each in found])


@unittest.skipUnless(shutil.which("lxc-start"), "LXC is not installed")
@unittest.skipUnless(os.geteuid() == 0, "starting containers needs root")
class LxcTest(Base):
    """The lines that lxc-config prints, in a container of LXC."""

    INSIDE = "/opt/sriov-rt/onload"

    def setUp(self):
        super().setUp()
        self.name = f"srt-{uuid.uuid4().hex[:8]}"
        self.path = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.path)
        self.image = self.path / "image"
        for each in ("proc", "sys", "dev", "lib", "lib64", "usr"):
            (self.image / each).mkdir(parents=True)
        # Its own libc, not the host's by a mount: the check reads the image.
        libraries = subprocess.run(
            ["ldd", self.dynamic], capture_output=True, text=True, check=True
        ).stdout
        for word in libraries.split():
            if word.startswith("/"):
                target = self.image / word.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, target)
        # The numbers of /dev/null: nothing of Onload is behind it.
        self.devices = pathlib.Path(f"/dev/{self.name}")
        self.devices.mkdir()
        self.addCleanup(shutil.rmtree, self.devices)
        self.node = self.devices / "onload-stand-in"
        os.mknod(self.node, 0o20666, os.makedev(1, 3))

    def lines(self, config):
        return run(
            *("lxc-config", self.name, "--config-file", config),
            *("--rootfs", str(self.image), "--init", "/init"),
        )

    def configured(self):
        return self.configure(inside=self.INSIDE, devices=str(self.node))

    def start(self, printed, config):
        bin_directory = self.path / "bin"
        bin_directory.mkdir()
        command = bin_directory / "sriov-rt"
        command.write_text(
            f"#!/bin/sh\ncd {pathlib.Path.cwd()}\n"
            f'exec {sys.executable} -m sriov_rt.cmd.main "$@" '
            f"--config-file {config} --init /init\n"
        )
        command.chmod(0o755)
        file = self.path / "lxc.conf"
        file.write_text(
            f"lxc.uts.name = {self.name}\n"
            f"lxc.rootfs.path = dir:{self.image}\n"
            "lxc.net.0.type = none\n"
            "lxc.mount.auto = proc:rw\n" + printed
        )
        path = f"{bin_directory}:{os.environ['PATH']}"
        process = subprocess.Popen(
            [
                *("lxc-start", "-n", self.name, "-P", str(self.path)),
                *("-f", str(file), "-F", "-l", "DEBUG"),
                *("-o", str(self.path / "log"), "--", "/init", "/said"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": path},
        )
        self.addCleanup(process.wait, timeout=60)
        self.addCleanup(
            subprocess.run,
            ["lxc-stop", "-n", self.name, "-P", str(self.path), "-k"],
            capture_output=True,
            check=False,
        )
        return process

    def said(self, process):
        path = self.image / "said"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if path.exists() and path.read_text().endswith("ready\n"):
                return path.read_text().splitlines()[:-1]
            if process.poll() is not None:
                break
            time.sleep(0.05)
        log = self.path / "log"
        told = log.read_text()[-3000:] if log.exists() else "no log"
        raise AssertionError(told)

    def test_a_container_starts_with_the_preload(self):
        self.assert_no_module()
        shutil.copy(self.dynamic, self.image / "init")
        config = self.configured()
        done = self.lines(config)
        self.assertEqual(0, done.returncode, done.stderr)
        process = self.start(done.stdout, config)
        said = self.said(process)
        self.assertIn(f"LD_PRELOAD={self.INSIDE}/libonload.so", said)
        self.assertIn("EF_POLL_USEC=100000", said)
        pid = subprocess.run(
            ["lxc-info", "-n", self.name, "-P", str(self.path), "-pH"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found = status(int(pid))
        self.assertEqual("injected", found["state"])
        self.assertTrue(found["stand_in"])
        self.assertEqual(f"{self.INSIDE}/libonload.so", found["library"])
        node = pathlib.Path(f"/proc/{int(pid)}/root{self.node}")
        self.assertEqual(os.makedev(1, 3), node.stat().st_rdev)
        # Read-only, in the container's own eyes.
        mounts = pathlib.Path(f"/proc/{int(pid)}/mounts").read_text()
        (line,) = (x for x in mounts.splitlines() if self.INSIDE in x)
        self.assertIn("ro", line.split()[3].split(","))

    def test_an_image_with_a_static_init_is_refused(self):
        shutil.copy(self.static(), self.image / "init")
        config = self.configured()
        done = self.lines(config)
        self.assertEqual(3, done.returncode)
        self.assertIn("linked statically", done.stderr)
        self.assertEqual("", done.stdout)

    def test_the_hook_keeps_such_a_container_from_starting(self):
        shutil.copy(self.dynamic, self.image / "init")
        config = self.configured()
        done = self.lines(config)
        shutil.copy(self.static(), self.image / "init")
        process = self.start(done.stdout, config)
        self.assertNotEqual(0, process.wait(timeout=60))
        self.assertFalse((self.image / "said").exists())
        self.assertIn("linked statically", (self.path / "log").read_text())
