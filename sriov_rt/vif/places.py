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

"""A network namespace, open for requests to its kernel."""

import dataclasses
import errno
import os
import types
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager

import pyroute2

from sriov_rt import rtnetlink
from sriov_rt.vif import answers
from sriov_rt.vif import errors
from sriov_rt.vif import namespaces
from sriov_rt.vif import requests
from sriov_rt.vif.edge import Link
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.rtnl import Answer
from sriov_rt.vif.rtnl import Channel


class Place:
    """One namespace, open for requests.

    :param name: as in Link; None for the caller's.
    :param channel: a socket in it.
    :param descriptor: of its file; None for the caller's.
    """

    def __init__(
        self,
        name: str | None,
        channel: Channel,
        descriptor: int | None = None,
    ) -> None:
        self.name = name
        self.channel = channel
        self.descriptor = descriptor
        self.space: Identity | None = None
        if descriptor is not None:
            self.space = namespaces.identity(descriptor)
        self._home: int | None = None

    def conversation(self) -> AbstractContextManager[pyroute2.IPRoute]:
        """Talk to its kernel over pyroute2."""
        if self.descriptor is None:
            return rtnetlink.conversation()
        inside = namespaces.inside(self.descriptor, rtnetlink.open_socket)
        return rtnetlink.conversation(inside)

    def number(self, descriptor: int) -> int | None:
        """Return which number another namespace has in it, if any."""
        answer = self.channel.ask(requests.get_nsid(descriptor))
        return answers.nsid(answer[0].body) if answer else None

    def home(self) -> int | None:
        """Return which number the caller's namespace has in it, if any."""
        if self._home is None and self.descriptor is not None:
            with namespaces.opened(None) as own:
                self._home = self.number(own)
        return self._home

    def links(self, *asked: bytes) -> list[Link]:
        """Return the links that the answers to requests tell of."""
        return self._read(self.channel.ask(*asked))

    def all(self) -> list[Link]:
        """Return all links of the namespace, of another's no loopback."""
        told = self.channel.dump(requests.get_links())
        if self.name is not None:
            told = [
                each for each in told if not answers.is_loopback(each.body)
            ]
        return self._read(told)

    def numbers(self) -> set[int]:
        """Return the numbers that other namespaces have in it."""
        told = self.channel.dump(requests.get_nsids())
        found = (answers.nsid(each.body) for each in told)
        return {each for each in found if each is not None}

    def of_number(self, number: int) -> Iterable[Answer]:
        """Return what is told of the links of a namespace with a number."""
        return self.channel.dump(requests.get_links(number))

    def far(self, answer: Answer, number: int) -> list[Link]:
        """Return the link that an answer of :meth:`of_number` tells of.

        Where its parent is the kernel tells as seen from here.
        """
        with namespaces.opened(None) as own:
            home = self.number(own)
        name = self.name or f"nsid:{number}"
        each = answers.link(answer.body, name, home, self.space)
        return [] if each is None else [dataclasses.replace(each, nsid=number)]

    def _read(self, told: Iterable[Answer]) -> list[Link]:
        found = []
        for answer in told:
            if answer.kind != requests.RTM_NEWLINK:
                continue
            home, body = None, answer.body
            if self.name is not None and answers.abroad(body) is not None:
                home = self.home()
            each = answers.link(body, self.name, home, self.space)
            if each is not None:
                found.append(each)
        return found

    def find(self, name: str) -> Link | None:
        """Return the link of a name, None if there is none."""
        return self._found(requests.get_link(name=name), name)

    def at(self, index: int) -> Link | None:
        """Return the link of an index, None if there is none."""
        return self._found(requests.get_link(index=index), str(index))

    def _found(self, request: bytes, told: str) -> Link | None:
        with telling(told, "look up"):
            try:
                return one(self.links(request), told)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return None
                raise


class opened:
    """A namespace, open for requests inside of a with statement.

    :param name: None for the caller's own.
    :param known: which one it has to be. If the name is another's by now, or
        nobody's, it is looked for wherever it is to be found.
    :param path: of its file, where that is known.
    :raises NoSuchNamespace: if there is none of the name, or it has ended.
    """

    __slots__ = ("_known", "_name", "_path", "_place")

    def __init__(
        self,
        name: str | None,
        known: Identity | None = None,
        path: str | None = None,
    ) -> None:
        self._name = name
        self._known = known
        self._path = path

    def __enter__(self) -> Place:
        """Open it."""
        if self._name is None and self._known is None:
            self._place = Place(None, Channel())
            return self._place
        name, there = _open(self._name or "", self._known, self._path)
        try:
            with telling(name, "enter"):
                channel = namespaces.inside(there, Channel)
        except BaseException:
            os.close(there)
            raise
        self._place = Place(name, channel, there)
        if self._known is not None and not self._known.is_now(channel.cookie):
            self.__exit__()
            raise errors.NoSuchNamespace(name, detail="it has ended")
        return self._place

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._place.channel.close()
        if self._place.descriptor is not None:
            os.close(self._place.descriptor)


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


class telling:
    """Raise an OSError from inside as what it means to the operator.

    A generator would take three times as long, around each request.
    """

    __slots__ = ("_device", "_what")

    def __init__(self, device: str, what: str) -> None:
        self._device = device
        self._what = what

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """Raise what an OSError means."""
        if isinstance(error, pyroute2.NetlinkError):
            error = rtnetlink.refusal(error)
        if not isinstance(error, OSError):
            return
        code = error.errno or errno.EIO
        said = "" if error.strerror == os.strerror(code) else error.strerror
        detail = f"{self._what}: {said}" if said else self._what
        named = errors.from_errno(code, self._device, detail=detail)
        raise named from error


def one(found: Sequence[Link], name: str) -> Link:
    """Return the first of the links that were found.

    :raises NoSuchLink: if there is none.
    """
    if not found:
        raise errors.NoSuchLink(name, detail="the kernel told of none")
    return found[0]


def verify(link: Link, wanted: Mapping[str, object]) -> None:
    """Compare what was read with what was wanted and is not None.

    :param wanted: fields of the link.
    :raises NotVerified: for the first that differs.
    """
    for key, value in wanted.items():
        found = getattr(link, key)
        if value is not None and found != value:
            raise errors.NotVerified(
                link.name, detail=f"{key} is {found!r}, not {value!r}"
            )
