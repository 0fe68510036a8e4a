# SPDX-License-Identifier: Apache-2.0

"""Ports on this machine's kernel, on a veth in place of a VF."""

import dataclasses
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent import futures
from typing import ClassVar

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.links import Links
from sriov_rt.kernel.tc import Limits
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.plan import Plan
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import alias
from sriov_rt.vif import errors
from sriov_rt.vif import validation
from sriov_rt.vif.host import Host
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.plugger import Plugger
from sriov_rt.vif.records import Records
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from tests import periodic
from tests.functional.vif.isolated import MAC
from tests.functional.vif.isolated import IsolatedTestCase
from tests.functional.vif.isolated import sh
from tests.functional.vif.isolated import until

#: The plugger looks into every namespace of the machine, those of other
#: tests too: no two have the same ports.
PORT = str(uuid.uuid4())
OTHER = str(uuid.uuid4())
OWNER = f"tester-{PORT[:8]}"

#: More than the writes to the records that any plug or unplug makes.
MANY = 60

#: The write of a plain plug before which its interface is there: after the
#: intent comes the end.
MADE = 3


ONE_VF = VfState(
    id=VfId("pf0", 0, "0000:01:10.0"),
    family="igb",
    driver="igbvf",
    netdev="vf0",
    alias="",
    iommu_group=None,
    numa_node=None,
    settings=BASELINE,
    mac_budget=3,
)


