# SPDX-License-Identifier: Apache-2.0

"""Operations for which libvirt calls a hook program, and their answers.

https://libvirt.org/hooks.html; seen with 9.0.
"""

import enum
import types
from collections.abc import Mapping


class Answer(enum.Enum):
    """Effect of the program's answer to an operation.

    VETO: an exit code other than 0 prevents the start. CONFIRM: it stops the
    guest before libvirt reports it as started. FILTER: the output replaces
    the domain, and an exit code other than 0 stops the operation. CLEAN: no
    effect, as the guest has ended. NOTHING: nothing may be done; in
    ``reconnect`` an exit code other than 0 kills a running guest.
    """

    VETO = enum.auto()
    CONFIRM = enum.auto()
    FILTER = enum.auto()
    CLEAN = enum.auto()
    NOTHING = enum.auto()


#: Operation and sub-operation to its answer. ``prepare`` is called before any
#: device is touched. ``start begin`` allows a veto too, and so does ``started
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
    """Return the kind of answer to an operation.

    An unknown operation gets NOTHING: it may be like ``reconnect``, from a
    later libvirt.
    """
    return _ANSWERS.get((operation, stage), Answer.NOTHING)
