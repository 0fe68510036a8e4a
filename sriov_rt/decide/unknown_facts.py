# SPDX-License-Identifier: Apache-2.0

"""The Reason for a fact that could not be read."""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

_CODE = "fact_unknown"


def unknown(fact: str, value: Unknown) -> Reason:
    """Return the Reason for a fact that could not be read."""
    return reason(_CODE, fact=fact, why=value.reason)


def unread(fact: str, value: Unknown) -> Iterator[Reason]:
    """Yield the Reason, unless the agent is older than the fact.

    The host of an older agent is judged without the fact, as before.
    """
    if value != NOT_REPORTED:
        yield unknown(fact, value)


def is_unknown(why: Reason) -> bool:
    """Return whether a Reason is that a fact could not be read."""
    return why.code == _CODE
