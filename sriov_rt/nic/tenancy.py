# SPDX-License-Identifier: Apache-2.0

"""Tenancy of VFs: whose each VF of this host is, in one file a VF.

Pods, VMIs, libvirt's domains and ports of Neutron's own agent are written
down here by who gives them a VF, before it is touched. Ports of
``sriov-rt vif`` have their records in ``sriov_rt.vif.records``, and here what
their VF was set to. The judge of use reads both (:mod:`sriov_rt.nic.use`).

A file counts for the device that it was written for: a VF that was made
again has another inode in sysfs, and is nobody's. A file that cannot be read
is a quarantine of somebody unknown. The files are in /run, so that they end
with the boot as the VFs do.

A VF is claimed under its lock: look, write down, let go; whoever sets a VF
without being written down holds the lock meanwhile. It is the innermost one:
a port's lock, then its network's, then its parent's, then its VF's.
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

#: Whose each VF is, and what its PF may keep of it; one file a VF.
DIRECTORY = "run/sriov-rt/vfs"

#: Raised by one when an older reader would misread a newer file.
SCHEMA_VERSION = 1

#: The longest file, in bytes, and the longest text in it, in characters.
MAX_FILE = 16 * 1024
MAX_TEXT = 2000

#: Seconds that another process may have a VF. Binding a driver again takes
#: up to 35 s (nic.driver_binding), a container runtime waits two minutes.
LOCK_S = 60.0

_LOCK = ".lock."

#: Of an inode that the kernel does not tell.
UNKNOWN_INODE = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Reset:
    """How far a reset goes.

    :param fresh: bind the VF's driver again, for what it was out of sight:
        that undoes what no attribute here speaks of (XDP, alternative names,
        group, queue length, offloads, rings, coalescing, RPS and XPS). Of
        a family that needs it, the function is reset before.
    :param shared: the VF stays a parent of many tenants' subinterfaces:
        filters that are left of one harm no other.
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

    :param before: how far a VF is reset before one has it.
    :param after: how far afterwards.
    :param guest: whether it has the VF in a guest, which goes on with one
        that is set through its PF.
    :param beside: whose VF it may have as well, for the same guest.
    :param ends: what ends a quarantine of one, a clause.
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
            # Its virt-launcher's.
            beside=Kind.POD,
            ends="the node hook tries again, or " + _BY_HAND,
        ),
        Kind.DOMAIN: Manager(
            # libvirt takes it from its driver next, and vfio-pci resets its
            # function: nothing of its interface is left.
            Reset(),
            Reset(fresh=True),
            guest=True,
            # Of an instance of Nova's.
            beside=Kind.PORT,
            ends="the domain's next end tries again, or " + _BY_HAND,
        ),
        Kind.PORT: Manager(
            # Nova and libvirt have set it before its agent hears of it.
            Reset(),
            # Nova hands it on whatever its PF keeps of it.
            Reset(shared=True),
            guest=True,
            beside=Kind.DOMAIN,
            ends="neutron-sriov-nic-agent tries again, or " + _BY_HAND,
        ),
        Kind.UNKNOWN: Manager(Reset(), Reset(fresh=True), ends=_BY_HAND),
        Kind.WHOLE: Manager(Reset(fresh=True), Reset(fresh=True)),
        # A driver that is bound again makes another interface, which the
        # operator may have configured: that is done before its first port.
        Kind.PARENT: Manager(Reset(shared=True), Reset(shared=True)),
    }
)


class State(enum.StrEnum):
    """State of a VF for its holder.

    Leaving is one whose holder has left it, and which is not clean yet.
    """

    PREPARING = "preparing"
    IN_USE = "in use"
    LEAVING = "leaving"
    QUARANTINED = "quarantined"


@dataclasses.dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who has a VF, or had it until it is clean.

    :param id: of the holder, by its manager.
    :param name: for people, such as NAMESPACE/NAME; may be empty.
    :param reason: why the VF is quarantined; empty if it is not.
    :param driver: to give the VF back to; None for the kernel's choice.
    :param network: name of the network, of a pod.
    :param namespace: path of the network namespace, of a pod.
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
        """Whether the VF was not seen to be clean."""
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
        """Return who has a VF, and what ends it if that is quarantined."""
        if not self.is_quarantined:
            return f"{self} has it ({self.state})"
        ends = MANAGERS[self.kind].ends.format(address=address)
        return f"it is quarantined for {self}: {self.reason}; {ends}"


