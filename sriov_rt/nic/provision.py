# SPDX-License-Identifier: Apache-2.0

"""Provisioning of VFs: the configured number, without harm to users."""

import contextlib
import dataclasses
import enum
import logging
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.codec import Unknown
from sriov_rt.host.vfs import MAX_VFS
from sriov_rt.host.vfs import is_vfio
from sriov_rt.nic import driver_binding
from sriov_rt.nic import errors
from sriov_rt.nic import options
from sriov_rt.nic import use
from sriov_rt.nic import waiting
from sriov_rt.nic.families import Family
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from sriov_rt.nic.vfs import Users
from sriov_rt.nic.vfs import Vfs
from sriov_rt.nic.waiting import Clock
from sriov_rt.parse import errors as parse_errors
from sriov_rt.parse import link
from sriov_rt.parse import numbers

LOG = logging.getLogger(__name__)

#: How long VFs may take to come up, seconds: 63 took 10 s (shulou.com).
READY_S = 30.0

#: Returns who holds a VF that is bound to vfio-pci; None for nobody.
Holder = Callable[[VfId, VfDevice], str | None | Unknown]

#: The unit that makes VFs at boot.
SERVICE = "sriov-rt-vfs"

#: More than the PFs of any host.
MAX_WORDS = 256
MAX_WORD = 64


class Mode(enum.StrEnum):
    """Purpose of VFs: interfaces of the host, or passthrough to guests."""

    HOST = "host"
    GUESTS = "guests"


@dataclasses.dataclass(frozen=True, slots=True)
class Amount:
    """Desired number of VFs of a PF.

    :param mac: MAC of VF 0's interface, followed by consecutive ones; None for
        MACs that the VFs' driver makes up.
    """

    pf: str
    number: int
    mode: Mode
    mac: str | None = None

    def mac_of(self, index: int) -> str | None:
        """Return the desired MAC of a VF's interface."""
        if self.mac is None:
            return None
        number = int(self.mac.replace(":", ""), 16) + index
        return number.to_bytes(6).hex(":")


def parse(words: Sequence[str], default: Mode) -> tuple[Amount, ...]:
    """Return the amounts in ``[nic] vfs``.

    :param default: mode of words that name none.
    :raises ParseError: for a word that is not PF:NUMBER or PF:NUMBER:MODE, or
        a PF that occurs twice.
    """
    if len(words) > MAX_WORDS:
        raise parse_errors.ParseError(
            "[nic] vfs", str(len(words)), f"at most {MAX_WORDS} PFs"
        )
    found: dict[str, Amount] = {}
    for word in words:
        amount = _parse(word, default)
        if amount.pf in found:
            raise parse_errors.ParseError(
                "[nic] vfs", word, f"{amount.pf} comes twice"
            )
        found[amount.pf] = amount
    return tuple(found.values())


def _parse(word: str, default: Mode) -> Amount:
    parse_errors.check_length("[nic] vfs", word, MAX_WORD)
    parts = word.strip().split(":")
    if len(parts) not in (2, 3) or not link.is_interface(parts[0]):
        raise parse_errors.ParseError(
            "[nic] vfs", word, "PF:NUMBER or PF:NUMBER:MODE expected"
        )
    mode = default
    if len(parts) == 3:
        if parts[2] not in list(Mode):
            raise parse_errors.ParseError(
                "[nic] vfs", word, f"mode {' or '.join(Mode)} expected"
            )
        mode = Mode(parts[2])
    number = numbers.parse_int(parts[1], "number of VFs", 0, MAX_VFS)
    return Amount(parts[0], number, mode)


