# SPDX-License-Identifier: Apache-2.0

"""Observation of selected parts of a host, while a guest waits.

Only our own sources are used, each imported when it is needed: scanning entry
points of other packages takes longer than a hook may wait.
"""

import dataclasses
import importlib
import os
import time
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import HostFacts
from sriov_rt.host.root import Root
from sriov_rt.request import Request
from sriov_rt.request import grammar

#: Parts that every guest needs, to find where it may be pinned.
_ALWAYS = frozenset({"cpus", "compute"})

#: Labels follow from other parts.
_LABELLED = frozenset({"cpus", "kernel", "nics"})

#: Sources in other packages, as their entry points name them.
_SOURCES: Mapping[str, str] = {
    "onload": "sriov_rt.onload.onload_facts",
    "vifs": "sriov_rt.vif.vif_facts",
}

#: Directory of Nova's configuration; without it there is none to read, and
#: oslo.config need not be imported.
_NOVA = "etc/nova"

_NO_NOVA = ComputeFacts(None, None, None, None)

_NOTHING = Request()


def for_request(root: Root, request: Request) -> HostFacts:
    """Return the facts of this host that decide on a Request.

    :param root: the host's file system.
    """
    return readable(observe(root, parts_for(request)))


def readable(facts: HostFacts) -> HostFacts:
    """Return facts without those that only root may read.

    CPU idle states depend on /dev/cpu_dma_latency: a program of another user
    leaves them to those who judge the host as root.
    """
    if not isinstance(facts.cpus.idle_states, Unknown):
        return facts
    cpus = dataclasses.replace(facts.cpus, idle_states=NOT_REPORTED)
    return dataclasses.replace(facts, cpus=cpus)


def parts_for(request: Request) -> frozenset[str]:
    """Return the parts of a host's facts that decide on a Request."""
    found = set(_ALWAYS)
    for key in grammar.KEYS.values():
        if getattr(request, key.field) != getattr(_NOTHING, key.field):
            found.update(key.parts)
    if "labels" in found:
        found |= _LABELLED
    return frozenset(found)


def observe(root: Root, parts: Collection[str]) -> HostFacts:
    """Return the facts of a host; unselected parts are unknown.

    :param root: the host's file system.
    :param parts: some of :data:`sriov_rt.facts.PARTS`.
    """
    name = os.uname().nodename
    found = {each: _part(root, each, parts) for each in facts.PARTS}
    if "labels" in parts:
        labels = importlib.import_module("sriov_rt.host.labels")
        found["labels"] = labels.derive(
            found["cpus"], found["kernel"], found["nics"]
        )
    cpus = found["cpus"].isolated
    if "occupancy" in parts and not isinstance(cpus, Unknown):
        occupancy = importlib.import_module("sriov_rt.host.occupancy")
        found["occupancy"] = occupancy.taken(root, cpus)
    return HostFacts(name, name, time.time(), **found)


def _part(root: Root, name: str, parts: Collection[str]) -> Any:
    if name not in parts or name in ("labels", "occupancy"):
        return facts.unknown(name, "not needed for this guest")
    if name == "compute":
        return _compute(root)
    module = importlib.import_module(
        _SOURCES.get(name, f"sriov_rt.host.{name}")
    )
    try:
        return module.observe(root)
    except (exceptions.SriovRtError, OSError, ValueError) as error:
        return facts.unknown(name, f"its source failed: {error}")


def _compute(root: Root) -> ComputeFacts:
    if root.exists(_NOVA) is False:
        return _NO_NOVA
    module = importlib.import_module("sriov_rt.host.compute")
    found: ComputeFacts = module.observe(root)
    return found
