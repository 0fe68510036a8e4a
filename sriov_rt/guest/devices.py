# SPDX-License-Identifier: Apache-2.0

"""Classes of guest devices and libvirt's treatment of them, as data."""

import dataclasses
import re
import types
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.guest.xml import Element
from sriov_rt.request.words import DeviceClass


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """Test of an element by one of its attributes.

    :param values: values that match.
    """

    attribute: str
    values: frozenset[str]

    def __call__(self, element: Element) -> bool:
        """Return whether an element matches."""
        return element.get(self.attribute) in self.values


#: Element of ``<devices>`` to its class. USB controllers and hubs are
#: removed with the devices on them.
CLASSES: Mapping[str, DeviceClass] = types.MappingProxyType(
    {
        "audio": DeviceClass.SOUND,
        "channel": DeviceClass.CHANNEL,
        "graphics": DeviceClass.GRAPHICS,
        "hostdev": DeviceClass.USB,
        "input": DeviceClass.INPUT,
        "memballoon": DeviceClass.BALLOON,
        "panic": DeviceClass.PANIC,
        "redirdev": DeviceClass.REDIRDEV,
        "redirfilter": DeviceClass.REDIRDEV,
        "rng": DeviceClass.RNG,
        "smartcard": DeviceClass.SMARTCARD,
        "sound": DeviceClass.SOUND,
        "video": DeviceClass.VIDEO,
        "vsock": DeviceClass.VSOCK,
        "watchdog": DeviceClass.WATCHDOG,
    }
)

#: Of these elements, only those that pass the test are of their class.
ONLY: Mapping[str, Test] = types.MappingProxyType(
    {"hostdev": Test("type", frozenset({"usb"}))}
)

#: Children of ``<features>`` to their class.
FEATURES: Mapping[str, DeviceClass] = types.MappingProxyType(
    {"vmcoreinfo": DeviceClass.VMCOREINFO}
)

#: Devices that libvirt puts back because they are in the machine's chipset.
#:
#: All devices that it adds to a QEMU guest are listed here, in NONE_MODELS
#: and (those for graphics) in :func:`needs`; only SILENT may come and go
#: (qemuDomainDefAddImplicitInputDevice, qemuDomainDefAddDefaultDevices and
#: qemuDomainDefAddDefaultAudioBackend in its src/qemu: qemu_domain.c, later
#: qemu_postparse.c; virDomainDefAddImplicitVideo in src/conf).
#: tests/functional/libvirt defines, dumps and prepares each.
IN_CHIPSET: Mapping[str, Test] = types.MappingProxyType(
    {
        "input": Test("bus", frozenset({"ps2"})),
        "panic": Test("model", frozenset({"pseries", "s390"})),
        "watchdog": Test("model", frozenset({"itco"})),
    }
)

#: Removal of the silent sound backend of a guest without Spice, as a change
#: of a domain (action, element and detail).
SILENT = ("removed", "audio", "type=none")

#: Values of ``type`` of devices that Spice carries, which do not work
#: without its ``<graphics>``.
_SPICE = frozenset({"spice", "spicevmc", "spiceport"})

#: Prefix of a disk's name to its bus, for a disk that names none
#: (virDomainDiskDefParseXML in libvirt's src/conf/domain_conf.c).
_DISK_BUSES: Mapping[str, str] = types.MappingProxyType(
    {"hd": "ide", "sd": "scsi", "ubd": "uml", "vd": "virtio", "xvd": "xen"}
)

_DISK_NAME = re.compile(r"(hd|sd|ubd|vd|xvd)([a-z]{1,6})[0-9]*")

#: Number of disks without an address that libvirt puts on a SCSI controller
#: (virDomainDiskDefAssignAddress; seen with 9.0: sdp is on the third one).
_DISKS_A_CONTROLLER = 7

#: Elements that can be a text console.
CONSOLES = frozenset({"console", "serial"})

#: Elements that carry other devices, and are removed with the last of them.
CARRIERS = frozenset({"controller", "hub"})

#: Elements that a guest can boot from, if they have a ``<boot>``.
MAY_BOOT = frozenset({"hostdev", "redirdev"})

_EVERY_SMARTCARD = frozenset({"host", "host-certificates", "passthrough"})

#: Devices whose element shows that they are on USB: all, or some of them.
#: A smartcard is on a ccid controller, which is on USB.
BY_USB: Mapping[str, Test] = types.MappingProxyType(
    {
        "hostdev": Test("type", frozenset({"usb"})),
        "redirdev": Test("bus", frozenset({"usb"})),
        "smartcard": Test("mode", _EVERY_SMARTCARD),
        "sound": Test("model", frozenset({"usb"})),
    }
)

#: Values of a child's ``type`` that show that its device is on USB.
_ON_USB = frozenset({"usb", "usb-net", "usb-serial"})

#: Devices that libvirt adds to a QEMU guest unless the document has one of
#: model ``none``: the element and its attributes.
NONE_MODELS: Mapping[DeviceClass, tuple[str, Mapping[str, str]]] = (
    types.MappingProxyType(
        {
            DeviceClass.BALLOON: ("memballoon", {"model": "none"}),
            DeviceClass.USB: (
                "controller",
                {"type": "usb", "index": "0", "model": "none"},
            ),
        }
    )
)

