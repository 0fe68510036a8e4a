# SPDX-License-Identifier: Apache-2.0

"""Real libvirt with our hook: start, save, restore, migrate, containers."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
import uuid

from sriov_rt.guest import admission
from sriov_rt.guest import claims
from sriov_rt.guest import metadata
from sriov_rt.guest.domain import parse_domain
from sriov_rt.host.root import Root
from sriov_rt.libvirt import hook
from sriov_rt.parse.cpulist import CpuSet
from tests import periodic
from tests.functional.libvirt import daemon
from tests.functional.libvirt.daemon import DOMAIN
from tests.functional.libvirt.daemon import REQUEST
from tests.functional.libvirt.daemon import Libvirt

#: What the kernel of a host says whose CPU 1 is isolated, or whose CPU 0 is:
#: this machine isolates none, and boots in no other way.
ISOLATED_1 = {"isolated": "1\n", "nohz_full": "1\n"}
ISOLATED_0 = {"isolated": "0\n", "nohz_full": "0\n"}

#: Of two starts at once.
ROUNDS = 4

REALTIME = REQUEST.format("guest='lean' vcpu_sched='fifo:1'")


class Base(unittest.TestCase):
    def started(self, **more):
        """Return a daemon that ends with the test."""
        libvirt = Libvirt(**more)
        self.addCleanup(libvirt.close)
        return libvirt

    def render(self, libvirt, xml, *words):
        """Return what the documented command makes of a domain.

        Inside the daemon's namespace: the host is the daemon's.
        """
        inside = ("nsenter", "--mount", "--target", str(libvirt.process.pid))
        program = (*inside, sys.executable, "-m", "sriov_rt.cmd.main")
        facts = libvirt.place / "facts.json"
        done = subprocess.run(
            (*program, "host", "show", "--json"),
            capture_output=True,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        found = json.loads(done.stdout)
        # Others run on this machine's CPU that is isolated here alone.
        del found["occupancy"]
        facts.write_text(json.dumps(found))
        done = subprocess.run(
            (*program, "guest", "render", "--facts", str(facts), *words),
            input=xml,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def ok(self, done):
        """Return what a command printed that has to succeed."""
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def pins(self, libvirt, name="rt"):
        """Return the pCPUs of a guest's vCPU and emulator, and of threads.

        :returns: by libvirt, and by the kernel.
        """
        xml = self.ok(libvirt.virsh("dumpxml", name))
        said = (
            re.search(r"<vcpupin vcpu='0' cpuset='(.*?)'", xml)[1],
            re.search(r"<emulatorpin cpuset='(.*?)'", xml)[1],
        )
        (status,) = [
            path.read_text()
            for path in self.run_directory(libvirt).glob(f"{name}.xml")
        ]
        vcpu = re.search(r"<vcpu id='0' pid='(\d+)'", status)[1]
        main = re.search(r"<domstatus .*?pid='(\d+)'", status)[1]
        return said, (allowed(vcpu), allowed(main)), scheduler(vcpu)

    def run_directory(self, libvirt):
        return pathlib.Path(
            f"/proc/{libvirt.process.pid}/root/run/libvirt/qemu"
        )


def allowed(thread):
    """Return the CPUs that a thread may run on."""
    text = pathlib.Path(f"/proc/{thread}/status").read_text()
    return re.search(r"Cpus_allowed_list:\s*(\S+)", text)[1]


def scheduler(thread):
    """Return the scheduler of a thread, and its priority."""
    param = os.sched_getparam(int(thread))
    return os.sched_getscheduler(int(thread)), param.sched_priority


def domain(name="rt", request="", cputune="", devices=""):
    return DOMAIN.format(
        name=name, request=request, cputune=cputune, devices=devices
    )


@daemon.needs_qemu
@daemon.needs_root
class AddedTest(Base):
    """What libvirt adds by itself makes no guest differ from its request.

    x86 guests by libvirt and QEMU of this machine; what it adds to those of
    other architectures was read in its source.
    """

    GRAPHICS = ("", "vnc", "spice", "egl-headless", "dbus")
    KEPT = ("", "graphics", "console", "sound", "video,usb", "input,balloon")

    def each(self):
        """Yield domains with their requests: each pair of two of them."""
        pairs = itertools.product(self.GRAPHICS, self.KEPT)
        for number, (graphics, keep) in enumerate(pairs):
            line, column = divmod(number, len(self.KEPT))
            machine = ("q35", "pc")[(line + column) % 2]
            shown = f"<graphics type='{graphics}'/>" * bool(graphics)
            kept = f" keep='{keep}'" * bool(keep)
            xml = domain(
                uuid.uuid4().hex,
                REQUEST.format(f"guest='lean'{kept}"),
                devices=shown + "<sound model='ich9'/>",
            )
            yield xml.replace("q35", machine)

    def stored(self, libvirt, xml):
        """Return a domain as libvirt has it."""
        name = re.search("<name>(.*)</name>", xml)[1]
        self.ok(libvirt.define(xml))
        return self.ok(libvirt.virsh("dumpxml", "--inactive", name))

    def rendered(self, xml):
        """Return what 'guest render' makes of a domain."""
        request = metadata.requested(parse_domain(xml.encode()))
        found = admission.admit(
            xml.encode(), request, None, hook.MANAGER, taken=CpuSet()
        )
        return found.xml

    @staticmethod
    def devices(xml):
        return re.search("<devices>.*</devices>", xml, re.DOTALL)[0]

    def prepared(self, xml):
        """Return why the hook would refuse a domain."""
        call = hook.Call("rt", "prepare", "begin", xml.encode())
        return hook.run(call, Root()).problem

    def test_what_is_defined_as_it_was_rendered_is_not_refused(self):
        libvirt = self.started()
        for xml in self.each():
            with self.subTest(xml=xml):
                first = self.stored(libvirt, xml)
                second = self.stored(libvirt, self.rendered(first))
                self.assertEqual("", self.prepared(second))
                # The remedy of a refusal is to do that again: it ends.
                third = self.stored(libvirt, self.rendered(second))
                self.assertEqual(*map(self.devices, (second, third)))

    def test_a_guest_with_its_spice_starts(self):
        """As oVirt's have it, whose libvirt runs this hook as well."""
        libvirt = self.started()
        for graphics in ("vnc", "spice"):
            request = REQUEST.format("guest='lean' keep='graphics'")
            shown = f"<graphics type='{graphics}'/>"
            self.ok(libvirt.define(domain(graphics, request, devices=shown)))
            xml = self.ok(libvirt.virsh("dumpxml", "--inactive", graphics))
            self.ok(libvirt.define(self.render(libvirt, xml)))
            self.ok(libvirt.virsh("start", graphics))


