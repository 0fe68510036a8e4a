# SPDX-License-Identifier: Apache-2.0

"""What a process in a container sees of its host, and what ends with it."""

import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.host import container

OVERLAY = "552 30 0:47 / / rw,relatime - overlay overlay rw,lowerdir=/l\n"
EXT4 = "22 1 254:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n"
TMPFS = "23 22 0:21 / /run rw,nosuid - tmpfs tmpfs rw\n"


class ContainerTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        self.proc = self.root / "proc"
        for each in ("self/ns", "1", "other"):
            (self.proc / each).mkdir(parents=True)
        self.pids = self.proc / "self/ns/pid"
        self.pids.touch()
        # Process 1 has the root that this process has.
        (self.proc / "1/root").symlink_to(self.root)
        self.mounts(TMPFS, OVERLAY)

    def mounts(self, *lines):
        (self.proc / "self/mountinfo").write_text("".join(lines))

    def on_host(self):
        """Make the namespace of process ids the one of the boot."""
        number = self.pids.stat().st_ino
        patched = mock.patch.object(container, "INITIAL_PID_NAMESPACE", number)
        patched.start()
        self.addCleanup(patched.stop)

    def ends(self, directory="run/sriov-rt/vif"):
        # The answer is kept for a process's life.
        container.ends_with_container.cache_clear()
        return container.ends_with_container(
            self.root / directory, str(self.root), str(self.proc)
        )

    def mounted_at_root(self, *lines):
        """As if the tree of the test were mounted at its own path."""
        self.mounts(
            *(
                each.replace(" / / ", f" / {self.root} ", 1).replace(
                    " /run ", f" {self.root}/run "
                )
                for each in lines
            )
        )

    def test_process_ids_of_the_boot_are_the_hosts(self):
        self.assertFalse(container.sees_host_processes(str(self.proc)))
        self.on_host()
        self.assertTrue(container.sees_host_processes(str(self.proc)))

    def test_a_kernel_without_namespaces_has_one_for_all(self):
        self.pids.unlink()
        self.assertTrue(container.sees_host_processes(str(self.proc)))

    def test_a_layer_ends_with_its_container(self):
        for name in ("overlay", "fuse.fuse-overlayfs"):
            layer = OVERLAY.replace("- overlay", f"- {name}")
            self.mounted_at_root(TMPFS, layer)
            self.assertTrue(self.ends())

    def test_what_is_mounted_stays(self):
        self.mounted_at_root(OVERLAY)
        directory = self.root / "run/sriov-rt"
        directory.mkdir(parents=True)
        self.assertTrue(self.ends())
        (directory / "vif").symlink_to("/proc")
        self.assertFalse(self.ends())

    def test_a_machine_in_a_container_keeps_its_files(self):
        self.mounted_at_root(EXT4)
        self.assertFalse(self.ends())

    def test_the_last_mount_is_the_one_that_is_seen(self):
        self.mounted_at_root(EXT4, OVERLAY)
        self.assertTrue(self.ends())
        self.mounted_at_root(OVERLAY, EXT4)
        self.assertFalse(self.ends())

    def test_a_host_on_an_overlay_is_no_container(self):
        self.on_host()
        self.mounted_at_root(OVERLAY)
        self.assertFalse(self.ends())

    def test_a_container_with_the_hosts_process_ids(self):
        self.on_host()
        self.mounted_at_root(OVERLAY)
        (self.proc / "1/root").unlink()
        (self.proc / "1/root").symlink_to(self.proc / "other")
        self.assertTrue(self.ends())
        # Who may not look at process 1 takes nothing for a container.
        (self.proc / "1/root").unlink()
        self.assertFalse(self.ends())

    def test_garbage_in_the_table_of_mounts_is_no_overlay(self):
        short = f"1 2 3 4 {self.root}"
        for text in ("", "-", " - ", "\n\n", "a b c d", short):
            self.mounts(text)
            self.assertFalse(self.ends(), text)
        (self.proc / "self/mountinfo").unlink()
        self.assertFalse(self.ends())
