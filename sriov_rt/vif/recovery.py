# SPDX-License-Identifier: Apache-2.0

"""Recovery of port changes that a crash has interrupted."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Sequence

from sriov_rt.kernel.errors import LinkError
from sriov_rt.nic.errors import Locked
from sriov_rt.nic.errors import NicError
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif.host import GONE
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.parents import Parents
from sriov_rt.vif.unplug import Unplugging
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """Result of a recovery.

    :param undone: ports whose plug was interrupted.
    :param finished: ports whose unplug was interrupted.
    :param busy: ports that another process works on.
    :param failed: ports that could not be removed completely, and why.
    :param cleaned: idle VFs of the pools that were not at the baseline, and
        idle parents that were still up.
    :param standing: ports that have a record and were left alone.
    :param quarantined: ports whose interface was not seen to return.
    :param released: ports that are no longer quarantined.
    :param damaged: damaged files of records, which are kept.
    """

    undone: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    cleaned: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


class Recovery:
    """Removes all ports in progress from the host, by one look at it."""

    def __init__(self, host: Host, unplugging: Unplugging) -> None:
        self._host = host
        self._locks = host.locks
        self._records = host.records
        self._unplugging = unplugging
        self._parents = Parents(host)

    def pending(self) -> tuple[str, ...]:
        """Return the ports that were being plugged or unplugged, sorted.

        :raises RecordsBroken: if the records cannot be read.
        """
        return self._records.ports()

    def run(self) -> Recovered:
        """Recover every port that no live process works on.

        :raises RecordsBroken: if the records cannot be read.
        """
        records = []
        busy = []
        with contextlib.ExitStack() as locked:
            for port in self.pending():
                try:
                    locked.enter_context(self._locks.port(port, wait=False))
                except errors.Busy:
                    busy.append(port)
                    continue
                record = self._records.in_progress(port)
                if record is not None:
                    records.append(record)
            failed = self._unplugging.finish(records)
        self._host.mended()
        done = [each for each in records if each.port not in failed]
        self._records.clean(functools.partial(self._locks.port, wait=False))
        released = self._unplugging.release()
        view = self._host.observe(mend=True)
        self._remove_probes(view)
        return Recovered(
            undone=_ports(done, State.PLUGGING),
            finished=_ports(done, State.UNPLUGGING),
            busy=tuple(busy),
            failed=tuple(failed.items()),
            cleaned=self.sweep(view),
            standing=tuple(
                each.port for each in view.records if not each.is_quarantined
            ),
            damaged=self._records.damaged.names(),
            quarantined=tuple(
                each.port for each in view.records if each.is_quarantined
            ),
            released=released,
        )

    def _remove_probes(self, view: View) -> None:
        """Delete probes of idle parents that a killed process left behind.

        A probe keeps everything else off its parent. A live process that
        probes has locked the parent.
        """
        for each in view.probes:
            parent = view.parent(each)
            if parent is None:
                continue
            try:
                with self._locks.parent(parent.name, wait=False):
                    self._host.links.delete(each)
            except errors.Busy:
                continue
            except LinkError as error:
                LOG.error("%s: %s stays: %s", parent.name, each.name, error)
            else:
                LOG.warning(
                    "%s: deleted %s, which a killed process left",
                    parent.name,
                    each.name,
                )

    def sweep(self, view: View) -> tuple[str, ...]:
        """Clean the idle VFs of the pools that are not clean.

        Parents without ports are set down, as by an unplug.

        :returns: names of their interfaces.
        """
        cleaned = []
        for link in self._parents.dirty(view):
            vf = view.vf_of(link)
            try:
                with contextlib.ExitStack() as locks:
                    locks.enter_context(
                        self._locks.parent(link.name, wait=False)
                    )
                    if vf is not None:
                        locks.enter_context(
                            self._host.vfs.tenancies.locked(vf.id.address, 0.0)
                        )
                    now = self._host.observe(mend=True)
                    for each in self._parents.dirty(now):
                        if each.name == link.name and self._parents.clean(
                            each, now
                        ):
                            cleaned.append(link.name)
            except (errors.Busy, Locked):
                continue  # it is about to be used, and then cleaned
            except GONE:
                continue
            except (LinkError, NicError) as error:
                name = link.device or link.name
                LOG.error("%s: not clean: %s", log.about(None, name), error)
        return tuple(cleaned)


def _ports(records: Sequence[Record], state: State) -> tuple[str, ...]:
    return tuple(each.port for each in records if each.state is state)
