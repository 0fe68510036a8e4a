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

"""Drivers of VFs and the number of VFs: what is written to sysfs."""

import fnmatch
import pathlib

from sriov_rt.host import values
from sriov_rt.host.nics import NET
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import DEVICES
from sriov_rt.host.vfs import VFIO
from sriov_rt.nic import affinity
from sriov_rt.nic import errors
from sriov_rt.nic import files
from sriov_rt.nic import names
from sriov_rt.nic.model import VfId

DRIVERS = "sys/bus/pci/drivers"


def bind(root: Root, vf: VfId, driver: str | None) -> None:
    """Take a VF from its driver, and bind it to another or the same.

    :param driver: None for the one that the kernel chooses.
    :raises DriverMissing: if there is no such driver.
    :raises NicError: as the kernel's errno says; the VF may then have none.
    """
    device = f"{DEVICES}/{vf.address}"
    if driver is not None:
        _find(root, vf, driver)
    if root.exists(f"{device}/driver") is True:
        _write(root, vf, f"{device}/driver/unbind", vf.address)
    _write(root, vf, f"{device}/driver_override", driver or "")
    parent = values.link_name(root, f"{device}/physfn")
    with affinity.away_from(root, str(parent)):
        if driver is None:
            _write(root, vf, "sys/bus/pci/drivers_probe", vf.address)
        else:
            _write(root, vf, f"{DRIVERS}/{driver}/bind", vf.address)
    if driver != VFIO:
        # Whoever binds it next finds it as the kernel made it.
        _write(root, vf, f"{device}/driver_override", "")


def check(root: Root, vf: VfId, driver: str) -> None:
    """Refuse a driver that cannot be bound to a VF.

    It would be asked only when the VF has lost the one that it has.

    :raises DriverMissing: if the kernel has none of the name.
    :raises UnsupportedByNic: if it is for other devices.
    """
    _find(root, vf, driver)
    device = f"{DEVICES}/{vf.address}"
    if values.link_name(root, f"{device}/driver") == driver:
        return
    module = values.link_name(root, f"{DRIVERS}/{driver}/module")
    modalias = root.read_text(f"{device}/modalias")
    release = root.read_text("proc/sys/kernel/osrelease")
    if not (
        isinstance(module, str)
        and isinstance(modalias, str)
        and isinstance(release, str)
    ):
        return
    patterns = _pci_aliases(root, release.strip(), module)
    # Those that take what they are given, such as vfio-pci, name none.
    if patterns and not any(
        fnmatch.fnmatchcase(modalias.strip(), each) for each in patterns
    ):
        raise errors.UnsupportedByNic(
            f"{vf}", "driver", f"the driver '{driver}' is for other devices"
        )


def _pci_aliases(root: Root, release: str, module: str) -> list[str]:
    """Return the PCI devices that a module is for, as modprobe reads them."""
    path = pathlib.Path(root.path, "lib/modules", release, "modules.alias")
    found = []
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) == 3 and words[2].replace(
                    "-", "_"
                ) == module.replace("-", "_"):
                    found.append(words[1])
    except OSError:
        return []
    return [each for each in found if each.startswith("pci:")]


def _find(root: Root, vf: VfId, driver: str) -> None:
    if root.exists(f"{DRIVERS}/{driver}") is not True:
        raise errors.DriverMissing(
            f"{vf}", "driver", f"the kernel has no PCI driver '{driver}'"
        )


def flr(root: Root, vf: VfId) -> None:
    """Reset the function of a VF."""
    _write(root, vf, f"{DEVICES}/{vf.address}/reset", "1")


def provision(root: Root, pf: str, number: int, *, probe: bool) -> None:
    """Set how many VFs a PF has, and whether drivers are bound to new ones.

    :raises VfBusy: if it has another number, not 0, already.
    """
    device = f"{NET}/{names.parse_interface(pf)}/device"
    autoprobe = "sriov_drivers_autoprobe"
    files.write(root, f"{device}/{autoprobe}", str(int(probe)), pf, autoprobe)
    files.write(root, f"{device}/sriov_numvfs", str(number), pf, "vfs")


def _write(root: Root, vf: VfId, path: str, text: str) -> None:
    files.write(root, path, text, f"{vf}", "driver")
