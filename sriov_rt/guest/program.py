# SPDX-License-Identifier: Apache-2.0

"""Answers of the programs that managers run before a guest starts."""

import dataclasses
import sys
import syslog
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt import exceptions
from sriov_rt.facts import HostFacts
from sriov_rt.guest import admission
from sriov_rt.guest import claims
from sriov_rt.guest import engine
from sriov_rt.guest.admission import Manager
from sriov_rt.guest.claims import Claim
from sriov_rt.guest.hook import Hook
from sriov_rt.guest.incoming_pin import IncomingPin
from sriov_rt.guest.schedule import Schedule
from sriov_rt.host import selected
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.request.guest_request import GuestRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Answer of a program.

    :param xml: the changed domain; empty if it is unchanged.
    :param problem: why the guest is refused, one line; empty if it is not.
    :param done: what was changed, one line.
    """

    xml: str = ""
    problem: str = ""
    done: str = ""


def incoming(manager: Manager) -> Manager:
    """Return a manager for guests of an incoming migration or a restore.

    The devices of such a guest must not change: it has booted already.
    """
    hooks: Mapping[str, Hook] = {"pin": IncomingPin(), "schedule": Schedule()}
    return dataclasses.replace(manager, hooks=hooks)


def wants_cpus(request: GuestRequest) -> bool:
    """Return whether a guest requests more than clean VFs."""
    return bool(request.extra_specs) or request.pinning is not None


def facts(
    request: GuestRequest, manager: Manager, root: Root
) -> HostFacts | None:
    """Return the host facts that a guest needs, None if it needs none.

    :raises Refused: if the request can't be read.
    """
    parsed = admission.parse(request, manager)
    return selected.for_request(root, parsed) if wants_cpus(request) else None


def admit(
    xml: bytes,
    request: GuestRequest,
    manager: Manager,
    root: Root,
    claim: Claim,
) -> engine.Rendered:
    """Admit a guest that starts or arrives, and claim its pCPUs.

    :raises Refused: from claims.admit(), as is ClaimsUnusable.
    """
    found = facts(request, manager, root)
    return claims.admit(xml, request, found, manager, claim)


def refused_by(act: Callable[[], Outcome], manager: Manager) -> Outcome:
    """Return the outcome of an act, or a refusal if it fails.

    For guests with a request: if any error occurs, such a guest is refused
    rather than started without what it requests.
    """
    try:
        return act()
    except engine.Refused as refused:
        problem = admission.sentence_of(refused.reasons)
    except errors.ParseError as error:
        problem = admission.invalid(error, manager).message
    except exceptions.SriovRtError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001
        problem = f"{type(error).__name__}: {error}; report this as a bug"
    return Outcome(problem=" ".join(problem.split()))


def report(outcome: Outcome, program: str, about: str, shown: str) -> None:
    """Report an outcome to syslog, and a refusal to the manager as well.

    :param program: name of the program in the log.
    :param about: the guest and the operation, for the log.
    :param shown: text of a refusal that the manager shows (standard error).
    """
    if outcome.problem:
        print(f"sriov-rt: {shown}", file=sys.stderr)
    syslog.openlog(program, syslog.LOG_PID, syslog.LOG_DAEMON)
    if outcome.problem:
        syslog.syslog(syslog.LOG_ERR, f"{about} refused: {outcome.problem}")
    elif outcome.done:
        syslog.syslog(syslog.LOG_INFO, f"{about} {outcome.done}")
