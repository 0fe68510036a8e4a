# SPDX-License-Identifier: Apache-2.0

"""The root directory of a machine that has what a test wants it to have."""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Mapping

#: Where the NFD worker's local source reads feature files.
FEATURES = pathlib.Path("etc/kubernetes/node-feature-discovery/features.d")
_BRIDGE = "devices/pci0000:5d"


@dataclasses.dataclass(frozen=True)
class Card:
    """A PCI device and its network interface.

    The ids are those of a Solarflare X2522, "1924 0b03" in pci.ids.

    :param address: its PCI address.
    :param vendor: four hexadecimal digits.
    :param device: four hexadecimal digits.
    :param device_class: six hexadecimal digits; Ethernet is 020000.
    :param interface: the name of its network interface.
    :param virtual_functions: how many it can have; 0 for no SR-IOV.
    """

    address: str = "0000:5e:00.0"
    vendor: str = "1924"
    device: str = "0b03"
    device_class: str = "020000"
    interface: str = "ens1f0"
    virtual_functions: int = 0


@dataclasses.dataclass(frozen=True)
class HostTree:
    """The parts of /sys, /etc and /boot that NFD's worker reads.

    :param root: the directory that stands for /.
    """

    root: pathlib.Path

    @property
    def kernel_config(self) -> pathlib.Path:
        """Return the file with the kernel's build options."""
        return self.root / "boot" / "config"

    def make(self) -> None:
        """Make a machine with two CPUs and without a PCI device, anew."""
        if self.root.exists():
            shutil.rmtree(self.root)
        system = self._sys / "devices" / "system"
        for directory in ("pci", "cpu", "node", "usb"):
            (self._sys / "bus" / directory / "devices").mkdir(parents=True)
        for directory in ("block", "class/net", "fs", "kernel/mm/hugepages"):
            (self._sys / directory).mkdir(parents=True)
        (self.root / FEATURES).mkdir(parents=True)
        for name, text in {
            "etc/os-release": "ID=debian\nVERSION_ID=12\n",
            "proc/swaps": "Filename Type Size Used Priority\n",
            "sys/devices/virtual/dmi/id/sys_vendor": "sriov-rt\n",
            "sys/devices/virtual/dmi/id/product_name": "testbed\n",
        }.items():
            _write(self.root / name, text)
        for number in range(2):
            cpu = system / "cpu" / f"cpu{number}"
            _write(cpu / "topology/thread_siblings_list", f"{number}\n")
            _write(cpu / "topology/physical_package_id", "0\n")
            _link(self._sys / f"bus/cpu/devices/cpu{number}", cpu)
        (system / "node" / "node0").mkdir(parents=True)
        _link(self._sys / "bus/node/devices/node0", system / "node/node0")
        self.set_kernel_options({"PREEMPT": "y"})

    def plug(self, card: Card) -> None:
        """Let a card appear, with all its attributes at once.

        :param card: the card.
        """
        device = self._sys / _BRIDGE / card.address
        attributes = {
            "vendor": f"0x{card.vendor}",
            "device": f"0x{card.device}",
            "subsystem_vendor": f"0x{card.vendor}",
            "subsystem_device": "0x8022",
            "class": f"0x{card.device_class}",
            "numa_node": "0",
        }
        if card.virtual_functions:
            attributes["sriov_totalvfs"] = str(card.virtual_functions)
            attributes["sriov_numvfs"] = "0"
        for name, text in attributes.items():
            _write(device / name, f"{text}\n")
        interface = device / "net" / card.interface
        for name, text in {"operstate": "up", "speed": "25000"}.items():
            _write(interface / name, f"{text}\n")
        _link(interface / "device", device)
        _link(self._sys / "class" / "net" / card.interface, interface)
        _link(self._sys / "bus/pci/devices" / card.address, device)

    def unplug(self, card: Card) -> None:
        """Let a card disappear.

        :param card: a card that was plugged.
        """
        (self._sys / "bus/pci/devices" / card.address).unlink()
        (self._sys / "class" / "net" / card.interface).unlink()
        shutil.rmtree(self._sys / _BRIDGE / card.address)

    def set_kernel_options(self, options: Mapping[str, str]) -> None:
        """Write the kernel's build options.

        :param options: as in {"PREEMPT_RT": "y"}.
        """
        lines = (f"CONFIG_{name}={text}\n" for name, text in options.items())
        _write(self.kernel_config, "".join(lines))

    def write_features(self, name: str, text: str) -> None:
        """Write a feature file for NFD's local source.

        :param name: the file's name.
        :param text: lines of key=value.
        """
        _write(self.root / FEATURES / name, text)

    @property
    def _sys(self) -> pathlib.Path:
        return self.root / "sys"


def _write(path: pathlib.Path, text: str) -> None:
    """Write a file at once, so that nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


def _link(link: pathlib.Path, target: pathlib.Path) -> None:
    """Make a link that stays good when the whole tree is moved."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))
