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

"""Make a macvlan, macvtap or ipvlan where it is to be."""

import contextlib
import socket
from collections.abc import Iterator

from sriov_rt.vif import answers
from sriov_rt.vif import errors
from sriov_rt.vif import requests
from sriov_rt.vif import taps
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.places import Expect
from sriov_rt.vif.places import Place
from sriov_rt.vif.places import one
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.places import verify
from sriov_rt.vif.rtnl import Channel


def make(what: Subinterface, expect: Expect) -> Link:
    """Make a subinterface with its alias in its namespace.

    :param expect: is told of the namespace before anything is made.
    :raises NotVerified: if it is not as asked for; it is gone then.
    """
    parent = _index(what.parent)
    with opened(what.namespace, expect=expect) as place, Channel() as own:
        with telling(what.name, f"make a {what.kind} on {what.parent}"):
            own.ask(requests.new_link(what, parent, place.descriptor))
        with _undoing(place, what.name):
            return _christen(place, what, parent)


def _christen(place: Place, what: Subinterface, parent: int) -> Link:
    """Give a new subinterface its alias, and look at it."""
    flags = {answers.IFF_UP: True} if what.up else None
    with telling(what.name, "set the alias"):
        found = place.links(
            requests.set_link(name=what.name, alias=what.alias, flags=flags),
            requests.get_link(name=what.name),
        )
        made = one(found, what.name)
    wanted = {
        "kind": what.kind,
        "mode": what.mode,
        "parent": parent,
        "alias": what.alias,
        "mac": what.mac,
        "mtu": what.mtu,
        "up": what.up,
    }
    verify(made, wanted)
    if what.kind == "macvtap" and what.namespace is None:
        taps.ensure(made.name, made.index)
    return made


@contextlib.contextmanager
def _undoing(place: Place, name: str) -> Iterator[None]:
    """Delete a subinterface again if what follows fails."""
    try:
        yield
    except errors.VifError:
        with contextlib.suppress(OSError):
            found = place.links(requests.get_link(name=name))
            for each in found:
                place.channel.ask(requests.delete_link(each.index))
        raise


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise errors.NoSuchLink(name) from error
