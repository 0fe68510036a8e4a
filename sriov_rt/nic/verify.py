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

"""Whether a VF is as it should be, by what the kernel says of it."""

from collections.abc import Collection
from typing import Any

from sriov_rt.nic.families import Attribute
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.model import VfState


def differences(
    expect: VfSettings,
    found: VfState,
    beside: Collection[Attribute] = (),
) -> tuple[tuple[str, Any, Any], ...]:
    """Return (attribute, wanted, found) of each that is not as expected.

    What the driver does not report cannot be compared.

    :param beside: attributes not to look at.
    """
    told = []
    for each in Attribute:
        wanted, got = getattr(expect, each), getattr(found.settings, each)
        if wanted is None or got is None or each in beside:
            continue
        if wanted != got:
            told.append((str(each), wanted, got))
    inner = found.device.mac
    if inner is not None and expect.mac not in (None, NO_MAC, inner):
        told.append(("the interface's mac", expect.mac, inner))
    return tuple(told)
