# SPDX-License-Identifier: Apache-2.0

"""Devices that a bare guest can't have, found before its domain is made."""

from collections.abc import Iterator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import nova.conf
from lxml import etree
from nova.network import model as network_model
from nova.virt import hardware
from nova.virt.libvirt import blockinfo

from sriov_rt import request as requests
from sriov_rt.guest import engine
from sriov_rt.guest import sentences
from sriov_rt.reason import Reason
from sriov_rt.request.words import Guest
from sriov_rt.request.words import Request

#: Codes of the device settings that a resize to a new flavor can't change.
_KEPT = frozenset({"disk_on_virtio", "nic_needs_virtio", "nic_on_virtio"})


#: Name of the first disk on a bus (get_dev_prefix_for_disk_bus in Nova's
#: nova/virt/libvirt/blockinfo.py).
_DEVICES: Mapping[str, str] = MappingProxyType({"virtio": "vda", "ide": "hda"})


#: The image property that moves the disk of a stable device rescue.
_STABLE = "hw_rescue_bus=sata"


def domain(*elements: str) -> str:
    """Return a domain that has only these devices."""
    found = "".join(elements)
    return (
        '<domain type="kvm"><os><type arch="x86_64">hvm</type></os>'
        f"<devices>{found}</devices></domain>"
    )


def of_rescue(
    instance: Any, image: Any, specs: Mapping[str, str]
) -> tuple[Reason, ...]:
    """Return Reasons against a rescue image of a bare guest.

    A stable device rescue adds a disk on the image's bus to the server's own
    devices. Any other rescue has its disk on the image's bus, and NICs of the
    image's model, or of ours if the image names none.

    :param image: ImageMeta of the rescue image.
    :param specs: extra specs of the flavor.
    """
    properties = image.properties
    if hardware.check_hw_rescue_props(image):
        kind = properties.get("hw_rescue_device") or "disk"
        bus = properties.get("hw_rescue_bus") or _bus(instance, image, kind)
        found = on_virtio(domain(_disk(kind, bus)), specs)
        return tuple(
            sentences.reason(each.code, **{**each.fields, "prop": _STABLE})
            for each in found
        )
    disk = _disk("disk", _bus(instance, image, "disk"))
    nics = _nics(instance, properties.get("hw_vif_model"))
    return on_virtio(domain(disk, *_scsi(image), *nics), specs)


def _bus(instance: Any, image: Any, kind: str) -> str:
    virt_type = nova.conf.CONF.libvirt.virt_type
    found: str = blockinfo.get_disk_bus_for_device_type(
        instance, virt_type, image, kind
    )
    return found


def _nics(instance: Any, model: str | None) -> Iterator[str]:
    """Yield a server's NICs with the image's model; nothing without one."""
    if model is None:
        return
    for vif in instance.get_network_info():
        if vif["vnic_type"] == network_model.VNIC_TYPE_NORMAL:
            nic = etree.Element("interface", type="ethernet")
            etree.SubElement(nic, "model", type=model)
            etree.SubElement(nic, "mac", address=vif["address"])
            yield etree.tostring(nic, encoding="unicode")


def _disk(kind: str, bus: str) -> str:
    disk = etree.Element("disk", type="file", device=kind)
    etree.SubElement(disk, "target", dev=_DEVICES.get(bus, "sda"), bus=bus)
    text: str = etree.tostring(disk, encoding="unicode")
    return text


def _scsi(image: Any) -> tuple[str, ...]:
    """Return the SCSI controller that an image requests."""
    model = image.properties.get("hw_scsi_model")
    if not model:
        return ()
    found = etree.Element("controller", type="scsi", index="0", model=model)
    return (etree.tostring(found, encoding="unicode"),)


def on_virtio(xml: str, specs: Mapping[str, str]) -> tuple[Reason, ...]:
    """Return Reasons against a domain's disks and NICs in a bare guest.

    The rules are the strip hook's, as for a spawn.

    :param xml: the domain that Nova has defined or would define.
    :param specs: extra specs of the flavor.
    """
    if not requests.asks(specs):
        return ()
    if requests.parse(specs).guest is not Guest.BARE:
        return ()
    hooks = {"strip": engine.OWN_HOOKS["strip"]}
    try:
        engine.render(xml, Request(guest=Guest.BARE), hooks=hooks)
    except engine.Refused as error:
        return tuple(each for each in error.reasons if each.code in _KEPT)
    return ()
