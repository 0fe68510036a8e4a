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


"""Which ports are on the VFs of a host, wherever their interfaces are."""

import contextlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.nic.words import VfState
from sriov_rt.vif import report
from sriov_rt.vif.edge import Link
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.netlink import NetlinkLinks
from sriov_rt.vif.view import Fixed
from sriov_rt.vif.view import View

#: Port and owner.
Tenant = tuple[str, str]


def here(
    states: Sequence[VfState], tell: Callable[[str], None]
) -> Mapping[str, Sequence[Tenant]]:
    """Return the ports on the VFs of this host, by the VF's address.

    :param states: the VFs.
    :param tell: told why there are none, where the caller may not look into
        other namespaces.
    """
    with contextlib.closing(NetlinkLinks()) as links:
        try:
            return of(states, links.all(everywhere=True))
        except VifError as error:
            tell(f"ports in other namespaces are not shown: {error}")
            return {}


def of(
    states: Sequence[VfState], links: Sequence[Link]
) -> Mapping[str, Sequence[Tenant]]:
    """Return the ports on VFs, by the VF's address.

    :param links: of every namespace.
    """
    found: dict[str, list[Tenant]] = {}
    for each in report.plugged(View(list(links), Fixed(states))):
        if each.vf is not None:
            found.setdefault(each.vf, []).append((each.port, each.owner))
    return found