class DyingRecords(Records):
    """Kills its process before, and after, a write of a number."""

    def __init__(self, directory: pathlib.Path, at: int) -> None:
        super().__init__(directory)
        self._left = at

    def _tick(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def begin(self, record: Record) -> None:
        self._tick()
        super().begin(record)
        self._tick()

    def put(self, record: Record) -> None:
        self._tick()
        super().put(record)
        self._tick()

    def step(self, port: str, name: str) -> None:
        self._tick()
        super().step(port, name)
        self._tick()

    def end(self, port: str) -> None:
        self._tick()
        super().end(port)
        self._tick()


class DressedLinks(Links):
    """Shows vf0 as the interface of a PCI device, which it is not here."""

    def get(self, name, namespace=None):
        found = super().get(name, namespace)
        return None if found is None else self._dressed(found)

    def all(self, **where):
        return [*map(self._dressed, super().all(**where))]

    def _dressed(self, link: Link) -> Link:
        if (link.name, link.namespace) != ("vf0", None):
            return link
        device = ONE_VF.id.address
        return dataclasses.replace(link, kind="", parent=None, device=device)


class OneVf:
    """The Vfs of a host whose only one is vf0, always at the baseline."""

    def list(self, pf=None):
        return (ONE_VF,)

    def of(self, interface):
        return ONE_VF if interface == "vf0" else None

    def plan_reset(self, vf, driver=None, depth=None):
        return Plan(vf, "igb", (), (), BASELINE, VfSettings())

    def mark_filters(self, vf):
        pass

    def observe(self, vf):
        return ONE_VF

    renew = observe

    @property
    def tenancies(self):
        return Tenancies()


class PluggerTestCase(IsolatedTestCase):
    links_class = Links
    vfs = staticmethod(Vfs.of_host)
    patience_s: ClassVar[float | None] = None

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            return
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name) / "vif"
        self.plugger = self.another()

    def another(self, records: Records | None = None) -> Plugger:
        return Plugger(
            Host(
                self.links_class(),
                self.vfs(),
                Pools.parse(["physnet1:vf0"]),
                records or Records(self.directory),
                Locks(self.directory, 10),
                Rules(carrier_wait_s=1.0),
                patience_s=self.patience_s,
            )
        )

    def asked(self, kind=Kind.MACVLAN, **fields) -> Plug:
        values = {
            "port": PORT,
            "owner": OWNER,
            "kind": kind,
            "physical_network": "physnet1",
            "namespace": "tenant",
            "name": "eth1",
        }
        return validation.checked(Plug(**{**values, **fields}))

    def _dies(self, at, work) -> bool:
        """Do some work in a process; tell whether it was killed."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(self.another(DyingRecords(self.directory, at)))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            self.assertEqual(signal.SIGKILL, os.WTERMSIG(status))
            return True
        self.assertEqual(0, os.waitstatus_to_exitcode(status))
        return False

    def shown(self):
        """Return the ports of this host: those of other tests are not."""
        return tuple(
            each for each in self.plugger.show() if each.owner == OWNER
        )

    def machine(self):
        """Return every link of the host and of the tenant, but its state."""
        return [
            sorted(
                (each["ifname"], each["ifindex"], each.get("ifalias"))
                for each in self.ip("link", namespace=place)
            )
            for place in (None, "tenant")
        ]


class PlugTest(PluggerTestCase):
    def test_every_mode_of_a_macvlan_in_a_named_namespace(self):
        before = self.machine()
        for kind in (Kind.MACVLAN, Kind.MACVTAP):
            for mode in ("bridge", "private", "vepa", "passthru"):
                with self.subTest(kind=kind, mode=mode):
                    want = self.asked(
                        kind,
                        mode=mode,
                        mac="02:00:5e:10:00:01",
                        mtu=1400,
                        addresses=("192.0.2.1/24", "2001:db8::1/64"),
                        routes=(("default", "192.0.2.254"),),
                        limits=Limits(10_000, None),
                    )
                    found = self.plugger.plug(want)
                    (link,) = self.ip("link", "show", "eth1")
                    info = link["linkinfo"]
                    self.assertEqual(
                        (str(kind), mode, "02:00:5e:10:00:01", 1400),
                        (
                            info["info_kind"],
                            info["info_data"]["mode"],
                            link["address"],
                            link["mtu"],
                        ),
                    )
                    self.assertIn("UP", link["flags"])
                    self.assertEqual("UP", link["operstate"])
                    self.assertEqual(
                        f"sriov-rt:{PORT}:{OWNER}", link["ifalias"]
                    )
                    (route,) = self.ip("route", "show", "default")
                    self.assertEqual("192.0.2.254", route["gateway"])
                    self.assertEqual((found,), self.shown())
                    self.assertEqual("vf0", found.parent)
                    self.assertEqual(found, self.plugger.plug(want))
                    self.assertTrue(self.plugger.unplug(PORT))
                    self.assertFalse(self.plugger.unplug(PORT))
                    self.assertEqual(before, self.machine())
        left = [each.name for each in self.directory.rglob("*")]
        self.assertEqual(["lock", "records"], sorted(left))

    def test_into_the_namespace_of_a_process(self):
        with subprocess.Popen(
            ["unshare", "-n", "sleep", "60"], stdout=subprocess.DEVNULL
        ) as process:
            self.addCleanup(process.kill)
            own = pathlib.Path("/proc/thread-self/ns/net").readlink()
            there = pathlib.Path(f"/proc/{process.pid}/ns/net")
            while there.readlink() == own:
                time.sleep(0.01)
            place = f"pid:{process.pid}"
            found = self.plugger.plug(self.asked(namespace=place))
            self.assertEqual(
                (place, "eth1"), (found.namespace, found.interface)
            )
            self.assertEqual((found,), self.shown())
            seen = sh(
                "nsenter", f"--net={there}", "ip", "-j", "link", "show", "eth1"
            )
            self.assertEqual(found.mac, json.loads(seen)[0]["address"])
            process.kill()
        until(
            "the port is absent",
            lambda: self.shown()[0].state is State.ABSENT,
        )
        # It went with its namespace; that is no error.
        self.assertFalse(self.plugger.unplug(PORT))

    def test_traffic_between_two_ports(self):
        sh("ip", "netns", "add", "other")
        self.plugger.plug(self.asked(addresses=("192.0.2.1/24",)))
        self.plugger.plug(
            self.asked(
                port=OTHER, namespace="other", addresses=("192.0.2.2/24",)
            )
        )
        said = sh(
            "ip", "netns", "exec", "tenant",
            "ping", "-c", "3", "-i", "0.1", "-W", "2", "192.0.2.2",
        )  # fmt: skip
        self.assertIn("3 received", said)
        self.plugger.unplug(OTHER)
        done = subprocess.run(
            [
                "ip",
                "netns",
                "exec",
                "tenant",
                "ping",
                "-c1",
                "-W1",
                "192.0.2.2",
            ],
            capture_output=True,
            check=False,
        )
        self.assertNotEqual(0, done.returncode)

    def test_what_the_kernel_refuses_is_named_and_undone(self):
        sh("ip", "-n", "tenant", "link", "add", "eth1", "type", "bridge")
        before = self.machine()
        with self.assertRaises(kernel_errors.NameTaken):
            self.plugger.plug(self.asked())
        with self.assertRaises(kernel_errors.NoSuchNamespace):
            self.plugger.plug(self.asked(namespace="nowhere"))
        with self.assertRaises(kernel_errors.LinkRefused):
            # No network leads to the gateway: that fails at a late step.
            self.plugger.plug(
                self.asked(name="eth2", routes=(("default", "192.0.2.9"),))
            )
        with self.assertRaises(errors.NoParent):
            self.plugger.plug(self.asked(kind=Kind.VF))
        self.assertEqual(before, self.machine())
        self.assertEqual((), self.shown())
        self.assertEqual((), Records(self.directory).ports())

    def test_a_parent_that_is_no_vf_is_set_up_and_stays(self):
        sh("ip", "link", "set", "vf0", "down")
        self.plugger.plug(self.asked())
        self.plugger.unplug(PORT)
        (link,) = self.ip("link", "show", "vf0", namespace=None)
        self.assertIn("UP", link["flags"])
        self.assertNotIn("ifalias", link)

    def test_cycles_leave_no_descriptor(self):
        want = self.asked(addresses=("192.0.2.1/24",))
        self.plugger.plug(want)
        self.plugger.unplug(PORT)
        descriptors = pathlib.Path("/proc/self/fd")
        before = len(list(descriptors.iterdir()))
        for _ in range(200 if periodic.wanted() else 20):
            self.plugger.plug(want)
            self.assertTrue(self.plugger.unplug(PORT))
        self.assertLessEqual(len(list(descriptors.iterdir())), before)


class MovedTest(PluggerTestCase):
    """Ports that libvirt moves from the host into a container."""

    def see(self) -> Plugged:
        """Return the one port of this host as it is shown."""
        (found,) = self.shown()
        return found

    def test_it_is_plugged_wherever_the_container_is(self):
        made = self.plugger.plug(self.asked(namespace=None))
        self.assertEqual(made, self.see())
        sh("ip", "link", "set", "eth1", "netns", "tenant")
        named = dataclasses.replace(made, namespace="tenant")
        self.assertEqual(named, self.see())
        container = subprocess.Popen(("unshare", "-n", "sleep", "60"))
        self.addCleanup(container.wait)
        self.addCleanup(container.kill)
        own = pathlib.Path("/proc/thread-self/ns/net").readlink()
        there = pathlib.Path(f"/proc/{container.pid}/ns/net")
        until("it has left", lambda: there.readlink() != own)
        sh("ip", "-n", "tenant", "link", "set", "eth1", "netns",
           str(container.pid))  # fmt: skip
        nameless = self.see()
        self.assertEqual(State.PLUGGED, nameless.state)
        self.assertEqual(f"pid:{container.pid}", nameless.namespace)

    def test_it_is_absent_when_the_container_has_ended(self):
        self.plugger.plug(self.asked(namespace=None))
        sh("ip", "link", "set", "eth1", "netns", "tenant")
        sh("ip", "-n", "tenant", "link", "del", "eth1")
        self.assertEqual(State.ABSENT, self.see().state)

    def test_what_was_made_in_a_container_is_absent_elsewhere(self):
        self.plugger.plug(self.asked())
        sh("ip", "netns", "add", "other")
        sh("ip", "-n", "tenant", "link", "set", "eth1", "netns", "other")
        self.assertEqual(State.ABSENT, self.see().state)


class ParentTest(PluggerTestCase):
    """The parent is a VF, as far as anybody is told, and it is down."""

    links_class = DressedLinks
    vfs = OneVf

    def setUp(self):
        super().setUp()
        if os.geteuid() == 0:
            sh("ip", "link", "set", "vf0", "down")

    def parent(self) -> tuple[bool, str]:
        """Return whether it is up, and its alias."""
        (link,) = self.ip("link", "show", "vf0", namespace=None)
        return "UP" in link["flags"], link.get("ifalias", "")

    def recovered(self) -> tuple[str, ...]:
        return self.another().recover().cleaned

    def test_it_is_up_while_there_are_ports_on_it(self):
        self.plugger.plug(self.asked())
        self.plugger.plug(self.asked(port=OTHER, name="eth2"))
        self.plugger.unplug(PORT)
        self.assertEqual((True, alias.PARENT), self.parent())
        self.another().unplug(OTHER)
        self.assertEqual((False, ""), self.parent())

    def test_one_that_was_up_stays_up(self):
        sh("ip", "link", "set", "vf0", "up")
        self.plugger.plug(self.asked(mode="passthru", mac=MAC))
        self.plugger.unplug(PORT)
        self.assertEqual((True, ""), self.parent())

    def test_its_mac_is_back_after_a_passthru_with_another(self):
        (before,) = self.ip("link", "show", "vf0", namespace=None)
        self.plugger.plug(self.asked(mode="passthru", mac=MAC))
        (meanwhile,) = self.ip("link", "show", "vf0", namespace=None)
        self.assertEqual(MAC, meanwhile["address"])
        self.plugger.unplug(PORT)
        (after,) = self.ip("link", "show", "vf0", namespace=None)
        self.assertEqual(before["address"], after["address"])
        self.assertEqual((0, False), (after["promiscuity"], self.parent()[0]))

    def end_container(self) -> None:
        """End the tenant's namespace, and its ports with it."""
        (port,) = self.plugger.show()
        # What is in a namespace that ends goes when the kernel finds time.
        sh("ip", "-n", "tenant", "link", "del", port.interface)
        sh("ip", "netns", "del", "tenant")
        sh("ip", "netns", "add", "tenant")

    def test_a_container_that_took_its_port_along(self):
        self.plugger.plug(self.asked())
        self.end_container()
        self.assertEqual((True, alias.PARENT), self.parent())
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertEqual((False, ""), self.parent())

    def test_others_keep_it_up_until_they_have_gone(self):
        vf0 = ("dev", "vf0")
        for come, go in (
            (
                ("link", "add", "web0", "link", "vf0", "type", "macvlan"),
                ("link", "del", "web0"),
            ),
            (
                ("address", "add", "192.0.2.7/24", *vf0),
                ("address", "del", "192.0.2.7/24", *vf0),
            ),
            (
                ("address", "add", "2001:db8::7/64", *vf0),
                ("address", "del", "2001:db8::7/64", *vf0),
            ),
        ):
            with self.subTest(come=come):
                self.plugger.plug(self.asked())
                sh("ip", *come)
                self.plugger.unplug(PORT)
                self.assertEqual((), self.recovered())
                self.assertEqual((True, alias.PARENT), self.parent())
                sh("ip", *go)
                self.assertEqual(("vf0",), self.recovered())
                self.assertEqual((False, ""), self.parent())

    def test_a_bridge_keeps_it_up(self):
        sh("ip", "link", "add", "br0", "type", "bridge")
        self.plugger.plug(self.asked())
        self.end_container()
        sh("ip", "link", "set", "vf0", "master", "br0")
        self.assertEqual((), self.recovered())
        self.assertEqual((True, alias.PARENT), self.parent())
        sh("ip", "link", "set", "vf0", "nomaster")
        self.assertEqual(("vf0",), self.recovered())

    def test_killed_at_each_write_it_is_down_after_the_next_start(self):
        want = self.asked()
        for plugged, work in (
            (False, lambda it: it.plug(want)),
            (True, lambda it: it.unplug(PORT)),
        ):
            for number in range(1, MANY):
                if plugged:
                    self.plugger.plug(want)
                died = self._dies(number, work)
                self.plugger.recover()
                self.plugger.unplug(PORT)
                with self.subTest(plugged=plugged, at=number):
                    self.assertEqual((False, ""), self.parent())
                if not died:
                    break
            self.assertGreater(number, 5)


