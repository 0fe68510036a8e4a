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

import errno
import os
import types
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.vif import answers
from sriov_rt.vif import errors
from sriov_rt.vif import namespaces
from sriov_rt.vif import requests
from sriov_rt.vif.edge import Link
from sriov_rt.vif.rtnl import Answer
from sriov_rt.vif.rtnl import Channel
from sriov_rt.vif.space import Space


class Place:
    """One namespace, open for requests.

    :param name: as in Link; None for the caller's.
    :param channel: a socket in it.
    :param descriptor: of its file; None for the caller's.
    :param space: what is known of it.
    """

    def __init__(
        self,
        name: str | None,
        channel: Channel,
        descriptor: int | None = None,
        space: Space | None = None,
    ) -> None:
        self.name = name
        self.channel = channel
        self.space = space
        self.descriptor = descriptor
        self._home = None if space is None else space.home

    def home(self) -> int | None:
        """Return which number the caller's namespace has in it, if any."""
        if self._home is None and self.descriptor is not None:
            with namespaces.opened(None) as own:
                answer = self.channel.ask(requests.get_nsid(own))
            self._home = answers.nsid(answer[0].body) if answer else None
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

    def _read(self, told: Iterable[Answer]) -> list[Link]:
        found = []
        for answer in told:
            if answer.kind != requests.RTM_NEWLINK:
                continue
            home, body = None, answer.body
            if self.name is not None and answers.abroad(body) is not None:
                home = self.home()
            each = answers.asked_again(body, self.name, home)
            if each is not None:
                found.append(each)
        return found

    def find(self, name: str) -> Link | None:
        """Return the link of a name, None if there is none."""
        with telling(name, "look up"):
            try:
                return one(self.links(requests.get_link(name=name)), name)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return None
                raise


#: Told of a namespace by its name and its descriptor before it is entered;
#: says what is known of it.
Expect = Callable[[str, int], Space | None]


def _unknown(name: str, descriptor: int) -> Space | None:
    return None


class opened:
    """A namespace, open for requests inside of a with statement.

    :param known: which one it was; it may have gone since.
    :param expect: see above.
    :raises NoSuchNamespace: if there is none of the name.
    """

    # Generators, one in another, would take three times as long.
    __slots__ = ("_expect", "_known", "_name", "_place")

    def __init__(
        self,
        name: str | None,
        known: namespaces.Identity | None = None,
        expect: Expect = _unknown,
    ) -> None:
        self._name = name
        self._known = known
        self._expect = expect

    def __enter__(self) -> Place:
        """Open it."""
        name = self._name
        if name is None:
            self._place = Place(None, Channel())
            return self._place
        there = namespaces.descriptor(name)
        try:
            known = self._known
            if known is not None and namespaces.identity(there) != known:
                raise errors.NoSuchNamespace(name, detail="it is another now")
            space = self._expect(name, there)
            with telling(name, "enter"):
                channel = namespaces.inside(there, Channel)
        except BaseException:
            os.close(there)
            raise
        self._place = Place(name, channel, there, space)
        return self._place

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._place.channel.close()
        if self._place.descriptor is not None:
            os.close(self._place.descriptor)


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
