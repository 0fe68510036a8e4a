# SPDX-License-Identifier: Apache-2.0

"""A port that is plugged already: kept, or changed in place."""

import dataclasses
import logging

from sriov_rt.kernel.link import Link
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import show
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import Record
from sriov_rt.vif.search import Search

LOG = logging.getLogger(__name__)

#: What can change in place while a port's owner uses it.
_CHANGED_IN_PLACE = {"MTU", "kbit/s out", "kbit/s in"}


class Existing:
    """Compares existing ports with what is requested."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._search = Search(host.links, host.vfs)

    def keep(
        self, record: Record, request: Plug, namespace_id: Identity | None
    ) -> Plugged | None:
        """Return a port as requested; None if it has to be made again.

        :param namespace_id: namespace that it is requested in.
        :raises AlreadyPlugged: if it differs, and cannot be changed in place.
        """
        link = self._search.find(record)
        found = differences(record, request)
        if {"owner", "kind"} & found.keys():
            raise _differing(record, found)
        moved_on = (
            record.request.namespace is None and request.namespace is None
        )
        if link is None or not (link.namespace_id == namespace_id or moved_on):
            # Its container was restarted, or has lost the interface.
            LOG.info(
                "%s: plugging again: its interface is %s",
                log.about(request.port, record.vf),
                "gone" if link is None else "in another namespace",
            )
            return None
        if found.keys() - _CHANGED_IN_PLACE:
            raise _differing(record, found)
        if found:
            link = self._change(record, link, request)
            record = dataclasses.replace(record, request=request)
            self._host.records.put(record)
        return show.plugged(record, link, self._host.observe(mend=True))

    def _change(self, record: Record, link: Link, request: Plug) -> Link:
        if request.limits != record.request.limits:
            self._links.limit(link, request.limits)
        mtu = request.mtu
        if mtu is None:
            parent = self._links.get(record.parent)
            mtu = link.mtu if parent is None else parent.mtu
        if mtu != link.mtu:
            link = self._links.configure(link, mtu=mtu)
        LOG.info("%s: changed in place", log.about(request.port, record.vf))
        return link


def _differing(record: Record, found: dict[str, str]) -> errors.VifError:
    return errors.AlreadyPlugged(
        record.interface,
        port=record.port,
        detail=", ".join(
            f"{field} is {text}" for field, text in found.items()
        ),
    )


def differences(record: Record, request: Plug) -> dict[str, str]:
    """Return how a plugged port differs from what is requested.

    :returns: ``what it is, not what is requested`` by the field. A field that
        the request leaves to us never differs.
    """
    is_ = record.request
    found = {}
    for field, now, requested in (
        ("owner", record.owner, request.owner),
        ("kind", record.kind, request.kind),
        ("mode", record.mode, request.mode),
        ("network", is_.physical_network, request.physical_network),
        ("parent", record.parent, request.parent or record.parent),
        ("interface", record.interface, request.name),
        ("MAC", record.mac, request.mac or record.mac),
        ("VLAN", is_.vlan, request.vlan),
        ("MTU", is_.mtu, request.mtu),
        ("kbit/s out", is_.limits.out_kbps, request.limits.out_kbps),
        ("kbit/s in", is_.limits.in_kbps, request.limits.in_kbps),
        ("addresses", is_.addresses, request.addresses),
        ("routes", is_.routes, request.routes),
        ("onload", _onload(record, request), request.onload),
        ("network of onload", _network(record, request), _net(request)),
    ):
        if now != requested:
            found[field] = f"{_text(now)}, not {_text(requested)}"
    return found


def _onload(record: Record, request: Plug) -> bool:
    # A port that could not be accelerated may be requested as either.
    either = {record.request.onload, record.accelerated}
    return request.onload if request.onload in either else record.accelerated


def _network(record: Record, request: Plug) -> str | None:
    return record.request.network if request.onload else None


def _net(request: Plug) -> str | None:
    return request.network if request.onload else None


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
