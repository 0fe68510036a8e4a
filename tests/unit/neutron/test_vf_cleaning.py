# SPDX-License-Identifier: Apache-2.0

import contextlib
import logging
import math
import random
import threading
import unittest

from sriov_rt import exceptions
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.neutron import vf_cleaning as keeping
from sriov_rt.neutron.claims import Claim
from sriov_rt.neutron.privileged import Slot
from sriov_rt.neutron.vf_cleaning import VfCleaner

SLOT, OTHER = "0000:01:10.0", "0000:01:10.2"

RETRY_S = 5.0


class Refused(exceptions.SriovRtError):
    """The NIC does not want to."""


class FakeVfs:
    """VFs that remember what was done to them.

    :ivar busy: slot to why it is not at rest.
    :ivar broken: whether everything fails.
    :ivar dirty: slots whose ports find them wrong.
    :ivar remains: what a PF keeps of those that are cleaned.
    """

    def __init__(self):
        self.busy = {}
        self.broken = False
        self.dirty = set()
        self.done = []
        self.vlans = {}
        self.remains = None
        self.slots = {}
        self.readable = True

    def assigned(self):
        if not self.readable:
            raise Refused("no daemon")
        return self.slots

    def assign(self, slot, has):
        if not self.readable:
            raise Refused("no daemon")
        self.slots = {k: v for k, v in self.slots.items() if k != slot}
        if has is not None:
            self.slots[slot] = has

    def set_right(self, slot, desired):
        if self.broken:
            raise Refused("EAGAIN")
        self.done.append(("set", slot))
        self.vlans[slot] = desired.vlan
        return ["trust on -> off"] if slot in self.dirty else []

    def clean(self, slot, leftover):
        if self.broken:
            raise Refused("EAGAIN")
        why_not = self.busy.get(slot)
        _, _, mac = (why_not or "").partition("the MAC ")
        if why_not is not None and (not mac or mac != leftover):
            return why_not, (), mac or None
        self.done.append(("clean", slot))
        self.vlans[slot] = 0
        return None, ["vlan 117 -> 0"], self.remains


def claim(port, slot=SLOT, vlan=117):
    return Claim(port, slot, VfSettings(vlan=vlan))


class FakeBindings:
    """What Neutron says of ports.

    :ivar slots: port to its VF.
    """

    def __init__(self):
        self.slots = {}
        self.asked = []
        self.broken = False

    def slot(self, port):
        self.asked.append(port)
        if self.broken:
            raise Refused("no answer")
        return self.slots.get(port)


