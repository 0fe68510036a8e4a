# SPDX-License-Identifier: Apache-2.0

"""Tenancy of VFs: the holders of each VF of this host, in a file each.

Pods, VMIs, libvirt's domains and ports of Neutron's own agent are recorded
here by whoever gives them a VF, before it is touched. Ports of ``sriov-rt
vif`` have their records in ``sriov_rt.vif.records``, and here the settings of
their VF. The judge of use reads both (:mod:`sriov_rt.nic.use`).

A file belongs to the device that it was written for: a VF that was made again
has another inode in sysfs, and no holder. A file that cannot be read is a
quarantine by an unknown holder. The files are in /run, so that they end with
the boot as the VFs do.

A VF is claimed under its lock: look, record, release; a process that sets a VF
without a record holds the lock throughout. It is the innermost lock: a port's,
then its network's, then its parent's, then its VF's.
"""

import contextlib
import dataclasses
import enum
import os
import shlex
import threading
import types
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.host import container
from sriov_rt.host.interfaces import DEVICES
from sriov_rt.host.root import Root
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import changed
from sriov_rt.nic import errors
from sriov_rt.nic import waiting
from sriov_rt.parse import pci
from sriov_rt.parse.errors import ParseError

#: Directory of the files: holders of each VF, and what its PF may keep.
DIRECTORY = "run/sriov-rt/vfs"

#: Increased by one when an older reader would misread a newer file.
SCHEMA_VERSION = 1

#: The longest file, in bytes, and the longest text in it, in characters.
MAX_FILE = 16 * 1024
MAX_TEXT = 2000

#: Seconds that another process may hold a VF. Rebinding a driver takes up to
#: 35 s (nic.driver_binding); a container runtime waits two minutes.
LOCK_S = 60.0

_LOCK = ".lock."

#: Inode that the kernel does not show.
UNKNOWN_INODE = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Reset:
    """Depth of a reset.

    :param fresh: whether to rebind the VF's driver after use out of sight:
        that undoes what no attribute here covers (XDP, alternative names,
        group, queue length, offloads, rings, coalescing, RPS and XPS). In a
        family that needs it, the function is reset before.
    :param shared: whether the VF stays a parent of many tenants'
        subinterfaces: filters that one has left do not harm others.
    """

    fresh: bool = False
    shared: bool = False


class Kind(enum.StrEnum):
    """Kinds of holders; the last two have records of their own."""

    POD = "pod"
    VMI = "VMI"
    DOMAIN = "libvirt domain"
    PORT = "Neutron port"
    UNKNOWN = "somebody unknown"
    WHOLE = "port with a VF"
    PARENT = "port on a shared parent"


class Manager(NamedTuple):
    """Rules for one kind of holders.

    :param before: depth of the reset before a holder gets the VF.
    :param after: depth of the reset afterwards.
    :param guest: whether the VF is in a guest, which continues if the VF is
        set through its PF.
    :param beside: kind that may hold the VF, too, for the same guest.
    :param ends: what ends a quarantine, as a clause.
    """

    before: Reset
    after: Reset
    guest: bool = False
    beside: Kind | None = None
    ends: str = ""


_BY_HAND = "'sriov-rt vf reset {address}' ends it once nothing uses the VF"