@daemon.needs_qemu
@daemon.needs_root
class StartTest(Base):
    def test_refused_rendered_started_saved_and_restored(self):
        libvirt = self.started(kernel=ISOLATED_1)
        self.ok(libvirt.define(domain("plain")))
        self.ok(libvirt.virsh("start", "plain"))
        self.ok(libvirt.define(domain(request=REALTIME)))

        refused = libvirt.virsh("start", "rt")
        self.assertNotEqual(0, refused.returncode)
        sentence = "the domain is not what its request makes of it (removed"
        self.assertIn(
            f"guest=rt op=prepare refused: {sentence}", refused.stderr
        )
        self.assertIn(sentence, libvirt.log())

        xml = self.ok(libvirt.virsh("dumpxml", "--inactive", "rt"))
        self.ok(libvirt.define(self.render(libvirt, xml)))
        self.ok(libvirt.virsh("start", "rt"))
        where = (("1", "0"), ("1", "0"), (os.SCHED_FIFO, 1))
        self.assertEqual(where, self.pins(libvirt))

        image = str(libvirt.place / "rt.save")
        self.ok(libvirt.virsh("save", "rt", image))
        self.ok(libvirt.virsh("restore", image))
        self.assertEqual(where, self.pins(libvirt))
        self.ok(libvirt.virsh("destroy", "rt"))
        self.assertIn("plain", libvirt.virsh("list", "--name").stdout)

    def test_without_its_interpreter_who_asks_nothing_starts(self):
        libvirt = self.started(
            policy="[cockpit-*]\n", python="/nonexistent/python3"
        )
        for name, request in (
            ("web-1", ""),
            ("rt", REALTIME),
            ("cockpit", ""),
        ):
            self.ok(libvirt.define(domain(name, request=request)))
        self.ok(libvirt.define(domain("cockpit-1")))
        for name in ("web-1", "cockpit"):
            self.ok(libvirt.virsh("start", name))
        for name in ("rt", "cockpit-1"):
            refused = libvirt.virsh("start", name)
            self.assertNotEqual(0, refused.returncode)
            self.assertIn("that has it in the line python=", refused.stderr)

    def test_what_the_host_cannot_give(self):
        """On this machine itself, which isolates no CPU."""
        libvirt = self.started(policy="[cockpit-*]\nrealtime = required\n")
        self.ok(libvirt.define(domain("cockpit-1")))
        refused = libvirt.virsh("start", "cockpit-1")
        self.assertIn(
            "guest=cockpit-1 op=prepare refused: no CPU is isolated; boot "
            "with isolcpus=managed_irq,domain,",
            refused.stderr,
        )
        # Nothing is left of the attempt.
        self.assertEqual("", libvirt.virsh("list", "--name").stdout.strip())
        self.ok(libvirt.define(domain("web-1")))
        self.ok(libvirt.virsh("start", "web-1"))


