# SPDX-License-Identifier: Apache-2.0

"""Our elements in a domain's ``<metadata>``: the request, the hooks' record.

libvirt keeps one element of each namespace, so that they have two.
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

#: Our namespace inside ``<metadata>``: a name, and no address.
NAMESPACE = "https://docs.openstack.org/sriov-rt/guest/1.0"

_GUEST = f"{{{NAMESPACE}}}guest"

#: The namespace of what the owner of a domain requests, where no flavor does:
#: ``virsh metadata DOMAIN --uri`` takes it.
REQUEST_NAMESPACE = "https://docs.openstack.org/sriov-rt/request/1.0"

_REQUEST = f"{{{REQUEST_NAMESPACE}}}request"

_NSMAP = {"sriov_rt": NAMESPACE}

#: The most hooks and element names that are carried over from a document.
_MOST = 64

#: Mark of Onload's hook on a guest that runs over the kernel after all.
ONLOAD_MARK = "onload"

_REALTIME = "realtime"
_MAX_LATENCY = "max_latency_us"


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """Requests of a guest's flavor that its host has to meet while it runs.

    :param realtime: it has realtime vCPUs, each on pCPUs of its own; or is
        a container that is confined to some.
    :param max_latency_us: the worst latency in µs that the host may be
        certified for; None if any will do.
    """

    realtime: bool
    max_latency_us: int | None


def write(
    domain: Domain,
    request: Request,
    recorders: Iterable[Recorder],
    version: str,
) -> None:
    """Write ``<sriov_rt:guest>``: what was done, before and now.

    Its text is ``hook: element element; hook: element``.

    :param version: of this software.
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
    """Return whether what the flavor asks of its vCPUs is in the domain.

    Without facts of the host, vCPUs that nobody pinned stay as they are.
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
    """Return what a hook marked the domain with, None if it did not."""
    guest = _find(domain)
    return None if guest is None else attributes(guest).get(name)


def requested(domain: Domain) -> GuestRequest | None:
    """Return what a domain's owner requests, None if there is no request.

    It is in the attributes of ``<sriov_rt:request>``, named as extra specs.

    :raises ParseError: for an attribute that is none of them.
    """
    metadata = domain.part("metadata")
    for each in () if metadata is None else metadata:
        if each.tag == _REQUEST:
            return guest_request.from_values(attributes(each))
    return None


def write_request(domain: Domain, request: GuestRequest) -> None:
    """Write what is requested into a domain, in place of what it has."""
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
    """Return what a domain requests of its host."""
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
