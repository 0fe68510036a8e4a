# SPDX-License-Identifier: Apache-2.0

"""Same-host rule for accelerated ports. Pure.

Onload sends past the kernel's macvlan: two instances on one NIC cannot reach
each other. So a NIC has one accelerated instance of each network.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

from sriov_rt.vif import errors
from sriov_rt.vif.budget import Candidate
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Record


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """Where an accelerated port may be.

    :param others: NICs with another accelerated instance of its network.
    :param only: NICs that it may be on; empty for any.
    """

    others: Collection[str]
    only: Collection[str]

    def refusal(
        self, found: Candidate, request: Plug
    ) -> errors.VifError | None:
        """Return why a port cannot be on a parent; None if it can."""
        nic = _nic(found)
        if self.only and nic not in self.only:
            return errors.NoParent(
                nic, port=request.port, detail="Onload cannot use it"
            )
        if nic not in self.others:
            return None
        # Nova shows the sentence to the owner of this instance; the other one
        # may belong to somebody else.
        return errors.SpreadNeeded(nic, port=request.port, detail="it has one")


def rule(
    request: Plug,
    records: Iterable[Record],
    candidates: Sequence[Candidate],
    onload_nics: Callable[[], Collection[str]],
) -> Rule:
    """Return where a port may be; anywhere if it is not accelerated.

    Ports of one instance need not reach each other. If the host has a NIC that
    Onload can use, the port has to be on one; the scheduler decides whether a
    host without any is considered.

    :param records: records of the ports of this host.
    :param onload_nics: see Rules; called only for accelerated ports.
    """
    if not request.onload:
        return Rule((), ())
    others = {
        each.nic
        for each in records
        if each.network == request.network and each.owner != request.owner
    }
    return Rule(others, {_nic(each) for each in candidates} & {*onload_nics()})


def _nic(found: Candidate) -> str:
    return found.vf.id.pf if found.vf else found.link.name
