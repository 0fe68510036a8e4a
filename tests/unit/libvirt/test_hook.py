# SPDX-License-Identifier: Apache-2.0

"""What libvirt's hook program answers, call by call."""

import io
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies

from sriov_rt.guest import claims
from sriov_rt.guest import running
from sriov_rt.guest.passthrough import PassedThrough
from sriov_rt.guest.program import Outcome
from sriov_rt.libvirt import hook
from sriov_rt.libvirt import policy
from sriov_rt.nic import errors
from tests.unit.guest import documents
from tests.unit.guest import lab_host

PROGRAM = pathlib.Path(__file__).parents[3] / "etc/libvirt/sriov-rt"

NAMESPACE = "https://docs.openstack.org/sriov-rt/request/1.0"
UUID = "11111111-2222-3333-4444-555555555555"

VF = (
    '<interface type="hostdev" managed="{managed}"><source>'
    '<address type="pci" domain="0x0000" bus="0x01" slot="0x10" '
    'function="0x2"/></source></interface>'
)
#: What a lean guest has that libvirt would add.
NONE = (
    '<memballoon model="none"/><controller type="usb" index="0" model="none"/>'
)

#: Each operation of libvirt 9, and one of no libvirt that there is.
OPERATIONS = (
    ("prepare", "begin"),
    ("start", "begin"),
    ("started", "begin"),
    ("stopped", "end"),
    ("release", "end"),
    ("migrate", "begin"),
    ("restore", "begin"),
    ("reconnect", "begin"),
    ("attach", "begin"),
    ("dance", "begin"),
    ("", ""),
)


def domain(request, devices="", *, cputune="", uuid=UUID, **more):
    """Return a domain with a request; None for none."""
    element = (
        ""
        if request is None
        else f'<metadata><r:request xmlns:r="{NAMESPACE}" {request}/>'
        "</metadata>"
    )
    return documents.domain(
        devices,
        cputune=cputune,
        more=f"<uuid>{uuid}</uuid>{element}",
        **more,
    ).encode()


class HookTest(lab_host.LabHostTest):
    def setUp(self):
        super().setUp()
        self.cleaned = []

    def clean(self, call, devices):
        self.cleaned += devices
        return [each.address for each in devices]

    def run_hook(self, operation, xml, stage="begin", name="rt", clean=None):
        call = hook.Call(name, operation, stage, xml)
        return hook.run(call, self.root, clean or self.clean)

    def write(self, path, text):
        file = self.place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class NothingRequestedTest(HookTest):
    def test_a_guest_that_requests_nothing_is_left_alone(self):
        for xml in (
            domain(None, VF),
            domain(None)[:40],
            b"",
            b"\xff\xfe",
            b"x" * (2 * 1024 * 1024),
        ):
            for operation, stage in OPERATIONS:
                with self.subTest(operation, xml=xml[:20]):
                    done = self.run_hook(operation, xml, stage)
                    self.assertEqual(Outcome(), done)
        self.assertEqual([], self.cleaned)

    def test_our_namespace_without_a_request(self):
        xml = domain(None).replace(
            b"<uuid>", f"<!-- {NAMESPACE} --><uuid>".encode()
        )
        self.assertEqual(Outcome(), self.run_hook("prepare", xml))


