# SPDX-License-Identifier: Apache-2.0

"""A host of memory: links, VFs and records that can die at each step."""

import contextlib
import dataclasses
import pathlib
import shutil
import tempfile
import unittest
import weakref
from collections.abc import Sequence
from unittest import mock

from sriov_rt.host.root import Root
from sriov_rt.kernel import errors
from sriov_rt.kernel.inventory import Inventory
from sriov_rt.kernel.inventory import Place
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.link import Subinterface
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.tc import Limits
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic.errors import FiltersRemain
from sriov_rt.nic.errors import FunctionNotReset
from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.plan import Plan
from sriov_rt.nic.tenancy import Reset
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.tenancy import Tenancy
from sriov_rt.nic.vfs import NO_DEEPER
from sriov_rt.vif import host
from sriov_rt.vif import validation
from sriov_rt.vif.counts import NOT_COUNTED
from sriov_rt.vif.host import Host
from sriov_rt.vif.host import anywhere
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Record
from sriov_rt.vif.plan import unlike
from sriov_rt.vif.plugger import Plugger
from sriov_rt.vif.records import Records
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules

PORT = "b3f2e1d0-1111-4222-8333-444455556666"
OTHER = "c4f2e1d0-1111-4222-8333-444455556666"
NETWORK = "a1f2e1d0-1111-4222-8333-444455556666"

#: A VF at rest, as igb has it: no link state, no RSS query.
CLEAN = dataclasses.replace(BASELINE, link_state=None, query_rss=None)


class Killed(BaseException):
    """What SIGKILL is: nobody's ``except`` but the test's catches it."""


def port(number: int) -> str:
    """Return one of many ports."""
    return f"{number:08x}-1111-4222-8333-444455556666"


def files(directory: pathlib.Path | str) -> list[str]:
    """Return what is in a directory."""
    return sorted(each.name for each in pathlib.Path(directory).iterdir())


def asked(kind=Kind.MACVLAN, **fields) -> Plug:
    """Return a port of physnet1 in the namespace ``box``, checked."""
    values = {
        "port": PORT,
        "owner": "me",
        "kind": kind,
        "physical_network": "physnet1",
        "namespace": "box",
        "name": "eth1",
    }
    return validation.checked(Plug(**{**values, **fields}))


class Clock:
    """Counts what is done to a host, and stops it where it is told to.

    :param at: the number of the call at which ``what`` is raised; None for
        never.
    """

    def __init__(self) -> None:
        self.count = 0
        self.at: int | None = None
        self.what: BaseException = Killed()
        self.calls: list[str] = []

    def tick(self, call: str) -> None:
        self.count += 1
        self.calls.append(call)
        if self.at is not None and self.count == self.at:
            raise self.what

    def set(self, at: int | None, what: BaseException | None = None) -> None:
        self.count = 0
        self.calls = []
        self.at = at
        self.what = what or Killed()


