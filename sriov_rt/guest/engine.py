# SPDX-License-Identifier: Apache-2.0

"""Rendering of a domain document through the guest hooks."""

import dataclasses
import types
from collections.abc import Mapping

from sriov_rt import exceptions
from sriov_rt.facts import HostFacts
from sriov_rt.guest import metadata
from sriov_rt.guest import report
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.domain import serialise
from sriov_rt.guest.hook import Context
from sriov_rt.guest.hook import Hook
from sriov_rt.guest.hook import Pinning
from sriov_rt.guest.pin import Pin
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.report import Report
from sriov_rt.guest.schedule import Schedule
from sriov_rt.guest.strip import Strip
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.reason import Reason
from sriov_rt.reason import first_of
from sriov_rt.request.words import Request

#: The hooks of this project, by name, in their order: pinning and scheduling
#: work on the devices that stripping has left.
OWN_HOOKS: Mapping[str, Hook] = types.MappingProxyType(
    {"strip": Strip(), "pin": Pin(), "schedule": Schedule()}
)

#: The most Reasons in the text of a refusal.
_MOST = 8


class Refused(exceptions.SriovRtError):
    """The domain cannot satisfy the Request, and is left unchanged.

    :param reasons: at least one.
    """

    def __init__(self, reasons: tuple[Reason, ...]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return first_of([each.message for each in self.reasons], _MOST, "; ")


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A domain document after the hooks, and what they did."""

    xml: str
    report: Report


def render(
    xml: str | bytes,
    request: Request,
    facts: HostFacts | None = None,
    pinning: Pinning | None = None,
    hooks: Mapping[str, Hook] | None = None,
    *,
    taken: CpuSet | None = None,
) -> Rendered:
    """Return a domain document that satisfies a Request. Pure.

    Rendering is idempotent.

    :param xml: a libvirt domain, at most MAX_DOCUMENT bytes.
    :param facts: facts of the host that will run it; without any, changes
        that need them are skipped and noted in the report.
    :param pinning: for a domain without pins, as
        :func:`sriov_rt.parse.pinning.parse_pinning` gives it.
    :param hooks: name to hook, in their order; :data:`OWN_HOOKS` by default.
    :param taken: pCPUs of other realtime guests on the host.
    :raises DomainRejected: if it is not a domain, or not a safe one.
    :raises Refused: with the Reasons of all hooks.
    """
    domain = parse_domain(xml)
    context = Context(request, facts, pinning, taken or CpuSet())
    recorders = []
    refusals: list[Reason] = []
    for name, hook in (OWN_HOOKS if hooks is None else hooks).items():
        recorder = Recorder(name)
        hook.apply(domain, context, recorder)
        recorders.append(recorder)
        refusals += recorder.refusals
    if refusals:
        raise Refused(tuple(refusals))
    metadata.write(domain, request, recorders, _version())
    return Rendered(serialise(domain), report.build(recorders))


def _version() -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version("sriov-rt")
    except importlib.metadata.PackageNotFoundError:
        # Run from a source tree that is not installed.
        return "unknown"
