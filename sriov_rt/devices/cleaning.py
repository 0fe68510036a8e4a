# SPDX-License-Identifier: Apache-2.0

"""Cleaning of one-time-use devices, and the end of their reservation.

A device is reserved as soon as an instance gets it, and nobody else can claim
it. It stays reserved until its reset is verified, and Placement un-reserves it
only if its provider has not changed meanwhile. If this program ends early, the
device stays reserved for the next run.
"""

import contextlib
import dataclasses
import enum
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.devices import one_time_use
from sriov_rt.devices import rules
from sriov_rt.devices.one_time_use import Availability
from sriov_rt.devices.one_time_use import Holding
from sriov_rt.devices.providers import DeviceProvider
from sriov_rt.devices.providers import DeviceProviders
from sriov_rt.devices.rules import Device
from sriov_rt.devices.sysfs import Devices
from sriov_rt.host import reserved_devices
from sriov_rt.host.reserved_devices import Record
from sriov_rt.host.reserved_devices import ReservedDevice
from sriov_rt.host.root import Root
from sriov_rt.parse.pci import PciAddress
from sriov_rt.placement.resource_provider import GenerationConflict
from sriov_rt.placement.resource_provider import PlacementRefused
from sriov_rt.placement.resource_provider import PlacementUnreachable
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.service.reconciler import NotYet

LOG = logging.getLogger(__name__)

#: Lock that is held while one-time-use devices are cleaned.
LOCK = "run/sriov-rt/devices.lock"


class CleaningRuns(exceptions.SriovRtError):
    """Another program is cleaning the devices of this host."""

    def __init__(self) -> None:
        super().__init__(
            "another 'sriov-rt device clean' runs on this host; wait until "
            "it has ended"
        )


_REMEDY = (
    "run it as root, and 'systemd-tmpfiles --create' if /run/sriov-rt is "
    "missing"
)


class RecordUnwritable(exceptions.SriovRtError):
    """The lock or the record of a run cannot be written.

    :param problem: a clause; and what to do about it.
    """

    def __init__(self, problem: str, remedy: str = _REMEDY) -> None:
        self.problem = problem
        super().__init__(f"{problem}; {remedy}")


