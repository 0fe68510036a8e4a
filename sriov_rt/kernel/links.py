# SPDX-License-Identifier: Apache-2.0

"""Links, addresses and routes of this host's kernel, over rtnetlink.

Every call opens its own socket: threads share nothing, nothing becomes stale
after a fork, and no open socket keeps a namespace alive that its owner has
deleted.
"""

import contextlib
import dataclasses
import errno
import time
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from sriov_rt.kernel import addressing
from sriov_rt.kernel import announce
from sriov_rt.kernel import errors
from sriov_rt.kernel import inventory
from sriov_rt.kernel import namespaces
from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel import taps
from sriov_rt.kernel import tc as rates
from sriov_rt.kernel.inventory import Inventory
from sriov_rt.kernel.inventory import Place
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.link import Subinterface
from sriov_rt.kernel.link import mode_of
from sriov_rt.kernel.namespace_links import NamespaceLinks
from sriov_rt.kernel.namespace_links import opened
from sriov_rt.kernel.namespace_links import reporting
from sriov_rt.kernel.namespace_links import verify
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.tc import Limits

#: How often to try again while a probe may hold the parent, and the pause
#: between two tries in seconds.
TRIES = 3
PAUSE_S = 0.002


def _make(what: Subinterface) -> Link:
    """Make a subinterface with its alias in its namespace.

    Another interface may have its name already, or get it just then: ours is
    the one with the index.

    :raises NotVerified: if it differs from the request; it is then deleted.
    """
    if what.index is None:
        what = dataclasses.replace(what, index=rtnetlink.choose_index())
    with reporting(what.parent, "look up"):
        parent = rtnetlink.index_of(what.parent)
    with (
        opened(what.namespace, what.namespace_id) as links,
        opened(None) as own,
    ):
        requested = _request(what, parent, links.descriptor)
        try:
            with reporting(what.name, f"make {what.kind} on {what.parent}"):
                _add(own, requested)
        except errors.LinkRefused as error:
            if error.code == errno.EINVAL and what.mode == "passthru":
                detail = "something is on it, in some namespace"
                raise errors.ParentTaken(what.parent, detail=detail) from error
            raise
        except errors.ParentTaken as error:
            if master := _master(own, parent):
                raise errors.ParentIsPort(what.parent, master) from error
            raise
        try:
            return _label(links, what, parent)
        except errors.LinkError:
            _delete(links, what.index or 0)
            raise


def _master(own: NamespaceLinks, parent: int) -> str | None:
    """Return the bridge or bond that a parent is a port of, if any."""
    link = own.at(parent)
    master = None if link is None or not link.master else own.at(link.master)
    return None if master is None else master.name


