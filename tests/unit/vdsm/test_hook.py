# SPDX-License-Identifier: Apache-2.0

"""What vdsm's hook program answers, event by event."""

import io
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import typing
import unittest
from unittest import mock

from sriov_rt.guest import metadata
from sriov_rt.guest.claims import Claims
from sriov_rt.guest.claims import ClaimsUnusable
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.program import Outcome
from sriov_rt.libvirt import hook as libvirt_hook
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.vdsm import affinity
from sriov_rt.vdsm import claim_cpus
from sriov_rt.vdsm import hook
from sriov_rt.vdsm import reset_vfs
from tests.unit.guest import documents
from tests.unit.guest import lab_host

PROGRAM = pathlib.Path(__file__).parents[3] / "etc/vdsm/50_sriov_rt"

ONE = "11111111-2222-3333-4444-555555555555"
TWO = "22222222-2222-3333-4444-555555555555"
THREE = "33333333-2222-3333-4444-555555555555"

EVENTS = (hook.START, hook.DEHIBERNATE, hook.MIGRATE, hook.DESTROYED)

VF = (
    '<hostdev mode="subsystem" type="pci" managed="no"><source>'
    '<address domain="0" bus="1" slot="16" function="2"/></source></hostdev>'
)
ADDRESS = "0000:01:10.2"


class HostTest(lab_host.LabHostTest):
    def setUp(self):
        super().setUp()
        self.reset = []

    def run_hook(self, event, xml, reset=None, claim=None, **properties):
        if isinstance(xml, str):
            xml = xml.encode()
        return hook.run(
            event,
            properties,
            xml,
            self.root,
            reset or self.reset.extend,
            claim or Claims(self.root).claim,
        )


class NothingRequestedTest(HostTest):
    def test_a_vm_without_our_properties_is_left_alone(self):
        for event in (*EVENTS, "before_vm_pause", ""):
            for xml in (documents.domain("<video/>"), "<dom", ""):
                for properties in (
                    {},
                    {"sriov_rt": " ", "pinning": ""},
                    {"SRIOV_RT": "guest=lean", "sriov_rt_x": "guest=bare"},
                ):
                    with self.subTest(event, xml=xml[:9], given=properties):
                        done = self.run_hook(event, xml, **properties)
                        self.assertEqual(Outcome(), done)
        self.assertEqual([], self.reset)


