# SPDX-License-Identifier: Apache-2.0

"""The hook program of vdsm, which oVirt runs on each host.

vdsm runs the programs in a directory that is named after the event. The
domain is in a file that ``_hook_domxml`` names, the VM's custom properties
are in the environment. Exit code 2 refuses the VM at once, with the standard
error as the reason (lib/vdsm/common/hooks.py of vdsm).
"""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.guest import admission
from sriov_rt.guest import claims
from sriov_rt.guest import metadata
from sriov_rt.guest import passthrough
from sriov_rt.guest import program
from sriov_rt.guest.admission import Manager
from sriov_rt.guest.claims import Claim
from sriov_rt.guest.claims import ClaimsUnusable
from sriov_rt.guest.domain import MAX_DOCUMENT
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.domain import serialise
from sriov_rt.guest.program import Outcome
from sriov_rt.guest.report import clean
from sriov_rt.guest.sentences import OVIRT
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.request import guest_request
from sriov_rt.request.guest_request import GuestRequest

#: Exit code that vdsm takes for a refusal, after which it runs no other
#: program. 1 lets the others run first.
EXIT_REFUSED = 2

#: The custom properties that are read. No other variable under the control of
#: a VM's owner is read. oVirt calls the pinning a topology, too.
PROPERTY = "sriov_rt"
PINNING = "pinning"

START = "before_vm_start"
DEHIBERNATE = "before_vm_dehibernate"
MIGRATE = "before_vm_migrate_destination"
DESTROYED = "after_vm_destroy"

MANAGER = Manager(OVIRT)

_INCOMING = program.incoming(MANAGER)

#: The programs that vdsm's user may run as root, by sudo.
RESET = "/usr/libexec/sriov-rt/reset-vfs"
CLAIM = "/usr/libexec/sriov-rt/claim-cpus"

#: Seconds that the programs may take: drivers of several VFs are rebound.
_RESET_S = 120
_CLAIM_S = 30


