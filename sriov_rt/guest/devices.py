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

"""Classes of guest devices, and what libvirt does with them: all data."""

import dataclasses
import types
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.guest.elements import Element
from sriov_rt.request.words import DeviceClass


@dataclasses.dataclass(frozen=True, slots=True)
class Test:
    """Tells elements by one attribute of theirs.

    :param attribute: its name.
    :param values: those that match.
    """

    attribute: str
    values: frozenset[str]

    def __call__(self, element: Element) -> bool:
        """Tell whether an element matches."""
        return element.get(self.attribute) in self.values


#: Element of ``<devices>`` to its class. USB controllers and hubs go with
#: what is on them.
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

#: Of these elements, only those are of their class.
ONLY: Mapping[str, Test] = types.MappingProxyType(
    {"hostdev": Test("type", frozenset({"usb"}))}
)

#: Children of ``<features>`` to their class.
FEATURES: Mapping[str, DeviceClass] = types.MappingProxyType(
    {"vmcoreinfo": DeviceClass.VMCOREINFO}
)

#: Devices that libvirt puts back, for they are in the machine's chipset
#: (qemuDomainDefAddImplicitInputDevice and qemuDomainDefAddDefaultDevices in
#: its src/qemu: qemu_domain.c, later qemu_postparse.c).
IN_CHIPSET: Mapping[str, Test] = types.MappingProxyType(
    {
        "input": Test("bus", frozenset({"ps2"})),
        "panic": Test("model", frozenset({"pseries", "s390"})),
        "watchdog": Test("model", frozenset({"itco"})),
    }
)

#: Devices carried by Spice: they do not work without its ``<graphics>``.
BY_SPICE: Mapping[str, Test] = types.MappingProxyType(
    {
        "audio": Test("type", frozenset({"spice"})),
        "channel": Test("type", frozenset({"spicevmc", "spiceport"})),
        "redirdev": Test("type", frozenset({"spicevmc", "spiceport"})),
        "smartcard": Test("type", frozenset({"spicevmc", "spiceport"})),
    }
)

#: A kept class to those that libvirt would give it anyway: graphics without
#: a video device get one (virDomainDefAddImplicitVideo).
ENTAILS: Mapping[DeviceClass, frozenset[DeviceClass]] = types.MappingProxyType(
    {DeviceClass.GRAPHICS: frozenset({DeviceClass.VIDEO})}
)

#: Elements that can be a text console.
CONSOLES = frozenset({"console", "serial"})

#: Elements that carry other devices, and go with the last of them.
CARRIERS = frozenset({"controller", "hub"})

#: Elements that a guest can boot from, if they have a ``<boot>``.
MAY_BOOT = frozenset({"hostdev", "redirdev"})

_EVERY_SMARTCARD = frozenset({"host", "host-certificates", "passthrough"})

#: Devices that say themselves that they are on USB: all, or some of them.
#: A smartcard is on a ccid controller, and that is on USB.
BY_USB: Mapping[str, Test] = types.MappingProxyType(
    {
        "hostdev": Test("type", frozenset({"usb"})),
        "input": Test("bus", frozenset({"usb"})),
        "redirdev": Test("bus", frozenset({"usb"})),
        "smartcard": Test("mode", _EVERY_SMARTCARD),
        "sound": Test("model", frozenset({"usb"})),
    }
)

#: Values of ``type`` of a device's child that say that it is on USB.
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

#: The elements of those.
NONE_TAGS = frozenset(tag for tag, _ in NONE_MODELS.values())

#: Elements of CLASSES that have more to them than their class.
SPECIAL = ONLY.keys() | IN_CHIPSET.keys() | MAY_BOOT

#: Architectures whose USB keyboard and mouse can't be had without USB, and
#: where a controller of model none fails (nova's
#: _guest_add_usb_root_controller says so of ppc).
USB_FOR_GOOD = frozenset({"ppc", "ppc64", "ppc64le"})

#: Architectures whose NIC is no virtio if the document names no model
#: (qemuDomainDefaultNetModel).
PLAIN_DEFAULT_NIC = frozenset({"i686", "x86_64"})


def class_of(device: Element) -> DeviceClass | None:
    """Return the class of a child of ``<devices>``, None if it has none."""
    tag = device.tag
    if tag in ONLY and not ONLY[tag](device):
        return None
    return CLASSES.get(tag)


def none_of(device: Element) -> DeviceClass | None:
    """Return the class of NONE_MODELS that an element of NONE_TAGS is of."""
    if device.tag == "memballoon":
        return DeviceClass.BALLOON
    return DeviceClass.USB if device.get("type") == "usb" else None


def on_usb(parent: Element, found: Iterable[Element]) -> Element | None:
    """Return the first device that needs USB, None if none does.

    :param parent: the ``<devices>`` element.
    :param found: the devices in it, but for controllers and hubs.
    """
    for device in found:
        by_usb = BY_USB.get(device.tag)
        if by_usb and by_usb(device):
            return device
    for child in parent.iter("target", "address", "model"):
        if child.get("bus") == "usb" or child.get("type") in _ON_USB:
            owner = child.getparent()
            if owner is not None and owner.tag not in CARRIERS:
                return owner
    return None


def on_virtio_serial(device: Element) -> bool:
    """Tell whether a device needs a virtio-serial controller."""
    if device.tag not in ("channel", "console"):
        return False
    if device.get("type") == "spicevmc":
        return True
    target = device.find("target")
    return target is not None and target.get("type") == "virtio"
