# SPDX-License-Identifier: Apache-2.0

"""The scripts of a node, run by a shell in place of cloud-init."""

import pathlib
import subprocess
import tempfile
import unittest

from sriov_rt.magnum import node

WORDS = ("isolcpus=managed_irq,domain,2-3", "nohz_full=2-3")


class ScriptTest(unittest.TestCase):
    """Below a directory of the test, with stand-ins for what reboots."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.root = pathlib.Path(made.name)
        (self.root / "bin").mkdir()
        (self.root / "proc").mkdir()
        (self.root / "etc/containerd").mkdir(parents=True)
        self.calls = self.root / "calls"
        for name in ("update-grub", "cloud-init", "reboot", "systemctl"):
            self._program(name, f'echo "{name} $*" >>{self.calls}')
        self._program("sleep", "exit 0")

    def _program(self, name, text):
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def _boot(self, part, cmdline="BOOT_IMAGE=/vmlinuz quiet"):
        """Run the script of a part; return its exit code and stderr."""
        (self.root / "proc/cmdline").write_text(cmdline + "\n")
        (found,) = part["files"]
        text = found["content"]
        for path in ("/proc/", "/var/lib/", "/etc/"):
            text = text.replace(path, f"{self.root}{path}")
        done = subprocess.run(
            ("sh", "-c", text),
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin"},
        )
        return done.returncode, done.stderr

    def _called(self):
        return self.calls.read_text() if self.calls.exists() else ""

    def test_the_first_boot_adds_the_parameters_and_begins_again(self):
        self.assertEqual((0, ""), self._boot(node.kernel_parameters(WORDS)))
        self.assertEqual(
            "update-grub \ncloud-init clean\nreboot \n", self._called()
        )
        drop_in = self.root / "etc/default/grub.d/99-sriov-rt.cfg"
        shown = subprocess.run(
            ("sh", "-c", f'. {drop_in}; echo "$GRUB_CMDLINE_LINUX"'),
            check=True,
            capture_output=True,
            text=True,
            env={"GRUB_CMDLINE_LINUX": "console=ttyS0"},
        )
        self.assertEqual(
            "console=ttyS0 " + " ".join(WORDS), shown.stdout.strip()
        )

    def test_the_second_boot_goes_on_to_kubeadm(self):
        part = node.kernel_parameters(WORDS)
        self._boot(part)
        self.calls.unlink()
        code = self._boot(part, f"quiet {' '.join(WORDS)}")
        self.assertEqual((0, ""), code)
        self.assertEqual("", self._called())

    def test_an_image_that_has_the_parameters_does_not_reboot(self):
        part = node.kernel_parameters(WORDS)
        self.assertEqual(0, self._boot(part, " ".join(WORDS))[0])
        self.assertEqual("", self._called())

    def test_a_parameter_that_only_begins_the_same_is_missing(self):
        part = node.kernel_parameters(WORDS)
        self._boot(part, f"{WORDS[0]},4 {WORDS[1]}1")
        self.assertIn("reboot", self._called())

    def test_parameters_without_effect_end_it_and_do_not_reboot_for_ever(self):
        part = node.kernel_parameters(WORDS)
        self._boot(part)
        self.calls.unlink()
        code, said = self._boot(part)
        self.assertEqual(1, code)
        self.assertIn("booted without isolcpus", said)
        self.assertEqual("", self._called())

    def test_an_image_without_grub_does_not_join(self):
        (self.root / "bin/update-grub").unlink()
        code, said = self._boot(node.kernel_parameters(WORDS))
        self.assertEqual(1, code)
        self.assertIn("no update-grub", said)
        self.assertEqual("", self._called())

    def test_a_failed_update_of_grub_does_not_reboot(self):
        self._program("update-grub", "exit 4")
        self.assertEqual(4, self._boot(node.kernel_parameters(WORDS))[0])
        self.assertEqual("", self._called())

    def test_an_image_without_kata_does_not_join(self):
        config = self.root / "etc/containerd/config.toml"
        config.write_text("version = 2\n")
        code, said = self._boot(node.container_runtimes(["kata-rt"]))
        self.assertEqual(1, code)
        self.assertIn("no containerd-shim-kata-v2 in this image", said)
        self.assertEqual("version = 2\n", config.read_text())
        self.assertEqual("", self._called())

    def test_runtimes_are_added_once(self):
        self._program("containerd-shim-kata-v2", "exit 1")
        config = self.root / "etc/containerd/config.toml"
        for version, plugin in (
            (2, "io.containerd.grpc.v1.cri"),
            (3, "io.containerd.cri.v1.runtime"),
        ):
            config.write_text(f"version = {version}\n")
            part = node.container_runtimes(["kata-rt"])
            for _ in range(2):
                self.assertEqual((0, ""), self._boot(part))
            table = f'[plugins."{plugin}".containerd.runtimes.kata-rt]'
            with self.subTest(version):
                self.assertEqual(1, config.read_text().count(table))

    def test_a_script_that_fails_ends_all_of_cloud_inits(self):
        (command,) = node.kernel_parameters(WORDS)["preKubeadmCommands"]
        self.assertEqual(f"{node.KERNEL_SCRIPT} || exit 1", command)
