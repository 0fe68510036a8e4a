# SPDX-License-Identifier: Apache-2.0

"""The host's latency certificate, which ``sriov-rt verify latency`` writes.

It counts if root wrote it and nobody has edited it since, and as long as all
that it hangs on is as it was measured (``conditions``). Once something was
not, it is withdrawn until the host is measured again: in the certificate,
where root found that, or in a file of the agent's. Where the disk of the
certificate takes no data, it is withdrawn in memory and by its name.
"""

import dataclasses
import os
import stat
import time
from collections.abc import Callable

from sriov_rt import codec
from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import LatencyFacts
from sriov_rt.facts import certificate
from sriov_rt.facts.certificate import Certificate
from sriov_rt.facts.certificate import Withdrawal
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet

CERTIFICATE = certificate.PATH

#: How far ahead of the host's clock a certificate may be, in seconds: NTP may
#: have set the clock back a little since.
MAX_AHEAD_S = 300.0

_NO_ROOM = (
    "it was withdrawn while its disk took no data; the log of that time has "
    "the reason"
)

#: How much of a condition a sentence shows, in characters.
_SHOWN = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """A certificate of this host, and what has changed since.

    :param kept: its withdrawal, as the agent has recorded it.
    :param changes: changed conditions of the measurement; empty if none.
    """

    certificate: Certificate
    kept: Withdrawal | None | Unknown
    changes: str

    @property
    def withdrawal(self) -> str:
        """Why it is invalid until the host is measured again.

        A change that was reverted counts: it may have been changed twice.
        """
        kept = self.kept
        if self.certificate.withdrawn:
            return self.certificate.withdrawn
        if isinstance(kept, Unknown):
            return f"whether it was withdrawn cannot be read ({kept.reason})"
        if kept is not None:
            times = "" if kept.times == 1 else f" ({kept.times}×)"
            return f"{kept.why}{times}"
        return self.changes

    @property
    def withdrawn(self) -> str:
        """Why it is invalid; empty if it is valid."""
        found = self.certificate
        if why := self.withdrawal:
            return why
        if found.issued_at > time.time() + MAX_AHEAD_S:
            return "it is dated ahead of the host's clock"
        lacks = conditions.missing(found.conditions)
        if lacks:
            return f"an older sriov-rt wrote it, without {', '.join(lacks)}"
        if not conditions.is_identified(found.conditions):
            return (
                "it does not say of which machine it is, which has no "
                "machine-id"
            )
        return ""


#: Records the withdrawal of a certificate, and returns its new status.
Keep = Callable[[Root, Status], Status]


def observe(
    root: Root, nova: ComputeFacts | None = None, keep: Keep | None = None
) -> LatencyFacts:
    """Return the certificate; None if there is none.

    :param nova: Nova's facts of the same host; None to read them from Nova's
        default paths.
    :param keep: called before the certificate is reported.
    """
    found = read(root)
    if found is None or isinstance(found, Unknown):
        return LatencyFacts(found)
    now = status(found, root, nova)
    if keep is not None:
        now = keep(root, now)
    return LatencyFacts(
        LatencyCertificate(
            max_latency_us=found.max_latency_us,
            kernel=found.kernel,
            expires_at=found.expires_at,
            withdrawn=now.withdrawn,
            emulated=found.emulated,
            cpus=CpuSet(each.cpu for each in found.cpus),
            culprit=found.culprit,
            issued_at=found.issued_at,
        )
    )


def status(
    found: Certificate,
    root: Root,
    nova: ComputeFacts | None = None,
) -> Status:
    """Return the status of a certificate: whether it is valid.

    :param nova: as for :func:`observe`.
    """
    kept = kept_withdrawal(found, root)
    changes = ""
    if not found.withdrawn:
        # Otherwise it is withdrawn for good.
        changes = _changes(found, root, nova or compute.observe(root))
    return Status(found, kept, changes)


def read(root: Root) -> Certificate | None | Unknown:
    """Return the whole certificate, whether it counts or not."""
    found = _read(root, CERTIFICATE)
    if found is None:
        found = _read(root, certificate.RENAMED_PATH)
        if isinstance(found, Certificate) and not found.withdrawn:
            found = dataclasses.replace(found, withdrawn=_NO_ROOM)
    if isinstance(found, Certificate):
        kept = _read(root, certificate.IN_MEMORY_PATH)
        if isinstance(kept, Certificate) and (
            certificate.as_issued(kept) == certificate.as_issued(found)
        ):
            return kept
    return found


def _read(root: Root, path: str) -> Certificate | None | Unknown:
    source = root.open_file(path)
    if isinstance(source, Unknown):
        return None if root.exists(path) is False else source
    with source:
        status = os.fstat(source.fileno())
        if status.st_uid != root.path.stat().st_uid:
            return _refused(path, "not root's file; remove it")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return _refused(path, "others than root may write it; remove it")
        try:
            data = source.read(certificate.MAX_FILE + 1) or b""
        except OSError as error:
            return _refused(path, error.strerror or str(error))
    try:
        return certificate.from_bytes(data)
    except codec.SchemaError as error:
        return _refused(path, str(error))


def kept_withdrawal(
    found: Certificate, root: Root
) -> Withdrawal | None | Unknown:
    """Return a certificate's withdrawal that the agent has recorded."""
    path = certificate.WITHDRAWAL_PATH
    if root.exists(path) is False:
        return None
    text = root.read_text(path, certificate.MAX_WITHDRAWAL)
    if isinstance(text, Unknown):
        return text
    try:
        kept = certificate.withdrawal_from_text(text)
    except codec.SchemaError as error:
        return Unknown(f"/{path}: {error}")
    return kept if kept.digest == found.digest else None


def withdrawn_at(root: Root) -> float:
    """Return when the certificate was withdrawn, Unix time; 0 if valid."""
    found = read(root)
    if found is None or isinstance(found, Unknown):
        return 0.0
    kept = kept_withdrawal(found, root)
    if isinstance(kept, Withdrawal):
        return kept.at
    return found.withdrawn_at


def _changes(found: Certificate, root: Root, nova: ComputeFacts) -> str:
    changed = conditions.changed(found.conditions, root, nova)
    return "; ".join(_change(*each) for each in changed)


def _refused(path: str, problem: str) -> Unknown:
    return Unknown(f"/{path}: {problem}")


def _change(name: str, then: str, now: str) -> str:
    if max(len(then), len(now)) > _SHOWN:
        # A kernel command line: the words that differ, if any does.
        lost, came = _words_beside(then, now), _words_beside(now, then)
        if lost or came:
            then, now = lost or conditions.ABSENT, came or conditions.ABSENT
    return f"{name} changed from '{_short(then)}' to '{_short(now)}'"


def _words_beside(text: str, other: str) -> str:
    """Return the words of a text that another text lacks."""
    known = set(other.split())
    return " ".join(word for word in text.split() if word not in known)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
