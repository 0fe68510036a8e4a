# SPDX-License-Identifier: Apache-2.0

"""Observation of selected parts of a host, while a guest waits for it.

Our own sources alone, each imported when its part is needed: entry points of
other packages take longer to scan than a hook may take to answer.
"""

import dataclasses
import importlib
import os
import time
import types
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.decide import maintenance
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import HostFacts
from sriov_rt.host.root import Root
from sriov_rt.request import Request
from sriov_rt.request.words import Kernel

#: Part to the module of :mod:`sriov_rt.host` that observes it.
_MODULES: Mapping[str, str] = types.MappingProxyType(
    {
        "cpus": "cpus",
        "irqs": "irqs",
        "kernel": "kernel",
        "latency": "latency",
        "maintenance": "maintenance",
        "memory": "memory",
        "nics": "nics",
    }
)

#: Where Nova's configuration is; without it there is nothing to read of it,
#: and oslo.config, which reads it, need not be imported.
_NOVA = "etc/nova"

_NO_NOVA = ComputeFacts(None, None, None, None)


def for_request(root: Root, request: Request) -> HostFacts:
    """Return what decides on a Request of this host's facts.

    :param root: where the host's files are.
    """
    found = observe(root, parts_for(request))
    if not isinstance(found.cpus.idle_states, Unknown):
        return found
    # It hangs on /dev/cpu_dma_latency, which is root's: a program that a user
    # runs leaves it to who judges the host as root.
    cpus = dataclasses.replace(found.cpus, idle_states=NOT_REPORTED)
    return dataclasses.replace(found, cpus=cpus)


def parts_for(request: Request) -> frozenset[str]:
    """Return the parts of a host's facts that decide on a Request."""
    found = {"cpus", "compute"}
    if request.realtime or request.realtime_cpus:
        found |= {"kernel", "memory", "irqs"}
    if request.nic is not None or request.vif is not None:
        found |= {"nics", "kernel"}
    if request.node_selector is not None:
        found |= {"nics", "kernel", "labels"}
    if request.max_latency_us is not None:
        found |= {"latency", "kernel"}
    if maintenance.concerns(request):
        found.add("maintenance")
    if request.kernel is not Kernel.ANY:
        found.add("kernel")
    return frozenset(found)


def observe(root: Root, parts: Collection[str]) -> HostFacts:
    """Return the facts of a host; parts that are not selected are unknown.

    :param root: where the host's files are.
    :param parts: some of :data:`sriov_rt.facts.PARTS`.
    """
    name = os.uname().nodename
    found = {each: _part(root, each, parts) for each in facts.PARTS}
    if "labels" in parts:
        labels = importlib.import_module("sriov_rt.host.labels")
        found["labels"] = labels.derive(
            found["cpus"], found["kernel"], found["nics"]
        )
    return HostFacts(name, name, time.time(), **found)


def _part(root: Root, name: str, parts: Collection[str]) -> Any:
    if name not in parts or name == "labels":
        return facts.unknown(name, "not needed for this guest")
    if name == "compute":
        return _compute(root)
    module = importlib.import_module(f"sriov_rt.host.{_MODULES[name]}")
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
