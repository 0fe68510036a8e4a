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

"""The links of one network namespace, over a socket that is opened in it."""

import contextlib
import dataclasses
import errno
import os
import socket
import types
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import pyroute2

from sriov_rt import rtnetlink
from sriov_rt.vif import errors
from sriov_rt.vif import namespaces
from sriov_rt.vif.link import Link
from sriov_rt.vif.namespaces import Identity

#: Modes of an ipvlan (include/uapi/linux/if_link.h); pyroute2 has names for
#: those of macvlan and macvtap alone.
IPVLAN_MODES: Mapping[str, int] = types.MappingProxyType(
    {"l2": 0, "l3": 1, "l3s": 2}
)


class NamespaceLinks:
    """Links of one namespace.

    :param name: as in Link; None for the caller's.
    :param route: a conversation with its kernel.
    :param descriptor: of its file; None for the caller's.
    """

    def __init__(
        self,
        name: str | None,
        route: pyroute2.IPRoute,
        descriptor: int | None = None,
    ) -> None:
        self.name = name
        self.route = route
        self.descriptor = descriptor
        self.space: Identity | None = None
        if descriptor is not None:
            self.space = namespaces.identity(descriptor)
        self._host_number: int | None = None

    def link(self, command: str, **wanted: Any) -> list[Any]:
        """Make a request on links, and return what answers it.

        :param wanted: as pyroute2's IPRoute.link takes it.
        :raises OSError: as the kernel refuses it.
        """
        with rtnetlink.refused():
            return list(self.route.link(command, **wanted))

    def number(self, descriptor: int) -> int | None:
        """Return which number another namespace has in it, if any."""
        with rtnetlink.refused():
            return rtnetlink.number(self.route, descriptor)

    def host_number(self) -> int | None:
        """Return which number the caller's namespace has in it, if any."""
        if self._host_number is None and self.descriptor is not None:
            with namespaces.opened(None) as own:
                self._host_number = self.number(own)
        return self._host_number

    def all(self) -> list[Link]:
        """Return all links of the namespace, of another's no loopback."""
        with rtnetlink.refused():
            found = rtnetlink.links(self.route)
        if self.name is not None:
            found = [each for each in found if not is_loopback(each)]
        return self._read(found)

    def numbers(self) -> set[int]:
        """Return the numbers that other namespaces have in it."""
        with self._socket() as opened, rtnetlink.refused():
            return rtnetlink.numbers(opened)

    def of_number(self, number: int) -> list[Link]:
        """Return the links of a namespace with a number, no loopback.

        Where their parents are the kernel tells as seen from here.
        """
        with namespaces.opened(None) as own:
            home = self.number(own)
        name = self.name or f"nsid:{number}"
        with self._socket() as opened, rtnetlink.refused():
            found = rtnetlink.links_of(opened, number)
        read = (
            read_link(each, name, home, self.space)
            for each in found
            if not is_loopback(each)
        )
        return [
            dataclasses.replace(each, nsid=number)
            for each in read
            if each is not None
        ]

    def _socket(self) -> socket.socket:
        if self.descriptor is None:
            return rtnetlink.open_socket()
        return namespaces.inside(self.descriptor, rtnetlink.open_socket)

    def _read(self, found: Iterable[Any]) -> list[Link]:
        links = []
        for message in found:
            home = None
            if self.name is not None and _parent_number(message) is not None:
                home = self.host_number()
            each = read_link(message, self.name, home, self.space)
            if each is not None:
                links.append(each)
        return links

    def find(self, name: str) -> Link | None:
        """Return the link of a name, None if there is none."""
        return self._found(name, ifname=name)

    def at(self, index: int) -> Link | None:
        """Return the link of an index, None if there is none."""
        return self._found(str(index), index=index)

    def _found(self, device: str, **wanted: Any) -> Link | None:
        with reporting(device, "look up"):
            try:
                found = self.link(
                    "get", **wanted, ext_mask=rtnetlink.SKIP_STATS
                )
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return None
                raise
            return one(self._read(found), device)


def read_link(
    message: Any,
    namespace: str | None,
    home: int | None,
    space: Identity | None = None,
) -> Link | None:
    """Return the link of a message of pyroute2's.

    :param namespace: where it was requested, as in Link.
    :param home: the number that the caller's namespace has there; None if
        it has none, or is the one where it was requested.
    :param space: which namespace it was requested in, as in Link.
    :returns: None if it tells of one in part, or has no name. A bridge tells
        of its ports, and IPv6 of its settings, in messages of their families.
    """
    name = _text(message.get_attr("IFLA_IFNAME"))
    if message["family"] != socket.AF_UNSPEC or not name:
        return None
    kind, mode = _kind(message)
    flags = message["flags"]
    return Link(
        name=name,
        index=message["index"],
        namespace=namespace,
        kind=kind,
        mode=mode,
        parent=_parent(message, namespace, home),
        mac=message.get_attr("IFLA_ADDRESS") or "",
        mtu=message.get_attr("IFLA_MTU") or 0,
        up=bool(flags & rtnetlink.IFF_UP),
        carrier=bool(message.get_attr("IFLA_CARRIER")),
        alias=_text(message.get_attr("IFLA_IFALIAS")),
        promisc=bool(flags & rtnetlink.IFF_PROMISC),
        allmulti=bool(flags & rtnetlink.IFF_ALLMULTI),
        device=_device(message),
        master=message.get_attr("IFLA_MASTER"),
        space=space,
    )