class PrepareTest(HookTest):
    def test_a_guest_that_is_what_it_requests_starts(self):
        done = self.run_hook("prepare", domain('guest="lean"', NONE))
        self.assertEqual(("", ""), (done.problem, done.xml))

    def test_what_libvirt_adds_by_itself_is_no_difference(self):
        audio = '<audio id="1" type="none"/>'
        done = self.run_hook("prepare", domain('guest="lean"', NONE + audio))
        self.assertEqual("", done.problem)

    def test_one_that_is_not_is_told_the_command(self):
        done = self.run_hook(
            "prepare", domain('guest="lean"', "<video/>" + NONE)
        )
        self.assertEqual(
            "the domain is not what its request makes of it (removed "
            "video); define what 'virsh dumpxml --inactive rt | sriov-rt "
            "guest render' prints",
            done.problem,
        )

    def test_a_host_that_cannot_is_told_of(self):
        self.write("proc/sys/kernel/sched_rt_runtime_us", "950000\n")
        done = self.run_hook("prepare", domain('realtime="required"'))
        self.assertTrue(done.problem)
        self.assertIn("sched_rt_runtime_us=-1", done.problem)

    def test_parents_of_ports_are_judged(self):
        xml = domain('vif="macvlan"')
        self.write("etc/sriov_rt/sriov-rt.conf", "[vif]\nparents = a:eno1\n")
        self.assertEqual("", self.run_hook("prepare", xml).problem)
        self.write("etc/sriov_rt/sriov-rt.conf", "[vif]\nparents = a:gone\n")
        self.assertIn("gone", self.run_hook("prepare", xml).problem)

    def test_a_bad_request(self):
        for request, problem in (
            ('guest="fat"', "one of standard, lean, bare expected"),
            ('LD_PRELOAD="/tmp/x"', "one of realtime, "),
            ('realtime="required&#10;x"', "required expected"),
            ('pinning="0#9999999999"', "9999999999"),
            ('pinning="5#2" vcpu_sched="fifo:1"', "vCPUs 5"),
        ):
            with self.subTest(request):
                done = self.run_hook("prepare", domain(request))
                self.assertTrue(done.problem)
                self.assertIn(problem, done.problem)
                self.assertTrue(done.problem.isprintable())

    def test_half_a_domain_that_requests_something(self):
        whole = domain('guest="lean"', NONE)
        done = self.run_hook("prepare", whole[: len(whole) - 20])
        self.assertTrue(done.problem)
        self.assertIn("not XML", done.problem)

    def test_a_fault_of_ours_refuses_who_requests_something(self):
        with mock.patch.object(hook.program, "admit", side_effect=KeyError):
            done = self.run_hook("prepare", domain('guest="lean"', NONE))
        self.assertTrue(done.problem)
        self.assertIn("report this as a bug", done.problem)

    def test_pcpus_of_another_realtime_guest(self):
        pins = documents.pins(2, 3)
        sched = (
            '<vcpusched vcpus="0-1" scheduler="fifo" priority="1"/>'
            '<emulatorpin cpuset="0"/>'
        )
        mine = domain('vcpu_sched="fifo:1"', cputune=pins + sched)
        self.assertEqual("", self.run_hook("prepare", mine).problem)
        other = "99999999-2222-3333-4444-555555555555"
        theirs = domain(None, cputune=pins + sched, uuid=other).decode()
        self.write(
            f"{running.MACHINES}/other.xml",
            f"<domstatus state='running' pid='77'>{theirs}</domstatus>",
        )
        self.write("proc/77/cmdline", f"qemu\0-uuid\0{other}\0")
        done = self.run_hook("prepare", mine)
        self.assertEqual(
            "pCPUs 2-3 of realtime vCPUs belong to another guest or a pod; "
            "pin the vCPUs elsewhere, or stop that guest or pod",
            done.problem,
        )