def _request(
    what: Subinterface, parent: int, target: int | None
) -> dict[str, Any]:
    """Return a subinterface as IPRoute.link takes it.

    Its alias is left out: the kernel ignores it here (rtnl_create_link in
    net/core/rtnetlink.c).

    :param parent: index of the parent in the caller's namespace.
    :param target: descriptor of the namespace; None for the caller's. Naming
        the parent's to a socket in there would do as well, but Linux 6.1 then
        makes it in the parent's and moves it: it is down, and its name may be
        taken there (rtnl_newlink_create in net/core/rtnetlink.c).
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
        found |= rtnetlink.flags({rtnetlink.IFF_UP: True})
    return {key: value for key, value in found.items() if value is not None}


def _add(own: NamespaceLinks, requested: dict[str, Any]) -> None:
    """Create an interface; retry while a probe holds the parent.

    See :func:`rtnetlink.is_idle`.
    """
    for _ in range(TRIES):
        try:
            own.link("add", **requested)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            time.sleep(PAUSE_S)
        else:
            return
    own.link("add", **requested)


def _label(links: NamespaceLinks, what: Subinterface, parent: int) -> Link:
    """Set the alias of a new subinterface, and read it back."""
    index = what.index or 0
    with reporting(what.name, "set the alias"):
        links.link("set", index=index, ifalias=what.alias)
    made = links.at(index)
    if made is None:
        raise errors.NoSuchLink(what.name, detail="gone after it was made")
    requested = {
        "kind": what.kind,
        "mode": what.mode,
        "parent": parent,
        "name": what.name,
        "alias": what.alias,
        "mac": what.mac,
        "mtu": what.mtu,
        "up": what.up,
    }
    verify(made, requested)
    if made.kind == "macvtap" and what.namespace is None:
        taps.ensure(made.name, made.index)
    return made


def _delete(links: NamespaceLinks, index: int) -> None:
    # The kernel gave the index to the new interface: it is no other's.
    with contextlib.suppress(OSError):
        links.link("del", index=index)


def _move(
    link: Link, namespace: str | None, name: str, namespace_id: Identity | None
) -> Link:
    """Move an interface into a namespace and rename it there.

    If that fails, it stays where it was.

    :param namespace: target namespace; None for the caller's own.
    :param name: its name there.
    :param namespace_id: identity that the namespace has to have; None for any.
    :raises NameTaken: if another interface there has the name.
    """
    with (
        opened(link.namespace, link.namespace_id) as source,
        opened(namespace, namespace_id) as target,
        contextlib.ExitStack() as stack,
    ):
        into = target.descriptor
        if into is None:
            into = stack.enter_context(namespaces.opened(None))
        if target.find(name) is not None:
            raise errors.NameTaken(name, detail=f"in {_place_text(namespace)}")
        with reporting(link.name, f"move to {_place_text(namespace)}"):
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


def _bring_back(
    link: Link, source: NamespaceLinks, target: NamespaceLinks
) -> None:
    """Undo a move that failed half-way, if necessary.

    The kernel moves first, and only then checks the name (do_setlink in
    net/core/rtnetlink.c).
    """
    with contextlib.suppress(OSError):
        source.link("get", index=link.index)
        return
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        descriptor = source.descriptor
        if descriptor is None:
            descriptor = stack.enter_context(namespaces.opened(None))
        target.link("set", ifname=link.name, net_ns_fd=descriptor)


def _place_text(namespace: str | None) -> str:
    return "the host" if namespace is None else f"namespace {namespace}"


def _own() -> list[Link]:
    """Return the links of the caller's namespace."""
    with opened(None) as links, reporting("links", "list"):
        return links.all()


def _everywhere(*, thorough: bool = False) -> list[Link]:
    """Return the links of all namespaces, each entered; this is slow.

    A namespace that ends during the call has none.

    :param thorough: whether to include namespaces without name and process.
    """
    found = _own()
    own = namespaces.identity_of(None)
    for each in namespaces.others(own, thorough=thorough):
        try:
            with (
                opened(each.name, each.identity, each.path) as links,
                reporting(each.name, "list its links"),
            ):
                found += links.all()
        except errors.NoSuchNamespace:
            continue
    return found


#: Seconds between two looks at a carrier.
POLL_S = 0.02

#: Attribute in a link's IFLA_PROP_LIST.
ALT_IFNAME = "IFLA_ALT_IFNAME"


