# SPDX-License-Identifier: Apache-2.0

"""Removal and refusal of virtio for ``sriov_rt:guest=bare``."""

import itertools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from types import MappingProxyType

from sriov_rt.guest import devices
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.report import clean
from sriov_rt.guest.report import describe
from sriov_rt.guest.sentences import reason
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import number
from sriov_rt.guest.xml import remove
from sriov_rt.reason import Reason
from sriov_rt.request.words import DeviceClass

Classes = frozenset[DeviceClass]

#: Arguments that libvirt passes to QEMU unread.
QEMU_COMMANDLINE = "{http://libvirt.org/schemas/domain/qemu/1.0}commandline"

#: Attributes that mark a device as virtio, by child (empty for the device
#: itself). A value that starts with "virtio" is virtio or a variant of it
#: (virtio-transitional, virtiofs, virtio-scsi, virtio-mem).
_PLACES = (
    ("model", ("type", "name")),
    ("target", ("type", "bus")),
    ("driver", ("type",)),
)

#: Types of ``<interface>`` for which QEMU has only the model virtio-net
#: (net/vhost-user.c and net/vhost-vdpa.c), whatever the domain says.
VIRTIO_NICS = frozenset({"vdpa", "vhostuser"})

#: The highest index of a controller: libvirt keeps it in an int.
_MAX_INDEX = 2**31 - 1

#: Image properties that move a disk off virtio, by ``<disk device=…>``.
_DISK_PROPERTIES: Mapping[str, str] = MappingProxyType(
    {"cdrom": "hw_cdrom_bus=sata", "disk": "hw_disk_bus=sata"}
)


def strip(
    domain: Domain,
    left: list[Element],
    keep: Classes,
    why: str,
    report: Recorder,
) -> None:
    """Remove virtio controllers that are idle; refuse the virtio in use.

    :param left: the devices after ``lean``.
    :param keep: the classes that the flavor keeps.
    :param why: a clause for the report.
    """
    if domain.is_container:
        return
    controllers = _scsi_controllers(left)
    scsi = dict(controllers)
    plain: list[Element] = []
    virtio: list[Element] = []
    used: set[int] = set()
    for device in left:
        if device.tag == "controller":
            continue
        if _is_on_scsi(device):
            index = _controller_of(device, scsi)
            if _is_virtio_scsi(scsi.get(index), domain):
                used.add(index)
                report.refuse(_scsi_refusal(device))
                continue
        (virtio if is_virtio(device, domain) else plain).append(device)
    gone = [
        each
        for index, each in controllers
        if index not in used and _is_virtio_scsi(each, domain)
    ]
    gone += _idle(left, plain, virtio, keep, report)
    if gone:
        remove(domain.ensure("devices"), gone)
        report.removed(gone, f"{why} allows no virtio")
    if domain.root.find(QEMU_COMMANDLINE) is not None:
        report.note("qemu:commandline stays: it was not looked into")


def is_virtio(device: Element, domain: Domain) -> bool:
    """Return whether a device other than a controller is virtio."""
    tag = device.tag
    if tag == "filesystem":
        # Both 9p and virtiofs are virtio devices in QEMU.
        return True
    if tag == "interface":
        return _is_virtio_nic(device, domain)
    if tag == "disk" and devices.disk_bus(device).startswith("virtio"):
        return True
    if tag == "hostdev" and device.get("type") == "scsi_host":
        # QEMU's vhost-scsi is a virtio device, whatever its model.
        return True
    if _says_virtio(device, ("model", "bus", "type")):
        return True
    for name, attributes in _PLACES:
        child = device.find(name)
        if child is not None and _says_virtio(child, attributes):
            return True
    return False


def _says_virtio(element: Element, attributes: Iterable[str]) -> bool:
    return any(
        element.get(name, "").startswith("virtio") for name in attributes
    )


def _is_virtio_nic(device: Element, domain: Domain) -> bool:
    kind = device.get("type")
    if kind == "hostdev":
        return False
    if kind in VIRTIO_NICS:
        return True
    model = device.find("model")
    if model is None:
        return domain.arch not in devices.PLAIN_DEFAULT_NIC
    return model.get("type", "").startswith("virtio")


def _is_virtio_scsi(controller: Element | None, domain: Domain) -> bool:
    """Return whether a SCSI controller is virtio.

    :param controller: None for a controller that libvirt adds by itself.
    """
    model = None if controller is None else controller.get("model")
    if model in (None, "auto"):
        # Except on x86, libvirt uses virtio-scsi where it can.
        return domain.arch not in devices.PLAIN_DEFAULT_NIC
    return model.startswith("virtio")


