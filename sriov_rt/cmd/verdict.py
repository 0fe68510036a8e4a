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

    :param facts: its facts; None if it has not reported.
    :param age_s: seconds since the facts were confirmed; None for a file's.
    :param max_age_s: seconds after which they are stale.
    :param version: version of the agent that reported them.
    :param reported: all facts, if they are to be shown.
    :param agents: list of agents that alternately report as the host.
    :param archive: name of the archive that the facts are from.
    :param problem: why the archive could not be used.
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
    """Reasons why a host does not satisfy the flavor; none if it does.

    :param archive: name of the archive that its facts are from.
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

        :param named: name the host's archive as well.
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