class ClaimTest(HookTest):
    """Guests that are started before libvirt has the other's status."""

    OTHER = "99999999-2222-3333-4444-555555555555"
    REQUEST = 'vcpu_sched="fifo:1"'

    def domain(self, *pcpus, uuid=UUID, request=REQUEST):
        sched = (
            '<vcpusched vcpus="0-1" scheduler="fifo" priority="1"/>'
            '<emulatorpin cpuset="0"/>'
        )
        cputune = documents.pins(*pcpus) + sched
        return domain(request, cputune=cputune, uuid=uuid)

    def problem(self, operation, xml, stage="begin"):
        return self.run_hook(operation, xml, stage).problem

    def test_of_two_that_share_a_pcpu_the_first_starts(self):
        mine, theirs = self.domain(2, 3), self.domain(3, 10, uuid=self.OTHER)
        self.assertEqual("", self.problem("prepare", mine))
        self.assertIn("pCPUs 3 of", self.problem("prepare", theirs))
        self.assertEqual("", self.problem("prepare", mine))
        apart = self.domain(10, 11, uuid=self.OTHER)
        self.assertEqual("", self.problem("prepare", apart))

    def test_release_ends_it_after_a_failed_start_too(self):
        mine, theirs = self.domain(2, 3), self.domain(2, 3, uuid=self.OTHER)
        self.assertEqual("", self.problem("prepare", mine))
        # libvirt releases what was refused: the first has its claim still.
        self.assertTrue(self.problem("prepare", theirs))
        self.assertEqual("", self.problem("release", theirs, "end"))
        self.assertTrue(self.problem("prepare", theirs))
        self.assertEqual("", self.problem("release", mine, "end"))
        self.assertEqual("", self.problem("prepare", theirs))

    def test_one_that_is_not_what_it_requests_keeps_nothing(self):
        mine, theirs = domain(self.REQUEST), self.domain(2, 3, uuid=self.OTHER)
        self.assertIn("is not what its", self.problem("prepare", mine))
        self.assertEqual("", self.problem("release", mine, "end"))
        self.assertEqual("", self.problem("prepare", theirs))

    def test_a_slow_start_that_has_lost_it_ends_at_started(self):
        mine, theirs = self.domain(2, 3), self.domain(2, 3, uuid=self.OTHER)
        self.assertEqual("", self.problem("prepare", mine))
        self.assertEqual("", self.problem("started", mine))
        (claim,) = (self.place / claims.PLACE).glob("*.json")
        os.utime(claim, (1, 1))
        self.assertEqual("", self.problem("prepare", theirs))
        self.assertIn("pCPUs 2-3 of", self.problem("started", mine))
        self.assertEqual("", self.problem("started", theirs))

    def test_arrivals_at_once_get_pcpus_of_their_own(self):
        pins = []
        for uuid in (UUID, self.OTHER):
            done = self.run_hook("migrate", self.domain(30, 31, uuid=uuid))
            tree = documents.etree.fromstring(done.xml)
            pins += [e.get("cpuset") for e in tree.iterfind("*/vcpupin")]
        self.assertEqual(4, len(set(pins)))

    def test_masked_guests_share_no_isolated_pcpu_either(self):
        """Their ordinary vCPUs may float on the same housekeeping pCPUs."""
        sched = (
            '<vcpusched vcpus="1" scheduler="fifo" priority="1"/>'
            '<emulatorpin cpuset="0"/>'
        )

        def masked(*pcpus, uuid=UUID):
            cputune = documents.pins(*pcpus) + sched
            return domain(self.REQUEST, cputune=cputune, uuid=uuid)

        self.assertEqual("", self.problem("prepare", masked("0-1", 2)))
        ordinary = masked(2, 3, uuid=self.OTHER)
        self.assertIn("pCPUs 2 of", self.problem("prepare", ordinary))
        floating = masked("0-1", 3, uuid=self.OTHER)
        self.assertEqual("", self.problem("prepare", floating))

    def test_who_requests_clean_vfs_alone_claims_nothing(self):
        xml = self.domain(2, 3, request="")
        for operation in ("prepare", "started"):
            self.assertEqual("", self.problem(operation, xml))
        self.assertFalse((self.place / claims.PLACE).exists())

    def test_onload_is_not_for_guests(self):
        found = self.problem("prepare", domain('onload="required"', NONE))
        self.assertIn("Onload accelerates processes of containers", found)

    def test_a_user_that_may_not_claim(self):
        """The daemon of a session."""
        (self.place / "run").mkdir(exist_ok=True)
        with mock.patch.object(
            pathlib.Path, "mkdir", side_effect=PermissionError(13, "denied")
        ):
            found = self.problem("prepare", self.domain(2, 3))
            self.assertIn("cannot be claimed: ", found)
            self.assertIn("root alone may write there", found)
            lean = domain('guest="lean"', NONE)
            self.assertEqual("", self.problem("prepare", lean))