class StartTest(HostTest):
    def test_seed_003_in_one_property(self):
        """No graphics, no channel, four vCPUs on pCPUs of its choice."""
        xml = documents.domain(
            '<video/><graphics type="vnc"/><channel type="unix"/>',
            vcpus=4,
            more=f"<uuid>{ONE}</uuid>",
        )
        done = self.run_hook(
            hook.START,
            xml,
            sriov_rt="guest=lean & vcpu_sched=fifo:1",
            pinning="0#6_1#7_2#14_3#15",
        )
        self.assertEqual("", done.problem)
        tree = documents.etree.fromstring(done.xml)
        self.assertEqual(
            ["6", "7", "14", "15"],
            [each.get("cpuset") for each in tree.iterfind("*/vcpupin")],
        )
        self.assertEqual(
            ["memballoon", "controller"], [e.tag for e in tree.find("devices")]
        )

    def test_pinning_alone(self):
        done = self.run_hook(
            hook.START, documents.domain("<video/>"), pinning="0#2_1#3"
        )
        tree = documents.etree.fromstring(done.xml)
        self.assertIsNotNone(tree.find("devices/video"))
        self.assertEqual(2, len(tree.findall("cputune/vcpupin")))

    def test_the_domain_says_what_is_requested(self):
        """libvirt's hook, which runs as root, goes by it."""
        done = self.run_hook(
            hook.START,
            documents.domain(),
            sriov_rt="guest=lean",
            pinning="0#2_1#3",
        )
        found = metadata.requested(parse_domain(done.xml))
        self.assertEqual({"sriov_rt:guest": "lean"}, found.extra_specs)
        self.assertEqual("0#2_1#3", found.pinning)
        again = self.run_hook(
            hook.START, done.xml, sriov_rt="guest=lean", pinning="0#2_1#3"
        )
        self.assertEqual(done.xml, again.xml)

    def test_bad_properties(self):
        for properties, problem in (
            ({"sriov_rt": "guest=fat"}, "standard, lean, bare"),
            ({"sriov_rt": "guest=lean\nLD_PRELOAD=x"}, "standard, lean"),
            ({"sriov_rt": "lean"}, "KEY=VALUE"),
            ({"sriov_rt": "x" * 100_000}, "characters"),
            ({"pinning": "0#6_0#7"}, "pinned twice"),
            ({"pinning": "0#6\n1#7"}, "vCPU#pCPUs"),
            ({"pinning": "9#6"}, "vCPUs 9"),
            ({"sriov_rt": "pinning=0#2", "pinning": "0#2"}, "already"),
        ):
            with self.subTest(properties):
                done = self.run_hook(
                    hook.START, documents.domain(), **properties
                )
                self.assertEqual("", done.xml)
                self.assertIn(problem, done.problem)
                self.assertTrue(done.problem.isprintable())

    def test_a_domain_that_is_none(self):
        for xml in ("", "<domain>", "<network/>", "\0"):
            done = self.run_hook(hook.START, xml, sriov_rt="guest=lean")
            self.assertTrue(done.problem)
            self.assertIn("the domain XML is rejected", done.problem)

    def test_what_the_host_cannot_give(self):
        file = self.place / "sys/devices/system/cpu/isolated"
        file.write_text("\n")
        done = self.run_hook(
            hook.START, documents.domain(), sriov_rt="realtime=required"
        )
        self.assertTrue(done.problem)
        self.assertIn("no CPU is isolated; boot with", done.problem)

    def test_a_sentence_in_the_terms_of_the_engine(self):
        xml = documents.domain(
            '<disk type="file"><target dev="vda" bus="virtio"/></disk>'
        )
        done = self.run_hook(hook.START, xml, sriov_rt="guest=bare")
        self.assertIn("set the disk's interface to SATA", done.problem)

    def test_vfs_are_reset_before_and_after(self):
        xml = documents.domain(VF)
        for event in (hook.START, hook.DESTROYED):
            done = self.run_hook(event, xml, sriov_rt="guest=standard")
            self.assertEqual("", done.problem)
        self.assertEqual([ADDRESS] * 2, self.reset)

    def test_a_vf_that_cannot_be_reset_refuses_the_vm(self):
        def fail(addresses):
            raise hook.VfsNotReset("no")

        done = self.run_hook(
            hook.START, documents.domain(VF), fail, sriov_rt="guest=standard"
        )
        self.assertEqual("", done.xml)
        self.assertEqual("the VM's VFs cannot be reset: no", done.problem)


