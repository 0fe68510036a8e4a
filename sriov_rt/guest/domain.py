# SPDX-License-Identifier: Apache-2.0

"""Bounded reading of libvirt domain documents, and writing."""

import re
from collections.abc import Mapping

from lxml import etree

from sriov_rt.guest import xml
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import append
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.pinning import MAX_VCPUS

#: The longest document that is accepted, bytes. Nova's are below 64 kB.
MAX_DOCUMENT = 1024 * 1024

_ENCODING = re.compile(rb"<\?xml[^>]{0,80}encoding\s*=\s*[\"']([^\"']*)[\"']")
_UTF8 = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})

#: The most I/O threads of one domain; Nova gives each guest one.
MAX_IOTHREADS = 1024

#: Nova's description of an instance, inside ``<metadata>``.
NOVA_INSTANCE = "{http://openstack.org/xmlns/libvirt/nova/1.1}instance"

#: Modes of ``<numatune>`` that bind memory to its nodes; the first one is the
#: default (virDomainNumatuneParseXML in libvirt's src/conf/numa_conf.c).
_BINDING = frozenset({"strict", "restrictive"})

#: Elements that may occur once. libvirt would read the children of a second
#: one as well (its XPath is ``./devices/disk``), so a second one is refused.
_SINGLE = frozenset(
    {
        "cputune",
        "devices",
        "features",
        "iothreadids",
        "iothreads",
        "metadata",
        "numatune",
        "os",
        "vcpu",
    }
)


class Domain:
    """A domain that hooks work on.

    :param root: its ``<domain>`` element.
    :raises DomainRejected: if an element of _SINGLE occurs twice.
    """

    def __init__(self, root: Element) -> None:
        self.root = root
        self.kind: str = root.get("type", "")
        self._parts: dict[str, Element] = {}
        self._tunes: dict[str, list[Element]] = {}
        parts = self._parts
        for child in root:
            tag = child.tag
            if tag in _SINGLE:
                if tag in parts:
                    raise DomainRejected(f"a second <{tag}>")
                parts[tag] = child
        for each in parts.get("cputune", ()):
            self._tunes.setdefault(each.tag, []).append(each)

    def part(self, tag: str) -> Element | None:
        """Return the one child of ``<domain>`` with a tag, None if absent."""
        return self._parts.get(tag)

    def ensure(self, tag: str) -> Element:
        """Return the one child of ``<domain>`` with a tag, added if absent."""
        found = self._parts.get(tag)
        if found is None:
            found = self._parts[tag] = append(self.root, tag, {})
        return found

    @property
    def is_container(self) -> bool:
        """Return whether it is an LXC container."""
        return self.kind == "lxc"

    @property
    def from_nova(self) -> bool:
        """Return whether Nova created the domain and placed its vCPUs."""
        metadata = self._parts.get("metadata")
        return (
            metadata is not None and metadata.find(NOVA_INSTANCE) is not None
        )

    @property
    def arch(self) -> str:
        """The guest's architecture; libvirt's default is the host's."""
        arch = "x86_64"
        for each in self._parts.get("os", ()):
            if each.tag == "type":
                arch = each.get("arch", "x86_64")
        return arch

    @property
    def vcpus(self) -> CpuSet:
        """The numbers of its vCPUs, including hot-pluggable ones."""
        element = self._parts.get("vcpu")
        count = xml.count(element, 1, MAX_VCPUS)
        return CpuSet.of_bits((1 << count) - 1)

    @property
    def cpuset(self) -> CpuSet | None:
        """The pCPUs that its document allows it, None if it names none."""
        vcpu = self._parts.get("vcpu")
        if vcpu is None or vcpu.get("placement") == "auto":
            # numad chooses them, and libvirt ignores the attribute.
            return None
        text = vcpu.get("cpuset")
        return None if text is None else xml.cpuset(text)

    @property
    def memory_nodes(self) -> CpuSet | None:
        """The NUMA nodes that all its memory is bound to, None if unbound."""
        found: CpuSet | None = None
        for each in self._parts.get("numatune", ()):
            nodes = each.get("nodeset")
            if (
                each.tag in ("memory", "memnode")
                and each.get("mode", "strict") in _BINDING
                and nodes is not None
            ):
                bound = xml.cpuset(nodes)
                found = bound if found is None else found & bound
        return found

    @property
    def iothreads(self) -> tuple[int, ...]:
        """The ids of its I/O threads, which libvirt counts from 1."""
        count = xml.count(self._parts.get("iothreads"), 0, MAX_IOTHREADS)
        listed = self._parts.get("iothreadids")
        if listed is None:
            return tuple(range(1, count + 1))
        if len(listed) > MAX_IOTHREADS:
            raise DomainRejected(f"more than {MAX_IOTHREADS} I/O threads")
        found = dict.fromkeys(
            xml.number(each.get("id", ""), 1, 2**32 - 1)
            for each in listed.iterchildren("iothread")
        )
        free = 1
        while len(found) < count:
            found.setdefault(free)
            free += 1
        return tuple(found)

    def devices(self) -> list[Element]:
        """Return the elements of ``<devices>``."""
        devices = self._parts.get("devices")
        return [] if devices is None else list(devices.iterchildren("*"))

    def tunes(self, tag: str) -> list[Element]:
        """Return the elements of ``<cputune>`` with a tag."""
        return self._tunes.get(tag, [])

    def add_tune(self, tag: str, given: Mapping[str, str]) -> None:
        """Add an element to ``<cputune>``.

        The order does not matter: libvirt's domaincommon.rng interleaves them.
        """
        added = append(self.ensure("cputune"), tag, given)
        self._tunes.setdefault(tag, []).append(added)

    def remove_tunes(self, tag: str) -> list[Element]:
        """Remove the elements of ``<cputune>`` with a tag, and return them."""
        gone = self._tunes.pop(tag, [])
        if gone:
            xml.remove(self.ensure("cputune"), gone)
        return gone

    @property
    def pins(self) -> Mapping[int, CpuSet]:
        """vCPU to the pCPUs of its ``<vcpupin>``."""
        found: dict[int, CpuSet] = {}
        for each, cpus in xml.cpusets(self.tunes("vcpupin"), "cpuset"):
            text = each.get("vcpu", "")
            vcpu = xml.number(text, 0, MAX_VCPUS - 1)
            if vcpu in found:
                raise DomainRejected(f"two <vcpupin> of vCPU {vcpu}")
            found[vcpu] = cpus
        return found


