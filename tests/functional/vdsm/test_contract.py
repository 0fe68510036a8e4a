# SPDX-License-Identifier: Apache-2.0

"""oVirt's hook by vdsm's contract, on real libvirt."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
import uuid

from sriov_rt.parse.pinning import parse_pinning
from sriov_rt.request import guest_request
from tests.functional.libvirt import daemon
from tests.functional.libvirt import test_hook
from tests.functional.libvirt.test_hook import domain
from tests.functional.vdsm import stand_in
from tests.functional.vdsm.stand_in import HookError
from tests.testbed import walk

PAGE = daemon.ROOT / "doc/source/admin/ovirt.rst"

EVENTS = (
    "before_vm_start",
    "before_vm_dehibernate",
    "before_vm_migrate_destination",
    "after_vm_destroy",
)


class InstalledTest(unittest.TestCase):
    """What the page installs, below a directory."""

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        (block,) = re.findall(
            r"code-block:: sh\n\n((?:   [^\n]*\n|\n)+)", PAGE.read_text()
        )
        # As in a wheel: share/sriov-rt has what etc has here.
        share = self.place / "prefix/share"
        share.mkdir(parents=True)
        (share / "sriov-rt").symlink_to(daemon.ROOT / "etc")
        subprocess.run(
            ("sh", "-ec", textwrap.dedent(block)),
            env={
                **os.environ,
                "PREFIX": str(self.place / "prefix"),
                "DESTDIR": str(self.place),
            },
            check=True,
        )
        self.hooks = self.place / "usr/libexec/vdsm/hooks"
        for event in EVENTS:
            self.name_python(self.hooks / event / "50_sriov_rt")

    def name_python(self, program, python=sys.executable):
        script = program.read_text()
        for each in (f"{daemon.INTERPRETER}\n", "#!/usr/bin/python3 -I\n"):
            named = each.replace("/usr/bin/python3", python)
            script = script.replace(each, named)
        program.write_text(script)

    def vdsm(self, event, xml, **properties):
        return stand_in.run_hooks(self.hooks, event, xml, properties)


class ContractTest(InstalledTest):
    def test_what_is_installed(self):
        found = {
            str(path.relative_to(self.place)): path.stat().st_mode & 0o777
            for each in ("usr", "etc")
            for path in (self.place / each).rglob("*")
            if path.is_file()
        }
        hooks = {
            f"usr/libexec/vdsm/hooks/{event}/50_sriov_rt": 0o755
            for event in EVENTS
        }
        self.assertEqual(
            {
                **hooks,
                "usr/libexec/sriov-rt/reset-vfs": 0o755,
                "usr/libexec/sriov-rt/claim-cpus": 0o755,
                "etc/sudoers.d/50_vdsm_hook_sriov_rt": 0o440,
                "etc/libvirt/hooks/qemu.d/sriov-rt": 0o755,
            },
            found,
        )

    def test_a_vm_without_properties(self):
        for event in EVENTS:
            for xml in (domain(), "<half", ""):
                self.assertEqual(xml, self.vdsm(event, xml))

    def test_without_its_interpreter_who_asks_nothing_starts(self):
        for event in EVENTS[:-1]:
            program = self.hooks / event / "50_sriov_rt"
            script = program.read_text()
            program.write_text(script.replace(sys.executable, "/nonexistent"))
            self.assertEqual(domain(), self.vdsm(event, domain()))
            with self.assertRaisesRegex(
                HookError, "that has it in the line python="
            ):
                self.vdsm(event, domain(), sriov_rt="guest=lean")

    def test_a_refusal_stops_the_others_and_shows_one_sentence(self):
        later = self.hooks / "before_vm_start/99_later"
        later.write_text(f"#!/bin/sh\ntouch {self.place}/later\n")
        later.chmod(0o755)
        with self.assertRaises(HookError) as raised:
            self.vdsm(
                "before_vm_start", domain(), sriov_rt="realtime=required"
            )
        self.assertIn("no CPU is isolated; boot with", str(raised.exception))
        self.assertFalse((self.place / "later").exists())
        self.vdsm("before_vm_start", domain())
        self.assertTrue((self.place / "later").exists())

    def test_properties_that_are_no_properties_of_ours(self):
        evil = self.place / "evil"
        evil.mkdir()
        (evil / "lxml.py").write_text("raise SystemExit(0)\n")
        (self.hooks / "lxml.py").write_text("raise SystemExit(0)\n")
        made = self.vdsm(
            "before_vm_start",
            domain(devices="<video/>"),
            sriov_rt="guest=lean",
            PYTHONPATH=str(evil),
            PYTHONSTARTUP=str(evil / "lxml.py"),
            PYTHONHOME=str(evil),
        )
        self.assertNotIn("<video", made)

    def test_after_a_destroy_a_fault_is_only_logged(self):
        self.assertEqual(
            "<half",
            self.vdsm("after_vm_destroy", "<half", sriov_rt="guest=lean"),
        )

    def test_a_vm_that_arrives_is_refused_or_left_to_libvirts_hook(self):
        for event in sorted(stand_in.DROPPED):
            with self.assertRaises(HookError) as raised:
                self.vdsm(event, domain(), sriov_rt="realtime=required")
            self.assertIn("no CPU is isolated", str(raised.exception))
            xml = domain(devices="<video/>")
            self.assertEqual(xml, self.vdsm(event, xml, sriov_rt="guest=lean"))


class EngineConfigTest(unittest.TestCase):
    def test_the_patterns_take_the_examples_and_nothing_that_is_refused(self):
        text = PAGE.read_text()
        (line,) = re.findall(r"'UserDefinedVMProperties=(.*)' --cver", text)
        patterns = dict(each.split("=", 1) for each in line.split(";"))
        self.assertEqual({"sriov_rt", "pinning"}, set(patterns))
        for example in ("realtime=required & guest=lean",):
            self.assertTrue(re.fullmatch(patterns["sriov_rt"], example))
            self.assertIn(example.split(" ")[0], text)
            guest_request.from_text(example)
        self.assertTrue(re.fullmatch(patterns["pinning"], "0#6_1#7_2#8_3#9"))
        self.assertEqual(4, len(parse_pinning("0#6_1#7_2#8_3#9")))
        for bad in ("lean", "a=b&", "LD_PRELOAD=x"):
            self.assertFalse(re.fullmatch(patterns["sriov_rt"], bad))


@daemon.needs_qemu
@daemon.needs_root
class StartTest(InstalledTest, test_hook.Base):
    """vdsm's contract, then a real libvirt with its own hook of ours."""

    ASKED = "guest=lean & vcpu_sched=fifo:1"

    def setUp(self):
        super().setUp()
        self.libvirt = self.started(kernel=test_hook.ISOLATED_1)
        inside = f"nsenter --mount --target {self.libvirt.process.pid}"
        # The hook's host is the daemon's, with what root runs for it there.
        for event in ("before_vm_start", "after_vm_destroy"):
            program = self.hooks / event / "50_sriov_rt"
            code = self.place / event / "50_sriov_rt"
            code.parent.mkdir()
            program.rename(code)
            program.write_text(f"#!/bin/sh\nexec {inside} {code}\n")
            program.chmod(0o755)
        programs = self.place / "usr/libexec"
        for name in ("reset-vfs", "claim-cpus"):
            self.name_python(programs / "sriov-rt" / name)
        subprocess.run(
            f"{inside} mount --bind {programs} /usr/libexec".split(),
            check=True,
        )

    def test_seed_003(self):
        libvirt = self.libvirt
        xml = self.vdsm(
            "before_vm_start",
            self.vm("rt", "<graphics type='vnc'/>"),
            sriov_rt=self.ASKED,
            pinning="0#1",
        )
        file = libvirt.place / "vm.xml"
        file.write_text(xml)
        self.ok(libvirt.virsh("create", str(file)))
        self.assertEqual(
            (("1", "0"), ("1", "0"), (os.SCHED_FIFO, 1)), self.pins(libvirt)
        )
        self.ok(libvirt.virsh("destroy", "rt"))

    def test_the_walkthrough(self):
        place = self.place / "walk"
        place.mkdir()
        environment = walk.install(place)

        def shell(script: str) -> tuple[int, str]:
            done = subprocess.run(
                (
                    *("nsenter", "--mount", "--target"),
                    *(str(self.libvirt.process.pid), "sh", "-c", script),
                ),
                cwd=place,
                env={**environment, "LIBVIRT_DEFAULT_URI": self.libvirt.uri},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            return done.returncode, done.stdout

        walk.run(self, walk.PAGES / "ovirt.rst", shell)

    def vm(self, name, devices=""):
        """Return a VM as vdsm has it: with its UUID."""
        given = f"<name>{name}</name><uuid>{uuid.uuid4()}</uuid>"
        xml = domain(name, devices=devices)
        return xml.replace(f"<name>{name}</name>", given)

    def create(self, name, xml):
        """Return why a VM does not run; empty if it does."""
        try:
            made = self.vdsm("before_vm_start", xml, sriov_rt=self.ASKED)
        except HookError as error:
            return f"vdsm: {error}"
        file = self.libvirt.place / f"{name}.xml"
        file.write_text(made)
        return self.libvirt.virsh("create", str(file)).stderr

    def running(self):
        return self.libvirt.virsh("list", "--name").stdout.split()

    def test_two_vms_that_leave_their_pins_to_us(self):
        """The host has one isolated CPU."""
        vms = {name: self.vm(name) for name in ("rt-1", "rt-2")}
        rounds = 3
        for number in range(rounds):
            with concurrent.futures.ThreadPoolExecutor() as threads:
                said = threads.map(lambda vm: self.create(*vm), vms.items())
            done = dict(zip(vms, said, strict=True))
            (first,) = self.running()
            (second,) = vms.keys() - {first}
            self.assertEqual("", done[first])
            # vdsm's hook refuses it, and not libvirt's each time.
            self.assertTrue(done[second].startswith("vdsm: "), done)
            self.assertIn("no node has more than 0", done[second])
            self.ok(self.libvirt.virsh("destroy", first))
            ended = self.libvirt.place / f"{first}.xml"
            self.vdsm(
                "after_vm_destroy", ended.read_text(), sriov_rt=self.ASKED
            )
            self.assertEqual("", self.create(second, vms[second]), number)
            self.ok(self.libvirt.virsh("destroy", second))