class ClaimTest(HostTest):
    """VMs that leave their pins to us, and are started one after the other."""

    ASKED: typing.ClassVar = {"sriov_rt": "realtime=required & guest=lean"}

    def setUp(self):
        super().setUp()
        # The one thing that tree has against realtime.
        shutil.rmtree(self.place / "proc/irq/26")

    def vm(self, uuid, devices="", cputune=""):
        return documents.domain(
            devices, vcpus=3, cputune=cputune, more=f"<uuid>{uuid}</uuid>"
        )

    def start(self, uuid, devices="", reset=None, claim=None, **more):
        """Return the pCPUs of a VM's vCPUs, and why it is refused."""
        vm = self.vm(uuid, devices, **more)
        done = self.run_hook(hook.START, vm, reset, claim, **self.ASKED)
        if done.problem:
            return [], done.problem
        tree = documents.etree.fromstring(done.xml)
        return [e.get("cpuset") for e in tree.iterfind("*/vcpupin")], ""

    def test_each_gets_its_own_until_none_are_left(self):
        self.assertEqual((["2", "3", "10"], ""), self.start(ONE))
        self.assertEqual((["6", "7", "14"], ""), self.start(TWO))
        pins, problem = self.start(THREE)
        self.assertEqual([], pins)
        self.assertIn("no node has more than 1 to spare", problem)
        # Started once more, each keeps to what it may have.
        self.assertEqual((["2", "3", "10"], ""), self.start(ONE))
        done = self.run_hook(hook.DESTROYED, self.made(ONE), **self.ASKED)
        self.assertEqual("", done.problem)
        self.assertEqual((["2", "3", "10"], ""), self.start(THREE))

    def made(self, uuid):
        done = self.run_hook(hook.START, self.vm(uuid), **self.ASKED)
        return done.xml

    def test_pins_that_another_has_are_refused(self):
        self.start(ONE)
        _, problem = self.start(TWO, cputune=documents.pins(6, 7, 3))
        self.assertIn("pCPUs 3 of realtime vCPUs belong to another", problem)

    def test_libvirts_hook_sees_it_and_keeps_it(self):
        """It runs as root, with the same domain."""
        made = self.made(ONE).encode()
        call = libvirt_hook.Call("vm", "prepare", "begin", made)
        self.assertEqual("", libvirt_hook.run(call, self.root).problem)
        theirs = made.replace(ONE.encode(), TWO.encode())
        call = libvirt_hook.Call("vm", "prepare", "begin", theirs)
        problem = libvirt_hook.run(call, self.root).problem
        self.assertIn("pCPUs 2-3,10 of realtime vCPUs", problem)

    def test_one_taken_between_our_look_and_our_claim(self):
        """The place is found again, as often as others are faster."""
        answers = [CpuSet((2, 3, 10)), CpuSet((2, 3, 7, 10, 11)), CpuSet()]
        asked = []

        def claim(guest, pins):
            asked.append(pins)
            return answers[len(asked) - 1]

        pins, _ = self.start(ONE, claim=claim)
        self.assertEqual(["6", "14", "15"], pins)
        self.assertEqual([{2, 3, 10}, {6, 7, 14}, {6, 14, 15}], asked)

    def test_a_start_that_fails_in_our_hands_keeps_nothing(self):
        def fail(addresses):
            raise hook.VfsNotReset("no")

        _, problem = self.start(ONE, VF, fail)
        self.assertEqual("the VM's VFs cannot be reset: no", problem)
        self.assertEqual((["2", "3", "10"], ""), self.start(TWO))

    def test_what_cannot_be_claimed_is_refused(self):
        def claim(guest, pins):
            raise ClaimsUnusable("install it")

        _, problem = self.start(ONE, claim=claim)
        self.assertEqual("its pCPUs cannot be claimed: install it", problem)
        _, problem = self.start("")
        self.assertIn("'' is no UUID", problem)


class ArrivalTest(HostTest):
    def test_vdsm_would_drop_another_domain_so_none_is_made(self):
        """What is to change is logged as left to libvirt's hook, not done."""
        xml = documents.domain(
            "<video/>",
            cputune=documents.pins(30, 31)
            + '<vcpusched vcpus="0-1" scheduler="fifo" priority="1"/>',
        )
        for event in (hook.DEHIBERNATE, hook.MIGRATE):
            done = self.run_hook(
                event, xml, sriov_rt="guest=lean & vcpu_sched=fifo:1"
            )
            self.assertEqual(("", ""), (done.xml, done.problem))
            self.assertIn("left to libvirt's hook: ", done.done)
            self.assertIn("vcpupin vcpu=1 cpuset=3", done.done)

    def test_a_vm_that_this_host_cannot_take_is_refused(self):
        (self.place / "sys/devices/system/cpu/isolated").write_text("\n")
        for event in (hook.DEHIBERNATE, hook.MIGRATE):
            done = self.run_hook(
                event, documents.domain(""), sriov_rt="realtime=required"
            )
            self.assertIn("isolated", done.problem)


class AffinityTest(HostTest):
    def test_isolated_cpus_are_left(self):
        with mock.patch.object(os, "sched_setaffinity") as set_affinity:
            found = affinity.keep_to_housekeeping(self.root)
        self.assertEqual({0, 1, 4, 5, 8, 9, 12, 13}, found)
        set_affinity.assert_called_once_with(0, mock.ANY)

    def test_where_none_is_isolated_or_all_are(self):
        for text in ("\n", "0-15\n", "x\n"):
            file = self.place / "sys/devices/system/cpu/isolated"
            file.write_text(text)
            with mock.patch.object(os, "sched_setaffinity"):
                affinity.keep_to_housekeeping(self.root)

    def test_a_cpuset_that_has_none_of_them(self):
        with mock.patch.object(os, "sched_setaffinity", side_effect=OSError):
            self.assertEqual(
                frozenset(), affinity.keep_to_housekeeping(self.root)
            )


