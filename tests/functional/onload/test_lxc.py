# SPDX-License-Identifier: Apache-2.0

"""LXC starts a container with the lines that lxc-config prints."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from tests.functional.onload import containers
from tests.functional.onload.containers import run


def _is_below_its_control_groups() -> bool:
    """Return whether control groups are mounted from above our own root.

    So they are in a container that has the host's bound into it.
    """
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    roots = [line.split()[3] for line in lines if " - cgroup" in line]
    return any(root.startswith("/..") for root in roots)


@unittest.skipUnless(shutil.which("lxc-start"), "LXC is not installed")
@unittest.skipIf(
    _is_below_its_control_groups(),
    "LXC does not start where control groups are mounted from outside",
)
@unittest.skipUnless(os.geteuid() == 0, "starting containers needs root")
class LxcTest(containers.ContainerTest):
    """The lines that lxc-config prints, in a container of LXC."""

    def lines(self, config):
        return run(
            *("lxc-config", self.name, "--config-file", config),
            *("--rootfs", str(self.image), "--init", "/init"),
        )

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

    def log(self):
        path = self.path / "log"
        return path.read_text() if path.exists() else "no log"

    def test_a_container_starts_with_the_preload(self):
        self.assert_no_module()
        shutil.copy(self.dynamic, self.image / "init")
        config = self.configured()
        done = self.lines(config)
        self.assertEqual(0, done.returncode, done.stderr)
        self.start(done.stdout, config)
        said = self.said(self.log)
        self.assertIn(f"LD_PRELOAD={self.INSIDE}/libonload.so", said)
        self.assertIn("EF_POLL_USEC=100000", said)
        pid = subprocess.run(
            ["lxc-info", "-n", self.name, "-P", str(self.path), "-pH"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.check_effect(int(pid))

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
        self.assertIn("linked statically", self.log())
