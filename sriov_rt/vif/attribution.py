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


"""Which of a host's links are a port's, by their alias or the journal."""

from collections.abc import Sequence

from sriov_rt.nic.words import VfState
from sriov_rt.vif import alias
from sriov_rt.vif.edge import Link
from sriov_rt.vif.entries import Action
from sriov_rt.vif.entries import Entry
from sriov_rt.vif.view import View


def subinterfaces(entry: Entry, view: View) -> Sequence[Link]:
    """Return a port's subinterfaces, with or without their alias."""
    found = [link for link, _ in view.port(entry.port) if link.kind]
    if entry.action != Action.PLUG:
        return found
    parent = view.here(entry.parent)
    if parent is None:
        return found
    # The kernel makes it before it takes its alias. Another of that name,
    # kind, parent and place is nobody's: there was none at the intent.
    made = (entry.interface, entry.kind, "", entry.namespace)
    return found + [
        each
        for each in view.children(parent)
        if (each.name, each.kind, each.alias, each.namespace) == made
    ]


def whole(entry: Entry, view: View) -> tuple[Link | None, VfState | None]:
    """Return the interface and the VF of a port, as far as they are there."""
    for link, _ in view.port(entry.port):
        vf = view.vf_of(link)
        if link.kind or (vf and entry.vf not in (None, vf.id.address)):
            continue
        return link, vf
    vf = None if entry.vf is None else view.vf_at(entry.vf)
    if vf is None or vf.netdev is None:
        return None, vf
    bare = view.here(vf.netdev)
    if bare is None or not alias.is_free(bare.alias) or view.children(bare):
        return None, None
    return bare, vf
