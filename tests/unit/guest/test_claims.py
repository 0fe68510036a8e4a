# SPDX-License-Identifier: Apache-2.0

import contextlib
import fcntl
import os
import pathlib
import signal
import sys
import threading
import time
import unittest
from unittest import mock

from sriov_rt.guest import claims
from sriov_rt.guest import running
from sriov_rt.guest.claims import Claims
from sriov_rt.guest.claims import ClaimsUnusable
from sriov_rt.guest.domain import parse_domain
from sriov_rt.parse.cpulist import CpuSet
from tests.unit.guest import documents
from tests.unit.guest import lab_host

ONE = "11111111-2222-3333-4444-555555555555"
TWO = "99999999-2222-3333-4444-555555555555"
NONE = CpuSet()

SCHED = '<vcpusched vcpus="0-1" scheduler="fifo" priority="1"/>'


class ClaimsTest(lab_host.LabHostTest):
    """A host whose pCPUs 2-3, 6-7, 10-11 and 14-15 are isolated."""

    def setUp(self):
        super().setUp()
        self.claims = Claims(self.root)
        self.directory = self.place / claims.PLACE

    def claim(self, guest, *cpus):
        """Return the pCPUs that others have; the guest's unless shared."""
        return self.claims.claim(guest, CpuSet(cpus))

    def names(self):
        return sorted(each.name for each in self.directory.glob("*.json"))

    def write(self, path, text):
        file = self.place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_guest(self, uuid, xml, driver=running.MACHINES):
        self.write(
            f"{driver}/{uuid}.xml",
            f"<domstatus state='running' pid='77'>{xml}</domstatus>",
        )
        self.write("proc/77/cmdline", f"qemu\0-uuid\0{uuid}\0")
        self.write("proc/77/comm", f"{running.KEEPER}\n")


class ClaimTest(ClaimsTest):
    def test_what_one_has_another_does_not_get(self):
        self.assertEqual(NONE, self.claim(ONE, 2, 3))
        self.assertEqual({2, 3}, self.claim(TWO, 3, 6))
        # It has claimed nothing then, neither 3 nor 6.
        self.assertEqual(NONE, self.claim(ONE, 6))
        self.assertEqual({6}, self.claim(TWO, 2))

    def test_a_guest_is_not_in_its_own_way(self):
        for cpus in ((2, 3), (2, 3), (3, 6)):
            self.assertEqual(NONE, self.claim(ONE, *cpus))

    def test_one_that_ends_has_none(self):
        self.claim(ONE, 2)
        self.assertEqual(NONE, self.claim(ONE))
        self.assertEqual(NONE, self.claim(TWO, 2))
        self.assertEqual(NONE, self.claim(ONE))

    def test_while_it_has_to_be_quiet_none_is_claimed(self):
        self.claim(ONE, 2)
        at_once = Claims(self.root, lock_s=0.0)
        with self.claims.quiet() as found:
            self.assertEqual({f"guest {ONE}": {2}}, found)
            with self.assertRaisesRegex(ClaimsUnusable, "another start"):
                at_once.claim(TWO, CpuSet((3,)))

    def test_housekeeping_pcpus_are_for_everybody(self):
        self.assertEqual(NONE, self.claim(ONE, 0, 1, 2))
        self.assertEqual({2}, self.claim(TWO, 0, 1, 3))

    def test_a_guest_that_is_none(self):
        # By sudo vdsm's user may name any file of root's with it.
        after = (f"{ONE}\n", f"{ONE}/../../x", f"{ONE}x")
        for guest in ("", "x", f"../{ONE}", "A" + ONE[1:], "\0", *after):
            with self.assertRaisesRegex(ClaimsUnusable, "no UUID"):
                self.claim(guest, 2)

    def test_what_is_isolated_is_unknown(self):
        self.write("sys/devices/system/cpu/isolated", "x\n")
        with self.assertRaisesRegex(ClaimsUnusable, "isolated"):
            self.claim(ONE, 2)

    def test_what_others_may_write_is_not_used(self):
        self.directory.mkdir(parents=True)
        for each in (self.directory, self.directory.parent):
            mode = each.stat().st_mode
            each.chmod(0o777)
            with self.assertRaisesRegex(ClaimsUnusable, "by others"):
                self.claim(ONE, 2)
            each.chmod(mode)
        self.assertEqual(NONE, self.claim(ONE, 2))

    def test_its_directory_is_roots_alone_whatever_the_umask(self):
        self.addCleanup(os.umask, os.umask(0))
        self.claim(ONE, 2)
        for each, mode in (
            (self.directory, 0o700),
            (self.directory.parent, 0o755),
            (self.directory / f"{ONE}.json", 0o600),
        ):
            self.assertEqual(mode, each.stat().st_mode & 0o777)


