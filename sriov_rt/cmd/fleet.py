# SPDX-License-Identifier: Apache-2.0

"""Fleet: what maintenance changes, and which hosts differ from most."""

import collections
import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import HostFacts
from sriov_rt.facts import HostHold
from sriov_rt.facts import LatencyCertificate
from sriov_rt.parse import duration
from sriov_rt.parse.text import printable

#: Columns of ``--long``, and the key of each in JSON.
COLUMNS: Mapping[str, str] = {
    "Differs": "differs",
    "Kernel": "kernel",
    "Microcode": "microcode",
    "Profile": "tuned_profile",
    "Bound": "bound_us",
    "Age": "certificate_age_s",
    "Expires": "certificate_expires_in_s",
    "Hold": "hold",
    "Boot owed": "boot_owed",
}

#: Keys by which a host is compared with the others.
_COMPARED = (
    *("kernel", "microcode", "tuned_profile", "certificate", "hold"),
    *("boot_owed", "version"),
)

_UNKNOWN = "?"


@dataclasses.dataclass(frozen=True, slots=True)
class Upkeep:
    """Upkeep of a host; text is ``?`` where it is unknown.

    :param certificate: ``counts``, ``expired``, ``withdrawn`` or ``none``.
    :param differs: keys whose values differ from those of most hosts.
    """

    version: str
    kernel: str
    microcode: str | None
    tuned_profile: str | None
    certificate: str
    bound_us: int | None
    certificate_age_s: float | None
    certificate_expires_in_s: float | None
    hold: HostHold | None | Unknown
    boot_owed: str | None
    differs: tuple[str, ...] = ()

    def row(self) -> tuple[str | None, ...]:
        """Return the values of :data:`COLUMNS`, for people."""
        bound, age = self.bound_us, self.certificate_age_s
        ends = self.certificate_expires_in_s
        if self.certificate == "counts" and ends is not None:
            expires: str | None = duration.format_duration(int(ends))
        else:
            expires = None if bound is None else self.certificate
        return (
            ", ".join(self.differs),
            printable(self.kernel),
            self.microcode and printable(self.microcode),
            self.tuned_profile and printable(self.tuned_profile),
            None if bound is None else f"{bound} µs",
            None if age is None else duration.format_duration(int(age)),
            expires,
            self._holder(),
            self.boot_owed and printable(self.boot_owed),
        )

    def _holder(self) -> str | None:
        found = self.hold
        if isinstance(found, HostHold):
            return printable(f"{found.who}: {found.why}")
        return None if found in (None, NOT_REPORTED) else _UNKNOWN

    def compared(self, key: str) -> object:
        """Return the value of a key by which hosts are compared."""
        if key == "hold":
            return self._holder() is not None
        return getattr(self, key)


def of(facts: HostFacts, now: float) -> Upkeep:
    """Return what maintenance changes on a host.

    :param now: Unix time, seconds.
    """
    found = facts.latency.certificate
    state, bound, age, ends = "none", None, None, None
    if isinstance(found, LatencyCertificate):
        bound, ends = found.max_latency_us, found.expires_at - now
        if found.issued_at is not None:
            age = max(0.0, now - found.issued_at)
        if found.withdrawn:
            state = "withdrawn"
        else:
            state = "counts" if ends > 0 else "expired"
    elif isinstance(found, Unknown):
        state = _UNKNOWN
    there = facts.maintenance
    return Upkeep(
        facts.version,
        _text(facts.kernel.release) or _UNKNOWN,
        _text(there.microcode),
        _text(there.tuned_profile),
        state,
        bound,
        age,
        ends,
        there.hold,
        _text(there.boot_owed),
    )


def _text(found: str | None | Unknown) -> str | None:
    """Return a fact as text; None if there is none or it is not reported."""
    if isinstance(found, Unknown):
        return None if found == NOT_REPORTED else _UNKNOWN
    return found or None


def compared(hosts: Iterable[Upkeep]) -> list[Upkeep]:
    """Return hosts with the keys that differ from most, in the same order.

    If two values are equally common, that of the first host is used.
    """
    found = list(hosts)
    usual = {
        key: collections.Counter(e.compared(key) for e in found).most_common(1)
        for key in _COMPARED
    }
    return [
        dataclasses.replace(
            each,
            differs=tuple(
                key
                for key in _COMPARED
                if each.compared(key) != usual[key][0][0]
            ),
        )
        for each in found
    ]
