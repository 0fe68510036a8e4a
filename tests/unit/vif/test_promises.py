# SPDX-License-Identifier: Apache-2.0

"""What breaks without a sound: nobody is refused, and nothing is logged.

Each of these was changed on purpose once, and every other test passed.
"""

import contextlib

from sriov_rt.kernel.tc import Limits
from sriov_rt.vif.errors import Quarantined
from sriov_rt.vif.model import Kind
from sriov_rt.vif.records import Records
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

MAC = "02:00:5e:10:00:01"
PARENT = "enp1s0v0"


class PromisesTest(fakes.HostTest):
    def watch_until_up(self, **fields):
        """Plug a port, and return what it was when it came up first."""
        seen = []
        tick = self.host.clock.tick

        def look(call):
            tick(call)
            link = self.host.named("eth1", "box")
            if link is not None and link.up:
                limits = self.host.limits.get(link.index, Limits())
                seen.append((link.mac, limits))

        self.host.clock.tick = look
        self.plugger.plug(asked(**fields))
        self.host.clock.tick = tick
        self.plugger.unplug(PORT)
        self.assertTrue(seen)
        return seen[0]

    def test_a_port_is_up_only_with_its_limits_and_its_mac(self):
        """Until then its tenant would send without them, or as another."""
        limits = Limits(1000, 500)
        for kind, mode in (
            (Kind.MACVLAN, None),
            (Kind.MACVLAN, "passthru"),
            (Kind.MACVTAP, None),
            (Kind.VF, None),
        ):
            with self.subTest(kind=kind, mode=mode):
                fields = {"mac": MAC, "mode": mode}
                self.assertEqual(
                    (MAC, limits),
                    self.watch_until_up(kind=kind, limits=limits, **fields),
                )
                self.assertEqual(
                    MAC, self.watch_until_up(kind=kind, **fields)[0]
                )

    def test_a_record_has_what_its_port_and_parent_are_known_by(self):
        """Their names and indices are anybody's afterwards."""
        for kind in (Kind.MACVLAN, Kind.IPVLAN):
            self.plugger.plug(asked(kind))
            record = Records(self.directory).get(PORT)
            with self.subTest(kind=kind):
                self.assertEqual(
                    tuple(
                        self.links.node(self.host.named(*each))
                        for each in (("eth1", "box"), (PARENT,))
                    ),
                    (record.node, record.parent_node),
                )
            self.plugger.unplug(PORT)

    def test_a_port_that_is_forgotten_gives_its_parent_back(self):
        self.plugger.plug(asked())
        self.host.hide("eth1")
        with (
            self.assertLogs("sriov_rt", "ERROR"),
            contextlib.suppress(Exception),
        ):
            self.plugger.unplug(PORT)
        self.assertFalse(self.host.named(PARENT).up)
        self.host.end_namespace("hidden")
        self.plugger.forget(PORT)
        self.assertTrue(self.host.named(PARENT).up)

    def test_a_decoy_at_the_index_of_a_port_is_not_its_interface(self):
        """Its own is hidden: to delete the decoy proves nothing.

        Root in the container has moved its interface to and fro, so that
        another one of the same parent has the index that was written down.
        """
        self.plugger.plug(asked())
        self.host.swap("eth1")
        with (
            self.assertLogs("sriov_rt", "ERROR"),
            self.assertRaises(Quarantined),
        ):
            self.plugger.unplug(PORT)
        record = Records(self.directory).get(PORT)
        self.assertTrue(record.is_quarantined)
        self.assertFalse(record.removed)

    def test_what_a_damaged_record_is_about_is_nobodys_to_delete(self):
        """Of two ports of one container, the other is unplugged first."""
        self.plugger.plug(asked())
        self.plugger.plug(asked(port=OTHER, name="eth2"))
        (self.directory / "records" / PORT).write_bytes(b"")
        with self.assertLogs("sriov_rt", "ERROR"):
            self.plugger.unplug(OTHER)
        self.assertIsNotNone(self.host.named("eth1", "box"))
        record = Records(self.directory).get(PORT)
        self.assertEqual(self.host.named(PARENT).index, record.parent_index)
        self.assertIn("kept as", record.reason)
