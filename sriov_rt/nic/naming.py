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

"""An interface keeps its name when its driver is bound again."""

import logging

from sriov_rt.nic import errors
from sriov_rt.nic import waiting
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.waiting import Clock

LOG = logging.getLogger(__name__)

#: How long it is tried to give it its old name, seconds.
RENAME_S = 2.0

# What udev, or who has the name now, may put right.
_PASSING = (errors.NoSuchDevice, errors.VfBusy, errors.NameTaken)


def keep(
    kernel: Kernel,
    vf: VfId,
    device: VfDevice,
    name: str | None,
    clock: Clock,
) -> VfDevice:
    """Give a VF's new interface the name of the old one, if it can be.

    The configuration has that name, and the kernel makes up another; udev
    may be renaming the interface at this moment, too.

    :param device: the VF's, as it is now.
    :param name: of the old interface; None for none.
    :returns: its device afterwards.
    """
    if name is None or device.netdev is None:
        return device
    problem: errors.NicError | None = None

    def renamed() -> VfDevice | None:
        nonlocal problem
        found = kernel.device(vf)
        if found.netdev == name:
            return found
        try:
            kernel.rename(found.netdev or "", name)
        except _PASSING as error:
            problem = error
        return None

    found = waiting.until(clock, RENAME_S, renamed)
    if found is not None:
        return found
    LOG.warning(
        "vf=%s: its interface was %s and has another name now (%s); rename "
        "it, or name it by udev or systemd.link",
        vf.address,
        name,
        problem,
    )
    return kernel.device(vf)
