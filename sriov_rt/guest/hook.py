# SPDX-License-Identifier: Apache-2.0

"""Interface of guest hooks."""

import dataclasses
from typing import Protocol

from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.report import Recorder
from sriov_rt.request.words import Request

#: vCPU and the pCPUs it is pinned to, as parse.topology gives them.
Pinning = tuple[tuple[int, CpuSet], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """Input of a hook beside the domain.

    :param facts: None if nothing is known of the host.
    :param pinning: where the vCPUs go if the domain does not say; None for
        a place that the hook finds.
    :param taken: pCPUs that other realtime guests have, where its caller
        keeps account of them.
    """

    request: Request
    facts: HostFacts | None = None
    pinning: Pinning | None = None
    taken: CpuSet = dataclasses.field(default_factory=CpuSet)


class Hook(Protocol):
    """One concern of a guest.

    A hook is pure but for the domain that it is given. Applied to what it
    made before, it changes nothing.
    """

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Change the domain; report each change, note and refusal."""
