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
import errno
import time

from sriov_rt import rtnetlink
from sriov_rt.vif import errors
from sriov_rt.vif import requests
from sriov_rt.vif import taps
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.places import Place
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.places import verify
from sriov_rt.vif.rtnl import Channel

#: How often to try again where somebody may be looking whether a parent is
#: idle, and the pause between two tries in seconds.
TRIES = 3
PAUSE_S = 0.002


def make(what: Subinterface) -> Link:
    """Make a subinterface with its alias in its namespace.

    What is of its name there already, or comes just then, is somebody
    else's: ours is the one that the kernel gave the index to.

    :raises NotVerified: if it is not as asked for; it is gone then.
    """
    if what.index is None:
        what = dataclasses.replace(what, index=rtnetlink.choose_index())
    with telling(what.parent, "look up"):
        parent = rtnetlink.index_of(what.parent)
    with opened(what.namespace, what.space) as place, Channel() as own:
        request = requests.new_link(what, parent, place.descriptor)
        try:
            with telling(what.name, f"make a {what.kind} on {what.parent}"):
                _ask(own, request)
        except errors.LinkRefused as error:
            if error.code == errno.EINVAL and what.mode == "passthru":
                detail = "something is on it, in some namespace"
                raise errors.ParentTaken(what.parent, detail=detail) from error
            raise
        try:
            return _label(place, what, parent)
        except errors.VifError:
            _delete(place, what.index or 0)
            raise


def _ask(own: Channel, request: bytes) -> None:
    """Have an interface made, in spite of who looks (see
    :func:`rtnetlink.is_idle`)."""
    for _ in range(TRIES):
        try:
            own.ask(request)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            time.sleep(PAUSE_S)
        else:
            return
    own.ask(request)


def _label(place: Place, what: Subinterface, parent: int) -> Link:
    """Give a new subinterface its alias, and read it back."""
    index = what.index or 0
    with telling(what.name, "set the alias"):
        place.channel.ask(requests.set_link(index=index, alias=what.alias))
    made = place.at(index)
    if made is None:
        raise errors.NoSuchLink(what.name, detail="gone after it was made")
    wanted = {
        "kind": what.kind,
        "mode": what.mode,
        "parent": parent,
        "name": what.name,
        "alias": what.alias,
        "mac": what.mac,
        "mtu": what.mtu,
        "up": what.up,
    }
    verify(made, wanted)
    if made.kind == "macvtap" and what.namespace is None:
        taps.ensure(made.name, made.index)
    return made


def _delete(place: Place, index: int) -> None:
    # The kernel gave the index to what it made: it is nobody else's.
    with contextlib.suppress(OSError):
        place.channel.ask(requests.delete_link(index))