MANAGERS: Mapping[Kind, Manager] = types.MappingProxyType(
    {
        Kind.POD: Manager(
            Reset(fresh=True),
            Reset(fresh=True),
            ends="the runtime's next GC or ADD tries again, or " + _BY_HAND,
        ),
        Kind.VMI: Manager(
            Reset(fresh=True),
            Reset(fresh=True),
            guest=True,
            # The pod of its virt-launcher.
            beside=Kind.POD,
            ends="the node hook tries again, or " + _BY_HAND,
        ),
        Kind.DOMAIN: Manager(
            # libvirt unbinds it from its driver next, and vfio-pci resets its
            # function: nothing of its interface is left.
            Reset(),
            Reset(fresh=True),
            guest=True,
            # The port of a Nova instance.
            beside=Kind.PORT,
            ends="the domain's next end tries again, or " + _BY_HAND,
        ),
        Kind.PORT: Manager(
            # Nova and libvirt set it before its agent learns of it.
            Reset(),
            # Nova hands it out again, whatever its PF keeps of it.
            Reset(shared=True),
            guest=True,
            beside=Kind.DOMAIN,
            ends="neutron-sriov-nic-agent tries again, or " + _BY_HAND,
        ),
        Kind.UNKNOWN: Manager(Reset(), Reset(fresh=True), ends=_BY_HAND),
        Kind.WHOLE: Manager(Reset(fresh=True), Reset(fresh=True)),
        # Rebinding makes a new interface, without settings of the operator:
        # that is done only before the first port.
        Kind.PARENT: Manager(Reset(shared=True), Reset(shared=True)),
    }
)


class State(enum.StrEnum):
    """State of a VF for its holder.

    Leaving means that its holder has left it, and it is not clean yet.
    """

    PREPARING = "preparing"
    IN_USE = "in use"
    LEAVING = "leaving"
    QUARANTINED = "quarantined"


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """Holder of a VF, present or last until the VF is clean.

    :param id: id of the holder at its manager.
    :param name: label such as NAMESPACE/NAME; may be empty.
    :param reason: why the VF is quarantined; else empty.
    :param driver: driver to return the VF to; None for the kernel's choice.
    :param network: name of a pod's network.
    :param namespace: path of a pod's network namespace.
    """

    kind: Kind
    id: str
    name: str = ""
    state: State = State.PREPARING
    reason: str = ""
    driver: str | None = None
    network: str = ""
    namespace: str = ""

    @property
    def is_quarantined(self) -> bool:
        """Whether the VF could not be shown to be clean."""
        return self.state is State.QUARANTINED

    @property
    def is_guest(self) -> bool:
        """Whether it has the VF in a guest."""
        return MANAGERS[self.kind].guest

    def __str__(self) -> str:
        who = self.name or self.id
        return f"{self.kind} {who}" if who else str(self.kind)

    def quarantined(self, reason: str) -> "Holder":
        """Return the holder of a VF that could not be reset."""
        return dataclasses.replace(
            self, state=State.QUARANTINED, reason=reason[:MAX_TEXT]
        )

    def clause(self, address: str) -> str:
        """Return who has a VF, and what ends a quarantine."""
        if not self.is_quarantined:
            return f"{self} has it ({self.state})"
        ends = MANAGERS[self.kind].ends.format(address=address)
        return f"it is quarantined for {self}: {self.reason}; {ends}"