class State(enum.StrEnum):
    """Result for one device.

    A dry run reports "due"; "reserved" comes with a Reason. "Left out" is a
    device that is due but not chosen.
    """

    AVAILABLE = "available"
    ALLOCATED = "allocated"
    LEFT_OUT = "left out"
    DUE = "due"
    CLEANED = "cleaned"
    RESERVED = "reserved"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one device, and the Reason if it stays reserved.

    :param name: its PCI address, or its provider's name if that has none.
    :param method: method of its reset; None without a reset.
    """

    name: str
    state: State
    method: str | None = None
    reason: Reason | None = None

    def line(self) -> str:
        """Return the result as text."""
        if self.reason is not None:
            return f"{self.name}: {self.state}: {self.reason.message}"
        if self.state is State.DUE:
            return f"{self.name}: due: reset by {self.method}, then un-reserve"
        if self.state is State.CLEANED:
            return f"{self.name}: cleaned by {self.method}, and un-reserved"
        if self.state is State.LEFT_OUT:
            return f"{self.name}: left out: [devices] clean does not name it"
        return f"{self.name}: {self.state}"

    def to_plain(self) -> dict[str, object]:
        """Return the result as a JSON object."""
        why = None if self.reason is None else self.reason.to_plain()
        return {
            "device": self.name,
            "state": self.state,
            "method": self.method,
            "reason": why,
        }


class Cleaning:
    """Cleaning of the devices of a node.

    :param node: the name of the node's resource provider.
    :param is_chosen: whether to clean a device.
    :param report: called before each reset, which may be slow.
    """

    def __init__(
        self,
        placement: DeviceProviders,
        devices: Devices,
        node: str,
        is_chosen: Callable[[PciAddress], bool],
        report: Callable[[str], object],
    ) -> None:
        self._placement = placement
        self._devices = devices
        self._node = node
        self._is_chosen = is_chosen
        self._report = report

    def run(self, *, dry: bool = False) -> Iterator[Outcome]:
        """Yield the result for each one-time-use device, cleaned if due.

        :param dry: whether to reset and write nothing.
        :raises NotYet: if Placement does not list the providers.
        """
        root = self._placement.find(self._node)
        listed = self._placement.one_time_use(root)
        for each in sorted(listed, key=lambda provider: provider.name):
            yield self._one(each, root, dry=dry)

    def _one(
        self, provider: DeviceProvider, root: str, *, dry: bool
    ) -> Outcome:
        address = one_time_use.address_of(provider.name, self._node)
        if isinstance(address, Reason):
            return _reserved(provider.name, address)
        if provider.parent != root:
            return _reserved(
                provider.name, one_time_use.unnamed(provider.name, self._node)
            )
        try:
            return self._tracked(address, provider.uuid, dry=dry)
        except NotYet as error:
            name, why = str(address), _problem(error)
            return _reserved(
                name, reason("device_placement_failed", address=name, why=why)
            )

    def _tracked(
        self, address: PciAddress, uuid: str, *, dry: bool
    ) -> Outcome:
        name = str(address)
        holding = self._placement.holding(uuid)
        availability = one_time_use.judge(address, uuid, holding)
        if isinstance(availability, Reason):
            return _reserved(name, availability)
        if availability is not Availability.DUE:
            return Outcome(name, State(availability))
        if not self._is_chosen(address):
            return Outcome(name, State.LEFT_OUT)
        before = self._devices.observe(name)
        if isinstance(before, Reason):
            return _reserved(name, before)
        if why := rules.why_not(before):
            return _reserved(name, why)
        if dry:
            return Outcome(name, State.DUE, before.methods[0])
        if why := self._reset(before) or self._unreserve(name, uuid, holding):
            return _reserved(name, why)
        LOG.info("device=%s: cleaned and un-reserved", name)
        return Outcome(name, State.CLEANED, before.methods[0])

    def _reset(self, before: Device) -> Reason | None:
        """Reset a device; return why it is not clean."""
        LOG.info("device=%s: reset by %s", before.address, before.methods[0])
        self._report(f"{before.address}: reset by {before.methods[0]}")
        if why := self._devices.reset(before.address):
            return why
        after = self._devices.observe(before.address)
        if isinstance(after, Reason):
            return after
        return rules.why_not_clean(before, after)

    def _unreserve(
        self, name: str, uuid: str, holding: Holding
    ) -> Reason | None:
        """Un-reserve a device; return why that failed."""
        # An allocation raises the generation too. One that was made before
        # this request shows in its answer, a later one as a conflict.
        if self._placement.holding(uuid) == holding:
            with contextlib.suppress(GenerationConflict):
                self._placement.unreserve(uuid, holding)
                return None
        return reason("device_provider_changed", address=name)


def _problem(error: NotYet) -> str:
    """Return an error without its remedy, a clause."""
    if isinstance(error, PlacementUnreachable):
        return error.why
    if isinstance(error, PlacementRefused):
        return f"{error.request}: {error.status} {error.text}"
    return str(error)


def _reserved(name: str, why: Reason) -> Outcome:
    return Outcome(name, State.RESERVED, None, why)


def of(
    names: Iterable[str], outcomes: Iterable[Outcome], node: str
) -> Iterator[Outcome]:
    """Yield the results for the named devices.

    :param names: PCI addresses.
    :param node: the name of the node's resource provider.
    """
    found = {each.name: each for each in outcomes}
    for name in names:
        if name in found:
            yield found[name]
        else:
            why = reason("device_untracked", address=name, node=node)
            yield Outcome(name, State.RESERVED, None, why)


@contextlib.contextmanager
def alone(root: Root) -> Iterator[None]:
    """Exclude other runs: one must not reset a device given back by another.

    :raises CleaningRuns: if another run holds the lock.
    :raises RecordUnwritable: if the lock cannot be created.
    """
    path = root.path / LOCK
    with contextlib.ExitStack() as stack:
        try:
            files.check_directory(path.parent)
            stack.enter_context(files.locked(path))
        except BlockingIOError:
            raise CleaningRuns from None
        except OSError as error:
            raise RecordUnwritable(
                f"{path} cannot be locked: {error.strerror}"
            ) from error
        yield


def keep(root: Root, outcomes: Sequence[Outcome], now: float) -> None:
    """Record the devices that stay reserved, for the agent to show.

    :param now: Unix time, seconds.
    :raises RecordUnwritable: if the record cannot be written.
    """
    found = tuple(
        ReservedDevice(each.name, why.code, why.message, why.remedy)
        for each in outcomes
        if (why := each.reason) is not None
    )
    data = documents.dump(Record(now, found), reserved_devices.SCHEMA)
    path = root.path / reserved_devices.PATH
    try:
        files.replace(path, data, 0o644)
    except OSError as error:
        raise RecordUnwritable(
            f"{path} cannot be written: {error.strerror}",
            files.remedy(error, _REMEDY),
        ) from error