class ArrivalTest(HookTest):
    """Filters at migrate and restore."""

    REQUEST = 'vcpu_sched="fifo:1"'
    SCHED = '<vcpusched vcpus="0-1" scheduler="fifo" priority="1"/>'

    def arrive(self, cputune, operation="migrate", request=REQUEST):
        xml = domain(request, "<video/>", cputune=cputune)
        return self.run_hook(operation, xml)

    def test_pins_that_serve_here_stay(self):
        """Those of other threads on one of several quiet CPUs, too."""
        others = (
            '<emulatorpin cpuset="0"/><iothreadpin iothread="1" cpuset="1"/>'
        )
        for operation in ("migrate", "restore"):
            done = self.arrive(
                documents.pins(6, 7) + others + self.SCHED, operation
            )
            self.assertEqual(("", ""), (done.problem, done.xml))

    def test_pins_of_other_threads_on_realtime_vcpus_are_replaced(self):
        done = self.arrive(
            documents.pins(2, 3) + '<emulatorpin cpuset="2"/>' + self.SCHED
        )
        (emulator,) = documents.etree.fromstring(done.xml).iterfind(
            "*/emulatorpin"
        )
        self.assertEqual("0-1,4-5,8-9,12-13", emulator.get("cpuset"))

    def test_pins_of_another_host_are_replaced(self):
        for operation in ("migrate", "restore"):
            done = self.arrive(
                documents.pins(30, 31)
                + '<emulatorpin cpuset="28"/>'
                + self.SCHED,
                operation,
            )
            tree = documents.etree.fromstring(done.xml)
            pins = [each.get("cpuset") for each in tree.iterfind("*/vcpupin")]
            self.assertEqual(2, len(set(pins)))
            self.assertLessEqual(set(pins), {"2", "3", "10", "11"})
            (emulator,) = tree.iterfind("*/emulatorpin")
            self.assertNotIn("28", emulator.get("cpuset"))
            # What the guest sees stays: it runs.
            self.assertIsNotNone(tree.find("devices/video"))
            self.assertIn("added vcpupin vcpu=0", done.done)

    def test_a_host_without_isolated_cpus_refuses(self):
        self.write("sys/devices/system/cpu/isolated", "\n")
        done = self.arrive(documents.pins(2, 3) + self.SCHED)
        self.assertEqual("", done.xml)
        self.assertIn("isolate more", done.problem)

    def test_nothing_is_printed_for_a_guest_without_realtime(self):
        done = self.arrive("", request='guest="lean"')
        self.assertEqual(("", ""), (done.problem, done.xml))


class VfsTest(HookTest):
    ADDRESS = "0000:01:10.2"

    def test_before_a_start_and_after_the_end(self):
        xml = domain("", VF.format(managed="yes"))
        for operation, stage in (("prepare", "begin"), ("release", "end")):
            done = self.run_hook(operation, xml, stage)
            self.assertEqual("", done.problem)
            self.assertIn(self.ADDRESS, done.done)
        self.assertEqual([PassedThrough(self.ADDRESS, True)] * 2, self.cleaned)

    def test_the_mac_and_the_vlan_that_libvirt_sets(self):
        for tags, vlan in (
            ("<tag id='7'/>", 7),
            ("<tag id='7'/><tag id='8'/>", 0),
            ("<tag id='x'/>", 0),
        ):
            more = f"<mac address='52:54:00:AA:00:01'/><vlan>{tags}</vlan>"
            vf = VF.format(managed="yes").replace(
                "<source>", f"{more}<source>"
            )
            with self.subTest(tags):
                self.run_hook("prepare", domain("", vf), "begin")
                (found,) = self.cleaned
                self.cleaned.clear()
                self.assertEqual(
                    ("52:54:00:aa:00:01", vlan), (found.mac, found.vlan)
                )

    def test_a_vf_that_cannot_be_cleaned_vetoes(self):
        def fail(call, devices):
            raise errors.VfInUse(self.ADDRESS, ("qemu 77",))

        xml = domain("", VF.format(managed="no"))
        done = self.run_hook("prepare", xml, clean=fail)
        self.assertTrue(done.problem)
        self.assertIn("qemu 77", done.problem)

    def test_a_refused_guest_has_its_vfs_untouched(self):
        xml = domain('guest="lean"', "<video/>" + VF)
        self.assertTrue(self.run_hook("prepare", xml).problem)
        self.assertEqual([], self.cleaned)

    def test_an_address_that_is_none(self):
        xml = domain("", VF.replace("0x10", "0x99"))
        done = self.run_hook("prepare", xml)
        self.assertTrue(done.problem)
        self.assertIn("'0x99' is no PCI slot", done.problem)