class SudoTest(unittest.TestCase):
    def run_sudo(self, **result):
        done = subprocess.CompletedProcess((), 0, "", "")
        for name, value in result.items():
            setattr(done, name, value)
        with (
            mock.patch.object(subprocess, "run", return_value=done) as run,
            mock.patch.object(os, "geteuid", return_value=36),
        ):
            hook.reset_by_sudo([ADDRESS])
        return run.call_args

    def test_the_command(self):
        call = self.run_sudo()
        self.assertEqual(
            ["sudo", "--non-interactive", hook.RESET, ADDRESS], call.args[0]
        )
        self.assertEqual({"PATH"}, set(call.kwargs["env"]))

    def test_what_it_says(self):
        with self.assertRaisesRegex(hook.VfsNotReset, "reset: sudo: no$"):
            self.run_sudo(returncode=1, stderr="x\nsudo: no\n")

    def test_a_program_that_is_missing(self):
        with (
            mock.patch.object(subprocess, "run", side_effect=OSError("no")),
            self.assertRaises(hook.VfsNotReset) as raised,
        ):
            hook.reset_by_sudo([ADDRESS])
        self.assertIn(f"install {hook.RESET}", str(raised.exception))

    def test_the_rule_names_the_program(self):
        text = PROGRAM.with_name("sudoers").read_text()
        for program in (hook.RESET, hook.CLAIM):
            rule = f"vdsm ALL=(root) NOPASSWD: {program}"
            self.assertIn(rule, text.splitlines())
            installed = PROGRAM.with_name(program.rpartition("/")[2])
            self.assertTrue(os.access(installed, os.X_OK))

    def test_a_claim_is_what_its_program_prints(self):
        for printed, expected in (("\n", set()), ("2-3,9\n", {2, 3, 9})):
            done = subprocess.CompletedProcess((), 0, printed, "")
            with (
                mock.patch.object(subprocess, "run", return_value=done) as run,
                mock.patch.object(os, "geteuid", return_value=36),
            ):
                self.assertEqual(
                    expected, hook.claim_by_sudo(ONE, CpuSet((2, 3)))
                )
                hook.claim_by_sudo(ONE, CpuSet())
            command = ["sudo", "--non-interactive", hook.CLAIM, ONE]
            self.assertEqual(
                [[*command, "2-3"], command],
                [each.args[0] for each in run.call_args_list],
            )
        done.stdout = "no CPUs"
        with (
            mock.patch.object(subprocess, "run", return_value=done),
            self.assertRaisesRegex(ClaimsUnusable, hook.CLAIM),
        ):
            hook.claim_by_sudo(ONE, CpuSet((2,)))

    def test_no_more_than_one_prefix(self):
        done = subprocess.CompletedProcess((), 1, "", "sriov-rt: no\n")
        with (
            mock.patch.object(subprocess, "run", return_value=done),
            self.assertRaisesRegex(ClaimsUnusable, "be claimed: no$"),
        ):
            hook.claim_by_sudo(ONE, CpuSet((2,)))

    def test_it_takes_addresses_alone(self):
        for words in (["--driver", "x"], ["../x"], [ADDRESS, "x"]):
            with mock.patch.object(sys, "stderr", io.StringIO()) as said:
                self.assertEqual(1, reset_vfs.main(words))
            self.assertIn("PCI address", said.getvalue())


