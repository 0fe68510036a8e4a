# SPDX-License-Identifier: Apache-2.0

"""Interface of guest hooks."""

import dataclasses
from typing import Protocol

from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.report import Recorder
from sriov_rt.request.words import Request

#: Each vCPU and the pCPUs it is pinned to, as parse.pinning returns them.
Pinning = tuple[tuple[int, CpuSet], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """Input of a hook besides the domain.

    :param facts: facts of the host; None if nothing is known.
    :param pinning: pins of the vCPUs if the domain has none; None lets the
        hook choose them.
    :param taken: pCPUs of other realtime guests, if the caller tracks them.
    """

    request: Request
    facts: HostFacts | None = None
    pinning: Pinning | None = None
    taken: CpuSet = dataclasses.field(default_factory=CpuSet)


class Hook(Protocol):
    """One concern of a guest.

    A hook changes nothing but the domain that it is given. It is idempotent.
    """

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Change the domain; report each change, note and refusal."""
