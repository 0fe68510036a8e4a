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

"""Move an interface from one network namespace into another."""

import contextlib

from sriov_rt.vif import errors
from sriov_rt.vif import namespaces
from sriov_rt.vif.edge import Link
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.places import Place
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.places import verify


def move(
    link: Link, namespace: str | None, name: str, space: Identity | None
) -> Link:
    """Move an interface into a namespace and rename it there.

    It stays where it was if that fails.

    :param namespace: None for the caller's own.
    :param name: its name there.
    :param space: which namespace that has to be; None for any of the name.
    :raises NameTaken: if there is an interface of the name.
    """
    with (
        opened(link.namespace, link.space) as source,
        opened(namespace, space) as target,
        contextlib.ExitStack() as stack,
    ):
        into = target.descriptor
        if into is None:
            into = stack.enter_context(namespaces.opened(None))
        if target.find(name) is not None:
            raise errors.NameTaken(name, detail=f"in {_told(namespace)}")
        with telling(link.name, f"move to {_told(namespace)}"):
            try:
                source.link(
                    "set", index=link.index, net_ns_fd=into, ifname=name
                )
            except OSError:
                _bring_back(link, source, target)
                raise
        moved = target.find(name)
    if moved is None:
        raise errors.NoSuchLink(name, detail="gone after it was moved")
    verify(moved, {"mac": link.mac})
    return moved


def _bring_back(link: Link, source: Place, target: Place) -> None:
    """Undo a move that failed half-way, as far as that is needed.

    The kernel moves first, and then the name may be taken (do_setlink in
    net/core/rtnetlink.c).
    """
    with contextlib.suppress(OSError):
        source.link("get", index=link.index)
        return
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        home = source.descriptor
        if home is None:
            home = stack.enter_context(namespaces.opened(None))
        target.link("set", ifname=link.name, net_ns_fd=home)


def _told(namespace: str | None) -> str:
    return "the host" if namespace is None else f"namespace {namespace}"