class ClaimProgramTest(HostTest):
    def run_program(self, *words):
        with (
            mock.patch.object(sys, "stdout", io.StringIO()) as out,
            mock.patch.object(sys, "stderr", io.StringIO()) as err,
        ):
            code = claim_cpus.main(words, self.root)
        return code, out.getvalue(), err.getvalue()

    def test_what_it_prints(self):
        self.assertEqual((0, "\n", ""), self.run_program(ONE, "2-3"))
        self.assertEqual((0, "2-3\n", ""), self.run_program(TWO, "3,6"))
        self.assertEqual((0, "\n", ""), self.run_program(ONE))
        self.assertEqual((0, "\n", ""), self.run_program(TWO, "3,6"))

    def test_it_takes_a_uuid_and_pcpus_alone(self):
        for words in ((), ("x", "2"), (ONE, "x"), ("../x", "2"), ("-h",)):
            code, out, err = self.run_program(*words)
            self.assertEqual((1, "", 1), (code, out, err.count("\n")))


class RefusalTest(unittest.TestCase):
    def test_the_engine_gets_ascii(self):
        """vdsm shows standard error as bytes: \\xc2\\xb5s."""
        outcome = Outcome(problem="40 µs are more than 9 µs – refused")
        with (
            mock.patch.object(hook, "run", return_value=outcome),
            mock.patch.object(sys, "stderr", io.StringIO()) as said,
        ):
            self.assertEqual(hook.EXIT_REFUSED, hook.main("/x/y", {}))
        self.assertEqual(
            "sriov-rt: 40 us are more than 9 us ? refused\n", said.getvalue()
        )


class ProgramTest(unittest.TestCase):
    """The file that is installed, as vdsm runs it."""

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.domain = self.place / "domain.xml"
        self.domain.write_text(documents.domain("<video/>"))
        self.domain.chmod(0o640)

    def main(self, event=hook.START, **environment):
        given = {"_hook_domxml": str(self.domain), "vmId": "v", **environment}
        with (
            mock.patch.object(sys, "stderr", io.StringIO()) as said,
            mock.patch("syslog.syslog"),
        ):
            code = hook.main(f"/hooks/{event}/50_sriov_rt", given)
        return code, said.getvalue()

    def test_the_domain_is_replaced_in_its_file(self):
        self.assertEqual((0, ""), self.main(sriov_rt="guest=lean"))
        self.assertNotIn("<video", self.domain.read_text())
        mode = stat.S_IMODE(self.domain.stat().st_mode)
        self.assertEqual(0o640, mode)

    def test_a_refusal_leaves_the_file(self):
        before = self.domain.read_bytes()
        code, said = self.main(sriov_rt="guest=fat")
        self.assertEqual((2, 1), (code, said.count("\n")))
        self.assertEqual(before, self.domain.read_bytes())

    def test_no_file(self):
        for path in ("", "/nonexistent", str(self.place)):
            code, _ = self.main(_hook_domxml=path)
            self.assertEqual(0, code)
            code, said = self.main(_hook_domxml=path, sriov_rt="guest=lean")
            self.assertEqual(2, code)
            self.assertIn("the domain XML is rejected", said)

    def test_the_file_runs_alone_and_says_if_we_are_missing(self):
        text = PROGRAM.read_text()
        self.assertTrue(text.startswith("#!/bin/sh\n"))
        self.assertEqual(1, text.count("python=/usr/bin/python3\n"))
        (self.place / "sriov_rt.py").touch()
        without = self.place / "without"
        without.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        without.chmod(0o755)
        for python in (str(without), "/nonexistent/python3"):
            for properties, code in (
                ({}, 0),
                ({"sriov_rt": " ", "pinning": "\t"}, 0),
                ({"pinning": "0#1"}, 2),
            ):
                named = text.replace("/usr/bin/python3", python)
                done = subprocess.run(
                    ("sh", "-c", named, "50_sriov_rt"),
                    capture_output=True,
                    env={
                        **os.environ,
                        "PYTHONPATH": str(self.place),
                        **properties,
                    },
                    check=False,
                )
                self.assertEqual(code, done.returncode, done.stderr)
                self.assertEqual(bool(code), b"python= of" in done.stderr)


class CorpusTest(HostTest):
    def test_ovirts_own_domain(self):
        xml = documents.load("ovirt")
        done = self.run_hook(hook.START, xml, sriov_rt="guest=lean")
        self.assertEqual("", done.problem)
