# SPDX-License-Identifier: Apache-2.0

"""Answers of the programs that managers run while a guest waits."""

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt import exceptions
from sriov_rt.guest import admission
from sriov_rt.guest import engine
from sriov_rt.guest.admission import Manager
from sriov_rt.guest.hook import Hook
from sriov_rt.guest.incoming_pin import IncomingPin
from sriov_rt.guest.schedule import Schedule
from sriov_rt.parse import errors


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Answer of a program.

    :param xml: the domain to go on with; empty for the one that was given.
    :param problem: why the guest is refused, one line; empty if it is not.
    :param done: what was changed, one line.
    """

    xml: str = ""
    problem: str = ""
    done: str = ""


def incoming(manager: Manager) -> Manager:
    """Return a manager for guests of an incoming migration or a restore.

    What such a guest sees of its devices must stay: it has been started.
    """
    hooks: Mapping[str, Hook] = {"pin": IncomingPin(), "schedule": Schedule()}
    return dataclasses.replace(manager, hooks=hooks)


def refused_by(act: Callable[[], Outcome], manager: Manager) -> Outcome:
    """Return the outcome of an act, or why the guest is refused.

    For a guest that requests something: whatever is wrong with us, it does
    not start without it.
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
