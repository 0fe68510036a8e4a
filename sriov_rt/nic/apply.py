# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Doing what plans say, and reading back that it is so."""

import logging
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.nic import driver_binding
from sriov_rt.nic import errors
from sriov_rt.nic import verify
from sriov_rt.nic import waiting
from sriov_rt.nic import writer
from sriov_rt.nic.families import THROUGH_PF
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import FilterRelease
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.model import VfState
from sriov_rt.nic.plan import Plan
from sriov_rt.nic.waiting import Clock

LOG = logging.getLogger(__name__)

#: How long a VF may take to be as it was set, seconds: its driver asks for
#: the MAC anew after a reset by the PF.
SETTLED_S = 3.0

Observe = Callable[[Collection[int]], Mapping[int, VfState]]


def apply(
    kernel: Kernel,
    family: Family,
    plans: Sequence[Plan],
    observe: Observe,
    clock: Clock,
) -> tuple[VfState, ...]:
    """Apply plans for VFs of one PF and return how those VFs are then.

    :param observe: reads the VFs with these indices, by one request.
    :raises VerifyFailed: if the kernel says something else afterwards.
    :raises FiltersRemain: if all is as planned, but a VF must not be handed
        to another tenant.
    """
    named = {each.vf.index: each for each in plans}
    written = {
        index: each
        for index, each in named.items()
        if any(getattr(each.payload, name) is not None for name in THROUGH_PF)
    }
    for each in plans:
        if _ends_trust(family, each):
            kernel.mark_filters(each.vf)
    left_out = writer.write_all(kernel, family, written, clock)
    for each in plans:
        _device(kernel, family, each, clock)
        if not each.is_empty:
            LOG.info(
                "vf=%s pf=%s: %s",
                each.vf.address,
                each.vf.pf,
                ", ".join(map(str, each.steps)) or _unseen(each),
            )
    found = _verified(named, left_out, observe, clock)
    for each in plans:
        if each.remains is not None:
            raise errors.FiltersRemain(f"{each.vf}", each.remains, each.vf.pf)
    return found


def _ends_trust(family: Family, wanted: Plan) -> bool:
    """Tell whether a PF keeps filters that a VF could set until now."""
    return family.filter_release is FilterRelease.REMAKE and any(
        step.attribute is Attribute.TRUST and step.before
        for step in wanted.steps
    )


def _unseen(done: Plan) -> str:
    """Return what was done that changed no attribute."""
    if done.rebind is not None:
        return "driver bound again"
    return f"mac {done.payload.mac} set through {done.vf.pf}"


def _device(
    kernel: Kernel, family: Family, wanted: Plan, clock: Clock
) -> None:
    """Bind the VF's driver and set its interface."""
    changed = {step.attribute for step in wanted.steps}
    mac = wanted.expect.mac
    if Attribute.DRIVER in changed:
        driver = wanted.expect.driver
        driver_binding.bind(kernel, family, wanted.vf, driver, mac, clock)
    elif wanted.rebind is not None:
        driver = kernel.device(wanted.vf).driver
        driver_binding.bind(kernel, family, wanted.vf, driver, mac, clock)
    inner = VfSettings(
        **{
            each: getattr(wanted.expect, each)
            for each in (Attribute.MTU, Attribute.PROMISC, Attribute.ALLMULTI)
            if each in changed
        }
    )
    if inner == VfSettings():
        return
    # Looked up now: a driver that was bound makes a new interface.
    netdev = kernel.device(wanted.vf).netdev
    if netdev is None:
        raise errors.NoSuchDevice(
            f"{wanted.vf}", None, "its interface has gone"
        )
    kernel.set_netdev(netdev, inner)


def _verified(
    plans: Mapping[int, Plan],
    left_out: Mapping[int, frozenset[Attribute]],
    observe: Observe,
    clock: Clock,
) -> tuple[VfState, ...]:
    found: Mapping[int, VfState] = {}
    differing: dict[int, tuple[tuple[str, object, object], ...]] = {}

    def settled() -> bool | None:
        nonlocal found
        found = observe(tuple(plans))
        differing.clear()
        for index, each in plans.items():
            differs = verify.differences(
                each.expect,
                found[index],
                left_out.get(index, frozenset()),
            )
            if differs:
                differing[index] = differs
        return None if differing else True

    if waiting.until(clock, SETTLED_S, settled) is None:
        index, differs = next(iter(differing.items()))
        raise errors.VerifyFailed(f"{plans[index].vf}", differs)
    return tuple(found[index] for index in plans)