def parse_domain(document: str | bytes) -> Domain:
    """Return the domain of a document, in bounded time and memory.

    :param document: at most MAX_DOCUMENT bytes of UTF-8, without a DOCTYPE.
    :raises DomainRejected: if it breaks these rules or is not a domain.
    """
    if len(document) > MAX_DOCUMENT:
        raise DomainRejected(f"longer than {MAX_DOCUMENT} bytes")
    try:
        # The check for a DOCTYPE would miss one in another encoding, so only
        # UTF-8 is accepted, whatever the document declares.
        if isinstance(document, str):
            data = document.encode()
        else:
            data = document
            document.decode()
    except UnicodeError:
        raise DomainRejected("not UTF-8") from None
    _check(data)
    try:
        root = etree.fromstring(data, _parser())
    except etree.XMLSyntaxError as error:
        problem = ascii(error.msg)[:200]
        raise DomainRejected(f"not XML ({problem})") from None
    if root.tag != "domain":
        raise DomainRejected("its root is not <domain>")
    return Domain(root)


def serialise(domain: Domain) -> str:
    """Return a domain as XML text, without a declaration."""
    text: str = etree.tostring(domain.root, encoding="unicode")
    return text


def _parser() -> etree.XMLParser:
    # Without huge_tree libxml2 stops at a few hundred levels of depth
    # (xmlParserMaxDepth in its parserInternals.h).
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
    )


def _check(data: bytes) -> None:
    if len(data) > MAX_DOCUMENT:
        raise DomainRejected(f"longer than {MAX_DOCUMENT} bytes")
    if b"\0" in data:
        raise DomainRejected("a NUL in it")
    # Only a DOCTYPE can declare an entity. One inside a comment is refused
    # too: no domain needs it.
    if b"<!DOCTYPE" in data:
        raise DomainRejected("a DOCTYPE in it")
    declared = _ENCODING.match(data)
    if declared and declared[1].lower() not in _UTF8:
        raise DomainRejected("it declares an encoding other than UTF-8")