#: Tags of the elements in NONE_MODELS.
NONE_TAGS = frozenset(tag for tag, _ in NONE_MODELS.values())

#: Elements of CLASSES to which more rules apply than that of their class.
SPECIAL = ONLY.keys() | IN_CHIPSET.keys() | MAY_BOOT

#: Architectures that need USB for their keyboard and mouse, and where a
#: controller of model none fails (for ppc, see nova's
#: _guest_add_usb_root_controller).
USB_FOR_GOOD = frozenset({"ppc", "ppc64", "ppc64le"})

#: Those of them to which libvirt adds a USB keyboard and mouse for graphics.
USB_INPUT = frozenset({"ppc64", "ppc64le"})

#: Architectures whose NIC is not virtio if the document names no model
#: (qemuDomainDefaultNetModel).
PLAIN_DEFAULT_NIC = frozenset({"i686", "x86_64"})


#: Architectures whose input devices are virtio if they name no bus.
_VIRTIO_INPUT = frozenset({"s390", "s390x"})


def class_of(device: Element) -> DeviceClass | None:
    """Return the class of a child of ``<devices>``, None if it has none."""
    tag = device.tag
    if tag in ONLY and not ONLY[tag](device):
        return None
    return CLASSES.get(tag)


def disk_bus(disk: Element) -> str:
    """Return the bus that libvirt derives for a disk; empty if none."""
    target = disk.find("target")
    if target is None:
        return ""
    if bus := target.get("bus"):
        return bus
    if disk.get("device") == "floppy":
        return "fdc"
    name = _DISK_NAME.fullmatch(target.get("dev", ""))
    return _DISK_BUSES[name[1]] if name else ""


def disk_controller(disk: Element) -> int:
    """Return the controller that libvirt derives from a SCSI disk's name."""
    target = disk.find("target")
    dev = "" if target is None else target.get("dev", "")
    name = _DISK_NAME.fullmatch(dev)
    if name is None:
        return 0
    index = 0
    for letter in name[2]:
        index = index * 26 + ord(letter) - ord("a") + 1
    return (index - 1) // _DISKS_A_CONTROLLER


def needs(device: Element, arch: str) -> Iterator[tuple[str, str]]:
    """Yield the tag of each device that a device needs, and a clause why.

    :param arch: architecture of the guest.

    Without it, libvirt refuses the domain (virsh define of 9.0: "graphics
    device is needed for attribute value 'display=on'", "chardev 'spicevmc'
    not supported without spice graphics"), or the guest does not start, or
    libvirt adds it again (a video device beside graphics:
    virDomainDefAddImplicitVideo).
    """
    tag = device.tag
    if tag == "graphics":
        yield "video", "the graphics needs it"
        if device.get("type") == "spice":
            yield "audio", "libvirt gives Spice one"
        if arch in USB_INPUT:
            yield "input", "libvirt gives graphics a keyboard and mouse"
    elif _is_by_spice(device):
        yield "graphics", f"the {tag} needs Spice"
    if device.get("display") == "on":
        yield "graphics", f"the {tag} is displayed on it"
    if device.find("audio") is not None:
        yield "audio", f"the {tag} plays through it"
    if tag == "redirdev":
        yield "redirfilter", "it restricts the redirdev"


def _is_by_spice(device: Element) -> bool:
    backend = device.find("backend")
    return device.get("type") in _SPICE or (
        backend is not None and backend.get("type") in _SPICE
    )


def none_of(device: Element) -> DeviceClass | None:
    """Return the class in NONE_MODELS of an element of NONE_TAGS."""
    if device.tag == "memballoon":
        return DeviceClass.BALLOON
    return DeviceClass.USB if device.get("type") == "usb" else None


def on_usb(
    parent: Element, found: Iterable[Element], arch: str
) -> Element | None:
    """Return the first device that needs USB, None if none does.

    :param parent: the ``<devices>`` element.
    :param found: its devices except controllers and hubs.
    :param arch: architecture of the guest.
    """
    for device in found:
        by_usb = BY_USB.get(device.tag)
        if by_usb and by_usb(device):
            return device
        if device.tag == "input" and _input_bus(device, arch) == "usb":
            return device
    for child in parent.iter("target", "address", "model"):
        if child.get("bus") == "usb" or child.get("type") in _ON_USB:
            owner = child.getparent()
            if owner is not None and owner.tag not in CARRIERS:
                return owner
    return None


def _input_bus(device: Element, arch: str) -> str:
    """Return the bus that libvirt derives for an input device.

    A device that names none is on USB, except the keyboard and mouse of an
    x86 machine and input from an event device of the host
    (virDomainInputDefPostParse in libvirt's src/conf/domain_postparse.c).
    """
    kind = device.get("type", "")
    if bus := device.get("bus"):
        return bus
    if kind == "evdev":
        return "none"
    if kind in ("keyboard", "mouse") and arch in PLAIN_DEFAULT_NIC:
        return "ps2"
    return "virtio" if arch in _VIRTIO_INPUT else "usb"


def on_virtio_serial(device: Element) -> bool:
    """Return whether a device needs a virtio-serial controller."""
    if device.tag not in ("channel", "console"):
        return False
    if device.get("type") == "spicevmc":
        return True
    target = device.find("target")
    return target is not None and target.get("type") == "virtio"
