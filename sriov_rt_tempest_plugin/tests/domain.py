# SPDX-License-Identifier: Apache-2.0

"""XML of a running domain, read for facts about its guest."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

from sriov_rt_tempest_plugin.tests import base

#: Our element in a domain's metadata.
_GUEST = "{https://docs.openstack.org/sriov-rt/guest/1.0}guest"

#: Devices that a lean guest lacks, as TAG or TAG TYPE.
STRIPPED = frozenset(
    {
        "channel",
        "controller usb",
        "controller virtio-serial",
        "graphics",
        "hub",
        "memballoon",
        "panic",
        "redirdev",
        "rng",
        "smartcard",
        "sound",
        "video",
        "vsock",
        "watchdog",
    }
)


class Domain:
    """The current domain of a server in libvirt.

    :param server: the server as an administrator sees it.
    """

    def __init__(self, server: Mapping[str, Any]) -> None:
        self.text = base.run(
            "domain_xml_command",
            host=server["OS-EXT-SRV-ATTR:host"],
            name=server["OS-EXT-SRV-ATTR:instance_name"],
        )
        # It is trusted, since the operator's own libvirt wrote it.
        self._root = ET.fromstring(self.text)  # noqa: S314

    @property
    def number(self) -> str:
        """Its id, which changes with each start."""
        return self._root.get("id", "")

    @property
    def guest(self) -> Mapping[str, str]:
        """Attributes of our element in its metadata; empty without it."""
        found = self._root.find(f"metadata/{_GUEST}")
        return {} if found is None else dict(found.attrib)

    @property
    def devices(self) -> frozenset[str]:
        """The kinds of its devices, as TAG and for controllers TAG TYPE."""
        return frozenset(
            f"{each.tag} {each.get('type')}"
            if each.tag == "controller"
            else each.tag
            for each in self._root.findall("devices/*")
            if "none" not in (each.get("model"), each.get("type"))
        )

    @property
    def virtio(self) -> list[str]:
        """Its virtio devices, as XML."""
        return [
            ET.tostring(each, encoding="unicode")
            for each in self._root.findall("devices/*")
            if "virtio" in ET.tostring(each, encoding="unicode")
        ]

    @property
    def vcpus(self) -> Mapping[int, frozenset[int]]:
        """The host's CPUs that each vCPU is pinned to."""
        return {
            int(each.get("vcpu", "")): cpus(each.get("cpuset", ""))
            for each in self._root.findall("cputune/vcpupin")
        }

    @property
    def emulator(self) -> frozenset[int]:
        """The host's CPUs that its emulator threads are pinned to."""
        found = self._root.find("cputune/emulatorpin")
        return frozenset() if found is None else cpus(found.get("cpuset", ""))

    @property
    def realtime(self) -> frozenset[int]:
        """The vCPUs that run as SCHED_FIFO or SCHED_RR."""
        return frozenset().union(
            *(
                cpus(each.get("vcpus", ""))
                for each in self._root.findall("cputune/vcpusched")
                if each.get("scheduler") in ("fifo", "rr")
            )
        )

    @property
    def moved_interfaces(self) -> list[str]:
        """The names of host interfaces that were moved into a container."""
        given = self._root.findall("devices/hostdev/source/interface")
        return [each.text or "" for each in given]

    def interfaces(self) -> dict[str, str]:
        """Return the name on the host of each interface, by its MAC."""
        return {
            each.find("mac").get("address"): each.find("target").get("dev")
            for each in self._root.findall("devices/interface")
            if each.find("mac") is not None and each.find("target") is not None
        }


def cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as 0-3,5,^2.

    :param text: the list as libvirt writes it.
    """
    found: set[int] = set()
    without: set[int] = set()
    for each in filter(None, re.split(r"\s*,\s*", text.strip())):
        target = without if each.startswith("^") else found
        first, _, last = each.lstrip("^").partition("-")
        target.update(range(int(first), int(last or first) + 1))
    return frozenset(found - without)


def assert_realtime(
    test: base.ServerTest, server: Mapping[str, Any]
) -> Domain:
    """Check that a domain has what a realtime, lean flavor promises.

    :param test: the test.
    :param server: a server that is running.
    """
    found = Domain(server)
    test.assertEqual(
        ("lean", "yes"),
        (found.guest.get("class"), found.guest.get("realtime")),
        found.text,
    )
    test.assertEqual(frozenset(), STRIPPED & found.devices, found.text)
    pins = found.vcpus
    test.assertNotEqual({}, pins, found.text)
    taken = [cpu for each in pins.values() for cpu in each]
    test.assertEqual(len(pins), len(taken), "a CPU of its own for each vCPU")
    test.assertEqual(len(taken), len(set(taken)), found.text)
    test.assertNotEqual(frozenset(), found.realtime, found.text)
    test.assertLessEqual(found.realtime, pins.keys(), found.text)
    test.assertNotEqual(frozenset(), found.emulator, found.text)
    of_realtime = {cpu for n in found.realtime for cpu in pins[n]}
    test.assertEqual(set(), of_realtime & found.emulator, found.text)
    return found
