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

"""A libvirt domain that hooks work on."""

from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.guest import values
from sriov_rt.guest.elements import Element
from sriov_rt.guest.elements import append
from sriov_rt.guest.values import CpuSet
from sriov_rt.parse import topology

#: The most I/O threads of one domain; Nova gives each guest one.
MAX_IOTHREADS = 1024

#: What Nova says of an instance, inside ``<metadata>``.
NOVA_INSTANCE = "{http://openstack.org/xmlns/libvirt/nova/1.1}instance"

#: Elements that libvirt takes one of. It reads the children of a second one
#: as well (its XPath is ``./devices/disk``), so a second one is refused.
_SINGLE = frozenset(
    {
        "cputune",
        "devices",
        "features",
        "iothreadids",
        "iothreads",
        "metadata",
        "os",
        "vcpu",
    }
)


class Domain:
    """A domain that hooks work on.

    :param root: its ``<domain>`` element.
    :raises values.DomainRejected: for an element twice that can be there once.
    """

    def __init__(self, root: Element) -> None:
        self.root = root
        self.kind: str = root.get("type", "")
        self._parts: dict[str, Element] = {}
        self._tunes: dict[str, list[Element]] = {}
        # Not functools.cached_property: until Python 3.12 each of those
        # takes a lock, and there are many to a document.
        self._arch: str | None = None
        self._vcpus: CpuSet | None = None
        self._iothreads: tuple[int, ...] | None = None
        self._pins: dict[int, CpuSet] | None = None
        parts = self._parts
        for child in root:
            tag = child.tag
            if tag in _SINGLE:
                if tag in parts:
                    raise values.DomainRejected(f"a second <{tag}>")
                parts[tag] = child
        for each in parts.get("cputune", ()):
            self._tunes.setdefault(each.tag, []).append(each)

    def part(self, tag: str) -> Element | None:
        """Return the one child of ``<domain>`` with a tag, if it is there."""
        return self._parts.get(tag)

    def ensure(self, tag: str) -> Element:
        """Return the one child of ``<domain>`` with a tag, made if need be."""
        found = self._parts.get(tag)
        if found is None:
            found = self._parts[tag] = append(self.root, tag, {})
        return found

    @property
    def is_container(self) -> bool:
        """Tell whether it is an LXC container."""
        return self.kind == "lxc"

    @property
    def from_nova(self) -> bool:
        """Tell whether Nova made it and placed its vCPUs."""
        metadata = self._parts.get("metadata")
        return (
            metadata is not None and metadata.find(NOVA_INSTANCE) is not None
        )

    @property
    def arch(self) -> str:
        """The guest's architecture; libvirt's default is the host's."""
        if self._arch is None:
            self._arch = "x86_64"
            for each in self._parts.get("os", ()):
                if each.tag == "type":
                    self._arch = each.get("arch", "x86_64")
        return self._arch

    @property
    def vcpus(self) -> CpuSet:
        """The numbers of its vCPUs, those that can be plugged in too."""
        if self._vcpus is None:
            element = self._parts.get("vcpu")
            count = values.count(element, 1, topology.MAX_VCPUS)
            self._vcpus = frozenset(range(count))
        return self._vcpus

    @property
    def iothreads(self) -> tuple[int, ...]:
        """The ids of its I/O threads: libvirt counts them from 1."""
        if self._iothreads is None:
            self._iothreads = tuple(self._read_iothreads())
        return self._iothreads

    def _read_iothreads(self) -> Iterable[int]:
        count = values.count(self._parts.get("iothreads"), 0, MAX_IOTHREADS)
        listed = self._parts.get("iothreadids")
        if listed is None:
            return range(1, count + 1)
        if len(listed) > MAX_IOTHREADS:
            raise values.DomainRejected(
                f"more than {MAX_IOTHREADS} I/O threads"
            )
        found = dict.fromkeys(
            values.number(each.get("id", ""), 1, 2**32 - 1)
            for each in listed.iterchildren("iothread")
        )
        free = 1
        while len(found) < count:
            found.setdefault(free)
            free += 1
        return found

    def devices(self) -> list[Element]:
        """Return the elements of ``<devices>``."""
        devices = self._parts.get("devices")
        return [] if devices is None else list(devices.iterchildren("*"))

    def tunes(self, tag: str) -> list[Element]:
        """Return the elements of ``<cputune>`` with a tag."""
        return self._tunes.get(tag, [])

    def add_tune(self, tag: str, given: Mapping[str, str]) -> None:
        """Add an element to ``<cputune>``.

        Where does not matter: libvirt's domaincommon.rng interleaves them.

        :param given: its attributes.
        """
        added = append(self.ensure("cputune"), tag, given)
        self._tunes.setdefault(tag, []).append(added)
        self._pins = None

    @property
    def pins(self) -> Mapping[int, CpuSet]:
        """vCPU to the pCPUs of its ``<vcpupin>``."""
        if self._pins is None:
            self._pins = self._read_pins()
        return self._pins

    def _read_pins(self) -> dict[int, CpuSet]:
        found: dict[int, CpuSet] = {}
        for each, cpus in values.cpusets(self.tunes("vcpupin"), "cpuset"):
            text = each.get("vcpu", "")
            vcpu = values.number(text, 0, topology.MAX_VCPUS - 1)
            if vcpu in found:
                raise values.DomainRejected(f"two <vcpupin> of vCPU {vcpu}")
            found[vcpu] = cpus
        return found
