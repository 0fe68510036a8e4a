# SPDX-License-Identifier: Apache-2.0

"""Verdicts of ``sriov-rt explain`` on hosts, for people and programs."""

import dataclasses
from typing import Any

from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import HostFacts
from sriov_rt.reason import Reason


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A host to decide on.

    :param facts: None if it was not heard of.
    :param age_s: seconds since they were confirmed; None for a file's.
    :param max_age_s: seconds from which they are stale.
    :param version: of the agent that reported them.
    :param reported: all facts, where they are to be shown.
    :param agents: those that report as the host by turns, a list.
    :param archive: the name of the one that the facts are of.
    :param problem: why it could not be used.
    """

    host: str
    facts: DecisiveFacts | None
    age_s: float | None = None
    max_age_s: float = 0.0
    version: str = ""
    reported: HostFacts | None = None
    agents: str = ""
    archive: str = ""
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Why a host does not satisfy the flavor; it does for no Reason.

    :param archive: the name of the one that its facts are of.
    """

    host: str
    reasons: tuple[Reason, ...]
    archive: str = ""

    @property
    def passes(self) -> bool:
        """Whether the host satisfies the flavor."""
        return not self.reasons

    def rows(self, *, named: bool) -> list[tuple[str, bool, str, str, str]]:
        """Return host, whether it passes, code, problem and remedy.

        :param named: say of which archive the host is.
        """
        host = f"{self.host} ({self.archive})" if named else self.host
        if self.passes:
            return [(host, True, "", "", "")]
        return [
            (host, False, each.code, each.problem, each.remedy)
            for each in self.reasons
        ]

    def to_plain(self) -> dict[str, Any]:
        """Return the verdict as a JSON object."""
        return {
            "host": self.host,
            **({"archive": self.archive} if self.archive else {}),
            "passes": self.passes,
            "reasons": [each.to_plain() for each in self.reasons],
        }