@dataclasses.dataclass(frozen=True, slots=True)
class Tenancy:
    """Holders of a VF, beside the ports of ``sriov-rt vif``.

    :param inode: inode of its device in sysfs.
    :param holders: at most one of each kind.
    :param filters: whether its PF may keep MAC filters of a past use, until
        its VFs are made again (family.FilterRelease).
    :param bound: whether its driver was rebound since it was made.
    :param settings: settings that its ports need; None without ports.
    """

    address: str
    inode: int = UNKNOWN_INODE
    holders: tuple[Holder, ...] = ()
    filters: bool = False
    bound: bool = False
    settings: VfSettings | None = None

    def of(self, kind: Kind) -> Holder | None:
        """Return the holder of a kind."""
        found = (each for each in self.holders if each.kind is kind)
        return next(found, None)

    def others(self, kind: Kind | None) -> tuple[Holder, ...]:
        """Return the holders that keep a manager from a VF.

        The manager's own holder, which it judges itself, is left out, and so
        is the same guest's.

        :param kind: kind of the manager; None for one that holds no VF here.
        """
        beside = None if kind is None else MANAGERS[kind].beside
        return tuple(
            each
            for each in self.holders
            if each.kind is not kind
            and (each.kind is not beside or each.is_quarantined)
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to record."""
        return self == Tenancy(self.address, self.inode)


NOBODYS = Tenancy("")


def parse(data: bytes) -> Tenancy:
    """Return the tenancy in the bytes of a file.

    :raises SchemaError: if they are no tenancy.
    """
    found = documents.load(Tenancy, data, MAX_FILE, SCHEMA_VERSION)
    kinds = [each.kind for each in found.holders]
    if len(set(kinds)) != len(kinds):
        raise codec.SchemaError("holders", "two of a kind")
    return found


def drift(tenancy: Tenancy, now: VfSettings) -> tuple[str, ...]:
    """Return settings of a VF that others have changed, as clauses.

    Settings that the kernel does not report are not compared.
    """
    if tenancy.settings is None:
        return ()
    return tuple(
        f"its {name} is {is_} and not {expected}"
        for name, is_, expected in changed(now, tenancy.settings)
    )


def command(tenancy: Tenancy, now: VfSettings, pf: str, index: int) -> str:
    """Return what sets a VF back that has drifted, as a shell has it."""
    words = ["ip", "link", "set", pf, "vf", str(index)]
    for name, _, expected in changed(now, tenancy.settings or now):
        text = str(expected)
        if isinstance(expected, bool):
            text = "on" if expected else "off"
        words += [name, text]
    return shlex.join(words)


class Tenancies:
    """The tenancy files of a host.

    :param root: root of sysfs and /run.
    :param clock: clock of the wait for a lock; None for the system's.
    """

    def __init__(
        self, root: Root | None = None, clock: waiting.Clock | None = None
    ) -> None:
        self._root = (Root() if root is None else root).path
        self._clock = waiting.real() if clock is None else clock
        self.directory = self._root / DIRECTORY

    def get(self, address: str) -> Tenancy:
        """Return the tenancy of the VF that is at an address now.

        A record of an earlier device is ignored. Total: an unreadable file is
        a quarantine by an unknown holder.
        """
        inode = self._inode(address)
        if inode is None:
            return Tenancy(address)
        if container.ends_with_container(self.directory):
            problem = (
                f"this container does not see the host's {self.directory}"
            )
            return _unknown(address, inode, problem)
        found = self._read(address, inode)
        if UNKNOWN_INODE in (found.inode, inode) or found.inode == inode:
            return dataclasses.replace(found, inode=inode)
        return Tenancy(address, inode)

    def all(self) -> tuple[Tenancy, ...]:
        """Return the recorded tenancies of all VFs, by address.

        :raises NotRecorded: if the directory cannot be read.
        """
        try:
            names = sorted(os.listdir(self.directory))  # noqa: PTH208
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._unusable(None, error) from error
        return tuple(self.get(each) for each in names if _is_address(each))

    def of_kind(self, kind: Kind) -> list[tuple[str, Holder]]:
        """Return the VFs with holders of a kind, by address.

        :raises NotRecorded: as for :meth:`all`.
        """
        return [
            (each.address, holder)
            for each in self.all()
            if (holder := each.of(kind)) is not None
        ]

    def check(self) -> None:
        """Make the directory, and check that only root can write to it.

        :raises NotKept: if it would end with this container, before the VFs.
        :raises NotRecorded: if others can write to it, or it cannot be made.
        """
        if container.ends_with_container(self.directory):
            raise errors.NotKept(str(self.directory), self.directory)
        try:
            files.make_directory(self.directory)
            for each in (self.directory.parent, self.directory):
                files.check_directory(each)
        except OSError as error:
            raise self._unusable(None, error) from error

    @contextlib.contextmanager
    def locked(self, address: str, seconds: float = LOCK_S) -> Iterator[None]:
        """Hold the lock of a VF; a thread that has it already continues.

        :param seconds: how long to wait for the lock.
        :raises Locked: if another process holds it for longer.
        :raises NotRecorded: if the directory cannot be used.
        """
        path = self.directory / f"{_LOCK}{address}"
        own = _mine.__dict__
        if str(path) in own:
            yield
            return
        self.check()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(files.locked(path, seconds, self._clock))
            except BlockingIOError:
                raise errors.Locked(address) from None
            except OSError as error:
                raise self._unusable(address, error) from error
            own[str(path)] = True
            try:
                yield
            finally:
                own.pop(str(path), None)

    def assign(self, address: str, holder: Holder) -> None:
        """Record a holder of a VF; it replaces one of the same kind.

        :raises NoSuchDevice: if the VF is not there.
        :raises NotRecorded: if that fails; the old file stays.
        """
        with self.locked(address):
            now = self._present(address)
            others = [
                each for each in now.holders if each.kind is not holder.kind
            ]
            self._put(dataclasses.replace(now, holders=(*others, holder)))

    def release(self, address: str, kind: Kind) -> None:
        """Record that no holder of a kind has a VF."""
        with self.locked(address):
            now = self.get(address)
            left = tuple(each for each in now.holders if each.kind != kind)
            self._put(dataclasses.replace(now, holders=left))

    def reset(self, address: str) -> None:
        """Record that a VF is clean, whoever it was quarantined for."""
        with self.locked(address):
            now = self.get(address)
            self._put(dataclasses.replace(now, holders=()))

    def bind(self, address: str) -> None:
        """Record that the driver of a VF was rebound."""
        self._change(address, bound=True)

    def note(self, address: str, settings: VfSettings | None) -> None:
        """Record the settings that the ports on a VF need."""
        self._change(address, settings=settings)

    def mark(self, address: str) -> None:
        """Record that a VF's PF may keep filters; see Tenancy.

        :raises NotKept: or NotRecorded; see :meth:`check`.
        """
        self._change(address, filters=True)

    def _change(self, address: str, **changes: Any) -> None:
        with self.locked(address):
            now = self.get(address)
            if now.inode != UNKNOWN_INODE:
                self._put(dataclasses.replace(now, **changes))

    def _present(self, address: str) -> Tenancy:
        if self._inode(address) is None:
            raise errors.NoSuchDevice(address, None, "the VF has gone")
        return self.get(address)

    def _read(self, address: str, inode: int) -> Tenancy:
        try:
            data = files.read(self.directory / address, MAX_FILE, private=True)
            found = parse(data)
        except (FileNotFoundError, NotADirectoryError):
            return Tenancy(address, inode)
        except (OSError, codec.SchemaError) as error:
            problem = exceptions.plain(error)
            return _unknown(address, inode, f"its file is damaged: {problem}")
        if found.address != address:
            problem = f"it is of {found.address[:20]!r}"
            return _unknown(address, inode, f"its file is damaged: {problem}")
        return found

    def _put(self, tenancy: Tenancy) -> None:
        path = self.directory / tenancy.address
        try:
            if tenancy.is_empty:
                path.unlink(missing_ok=True)
                return
            data = documents.dump(tenancy, SCHEMA_VERSION) + b"\n"
            files.replace(path, data, 0o600)
        except OSError as error:
            raise self._unusable(tenancy.address, error) from error

    def _inode(self, address: str) -> int | None:
        """Return the inode of a VF's device; None if there is none."""
        try:
            return (self._root / DEVICES / address).stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return UNKNOWN_INODE

    def _unusable(
        self, address: str | None, error: OSError
    ) -> errors.NicError:
        path = self.directory / (address or "")
        return errors.NotRecorded(
            address or str(self.directory),
            None,
            f"{path} cannot be used: {exceptions.plain(error)}",
        )


#: The locks that each thread holds, by path.
_mine = threading.local()

os.register_at_fork(after_in_child=lambda: _mine.__dict__.clear())


def _unknown(address: str, inode: int, problem: str) -> Tenancy:
    """Return the tenancy of a VF whose holder is unknown."""
    holder = Holder(Kind.UNKNOWN, "").quarantined(problem)
    return Tenancy(address, inode, (holder,), filters=True)


def _is_address(name: str) -> bool:
    try:
        return str(pci.PciAddress.parse(name)) == name
    except ParseError:
        return False