class FakeHost:
    """Links of a host and its namespaces, and the VFs of its PFs."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.links: dict[int, Link] = {}
        self.settings: dict[VfId, VfSettings] = {}
        self.inodes: dict[str, int] = {}
        self.budget: int | None = 3
        self._pfs = 0
        self.nodes: dict[str, int] = {}
        #: Nodes in sysfs of links that have another index by now.
        self.kept_nodes: dict[int, int] = {}
        self.limits: dict[int, Limits] = {}
        self.addresses: dict[int, list[str]] = {}
        self.announced: list[str] = []
        self.carrier = True
        self.namespaces = {"box", "box2", "pid:4711"}
        #: PFs whose interface has left the host, and whose VFs have not.
        self.lost_pfs: set[str] = set()
        # Those that only the kernel knows of: nothing leads to them.
        self.hidden: set[str] = set()
        self._spaces: dict[str, Identity] = {}
        self.next_index = 1

    def namespace_id(self, namespace: str | None) -> Identity | None:
        """Return which namespace a name is of."""
        if namespace is None:
            return None
        number = len(self._spaces) + 1
        return self._spaces.setdefault(namespace, Identity(4, number, number))

    def place(self, namespace_id: Identity | None) -> str | None:
        """Return what a namespace is called; KeyError if it has ended."""
        if namespace_id is None:
            return None
        found = {val: key for key, val in self._spaces.items()}
        if found[namespace_id] not in self.namespaces | self.hidden:
            raise KeyError(namespace_id)
        return found[namespace_id]

    def add(self, name: str, **fields) -> Link:
        """Add an interface and return it."""
        values = {
            "name": name,
            "index": self.next_index,
            "namespace": None,
            "kind": "",
            "mode": None,
            "parent": None,
            "mac": f"02:00:00:00:00:{self.next_index:02x}",
            "mtu": 1500,
            "up": True,
            "carrier": True,
            "alias": "",
        }
        values |= fields
        values["namespace_id"] = self.namespace_id(values["namespace"])
        link = Link(**values)
        self.next_index += 1
        self.links[link.index] = link
        return link

    def add_pf(self, name: str = "enp1s0", vfs: int = 3, **fields) -> None:
        """Add a PF, and its VFs at the baseline."""
        self.add(name)
        self._pfs += 1
        for index in range(vfs):
            place = f"{self._pfs:02x}:{16 + index // 8:02x}.{index % 8}"
            vf = VfId(name, index, f"0000:{place}")
            self.add(f"{name}v{index}", device=vf.address, **fields)
            self.settings[vf] = CLEAN
            self.inodes[vf.address] = self.next_index

    def vf(self, index: int) -> VfId:
        return list(self.settings)[index]

    def named(self, name: str, namespace: str | None = None) -> Link | None:
        for each in self.links.values():
            if (each.name, each.namespace) == (name, namespace):
                return each
        return None

    def change(self, name: str, **fields) -> None:
        """Change a link of the host behind everybody's back."""
        link = self.named(name)
        self.links[link.index] = dataclasses.replace(link, **fields)

    def vanish(self, vf: VfId) -> None:
        """Take a VF away, with what sits on it."""
        self.settings.pop(vf, None)
        self.inodes.pop(vf.address, None)
        for link in list(self.links.values()):
            if link.device == vf.address:
                self.drop(link.index)

    def drop(self, index: int) -> None:
        self.links.pop(index, None)
        for link in list(self.links.values()):
            if link.parent == index:
                self.drop(link.index)

    def end_namespace(self, name: str) -> None:
        """Do what the kernel does when the last process has gone."""
        self.namespaces.discard(name)
        self.hidden.discard(name)
        self._spaces.pop(name, None)
        for link in list(self.links.values()):
            if link.namespace != name:
                continue
            if link.kind:
                self.drop(link.index)
            else:
                self.links[link.index] = dataclasses.replace(
                    link, namespace=None, namespace_id=None, up=False
                )

    def hide(self, name: str) -> None:
        """Move a link into a namespace that nothing leads to."""
        self.hidden.add("hidden")
        link = next(x for x in self.links.values() if x.name == name)
        self.links[link.index] = dataclasses.replace(
            link, namespace="hidden", namespace_id=self.namespace_id("hidden")
        )

    def swap(self, name: str) -> Link:
        """Hide a link under another index, and put a decoy in its place.

        A round trip through a namespace that has a link of its index gives
        it another one, and never another node in sysfs.
        """
        self.hide(name)
        link = next(x for x in self.links.values() if x.name == name)
        namespace = next(iter(self.namespaces & {"box"}))
        moved = dataclasses.replace(link, index=self.next_index)
        decoy = dataclasses.replace(
            link,
            namespace=namespace,
            namespace_id=self.namespace_id(namespace),
        )
        self.links |= {moved.index: moved, decoy.index: decoy}
        self.kept_nodes = {moved.index: 90_000 + link.index}
        self.kept_nodes[link.index] = 90_000 + moved.index
        self.next_index += 1
        return decoy

    def node(self, index: int) -> int:
        """Return the node in sysfs of a link."""
        return self.kept_nodes.get(index, 90_000 + index)

    def of_node(self, node: int) -> Link | None:
        """Return the link of a node."""
        return next(
            (x for x in self.links.values() if self.node(x.index) == node),
            None,
        )

    def state(self) -> tuple[object, ...]:
        """Return all that a tenant or a crash could leave behind.

        A VF's interface is another one after each use, of another MAC.
        """
        links = sorted(
            dataclasses.astuple(
                dataclasses.replace(each, mac="", index=0)
                if each.device
                else each
            )
            for each in self.links.values()
        )
        limits = {k: val for k, val in self.limits.items() if k in self.links}
        return links, dict(self.settings), limits


