# SPDX-License-Identifier: Apache-2.0

"""Claims of realtime guests on their pCPUs, whichever manager starts them.

A check without a claim is a race: libvirt writes the status of a guest after
its ``prepare`` hook has ended, and vdsm calls its hooks long before. So each
hook writes a claim, under one lock, before it answers. Claims of starting
guests count in the same way as the pCPUs of running guests.

A claim ends when its manager releases or destroys the guest, and when the
host reboots. If a start is abandoned (libvirtd was killed, another hook of
vdsm refused it), the claim ends after START_S unless the guest runs by then.
A slow start may therefore lose its claim. So the ``started`` hook claims again
once libvirt has the guest's status, and stops the guest if that fails: of two
guests that claim one pCPU, at least one sees the other there.
"""

import contextlib
import dataclasses
import pathlib
import re
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import TypeVar

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.guest import admission
from sriov_rt.guest import cputune
from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest import running
from sriov_rt.guest.admission import Manager
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.sentences import reason
from sriov_rt.guest.xml import text_of
from sriov_rt.host import cpus
from sriov_rt.host import kubelet
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.request.guest_request import GuestRequest

T = TypeVar("T")

#: Claims of the guests of libvirt and oVirt, one file for each guest.
PLACE = "run/sriov-rt/cpus"

_LOCK = ".lock"
_SUFFIX = ".json"
_SCHEMA = 1
_MAX_FILE = 64 * 1024

#: Seconds to wait for the lock, which is held for milliseconds.
LOCK_S = 10.0

#: Seconds that a claim is valid for while its guest does not run.
START_S = 300.0

_NONE = CpuSet()
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: Claims pCPUs for a guest, by its UUID; see :meth:`Claims.claim`.
Claim = Callable[[str, CpuSet], CpuSet]


_ROOT = "root alone may write there"