@dataclasses.dataclass(frozen=True, slots=True)
class Tenancy:
    """Holders of a VF, beside the ports of ``sriov-rt vif``.

    :param inode: of its device in sysfs.
    :param holders: at most one of each kind.
    :param filters: whether its PF may keep MAC filters of a use that ended,
        until its VFs are made again (family.FilterRelease).
    :param bound: whether its driver was bound again since it was made.
    :param settings: what its ports need it to be; None without ports.
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
        """Return those who keep a manager from a VF.

        Not its own, which it judges itself, nor the same guest's.

        :param kind: None for somebody who holds no VF here.
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
        """Whether there is nothing to be written down."""
        return self == Tenancy(self.address, self.inode)


NOBODYS = Tenancy("")


def parse(data: bytes) -> Tenancy:
    """Return the tenancy that the bytes of a file are.

    :raises SchemaError: if they are none.
    """
    found = documents.load(Tenancy, data, MAX_FILE, SCHEMA_VERSION)
    kinds = [each.kind for each in found.holders]
    if len(set(kinds)) != len(kinds):
        raise codec.SchemaError("holders", "two of a kind")
    return found


def drift(tenancy: Tenancy, now: VfSettings) -> tuple[str, ...]:
    """Return what was changed of a VF behind its ports, clauses.

    What the kernel does not tell is not compared.
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
    """The files of a host.

    :param root: where sysfs and /run are.
    :param clock: what the wait for a lock goes by; None for the system's.
    """

    def __init__(
        self, root: Root | None = None, clock: waiting.Clock | None = None
    ) -> None:
        self._root = (Root() if root is None else root).path
        self._clock = waiting.real() if clock is None else clock
        self.directory = self._root / DIRECTORY

    def get(self, address: str) -> Tenancy:
        """Return whose the VF is that is at an address now.

        What is of an earlier device there is over. Total: what cannot be
        read is of somebody unknown.
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
        """Return what is written down of any VF, by their addresses.

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
        """Return the VFs that holders of a kind have, by their addresses.

        :raises NotRecorded: as of :meth:`all`.
        """
        return [
            (each.address, holder)
            for each in self.all()
            if (holder := each.of(kind)) is not None
        ]

    def check(self) -> None:
        """Make the directory, and check that only root can write in it.

        :raises NotKept: if it would end with this container, before the VFs
            do.
        :raises NotRecorded: if others can write there, or it cannot be made.
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
        """Hold a VF; a thread that has it already goes on.

        :param seconds: how long to wait for it.
        :raises Locked: if another has it for longer.
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
        """Write down who has a VF; it replaces one of its kind.

        :raises NoSuchDevice: if the VF is not there.
        :raises NotRecorded: if it cannot be written; the old file stays.
        """
        with self.locked(address):
            now = self._present(address)
            others = [
                each for each in now.holders if each.kind is not holder.kind
            ]
            self._put(dataclasses.replace(now, holders=(*others, holder)))

    def release(self, address: str, kind: Kind) -> None:
        """Write down that no holder of a kind has a VF."""
        with self.locked(address):
            now = self.get(address)
            left = tuple(each for each in now.holders if each.kind != kind)
            self._put(dataclasses.replace(now, holders=left))

    def reset(self, address: str) -> None:
        """Write down that a VF is clean, whoever it was quarantined for."""
        with self.locked(address):
            now = self.get(address)
            self._put(dataclasses.replace(now, holders=()))

    def bind(self, address: str) -> None:
        """Write down that the driver of a VF was bound again."""
        self._change(address, bound=True)

    def note(self, address: str, settings: VfSettings | None) -> None:
        """Write down what the ports on a VF need it to be."""
        self._change(address, settings=settings)

    def mark(self, address: str) -> None:
        """Write down that a VF's PF may keep filters; see Tenancy.

        :raises NotKept: and NotRecorded, see :meth:`check`.
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


#: What each thread holds, by the lock's path.
_mine = threading.local()

os.register_at_fork(after_in_child=lambda: _mine.__dict__.clear())


def _unknown(address: str, inode: int, problem: str) -> Tenancy:
    """Return the tenancy of a VF of which it is not known whose it is."""
    holder = Holder(Kind.UNKNOWN, "").quarantined(problem)
    return Tenancy(address, inode, (holder,), filters=True)


def _is_address(name: str) -> bool:
    try:
        return str(pci.PciAddress.parse(name)) == name
    except ParseError:
        return False
