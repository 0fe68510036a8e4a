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

"""Binding a VF's driver, until its interface is there with its MAC."""

import logging

from sriov_rt.host.vfs import VFIO
from sriov_rt.nic import errors
from sriov_rt.nic import naming
from sriov_rt.nic import waiting
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.settings import NO_MAC
from sriov_rt.nic.waiting import Clock
from sriov_rt.nic.words import VfDevice
from sriov_rt.nic.words import VfId

LOG = logging.getLogger(__name__)

#: How often a driver is bound. An 82576 still resets one to two seconds
#: after sriov_numvfs; its VFs then come up with random MACs or not at all.
ATTEMPTS = 4
PAUSE_S = 1.0

#: How long an interface may take from its driver's binding, seconds.
INTERFACE_S = 5.0


_HOPELESS = (errors.NotPermitted, errors.NoSuchDevice, errors.DriverMissing)


def bind(
    kernel: Kernel,
    vf: VfId,
    driver: str | None,
    mac: str | None,
    clock: Clock,
) -> VfDevice:
    """Bind a VF to a driver, the same or another, and wait until it is up.

    :param driver: None for the one that the kernel chooses.
    :param mac: what its interface has to have; None or NO_MAC for any.
    :returns: its device afterwards.
    :raises NotReady: if it is not so after all attempts.
    """
    problem = ""
    name = kernel.device(vf).netdev
    for attempt in range(ATTEMPTS):
        if attempt:
            LOG.info("vf=%s: bound again, since %s", vf.address, problem)
            clock.sleep(PAUSE_S)
        try:
            kernel.bind(vf, driver)
        except _HOPELESS:
            raise
        except errors.NicError as error:
            problem = str(error)
            continue
        device = waiting.until(
            clock, INTERFACE_S, lambda: _up(kernel.device(vf), driver)
        )
        if device is None:
            problem = "it has no interface"
        elif mac in (None, NO_MAC, device.mac) or device.netdev is None:
            return naming.keep(kernel, vf, device, name, clock)
        else:
            problem = f"its interface has the MAC {device.mac} and not {mac}"
    raise errors.NotReady(
        f"{vf}",
        "driver",
        f"bound {ATTEMPTS} times, but {problem}",
    )


def _up(device: VfDevice, driver: str | None) -> VfDevice | None:
    if driver is not None and device.driver != driver:
        return None
    if device.driver == VFIO or device.netdev is not None:
        return device
    return None
