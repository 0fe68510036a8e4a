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

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.exceptions import SriovRtError
from sriov_rt.nic.model import VfState
from sriov_rt.vif import host
from sriov_rt.vif.link import Link
from sriov_rt.vif.link import Links
from sriov_rt.vif.links import NetlinkLinks
from sriov_rt.vif.records import Record
from sriov_rt.vif.view import View

#: Port and owner, with why it is quarantined if it is.
Tenant = tuple[str, str]


def of_host(
    states: Sequence[VfState], tell: Callable[[str], None]
) -> Mapping[str, Sequence[Tenant]]:
    """Return the ports on the VFs of this host, by the VF's address.

    :param states: the VFs.
    :param tell: told why there are none, where the records cannot be read.
    """
    try:
        return of(host.records().all())
    except SriovRtError as error:
        tell(f"ports are not shown: {error}")
        return {}


def of(records: Iterable[Record]) -> Mapping[str, Sequence[Tenant]]:
    """Return the ports on VFs, by the VF's address."""
    found: dict[str, list[Tenant]] = {}
    for each in records:
        if each.vf is None:
            continue
        owner = each.owner
        if each.is_quarantined:
            owner += f" (quarantined: {each.reason})"
        found.setdefault(each.vf, []).append((each.port, owner))
    return found


def users(states: Sequence[VfState]) -> Mapping[str, Sequence[str]]:
    """Return who uses VFs, in any network namespace, by the VF's address.

    :param states: the VFs.
    :returns: clauses such as ``port p1 of web``.
    :raises SriovRtError: if the caller may not find that out.
    """
    return users_among(states, host.records().all(), NetlinkLinks())


def users_among(
    states: Sequence[VfState], records: Sequence[Record], links: Links
) -> Mapping[str, Sequence[str]]:
    """Return who uses VFs, by the VF's address; see :func:`users`."""
    ports = of(records)
    view = View(links, _Fixed(states), records)
    view.look_everywhere()
    found: dict[str, Sequence[str]] = {}
    for state in states:
        address = state.id.address
        clauses = [
            f"port {port} of {who}" for port, who in ports.get(address, ())
        ]
        link = None if state.netdev is None else view.on_host(state.netdev)
        if not clauses and link is not None:
            clauses = [_child(each) for each in view.children(link)]
            if not clauses and links.idle(link.name) is False:
                clauses = ["something that cannot be seen"]
        if clauses:
            found[address] = clauses
    return found


def _child(link: Link) -> str:
    where = "" if link.namespace is None else f" in {link.namespace}"
    return f"{link.kind} {link.name}{where}"


class _Fixed:
    """VFs that were read before."""

    def __init__(self, states: Sequence[VfState]) -> None:
        self._states = states

    def list(self) -> Sequence[VfState]:
        return self._states

    def of(self, interface: str) -> VfState | None:
        found = (each for each in self._states if each.netdev == interface)
        return next(found, None)
