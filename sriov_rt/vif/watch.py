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

"""The links of all namespaces, kept current by the kernel's own events.

To enter each namespace and ask takes 0.1 ms a namespace and more on a busy
host; a host with 100 containers plugs none in 1 ms that way. The kernel
sends its events on links to who asks before it acknowledges what made them:
to read them is to know how things are. One socket hears those of every
namespace that has a number in its own (NETLINK_LISTEN_ALL_NSID); each
namespace that is found gets one.

No event tells of an alias that is set while an interface is down
(netdev_state_change in net/core/dev.c). So what is here is asked for each
time, and what this process sets elsewhere it notes itself; the interface of
a port is up, whoever has plugged it.
"""

import contextlib
import errno
import os
import time
from collections.abc import Sequence

from sriov_rt.vif import answers
from sriov_rt.vif import errors
from sriov_rt.vif import namespaces
from sriov_rt.vif import requests
from sriov_rt.vif.edge import Link
from sriov_rt.vif.listener import Heard
from sriov_rt.vif.listener import Listener
from sriov_rt.vif.places import Place
from sriov_rt.vif.rtnl import Channel
from sriov_rt.vif.space import Space
from sriov_rt.vif.space import Spaces

#: Seconds after which all processes are looked through for namespaces that
#: have come without a name and without a link from here.
LOOK_AROUND_S = 5.0


class Watch:
    """Knows all links of a host, for one thread at a time.

    It belongs to the process and to the namespace that it is made in.

    :raises OSError: EPERM where the caller may not hear of others.
    """

    def __init__(self) -> None:
        self._spaces = Spaces()
        self._looked = 0.0
        self._names_at: int | None = None
        self._process = os.getpid()
        with contextlib.ExitStack() as stack:
            self._own = stack.enter_context(namespaces.opened(None))
            self._identity = namespaces.identity(self._own)
            self._channel = stack.enter_context(Channel())
            self._listener = Listener()
            stack.callback(self._listener.close)
            self._held = stack.pop_all()

    def close(self) -> None:
        """Hear no more."""
        self._held.close()

    @property
    def valid(self) -> bool:
        """Whether it belongs to the calling process and namespace."""
        return self._process == os.getpid() and namespaces.is_own(
            self._identity
        )

    def knows(self, space: Space) -> bool:
        """Tell whether a namespace is one that it knows."""
        return self._spaces.numbered(space.number) is space

    def links(self) -> Sequence[Link]:
        """Return the links of all other namespaces.

        :raises OSError: ENOBUFS if more was to be heard than a socket holds;
            begin anew then.
        """
        self._find()
        self._follow()
        return self._spaces.links()

    def heard(self, space: Space, name: str) -> Link | None:
        """Return a link as the kernel has last told of it, None if it hasn't.

        :raises OSError: ENOBUFS as :meth:`links` does.
        """
        self._follow()
        return self._spaces.find(space, name)

    def _follow(self) -> None:
        while self._hear():
            # A namespace was found, and its links came after it.
            self._look_around()
        self._read()

    def here(self) -> list[Link]:
        """Return the links of the caller's namespace."""
        return Place(None, self._channel).all()

    def note(self, link: Link) -> None:
        """Take in how a link was just read, with its alias."""
        self.links()  # what was told before must not come after it
        for space in self._spaces:
            if space.name == link.namespace:
                self._spaces.put(space, link)

    def expect(self, name: str, descriptor: int) -> Space | None:
        """Get to know a namespace that is about to get a link.

        :param descriptor: of its file.
        :returns: None for the caller's own.
        """
        identity = namespaces.identity(descriptor)
        if identity == self._identity:
            return None
        if self._spaces.identified(identity) is None:
            self._add(name, descriptor)
        return self._spaces.identified(identity)

    def _find(self) -> None:
        """Look for namespaces that are new, or known by another name."""
        now = time.monotonic()
        if now - self._looked >= LOOK_AROUND_S or not self._names_hold():
            self._look_around()

    def _names_hold(self) -> bool:
        """Tell whether each name still is what it was when it was found."""
        if namespaces.names_changed_at() != self._names_at:
            return False
        return all(
            namespaces.is_now(each.name, each.identity)
            for each in self._spaces.of_processes()
        )

    def _look_around(self) -> None:
        # First the time: what is added meanwhile is found again.
        self._names_at = namespaces.names_changed_at()
        self._looked = time.monotonic()
        found = {
            each.identity: each.name
            for each in namespaces.others(self._identity)
        }
        for space in self._spaces:
            name = found.pop(space.identity, None)
            if name is None:
                # Nobody can ask for what is in it; it may be named again.
                self._spaces.remove(space.number)
            elif name != space.name:
                self._spaces.rename(space, name)
        for identity, name in found.items():
            try:
                with namespaces.opened(name) as there:
                    if namespaces.identity(there) == identity:
                        self._add(name, there)
            except errors.NoSuchNamespace:
                continue

    def _add(self, name: str, there: int) -> None:
        try:
            self._channel.ask(requests.new_nsid(there))
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
        number = self._number(there)
        if number is None:
            return
        # What happens from here on is heard later.
        space = Space(name, namespaces.identity(there), number)
        self._spaces.add(space)
        try:
            told = self._channel.dump(requests.get_links(number))
        except OSError as error:
            self._spaces.remove(number)
            if error.errno != errno.EINVAL:
                raise
            return  # it has gone meanwhile, and its number with it
        # A dump from afar tells where parents are as seen from here.
        home = self._number(self._own)
        for each in told:
            self._put(space, each.body, home)
        space.home = self._number(self._own, number)

    def _read(self) -> None:
        """Read what was told of links."""
        for space, body in self._spaces.told():
            if space.home is None and answers.abroad(body) is not None:
                space.home = self._number(self._own, space.number)
            self._put(space, body, space.home)

    def _put(self, space: Space, body: bytes, home: int | None) -> None:
        # Each namespace has one, which is no port: to look through those
        # of a hundred containers is all for nothing.
        if answers.is_loopback(body):
            return
        link = answers.link(body, space.name, home)
        if link is not None:
            self._spaces.put(space, link)

    def _hear(self) -> bool:
        """Follow what has happened; tell whether a namespace is new."""
        new = False
        for event in self._listener.heard():
            if event.kind in (requests.RTM_NEWNSID, requests.RTM_DELNSID):
                if event.space is None:
                    new |= self._numbered(event)
                continue
            if event.space is None:
                continue
            if (space := self._spaces.numbered(event.space)) is not None:
                self._spaces.follow(space, event)
        return new

    def _numbered(self, event: Heard) -> bool:
        number = answers.nsid(event.body)
        if number is None:
            return False
        if event.kind == requests.RTM_DELNSID:
            self._spaces.remove(number)
            return False
        if self._spaces.numbered(number) is not None:
            return False
        # Ours has one too as soon as a parent of ours is told from afar.
        return number != self._number(self._own)

    def _number(self, descriptor: int, space: int | None = None) -> int | None:
        """Return the number of a namespace in another, by default here."""
        asked = requests.get_nsid(descriptor, space)
        try:
            told = self._channel.ask(asked)
        except OSError as error:
            if space is not None and error.errno == errno.EINVAL:
                return None  # the other has gone, and soon that is heard
            raise
        return answers.nsid(told[0].body) if told else None
