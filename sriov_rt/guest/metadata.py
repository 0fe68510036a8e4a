# SPDX-License-Identifier: Apache-2.0

"""Our elements in a domain's ``<metadata>``: the request, the hooks' record.

libvirt keeps one element of each namespace, so each has its own namespace.
"""

import dataclasses
from collections.abc import Iterable

from lxml import etree

from sriov_rt.guest import cputune
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import attributes
from sriov_rt.guest.xml import cpusets
from sriov_rt.guest.xml import remove
from sriov_rt.guest.xml import text_of
from sriov_rt.parse import errors
from sriov_rt.parse import numbers
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.request import grammar
from sriov_rt.request import guest_request
from sriov_rt.request.guest_request import GuestRequest
from sriov_rt.request.words import Request

#: Our namespace inside ``<metadata>``: only a name, not an address.
NAMESPACE = "https://docs.openstack.org/sriov-rt/guest/1.0"

_GUEST = f"{{{NAMESPACE}}}guest"

#: The namespace of the request of a domain without a flavor, for
#: ``virsh metadata DOMAIN --uri``.
REQUEST_NAMESPACE = "https://docs.openstack.org/sriov-rt/request/1.0"

_REQUEST = f"{{{REQUEST_NAMESPACE}}}request"

_NSMAP = {"sriov_rt": NAMESPACE}

#: The most hooks and element names that are kept from a document.
_MOST = 64

#: Mark of Onload's hook on a guest that falls back to the kernel's stack.
ONLOAD_MARK = "onload"

_REALTIME = "realtime"
_MAX_LATENCY = "max_latency_us"


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """Requests of a guest's flavor that its host has to meet while it runs.

    :param realtime: whether it has realtime vCPUs, each on pCPUs of its own,
        or is a container that is confined to some.
    :param max_latency_us: the highest certified latency of the host that
        is acceptable, µs; None for any.
    """

    realtime: bool
    max_latency_us: int | None


def write(
    domain: Domain,
    request: Request,
    recorders: Iterable[Recorder],
    version: str,
) -> None:
    """Write ``<sriov_rt:guest>``, the record of past and present changes.

    Its text is ``hook: element element; hook: element``.

    :param version: version of this software.
    """
    before = _find(domain)
    done = {} if before is None else read(before)
    marks: dict[str, str] = {}
    for each in recorders:
        marks |= each.marks
        if names := each.elements():
            done[each.hook] = names.union(done.get(each.hook, ()))
    given = {"class": request.guest.value, "version": version}
    if request.realtime_cpus and _is_realtime(domain):
        given[_REALTIME] = "yes"
    if request.max_latency_us is not None:
        given[_MAX_LATENCY] = str(request.max_latency_us)
    given |= marks
    text = "; ".join(
        [f"{hook}: {' '.join(sorted(names))}" for hook, names in done.items()]
    )
    if before is not None:
        if attributes(before) == given and text_of(before) == text:
            return
        remove(domain.ensure("metadata"), (before,))
    guest = etree.SubElement(
        domain.ensure("metadata"), _GUEST, given, nsmap=_NSMAP
    )
    if text:
        guest.text = text


def _is_realtime(domain: Domain) -> bool:
    """Return whether the domain meets the flavor's request for its vCPUs.

    Without facts of the host, unpinned vCPUs are left unchanged.
    """
    if domain.is_container:
        return domain.cpuset is not None
    realtime = [
        vcpus
        for each, vcpus in cpusets(domain.tunes("vcpusched"), "vcpus")
        if cputune.is_realtime(each)
    ]
    return bool(realtime) and CpuSet().union(*realtime) <= domain.pins.keys()


def marked(domain: Domain, name: str) -> str | None:
    """Return the value of a hook's mark on the domain, None if absent."""
    guest = _find(domain)
    return None if guest is None else attributes(guest).get(name)


def requested(domain: Domain) -> GuestRequest | None:
    """Return the request of a domain's owner, None if there is none.

    The attributes of ``<sriov_rt:request>`` have the names of extra specs.

    :raises ParseError: for an attribute of another name.
    """
    metadata = domain.part("metadata")
    for each in () if metadata is None else metadata:
        if each.tag == _REQUEST:
            return guest_request.from_values(attributes(each))
    return None


def write_request(domain: Domain, request: GuestRequest) -> None:
    """Write a request into a domain, in place of its earlier request."""
    metadata = domain.ensure("metadata")
    before = [each for each in metadata if each.tag == _REQUEST]
    if before:
        remove(metadata, before)
    given = {
        key.partition(":")[2]: value
        for key, value in request.extra_specs.items()
    }
    if request.pinning is not None:
        given[guest_request.PINNING] = request.pinning
    etree.SubElement(
        metadata, _REQUEST, given, nsmap={"sriov_rt": REQUEST_NAMESPACE}
    )


def promised(domain: Domain) -> Promise:
    """Return the requests that a domain makes of its host."""
    guest = _find(domain)
    given = {} if guest is None else attributes(guest)
    return Promise(
        realtime=given.get(_REALTIME) == "yes",
        max_latency_us=_latency(given.get(_MAX_LATENCY, "")),
    )


def _latency(text: str) -> int | None:
    try:
        return numbers.parse_int(
            text, "latency in µs", 1, grammar.MAX_LATENCY_US
        )
    except errors.ParseError:
        return None


def read(guest: Element) -> dict[str, set[str]]:
    """Return hook to the names of the elements that it changed.

    :param guest: a ``<sriov_rt:guest>`` element.
    """
    done = {}
    for part in text_of(guest).split("; ")[:_MOST]:
        hook, colon, names = part.partition(": ")
        if colon:
            done[hook] = set(names.split()[:_MOST])
    return done


def _find(domain: Domain) -> Element | None:
    metadata = domain.part("metadata")
    for each in () if metadata is None else metadata:
        if each.tag == _GUEST:
            return each
    return None