def _scsi_controllers(left: list[Element]) -> list[tuple[int, Element]]:
    """Return the SCSI controllers, each with its index.

    A controller without an index gets the lowest free one, as in libvirt.
    Duplicates are left in: libvirt refuses them.
    """
    found: list[tuple[int, Element]] = []
    unnumbered = []
    for each in left:
        if each.tag == "controller" and each.get("type") == "scsi":
            index = each.get("index")
            if index is None:
                unnumbered.append(each)
            else:
                found.append((number(index, 0, _MAX_INDEX), each))
    taken = {index for index, _ in found}
    free = (index for index in itertools.count() if index not in taken)
    return found + list(zip(free, unnumbered, strict=False))


def _is_on_scsi(device: Element) -> bool:
    if device.tag == "disk":
        return devices.disk_bus(device) == "scsi"
    return device.tag == "hostdev" and device.get("type") == "scsi"


def _controller_of(device: Element, scsi: Mapping[int, Element]) -> int:
    """Return the index of the SCSI controller that a device is on."""
    address = device.find("address")
    if address is not None:
        return number(address.get("controller", "0"), 0, _MAX_INDEX)
    if device.tag == "disk":
        return devices.disk_controller(device)
    # libvirt looks for room on the existing controllers, in their order.
    return min(scsi, default=0)


def _idle(
    left: list[Element],
    plain: list[Element],
    virtio: list[Element],
    keep: Classes,
    report: Recorder,
) -> list[Element]:
    """Return the virtio devices that can go; refuse the others.

    :param plain: devices that are neither virtio nor controllers.
    """
    keeps_console = DeviceClass.CONSOLE in keep and not any(
        each.tag in devices.CONSOLES for each in plain
    )
    gone = []
    for device in virtio:
        tag = device.tag
        if tag == "crypto" or (tag == "console" and not keeps_console):
            gone.append(device)
        else:
            report.refuse(_refusal(device, keep))
    # Any other device on a virtio-serial controller is refused above.
    return gone + [
        each
        for each in left
        if each.tag == "controller" and each.get("type") == "virtio-serial"
    ]


def _scsi_refusal(device: Element) -> Reason:
    target = device.find("target")
    if device.tag == "disk" and target is not None:
        return reason(
            "disk_on_virtio",
            target=clean(target.get("dev", "?")),
            bus="virtio-scsi",
            prop="hw_scsi_model=lsisas1078 or hw_disk_bus=sata",
        )
    return reason(
        "device_on_virtio", device=f"{device.tag} {describe(device)}"
    )


def _disk_refusal(device: Element) -> Reason:
    target = device.find("target")
    return reason(
        "disk_on_virtio",
        target="?" if target is None else clean(target.get("dev", "?")),
        bus="virtio",
        prop=_DISK_PROPERTIES.get(
            device.get("device", "disk"), "hw_disk_bus=sata"
        ),
    )


def _nic_refusal(device: Element) -> Reason:
    kind = device.get("type")
    if kind in VIRTIO_NICS:
        return reason("nic_needs_virtio", mac=_nic(device), kind=kind)
    return reason("nic_on_virtio", mac=_nic(device))


def _nic(device: Element) -> str:
    """Return a NIC's MAC, or its alias if it has none (KubeVirt)."""
    for tag, attribute in (("mac", "address"), ("alias", "name")):
        child = device.find(tag)
        if child is not None and (name := child.get(attribute)):
            return clean(name)
    return "?"


def _filesystem_refusal(device: Element) -> Reason:
    target = device.find("target")
    return reason(
        "filesystem_on_virtio",
        target="?" if target is None else clean(target.get("dir", "?")),
    )


#: Element to the function that refuses it; :func:`_refusal` by default.
_REFUSALS: Mapping[str, Callable[[Element], Reason]] = MappingProxyType(
    {
        "console": lambda device: reason("console_on_virtio"),
        "disk": _disk_refusal,
        "filesystem": _filesystem_refusal,
        "interface": _nic_refusal,
        "iommu": lambda device: reason("iommu_on_virtio"),
    }
)


def _refusal(device: Element, keep: Classes) -> Reason:
    special = _REFUSALS.get(device.tag)
    if special:
        return special(device)
    name = f"{device.tag} {describe(device)}".rstrip()
    of_class = devices.class_of(device)
    if of_class not in keep:
        return reason("device_on_virtio", device=name)
    return reason("kept_on_virtio", kept=of_class.value, device=name)