def is_loopback(message: Any) -> bool:
    """Return whether a link is its namespace's loopback."""
    return bool(message["flags"] & rtnetlink.IFF_LOOPBACK)


def mode_of(kind: str, mode: str) -> dict[str, str | int]:
    """Return the mode of a new link, as IPRoute.link takes it."""
    if kind == "ipvlan":
        return {"ipvlan_mode": IPVLAN_MODES[mode]}
    return {f"{kind}_mode": mode}


def _kind(message: Any) -> tuple[str, str | None]:
    """Return the kind of a link, and its mode if it is of a kind of ours."""
    kind = _text(message.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND"))
    if kind not in ("macvlan", "macvtap", "ipvlan"):
        return kind, None
    mode = message.get_nested(
        "IFLA_LINKINFO", "IFLA_INFO_DATA", f"IFLA_{kind.upper()}_MODE"
    )
    if kind == "ipvlan":
        names = {number: name for name, number in IPVLAN_MODES.items()}
        return kind, names.get(mode)
    return kind, mode if isinstance(mode, str) else None


def _device(message: Any) -> str:
    """Return the PCI address of a link's device; empty for any other."""
    if message.get_attr("IFLA_PARENT_DEV_BUS_NAME") != "pci":
        return ""
    return _text(message.get_attr("IFLA_PARENT_DEV_NAME"))


def _parent_number(message: Any) -> int | None:
    """Return the number of the namespace of a link's parent.

    :returns: None for a parent in the link's own, or none at all.
    """
    found: int | None = message.get_attr("IFLA_LINK_NETNSID")
    return found


def _parent(
    message: Any, namespace: str | None, home: int | None
) -> int | None:
    # It may have the link's own number, in another namespace.
    parent: int | None = message.get_attr("IFLA_LINK")
    if not parent:
        return None
    where = _parent_number(message)
    if where is None:
        return parent if namespace is None else None
    return parent if where == home else None


def _text(found: str | bytes | None) -> str:
    """Return a text as pyroute2 gives it: bytes where it is not UTF-8."""
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return found or ""


@contextlib.contextmanager
def opened(
    name: str | None, known: Identity | None = None, path: str | None = None
) -> Iterator[NamespaceLinks]:
    """Open a namespace for requests.

    :param name: None for the caller's own.
    :param known: which one it has to be. If the name is another's by now, or
        nobody's, it is looked for wherever it is to be found.
    :param path: of its file, where that is known.
    :raises NoSuchNamespace: if there is none of the name, or it has ended.
    """
    if name is None and known is None:
        with rtnetlink.conversation() as route:
            yield NamespaceLinks(None, route)
        return
    name, there = _open(name or "", known, path)
    try:
        with reporting(name, "enter"):
            inside = namespaces.inside(there, rtnetlink.open_socket)
        cookie = namespaces.cookie(inside)
        with rtnetlink.conversation(inside) as route:
            if known is not None and not known.is_now(cookie):
                raise errors.NoSuchNamespace(name, detail="it has ended")
            yield NamespaceLinks(name, route, there)
    finally:
        os.close(there)


def _open(
    name: str, known: Identity | None, path: str | None
) -> tuple[str, int]:
    """Return what a namespace is called now, and its descriptor."""
    try:
        if path is None:
            there = namespaces.descriptor(name)
        else:
            there = namespaces.open_file(path, name)
    except errors.NoSuchNamespace:
        if known is None:
            raise
    else:
        if known is None or namespaces.identity(there) == known:
            return name, there
        os.close(there)
    found = namespaces.find(known)
    if found is not None:
        there = namespaces.open_file(found.path, found.name)
        if namespaces.identity(there) == known:
            return found.name, there
        os.close(there)
    raise errors.NoSuchNamespace(name, detail="it has ended")


@contextlib.contextmanager
def reporting(device: str, what: str) -> Iterator[None]:
    """Raise an OSError from inside as what it means to the operator."""
    try:
        with rtnetlink.refused():
            yield
    except OSError as error:
        code = error.errno or errno.EIO
        said = "" if error.strerror == os.strerror(code) else error.strerror
        detail = f"{what}: {said}" if said else what
        raise errors.from_errno(code, device, detail=detail) from error


def one(found: Sequence[Link], name: str) -> Link:
    """Return the first of the links that were found.

    :raises NoSuchLink: if there is none.
    """
    if not found:
        raise errors.NoSuchLink(name, detail="the kernel reported none")
    return found[0]


def verify(link: Link, wanted: Mapping[str, object]) -> None:
    """Compare what was read with what was requested and is not None.

    :param wanted: fields of the link.
    :raises NotVerified: for the first that differs.
    """
    for key, value in wanted.items():
        found = getattr(link, key)
        if value is not None and found != value:
            raise errors.NotVerified(
                link.name, detail=f"{key} is {found!r}, not {value!r}"
            )
