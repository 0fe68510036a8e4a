# SPDX-License-Identifier: Apache-2.0

"""Restoring of ports whose parent was destroyed and has returned.

VFs and their tenants' interfaces are destroyed if a PF's driver is reloaded, a
device is removed and found again, or ``sriov_numvfs`` changes. New VFs at the
same addresses are other VFs (with another inode in sysfs), free for every
port. Containers go on without their network: their ports are plugged again
here, with their name, MAC, VLAN, limits, addresses and routes.
"""

import dataclasses
import logging
from collections.abc import Callable

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.nic.errors import NicError
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import validation
from sriov_rt.vif.lost import LostPorts
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.plugger import Plugger
from sriov_rt.vif.proof import Where
from sriov_rt.vif.search import Search
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: Finds the namespace of an owner's container, as ``pid:N``; None if the owner
#: has no running container.
Container = Callable[[str], str | None]


_INTERRUPTED = "interrupted before its turn; run this again"


@dataclasses.dataclass(frozen=True, slots=True)
class Restored:
    """Result of a run.

    :param restored: ports that have an interface again.
    :param left: ports that have none yet, and why; the next run tries again.
    :param guests: ports of running guests, which take no other interface, and
        why; a hard reboot plugs them again.
    :param ended: ports that are no longer lost: their container has ended, or
        their manager has plugged or unplugged them.
    """

    restored: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    guests: tuple[tuple[str, str], ...] = ()
    ended: tuple[str, ...] = ()


class Restoring:
    """Plugs lost ports again.

    :param container: finds the containers that libvirt moved ports into.
    """

    def __init__(self, plugger: Plugger, container: Container) -> None:
        host = self._host = plugger.host
        self._plugger = plugger
        self._container = container
        self._search = Search(host.links, host.vfs)
        self._lost = LostPorts(host.records)

    def find(self) -> tuple[Record, ...]:
        """Return the ports that have lost their interface, sorted.

        They are the ports that were noted before, and those whose parent the
        kernel shows as destroyed. An interface that is merely not seen is not
        lost: its tenant may have hidden it.

        :raises RecordsBroken: if the records cannot be read.
        """
        view = self._host.observe()
        found = {each.port: each for each in self._lost.all()}
        for each in view.records:
            if each.port not in found and self._is_lost(each, view):
                found[each.port] = each
        return tuple(found[port] for port in sorted(found))

    def _is_lost(self, record: Record, view: View) -> bool:
        if record.state is not State.PLUGGED or record.damaged:
            return False
        if record.namespace_id is not None and self._host.links.ended(
            record.namespace_id
        ):
            return False  # the container has gone
        link = self._search.find(record)
        if link is not None:
            # The VF's driver was rebound, which made a new interface.
            return (
                record.kind is Kind.VF
                and record.namespace_id is not None
                and link.namespace is None
            )
        return self._search.parent(record, view)[0] is Where.DESTROYED

    def run(
        self, is_interrupted: Callable[[], bool] = lambda: False
    ) -> Restored:
        """Plug them again; each is noted before its record is given up.

        :param is_interrupted: tells whether no further one is to begin.
        :raises RecordsBroken: if the records cannot be read or written.
        """
        restored, left, guests, ended = [], [], [], []
        for record in self.find():
            port = record.port
            if is_interrupted():
                left.append((port, _INTERRUPTED))
                continue
            try:
                self._note(record)
                self._restore(record, self.request(record))
            except (
                kernel_errors.NoSuchNamespace,
                errors.AlreadyPlugged,
                errors.NotLost,
            ):
                self._lost.end(port)
                ended.append(port)
            except errors.NotRestorable as error:
                if self._is_replaced(record):
                    self._lost.end(port)
                    ended.append(port)
                else:
                    guests.append((port, str(error)))
            except (LinkError, NicError, ParseError) as error:
                LOG.warning(
                    "%s: not plugged again: %s", log.about(port), error
                )
                left.append((port, str(error)))
            else:
                restored.append(port)
        return Restored(
            tuple(restored), tuple(left), tuple(guests), tuple(ended)
        )

    def _is_replaced(self, record: Record) -> bool:
        """Return whether its manager has plugged a lost port again."""
        now = self._host.records.get(record.port)
        return now is not None and (now.inode, now.node, now.index) != (
            record.inode,
            record.node,
            record.index,
        )

    def _note(self, record: Record) -> None:
        """Note that a port is lost, unless it was unplugged since.

        :raises NotLost: if it was unplugged.
        """
        port = record.port
        with self._host.locks.port(port, wait=False):
            if self._lost.get(port) is not None:
                return
            if self._host.records.get(port) != record:
                raise errors.NotLost(record.interface, port=port)
            self._lost.put(record)

    def _restore(self, record: Record, request: Plug) -> None:
        port = record.port

        def is_due(namespace_id: Identity | None) -> bool:
            """Return whether the port is still lost, and in this namespace."""
            if record.request.namespace is None and (
                self._container(record.owner) != request.namespace
            ):
                # Process ids are reused; but from now on the namespace is kept
                # open.
                raise errors.VifError(
                    record.interface,
                    port=port,
                    detail="its container has another process; run this again",
                )
            return self._lost.get(port) is not None and (
                record.namespace_id in (None, namespace_id)
            )

        self._plugger.plug(request, is_due)
        with self._host.locks.port(port):
            made = self._host.records.get(port)
            if made is not None and made.request == request:
                # Keep its manager's request, for when the manager plugs it
                # again.
                made = dataclasses.replace(made, request=record.request)
                self._host.records.put(made)
            self._lost.end(port)
        LOG.warning("%s: plugged again", log.about(port, record.vf))

    def request(self, record: Record) -> Plug:
        """Return the request to plug a port as it was, into its container.

        :raises NotRestorable: if it cannot be plugged into a running guest.
        """
        namespace = record.request.namespace
        if record.kind is Kind.MACVTAP:
            raise errors.NotRestorable(record.interface, port=record.port)
        if namespace is None:
            namespace = self._container(record.owner)
        # An ipvlan has the MAC of its parent.
        mac = record.request.mac if record.kind is Kind.IPVLAN else record.mac
        return validation.checked(
            dataclasses.replace(
                record.request,
                namespace=namespace,
                name=record.interface,
                mac=mac or None,
            )
        )