class OthersTest(ClaimsTest):
    """pCPUs that nobody has claimed here, and that others have."""

    def guest(self, uuid, *pcpus):
        return documents.domain(
            more=f"<uuid>{uuid}</uuid>",
            cputune=documents.pins(*pcpus) + SCHED,
        )

    def test_a_guest_that_runs(self):
        self.run_guest(ONE, self.guest(ONE, 2, 3))
        self.assertEqual({2, 3}, self.claim(TWO, 3))
        self.assertEqual(NONE, self.claim(ONE, 2, 3))

    def test_its_pins_count_and_not_what_it_claimed_when_it_started(self):
        """Its owner may pin it elsewhere while it runs."""
        self.claim(ONE, 2, 3)
        self.run_guest(ONE, self.guest(ONE, 6, 7))
        self.assertEqual({6, 7}, self.claim(TWO, 2, 3))

    def test_a_realtime_container(self):
        xml = (
            f"<domain type='lxc'><name>d</name><uuid>{ONE}</uuid>"
            "<vcpu cpuset='2-3'>2</vcpu><metadata><g:guest xmlns:g='"
            "https://docs.openstack.org/sriov-rt/guest/1.0' realtime='yes'/>"
            "</metadata><os><type>exe</type></os></domain>"
        )
        self.assertEqual({2, 3}, claims.dedicated(parse_domain(xml)))
        self.run_guest(ONE, xml, running.CONTAINERS)
        self.assertEqual({2, 3}, self.claim(TWO, 3))
        xml = xml.replace("yes", "no")
        self.assertEqual(NONE, claims.dedicated(parse_domain(xml)))

    def test_pods_of_the_kubelet(self):
        path = "var/lib/kubelet/cpu_manager_state"
        self.write(
            path,
            '{"policyName": "static", "defaultCpuSet": "0-1", '
            '"entries": {"pod": {"container": "2,6"}}}',
        )
        self.assertEqual({2, 6}, self.claim(ONE, 2))
        self.assertEqual({2, 6}, self.claim(ONE, 3))
        self.write(path, "{")
        with self.assertRaisesRegex(ClaimsUnusable, "cpu_manager_state"):
            self.claim(ONE, 3)

    def test_a_status_that_cannot_be_read(self):
        self.write(f"{running.MACHINES}/x.xml", "")
        with self.assertRaisesRegex(ClaimsUnusable, "x.xml: empty"):
            self.claim(ONE, 2)


class EndTest(ClaimsTest):
    """What ends a claim whose guest nobody started, and what doesn't."""

    def age(self, seconds):
        (path,) = self.directory.glob("*.json")
        then = time.time() - seconds
        os.utime(path, (then, then))

    def test_its_age_does(self):
        self.claim(ONE, 2)
        self.age(claims.START_S - 10)
        self.assertEqual({2}, self.claim(TWO, 2))
        self.age(claims.START_S + 1)
        self.assertEqual(NONE, self.claim(TWO, 2))
        self.assertEqual([f"{TWO}.json"], self.names())

    def test_who_only_looks_ends_none(self):
        """Without the lock, another guest may claim it anew meanwhile."""
        self.claim(ONE, 2)
        self.age(claims.START_S + 1)
        found = claims.Claims(self.root).by_guest()
        self.assertEqual({NONE}, {*found.values()})
        self.assertEqual([f"{ONE}.json"], self.names())

    def test_one_that_ends_while_another_is_judged(self):
        """Its release takes no lock; nobody is refused for it."""
        self.claim(ONE, 2)
        real = pathlib.Path.lstat

        def lstat(path):
            path.unlink(missing_ok=True)
            return real(path)

        with mock.patch.object(pathlib.Path, "lstat", lstat):
            found = claims.Claims(self.root).by_guest()
        self.assertEqual({NONE}, {*found.values()})

    def test_a_clock_that_is_put_back_keeps_none_for_years(self):
        self.claim(ONE, 2)
        self.age(-86400)
        self.assertEqual(NONE, self.claim(TWO, 2))

    def test_a_guest_that_runs_keeps_it_whatever_its_age(self):
        self.claim(ONE, 2, 3)
        xml = documents.domain(
            more=f"<uuid>{ONE}</uuid>", cputune=documents.pins(2, 3) + SCHED
        )
        self.run_guest(ONE, xml)
        self.age(10 * claims.START_S)
        self.assertEqual({2, 3}, self.claim(TWO, 2))

    def test_the_boot_does(self):
        """/run is empty then, of our directory too."""
        self.claim(ONE, 2)
        for each in self.directory.iterdir():
            each.unlink()
        self.directory.rmdir()
        self.directory.parent.rmdir()
        self.assertEqual(NONE, self.claim(TWO, 2))


