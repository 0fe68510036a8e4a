# SPDX-License-Identifier: Apache-2.0

"""Operations that libvirt calls a hook program for, and what each allows.

https://libvirt.org/hooks.html; seen with 9.0.
"""

import enum
import types
from collections.abc import Mapping


class Answer(enum.Enum):
    """Effect of the program's answer to an operation.

    VETO: another exit code than 0 keeps the guest from being started.
    CONFIRM: another one ends it, before anybody knows it as started. FILTER:
    what is printed takes the place of the domain, and another exit code stops
    the operation. CLEAN: nothing, the guest has ended. NOTHING: with
    ``reconnect`` an exit code other than 0 kills a guest that runs.
    """

    VETO = enum.auto()
    CONFIRM = enum.auto()
    FILTER = enum.auto()
    CLEAN = enum.auto()
    NOTHING = enum.auto()


#: Operation and sub-operation to what may be answered. ``prepare`` comes when
#: no device is touched yet; ``start begin`` allows a veto too, and ``started
#: begin``, by which time libvirt has written the guest's status.
_ANSWERS: Mapping[tuple[str, str], Answer] = types.MappingProxyType(
    {
        ("prepare", "begin"): Answer.VETO,
        ("started", "begin"): Answer.CONFIRM,
        ("migrate", "begin"): Answer.FILTER,
        ("restore", "begin"): Answer.FILTER,
        ("release", "end"): Answer.CLEAN,
    }
)


def answer(operation: str, stage: str) -> Answer:
    """Return what may be answered to an operation.

    Of one that is not known nothing is known either: it may be a
    ``reconnect`` of a later libvirt.
    """
    return _ANSWERS.get((operation, stage), Answer.NOTHING)