class Links:
    """Links of this host's kernel. Its errors are raised as LinkError.

    The caller has checked names and namespaces.
    """

    def get(self, name: str, namespace: str | None = None) -> Link | None:
        """Return an interface by its name; None if there is none."""
        with opened(namespace) as links:
            return links.find(name)

    def at(
        self, namespace: str | None, namespace_id: Identity | None, index: int
    ) -> Link | None:
        """Return an interface by its index; None if there is none.

        :param namespace: name under which to look for the namespace first.
        :param namespace_id: identity of the namespace, which is also found by
            any other name.
        """
        try:
            with opened(namespace, namespace_id) as links:
                return links.at(index)
        except errors.NoSuchNamespace:
            return None

    def all(
        self, *, everywhere: bool = False, thorough: bool = False
    ) -> Sequence[Link]:
        """Return all interfaces; a namespace that ends in between has none.

        :param everywhere: whether to include other namespaces, found by
            /run/netns and /proc/*/ns/net, without their loopbacks.
        :param thorough: whether to include those, too, that only a thread, an
            open descriptor or a socket leads to.
        """
        if not everywhere:
            return _own()
        return _everywhere(thorough=thorough)

    def of_node(self, node: int, place: Place) -> Link | None:
        """Return the interface with a node; None if it has left its place."""
        try:
            with opened(place.namespace, place.namespace_id) as links:
                found = links.find(place.name)
                if found is None:
                    return None
                # It may have been renamed since it was looked up.
                now = inventory.node(links.descriptor, found.name, found.index)
                return found if now == node else None
        except errors.NoSuchNamespace:
            return None

    @contextlib.contextmanager
    def keep_open(self, namespace: str | None) -> Iterator[Identity | None]:
        """Keep a namespace open; yield its identity, None for the caller's.

        While it is open, no other namespace can get its identity.
        """
        own = namespaces.identity_of(None)
        with namespaces.opened(namespace) as descriptor:
            found = namespaces.identity(descriptor)
            if found == own:
                yield None
                return
            cookie = namespaces.inside(descriptor, namespaces.own_cookie)
            yield dataclasses.replace(found, cookie=cookie)

    def ended(self, namespace_id: Identity) -> bool:
        """Return whether nothing leads to a namespace any more."""
        return namespaces.find(namespace_id) is None

    def unknown_macs(
        self, parent: str, known: Collection[str]
    ) -> Sequence[str]:
        """Return the unicast MACs that an interface receives for others.

        A macvlan that is up adds its MAC there, wherever it is.

        :param known: MACs to leave out, beside the interface's own.
        """
        with opened(None) as links, reporting(parent, "list its MACs"):
            link = links.find(parent)
            if link is None:
                return ()
            found = addressing.unicast(links.route, link.index)
        return sorted(found - {link.mac, *known})

    def node(self, link: Link) -> int:
        """Return the node of an interface in sysfs; 0 if it is unknown.

        No other interface has it, whatever root in a container sets.
        """
        try:
            with opened(link.namespace, link.namespace_id) as links:
                return inventory.node(links.descriptor, link.name, link.index)
        except errors.LinkError:
            return 0

    def inventory(
        self, parent: int = 0, known: Collection[int] = ()
    ) -> Inventory:
        """Return where all interfaces are, and how many cannot be seen.

        :param parent: index of an interface of the caller's, whose children in
            other namespaces to find; 0 for none.
        :param known: nodes of interfaces that need not be inspected for that.
        """
        return inventory.take(parent, known)

    def create(self, what: Subinterface) -> Link:
        """Make a subinterface with its alias in its namespace.

        :raises NotVerified: if it differs from the request; it is then
            deleted.
        """
        return _make(what)

    def idle(self, name: str) -> bool | None:
        """Return whether nothing is on an interface in any namespace.

        The kernel itself knows, so interfaces count that no process leads to.

        :returns: None if this kernel cannot tell.
        """
        with reporting(name, "look whether anything is on it"):
            return rtnetlink.is_idle(name)

    def delete(self, link: Link) -> bool:
        """Delete a subinterface; False if it is gone already.

        It is identified by its namespace's identity, its index and its kind.
        """
        where = link.namespace
        try:
            with (
                opened(where, link.namespace_id) as links,
                reporting(link.name, "delete"),
            ):
                now = links.at(link.index)
                if now is None or now.kind != link.kind:
                    return False
                with contextlib.ExitStack() as stack:
                    if now.kind == "macvtap" and where is None:
                        stack.enter_context(taps.leaving(now.name, now.index))
                    links.link("del", index=link.index)
        except (errors.NoSuchLink, errors.NoSuchNamespace):
            return False
        return True

    def move(
        self,
        link: Link,
        namespace: str | None,
        name: str | None = None,
        namespace_id: Identity | None = None,
    ) -> Link:
        """Move an interface into a namespace and rename it there.

        :param namespace: target namespace; None for the caller's own.
        :param namespace_id: identity that the namespace has to have; None for
            any.
        """
        return _move(link, namespace, name or link.name, namespace_id)

    def strip(self, link: Link) -> None:
        """Remove the alternative names of an interface."""
        with (
            opened(link.namespace, link.namespace_id) as links,
            reporting(link.name, "remove its alternative names"),
        ):
            (found,) = links.link("get", index=link.index)
            listed = found.get_attr("IFLA_PROP_LIST") or {"attrs": ()}
            names = [
                each for key, each in listed["attrs"] if key == ALT_IFNAME
            ]
            if names:
                links.link("property_del", index=link.index, altname=names)

    def configure(
        self,
        link: Link,
        *,
        mac: str | None = None,
        mtu: int | None = None,
        alias: str | None = None,
        up: bool | None = None,
        promisc: bool | None = None,
        allmulti: bool | None = None,
    ) -> Link:
        """Set what is not None, in one message.

        :raises NotVerified: if another value is read back.
        """
        requested = {
            "mac": mac,
            "mtu": mtu,
            "alias": alias,
            "up": up,
            "promisc": promisc,
            "allmulti": allmulti,
        }
        flags = rtnetlink.flags(
            {
                rtnetlink.IFF_UP: up,
                rtnetlink.IFF_PROMISC: promisc,
                rtnetlink.IFF_ALLMULTI: allmulti,
            }
        )
        attributes = {"address": mac, "mtu": mtu, "ifalias": alias}
        changed = " ".join(
            k for k, val in requested.items() if val is not None
        )
        with (
            opened(link.namespace, link.namespace_id) as links,
            reporting(link.name, f"set {changed}"),
        ):
            links.link(
                "set",
                index=link.index,
                **flags,
                **{k: val for k, val in attributes.items() if val is not None},
            )
            now = links.at(link.index)
        if now is None:
            raise errors.NoSuchLink(link.name, detail="gone after it was set")
        verify(now, requested)
        return now

    def address(
        self,
        link: Link,
        addresses: Sequence[str],
        routes: Sequence[tuple[str, str]],
    ) -> None:
        """Add addresses and routes; existing ones stay."""
        if not addresses and not routes:
            return
        with opened(link.namespace, link.namespace_id) as links:
            route = links.route
            for each in addresses:
                with (
                    reporting(link.name, f"add address {each}"),
                    _unless_there(),
                ):
                    addressing.add_address(route, link.index, each)
            for to, gateway in routes:
                what = f"add route {to} by {gateway}"
                with reporting(link.name, what), _unless_there():
                    addressing.add_route(route, link.index, to, gateway)

    def addressed(self, link: Link) -> bool:
        """Return whether an interface has an address that somebody set."""
        with (
            opened(link.namespace, link.namespace_id) as links,
            reporting(link.name, "look at its addresses"),
        ):
            return addressing.is_addressed(links.route, link.index)

    def limit(self, link: Link, limits: Limits) -> None:
        """Set the rates of an interface, or remove the former ones."""
        with opened(link.namespace, link.namespace_id) as links:
            rates.apply(links.route, link, limits)

    def announce(self, link: Link, addresses: Sequence[str]) -> None:
        """Announce a port by gratuitous ARP and unsolicited NA."""
        if not addresses:
            return
        packets = announce.packets(link.mac, addresses)
        # A routing ipvlan has no neighbours: it sends only IP.
        routes = link.kind == "ipvlan" and link.mode != "l2"
        if routes or not packets:
            return
        with reporting(link.name, "announce"), _raw(link.name):
            if link.namespace is None:
                announce.send(link.name, packets)
                return
            with opened(link.namespace, link.namespace_id) as links:
                assert links.descriptor is not None
                namespaces.inside(
                    links.descriptor,
                    lambda: announce.send(link.name, packets),
                )

    def wait_carrier(self, link: Link, seconds: float) -> bool:
        """Wait until an interface has a carrier; return whether it has."""
        deadline = time.monotonic() + seconds
        with (
            opened(link.namespace, link.namespace_id) as links,
            reporting(link.name, "look at"),
        ):
            while True:
                now = links.at(link.index)
                if now is None:
                    raise errors.NoSuchLink(link.name, detail="it has gone")
                if now.carrier:
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(POLL_S, left))


@contextlib.contextmanager
def _raw(name: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise errors.AnnouncingNotPermitted(name) from error


@contextlib.contextmanager
def _unless_there() -> Iterator[None]:
    try:
        with rtnetlink.refused():
            yield
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