def with_macs(
    amounts: Sequence[Amount], words: Sequence[str]
) -> tuple[Amount, ...]:
    """Return amounts with the MACs in ``[nic] vf_macs``.

    :raises ParseError: for a word that is not PF:MAC, a PF without VFs for the
        host, one that occurs twice, or MACs of two VFs that are equal.
    """
    firsts: dict[str, str] = {}
    hosts = {each.pf for each in amounts if each.mode is Mode.HOST}
    for word in words:
        parse_errors.check_length("[nic] vf_macs", word, MAX_WORD)
        pf, _, mac = word.strip().partition(":")
        mac = mac.lower()
        problem = None
        if not link.is_mac(mac) or link.is_multicast(mac):
            problem = "PF:MAC expected, with the MAC of one interface"
        elif pf not in hosts:
            problem = f"[nic] vfs names no VFs of {pf} for the host"
        elif pf in firsts:
            problem = f"{pf} comes twice"
        if problem is not None:
            raise parse_errors.ParseError("[nic] vf_macs", word, problem)
        firsts[pf] = mac
    found = tuple(
        dataclasses.replace(each, mac=firsts.get(each.pf)) for each in amounts
    )
    taken: set[int] = set()
    for each in found:
        if each.mac is None:
            continue
        first = int(each.mac.replace(":", ""), 16)
        last = first + max(each.number, 1) - 1
        numbers = set(range(first, last + 1))
        # With another first octet the MACs may be multicast.
        if taken & numbers or not first or first >> 40 != last >> 40:
            raise parse_errors.ParseError(
                "[nic] vf_macs",
                f"{each.pf}:{each.mac}",
                "not each VF has a MAC of its own",
            )
        taken |= numbers
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Provision:
    """Plan of the changes to one PF's number of VFs.

    :param pf: present state of the PF.
    :param numbers: numbers that are written to sriov_numvfs, in turn.
    :param probe: whether drivers are bound to new VFs.
    """

    pf: Pf
    amount: Amount
    numbers: tuple[int, ...]
    probe: bool
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.numbers

    @property
    def binds(self) -> bool:
        """Whether VFs are made and the kernel binds their drivers."""
        return self.probe and len(self.pf.vfs) != self.amount.number

    def lines(self) -> Iterator[str]:
        """Yield the plan as text."""
        now, mode = len(self.pf.vfs), self.amount.mode
        if self.is_empty:
            yield f"{self.pf.name}: {now} VFs for {mode}, nothing to do"
        else:
            way = " -> ".join(map(str, (now, *self.numbers)))
            yield f"{self.pf.name}: VFs {way}, for {mode}"
        if self.amount.mac is not None:
            yield f"  MACs of idle VFs: from {self.amount.mac}"
        yield from (f"  note: {note}" for note in self.notes)

    def to_plain(self) -> dict[str, object]:
        """Return the plan as a JSON object."""
        return {
            "pf": self.pf.name,
            "now": len(self.pf.vfs),
            "asked": self.amount.number,
            "mode": self.amount.mode,
            "mac": self.amount.mac,
            "numbers": list(self.numbers),
            "notes": list(self.notes),
        }


def make(
    family: Family,
    pf: Pf,
    amount: Amount,
    users: Sequence[tuple[str, str]],
) -> Provision:
    """Return the plan that gives a PF its desired VFs.

    :param users: (VF, who or what uses it) of the VFs in use.
    :raises OutOfRange: if the PF cannot have so many VFs.
    :raises VfsInUse: if VFs in use would have to be removed.
    """
    limit = min(pf.total_vfs, family.max_vfs or pf.total_vfs)
    if amount.number > limit:
        raise errors.OutOfRange(
            pf.name,
            "vfs",
            f"{amount.number} VFs requested, it can have {limit} "
            f"(sriov_totalvfs {pf.total_vfs}, family {family.name})",
        )
    probe = amount.mode is Mode.HOST
    now = len(pf.vfs)
    notes: list[str] = []
    numbers: tuple[int, ...] = ()
    if now == amount.number:
        if pf.probes not in (None, probe):
            numbers = (now,)
            if now:
                notes += ["the VFs that are there keep the drivers they have"]
    elif users:
        raise errors.VfsInUse(pf.name, users)
    elif now and amount.number:
        # The kernel refuses another number with EBUSY (sriov_numvfs_store).
        numbers = (0, amount.number)
    else:
        numbers = (amount.number,)
    return Provision(pf, amount, numbers, probe, tuple(notes))