class FakeLinks:
    """Links of a FakeHost, with the kernel's refusals."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.dumps = 0
        self.looks = 0

    def get(self, name, namespace=None):
        self._there(namespace)
        return self.host.named(name, namespace)

    def at(self, namespace, namespace_id, index):
        # The kernel says EINVAL.
        assert index, "no interface has the index 0"
        found = self.host.links.get(index)
        try:
            self.host.place(namespace_id)
        except KeyError:
            return None
        return found if found and found.namespace_id == namespace_id else None

    def all(self, *, everywhere=False, thorough=False):
        self.dumps += 1
        self.looks += everywhere
        return [
            each
            for each in self.host.links.values()
            if (everywhere and each.namespace not in self.host.hidden)
            or each.namespace is None
        ]

    @contextlib.contextmanager
    def keep_open(self, namespace):
        self._there(namespace)
        yield self.host.namespace_id(namespace)

    def ended(self, namespace_id):
        try:
            return self.host.place(namespace_id) in self.host.hidden
        except KeyError:
            return True

    def unknown_macs(self, parent, known):
        return [
            each.mac
            for each in self.host.links.values()
            if each.parent == self.host.named(parent).index
            and each.up
            and each.mac not in known
        ]

    def node(self, link):
        return self.host.node(link.index)

    def of_node(self, node, place):
        found = self.host.of_node(node)
        there = found and (found.namespace_id, found.name)
        return found if there == (place.namespace_id, place.name) else None

    def inventory(self, parent=0, known=()):
        hidden = [
            each
            for each in self.host.links.values()
            if each.namespace in self.host.hidden
        ]
        places = {
            self.node(each): Place(
                each.namespace, each.namespace_id, each.name
            )
            for each in self.host.links.values()
            if each not in hidden
        }
        on = frozenset(
            node
            for node in places.keys() - {*known}
            if self.host.of_node(node).parent == parent
            and self.host.of_node(node).namespace
        )
        # Each namespace has a loopback.
        return Inventory(places, len(hidden) + len(self.host.hidden), on)

    def idle(self, name):
        index = self.host.named(name).index
        return all(each.parent != index for each in self.host.links.values())

    def strip(self, link):
        self.host.clock.tick(f"strip {link.name}")
        self._now(link)

    def create(self, what: Subinterface) -> Link:
        host = self.host
        host.clock.tick(f"create {what.name}")
        self._there(what.namespace)
        parent = host.named(what.parent)
        if parent is None:
            raise errors.NoSuchLink(what.parent)
        if host.named(what.name, what.namespace):
            raise errors.NameTaken(what.name)
        taken = {
            (each.kind == "ipvlan", each.mode)
            for each in host.links.values()
            if each.parent == parent.index
        }
        if any(
            ipvlan != (what.kind == "ipvlan")
            or "passthru" in (mode, what.mode)
            for ipvlan, mode in taken
        ):
            raise errors.ParentTaken(what.parent)
        fields = {} if what.mac is None else {"mac": what.mac}
        if what.kind == "ipvlan" or what.mode == "passthru":
            fields = {"mac": parent.mac}
        if what.index is not None:
            host.next_index = what.index
        if what.index in host.links:
            raise errors.NameTaken(what.name)
        link = host.add(
            what.name,
            namespace=what.namespace,
            kind=what.kind,
            mode=what.mode,
            parent=parent.index,
            mtu=what.mtu or parent.mtu,
            up=False,
            carrier=False,
            **fields,
        )
        host.clock.tick(f"alias {what.name}")
        fields = {"alias": what.alias}
        if what.up:
            fields |= {"up": True, "carrier": host.carrier}
        return self._change(link, **fields)

    def delete(self, link: Link) -> bool:
        self.host.clock.tick(f"delete {link.name}")
        there = link.index in self.host.links
        self.host.drop(link.index)
        self.host.clock.tick(f"deleted {link.name}")
        return there

    def move(self, link, namespace, name=None, namespace_id=None):
        self.host.clock.tick(f"move {link.name} to {namespace}")
        self._there(namespace)
        name = name or link.name
        other = self.host.named(name, namespace)
        if other is not None and other.index != link.index:
            raise errors.NameTaken(name)
        found = self.host.namespace_id(namespace)
        return self._change(
            link, namespace=namespace, name=name, namespace_id=found
        )

    def configure(
        self,
        link,
        *,
        mac=None,
        mtu=None,
        alias=None,
        up=None,
        promisc=None,
        allmulti=None,
    ):
        desired = {
            "mac": mac,
            "mtu": mtu,
            "up": up,
            "alias": alias,
            "promisc": promisc,
            "allmulti": allmulti,
        }
        asked = {k: val for k, val in desired.items() if val is not None}
        if asked.get("up"):
            asked["carrier"] = self.host.carrier
        self.host.clock.tick(f"configure {link.name} {' '.join(asked)}")
        return self._change(link, **asked)

    def address(self, link, addresses, routes):
        self.host.clock.tick(f"address {link.name}")
        self._now(link)
        self.host.addresses[link.index] = list(addresses)

    def addressed(self, link):
        return bool(self.host.addresses.get(self._now(link).index))

    def limit(self, link, limits):
        self.host.clock.tick(f"limit {link.name}")
        self._now(link)
        if limits == Limits():
            self.host.limits.pop(link.index, None)
        else:
            self.host.limits[link.index] = limits

    def announce(self, link, addresses):
        self.host.clock.tick(f"announce {link.name}")
        self.host.announced.append(link.name)

    def wait_carrier(self, link, seconds):
        return self._now(link).carrier

    def _there(self, namespace: str | None) -> None:
        if namespace is not None and namespace not in self.host.namespaces:
            raise errors.NoSuchNamespace(namespace)

    def _now(self, link: Link) -> Link:
        if link.index not in self.host.links:
            raise errors.NoSuchLink(link.name)
        return self.host.links[link.index]

    def _change(self, link: Link, **fields) -> Link:
        changed = dataclasses.replace(self._now(link), **fields)
        self.host.links[link.index] = changed
        self.host.clock.tick("done")
        return changed


class FakeVfs:
    """VFs of a FakeHost."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.lists = 0
        self.resets = 0
        #: Whether the PF keeps filters until its VFs are made again.
        self.keeps_filters = False
        self.marks: set[VfId] = set()
        #: Whether the PF keeps filters of the last tenant.
        self.filters_remain = False
        self.function_hangs = False
        #: VFs that have no driver.
        self.unbound: set[VfId] = set()
        #: VFs that somebody has bound to vfio-pci.
        self.on_vfio: set[VfId] = set()
        #: Parents whose driver was bound again before their first port.
        self.renewed: list[VfId] = []
        self.tenancies = FakeTenancies(host)

    def locate(self, name: str) -> VfId:
        link = self.host.named(name)
        for vf in self.host.settings:
            if link is not None and vf.address == link.device:
                return vf
        raise NoSuchDevice(name)

    def list(self, pf: str | None = None) -> Sequence[VfState]:
        self.lists += 1
        listed = [
            vf for vf in self.host.settings if vf.pf not in self.host.lost_pfs
        ]
        return tuple(map(self._state, listed))

    def is_present(self, address: str) -> bool:
        return any(vf.address == address for vf in self.host.settings)

    def of(self, interface: str) -> VfState | None:
        found = map(self._state, self.host.settings)
        return next((vf for vf in found if vf.netdev == interface), None)

    def observe(self, vf: VfId) -> VfState:
        return self._state(vf)

    def plan(
        self, vf: VfId, desired: VfSettings, *, wait_s: float = 0.0
    ) -> Plan:
        return Plan(vf, "igb", (), (), desired, desired)

    def plan_reset(
        self,
        vf: VfId,
        driver: str | None = None,
        depth: Reset = NO_DEEPER,
    ) -> Plan:
        """As a NIC that cannot switch its spoof check on."""
        desired = dataclasses.replace(CLEAN, spoofchk=None)
        changes = unlike(self._state(vf).settings, desired)
        return Plan(
            *(vf, "igb", (), (), desired, VfSettings()),
            "it is not" if changes else None,
        )

    def mark_filters(self, vf: VfId) -> None:
        if self.keeps_filters:
            self.marks.add(vf)

    def apply(self, plan: Plan) -> VfState:
        self._write(plan.vf, plan.payload)
        return self._state(plan.vf)

    def reset(
        self,
        vf: VfId,
        driver: str | None = None,
        depth: Reset = NO_DEEPER,
    ) -> VfState:
        self.resets += 1
        if self.filters_remain:
            raise FiltersRemain(f"{vf}", "its PF keeps its filters", vf.pf)
        self._write(vf, CLEAN)
        if depth.fresh and self.function_hangs:
            raise FunctionNotReset(f"{vf}", "it does not answer", 25)
        if depth.fresh or vf in self.unbound:
            self._bind_again(vf)
        return self._state(vf)

    def renew(self, vf: VfId) -> VfState:
        self.renewed.append(vf)
        self.resets += 1
        self._bind_again(vf)
        return self._state(vf)

    def _bind_again(self, vf: VfId) -> None:
        """Make another interface of a VF, by the kernel's name for it."""
        clock = self.host.clock
        clock.tick(f"unbind {vf}")
        for link in list(self.host.links.values()):
            if (link.device, link.namespace) == (vf.address, None):
                self.host.drop(link.index)
        self.unbound.add(vf)
        clock.tick(f"bind {vf}")
        self.host.add(f"eth{self.resets}", device=vf.address, up=False)
        self.unbound.discard(vf)
        clock.tick(f"bound {vf}")

    def _write(self, vf: VfId, desired: VfSettings) -> None:
        for field in dataclasses.fields(VfSettings):
            value = getattr(desired, field.name)
            if value is None:
                continue
            self.host.clock.tick(f"{vf} {field.name}")
            now = self._state(vf).settings
            self.host.settings[vf] = dataclasses.replace(
                now, **{field.name: value}
            )

    def _driver(self, vf: VfId) -> str | None:
        if vf in self.unbound:
            return None
        return "vfio-pci" if vf in self.on_vfio else "igbvf"

    def _state(self, vf: VfId) -> VfState:
        if vf not in self.host.settings:
            raise NoSuchDevice(vf.address)
        link = next(
            (
                each
                for each in self.host.links.values()
                if each.device == vf.address and each.namespace is None
            ),
            None,
        )
        return VfState(
            id=vf,
            family="igb",
            driver=self._driver(vf),
            netdev=link.name if link else None,
            alias=link.alias if link else "",
            iommu_group=None,
            numa_node=self.host.nodes.get(vf.address),
            settings=self.host.settings[vf],
            mac_budget=self.host.budget,
            keeps_filters=vf in self.marks,
            tenancy=self.tenancies.get(vf.address),
        )


