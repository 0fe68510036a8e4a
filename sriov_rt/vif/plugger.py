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


"""Ports: plugged, unplugged, shown; and recovered after a crash."""

import logging

from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import report
from sriov_rt.vif import validation
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.link import Link
from sriov_rt.vif.link import Links
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.plug import Plugging
from sriov_rt.vif.plug import Steps
from sriov_rt.vif.records import Records
from sriov_rt.vif.recovery import Recovered
from sriov_rt.vif.recovery import Recovery
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.unplug import Undo
from sriov_rt.vif.view import Away
from sriov_rt.vif.view import Vfs
from sriov_rt.vif.view import View
from sriov_rt.vif.view import anywhere
from sriov_rt.vif.view import observe

LOG = logging.getLogger(__name__)


class Plugger:
    """Ports of this host.

    :param links: the kernel's links.
    :param vfs: the verbs on VFs.
    :param pools: the parents of each physical network.
    :param journal: where what is in progress is written down.
    :param locks: between processes, and threads of this one.
    :param away: where the thread must not run meanwhile.
    """

    def __init__(
        self,
        links: Links,
        vfs: Vfs,
        pools: Pools,
        journal: Journal,
        locks: Locks,
        rules: Rules | None = None,
        away: Away = anywhere,
        records: Records | None = None,
    ) -> None:
        self._links = links
        self._vfs = vfs
        self.pools = pools
        self._journal = journal
        self._locks = locks
        self._rules = rules or Rules()
        self._records = records or Records(journal.directory)
        self._undo = Undo(links, vfs, pools, journal, locks, away)
        self._recovery = Recovery(
            links, vfs, self._undo, journal, locks, self._records
        )
        self._plugging = Plugging(
            links,
            vfs,
            pools,
            journal,
            locks,
            self._rules,
            Steps(links, vfs, journal, away),
            self._recovery,
            self._records,
        )

    def plan(self, want: Plug) -> PlugPlan:
        """Return what :meth:`plug` would do; nothing is touched.

        :raises VifError: if it cannot be done.
        :raises ParseError: for a value that no port can have.
        """
        want = validation.checked(want)
        record = self._records.get(want.port)
        if record is not None:
            raise errors.AlreadyPlugged(record.interface, port=want.port)
        return self._plugging.plan(want, self._observe())

    def _observe(self) -> View:
        return observe(self._links, self._vfs, self._records)

    def plug(self, want: Plug) -> Plugged:
        """Make a port, or return it as it is if it is there.

        :raises VifError: or NicError, if it cannot be made; then nothing of
            it is left.
        :raises ParseError: for a value that no port can have.
        """
        want = validation.checked(want)
        link, plugged = self._plugging.plug(want)
        if link is not None:
            self._announce(want, link)
        return plugged

    def unplug(self, port: str) -> bool:
        """Remove a port; False if there was nothing of it.

        :raises VifError: or NicError, if it cannot be removed.
        :raises ParseError: if it is no port's UUID.
        """
        validation.port(port)
        with self._locks.port(port):
            done = self._recovery.settle(port)
            record = self._records.get(port)
            if record is not None:
                done |= self._recovery.depart(record)
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

        Nothing is looked for and nothing is removed: for who knows that its
        interface is gone.

        :raises NotForgotten: if the port is not quarantined.
        :raises ParseError: if it is no port's UUID.
        """
        validation.port(port)
        with self._locks.port(port):
            record = self._records.get(port)
            if record is None:
                return False
            if not record.is_quarantined:
                raise errors.NotForgotten(record.interface, port=port)
            self._records.remove(port)
        LOG.warning(
            "%s: forgotten; it was quarantined (%s)",
            log.about(port, record.vf),
            record.reason,
        )
        self._recovery.sweep(self._observe())
        return True

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

        What has a record and is not in the journal is reported and left
        alone. Another process's work in progress is not touched.
        """
        return self._recovery.run()

    def recover_pending(self) -> Recovered | None:
        """Recover if there is anything in the journal; None if not."""
        return self.recover() if self._journal.ports() else None

    def _announce(self, want: Plug, link: Link) -> None:
        """Announce a port; one without a carrier is a port too."""
        try:
            wait_s = self._rules.carrier_wait_s
            carrier = link.carrier or self._links.wait_carrier(link, wait_s)
            if carrier:
                self._links.announce(link, want.addresses)
                return
            LOG.warning(
                "%s: %s has no carrier after %s s",
                log.about(want.port),
                link.name,
                wait_s,
            )
        except VifError as error:
            LOG.warning("%s: not announced (%s)", log.about(want.port), error)
