# SPDX-License-Identifier: Apache-2.0

"""State of the kubelet's CPU manager, from its checkpoint file."""

import json
from typing import Any

from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.text import masked

#: The longest accepted file, in bytes: 110 pods (the kubelet's default
#: maxPods) with a few containers each take about 20 kB.
MAX_TEXT = 1024 * 1024

#: The most containers with static CPUs that are accepted.
MAX_CONTAINERS = 8192

#: The longest name of a pod or container (RFC 1123, Kubernetes).
_MAX_NAME = 253

_STATIC = "static"

_WHAT = "state of the kubelet's CPU manager"

#: A pod's UID, a container's name and its CPUs.
Container = tuple[str, str, CpuSet]


def parse_cpu_manager_state(
    text: str,
) -> tuple[tuple[Container, ...], CpuSet | None]:
    """Return the containers with static CPUs, sorted, and the shared CPUs.

    The format is that of ``cpu_manager_state``: CPUManagerCheckpointV2 of
    Kubernetes' pkg/kubelet/cm/cpumanager/state/checkpoint.go. Its checksum
    is specific to Go and is not checked.

    :returns: the shared CPUs are None unless the policy is ``static``: then
        the kubelet confines no container.
    :raises ParseError: for another format.
    """
    errors.check_length(_WHAT, text, MAX_TEXT)
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.ParseError(_WHAT, text, "JSON expected") from error
    policy = _member(plain, "policyName", text)
    entries = plain.get("entries")
    if type(policy) is not str or type(entries) not in (dict, type(None)):
        raise errors.ParseError(_WHAT, text, "a policy and entries expected")
    if policy != _STATIC:
        return (), None
    found: list[Container] = []
    for pod, containers in (entries or {}).items():
        if type(containers) is not dict:
            raise errors.ParseError(_WHAT, text, "containers expected")
        for name, cpus in containers.items():
            if len(found) == MAX_CONTAINERS:
                raise errors.ParseError(
                    _WHAT, text, f"at most {MAX_CONTAINERS} containers"
                )
            found.append((_name(pod), _name(name), _cpus(cpus, text)))
    shared = _cpus(_member(plain, "defaultCpuSet", text), text)
    return tuple(sorted(found, key=lambda each: each[:2])), shared


def _member(plain: Any, name: str, text: str) -> Any:
    if type(plain) is not dict or name not in plain:
        raise errors.ParseError(_WHAT, text, f"{name} expected")
    return plain[name]


def _name(text: str) -> str:
    return masked(text[:_MAX_NAME])


def _cpus(cpus: Any, text: str) -> CpuSet:
    if type(cpus) is not str:
        raise errors.ParseError(_WHAT, text, "a CPU list expected")
    return cpulist.parse_cpu_list(cpus)
