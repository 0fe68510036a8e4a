# SPDX-License-Identifier: Apache-2.0

"""NICs of a host that Onload can use."""

from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host import interfaces
from sriov_rt.host import values
from sriov_rt.host.interfaces import NET
from sriov_rt.host.root import Root
from sriov_rt.request.words import NIC_VENDORS

#: How Onload uses a NIC.
NATIVE = "native"
AFXDP = "afxdp"

#: The drivers with which Onload uses a NIC of :data:`NIC_VENDORS` natively
#: (ef10_drv and efct_drv of Onload's src/driver/linux_resource). Xilinx's
#: vendor id covers FPGAs too.
DRIVERS = frozenset({"sfc", "xilinx_efct"})

#: File ``enable``, 0 or 1, that sfc_resource has for each NIC in use, native
#: or registered for AF_XDP. Until Onload 8 it is in procfs
#: (efrm_nic_proc_intf_added in linux_resource/resource_driver.c), since 9 in
#: a group of the device, or of a device on its auxiliary bus
#: (efrm_nic_add_sysfs in linux_resource/sysfs.c).
_PROC = "proc/driver/sfc_resource/{0}/enable"
_GROUP = "sfc_resource/enable"
_AUXILIARY = ".onload."


def observe(root: Root) -> Mapping[str, str] | Unknown:
    """Return each interface and how Onload uses it: native or AF_XDP.

    A registered VF counts for its PF. Disabled interfaces are left out. A
    native NIC counts even without Onload's modules: other facts report what
    is missing.
    """
    names = root.list_dir(NET)
    if isinstance(names, Unknown):
        return names
    found: dict[str, str] = {}
    for name in names:
        if interfaces.is_representor(root, name):
            continue
        how = _how(root, name)
        if isinstance(how, Unknown):
            return how
        nic = _pf(root, name) or name
        if how is not None and (nic == name or nic not in found):
            found[nic] = how
    return found


def _how(root: Root, name: str) -> str | None | Unknown:
    """Return how an interface is used; None if it is not."""
    enabled = _enabled(root, name)
    if isinstance(enabled, Unknown):
        return enabled
    if enabled is False:
        return None
    native = _is_native(root, name)
    if isinstance(native, Unknown):
        return native
    if native:
        return NATIVE
    return AFXDP if enabled else None


def _enabled(root: Root, name: str) -> bool | None | Unknown:
    """Return the state of an interface in sfc_resource; None without one."""
    for path in _files(root, name):
        there = root.exists(path)
        if isinstance(there, Unknown):
            return there
        if there:
            return values.switch(root, path)
    return None


def _files(root: Root, name: str) -> Iterator[str]:
    yield _PROC.format(name)
    device = f"{NET}/{name}/device"
    yield f"{device}/{_GROUP}"
    children = root.list_dir(device)
    if not isinstance(children, Unknown):
        for each in children:
            if _AUXILIARY in each:
                yield f"{device}/{each}/{_GROUP}"


def _is_native(root: Root, name: str) -> bool | Unknown:
    vendor = f"{NET}/{name}/device/vendor"
    there = root.exists(vendor)
    if there is not True:
        return there  # virtual, or on another bus
    text = values.parsed(root, vendor, str)
    if isinstance(text, Unknown):
        return text
    if text.removeprefix("0x") not in NIC_VENDORS["solarflare"]:
        return False
    driver = values.link_name(root, f"{NET}/{name}/device/driver")
    return driver if isinstance(driver, Unknown) else driver in DRIVERS


def _pf(root: Root, name: str) -> str | None:
    """Return the interface of a VF's PF; None if it is not a VF's."""
    pf = values.link_name(root, f"{NET}/{name}/device/physfn")
    if not isinstance(pf, str):
        return None
    ports = interfaces.ports(root, pf)
    return None if isinstance(ports, Unknown) or not ports else ports[0]
