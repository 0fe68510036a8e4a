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

"""The parts of the virtual compute host that need no machine."""

import lzma
import pathlib
import tempfile
import unittest
from unittest import mock

from tests.testbed import errors
from tests.testbed.rtvm import Cable
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import commands
from tests.testbed.rtvm import initramfs
from tests.testbed.rtvm.debian import Tree


class MachineTest(unittest.TestCase):
    """What can't work is refused before anything starts."""

    def test_memory_that_breaks_the_vfs_is_refused(self) -> None:
        """More than 2688 MB would put the VFs' BARs over 4 GiB."""
        Machine(memory_mb=2688)
        with self.assertRaisesRegex(errors.TestbedError, "at most 2688"):
            Machine(memory_mb=2689)

    def test_more_vfs_than_the_card_has_are_refused(self) -> None:
        """A 82576 has seven."""
        Machine(vfs=7)
        with self.assertRaisesRegex(errors.TestbedError, "0 to 7"):
            Machine(vfs=8)

    def test_machines_differ_in_addresses_and_identity(self) -> None:
        """Two machines can share a wire and a cloud."""
        one, other = Machine(), Machine.ordinary("std-2", 2)
        self.assertEqual(one.mac(1), "52:54:00:10:01:01")
        self.assertEqual(other.mac(1), "52:54:00:10:02:01")
        self.assertNotEqual(one.identity, other.identity)
        self.assertEqual(one.identity, Machine().identity)

    def test_ordinary_machine_isolates_nothing(self) -> None:
        """It is what a realtime flavor has to avoid."""
        line = Machine.ordinary("std-2", 2).kernel_line()
        for word in ("isolcpus", "nohz_full", "rcu_nocbs"):
            with self.subTest(word):
                self.assertNotIn(word, line)


class QemuTest(unittest.TestCase):
    """The command line follows from the machine."""

    def _command(self, machine: Machine) -> tuple[str, ...]:
        return commands.qemu(
            machine,
            commands.Files(pathlib.Path("/state/vm/rt-1")),
            emulator=Tree("10", pathlib.Path("/cache/qemu")),
            kernel=pathlib.Path("/cache/vmlinuz"),
            initramfs=pathlib.Path("/cache/initramfs"),
            arguments="quiet",
        )

    def test_no_tap_means_no_management_card(self) -> None:
        """A machine on its own needs nothing of the outer network."""
        command = " ".join(self._command(Machine()))
        self.assertNotIn("virtio-net", command)
        self.assertEqual(command.count("igb,netdev="), 2)

    def test_cable_joins_the_wire_to_another_machine(self) -> None:
        """One end listens, the other looks for it until it is there."""
        socket = pathlib.Path("/state/cable.sock")
        for listens, word in ((True, "server=on"), (False, "reconnect-ms")):
            with self.subTest(listens=listens):
                machine = Machine(cable=Cable(socket, listens))
                command = " ".join(self._command(machine))
                self.assertIn(f"-netdev stream,id=cable,{word}", command)
                self.assertIn("hubport,id=far,hubid=0,netdev=cable", command)
        self.assertNotIn("stream", " ".join(self._command(Machine())))

    def test_storage_of_the_caller_is_attached(self) -> None:
        """A disk on virtio-blk and a directory by 9p, behind all cards."""
        place = pathlib.Path("/state")
        machine = Machine(disk=place / "disk", export=place / "export")
        command = self._command(machine)
        plain = self._command(Machine())
        more = [each for each in command if each not in plain]
        self.assertEqual(
            [
                "-drive",
                "file=/state/disk,format=raw,if=none,id=disk",
                "virtio-blk-pci,drive=disk",
                "-fsdev",
                "local,id=export,path=/state/export,security_model=none",
                "virtio-9p-pci,fsdev=export,mount_tag=export",
            ],
            more,
        )
        at = command.index("-drive")
        self.assertEqual(plain[:at], command[:at])

    def test_tap_of_the_caller_is_used(self) -> None:
        """QEMU neither makes nor configures it."""
        machine = Machine(tap="tap7", address="192.0.2.2/24")
        command = " ".join(self._command(machine))
        self.assertIn("ifname=tap7,script=no,downscript=no", command)

    def test_memory_is_shared_as_a_whole(self) -> None:
        """virtiofsd has to see all of it."""
        command = self._command(Machine(memory_mb=1024))
        self.assertIn("1024M", command)
        self.assertIn(
            "memory-backend-memfd,id=memory,size=1024M,share=on", command
        )