class FakeTenancies(Tenancies):
    """Real files of VFs, whose process can die before and after each write."""

    def __init__(self, host: FakeHost) -> None:
        self.root = pathlib.Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self.root, ignore_errors=True)
        super().__init__(Root(str(self.root)))
        self._host = host

    def _inode(self, address: str) -> int | None:
        return self._host.inodes.get(address)

    def _put(self, tenancy: Tenancy) -> None:
        self._host.clock.tick(f"write down {tenancy.address}")
        super()._put(tenancy)
        self._host.clock.tick("written down")


class FakeRecords(Records):
    """Real records whose process can die before and after each write."""

    def __init__(self, directory: pathlib.Path, clock: Clock) -> None:
        super().__init__(directory)
        self._clock = clock

    def begin(self, record: Record) -> None:
        self._clock.tick("begin")
        super().begin(record)
        self._clock.tick("begun")

    def put(self, record: Record) -> None:
        self._clock.tick("put")
        super().put(record)
        self._clock.tick("written")

    def step(self, port: str, name: str) -> None:
        self._clock.tick(f"step {name}")
        super().step(port, name)

    def end(self, port: str) -> None:
        self._clock.tick("end")
        super().end(port)
        self._clock.tick("ended")


def plugger(directory: pathlib.Path, host: FakeHost | None = None) -> Plugger:
    """Return a plugger on a host of its own: three VFs on physnet1.

    :param host: without any yet; None for another one.
    """
    host = host or FakeHost()
    host.add_pf()
    return Plugger(
        Host(
            FakeLinks(host),
            FakeVfs(host),
            Pools.parse(["physnet1:pf:enp1s0"]),
            Records(directory),
            Locks(directory, 0.2),
            Rules(carrier_wait_s=0.0),
        )
    )


class HostTest(unittest.TestCase):
    """A plugger on a host with one PF of three VFs and a plain interface."""

    parents = ("physnet1:pf:enp1s0", "physnet2:bond0")

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        # What this kernel does it has done at once.
        patched = mock.patch.object(host, "PATIENCE_S", 0.0)
        patched.start()
        self.addCleanup(patched.stop)
        self.directory = pathlib.Path(place.name) / "vif"
        self.host = FakeHost()
        self.host.add_pf()
        self.host.add("bond0")
        self.links = FakeLinks(self.host)
        self.vfs = FakeVfs(self.host)
        self.plugger = self.another()

    def another(
        self, away=anywhere, wait_s=0.2, counts=NOT_COUNTED, **rules
    ) -> Plugger:
        """Return a plugger as another process would have it."""
        return Plugger(
            Host(
                self.links,
                self.vfs,
                Pools.parse(self.parents),
                FakeRecords(self.directory, self.host.clock),
                Locks(self.directory, wait_s),
                Rules(**{"carrier_wait_s": 0.0, **rules}),
                away,
                counts=counts,
            )
        )

    def pending(self) -> tuple[str, ...]:
        """Return the ports that are in progress."""
        return Records(self.directory).ports()