def users(
    kernel: Kernel,
    holder: Holder,
    known: Mapping[str, Use],
    states: Sequence[VfState],
    act: Act = Act.PROVISION,
) -> tuple[tuple[str, str], ...]:
    """Return (VF, who or what uses it) of each VF of a PF in use.

    :param known: use of VFs by address, as from nic.vfs.Users.
    :param act: act that is about to be taken on them.
    """
    found = []
    for state in states:
        seen = _use(kernel, state, holder, known.get(state.id.address))
        if problems := use.why_not(seen, act):
            found.append((f"{state.id}", ", ".join(problems)))
    return tuple(found)


def _use(
    kernel: Kernel,
    state: VfState,
    holder: Holder,
    known: Use | None,
) -> Use:
    """Return the use of a VF, with what this namespace shows of it."""
    seen = use.with_holders(
        use.shown(state) if known is None else known, state
    )
    if is_vfio(state.driver):
        return dataclasses.replace(seen, guest=holder(state.id, state.device))
    netdev = state.netdev
    if netdev is None or seen.is_seen:
        return seen
    return dataclasses.replace(
        seen,
        addressed=netdev if kernel.addressed(netdev) else None,
        unseen=seen.unseen or kernel.carries(netdev),
    )


def apply(
    kernel: Kernel, family: Family, desired: Provision, clock: Clock
) -> Pf:
    """Apply a plan, and wait until the VFs are up.

    :raises NotReady: if they are not up in time.
    """
    name = desired.pf.name
    for number in desired.numbers:
        LOG.info("pf=%s: %d VFs", name, number)
        kernel.provision(name, number, probe=desired.probe)
    if desired.is_empty:
        return desired.pf

    def ready() -> Pf | None:
        pf = kernel.pf(name)
        return None if _missing(kernel, desired, pf) else pf

    found = waiting.until(clock, READY_S, ready)
    if found is None:
        raise errors.NotReady(
            name,
            "vfs",
            f"{_missing(kernel, desired, kernel.pf(name))} after "
            f"{READY_S:.0f} s",
        )
    if desired.binds:
        # The kernel bound their drivers while the PF was being reset.
        for vf in driver_binding.unanswered(kernel, family, found.vfs):
            LOG.info(
                "vf=%s: rebinding VF: the PF's mailbox did not answer",
                vf.address,
            )
            driver_binding.bind(kernel, family, vf, None, None, clock)
    return found


def _missing(kernel: Kernel, desired: Provision, pf: Pf) -> str | None:
    """Return what is not ready yet, as a clause; None if all is."""
    if len(pf.vfs) != desired.amount.number:
        return f"it has {len(pf.vfs)} VFs and not {desired.amount.number}"
    if desired.pf.carrier and not pf.carrier:
        return "it has lost its carrier"
    if desired.binds:
        bare = [vf for vf in pf.vfs if kernel.device(vf).netdev is None]
        if bare:
            return f"{len(bare)} VFs have no interface"
    return None


def configured(
    files: Sequence[str] | None,
) -> tuple[tuple[Amount, ...], float]:
    """Return the amounts in ``[nic]``, and the time limit for PFs.

    :param files: configuration files; None for those of sriov-rt.
    :raises ConfigurationUnreadable: if a file cannot be read.
    :raises OptionRejected: for an option with a bad value.
    """
    with config.reading():
        conf = config.load(files)
    amounts = check(conf, SERVICE)
    return amounts, conf[options.GROUP].pf_timeout


def check(conf: cfg.ConfigOpts, service: str) -> tuple[Amount, ...]:
    """Register and read every option of ``[nic]``; return the amounts.

    :raises OptionRejected: with the first option that has a bad value.
    """
    conf.register_opts(options.NIC_OPTS, group=options.GROUP)
    config.check(conf, ((options.GROUP, options.NIC_OPTS),), service)
    group = conf[options.GROUP]
    try:
        option = "vfs"
        amounts = parse(group.vfs, Mode(group.vf_mode))
        option = "vf_macs"
        return with_macs(amounts, group.vf_macs)
    except parse_errors.ParseError as error:
        raise config.rejected(
            conf, options.GROUP, option, error.text, error.problem, service
        ) from None


