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
import dataclasses
import socket
from typing import Protocol

from sriov_rt.vif import errors
from sriov_rt.vif import requests
from sriov_rt.vif import taps
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.places import Place
from sriov_rt.vif.places import one
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.places import verify
from sriov_rt.vif.rtnl import Channel
from sriov_rt.vif.space import Space


class Watched(Protocol):
    """What is needed of :class:`sriov_rt.vif.census.Census`."""

    def expect(self, name: str, descriptor: int) -> Space | None:
        """Get to know a namespace that is about to get a link."""

    def heard(self, space: Space, name: str) -> Link | None:
        """Return a link as the kernel has last told of it."""


def make(what: Subinterface, watched: Watched) -> Link:
    """Make a subinterface with its alias in its namespace.

    :param watched: is told of the namespace before anything is made.
    :raises NotVerified: if it is not as asked for; it is gone then.
    """
    parent = what.parent_index or _index(what.parent)
    with (
        opened(what.namespace, expect=watched.expect) as place,
        Channel() as own,
    ):
        with telling(what.name, f"make a {what.kind} on {what.parent}"):
            own.ask(requests.new_link(what, parent, place.descriptor))
        try:
            return _christen(place, what, parent, watched)
        except errors.VifError:
            _delete(place, what.name)
            raise


def _christen(
    place: Place, what: Subinterface, parent: int, watched: Watched
) -> Link:
    """Give a new subinterface its alias, and look at it."""
    with telling(what.name, "set the alias"):
        place.channel.ask(requests.set_link(name=what.name, alias=what.alias))
        made = None
        # The kernel tells of no alias that is set while it is down.
        if what.up and place.space is not None:
            made = watched.heard(place.space, what.name)
        if made is None or made.alias != what.alias:
            asked = requests.get_link(name=what.name)
            made = one(place.links(asked), what.name)
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
    if made.namespace != place.name:
        # It is known by another name, too.
        made = dataclasses.replace(made, namespace=place.name)
    if what.kind == "macvtap" and what.namespace is None:
        taps.ensure(made.name, made.index)
    return made


def _delete(place: Place, name: str) -> None:
    with contextlib.suppress(OSError):
        for each in place.links(requests.get_link(name=name)):
            place.channel.ask(requests.delete_link(each.index))


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise errors.NoSuchLink(name) from error