class VfsNotReset(exceptions.SriovRtError):
    """VFs of a VM could not be brought to the baseline.

    :param problem: message of the program that resets them.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"the VM's VFs cannot be reset: {problem}")


ResetVfs = Callable[[Sequence[str]], None]


def reset_by_sudo(addresses: Sequence[str]) -> None:
    """Reset VFs as root.

    :param addresses: PCI addresses; devices other than VFs are left alone.
    :raises VfsNotReset: if one can't be reset.
    """
    _as_root([RESET, *addresses], _RESET_S, VfsNotReset)


def claim_by_sudo(guest: str, pins: CpuSet) -> CpuSet:
    """Claim pCPUs as root; see Claims.claim.

    :raises ClaimsUnusable: if they can't be claimed.
    """
    words = [format_cpu_list(pins)] if pins else []
    found = _as_root([CLAIM, guest, *words], _CLAIM_S, ClaimsUnusable)
    try:
        return parse_cpu_list(found.strip()) if found.strip() else CpuSet()
    except errors.ParseError as error:
        raise ClaimsUnusable(f"{CLAIM}: {error}") from None


def _as_root(
    command: list[str],
    timeout_s: float,
    refused: Callable[[str], exceptions.SriovRtError],
) -> str:
    """Run one of our programs as root, and return its output.

    :param refused: makes the error from the program's message.
    """
    words = (
        ["sudo", "--non-interactive", *command] if os.geteuid() else command
    )
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise refused(f"{error}; install {command[0]}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise refused(lines[-1].removeprefix("sriov-rt: "))
    return done.stdout


def run(
    event: str,
    environment: Mapping[str, str],
    xml: bytes,
    root: Root,
    reset_vfs: ResetVfs = reset_by_sudo,
    claim: Claim = claim_by_sudo,
) -> Outcome:
    """Return the answer to an event.

    :param event: the name of the hook's directory.
    """
    text = environment.get(PROPERTY, "")
    pinning = environment.get(PINNING, "")
    if event not in (START, DEHIBERNATE, MIGRATE, DESTROYED):
        return Outcome()
    if not text.strip() and not pinning.strip():
        return Outcome()

    def act() -> Outcome:
        request = _request(text, pinning)
        if event == DESTROYED:
            return _destroyed(xml, reset_vfs, claim)
        if event == START:
            return _start(xml, request, root, reset_vfs, claim)
        return _arrive(xml, request, root)

    return program.refused_by(act, MANAGER)


def _request(text: str, pinning: str) -> GuestRequest:
    """Return the request of custom properties.

    :raises ParseError: if it can't be read.
    """
    found = guest_request.from_text(text)
    if not pinning.strip():
        return found
    if found.pinning is not None:
        raise errors.ParseError(
            PINNING, pinning, f"it is in the property {PROPERTY} already"
        )
    values = {**found.extra_specs, guest_request.PINNING: pinning.strip()}
    return guest_request.from_values(values)


def _start(
    xml: bytes,
    request: GuestRequest,
    root: Root,
    reset_vfs: ResetVfs,
    claim: Claim,
) -> Outcome:
    """Return the domain adapted to its request, and clean its VFs.

    The request is written into the domain, for libvirt's hook to read.

    :raises Refused: if this host can't meet the request.
    :raises VfsNotReset: if a VF can't be cleaned.
    """
    rendered = program.admit(xml, request, MANAGER, root, claim)
    domain = parse_domain(rendered.xml)
    metadata.write_request(domain, request)
    devices = passthrough.of(domain)
    try:
        if devices:
            reset_vfs([each.address for each in devices])
    except VfsNotReset:
        _let_go(domain, claim)
        raise
    return Outcome(xml=serialise(domain), done=rendered.report.summary())


def _arrive(xml: bytes, request: GuestRequest, root: Root) -> Outcome:
    """Refuse a VM to be restored or migrated if this host can't run it.

    vdsm ignores the domain that hooks return for these events (see callers in
    lib/vdsm/virt/vm.py), so none is returned: libvirt's hook moves the pins
    and claims the pCPUs.

    :raises Refused: if this host can't meet its request.
    """
    facts = program.facts(request, MANAGER, root)
    rendered = admission.admit(xml, request, facts, _INCOMING, taken=CpuSet())
    if not rendered.report.changes:
        return Outcome(done="admitted")
    left = rendered.report.summary()
    return Outcome(done=f"admitted; left to libvirt's hook: {left}")


def _destroyed(xml: bytes, reset_vfs: ResetVfs, claim: Claim) -> Outcome:
    try:
        domain = parse_domain(xml)
        devices = passthrough.of(domain)
    except DomainRejected as error:
        raise VfsNotReset(str(error)) from None
    addresses = [each.address for each in devices]
    try:
        if addresses:
            reset_vfs(addresses)
    finally:
        _let_go(domain, claim)
    return Outcome(
        done=f"VFs reset: {', '.join(addresses)}" if devices else ""
    )


def _let_go(domain: Domain, claim: Claim) -> None:
    if claims.dedicated(domain):
        claim(claims.uuid_of(domain), CpuSet())


def main(
    name: str | None = None, environment: Mapping[str, str] | None = None
) -> int:
    """Run the program and return its exit code.

    :param name: path of the program's file, in the directory of an event.
    """
    place = pathlib.Path(sys.argv[0] if name is None else name)
    given = os.environ if environment is None else environment
    path = given.get("_hook_domxml", "")
    try:
        xml = files.read(pathlib.Path(path), MAX_DOCUMENT) if path else b""
    except OSError:
        # Empty XML is no domain, so a VM with a request is refused.
        xml = b""
    outcome = run(place.absolute().parent.name, given, xml, Root())
    vm = f"vm={clean(given.get('vmId', '?'))} event={place.parent.name}"
    if outcome.xml:
        try:
            mode = pathlib.Path(path).stat().st_mode & 0o777
            files.replace(pathlib.Path(path), outcome.xml.encode(), mode)
        except OSError as error:
            outcome = Outcome(problem=f"{path} cannot be written: {error}")
    # The engine shows characters beyond ASCII as raw bytes.
    shown = outcome.problem.replace("µ", "u").encode("ascii", "replace")
    program.report(outcome, "sriov-rt-vdsm", vm, shown.decode())
    return EXIT_REFUSED if outcome.problem else 0
