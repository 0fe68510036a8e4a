# SPDX-License-Identifier: Apache-2.0

"""Cleaning of VFs that Nova passes through itself, before use and after."""

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sriov_rt import exceptions
from sriov_rt.neutron.claims import Claim
from sriov_rt.neutron.privileged import PrivilegedVfs
from sriov_rt.neutron.privileged import Slot

if TYPE_CHECKING:
    # It imports neutron.
    from sriov_rt.neutron.server import Bindings

LOG = logging.getLogger(__name__)


class VfCleaner:
    """Owners of VFs, and the cleaning of VFs that were released.

    A VF with a new owner is never cleaned, even though the agent reports the
    new port of a VF before it reports that the old one has left. Calls for one
    VF are serialised.

    After a start of the agent, ports keep their recorded VFs until Neutron
    reports otherwise: the agent may not have handled these ports yet.

    :param bindings: bindings of ports that had a VF before the start.
    :param retry_s: seconds between attempts to clean a VF.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        host: str,
        vfs: PrivilegedVfs,
        bindings: "Bindings",
        retry_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._host = host
        self._vfs = vfs
        self._bindings = bindings
        self._retry_s = retry_s
        self._lock = threading.Lock()
        self._busy: dict[str, threading.RLock] = {}
        self._slots = self._assigned()
        # VFs that ports may have released meanwhile. Ports that are still
        # here claim theirs again in the agent's first look.
        self._unsure = {
            address for address, slot in self._slots.items() if not slot.left
        }
        self._not_set: dict[str, Claim] = {}
        self._said: dict[str, str] = {}
        # The MAC that alone kept a VF from being idle at the last look.
        self._macs: dict[str, str | None] = {}
        self._not_before: dict[str, float] = {}

    def claim(self, claim: Claim) -> bool:
        """Note that a port has a VF, and correct the VF's settings.

        :returns: whether to try again later.
        """
        with self._turn(claim.slot):
            self._put(claim.slot, Slot(claim.port, left=False))
            return not self._set_right(claim)

    def leave(self, claim: Claim) -> bool:
        """Note that a port has left a VF; clean it if it is idle.

        :returns: whether to look again later.
        """
        with self._turn(claim.slot):
            slot = self._get(claim.slot)
            if slot is not None and slot.port != claim.port:
                LOG.info(
                    "port=%s vf=%s host=%s left; port=%s has it now",
                    claim.port,
                    claim.slot,
                    self._host,
                    slot.port,
                )
                return False
            self._put(claim.slot, Slot(claim.port, left=True))
            return not self._clean(claim.slot)

    def retry(self) -> float:
        """Retry what could not be done yet; return the seconds to wait."""
        now = self._monotonic()
        with self._lock:
            unsure = sorted(self._unsure)
        again = False
        for address in unsure:
            with self._turn(address):
                again = not self._check(address) or again
        with self._lock:
            left = [each for each, slot in self._slots.items() if slot.left]
            not_set = dict(self._not_set)
        for address in left:
            if self._not_before.get(address, now) > now:
                # It is too early: looks have to be retry_s apart.
                again = True
                continue
            with self._turn(address):
                again = not self._clean(address) or again
        for address, claim in not_set.items():
            with self._turn(address):
                # Another port may have claimed it since.
                if self._not_set.get(address) == claim:
                    again = not self._set_right(claim) or again
        return self._retry_s if again else math.inf

    def _check(self, address: str) -> bool:
        """Return whether a VF's state is now known. Needs the VF's turn."""
        slot = self._get(address)
        with self._lock:
            if slot is None or address not in self._unsure:
                return True
        try:
            bound = self._bindings.slot(slot.port)
        except exceptions.SriovRtError as error:
            self._say(logging.WARNING, address, slot.port, str(error))
            return False
        if bound != address:
            self._put(address, Slot(slot.port, left=True))
            return True
        # The VF is still bound to the port, so a MAC on it is never a
        # leftover. Without a MAC no guest has it, and no port will claim it.
        return self._clean_now(address, slot, None)

    def _set_right(self, claim: Claim) -> bool:
        """Return whether a VF has its port's settings. Needs its turn."""
        try:
            changed = self._vfs.set_right(claim.slot, claim.desired)
        except exceptions.SriovRtError as error:
            self._not_set[claim.slot] = claim
            self._say(
                logging.ERROR,
                claim.slot,
                claim.port,
                f"in use with settings that differ from its port's: {error}",
            )
            return False
        self._not_set.pop(claim.slot, None)
        if changed:
            self._say(
                logging.WARNING,
                claim.slot,
                claim.port,
                f"set right for its port: {'; '.join(changed)}",
            )
        return True

    def _clean(self, address: str) -> bool:
        """Return whether nothing more is to do. Needs the VF's turn."""
        slot = self._get(address)
        if slot is None or not slot.left:
            return True
        return self._clean_now(address, slot, self._macs.get(address))

    def _clean_now(self, address: str, slot: Slot, mac: str | None) -> bool:
        try:
            why_not, changed, remains = self._vfs.clean(address, mac)
        except exceptions.SriovRtError as error:
            self._macs.pop(address, None)
            self._say(logging.ERROR, address, slot.port, str(error))
            return False
        if why_not is not None:
            self._macs[address] = remains
            self._not_before[address] = self._monotonic() + self._retry_s
            self._say(logging.INFO, address, slot.port, why_not)
            return False
        done = "; ".join(changed) or "nothing to do"
        self._say(logging.INFO, address, slot.port, f"clean: {done}")
        if remains is not None:
            self._say(
                logging.WARNING,
                address,
                slot.port,
                f"but {remains}, and its next owner gets what is sent to "
                "those; have the PF's VFs made again, and allow no trusted "
                "ports on it",
            )
        self._drop(address)
        return True

    def _say(self, level: int, address: str, port: str, what: str) -> None:
        # Log it once, not at each look.
        if self._said.get(address) != what:
            self._said[address] = what
            LOG.log(
                level,
                "port=%s vf=%s host=%s %s",
                port,
                address,
                self._host,
                what,
            )

    def _turn(self, address: str) -> threading.RLock:
        with self._lock:
            return self._busy.setdefault(address, threading.RLock())

    def _get(self, address: str) -> Slot | None:
        with self._lock:
            return self._slots.get(address)

    def _put(self, address: str, slot: Slot) -> None:
        with self._lock:
            self._forget(address)
            if self._slots.get(address) != slot:
                self._slots[address] = slot
                self._write_down(address, slot)

    def _drop(self, address: str) -> None:
        with self._lock:
            self._forget(address)
            del self._slots[address]
            self._write_down(address, None)

    def _assigned(self) -> dict[str, Slot]:
        """Return the owners that were recorded before this start."""
        try:
            return dict(self._vfs.assigned())
        except exceptions.SriovRtError as error:
            LOG.warning(
                "host=%s VFs that were released while the agent was down are "
                "cleaned when they get another port: %s",
                self._host,
                error,
            )
            return {}

    def _write_down(self, address: str, slot: Slot | None) -> None:
        try:
            self._vfs.assign(address, slot)
        except exceptions.SriovRtError as error:
            LOG.warning(
                "vf=%s host=%s other managers of this host do not see whose "
                "it is: %s",
                address,
                self._host,
                error,
            )

    def _forget(self, address: str) -> None:
        self._unsure.discard(address)
        self._said.pop(address, None)
        self._macs.pop(address, None)
        self._not_before.pop(address, None)
        self._not_set.pop(address, None)
