# SPDX-License-Identifier: Apache-2.0

"""The command lines of QEMU and virtiofsd."""

import dataclasses
import os
import pathlib

from tests.testbed.rtvm.debian import Tree
from tests.testbed.rtvm.machine import EXPORT
from tests.testbed.rtvm.machine import Machine

#: The name of the port that the agent listens on, and of the two shares.
PORT = "sriov-rt.exec"
ROOT_SHARE = "root"
STATE_SHARE = "state"

#: Debian's virtiofsd, of the packages of the installed QEMU.
VIRTIOFSD = "/usr/lib/qemu/virtiofsd"


@dataclasses.dataclass(frozen=True)
class Files:
    """Where the parts of one running machine are.

    :param directory: the machine's own.
    """

    directory: pathlib.Path

    @property
    def console(self) -> pathlib.Path:
        """What the kernel and the start scripts print."""
        return self.directory / "console.log"

    @property
    def settings(self) -> pathlib.Path:
        """What the start scripts have to know."""
        return self.directory / "settings.sh"

    @property
    def progress(self) -> pathlib.Path:
        """How far the start scripts are."""
        return self.directory / "progress"

    @property
    def exec(self) -> pathlib.Path:
        """Requests to the agent, and what came of them."""
        return self.directory / "exec"

    @property
    def pidfile(self) -> pathlib.Path:
        """QEMU's; it holds a lock on it while it runs."""
        return self.directory / "qemu.pid"

    def socket(self, name: str) -> pathlib.Path:
        """Return the path of a socket.

        :param name: PORT, ROOT_SHARE or STATE_SHARE.
        """
        return self.directory / f"{name}.sock"


def virtiofsd(
    files: Files, share: str, source: pathlib.Path
) -> tuple[str, ...]:
    """Return the command that shares a directory with the machine.

    :param files: the machine's files.
    :param share: ROOT_SHARE or STATE_SHARE.
    :param source: the directory.
    """
    # Either looks after a second whether a file has changed outside. What has
    # not changed, as programs and libraries, "auto" reads again each time that
    # it is opened: an emulated python3 took 5.7 s to start, and takes 1.0 s.
    cache = "always" if share == ROOT_SHARE else "auto"
    return (
        VIRTIOFSD,
        f"--socket-path={files.socket(share)}",
        *("-o", f"source={source}", "-o", "sandbox=chroot"),
        *("-o", f"cache={cache}", "-o", "timeout=1"),
    )


def qemu(
    machine: Machine,
    files: Files,
    *,
    emulator: Tree,
    kernel: pathlib.Path,
    initramfs: pathlib.Path,
    arguments: str,
) -> tuple[str, ...]:
    """Return the command that runs the machine.

    :param machine: what it is.
    :param files: where its parts are.
    :param emulator: QEMU 8 or later.
    :param kernel: the kernel's image.
    :param initramfs: the first file system.
    :param arguments: the kernel's command line.
    """
    usr = emulator.root / "usr"
    memory = f"size={machine.memory_mb}M,share=on"
    return (
        f"{usr}/bin/qemu-system-x86_64",
        *("-L", f"{usr}/share/qemu", "-L", f"{usr}/share/seabios"),
        *("-L", "/usr/share/qemu", "-L", "/usr/share/seabios"),
        *("-name", f"{machine.name},debug-threads=on"),
        *("-accel", "tcg,thread=multi", "-cpu", "max,la57=off"),
        *("-machine", "q35,memory-backend=memory"),
        *("-object", f"memory-backend-memfd,id=memory,{memory}"),
        *("-m", f"{machine.memory_mb}M", "-smp", str(machine.cpus)),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-no-reboot", "-monitor", "none"),
        *("-pidfile", str(files.pidfile)),
        *("-serial", f"file:{files.console}"),
        *("-device", "intel-iommu,intremap=on"),
        *_share(files, ROOT_SHARE),
        *_share(files, STATE_SHARE),
        *_port(files),
        *_management(machine),
        *_physical_function(machine, 1),
        *_physical_function(machine, 2),
        *_cable(machine),
        *_outlet(machine),
        *_storage(machine),
        *("-kernel", str(kernel), "-initrd", str(initramfs)),
        *("-append", arguments),
    )


def qemu_environment(emulator: Tree) -> dict[str, str]:
    """Return the environment of QEMU: its modules are in its own tree.

    :param emulator: QEMU 8 or later.
    """
    modules = next(emulator.root.glob("usr/lib/*/qemu"))
    return {**os.environ, "QEMU_MODULE_DIR": str(modules)}


def _share(files: Files, share: str) -> tuple[str, ...]:
    return (
        *("-chardev", f"socket,id={share},path={files.socket(share)}"),
        *("-device", f"vhost-user-fs-pci,chardev={share},tag={share}"),
    )


def _port(files: Files) -> tuple[str, ...]:
    listening = f"path={files.socket(PORT)},server=on,wait=off"
    return (
        *("-chardev", f"socket,id=exec,{listening}"),
        *("-device", "virtio-serial-pci"),
        *("-device", f"virtserialport,chardev=exec,name={PORT}"),
    )


def _management(machine: Machine) -> tuple[str, ...]:
    if machine.tap is None:
        return ()
    tap = f"ifname={machine.tap},script=no,downscript=no"
    card = f"netdev=management,mac={machine.mac(0)},romfile="
    return (
        *("-netdev", f"tap,id=management,{tap}"),
        *("-device", f"virtio-net-pci,{card}"),
    )


def _physical_function(machine: Machine, number: int) -> tuple[str, ...]:
    """Return a PF behind a port of its own; the hub is the wire."""
    port = f"id=port{number},chassis={number},slot={number}"
    card = f"netdev=wire{number},bus=port{number},mac={machine.mac(number)}"
    return (
        *("-device", f"pcie-root-port,{port}"),
        *("-netdev", f"hubport,id=wire{number},hubid=0"),
        *("-device", f"igb,{card},rombar=0"),
    )


def _storage(machine: Machine) -> tuple[str, ...]:
    """Return a disk and a directory; no other card moves for them."""
    words: list[str] = []
    if machine.disk is not None:
        words += ("-drive", f"file={machine.disk},format=raw,if=none,id=disk")
        words += ("-device", "virtio-blk-pci,drive=disk")
    if machine.export is not None:
        path = f"path={machine.export},security_model=none"
        words += ("-fsdev", f"local,id={EXPORT},{path}")
        words += (
            "-device",
            f"virtio-9p-pci,fsdev={EXPORT},mount_tag={EXPORT}",
        )
    return tuple(words)


def _cable(machine: Machine) -> tuple[str, ...]:
    """Return one more port of the hub, with a stream to another machine."""
    if machine.cable is None:
        return ()
    end = "server=on" if machine.cable.listens else "reconnect-ms=200"
    address = f"addr.type=unix,addr.path={machine.cable.socket}"
    return (
        *("-netdev", f"stream,id=cable,{end},{address}"),
        *("-netdev", "hubport,id=far,hubid=0,netdev=cable"),
    )


def _outlet(machine: Machine) -> tuple[str, ...]:
    """Return one more port of the hub, with a tap of the outer machine."""
    if machine.outlet is None:
        return ()
    tap = f"ifname={machine.outlet},script=no,downscript=no"
    return (
        *("-netdev", f"tap,id=outlet,{tap}"),
        *("-netdev", "hubport,id=out,hubid=0,netdev=outlet"),
    )