class PolicyTest(HookTest):
    def test_a_request_by_the_name(self):
        self.write(policy.PATH, "# all of them\n[rt*]\nguest = lean\n")
        done = self.run_hook("prepare", domain(None, "<video/>"))
        self.assertIn("removed video", done.problem)
        done = self.run_hook("prepare", domain(None, "<video/>"), name="web")
        self.assertEqual(Outcome(), done)

    def test_the_domains_own_comes_first(self):
        self.write(policy.PATH, "[*]\nguest = bare\n")
        done = self.run_hook("prepare", domain('guest="standard"', "<video/>"))
        self.assertEqual("", done.problem)

    def test_the_first_section_counts(self):
        self.write(policy.PATH, "[rt]\n[*]\nguest = lean\n")
        done = self.run_hook("prepare", domain(None, "<video/>"))
        self.assertEqual("", done.problem)

    def test_no_xml_for_a_guest_of_the_policy(self):
        self.write(policy.PATH, "[rt*]\nguest = lean\n")
        done = self.run_hook("prepare", b"")
        self.assertTrue(done.problem)
        self.assertIn("not XML", done.problem)

    def test_a_line_that_cannot_be_read(self):
        for text, problem in (
            ("[rt*]\nguest lean\n", "line 2: KEY = VALUE expected"),
            ("[rt*]\nguest=lean\nguest=bare\n", "line 3"),
            ("[rt*\nguest = lean\n", "line 1: [PATTERN] expected"),
            ("[rt*]\nfoo = bar\n", "one of realtime"),
        ):
            with self.subTest(text):
                self.write(policy.PATH, text)
                done = self.run_hook("prepare", domain(None))
                self.assertTrue(done.problem)
                self.assertIn(problem, done.problem)
                done = self.run_hook("prepare", domain(None), name="web")
                self.assertEqual(Outcome(), done)

    def test_a_file_that_cannot_be_read_requests_nothing(self):
        self.write(policy.PATH, "x" * (policy.MAX_FILE + 1))
        self.assertEqual(Outcome(), self.run_hook("prepare", domain(None)))

    @hypothesis.given(strategies.text(), strategies.text())
    def test_any_text(self, text, name):
        for each in policy.sections(text):
            self.assertLessEqual(len(each.pattern), policy.MAX_PATTERN)


class ReconnectTest(HookTest):
    def test_no_reconnect_is_answered_with_anything(self):
        """libvirt kills the guest for another exit code than 0."""
        self.write(policy.PATH, "[*]\nguest = bare\n")
        for operation in ("reconnect", "attach", "dance", ""):
            done = self.run_hook(operation, domain('realtime="no"')[:99])
            self.assertEqual(Outcome(), done)