@daemon.needs_qemu
@daemon.needs_root
class TwoStartsTest(Base):
    """Two guests whose vCPU is pinned to the one isolated CPU."""

    NAMES = ("rt-1", "rt-2")

    def setUp(self):
        super().setUp()
        self.libvirt = self.started(kernel=ISOLATED_1)
        for name in self.NAMES:
            xml = domain(name, request=REALTIME)
            self.ok(self.libvirt.define(self.render(self.libvirt, xml)))

    def start(self, *names, delay=0.0):
        """Start guests at once; return what virsh said, by guest.

        :param delay: before each but the first, seconds.
        """
        running = {}
        for name in names:
            if running:
                time.sleep(delay)
            running[name] = subprocess.Popen(
                ("virsh", "-c", self.libvirt.uri, "start", name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        return {
            name: process.communicate(timeout=180)[1]
            for name, process in running.items()
        }

    def running(self):
        return self.libvirt.virsh("list", "--name").stdout.split()

    def test_one_of_them_runs(self):
        both = 0
        for number in range(ROUNDS):
            said = self.start(*self.NAMES, delay=number % 4 * 0.1)
            found = self.running()
            both += len(found) == 2
            for refused in set(self.NAMES).difference(found):
                self.assertIn("op=prepare refused: pCPUs 1 ", said[refused])
            for name in found:
                self.ok(self.libvirt.virsh("destroy", name))
        self.assertEqual(0, both, f"{both} of {ROUNDS} rounds ran both")

    def add_hook(self, script):
        """Add a hook that libvirt calls after ours."""
        program = self.libvirt.place / "etc/hooks/qemu.d/zz"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def claims(self):
        """Return the files of claims, in the daemon's own /run."""
        root = pathlib.Path(f"/proc/{self.libvirt.process.pid}/root")
        return list((root / claims.PLACE).glob("*.json"))

    @periodic.periodic
    def test_a_start_that_fails_after_it_gives_its_pcpus_back(self):
        one, two = self.NAMES
        for operation in ("prepare", "start"):
            self.add_hook(f'[ "$1 $2" != "{one} {operation}" ]')
            self.assertIn("zz", self.start(one)[one])
            self.assertEqual([], self.claims())
            self.ok(self.libvirt.virsh("start", two))
            self.ok(self.libvirt.virsh("destroy", two))
            self.assertEqual([], self.claims())

    @periodic.periodic
    def test_a_start_that_has_lost_them_meanwhile_ends(self):
        """Its claim was as old as one of a libvirtd that was killed."""
        one, two = self.NAMES
        flag = self.libvirt.place / "slow"
        flag.touch()
        self.add_hook(
            f'[ "$1 $2" != "{one} start" ] || while [ -e {flag} ]; '
            "do sleep 0.1; done"
        )
        with concurrent.futures.ThreadPoolExecutor() as threads:
            slow = threads.submit(self.start, one)
            deadline = time.monotonic() + 60
            while not self.claims() and time.monotonic() < deadline:
                time.sleep(0.05)
            (claim,) = self.claims()
            said = self.start(two)[two]
            self.assertIn("pCPUs 1 of realtime vCPUs", said)
            os.utime(claim, (1, 1))
            self.assertEqual("", self.start(two)[two])
            flag.unlink()
            said = slow.result(60)[one]
        self.assertIn("op=started refused: pCPUs 1 of", said)
        self.assertEqual([two], self.running())
        self.ok(self.libvirt.virsh("destroy", two))
        self.ok(self.libvirt.virsh("start", one))


@periodic.periodic
@daemon.needs_qemu
@daemon.needs_root
class ArrivalTest(Base):
    """Guests that come to a host with other isolated CPUs."""

    def setUp(self):
        super().setUp()
        self.source = self.started(kernel=ISOLATED_1)
        self.target = self.started(kernel=ISOLATED_0)
        xml = domain(request=REALTIME)
        self.ok(self.source.define(self.render(self.source, xml)))
        self.ok(self.source.virsh("start", "rt"))
        self.assertEqual(
            (("1", "0"), ("1", "0"), (os.SCHED_FIFO, 1)),
            self.pins(self.source),
        )
        self.here = (("0", "1"), ("0", "1"), (os.SCHED_FIFO, 1))

    def test_migrated(self):
        self.ok(
            self.source.virsh(
                *("migrate", "--live", "rt", self.target.uri),
                *("--migrateuri", "tcp://127.0.0.1"),
            )
        )
        self.assertEqual(self.here, self.pins(self.target))

    def test_saved_there_and_restored_here(self):
        image = str(self.source.place / "rt.save")
        self.ok(self.source.virsh("save", "rt", image))
        self.ok(self.target.virsh("restore", image))
        self.assertEqual(self.here, self.pins(self.target))

    def test_a_host_that_has_no_isolated_cpu_refuses_the_migration(self):
        bare = self.started()
        refused = self.source.virsh(
            *("migrate", "--live", "rt", bare.uri),
            *("--migrateuri", "tcp://127.0.0.1"),
        )
        self.assertIn("op=migrate refused: ", refused.stderr)
        self.assertIn("isolate more", refused.stderr)
        self.assertEqual("running", self.state(self.source))

    def state(self, libvirt):
        return self.ok(libvirt.virsh("domstate", "rt")).strip()


LXC = """<domain type='lxc'>
  <name>rt</name>
  <uuid>{uuid}</uuid>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <metadata>{request}</metadata>
  <os><type>exe</type><init>/bin/sleep</init><initarg>600</initarg></os>
  <devices><console type='pty'/></devices>
</domain>"""


@periodic.periodic
@unittest.skipUnless(
    pathlib.Path("/usr/lib/libvirt/libvirt_lxc").exists(),
    "libvirt has no LXC driver here",
)
@daemon.needs_root
class ContainerTest(Base):
    def test_refused_and_started(self):
        libvirt = self.started(kernel=ISOLATED_1, driver="lxc")
        xml = LXC.format(
            uuid=uuid.uuid4(), request=REQUEST.format("realtime='required'")
        )
        self.ok(libvirt.define(xml))
        refused = libvirt.virsh("start", "rt")
        self.assertIn("guest=rt op=prepare refused: ", refused.stderr)
        self.ok(libvirt.define(xml.replace("realtime='required'", "")))
        self.ok(libvirt.virsh("start", "rt"))
