# SPDX-License-Identifier: Apache-2.0

"""The hook program of libvirt's QEMU and LXC drivers.

libvirt runs it as ``PROGRAM GUEST OPERATION STAGE EXTRA`` with the domain on
standard input, and logs its standard error when it fails. The program never
calls libvirt, which is waiting for it. For a guest that requests nothing, it
only looks for our namespace in the domain and in guests.conf.
"""

import dataclasses
import sys
from collections.abc import Callable
from collections.abc import Sequence

from sriov_rt.guest import claims
from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest import passthrough
from sriov_rt.guest import program
from sriov_rt.guest.admission import Manager
from sriov_rt.guest.claims import Claims
from sriov_rt.guest.devices import SILENT
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.passthrough import PassedThrough
from sriov_rt.guest.program import Outcome
from sriov_rt.guest.report import Report
from sriov_rt.guest.report import clean
from sriov_rt.guest.sentences import LIBVIRT
from sriov_rt.guest.sentences import reason
from sriov_rt.host.root import Root
from sriov_rt.libvirt import policy
from sriov_rt.libvirt.operation import Answer
from sriov_rt.libvirt.operation import answer
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.reason import first_of
from sriov_rt.request.guest_request import GuestRequest

EXIT_REFUSED = 1

MANAGER = Manager(LIBVIRT)

_INCOMING = program.incoming(MANAGER)


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of the program by libvirt.

    :param xml: XML of the domain; empty if libvirt gave none.
    """

    guest: str
    operation: str
    stage: str
    xml: bytes


#: Brings the VFs among PCI devices to the baseline, before or after a guest.
CleanVfs = Callable[[Call, Sequence[PassedThrough]], Sequence[str]]


def _clean_vfs(call: Call, devices: Sequence[PassedThrough]) -> Sequence[str]:
    # Imported here because the rtnetlink modules take long to import.
    from sriov_rt.libvirt import vfs

    ends = answer(call.operation, call.stage) is Answer.CLEAN
    act = vfs.release if ends else vfs.prepare
    return act(vfs.of_host(), devices, call.guest)


def run(
    call: Call,
    root: Root,
    clean_vfs: CleanVfs = _clean_vfs,
) -> Outcome:
    """Return the answer to a call.

    :param clean_vfs: see CleanVfs.
    """
    may = answer(call.operation, call.stage)
    if may is Answer.NOTHING:
        return Outcome()

    def act() -> Outcome:
        request = _request(call, root)
        if request is None:
            return Outcome()
        if may is Answer.CLEAN:
            return _release(call, root, clean_vfs)
        if may is Answer.CONFIRM:
            if program.wants_cpus(request):
                claims.confirm(parse_domain(call.xml), Claims(root).claim)
            return Outcome()
        if may is Answer.FILTER:
            return _arrive(call, request, root)
        return _prepare(call, request, root, clean_vfs)

    return program.refused_by(act, MANAGER)


def _request(call: Call, root: Root) -> GuestRequest | None:
    """Return a guest's request; its own metadata takes precedence.

    :raises ParseError: if the request can't be read.
    :raises DomainRejected: if the domain can't be read.
    """
    if metadata.REQUEST_NAMESPACE.encode() in call.xml:
        found = metadata.requested(parse_domain(call.xml))
        if found is not None:
            return found
    return policy.requested(root, call.guest)


def _prepare(
    call: Call,
    request: GuestRequest,
    root: Root,
    clean_vfs: CleanVfs,
) -> Outcome:
    """Refuse a guest whose domain differs from its request; clean its VFs.

    :raises Refused: if it differs, or can't be met on this host.
    :raises SriovRtError: if a VF can't be cleaned.
    """
    rendered = program.admit(
        call.xml, request, MANAGER, root, Claims(root).claim
    )
    if changes := _changes(rendered.report):
        found = reason(
            "domain_differs", changes=changes, name=clean(call.guest)
        )
        raise engine.Refused((found,))
    devices = passthrough.of(parse_domain(call.xml))
    vfs = clean_vfs(call, devices) if devices else ()
    done = f"VFs at the baseline: {', '.join(vfs)}" if vfs else "admitted"
    return Outcome(done=done)


def _arrive(call: Call, request: GuestRequest, root: Root) -> Outcome:
    """Return the domain of a guest that is migrated here or restored.

    :raises Refused: if this host can't meet its request.
    """
    rendered = program.admit(
        call.xml, request, _INCOMING, root, Claims(root).claim
    )
    if not rendered.report.changes:
        return Outcome()
    return Outcome(xml=rendered.xml, done=rendered.report.summary())


def _release(
    call: Call,
    root: Root,
    clean_vfs: CleanVfs,
) -> Outcome:
    """Release a guest's claim and clean its VFs, also after a failed start.

    :raises SriovRtError: if either cannot be done.
    """
    domain = parse_domain(call.xml)
    try:
        devices = passthrough.of(domain)
        vfs = clean_vfs(call, devices) if devices else ()
    finally:
        Claims(root).claim(claims.uuid_of(domain), CpuSet())
    done = f"VFs at the baseline: {', '.join(vfs)}" if vfs else ""
    return Outcome(done=done)


def _changes(report: Report) -> str:
    """Return the changes that a domain still needs; empty if none."""
    texts = [
        f"{each.action} {each.element} {each.detail}".rstrip()
        for each in report.changes
        if (each.action, each.element, each.detail) != SILENT
    ]
    return first_of(texts, 4)


def main(arguments: Sequence[str], xml: bytes) -> int:
    """Run the program and return its exit code.

    :param arguments: without the program's name.
    :param xml: domain from standard input.
    """
    guest, operation, stage = [*arguments, "", "", ""][:3]
    call = Call(guest, operation, stage, xml)
    outcome = run(call, Root())
    about = f"guest={clean(call.guest)} op={clean(call.operation)}"
    shown = f"{about} refused: {outcome.problem}"
    program.report(outcome, "sriov-rt-libvirt", about, shown)
    if outcome.xml:
        sys.stdout.write(outcome.xml + "\n")
    return EXIT_REFUSED if outcome.problem else 0
