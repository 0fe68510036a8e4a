# SPDX-License-Identifier: Apache-2.0

"""Ports: plugged, unplugged, shown, and recovered after a crash."""

import dataclasses
import logging
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.host import container
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.vif import errors
from sriov_rt.vif import host
from sriov_rt.vif import log
from sriov_rt.vif import parents
from sriov_rt.vif import plan
from sriov_rt.vif import show
from sriov_rt.vif.counts import OK
from sriov_rt.vif.host import Host
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.lost import LostPorts
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import Record
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.plug import Due
from sriov_rt.vif.plug import Plugging
from sriov_rt.vif.recovery import Recovered
from sriov_rt.vif.recovery import Recovery
from sriov_rt.vif.search import Search
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.unplug import Unplugging

LOG = logging.getLogger(__name__)


class Plugger:
    """Ports of this host.

    The caller has checked a requested port (validation.checked) or its UUID
    (validation.port), as the command line and the privileged daemon do.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._locks = host.locks
        self._records = host.records
        self._counts = host.counts
        self._unplugging = Unplugging(host)
        self._rechecking = Unplugging(
            dataclasses.replace(host, patience_s=0.0)
        )
        self._recovery = Recovery(host, self._unplugging)
        self._plugging = Plugging(host, self._unplugging)
        self._lost = LostPorts(host.records)

    @property
    def host(self) -> Host:
        """The host that has these ports."""
        return self._host

    @property
    def pools(self) -> Pools:
        """The parents of each physical network."""
        return self._host.pools

    def plan(self, request: Plug) -> PlugPlan:
        """Return what :meth:`plug` would do; nothing is touched.

        :raises LinkError: if the port cannot be plugged.
        """
        _refuse_unseen(request)
        record = self._records.get(request.port)
        if record is not None:
            raise errors.AlreadyPlugged(record.interface, port=request.port)
        return plan.make(
            request, self._host.observe(), self._host.pools, self._host.rules
        )

    def check(self, request: Plug) -> None:
        """Check that a port can be plugged or already is; make nothing.

        :raises LinkError: or NicError, if it cannot be plugged now.
        """
        _refuse_unseen(request)
        if self._records.get(request.port) is None:
            self._plugging.check(request)

    def offer(self, virt_type: str) -> Offer:
        """Return what this host offers to Neutron.

        :param virt_type: ``[libvirt] virt_type`` of its nova-compute.
        """
        view = self._host.view(())
        return parents.offer(view, self._host.pools, virt_type)

    def plug(self, request: Plug, is_due: Due | None = None) -> Plugged:
        """Make a port; return it as it is if it exists.

        :param is_due: see :meth:`Plugging.plug`.
        :raises LinkError: or NicError, if it cannot be made; then nothing of
            it is left.
        """
        _refuse_unseen(request)
        with self._counts.failures("plug"):
            link, plugged = self._plugging.plug(request, is_due)
        if link is not None:
            self._counts.add("plug", OK)
            self._announce(request, link)
        return plugged

    def unplug(self, port: str) -> bool:
        """Remove a port; False if nothing of it was left.

        :raises LinkError: or NicError, if it cannot be removed.
        """
        with self._counts.failures("unplug"):
            done = self._unplug(port)
        if done:
            self._counts.add("unplug", OK)
        return done

    def _unplug(self, port: str) -> bool:
        with self._locks.port(port):
            # Before its record is removed: it must not be plugged again.
            done = self._lost.end(port)
            done |= self._unplugging.finish_pending(port)
            record = self._records.get(port)
            if record is not None:
                done |= self._unplugging.unplug(record)
                LOG.info(
                    "%s: unplugged from %s",
                    log.about(port, record.vf),
                    record.parent,
                )
        if record is None and not done:
            self._recovery.sweep(self._host.observe())
        return done

    def forget(self, port: str) -> bool:
        """Free what a quarantined port keeps; False if there is no such port.

        Use it if the interface is known to be gone: none is looked for or
        removed. Damaged files of the port are removed.

        :raises NotForgotten: if the port is not quarantined.
        :raises InterfaceLeft: if its interface is seen where it was plugged,
            or in another namespace.
        """
        with self._locks.port(port):
            self._host.mend(port)
            record = self._records.get(port)
            if record is None:
                return self._records.damaged.discard(port)
            if not record.is_quarantined:
                raise errors.NotForgotten(record.interface, port=port)
            self._check_gone(record)
            self._unplugging.quarantine.restore(record)
            self._records.end(port)
            self._records.damaged.discard(port)
        LOG.warning(
            "%s: forgotten; it was quarantined (%s)",
            log.about(port, record.vf),
            record.reason,
        )
        self._recovery.sweep(self._host.observe())
        return True

    def _check_gone(self, record: Record) -> None:
        """Check that a port's interface is gone; a VF may be on the host.

        :raises InterfaceLeft: if it is seen.
        """
        link = Search(self._links, self._host.vfs).find(record)
        if link is None or (record.kind == Kind.VF and not link.namespace):
            return
        place = f" in {link.namespace}" if link.namespace else ""
        raise errors.InterfaceLeft(f"{link.name}{place}", port=record.port)

    def show(self) -> tuple[Plugged, ...]:
        """Return all ports, as their records and the kernel show them."""
        return show.ports(self._host)

    def recover(self) -> Recovered:
        """Undo interrupted plugs and finish interrupted unplugs.

        Plugged and quarantined ports are reported and left alone. Another
        process's work in progress is not touched.
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
        """Recover if anything is in progress; None if nothing is."""
        return self.recover() if self._recovery.pending() else None

    def recheck(self) -> tuple[Record, ...]:
        """Look again at quarantined ports; return those that still are.

        If an interface has gone, what its port kept is free. Nothing is waited
        for, and without quarantined ports the kernel is not queried.

        :raises RecordsBroken: if the records cannot be read.
        """
        self._rechecking.release(ended=False)
        return tuple(x for x in self._records.all() if x.is_quarantined)

    def _announce(self, request: Plug, link: Link) -> None:
        """Announce a port, even if it has no carrier."""
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


def _refuse_unseen(request: Plug) -> None:
    """Refuse a namespace given by a process id that cannot be seen.

    :raises ProcessUnseen: if process ids are the container's own.
    """
    place = request.namespace or ""
    if (
        place.startswith(namespaces.PID)
        and not container.sees_host_processes()
    ):
        raise errors.ProcessUnseen(place, port=request.port)


def configured(files: Sequence[str] | None = None) -> Plugger:
    """Return the plugger that configuration files describe.

    :param files: None for CONFIG_FILE, or the defaults if there is none.
    :raises ConfigurationUnreadable: if they cannot be read.
    """
    with config.reading():
        return of(host.read(files))


def of(conf: cfg.ConfigOpts) -> Plugger:
    """Return the plugger of this host; see :func:`host.of`."""
    return Plugger(host.of(conf))
