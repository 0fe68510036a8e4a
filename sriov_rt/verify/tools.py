# SPDX-License-Identifier: Apache-2.0

"""Table of the latency tools."""

import types
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.verify.cyclictest import Cyclictest
from sriov_rt.verify.hwlat import Hwlat
from sriov_rt.verify.latency_tool import LatencyTool
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.oslat import Oslat
from sriov_rt.verify.timerlat import Timerlat

#: Tools in the order in which they run: first that of hardware latency.
_ROWS: Iterable[type[LatencyTool]] = (Hwlat, Cyclictest, Oslat, Timerlat)

#: Latency tools by name.
TOOLS: Mapping[str, type[LatencyTool]] = types.MappingProxyType(
    {each.name: each for each in _ROWS}
)

#: Tools that a certificate needs: one that wakes up, one that never sleeps.
CERTIFYING = tuple(each.name for each in _ROWS if each.certifies)

#: Tools that guests and pods can run. The others are tracers of the kernel,
#: which a pod shares with its host.
IN_GUESTS = tuple(each.name for each in _ROWS if each.in_guests)


def every_step(duration_s: int) -> tuple[Step, ...]:
    """Return a step of every tool.

    :param duration_s: duration of each step.
    """
    return tuple(each.default_step(duration_s) for each in _ROWS)