class CleanerCase(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.vfs = FakeVfs()
        self.bindings = FakeBindings()
        self.cleaner = self.start()

    def start(self):
        """Return a cleaner, as after a start of the agent."""
        return VfCleaner(
            "rt-1",
            self.vfs,
            self.bindings,
            RETRY_S,
            lambda: self.now,
        )

    @contextlib.contextmanager
    def logs(self, level):
        with self.assertLogs(keeping.LOG, level) as logged:
            yield logged


class UseTest(CleanerCase):
    def test_before_use_a_vf_is_set_right(self):
        self.vfs.dirty = {SLOT}
        with self.logs("WARNING") as logged:
            self.assertFalse(self.cleaner.claim(claim("p1")))
        self.assertEqual([("set", SLOT)], self.vfs.done)
        self.assertIn(
            f"port=p1 vf={SLOT} host=rt-1 set right for its port: "
            "trust on -> off",
            logged.output[0],
        )

    def test_after_use_a_vf_is_cleaned(self):
        self.cleaner.claim(claim("p1"))
        self.assertFalse(self.cleaner.leave(claim("p1")))
        self.assertEqual(("clean", SLOT), self.vfs.done[-1])
        self.assertEqual({}, self.vfs.slots)
        self.assertEqual(math.inf, self.cleaner.retry())

    def test_a_vf_that_the_agent_never_told_of_is_cleaned_too(self):
        self.cleaner.leave(claim("p1"))
        self.assertEqual([("clean", SLOT)], self.vfs.done)

    def test_what_cannot_be_set_right_is_tried_again(self):
        self.vfs.broken = True
        with self.logs("ERROR") as logged:
            self.assertTrue(self.cleaner.claim(claim("p1")))
        self.assertIn(f"port=p1 vf={SLOT} host=rt-1", logged.output[0])
        # The same is not said again at each look.
        with self.assertNoLogs(keeping.LOG, "ERROR"):
            self.assertEqual(RETRY_S, self.cleaner.retry())
        self.vfs.broken = False
        self.assertEqual(math.inf, self.cleaner.retry())
        self.assertEqual([("set", SLOT)], self.vfs.done)

    def test_a_port_that_left_meanwhile_is_not_set_right(self):
        self.vfs.broken = True
        with self.logs("ERROR"):
            self.cleaner.claim(claim("p1"))
        self.vfs.broken = False
        self.cleaner.leave(claim("p1"))
        self.cleaner.retry()
        self.assertEqual([("clean", SLOT)], self.vfs.done)


class OrderTest(CleanerCase):
    def test_added_before_removed_the_new_owners_vf_is_not_cleaned(self):
        self.cleaner.claim(claim("old"))
        self.cleaner.claim(claim("new", vlan=118))
        with self.logs("INFO") as logged:
            self.assertFalse(self.cleaner.leave(claim("old")))
        self.assertIn("port=new has it now", logged.output[0])
        self.assertEqual(math.inf, self.cleaner.retry())
        self.assertNotIn(("clean", SLOT), self.vfs.done)
        self.assertEqual(118, self.vfs.vlans[SLOT])
        self.assertEqual({SLOT: Slot("new", left=False)}, self.vfs.slots)

    def test_a_port_that_comes_back_is_not_cleaned(self):
        self.cleaner.claim(claim("p1"))
        self.vfs.busy = {SLOT: "a guest has it"}
        self.assertTrue(self.cleaner.leave(claim("p1")))
        self.cleaner.claim(claim("p1"))
        self.vfs.busy = {}
        self.cleaner.retry()
        self.assertNotIn(("clean", SLOT), self.vfs.done)

    def test_others_are_of_no_matter(self):
        self.cleaner.claim(claim("p1"))
        self.cleaner.claim(claim("p2", OTHER))
        self.cleaner.leave(claim("p2", OTHER))
        self.assertEqual(("clean", OTHER), self.vfs.done[-1])
        self.assertEqual({SLOT: Slot("p1", left=False)}, self.vfs.slots)


class RetryTest(CleanerCase):
    def test_a_vf_is_cleaned_once_it_is_at_rest(self):
        self.vfs.busy = {SLOT: "a guest has it"}
        with self.logs("INFO") as logged:
            self.assertTrue(self.cleaner.leave(claim("p1")))
        self.assertIn("a guest has it", logged.output[0])
        self.now += RETRY_S
        self.vfs.busy = {SLOT: "its driver igbvf has no interface yet"}
        self.assertEqual(RETRY_S, self.cleaner.retry())
        self.now += RETRY_S
        self.vfs.busy = {}
        self.assertEqual(math.inf, self.cleaner.retry())
        self.assertEqual([("clean", SLOT)], self.vfs.done)

    def test_two_looks_are_some_seconds_apart(self):
        # It is taken for a leftover if it is the same at the second look.
        self.vfs.busy = {SLOT: "it has the MAC fa:16:3e:00:00:01 still"}
        self.cleaner.leave(claim("p1"))
        self.now += RETRY_S / 10
        self.assertEqual(RETRY_S, self.cleaner.retry())
        self.assertEqual([], self.vfs.done)
        self.now += RETRY_S
        self.assertEqual(math.inf, self.cleaner.retry())
        self.assertEqual([("clean", SLOT)], self.vfs.done)

    def test_what_cannot_be_cleaned_is_told_once_and_tried_again(self):
        self.vfs.broken = True
        with self.logs("ERROR") as logged:
            self.assertTrue(self.cleaner.leave(claim("p1")))
            self.assertEqual(RETRY_S, self.cleaner.retry())
        self.assertEqual(1, len(logged.output))
        self.vfs.broken = False
        self.assertEqual(math.inf, self.cleaner.retry())
        self.assertEqual([("clean", SLOT)], self.vfs.done)


class RestartTest(CleanerCase):
    def test_what_was_given_back_while_it_was_down_is_cleaned(self):
        self.cleaner.claim(claim("p1"))
        self.cleaner.claim(claim("p2", OTHER))
        self.vfs.busy = {OTHER: "a guest has it"}
        again = self.start()
        self.assertEqual(RETRY_S, again.retry())
        self.assertEqual(("clean", SLOT), self.vfs.done[-1])
        # The agent's first look finds the other in use still.
        again.claim(claim("p2", OTHER))
        self.vfs.busy = {}
        self.now += RETRY_S
        self.assertEqual(math.inf, again.retry())
        self.assertNotIn(("clean", OTHER), self.vfs.done)

    def test_live_port_is_left_alone_by_what_neutron_says(self):
        """Not only for the look of its VF, which may be idle at a moment."""
        self.cleaner.claim(claim("p1"))
        self.bindings.slots = {"p1": SLOT}
        # On the host's driver, with its port's MAC: as one left over looks.
        self.vfs.busy = {SLOT: "it has the MAC fa:16:3e:00:00:01 still"}
        again = self.start()
        for _ in range(5):
            self.assertEqual(RETRY_S, again.retry())
            self.now += RETRY_S
        self.assertNotIn(("clean", SLOT), self.vfs.done)
        self.assertEqual({SLOT: Slot("p1", left=False)}, self.vfs.slots)
        # Its guest ends, and the agent is told of nothing it had not seen.
        self.vfs.busy = {}
        self.assertEqual(math.inf, again.retry())
        self.assertEqual(("clean", SLOT), self.vfs.done[-1])

    def test_port_that_is_bound_elsewhere_or_to_another_vf_has_left(self):
        for slot in (None, OTHER):
            with self.subTest(slot=slot):
                self.vfs.done.clear()
                self.start().claim(claim("p1"))
                self.bindings.slots = {"p1": slot}
                self.vfs.busy = {SLOT: "it has the MAC fa:16 still"}
                again = self.start()
                self.assertEqual(RETRY_S, again.retry())
                self.assertEqual({SLOT: Slot("p1", left=True)}, self.vfs.slots)
                self.now += RETRY_S
                self.assertEqual(math.inf, again.retry())
                self.assertEqual(("clean", SLOT), self.vfs.done[-1])

    def test_nothing_is_cleaned_while_neutron_gives_no_answer(self):
        self.cleaner.claim(claim("p1"))
        self.bindings.broken = True
        again = self.start()
        with self.logs("WARNING"):
            self.assertEqual(RETRY_S, again.retry())
        self.assertNotIn(("clean", SLOT), self.vfs.done)

    def test_port_that_claims_its_vf_is_not_asked_about(self):
        self.cleaner.claim(claim("p1"))
        again = self.start()
        again.claim(claim("p1"))
        self.assertEqual(math.inf, again.retry())
        self.assertEqual([], self.bindings.asked)

    def test_what_was_to_be_cleaned_still_is(self):
        self.vfs.busy = {SLOT: "a guest has it"}
        self.cleaner.leave(claim("p1"))
        self.vfs.busy = {}
        self.start().retry()
        self.assertEqual([("clean", SLOT)], self.vfs.done)

    def test_without_its_records_it_works_on(self):
        self.vfs.readable = False
        with self.logs("WARNING"):
            cleaner = self.start()
            cleaner.claim(claim("p1"))
            self.assertFalse(cleaner.leave(claim("p1")))
        self.assertEqual(("clean", SLOT), self.vfs.done[-1])


class RemainsTest(CleanerCase):
    def test_what_a_pf_keeps_is_a_warning_and_no_reason_to_wait(self):
        self.vfs.remains = "enp1s0 keeps MAC filters"
        self.cleaner.claim(claim("p1"))
        with self.logs("WARNING") as logged:
            self.assertFalse(self.cleaner.leave(claim("p1")))
        (said,) = logged.output
        self.assertIn(f"port=p1 vf={SLOT}", said)
        self.assertIn("but enp1s0 keeps MAC filters", said)
        self.assertIn("made again", said)


class Guests:
    """VFs of a host on which guests come and go, checked at each write.

    :ivar owner: slot to the port whose guest has it, None for nobody.
    """

    def __init__(self, addresses):
        self.owner = dict.fromkeys(addresses)
        self.lock = threading.Lock()
        self.cleaned = 0
        self.slots = {}

    def assigned(self):
        return self.slots

    def assign(self, slot, has):
        self.slots[slot] = has

    def set_right(self, slot, desired):
        return []

    def clean(self, slot, leftover):
        with self.lock:
            if self.owner[slot] is not None:
                return "a guest has it", (), None
            self.cleaned += 1
        return None, (), None


class RaceTest(unittest.TestCase):
    """The agent's thread and the cleaner's own, at the same VFs."""

    def test_in_the_end_each_vf_is_clean_or_its_owners(self):
        logging.getLogger(keeping.__name__).setLevel(logging.ERROR)
        self.addCleanup(
            logging.getLogger(keeping.__name__).setLevel, logging.NOTSET
        )
        addresses = [f"0000:01:10.{each}" for each in range(4)]
        vfs = Guests(addresses)
        cleaner = VfCleaner("rt-1", vfs, FakeBindings(), 0.0)
        over = threading.Event()

        def retry():
            while not over.is_set():
                cleaner.retry()

        threads = [threading.Thread(target=retry) for _ in range(2)]
        for each in threads:
            each.start()
        self._live(cleaner, vfs, addresses)
        over.set()
        for each in threads:
            each.join(30)
        while cleaner.retry() != math.inf:
            pass
        self.assertEqual(
            {
                slot: Slot(port, left=False)
                for slot, port in vfs.owner.items()
                if port is not None
            },
            {slot: has for slot, has in vfs.slots.items() if has is not None},
        )
        self.assertGreater(vfs.cleaned, 0)

    def _live(self, cleaner, vfs, addresses):
        chance = random.Random(7)
        for turn in range(400):
            slot = chance.choice(addresses)
            with vfs.lock:
                old, new = vfs.owner[slot], f"p{turn}"
                vfs.owner[slot] = new if chance.random() < 0.6 else None
                now = vfs.owner[slot]
            # In the agent's order: added before removed.
            if now is not None:
                cleaner.claim(claim(now, slot))
            if old is not None:
                cleaner.leave(claim(old, slot))