class CrashTest(PluggerTestCase):
    def _full(self, kind, mode) -> Plug:
        return self.asked(
            kind,
            mode=mode,
            mac="02:00:5e:10:00:01",
            addresses=("192.0.2.1/24",),
            limits=Limits(10_000, None),
        )

    def test_killed_at_each_write_of_a_plug(self):
        before = self.machine()
        for kind, mode in (
            (Kind.MACVLAN, "bridge"),
            (Kind.MACVLAN, "passthru"),
            (Kind.MACVTAP, "bridge"),
        ):
            want = self._full(kind, mode)
            for number in range(1, MANY):
                died = self._dies(number, lambda it, want=want: it.plug(want))
                with self.subTest(kind=kind, mode=mode, at=number):
                    done = self.plugger.recover()
                    self.assertEqual((), done.failed)
                    if PORT in done.standing:
                        # The last write says that it is done.
                        self.assertEqual((), done.undone)
                        self.assertTrue(self.plugger.unplug(PORT))
                    self.assertEqual(before, self.machine())
                    self.assertEqual((), Records(self.directory).ports())
                if not died:
                    break
            self.assertGreater(number, 8)

    def test_killed_at_each_write_of_an_unplug(self):
        before = self.machine()
        for number in range(1, MANY):
            self.plugger.plug(self._full(Kind.MACVLAN, "bridge"))
            died = self._dies(number, lambda it: it.unplug(PORT))
            with self.subTest(at=number):
                done = self.plugger.recover()
                self.assertEqual(number == 1, PORT in done.standing)
                self.plugger.unplug(PORT)
                self.assertEqual(before, self.machine())
                self.assertEqual((), Records(self.directory).ports())
            if not died:
                break
        self.assertGreater(number, 4)

    def test_killed_and_plugged_again(self):
        want = self._full(Kind.MACVLAN, "bridge")
        for number in (2, 3, 5, 8):
            self._dies(number, lambda it: it.plug(want))
            found = self.plugger.plug(want)
            self.assertEqual((found,), self.shown())
            self.assertTrue(self.plugger.unplug(PORT))

    def test_sixty_four_interrupted_plugs_are_undone(self):
        for number in range(64):
            want = self.asked(
                port=str(uuid.uuid4()),
                name=f"eth{number}",
            )
            self.assertTrue(
                self._dies(MADE, lambda it, want=want: it.plug(want))
            )
        self.assertEqual(64, len(Records(self.directory).ports()))
        self.assertEqual(64, len(self.ip("link", "show", "type", "macvlan")))
        done = self.plugger.recover()
        self.assertEqual(64, len(done.undone))
        self.assertEqual((), self.shown())


