# SPDX-License-Identifier: Apache-2.0

"""Whether a port's interface is gone: evidence of the kernel, and verdict.

Absence proves nothing: root in a container can hide an interface, change its
index, put another in its place and stack more on the same parent. Nor do two
looks at different moments prove anything: root can move it to and fro.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import NamedTuple

from sriov_rt.reason import first_of

#: How many interfaces or MACs a reason names.
NAMED = 3


class Verdict(enum.StrEnum):
    """Outcome for a port that was unplugged.

    Kept means that the port's own interface was deleted, while something else
    may be left on its parent. Quarantined means that its interface may still
    be there.
    """

    GONE = "gone"
    KEPT = "kept"
    QUARANTINED = "quarantined"


class Where(enum.StrEnum):
    """Where the parent of a port is, known by its node or its device."""

    ON_HOST = "here"
    ELSEWHERE = "elsewhere"
    DESTROYED = "destroyed"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence from the kernel on a port and its parent.

    :param parent: name of the parent, the present one if that is known.
    :param idle: whether nothing is on the parent, in any namespace; None if
        this kernel cannot tell.
    :param removed: whether the interface was found and deleted.
    :param unrecorded: interfaces on the parent that belong to no port.
    :param beside: whether other ports' interfaces are on it.
    :param suspect: another port that the parent is quarantined for.
    :param unseen: number of interfaces of the machine that could not be seen
        at the moment of the other evidence; None if the kernel cannot tell.
    :param clue: clause on an interface that was not found.
    :param place: namespace that the parent is in, if it was moved.
    """

    parent: str
    where: Where = Where.ON_HOST
    idle: bool | None = False
    removed: bool = False
    unrecorded: tuple[str, ...] = ()
    beside: bool = False
    suspect: str | None = None
    unseen: int | None = None
    clue: str = ""
    place: str = ""


class Rule(NamedTuple):
    """A row of the table; the first that applies decides.

    :param applies: returns whether the row applies.
    :param reason: template of a clause, with fields of Evidence.
    """

    applies: Callable[[Evidence], bool]
    verdict: Verdict
    reason: str = ""


RULES = (
    # What was on a parent ends with it (macvlan_device_event in macvlan.c,
    # ipvlan_device_event in ipvlan_main.c).
    Rule(lambda it: it.where is Where.DESTROYED, Verdict.GONE),
    Rule(lambda it: it.idle is True, Verdict.GONE),
    Rule(
        lambda it: (
            it.where is Where.ON_HOST and it.unseen == 0 and not it.unrecorded
        ),
        Verdict.GONE,
    ),
    Rule(
        lambda it: it.where is Where.ELSEWHERE,
        Verdict.QUARANTINED,
        "its parent {parent} was moved to {place}; move it back",
    ),
    Rule(
        lambda it: it.where is Where.UNKNOWN,
        Verdict.QUARANTINED,
        "its parent {parent} cannot be seen, and may be in another namespace",
    ),
    Rule(
        lambda it: not it.removed and bool(it.unrecorded),
        Verdict.QUARANTINED,
        "its interface was not found, and no port has {unrecorded}",
    ),
    Rule(lambda it: not it.removed, Verdict.QUARANTINED, "{clue}"),
    # The other port keeps the parent: it was not seen to go before this one
    # was.
    Rule(lambda it: it.suspect is not None, Verdict.GONE),
    Rule(
        lambda it: bool(it.unrecorded),
        Verdict.KEPT,
        "its interface is deleted, but no port has {unrecorded}, on {parent}",
    ),
    Rule(
        lambda it: not it.beside,
        Verdict.QUARANTINED,
        "something that cannot be seen is on {parent}",
    ),
    Rule(
        lambda it: it.unseen is None,
        Verdict.KEPT,
        "its interface is deleted, but this kernel does not show whether"
        " something that cannot be seen is on {parent} beside other ports",
    ),
    Rule(
        lambda _: True,
        Verdict.KEPT,
        "its interface is deleted, but {unseen} of this host cannot be seen,"
        " which may be on {parent} beside other ports",
    ),
)


def judge(evidence: Evidence) -> tuple[Verdict, str]:
    """Return the verdict on a port, and its reason unless it is gone."""
    rule = next(each for each in RULES if each.applies(evidence))
    named = {
        field.name: getattr(evidence, field.name)
        for field in dataclasses.fields(evidence)
    }
    count = "1 interface" if evidence.unseen == 1 else "{} interfaces"
    named["unseen"] = count.format(evidence.unseen)
    named["unrecorded"] = first_of(evidence.unrecorded, NAMED)
    return rule.verdict, rule.reason.format(**named)
