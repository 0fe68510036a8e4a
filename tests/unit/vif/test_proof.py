# SPDX-License-Identifier: Apache-2.0

"""Whether a port is gone: a table of what the kernel says, and verdicts."""

import itertools
import unittest

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.vif import errors
from sriov_rt.vif import proof
from sriov_rt.vif.model import State
from sriov_rt.vif.proof import Evidence
from sriov_rt.vif.proof import Verdict
from sriov_rt.vif.proof import Where
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

GONE, KEPT, QUARANTINED = Verdict.GONE, Verdict.KEPT, Verdict.QUARANTINED

STRAY = ("macvlan more in way",)

#: What the kernel says, the verdict, and what the reason says.
TABLE = (
    ({"where": Where.DESTROYED, "idle": None}, GONE, ""),
    ({"idle": True}, GONE, ""),
    ({"idle": True, "removed": True}, GONE, ""),
    ({"unseen": 0}, GONE, ""),
    ({"unseen": 0, "removed": True, "beside": True}, GONE, ""),
    # A parent that is elsewhere or nowhere proves nothing, whatever counts.
    ({"where": Where.ELSEWHERE, "unseen": 0}, QUARANTINED, "move it back"),
    ({"where": Where.ELSEWHERE, "removed": True}, QUARANTINED, "was moved"),
    ({"where": Where.UNKNOWN, "unseen": 3}, QUARANTINED, "cannot be seen"),
    # Not seen, not heard, and others on the parent.
    ({"clue": "it left", "unseen": 2}, QUARANTINED, "it left"),
    ({"clue": "it left", "unseen": None}, QUARANTINED, "it left"),
    ({"clue": "it left", "beside": True}, QUARANTINED, "it left"),
    ({"unrecorded": STRAY, "unseen": 0}, QUARANTINED, "more in way"),
    # An earlier port keeps the parent: this one is innocent.
    ({"removed": True, "suspect": OTHER}, GONE, ""),
    ({"removed": True, "suspect": OTHER, "unseen": 2}, GONE, ""),
    ({"suspect": OTHER, "clue": "it left"}, QUARANTINED, "it left"),
    # Its own is deleted; something else may be there.
    ({"removed": True}, QUARANTINED, "something that cannot be seen is on"),
    ({"removed": True, "unrecorded": STRAY, "unseen": 0}, KEPT, "more in way"),
    ({"removed": True, "beside": True}, KEPT, "does not show"),
    ({"removed": True, "beside": True, "unseen": 2}, KEPT, "2 interfaces"),
)


class JudgeTest(unittest.TestCase):
    def test_the_table(self):
        for fields, verdict, text in TABLE:
            with self.subTest(fields=fields):
                found, reason = proof.judge(Evidence("vf0", **fields))
                self.assertEqual(verdict, found)
                self.assertIn(text, reason)
                self.assertEqual(verdict is GONE, reason == "")

    def test_absence_is_no_proof(self):
        """Nothing that root in a container arranges makes a port gone."""
        for removed, beside, clue in itertools.product(
            (False, True), (False, True), ("", "its namespace has ended")
        ):
            for unseen in (None, 1):
                found, _ = proof.judge(
                    Evidence(
                        "vf0",
                        removed=removed,
                        beside=beside,
                        clue=clue,
                        unseen=unseen,
                    )
                )
                self.assertIsNot(GONE, found)


class GuiltTest(fakes.HostTest):
    parents = ("physnet1:enp1s0v0", "physnet2:bond0")

    def setUp(self):
        super().setUp()
        self.plugger.plug(asked())
        self.plugger.plug(asked(port=OTHER, name="eth2", namespace="box2"))

    def states(self):
        return {each.port: each.state for each in self.plugger.show()}

    def test_the_guilty_one_is_kept_and_the_innocent_one_goes(self):
        self.host.hide("eth1")
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)
        self.assertTrue(self.host.named("enp1s0v0").up)
        self.assertTrue(self.plugger.unplug(OTHER))
        self.assertEqual({PORT: State.QUARANTINED}, self.states())
        # Nobody else is on it: it is cut off, and set up again at the end.
        self.assertFalse(self.host.named("enp1s0v0").up)
        self.host.end_namespace("hidden")
        self.assertEqual((PORT,), self.another().recover().released)
        self.assertTrue(self.host.named("enp1s0v0").up)
        self.assertEqual({}, self.states())

    def test_what_is_hidden_elsewhere_keeps_a_vf_and_not_its_port(self):
        self.host.add("more", namespace="box2", kind="macvlan", parent=99)
        self.host.hide("more")
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertIsNone(self.host.named("eth1", "box"))
        self.assertEqual(
            {PORT: State.QUARANTINED, OTHER: State.PLUGGED}, self.states()
        )
        third = asked(port=fakes.port(3), name="eth3")
        with self.assertRaises(kernel_errors.ParentTaken):
            self.plugger.plug(third)
        # The container that had it is started again.
        self.plugger.plug(asked())
        self.assertEqual(State.PLUGGED, self.states()[PORT])
        self.host.end_namespace("hidden")
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertEqual({OTHER: State.PLUGGED}, self.states())
        self.plugger.plug(third)

    def test_what_is_no_vf_serves_its_own_network_on(self):
        for number, name in ((5, "eth5"), (6, "eth6")):
            self.plugger.plug(
                asked(
                    port=fakes.port(number),
                    name=name,
                    physical_network="physnet2",
                )
            )
        self.host.add("more", namespace="box2", kind="macvlan", parent=99)
        self.host.hide("more")
        self.plugger.unplug(fakes.port(5))
        self.assertEqual(State.QUARANTINED, self.states()[fakes.port(5)])
        self.plugger.plug(
            asked(port=fakes.port(7), name="eth7", physical_network="physnet2")
        )
