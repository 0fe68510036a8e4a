# SPDX-License-Identifier: Apache-2.0

"""Traits of a host, merged into those of its resource provider."""

import types
from collections.abc import Mapping
from collections.abc import Set

from sriov_rt import decide
from sriov_rt import request
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.placement import label_traits as label_traits
from sriov_rt.reason import Reason
from sriov_rt.request import grammar

#: Prefix of the traits that the host's own facts decide.
PREFIX = "CUSTOM_SRIOV_RT_"

#: Prefixes of our traits; no other trait is ever touched.
PREFIXES = (PREFIX, label_traits.PREFIX)

REALTIME = PREFIX + "REALTIME"
LATENCY_CERTIFIED = PREFIX + "LATENCY_CERTIFIED"

#: Trait to the extra specs that a host must satisfy to have it.
TRAITS: Mapping[str, Mapping[str, str]] = types.MappingProxyType(
    {
        REALTIME: {
            "sriov_rt:realtime": "required",
            "hw:cpu_policy": "dedicated",
        },
        PREFIX + "PREEMPT_RT": {"sriov_rt:kernel": "preempt_rt"},
        PREFIX + "ONLOAD": {"sriov_rt:onload": "required"},
        # Any valid certificate.
        LATENCY_CERTIFIED: {
            "sriov_rt:max_latency_us": str(grammar.MAX_LATENCY_US)
        },
    }
)


def verdicts(facts: HostFacts, now: float) -> Mapping[str, tuple[Reason, ...]]:
    """Return why the host lacks each trait; no Reasons if it has the trait.

    :param now: Unix time, seconds.
    """
    view, judged = decide.View(now=now), decisive(facts)
    return {
        trait: decide.why_not(request.parse(extra_specs), judged, view)
        for trait, extra_specs in TRAITS.items()
    }


def fulfilled(found: Mapping[str, tuple[Reason, ...]]) -> frozenset[str]:
    """Return the traits without a Reason against them."""
    return frozenset(trait for trait, reasons in found.items() if not reasons)


def merged(there: Set[str], ours: Set[str]) -> frozenset[str]:
    """Return the provider's new traits: those of others, and ours.

    :param there: all traits that the provider has now.
    """
    others = {each for each in there if not each.startswith(PREFIXES)}
    return frozenset(others | ours)
