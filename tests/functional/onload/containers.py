# SPDX-License-Identifier: Apache-2.0

"""Stand-ins, and images of containers to put them into."""

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
from collections.abc import Callable

from sriov_rt.host.root import Root
from sriov_rt.onload import plan
from sriov_rt.onload import settings as onload_settings
from tests.testbed import standin

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


class ContainerTest(Base):
    """An image with the libraries of the program, and a device node."""

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
        standin.copy_libraries(self.dynamic, self.image)
        # The numbers of /dev/null: nothing of Onload is behind it.
        self.devices = pathlib.Path(f"/dev/{self.name}")
        self.devices.mkdir()
        self.addCleanup(shutil.rmtree, self.devices)
        self.node = self.devices / "onload-stand-in"
        os.mknod(self.node, 0o20666, os.makedev(1, 3))

    def configured(self):
        return self.configure(inside=self.INSIDE, devices=str(self.node))

    def said(self, log: Callable[[], str]) -> list[str]:
        """Return what the program in the container said.

        :param log: what to fail with if it says nothing.
        """
        path = self.image / "said"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if path.exists() and path.read_text().endswith("ready\n"):
                return path.read_text().splitlines()[:-1]
            time.sleep(0.05)
        raise AssertionError(log()[-3000:])

    def check_effect(self, pid: int) -> None:
        """Check what is told of the container's init, and its mounts."""
        found = status(pid)
        self.assertEqual("injected", found["state"])
        self.assertTrue(found["stand_in"])
        self.assertEqual(f"{self.INSIDE}/libonload.so", found["library"])
        node = pathlib.Path(f"/proc/{pid}/root{self.node}")
        self.assertEqual(os.makedev(1, 3), node.stat().st_rdev)
        # Read-only, in the container's own eyes.
        mounts = pathlib.Path(f"/proc/{pid}/mounts").read_text()
        (line,) = (x for x in mounts.splitlines() if self.INSIDE in x)
        self.assertIn("ro", line.split()[3].split(","))
