# SPDX-License-Identifier: Apache-2.0

"""Admission of a guest on this host, called by every manager's adapter.

Each manager (libvirt, oVirt, KubeVirt) passes the request in its own way. The
checks, and the changes of the domain, are the same for all of them.
"""

import dataclasses
import time
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt import decide
from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.guest import engine
from sriov_rt.guest.hook import Hook
from sriov_rt.guest.hook import Pinning
from sriov_rt.guest.sentences import in_terms_of
from sriov_rt.guest.sentences import reason
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.pinning import parse_pinning
from sriov_rt.reason import Reason
from sriov_rt.request.guest_request import GuestRequest
from sriov_rt.request.words import DeviceClass
from sriov_rt.request.words import Request


@dataclasses.dataclass(frozen=True, slots=True)
class Manager:
    """Manager of guests, such as libvirt, and its needs.

    :param name: its name in :data:`sentences.REMEDIES`.
    :param keeps: device classes that the manager needs, never removed.
    :param hooks: name to hook, in their order; engine.OWN_HOOKS by default.
    :param judges_host: whether its adapter checks the host; otherwise
        another component has done so.
    """

    name: str
    keeps: frozenset[DeviceClass] = frozenset()
    hooks: Mapping[str, Hook] | None = None
    judges_host: bool = True


def admit(
    xml: str | bytes,
    request: GuestRequest,
    facts: HostFacts | None,
    manager: Manager,
    *,
    taken: CpuSet,
    now: float | None = None,
) -> engine.Rendered:
    """Return the domain adapted to its request and this host. Pure.

    :param facts: facts of this host; None if the adapter has none.
    :param taken: pCPUs of other guests (sriov_rt.guest.claims).
    :param now: Unix time, seconds; None for the current time.
    :raises Refused: with every Reason, in the manager's terms. No domain or
        request raises anything else.
    """
    try:
        parsed = _parsed(request)
        if manager.keeps:
            keep = parsed.keep | manager.keeps
            parsed = dataclasses.replace(parsed, keep=keep)
        pinning = pinning_of(request)
        if facts is not None and manager.judges_host:
            _judge(parsed, facts, time.time() if now is None else now)
        return engine.render(
            xml, parsed, facts, pinning, manager.hooks, taken=taken
        )
    except engine.Refused as refused:
        raise engine.Refused(
            tuple(in_terms_of(manager.name, each) for each in refused.reasons)
        ) from None
    except RecursionError:
        raise _refused(_rejected("nested too deep"), manager) from None
    except DomainRejected as error:
        raise _refused(_rejected(error.problem), manager) from None
    except (requests.RequestError, errors.ParseError) as error:
        raise _refused(_invalid(error), manager) from None


def parse(request: GuestRequest, manager: Manager) -> Request:
    """Return the Request of a guest.

    :raises Refused: with every problem of its extra specs.
    """
    try:
        return _parsed(request)
    except requests.RequestError as error:
        raise _refused(_invalid(error), manager) from None


def _parsed(request: GuestRequest) -> Request:
    parsed = requests.parse(request.extra_specs)
    if parsed.onload:
        raise requests.RequestError(
            {
                "sriov_rt:onload": "Onload accelerates processes of "
                "containers of Nova and of pods, not guests; take it out"
            }
        )
    return parsed


def pinning_of(request: GuestRequest) -> Pinning | None:
    """Return the pCPUs that a guest requests for its vCPUs.

    :raises ParseError: if the text is not a pinning.
    """
    return None if request.pinning is None else parse_pinning(request.pinning)


def invalid(problem: exceptions.SriovRtError, manager: Manager) -> Reason:
    """Return the Reason of a request that can't be read."""
    return in_terms_of(manager.name, _invalid(problem))


def _judge(request: Request, facts: HostFacts, now: float) -> None:
    """Refuse a Request that the host does not satisfy.

    :raises Refused: with every Reason.
    """
    view = decide.View(now, placed_by_nova=False)
    if found := decide.why_not(request, decisive(facts), view):
        raise engine.Refused(found)


def _refused(found: Reason, manager: Manager) -> engine.Refused:
    return engine.Refused((in_terms_of(manager.name, found),))


def _rejected(problem: str) -> Reason:
    return reason("domain_rejected", problem=problem)


def _invalid(problem: exceptions.SriovRtError) -> Reason:
    return reason("request_invalid", problems=str(problem))


def sentence_of(found: Iterable[Reason]) -> str:
    """Return Reasons as one line for a log."""
    text = str(engine.Refused(tuple(found)))
    return " ".join(text.split())