class TogetherTest(PluggerTestCase):
    def _at_once(self, *works) -> list[int]:
        children = []
        for work in works:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    work(self.another())
                    code = 0
                except Exception as error:  # noqa: BLE001
                    # What the parent sees is the code alone.
                    os.write(2, f"{error!r}\n".encode())
                finally:
                    os._exit(code)
            children.append(pid)
        return [
            os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            for pid in children
        ]

    def test_two_processes_that_plug_the_same_port(self):
        want = self.asked()
        for _ in range(10):
            codes = self._at_once(*[lambda it: it.plug(want)] * 2)
            self.assertEqual([0, 0], codes)
            self.assertEqual(1, len(self.shown()))
            codes = self._at_once(*[lambda it: it.unplug(PORT)] * 2)
            self.assertEqual([0, 0], codes)
            self.assertEqual((), self.shown())

    def test_processes_that_plug_ports_of_one_parent(self):
        wants = [
            self.asked(
                port=str(uuid.uuid4()),
                name=f"eth{number}",
            )
            for number in range(8)
        ]
        works = [lambda it, want=want: it.plug(want) for want in wants]
        self.assertEqual([0] * 8, self._at_once(*works))
        self.assertEqual(8, len(self.shown()))

    def test_passthru_is_got_by_one_of_two(self):
        wants = [
            self.asked(port=port, name=name, mode="passthru")
            for port, name in ((PORT, "eth1"), (OTHER, "eth2"))
        ]
        works = [lambda it, want=want: it.plug(want) for want in wants]
        self.assertEqual([0, 1], sorted(self._at_once(*works)))
        self.assertEqual(1, len(self.shown()))

    def test_threads_of_one_process(self):
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.addCleanup(os.close, own)

        def cycle(number):
            _enter(own)
            port = str(uuid.uuid4())
            for _ in range(5):
                self.plugger.plug(self.asked(port=port, name=f"eth{number}"))
                self.assertTrue(self.plugger.unplug(port))

        with futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(cycle, range(4)))
        self.assertEqual((), self.shown())


