# SPDX-License-Identifier: Apache-2.0

"""The domain hook: MutateDomain, in the virt-launcher pod."""

import logging
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from sriov_rt.facts import HostFacts
from sriov_rt.kubevirt import contract
from sriov_rt.kubevirt.domain import render
from sriov_rt.kubevirt.domain import vmi_of
from sriov_rt.kubevirt.errors import CallRejected
from sriov_rt.kubevirt.errors import HookRefused
from sriov_rt.kubevirt.vmi import Vmi
from sriov_rt.kubevirt.vmi import identity

LOG = logging.getLogger(__name__)


class DomainHook:
    """Renders a domain according to its VMI's annotations.

    :param observe: returns the facts of the node.
    """

    def __init__(self, observe: Callable[[], HostFacts]) -> None:
        self._observe = observe

    def mutate_domain(self, data: bytes) -> bytes:
        """Answer a MutateDomainRequest with a MutateDomainResponse.

        :raises CallRejected: if the request is malformed.
        :raises HookRefused: if the domain cannot meet the VMI's request.
        """
        call = parse("MutateDomainRequest", data)
        answer = contract.message("MutateDomainResponse")
        domain: bytes = call.domain
        try:
            vmi = vmi_of(call.vmi)
            if vmi is not None:
                domain = self._mutated(call, vmi)
        except HookRefused as error:
            LOG.error("vmi=%s refused: %s", identity(call.vmi), error)
            raise
        answered: bytes = answer(domain=domain).SerializeToString()
        return answered

    def _mutated(self, call: Any, vmi: Vmi) -> bytes:
        if call.domain_type != contract.LIBVIRT:
            raise CallRejected(
                f"{vmi}: domains of type {call.domain_type[:64]!r} are "
                "unknown; sriov-rt takes libvirt's alone"
            )
        context = call.sidecar_context.invocation_context
        if context == contract.MIGRATION_TARGET:
            LOG.info(
                "vmi=%s left alone: the guest that migrates keeps the domain "
                "of its source",
                vmi,
            )
            whole: bytes = call.domain
            return whole
        found = render(call.domain, vmi, self._observe)
        LOG.info("vmi=%s %s", vmi, found.report.summary())
        return found.xml.encode()


def parse(name: str, data: bytes) -> Any:
    """Return a message of the contract.

    :raises CallRejected: if it is malformed.
    """
    try:
        return contract.message(name).FromString(data)
    except DecodeError:
        raise CallRejected(
            f"the call holds no {name} of {contract.PACKAGE}; check that "
            "KubeVirt and sriov-rt are of releases that work together"
        ) from None
