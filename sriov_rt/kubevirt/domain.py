# SPDX-License-Identifier: Apache-2.0

"""A domain made as its VMI's annotations ask."""

import time
from collections.abc import Callable

from sriov_rt import facts
from sriov_rt.facts import HostFacts
from sriov_rt.guest import engine
from sriov_rt.guest.admission import Manager
from sriov_rt.guest.admission import admit
from sriov_rt.guest.engine import Rendered
from sriov_rt.guest.sentences import KUBEVIRT
from sriov_rt.host.root import Root
from sriov_rt.kubevirt import vmi as vmis
from sriov_rt.kubevirt.errors import HookRefused
from sriov_rt.kubevirt.pins import Pins
from sriov_rt.kubevirt.vmi import Vmi
from sriov_rt.parse.cpulist import CpuSet

_UNSEEN = "a virt-launcher pod does not show it"


def vmi_of(document: str | bytes) -> Vmi | None:
    """Return a VMI that asks for something; None for any other.

    :raises HookRefused: if it cannot be told what it asks for.
    """
    try:
        return vmis.parse(document)
    except vmis.VmiRejected as error:
        raise HookRefused(str(error)) from None


def render(
    domain: str | bytes, vmi: Vmi, observe: Callable[[], HostFacts]
) -> Rendered:
    """Return a domain that is what a VMI asks. Pure but for the facts.

    :param observe: gives the facts of the node, for a realtime VMI; those of
        its CPUs are read.
    :raises HookRefused: with every Reason, in the VMI's words.
    """
    manager = Manager(
        name=KUBEVIRT,
        keeps=vmi.keeps,
        hooks={"strip": engine.OWN_HOOKS["strip"], "pins": Pins(vmi)},
        # A pod shows its node's CPUs alone; the node hook judges the host.
        judges_host=False,
    )
    found = observe() if vmi.request.realtime else None
    try:
        # Which pod has which pCPUs is the kubelet's account.
        return admit(domain, vmi.guest_request, found, manager, taken=CpuSet())
    except engine.Refused as refused:
        raise HookRefused(str(refused)) from None


def node_facts(root: Root) -> HostFacts:
    """Return what a container in a pod can see of its node: its CPUs.

    /proc/cmdline and /sys/devices/system are the same in every container.
    """
    # Here, for most VMIs are rendered without.
    from sriov_rt.host import cpus

    parts = {name: facts.unknown(name, _UNSEEN) for name in facts.PARTS}
    parts["cpus"] = cpus.observe(root)
    return HostFacts("", "", time.time(), **parts)