class InitramfsTest(unittest.TestCase):
    """The archive has what /init needs, in the right order."""

    def setUp(self) -> None:
        """Make a tree that looks like a kernel package's."""
        super().setUp()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = pathlib.Path(scratch.name)
        self.modules = self.tree / "lib/modules/6.1"
        self.modules.mkdir(parents=True)
        (self.modules / "modules.builtin").touch()

    def _depend(self, *lines: str) -> None:
        (self.modules / "modules.dep").write_text("\n".join(lines) + "\n")

    def test_needed_modules_come_first(self) -> None:
        """Each is after all that it needs, and none is there twice."""
        self._depend(
            "v/virtio_pci.ko: v/modern.ko v/ring.ko v/virtio.ko",
            "v/modern.ko: v/virtio.ko",
            "f/virtiofs.ko: f/fuse.ko v/ring.ko v/virtio.ko",
            "f/fuse.ko:",
            "o/overlay.ko:",
            "v/ring.ko: v/virtio.ko",
            "v/virtio.ko:",
        )
        files = initramfs.module_files(self.tree, "6.1")
        self.assertEqual(
            [pathlib.Path(file).stem for file in files],
            [
                "virtio",
                "ring",
                "modern",
                "virtio_pci",
                "fuse",
                "virtiofs",
                "overlay",
            ],
        )

    def test_missing_module_is_an_error(self) -> None:
        """A kernel that can't reach the shared root is named."""
        self._depend("v/virtio_pci.ko:", "o/overlay.ko:")
        with self.assertRaisesRegex(errors.TestbedError, "no virtiofs"):
            initramfs.module_files(self.tree, "6.1")

    def test_newer_kernel_has_them_built_in_or_compressed(self) -> None:
        """As that of the backports suite: it can't decompress them itself."""
        (self.modules / "modules.builtin").write_text(
            "kernel/v/virtio_pci.ko\nkernel/f/virtiofs.ko\n"
        )
        self._depend("o/overlay.ko.xz:")
        path = self.modules / "o/overlay.ko.xz"
        path.parent.mkdir()
        path.write_bytes(lzma.compress(b"\x7fELF"))
        target, init = self.tree / "initramfs", self.tree / "init"
        init.write_text("#!/bin/sh\n")
        with mock.patch("shutil.which", return_value=str(init)):
            initramfs.build(target, tree=self.tree, release="6.1", init=init)
        found = self._members(target.read_bytes())
        self.assertEqual(
            (b"/modules/overlay.ko\n", b"\x7fELF"),
            (found["modules/order"][1], found["modules/overlay.ko"][1]),
        )

    def test_archive_is_as_the_kernel_documents(self) -> None:
        """Headers, names and bodies are aligned to four bytes."""
        archive = initramfs.archive(("bin",), {"bin/a": b"12345"})
        self.assertEqual(len(archive) % 4, 0)
        found = self._members(archive)
        self.assertEqual(found["bin"], (0o40755, b""))
        self.assertEqual(found["bin/a"], (0o100755, b"12345"))
        self.assertEqual(list(found)[-1], "TRAILER!!!")

    def _members(self, archive: bytes) -> dict[str, tuple[int, bytes]]:
        """Return mode and body of each member of an archive."""
        found, at = {}, 0
        while at < len(archive):
            head = archive[at : at + 110]
            self.assertEqual(head[:6], b"070701")
            fields = [int(head[i : i + 8], 16) for i in range(6, 110, 8)]
            mode, size, length = fields[1], fields[6], fields[11]
            name = archive[at + 110 : at + 110 + length - 1].decode()
            at = (at + 110 + length + 3) // 4 * 4
            found[name] = (mode, archive[at : at + size])
            at = (at + size + 3) // 4 * 4
        return found
