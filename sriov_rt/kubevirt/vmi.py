# SPDX-License-Identifier: Apache-2.0

"""A VirtualMachineInstance as KubeVirt passes it to hooks. Pure."""

import dataclasses
import re
import types
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.guest import xml
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.request.guest_request import GuestRequest
from sriov_rt.request.words import DeviceClass
from sriov_rt.request.words import Guest
from sriov_rt.request.words import Request

#: Prefix of our annotations' names; the name of an extra spec follows.
PREFIX = "sriov-rt.openstack.org/"

#: ``off`` removes the guest agent's channel from the domain.
AGENT = "guest_agent"

#: The longest VMI that is accepted, bytes: above etcd's limit of 1.5 MiB.
MAX_VMI = 2 * 1024 * 1024

#: A UID: a UUID in lower case (apimachinery's pkg/util/uuid).
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: Extra specs that have an annotation: those that a hook can apply or check.
SUPPORTED = ("realtime", "kernel", "max_latency_us", "guest", "keep")

#: Extra specs that have no annotation, and what a VMI uses in their place.
_ELSEWHERE: Mapping[str, str] = types.MappingProxyType(
    {
        "node_selector": "use the VMI's spec.nodeSelector or affinity",
        "nic": "the VMI's spec.networks name the network and so the NIC",
        "vif": "the VMI's spec.networks and interfaces say it",
        "onload": "Onload accelerates processes of pods, not guests",
        "onload_profile": "Onload accelerates processes of pods, not guests",
        "vcpu_sched": "virt-handler sets it for spec.domain.cpu.realtime",
        "iothread_sched": "virt-launcher may not set it",
        "emulator_sched": "virt-launcher may not set it",
    }
)


class VmiRejected(exceptions.SriovRtError, ValueError):
    """A document is not a VMI, or its annotations are invalid.

    :param problem: a clause, with what to do.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclasses.dataclass(frozen=True, slots=True)
class Vmi:
    """VMI, as far as hooks read it.

    :param guest_request: request of its annotations, as extra specs.
    :param request: the same request, parsed.
    :param keeps: devices that stay, whatever the annotations request.
    :param is_realtime: whether ``spec.domain.cpu.realtime`` is set.
    :param mask: the realtime vCPUs in its ``mask``; None for all.
    :param interfaces: names of its SR-IOV interfaces.
    :param has_devices: whether it has any device of the host.
    """

    namespace: str
    name: str
    uid: str
    guest_request: GuestRequest
    request: Request
    keeps: frozenset[DeviceClass]
    is_realtime: bool
    mask: CpuSet | None
    interfaces: tuple[str, ...]
    has_devices: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def domain(self) -> str:
        """The name of its domain (VMINamespaceKeyFunc of KubeVirt's api)."""
        return f"{self.namespace}_{self.name}"


def parse(document: str | bytes) -> Vmi | None:
    """Return a VMI with annotations of ours; None for one without any.

    :param document: JSON, as KubeVirt passes it.
    :raises VmiRejected: if it is not a VMI, or an annotation is outside the
        grammar.
    """
    try:
        plain = documents.plain(document, MAX_VMI)
        metadata = _object(plain, "metadata")
        specs = _extra_specs(_object(metadata, "annotations"))
        return _vmi(plain, metadata, specs) if specs else None
    except codec.SchemaError as error:
        raw = document if isinstance(document, bytes) else document.encode()
        if PREFIX.encode() not in raw:
            # A document without our prefix requests nothing.
            return None
        raise VmiRejected(
            f"the VMI cannot be read: {error}; check that KubeVirt and "
            "sriov-rt are of releases that work together"
        ) from None


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """Identity of the VMI that a call concerns.

    :param uid: empty if it is unknown.
    """

    uid: str = ""
    name: str = "?"

    def __str__(self) -> str:
        return self.name


def identity(document: bytes) -> Identity:
    """Return the identity of a document's VMI, even if it is invalid."""
    try:
        metadata = _object(documents.plain(document, MAX_VMI), "metadata")
        name = f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}"
        return Identity(_uid(metadata), name if name.isprintable() else "?")
    except codec.SchemaError:
        return Identity()