class ClaimsUnusable(exceptions.SriovRtError):
    """pCPUs cannot be claimed.

    :param problem: a clause, with its remedy.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"its pCPUs cannot be claimed: {problem}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Record:
    """The file of a claim."""

    cpus: CpuSet


class Claims:
    """The claims of a host.

    :param lock_s: the longest wait for the lock, seconds.
    """

    def __init__(self, root: Root, lock_s: float = LOCK_S) -> None:
        self._root = root
        self._lock_s = lock_s
        self._directory = root.path / PLACE

    def claim(self, guest: str, pins: CpuSet) -> CpuSet:
        """Claim pCPUs for a guest, in place of its earlier claim.

        Only pCPUs that are both isolated and nohz_full can be claimed.

        :param guest: UUID of the guest.
        :param pins: pCPUs to claim; none to end the claim.
        :returns: pCPUs of others. If any of ``pins`` is among them, nothing
            was claimed.
        :raises ClaimsUnusable: if claims cannot be read or written.
        """
        if not _UUID.fullmatch(guest):
            raise ClaimsUnusable(f"{guest[:40]!r} is no UUID of a guest")
        path = self._directory / f"{guest}{_SUFFIX}"
        if not pins:
            # A user without permission cannot have made a claim.
            with contextlib.suppress(FileNotFoundError, PermissionError):
                path.unlink()
            return _NONE
        found = cpus.observe(self._root)
        quiet = _known(found.isolated) & _known(found.nohz_full)
        try:
            with self._locked():
                taken = self._taken(guest) & quiet
                if not pins & taken:
                    record = _Record(pins & quiet)
                    files.replace(path, documents.dump(record, _SCHEMA))
        except OSError as error:
            why = exceptions.plain(error)
            raise ClaimsUnusable(
                f"{self._directory} ({why}); {files.remedy(error, _ROOT)}"
            ) from None
        return taken

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        files.make_directory(self._directory, 0o700)
        for each in (self._directory.parent, self._directory):
            files.check_directory(each)
        path = self._directory / _LOCK
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(files.locked(path, self._lock_s))
            except BlockingIOError:
                raise ClaimsUnusable(
                    f"{path} is held by another start; start the guest again"
                ) from None
            # Under the lock, nobody can renew one of them.
            for each in self._directory.glob(f"*{_SUFFIX}"):
                with contextlib.suppress(FileNotFoundError):
                    if _has_ended(each):
                        each.unlink()
            yield

    @contextlib.contextmanager
    def quiet(self) -> Iterator[Mapping[str, CpuSet]]:
        """Yield the pCPUs of each realtime guest; admit none meanwhile.

        :raises ClaimsUnusable: if they cannot be found.
        """
        with self._locked():
            yield self.by_guest()

    def _taken(self, guest: str) -> CpuSet:
        """Return the pCPUs of all but one guest, and those of pods."""
        return _NONE.union(*self.by_guest(guest).values())

    def by_guest(self, but: str = "") -> Mapping[str, CpuSet]:
        """Return the pCPUs of each realtime guest and of each pod.

        :param but: UUID of a guest to leave out.
        :returns: ``guest UUID`` or ``pod UID`` to its pCPUs.
        :raises ClaimsUnusable: if they cannot be found.
        """
        guests = _known(running.every(self._root))
        found = {each.instance: dedicated(each.domain) for each in guests}
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            if path.stem not in found and path.stem != but:
                found[path.stem] = self._read(path)
        found.pop(but, None)
        named = {f"guest {uuid}": cpus for uuid, cpus in found.items()}
        for each in _known(kubelet.observe(self._root)).pods:
            name = f"pod {each.pod}"
            named[name] = each.cpus | named.get(name, _NONE)
        return named

    def _read(self, path: pathlib.Path) -> CpuSet:
        """Return the pCPUs of a claim; none if it has ended."""
        try:
            if _has_ended(path):
                return _NONE
            data = files.read(path, _MAX_FILE, private=True)
        except FileNotFoundError:
            return _NONE  # a release takes no lock
        try:
            return documents.load(_Record, data, _MAX_FILE, _SCHEMA).cpus
        except codec.SchemaError as error:
            raise ClaimsUnusable(
                f"{path} is damaged ({error}); remove it once its guest runs"
            ) from None


def _has_ended(path: pathlib.Path) -> bool:
    """Return whether a claim is too old, by the age of its file.

    If the clock is set, a claim may end early.
    """
    return not 0 <= time.time() - path.lstat().st_mtime < START_S


def _known(value: T | Unknown) -> T:
    if isinstance(value, Unknown):
        raise ClaimsUnusable(value.reason)
    return value


def admit(
    xml: str | bytes,
    request: GuestRequest,
    facts: HostFacts | None,
    manager: Manager,
    claim: Claim,
) -> engine.Rendered:
    """Admit a guest, and claim the pCPUs of its realtime vCPUs.

    :param facts: facts of this host; None if the guest needs no claim.
    :raises Refused: from admission.admit(), or if others have the pCPUs.
    :raises ClaimsUnusable: if the pCPUs cannot be claimed.
    """
    taken = _NONE
    while True:
        rendered = admission.admit(xml, request, facts, manager, taken=taken)
        domain = parse_domain(rendered.xml)
        own = _NONE if facts is None else dedicated(domain)
        _refuse(own & taken)
        if not own:
            return rendered
        theirs = claim(uuid_of(domain), own)
        if not own & theirs:
            return rendered
        # If we chose the pins, choose again; otherwise refuse.
        taken |= theirs


def confirm(domain: Domain, claim: Claim) -> None:
    """Claim the pCPUs of a running guest again.

    :raises Refused: if others have claimed them since.
    :raises ClaimsUnusable: if the pCPUs cannot be claimed.
    """
    if own := dedicated(domain):
        _refuse(own & claim(uuid_of(domain), own))


def _refuse(theirs: CpuSet) -> None:
    if theirs:
        found = reason("pcpus_taken", cpus=format_cpu_list(theirs))
        raise engine.Refused((found,))


def uuid_of(domain: Domain) -> str:
    """Return the UUID of a domain; empty if it has none."""
    return text_of(domain.root.find("uuid")).lower()


def dedicated(domain: Domain) -> CpuSet:
    """Return the pCPUs of a guest with realtime vCPUs or a container."""
    is_promised = metadata.promised(domain).realtime
    if domain.is_container:
        return domain.cpuset or _NONE if is_promised else _NONE
    if is_promised or any(
        cputune.is_realtime(each) for each in domain.tunes("vcpusched")
    ):
        return _NONE.union(*domain.pins.values())
    return _NONE