class ProgramTest(unittest.TestCase):
    """What is printed, and the file that is installed."""

    def call(self, *arguments, xml=b""):
        with (
            mock.patch.object(sys, "stdout", io.StringIO()) as out,
            mock.patch.object(sys, "stderr", io.StringIO()) as err,
            mock.patch("syslog.syslog") as log,
        ):
            code = hook.main(arguments, xml)
        return code, out.getvalue(), err.getvalue(), log.mock_calls

    def test_a_refusal_is_one_line_on_standard_error_and_in_the_log(self):
        code, out, err, log = self.call(
            "rt", "prepare", "begin", "-", xml=domain('guest="fat"')
        )
        self.assertEqual((1, ""), (code, out))
        self.assertTrue(err.startswith("sriov-rt: guest=rt op=prepare refus"))
        self.assertEqual(1, err.count("\n"))
        self.assertEqual(1, len(log))

    def test_without_arguments_and_input(self):
        self.assertEqual((0, "", "", []), self.call())

    def run_file(self, python, xml, *words, policy=None, **environment):
        """Run the file that is installed, with another Python."""
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        text = PROGRAM.read_text()
        conf = place / "guests.conf"
        if policy is not None:
            conf.write_text(policy)
        for line, now in (
            ("python=/usr/bin/python3\n", f"python={python}\n"),
            ("policy=/etc/sriov_rt/guests.conf\n", f"policy={conf}\n"),
        ):
            self.assertEqual(1, text.count(line))
            text = text.replace(line, now)
        return subprocess.run(
            ("sh", "-c", text, "sriov-rt", *words),
            input=xml,
            capture_output=True,
            env={**os.environ, **environment},
            check=False,
        )

    def test_the_file_runs_alone_and_says_if_we_are_missing(self):
        mode = PROGRAM.stat().st_mode
        self.assertTrue(mode & stat.S_IXUSR)
        self.assertTrue(PROGRAM.read_text().startswith("#!/bin/sh\n"))
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # Of that name, and of no effect.
        (place / "sriov_rt.py").touch()
        without = place / "without"
        without.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        without.chmod(0o755)
        broken = place / "broken"
        broken.write_text("#!/bin/sh\necho 'Fatal Python error' >&2; exit 1\n")
        broken.chmod(0o755)
        for python in (without, "/nonexistent/python3", place, broken):
            for xml, operation, code in (
                (domain(None), "prepare", 0),
                (domain('guest="lean"'), "prepare", 1),
                (domain('guest="lean"'), "migrate", 1),
                (domain('guest="lean"'), "started", 0),
                (domain('guest="lean"'), "reconnect", 0),
            ):
                with self.subTest(python, operation=operation):
                    done = self.run_file(
                        python,
                        xml,
                        *("rt", operation, "begin"),
                        PYTHONPATH=str(place),
                    )
                    self.assertEqual(code, done.returncode, done.stderr)
                    self.assertEqual(b"", done.stdout)
                    last = done.stderr.splitlines()[-1:] if code else []
                    self.assertEqual(code, len(last))
                    for line in last:
                        self.assertIn(b"the line python= of sriov-rt", line)

    def test_a_missing_python_and_the_operators_patterns(self):
        """Who is meant by guests.conf has asked; nobody else has."""
        for text, name, code in (
            ("[rt-*]\nguest = lean\n", "rt-1", 1),
            ("[rt-*]\nguest = lean\n", "web-1", 0),
            ("# none\n", "rt-1", 0),
            ("", "rt-1", 0),
            ("[a]\n  [b?] \nx=y\n[c]", "c", 1),
            ("[a]\n  [b?] \nx=y\n[c]", "b2", 1),
            ("[a]\n  [b?] \nx=y\n[c]", "b", 0),
            ("[rt*\nguest = lean\n", "rt", 1),
            ("[[ab]-*]\n", "b-1", 1),
            ("[[!ab]-*]\n", "b-1", 0),
            ("[*]\n", "a b $(touch x) *", 1),
            ("[a b]\n[$(exit 3)]\n", "a b", 1),
        ):
            with self.subTest(text, name=name):
                done = self.run_file(
                    "/nonexistent/python3",
                    domain(None),
                    *(name, "prepare", "begin"),
                    policy=text,
                )
                self.assertEqual(code, done.returncode, done.stderr)

    def test_a_guest_without_a_request_needs_no_python(self):
        done = self.run_file("/bin/false", domain(None), "rt", "prepare")
        self.assertEqual(
            (0, b"", b""),
            (
                done.returncode,
                done.stdout,
                done.stderr,
            ),
        )
