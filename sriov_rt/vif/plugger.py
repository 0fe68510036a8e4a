# SPDX-License-Identifier: Apache-2.0

"""Ports: plugged, unplugged, shown; and recovered after a crash."""

import dataclasses
import logging

from sriov_rt.host import container
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import parents
from sriov_rt.vif import report
from sriov_rt.vif import validation
from sriov_rt.vif.counts import OK
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.plug import Plugging
from sriov_rt.vif.records import Record
from sriov_rt.vif.recovery import Recovered
from sriov_rt.vif.recovery import Recovery
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import Host
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)


class Plugger:
    """Ports of this host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._locks = host.locks
        self._records = host.records
        self._counts = host.counts
        self._recovery = Recovery(host)
        self._rechecking = Recovery(dataclasses.replace(host, patience_s=0.0))
        self._plugging = Plugging(host, self._recovery)

    @property
    def pools(self) -> Pools:
        """The parents of each physical network."""
        return self._host.pools

    def plan(self, request: Plug) -> PlugPlan:
        """Return what :meth:`plug` would do; nothing is touched.

        :raises LinkError: if it cannot be done.
        :raises ParseError: for a value that no port can have.
        """
        request = _checked(request)
        record = self._records.get(request.port)
        if record is not None:
            raise errors.AlreadyPlugged(record.interface, port=request.port)
        return self._plugging.plan(request, self._observe())

    def check(self, request: Plug) -> None:
        """Check that a port can be plugged, if it is not; make nothing.

        :raises LinkError: or NicError, if it cannot be plugged now.
        :raises ParseError: for a value that no port can have.
        """
        request = _checked(request)
        if self._records.get(request.port) is None:
            self._plugging.check(request)

    def offer(self, virt_type: str) -> Offer:
        """Return what this host offers to Neutron.

        :param virt_type: ``[libvirt] virt_type`` of its nova-compute.
        """
        view = View(self._links, self._host.vfs)
        return parents.offer(view, self._host.pools, virt_type)

    def _observe(self) -> View:
        return self._host.observe()

    def plug(self, request: Plug) -> Plugged:
        """Make a port, or return it as it is if it is there.

        :raises LinkError: or NicError, if it cannot be made; then nothing of
            it is left.
        :raises ParseError: for a value that no port can have.
        """
        request = _checked(request)
        with self._counts.failures("plug"):
            link, plugged = self._plugging.plug(request)
        if link is not None:
            self._counts.add("plug", OK)
            self._announce(request, link)
        return plugged

    def unplug(self, port: str) -> bool:
        """Remove a port; False if there was nothing of it.

        :raises LinkError: or NicError, if it cannot be removed.
        :raises ParseError: if it is no port's UUID.
        """
        validation.port(port)
        with self._counts.failures("unplug"):
            done = self._unplug(port)
        if done:
            self._counts.add("unplug", OK)
        return done

    def _unplug(self, port: str) -> bool:
        with self._locks.port(port):
            done = self._recovery.finish_pending(port)
            record = self._records.get(port)
            if record is not None:
                done |= self._recovery.unplug_record(record)
                LOG.info(
                    "%s: unplugged from %s",
                    log.about(port, record.vf),
                    record.parent,
                )
        if record is None and not done:
            self._recovery.sweep(self._observe())
        return done

    def forget(self, port: str) -> bool:
        """Free what a quarantined port keeps; False if there is none.

        No interface is looked for or removed: for who knows that it is gone.
        Damaged files of the port are.

        :raises NotForgotten: if the port is not quarantined.
        :raises InterfaceLeft: if its interface is seen where it was plugged,
            or in another namespace.
        :raises ParseError: if it is no port's UUID.
        """
        validation.port(port)
        with self._locks.port(port):
            self._recovery.mend(port)
            record = self._records.get(port)
            if record is None:
                return self._records.discard_damaged(port)
            if not record.is_quarantined:
                raise errors.NotForgotten(record.interface, port=port)
            self._check_gone(record)
            self._recovery.restore(record)
            self._records.end(port)
            self._records.discard_damaged(port)
        LOG.warning(
            "%s: forgotten; it was quarantined (%s)",
            log.about(port, record.vf),
            record.reason,
        )
        self._recovery.sweep(self._observe())
        return True

    def _check_gone(self, record: Record) -> None:
        """Check that an interface is not seen; a VF may be on the host.

        :raises InterfaceLeft: if it is.
        """
        link = self._plugging.in_place(record) or report.among(
            record, self._links.all(everywhere=True)
        )
        if link is None or (record.kind == Kind.VF and not link.namespace):
            return
        place = f" in {link.namespace}" if link.namespace else ""
        raise errors.InterfaceLeft(f"{link.name}{place}", port=record.port)

    def show(self) -> tuple[Plugged, ...]:
        """Return all ports: by their records, and as the kernel has them.

        One that was made on the host may be in a container since, which
        libvirt moved it into.
        """
        view = self._observe()
        found = {
            each.port: self._plugging.in_place(each) for each in view.records
        }
        moved = [
            each
            for each in view.records
            if found[each.port] is None and each.namespace is None
        ]
        everywhere = self._links.all(everywhere=True) if moved else ()
        for each in moved:
            found[each.port] = report.among(each, everywhere)
        return tuple(
            report.plugged(each, found[each.port], view)
            for each in view.records
        )

    def recover(self) -> Recovered:
        """Undo the plugs and finish the unplugs that were interrupted.

        What is plugged or quarantined is reported and left
        alone. Another process's work in progress is not touched.
        """
        found = self._recovery.run()
        for result, ports in (
            ("undone", found.undone),
            ("finished", found.finished),
            ("failed", found.failed),
            ("released", found.released),
        ):
            self._counts.add("recover", result, len(ports))
        return found

    def recover_pending(self) -> Recovered | None:
        """Recover if anything is in progress; None if not."""
        return self.recover() if self._recovery.pending() else None

    def recheck(self) -> tuple[Record, ...]:
        """Look once more at quarantined ports; return those that still are.

        What those keep that have gone is free then. Nothing is waited for,
        and the kernel is not asked where no port is quarantined.

        :raises JournalBroken: if the records cannot be read.
        """
        return self._rechecking.release_quarantined()

    def _announce(self, request: Plug, link: Link) -> None:
        """Announce a port; one without a carrier is a port too."""
        try:
            wait_s = self._host.rules.carrier_wait_s
            carrier = link.carrier or self._links.wait_carrier(link, wait_s)
            if carrier:
                self._links.announce(link, request.addresses)
                return
            LOG.warning(
                "%s: %s has no carrier after %s s",
                log.about(request.port),
                link.name,
                wait_s,
            )
        except LinkError as error:
            LOG.warning(
                "%s: not announced (%s)", log.about(request.port), error
            )


def _checked(request: Plug) -> Plug:
    """Return a requested port, checked; see :func:`validation.checked`.

    :raises ProcessUnseen: for a namespace by the id of a process that is not
        to be seen from here.
    """
    request = validation.checked(request)
    place = request.namespace or ""
    if (
        place.startswith(namespaces.PID)
        and not container.sees_host_processes()
    ):
        raise errors.ProcessUnseen(place, port=request.port)
    return request