def _vmi(
    plain: Any, metadata: Mapping[str, Any], specs: Mapping[str, str]
) -> Vmi:
    domain = _object(_object(plain, "spec"), "domain")
    realtime = _object(domain, "cpu").get("realtime")
    devices = _object(domain, "devices")
    interfaces = _sriov(devices)
    guest_request = GuestRequest(
        {f"sriov_rt:{n}": t for n, t in specs.items() if n in SUPPORTED}
    )
    return Vmi(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_uid(metadata),
        guest_request=guest_request,
        request=_request(specs, guest_request),
        keeps=_NONE if specs.get(AGENT) == _OFF else _AGENTS,
        is_realtime=isinstance(realtime, dict),
        mask=_mask(realtime),
        interfaces=interfaces,
        has_devices=bool(interfaces or devices.get("hostDevices")),
    )


def _uid(metadata: Mapping[str, Any]) -> str:
    text = _text(metadata, "uid")
    if not _UID.fullmatch(text):
        raise codec.SchemaError("metadata.uid", "UUID expected")
    return text


def _extra_specs(annotations: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for key, value in annotations.items():
        if key.startswith(PREFIX):
            if type(value) is not str:
                raise codec.SchemaError(
                    f"metadata.annotations.{key}", "text expected"
                )
            found[key.removeprefix(PREFIX)] = value
    return found


def _request(specs: Mapping[str, str], guest_request: GuestRequest) -> Request:
    problems = [_problem(name) for name in specs if name not in _KNOWN]
    agent = specs.get(AGENT, _ON)
    if agent not in (_ON, _OFF):
        problems.append(f"{PREFIX}{AGENT}: set it to '{_ON}' or '{_OFF}'")
    request = Request()
    try:
        request = requests.parse(guest_request.extra_specs)
    except requests.RequestError as error:
        problems += [
            f"{PREFIX}{key.partition(':')[2]}: {text}"
            for key, text in error.problems.items()
        ]
    if problems:
        raise VmiRejected(
            f"the VMI's annotations are invalid ({'; '.join(problems)}); "
            "correct them in the VM's template"
        )
    if agent == _ON:
        _check_agent(request)
    return request


_KNOWN = frozenset({*SUPPORTED, AGENT})
_ON, _OFF = "on", "off"

#: Without this channel there is no AgentConnected, exec probe or freeze.
_AGENTS = frozenset({DeviceClass.CHANNEL})
_NONE: frozenset[DeviceClass] = frozenset()


def _problem(name: str) -> str:
    shown = name if len(name) <= 63 and name.isprintable() else repr(name[:63])
    why = _ELSEWHERE.get(name)
    if why is not None:
        return f"{PREFIX}{shown} is not for KubeVirt: {why}"
    known = ", ".join((*SUPPORTED, AGENT))
    return f"{PREFIX}{shown} is unknown, one of {known} expected"


def _check_agent(request: Request) -> None:
    if request.guest is Guest.BARE:
        raise VmiRejected(
            f"{PREFIX}guest=bare allows no virtio and the guest agent's "
            f"channel is virtio; set {PREFIX}{AGENT}=off (then there is no "
            "AgentConnected, no exec probe and no freeze), or "
            f"{PREFIX}guest=lean"
        )


def _mask(realtime: Any) -> CpuSet | None:
    text = realtime.get("mask") if isinstance(realtime, dict) else None
    if type(text) is not str or not text:
        return None
    try:
        return xml.cpuset(text)
    except xml.DomainRejected as error:
        raise VmiRejected(
            f"spec.domain.cpu.realtime.mask: {error.problem}; give vCPUs "
            "such as 0-3,^1"
        ) from None


def _sriov(devices: Mapping[str, Any]) -> tuple[str, ...]:
    every = devices.get("interfaces") or []
    if type(every) is not list or any(type(e) is not dict for e in every):
        raise codec.SchemaError("spec.domain.devices.interfaces", "a list")
    return tuple(
        _text(each, "name") for each in every if each.get("sriov") is not None
    )


def _object(value: Any, key: str) -> Mapping[str, Any]:
    if type(value) is not dict:
        raise codec.SchemaError("", "an object expected")
    found = value.get(key)
    if found is None:
        return {}
    if type(found) is not dict:
        raise codec.SchemaError(key, "an object expected")
    return found


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key, "")
    if type(found) is not str:
        raise codec.SchemaError(key, "text expected")
    return found
