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

"""Making the VFs that the configuration says, and no harm to others."""

import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.host.vfs import VFIO
from sriov_rt.nic import driver_binding
from sriov_rt.nic import errors
from sriov_rt.nic import waiting
from sriov_rt.nic.amounts import Amount
from sriov_rt.nic.amounts import Mode
from sriov_rt.nic.families import Family
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.waiting import Clock

LOG = logging.getLogger(__name__)

#: How long VFs may take to come up, seconds: seed 001 saw 10 s for 63.
READY_S = 30.0

#: Who holds a VF that is bound to vfio-pci; None for nobody.
Holder = Callable[[VfId, VfDevice], str | None | Unknown]


@dataclasses.dataclass(frozen=True, slots=True)
class Provision:
    """What is to be done to one PF.

    :param pf: as it is now.
    :param numbers: what is written to sriov_numvfs, in turn.
    :param probe: whether drivers are to be bound to new VFs.
    """

    pf: Pf
    amount: Amount
    numbers: tuple[int, ...]
    probe: bool
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.numbers

    @property
    def binds(self) -> bool:
        """Whether VFs are made, and the kernel binds their drivers."""
        return self.probe and len(self.pf.vfs) != self.amount.number

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        now, mode = len(self.pf.vfs), self.amount.mode
        if self.is_empty:
            yield f"{self.pf.name}: {now} VFs for {mode}, nothing to do"
        else:
            way = " -> ".join(map(str, (now, *self.numbers)))
            yield f"{self.pf.name}: VFs {way}, for {mode}"
        yield from (f"  note: {note}" for note in self.notes)

    def to_plain(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "pf": self.pf.name,
            "now": len(self.pf.vfs),
            "asked": self.amount.number,
            "mode": self.amount.mode,
            "numbers": list(self.numbers),
            "notes": list(self.notes),
        }


def make(
    family: Family,
    pf: Pf,
    amount: Amount,
    users: Sequence[tuple[str, str]],
) -> Provision:
    """Return what makes a PF have the VFs that it is to have.

    :param users: (VF, who or what uses it) of those that are in use.
    :raises OutOfRange: if it cannot have so many.
    :raises VfsInUse: if VFs that are in use would have to go.
    """
    limit = min(pf.total_vfs, family.max_vfs or pf.total_vfs)
    if amount.number > limit:
        raise errors.OutOfRange(
            pf.name,
            "vfs",
            f"{amount.number} VFs asked, it can have {limit} (sriov_totalvfs "
            f"{pf.total_vfs}, family {family.name})",
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
    pf: Pf,
    holder: Holder,
    known: Mapping[str, Sequence[str]],
) -> tuple[tuple[str, str], ...]:
    """Return (VF, who or what uses it) of each VF of a PF in use.

    :param known: who uses a VF from any network namespace, clauses, by its
        PCI address.
    """
    found = []
    for vf in pf.vfs:
        device = kernel.device(vf)
        user = ", ".join(known.get(vf.address, ())) or _user(
            kernel, vf, device, holder
        )
        if user is not None:
            found.append((f"{vf}", user))
    return tuple(found)


def _user(
    kernel: Kernel, vf: VfId, device: VfDevice, holder: Holder
) -> str | None:
    if device.alias:
        return device.alias
    if device.elsewhere:
        return "its interface is in another network namespace"
    if device.uppers:
        return f"{', '.join(device.uppers)} on {device.netdev}"
    if device.up:
        return f"{device.netdev} is up"
    if device.netdev is not None and kernel.addressed(device.netdev):
        return f"{device.netdev} has an address"
    if device.netdev is not None and kernel.carries(device.netdev):
        return f"something in another network namespace is on {device.netdev}"
    if device.driver == VFIO:
        found = holder(vf, device)
        if isinstance(found, Unknown):
            return f"bound to {VFIO}, and who holds it is not known"
        return found
    return None


def apply(
    kernel: Kernel, family: Family, wanted: Provision, clock: Clock
) -> Pf:
    """Do it, and wait until the VFs are up as they should be.

    :param family: of the PF.
    :raises NotReady: if they are not in time.
    """
    name = wanted.pf.name
    for number in wanted.numbers:
        LOG.info("pf=%s: %d VFs", name, number)
        kernel.provision(name, number, probe=wanted.probe)
    if wanted.is_empty:
        return wanted.pf

    def ready() -> Pf | None:
        pf = kernel.pf(name)
        return None if _missing(kernel, wanted, pf) else pf

    found = waiting.until(clock, READY_S, ready)
    if found is None:
        raise errors.NotReady(
            name,
            "vfs",
            f"{_missing(kernel, wanted, kernel.pf(name))} after "
            f"{READY_S:.0f} s",
        )
    if wanted.binds:
        # The kernel bound their drivers while the PF was being reset.
        for vf in driver_binding.unanswered(kernel, family, found.vfs):
            LOG.info("vf=%s: bound again, since its PF was deaf", vf.address)
            driver_binding.bind(kernel, family, vf, None, None, clock)
    return found


def _missing(kernel: Kernel, wanted: Provision, pf: Pf) -> str | None:
    """Return what is not yet as it should be, a clause."""
    if len(pf.vfs) != wanted.amount.number:
        return f"it has {len(pf.vfs)} VFs and not {wanted.amount.number}"
    if wanted.pf.carrier and not pf.carrier:
        return "it has lost its carrier"
    if wanted.binds:
        bare = [vf for vf in pf.vfs if kernel.device(vf).netdev is None]
        if bare:
            return f"{len(bare)} VFs have no interface"
    return None
