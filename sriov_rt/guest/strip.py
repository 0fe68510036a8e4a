# SPDX-License-Identifier: Apache-2.0

"""Guest hook that removes devices from a domain: lean and bare."""

from sriov_rt.guest import bare
from sriov_rt.guest import devices
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.hook import Context
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.report import describe
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import append
from sriov_rt.guest.xml import remove
from sriov_rt.request.words import DeviceClass
from sriov_rt.request.words import Guest

Classes = frozenset[DeviceClass]


class Strip:
    """Removes devices that a guest of the requested class does not need.

    Disks, file systems, NICs, PCI devices and devices that the guest may boot
    from are never removed. PCIe root ports stay: addresses of the remaining
    devices refer to them, and an empty port costs nothing.
    """

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Strip the domain of the devices that ``sriov_rt:guest`` excludes."""
        guest, keep = context.request.guest, context.request.keep
        if guest is Guest.STANDARD:
            return
        why = f"sriov_rt:guest={guest.value}"
        found = domain.devices()
        stays = _staying(found, keep, domain.arch, report)
        gone: list[Element] = []
        left: list[Element] = []
        carriers: list[Element] = []
        for device in found:
            if device.tag in devices.CARRIERS:
                carriers.append(device)
            else:
                (left if device in stays else gone).append(device)
        if gone:
            remove(domain.ensure("devices"), gone)
            report.removed(gone, why)
        usb_user = _usb_user(domain, left)
        if usb_user is not None:
            keep = _keep_usb(keep, usb_user, carriers, report)
        left += _strip_carriers(domain, left, carriers, keep, why, report)
        _strip_features(domain, keep, why, report)
        if guest is Guest.BARE:
            bare.strip(domain, left, context.request.keep, why, report)
        if not domain.is_container:
            _keep_away(domain, left, keep, why, report)


def _staying(
    found: list[Element], keep: Classes, arch: str, report: Recorder
) -> set[Element]:
    """Return the devices that stay, and those that they need."""
    stays: set[Element] = set()
    going: dict[str, list[Element]] = {}
    for device in found:
        of_class = devices.CLASSES.get(device.tag)
        if of_class is None or of_class in keep or not _goes(device, report):
            stays.add(device)
        else:
            going.setdefault(device.tag, []).append(device)
    needed: list[tuple[str, str]] = []
    if DeviceClass.CONSOLE in keep and not any(
        each.tag in devices.CONSOLES for each in found
    ):
        needed.append(("graphics", "it is the only console"))
    for device in found:
        if device in stays:
            needed += devices.needs(device, arch)
    why: dict[Element, str] = {}
    for tag, clause in needed:
        for device in going.pop(tag, ()):
            why[device] = clause
            # Its needs are appended, and so are examined in turn.
            needed += devices.needs(device, arch)
    for device in found:
        if device in why:
            report.note(f"{device.tag} stays: {why[device]}")
    return stays | why.keys()


def _goes(device: Element, report: Recorder) -> bool:
    """Return whether to remove a device whose class is not kept."""
    tag = device.tag
    if device.get("model") == "none":
        return False
    if tag not in devices.SPECIAL:
        return True
    if devices.class_of(device) is None:
        return False
    if tag in devices.IN_CHIPSET and devices.IN_CHIPSET[tag](device):
        which = devices.IN_CHIPSET[tag].attribute
        report.note(
            f"{tag} {device.get(which)} stays: it is in the chipset, "
            "libvirt would put it back"
        )
        return False
    if tag in devices.MAY_BOOT and device.find("boot") is not None:
        report.note(f"{tag} stays: the guest may boot from it")
        return False
    return True


def _usb_user(domain: Domain, left: list[Element]) -> str | None:
    """Return a clause on what needs USB; None if nothing does."""
    if domain.arch in devices.USB_FOR_GOOD:
        return f"{domain.arch} guests have their keyboard on it"
    parent = domain.part("devices")
    user = (
        None if parent is None else devices.on_usb(parent, left, domain.arch)
    )
    if user is None:
        return None
    return f"{user.tag} {describe(user)} is on it"


def _keep_usb(
    keep: Classes,
    user: str,
    carriers: list[Element],
    report: Recorder,
) -> Classes:
    if DeviceClass.USB not in keep and any(
        each.get("type") == "usb" for each in carriers
    ):
        report.note(f"USB controllers stay: {user}")
    return keep | {DeviceClass.USB}


def _strip_carriers(
    domain: Domain,
    left: list[Element],
    carriers: list[Element],
    keep: Classes,
    why: str,
    report: Recorder,
) -> list[Element]:
    """Remove controllers and hubs without devices; return the others.

    :param left: the remaining devices.
    """
    kinds = {each.get("type") for each in carriers}
    idle = set()
    if DeviceClass.USB not in keep:
        idle.add("usb")
    if "ccid" in kinds and not any(each.tag == "smartcard" for each in left):
        idle.add("ccid")
    if "virtio-serial" in kinds and not any(
        map(devices.on_virtio_serial, left)
    ):
        idle.add("virtio-serial")
    gone = [
        each
        for each in carriers
        if each.get("type") in idle and each.get("model") != "none"
    ]
    if not gone:
        return carriers
    remove(domain.ensure("devices"), gone)
    report.removed(gone, f"{why} leaves nothing on it")
    return [each for each in carriers if each.getparent() is not None]


def _strip_features(
    domain: Domain, keep: Classes, why: str, report: Recorder
) -> None:
    features = domain.part("features")
    if features is None:
        return
    gone = [
        each
        for each in features
        if each.tag in devices.FEATURES
        and devices.FEATURES[each.tag] not in keep
        and each.get("state") != "off"
    ]
    if gone:
        remove(features, gone)
        report.removed(gone, why)


def _keep_away(
    domain: Domain,
    left: list[Element],
    keep: Classes,
    why: str,
    report: Recorder,
) -> None:
    """Add model ``none`` of devices that libvirt would add by default."""
    missing = dict(devices.NONE_MODELS)
    for each in left:
        if each.tag in devices.NONE_TAGS:
            of_class = devices.none_of(each)
            if of_class:
                missing.pop(of_class, None)
    for absent, (tag, given) in missing.items():
        if absent not in keep:
            append(domain.ensure("devices"), tag, given)
            report.changed("added", tag, given, f"{why} wants no default one")