class ProbeTest(PluggerTestCase):
    """A process was killed while it asked whether vf0 is idle."""

    def setUp(self):
        super().setUp()
        if os.geteuid() == 0:
            sh("ip", "link", "add", "link", "vf0", "name", "srtq0123456789",
               "type", "macvlan", "mode", "passthru")  # fmt: skip

    def shows_none(self):
        names = [each["ifname"] for each in self.ip("link", namespace=None)]
        self.assertIn("vf0", names)
        self.assertNotIn("srtq0123456789", names)

    def test_a_plug_deletes_it(self):
        self.plugger.plug(self.asked())
        self.shows_none()
        self.assertTrue(self.plugger.unplug(PORT))

    def test_a_recovery_deletes_it(self):
        self.plugger.recover()
        self.shows_none()

    def test_who_asks_just_now_is_left_alone(self):
        with Locks(self.directory, 10).parent("vf0"):
            self.plugger.recover()
            self.assertIn(
                "srtq0123456789",
                [each["ifname"] for each in self.ip("link", namespace=None)],
            )


class CommandTest(PluggerTestCase):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            return
        self.config = self.directory.parent / "sriov-rt.conf"
        self.config.write_text(
            f"[vif]\nparents = physnet1:vf0\nrecords = {self.directory}\n"
        )

    def run_command(self, action, *words, code=0):
        done = subprocess.run(
            [
                sys.executable, "-m", "sriov_rt.cmd.main", "vif", action,
                "--config-file", str(self.config), *words,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )  # fmt: skip
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stdout + done.stderr

    def test_plug_show_unplug(self):
        words = (
            "--port", PORT, "--owner", OWNER, "--kind", "macvlan",
            "--network", "physnet1", "--namespace", "tenant",
            "--name", "eth1", "--address", "192.0.2.1/24",
        )  # fmt: skip
        planned = self.run_command("plug", *words, "--dry-run")
        self.assertIn("make macvlan bridge eth1 on vf0 in tenant", planned)
        self.assertNotIn(PORT, self.run_command("show", "--json"))
        plugged = json.loads(self.run_command("plug", *words, "--json"))
        self.assertEqual("eth1", plugged["interface"])
        self.assertIn(PORT, self.run_command("show"))
        self.assertIn("unplugged", self.run_command("unplug", PORT))
        self.assertIn("was not plugged", self.run_command("unplug", PORT))

    def test_errors_are_one_line(self):
        said = self.run_command(
            "plug", "--port", PORT, "--owner", OWNER, "--kind", "macvlan",
            "--parent", "vf9", code=2,
        )  # fmt: skip
        self.assertIn("vf9: no such interface", said)
        self.assertEqual(1, len(said.splitlines()))

    def test_a_start_recovers_what_was_interrupted(self):
        dying = DyingRecords(self.directory, MADE)
        pid = os.fork()
        if pid == 0:
            try:
                self.another(dying).plug(self.asked())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        self.run_command("unplug", OTHER)
        self.assertEqual((), Records(self.directory).ports())
        self.assertEqual((), self.shown())


@functools.cache
def _libc():
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _enter(descriptor: int) -> None:
    """Move a thread of the pool to the test's namespace."""
    if _libc().setns(descriptor, 0x40000000) != 0:
        raise OSError("setns")
