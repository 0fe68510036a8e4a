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
from typing import Any

from sriov_rt import rtnetlink
from sriov_rt.vif import errors
from sriov_rt.vif import taps
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.places import IFF_UP
from sriov_rt.vif.places import Place
from sriov_rt.vif.places import mode_of
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.places import verify

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
    with opened(what.namespace, what.space) as place, opened(None) as own:
        wanted = _wanted(what, parent, place.descriptor)
        try:
            with telling(what.name, f"make a {what.kind} on {what.parent}"):
                _add(own, wanted)
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


def _wanted(
    what: Subinterface, parent: int, target: int | None
) -> dict[str, Any]:
    """Return a subinterface as IPRoute.link takes it.

    Its alias is left out: the kernel takes none here (rtnl_create_link in
    net/core/rtnetlink.c).

    :param parent: index, in the caller's namespace.
    :param target: descriptor of the namespace; None for the caller's. To
        name the parent's to a socket in there would do as well, but Linux
        6.1 makes it in the parent's then and moves it: it is down, and its
        name may be taken there (rtnl_newlink_create in net/core/rtnetlink.c).
    """
    found = {
        "index": what.index,
        "ifname": what.name,
        "kind": what.kind,
        "link": parent,
        "net_ns_fd": target,
        "address": what.mac,
        "mtu": what.mtu,
        **mode_of(what.kind, what.mode),
    }
    if what.up:
        found |= {"flags": IFF_UP, "change": IFF_UP}
    return {key: value for key, value in found.items() if value is not None}


def _add(own: Place, wanted: dict[str, Any]) -> None:
    """Have an interface made, in spite of who looks (see
    :func:`rtnetlink.is_idle`)."""
    for _ in range(TRIES):
        try:
            own.link("add", **wanted)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            time.sleep(PAUSE_S)
        else:
            return
    own.link("add", **wanted)


def _label(place: Place, what: Subinterface, parent: int) -> Link:
    """Give a new subinterface its alias, and read it back."""
    index = what.index or 0
    with telling(what.name, "set the alias"):
        place.link("set", index=index, ifalias=what.alias)
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
        place.link("del", index=index)
