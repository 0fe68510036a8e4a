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

"""Writing through a PF: packed, repeated while a VF resets, then blamed."""

import logging
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.nic import errors
from sriov_rt.nic import plan
from sriov_rt.nic import waiting
from sriov_rt.nic.families import THROUGH_PF
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.waiting import Clock

LOG = logging.getLogger(__name__)

#: For how long a VF that resets is waited for, seconds: i40e's change of
#: trust takes seconds, igb's PF one to two after sriov_numvfs.
RESETTING_S = 10.0

#: How many VFs one request speaks of: 250 bytes each, and the kernel's list
#: of them has a 16-bit length.
PACKED = 64


def write_all(
    kernel: Kernel,
    family: Family,
    plans: Mapping[int, plan.Plan],
    clock: Clock,
) -> Mapping[int, frozenset[Attribute]]:
    """Write what plans of one PF's VFs have to be written.

    All goes in one request; if that fails, VF by VF and then attribute by
    attribute, so that the error names the one.

    :param plans: index of the VF to its plan; no plan is empty.
    :returns: index to what the NIC does not have, where that is no error.
    :raises NicError: for the first attribute that fails.
    """
    indices = sorted(plans)
    left_out: dict[int, frozenset[Attribute]] = {}
    for start in range(0, len(indices), PACKED):
        some = indices[start : start + PACKED]
        pf = plans[some[0]].vf.pf
        try:
            kernel.write(pf, {each: plans[each].payload for each in some})
        except errors.NicError as error:
            LOG.debug("pf=%s: one by one, since %s", pf, error)
            for each in some:
                left_out[each] = _one(kernel, family, plans[each], clock)
    return left_out


def _one(
    kernel: Kernel, family: Family, wanted: plan.Plan, clock: Clock
) -> frozenset[Attribute]:
    left_out: set[Attribute] = set()
    for group in _groups(wanted.payload):
        part = VfSettings(
            **{each: getattr(wanted.payload, each) for each in group}
        )
        try:
            _patiently(kernel, family, wanted, part, clock)
        except errors.NicError as error:
            blamed = _blame(kernel, wanted, group, error)
            if wanted.required or not isinstance(
                blamed, errors.UnsupportedByNic
            ):
                raise blamed from error
            LOG.warning("vf=%s: left out, since %s", wanted.vf.address, blamed)
            left_out.update(group)
    return frozenset(left_out)


def _groups(payload: VfSettings) -> Iterator[tuple[Attribute, ...]]:
    """Yield what is to be written, as the kernel takes it together."""
    grouped = {each for group in plan.GROUPS for each in group}
    for each in Attribute:
        if each in THROUGH_PF - grouped and getattr(payload, each) is not None:
            yield (each,)
    for group in plan.GROUPS:
        if getattr(payload, group[0]) is not None:
            yield group


def _patiently(
    kernel: Kernel,
    family: Family,
    wanted: plan.Plan,
    part: VfSettings,
    clock: Clock,
) -> None:
    """Write one group, again and again while the VF resets."""
    last: errors.NicError | None = None

    def attempt() -> bool | None:
        nonlocal last
        try:
            kernel.write(wanted.vf.pf, {wanted.vf.index: part})
        except errors.NicError as error:
            if error.code not in family.transient:
                raise
            last = error
            return None
        return True

    if waiting.until(clock, RESETTING_S, attempt) is None:
        code = None if last is None else last.code
        raise errors.TryAgain(
            f"{wanted.vf}",
            None,
            f"still resetting after {RESETTING_S:.0f} s",
            code,
        ) from last


def _blame(
    kernel: Kernel,
    wanted: plan.Plan,
    group: Collection[Attribute],
    error: errors.NicError,
) -> errors.NicError:
    """Return the error with the attribute that it is about.

    :raises NoSuchDevice: if the VF is gone, which drivers call EINVAL.
    """
    if isinstance(error, errors.RefusedByNic):
        kernel.device(wanted.vf)
    changed = [
        step.attribute for step in wanted.steps if step.attribute in group
    ]
    attribute = changed[0] if changed else min(group)
    return type(error)(f"{wanted.vf}", attribute, error.problem, error.code)