class DamageTest(ClaimsTest):
    def test_a_damaged_claim_may_be_of_any_pcpu_until_it_ends(self):
        self.claim(ONE, 2)
        path = self.directory / f"{ONE}.json"
        for text in (
            b"",
            b"{",
            b'{"schema": 2, "cpus": "2"}',
            b'{"schema": 1}',
            b'{"schema": 1, "cpus": "2-1"}',
            b"\xff" * 70_000,
        ):
            path.write_bytes(text)
            with self.assertRaisesRegex(ClaimsUnusable, f"{ONE}.json is dam"):
                self.claim(TWO, 3)
            # Its own guest replaces it, and it ends as others do.
            self.assertEqual(NONE, self.claim(ONE, 2))
        path.write_bytes(b"{")
        os.utime(path, (1, 1))
        self.assertEqual(NONE, self.claim(TWO, 2))

    def test_what_is_no_file_of_ours(self):
        self.claim(ONE, 2)
        path = self.directory / f"{ONE}.json"
        path.unlink()
        path.symlink_to("/etc/hostname")
        with self.assertRaisesRegex(ClaimsUnusable, "a link"):
            self.claim(TWO, 3)

    def test_killed_at_each_call(self):
        """By then it is claimed or it isn't, and the lock is free."""
        for wanted in (CpuSet((2,)), NONE):
            for number in range(1, 100):
                with self.subTest(number, wanted=wanted):
                    self.claims.claim(ONE, NONE)
                    self.claims.claim(TWO, NONE)
                    if not wanted:
                        self.claim(ONE, 2)
                    was_killed = self.killed(wanted, number)
                    is_claimed = f"{ONE}.json" in self.names()
                    theirs = self.claim(TWO, 2)
                    self.assertEqual(is_claimed, 2 in theirs)
                    if not was_killed:
                        self.assertEqual(bool(wanted), is_claimed)
                        break
                    # The manager sees a hook that failed, and releases.
                    self.claims.claim(ONE, NONE)
                    self.assertEqual(NONE, self.claim(TWO, 2))
            else:
                self.fail("it never came to its end")
            self.assertGreater(number, 1)

    def killed(self, wanted, number):
        """Claim in a process that is killed before its n-th call."""
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            return os.WIFSIGNALED(status)
        left = number

        def audit(event, arguments):
            nonlocal left
            ours = event == "fcntl.flock" or (
                event in ("open", "os.mkdir", "os.rename", "os.remove")
                and str(arguments[0]).startswith(str(self.directory))
            )
            if ours:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        with contextlib.suppress(BaseException):
            self.claims.claim(ONE, wanted)
        os._exit(0)

    def test_a_full_disk_claims_nothing(self):
        with (
            mock.patch.object(os, "write", side_effect=OSError(28, "full")),
            self.assertRaisesRegex(ClaimsUnusable, "full"),
        ):
            self.claim(ONE, 2)
        self.assertEqual(NONE, self.claim(TWO, 2))


class LockTest(ClaimsTest):
    @contextlib.contextmanager
    def held(self):
        self.claim(ONE, 2)
        with (self.directory / ".lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield stream

    def test_one_that_is_held_for_too_long(self):
        ours = Claims(self.root, lock_s=0.05)
        with self.held():
            with self.assertRaisesRegex(ClaimsUnusable, "held by another"):
                ours.claim(TWO, CpuSet((3,)))
            # The end of a claim needs none.
            self.assertEqual(NONE, ours.claim(ONE, NONE))
        self.assertEqual(NONE, ours.claim(TWO, CpuSet((3,))))

    def test_it_is_held_while_one_looks_and_writes(self):
        """Of those that claim one pCPU at once, one gets it."""
        looked, go_on = threading.Event(), threading.Event()
        real = running.every
        found = {}

        def slow(root):
            looked.set()
            self.assertTrue(go_on.wait(10))
            return real(root)

        def first():
            found[ONE] = Claims(self.root).claim(ONE, CpuSet((2,)))

        with mock.patch.object(running, "every", slow):
            thread = threading.Thread(target=first)
            thread.start()
            self.assertTrue(looked.wait(10))
            with self.assertRaisesRegex(ClaimsUnusable, "held by another"):
                Claims(self.root, lock_s=0.05).claim(TWO, CpuSet((2,)))
            go_on.set()
            thread.join(10)
        self.assertEqual({ONE: NONE}, found)
        self.assertEqual({2}, self.claim(TWO, 2))

    def test_a_link_in_its_place(self):
        self.directory.mkdir(0o700, parents=True)
        target = pathlib.Path(self.place, "target")
        (self.directory / ".lock").symlink_to(target)
        with self.assertRaises(ClaimsUnusable):
            self.claim(ONE, 2)
        self.assertFalse(target.exists())


class AdmitTest(unittest.TestCase):
    """Which pCPUs are claimed, and what follows if others have them."""

    UUID = f"<uuid>{ONE}</uuid>"

    def confirm(self, cputune, theirs):
        xml = documents.domain(more=self.UUID, cputune=cputune)
        asked = []

        def claim(guest, pins):
            asked.append((guest, pins))
            return CpuSet(theirs)

        claims.confirm(parse_domain(xml), claim)
        return asked

    def test_a_guest_without_realtime_vcpus_claims_none(self):
        self.assertEqual([], self.confirm(documents.pins(2, 3), (2,)))
        asked = self.confirm(documents.pins(2, 3) + SCHED, ())
        self.assertEqual([(ONE, {2, 3})], asked)
        with self.assertRaisesRegex(Exception, "pCPUs 3 of realtime"):
            self.confirm(documents.pins(2, 3) + SCHED, (3, 4))
