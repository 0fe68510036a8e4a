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


"""What a VF's interface is called when it is back on the host."""

import re
from collections.abc import Iterator

from sriov_rt.nic.words import VfId
from sriov_rt.vif import names
from sriov_rt.vif.edge import Link
from sriov_rt.vif.pools import Pools
from sriov_rt.vif.view import View

#: What udev and the kernel call network devices (systemd.net-naming-scheme).
_DEVICE = re.compile(r"(?:en|eth)[A-Za-z0-9]+")


def choose(
    hint: str,
    link: Link,
    vf: VfId | None,
    view: View,
    pools: Pools,
    *,
    sure: bool = False,
) -> str:
    """Return the name of a VF's interface for the host.

    :param hint: the one that it had, out of its alias: root in a container
        can set that, so no name is taken that something else than a NIC
        could be waiting for.
    :param link: the interface as it is now.
    :param vf: whose interface it is; None if that is not known.
    :param sure: the hint is our own journal's.
    """
    named = [hint] if sure else _names(hint, vf, pools)
    for name in named:
        there = view.here(name)
        if there is None or there == link:
            return name
    return names.default(link.alias.split(":")[1]) if link.alias else link.name


def _names(hint: str, vf: VfId | None, pools: Pools) -> Iterator[str]:
    known = any(each.name == hint for each in pools.members)
    if known or _DEVICE.fullmatch(hint):
        yield hint
    if vf is None:
        return
    if hint.startswith(vf.pf):
        yield hint
    # As systemd names it.
    name = f"{vf.pf}v{vf.index}"
    if len(name) <= names.MAX_INTERFACE:
        yield name
