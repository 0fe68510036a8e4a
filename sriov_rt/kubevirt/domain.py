# SPDX-License-Identifier: Apache-2.0

"""Rendering of a domain according to its VMI's annotations."""

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
    """Return a VMI that has a request; None for any other.

    :raises HookRefused: if its request cannot be read.
    """
    try:
        return vmis.parse(document)
    except vmis.VmiRejected as error:
        raise HookRefused(str(error)) from None


def render(
    domain: str | bytes, vmi: Vmi, observe: Callable[[], HostFacts]
) -> Rendered:
    """Return a domain that meets a VMI's request. Pure but for the facts.

    :param observe: returns the facts of the node, called for a realtime VMI;
        only those of its CPUs are read.
    :raises HookRefused: with every Reason, in the VMI's terms.
    """
    manager = Manager(
        name=KUBEVIRT,
        keeps=vmi.keeps,
        hooks={"strip": engine.OWN_HOOKS["strip"], "pins": Pins(vmi)},
        # A pod sees only its node's CPUs; the node hook judges the host.
        judges_host=False,
    )
    found = observe() if vmi.request.realtime else None
    try:
        # kubelet accounts for the pCPUs of pods.
        return admit(domain, vmi.guest_request, found, manager, taken=CpuSet())
    except engine.Refused as refused:
        raise HookRefused(str(refused)) from None


def node_facts(root: Root) -> HostFacts:
    """Return the facts that a container sees of its node: its CPUs.

    /proc/cmdline and /sys/devices/system are the same in every container.
    """
    # Imported here because most VMIs are rendered without it.
    from sriov_rt.host import cpus

    parts = {name: facts.unknown(name, _UNSEEN) for name in facts.PARTS}
    parts["cpus"] = cpus.observe(root)
    return HostFacts("", "", time.time(), **parts)
