# SPDX-License-Identifier: Apache-2.0

"""Links of one network namespace, over a socket that is opened in it."""

import contextlib
import errno
import os
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.kernel import errors
from sriov_rt.kernel import namespaces
from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.link import is_loopback
from sriov_rt.kernel.link import parent_number
from sriov_rt.kernel.link import read_link
from sriov_rt.kernel.namespaces import Identity


class NamespaceLinks:
    """Links of one namespace.

    :param name: as in Link; None for the caller's.
    :param route: rtnetlink conversation in it.
    :param descriptor: descriptor of its file; None for the caller's.
    """

    def __init__(
        self,
        name: str | None,
        route: rtnetlink.Route,
        descriptor: int | None = None,
    ) -> None:
        self.name = name
        self.route = route
        self.descriptor = descriptor
        self.namespace_id: Identity | None = None
        if descriptor is not None:
            self.namespace_id = namespaces.identity(descriptor)
        self._host_number: int | None = None

    def link(self, command: str, **request: Any) -> list[Any]:
        """Make a request on links, and return the answers.

        :param request: arguments of pyroute2's IPRoute.link.
        :raises OSError: if the kernel refuses.
        """
        with rtnetlink.refused():
            return list(self.route.link(command, **request))

    def host_number(self) -> int | None:
        """Return the number of the caller's namespace in it, if any."""
        if self._host_number is None and self.descriptor is not None:
            with namespaces.opened(None) as own, rtnetlink.refused():
                self._host_number = rtnetlink.number(self.route, own)
        return self._host_number

    def all(self) -> list[Link]:
        """Return all links; those of another namespace without loopback."""
        with rtnetlink.refused():
            found = rtnetlink.links(self.route)
        if self.name is not None:
            found = [each for each in found if not is_loopback(each)]
        return self._read(found)

    def _read(self, found: Iterable[Any]) -> list[Link]:
        links = []
        for message in found:
            host_number = None
            if self.name is not None and parent_number(message) is not None:
                host_number = self.host_number()
            each = read_link(
                message, self.name, host_number, self.namespace_id
            )
            if each is not None:
                links.append(each)
        return links

    def find(self, name: str) -> Link | None:
        """Return a link by its name; None if there is none."""
        return self._found(name, ifname=name)

    def at(self, index: int) -> Link | None:
        """Return a link by its index; None if there is none."""
        return self._found(str(index), index=index)

    def _found(self, device: str, **request: Any) -> Link | None:
        with reporting(device, "look up"):
            try:
                found = self.link(
                    "get", **request, ext_mask=rtnetlink.SKIP_STATS
                )
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return None
                raise
            return one(self._read(found), device)


@contextlib.contextmanager
def opened(
    name: str | None, known: Identity | None = None, path: str | None = None
) -> Iterator[NamespaceLinks]:
    """Open a namespace for requests.

    :param name: None for the caller's own.
    :param known: identity that it has to have. If the name is no longer its
        own, it is looked for under all others.
    :param path: path of its file, if known.
    :raises NoSuchNamespace: if no namespace has the name, or it has ended.
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
    """Return the present name of a namespace, and its descriptor."""
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
    """Translate an OSError to a LinkError."""
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


def verify(link: Link, expected: Mapping[str, object]) -> None:
    """Compare a link with the requested values that are not None.

    :param expected: values by field of the link.
    :raises NotVerified: for the first that differs.
    """
    for key, value in expected.items():
        found = getattr(link, key)
        if value is not None and found != value:
            raise errors.NotVerified(
                link.name, detail=f"{key} is {found!r}, not {value!r}"
            )