class Provisioning:
    """Provisioning of all PFs.

    :param holder: returns who holds a VF that is bound to vfio-pci.
    :param users: returns the users of VFs, in any network namespace.
    :param log: logs a step that takes long.
    """

    def __init__(
        self,
        vfs: Vfs,
        holder: Holder,
        users: Users,
        log: Callable[[str], None],
    ) -> None:
        self._vfs = vfs
        self._holder = holder
        self._users = users
        self._log = log

    def plan(
        self, desired: Sequence[Amount], timeout_s: float
    ) -> tuple[Provision, ...]:
        """Return the plan for each PF; nothing is changed yet.

        :param timeout_s: how long a PF may take to appear, seconds.
        :raises NicError: if a PF cannot have its VFs.
        """
        return tuple(self._plan(each, timeout_s) for each in desired)

    def apply(self, plans: Sequence[Provision]) -> None:
        """Apply plans.

        :raises NicError: for the first PF that fails.
        """
        for each in plans:
            if not each.is_empty:
                self._log(f"making {each.amount.number} VFs of {each.pf.name}")
            with contextlib.ExitStack() as locks:
                if len(each.pf.vfs) != each.amount.number:
                    for address in sorted(vf.address for vf in each.pf.vfs):
                        locks.enter_context(
                            self._vfs.tenancies.locked(address)
                        )
                    if users := self._in_use(each.pf):
                        raise errors.VfsInUse(each.pf.name, users)
                apply(
                    self._vfs.kernel,
                    self._vfs.families.of(each.pf),
                    each,
                    self._vfs.clock,
                )
            self._set_macs(each)

    def _set_macs(self, done: Provision) -> None:
        """Give the interfaces of idle VFs their MACs.

        An interface that was just made may be up already: udev and the host's
        network setup can be that quick.
        """
        if done.amount.mac is None:
            return
        made = bool(done.numbers) and len(done.pf.vfs) != done.amount.number
        act = Act.SET if made else Act.PROVISION
        for vf in self._vfs.kernel.pf(done.pf.name).vfs:
            with self._vfs.tenancies.locked(vf.address):
                try:
                    self._set_mac(vf, done.amount, act)
                except errors.NoSuchDevice:
                    # udev has renamed its interface in between.
                    self._set_mac(vf, done.amount, act)

    def _set_mac(self, vf: VfId, amount: Amount, act: Act) -> None:
        state = self._vfs.observe(vf)
        mac = amount.mac_of(vf.index)
        if mac in (None, state.device.mac):
            return
        used = self._users_of([state], act)
        if state.netdev is None or used:
            LOG.warning(
                "vf=%s: not given the MAC %s: %s",
                vf.address,
                mac,
                used[0][1] if used else "it has no interface here",
            )
            return
        self._vfs.kernel.set_mac(state.netdev, mac)

    def _in_use(self, pf: Pf) -> tuple[tuple[str, str], ...]:
        if not pf.vfs:
            return ()
        return self._users_of(self._vfs.list(pf.name), Act.PROVISION)

    def _users_of(
        self, states: Sequence[VfState], act: Act
    ) -> tuple[tuple[str, str], ...]:
        return users(
            self._vfs.kernel,
            self._holder,
            self._users(states),
            states,
            act,
        )

    def _plan(self, amount: Amount, timeout_s: float) -> Provision:
        kernel = self._vfs.kernel

        def there() -> Pf | None:
            try:
                return kernel.pf(amount.pf)
            except errors.NoSuchDevice:
                return None

        pf = waiting.until(self._vfs.clock, timeout_s, there)
        if pf is None:
            # Try once more, to get its error.
            pf = kernel.pf(amount.pf)
        return make(
            self._vfs.families.of(pf),
            pf,
            amount,
            self._in_use(pf),
        )
