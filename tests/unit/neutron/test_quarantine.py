# SPDX-License-Identifier: Apache-2.0

"""Quarantined ports, which the agent looks at again while it runs."""

import pathlib
import tempfile
from unittest import mock

from sriov_rt.kernel.errors import LinkError
from sriov_rt.neutron import service
from sriov_rt.neutron import this_host
from sriov_rt.neutron.ports import Ports
from sriov_rt.neutron.service import Agent
from sriov_rt.neutron.this_host import ThisHost
from sriov_rt.nic.errors import RefusedByNic
from sriov_rt.vif import errors
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from tests.unit.neutron import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import HostTest
from tests.unit.vif.fakes import asked

LOGGER = "sriov_rt"


class QuarantineTest(HostTest):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        path = pathlib.Path(place.name, "sriov-rt.conf")
        path.write_text("[vif]\n")
        with mock.patch.object(this_host.plugger, "of", self._plugger):
            local = ThisHost(this_host.settings(str(path)), "rt-1")
        self.now = 100.0
        self.agent = Agent(
            "rt-1",
            local,
            fakes.FakeServer(),
            Ports(10.0),
            polling_s=2.0,
            report_s=30.0,
            crashed=self.fail,
            monotonic=lambda: self.now,
        )

    def _plugger(self, _conf):
        # Another one than that which unplugs.
        return self.another()

    def tick(self):
        """Let the time come for another look, in the agent's thread."""
        self.now += service.QUARANTINE_S
        self.agent.quarantine.tick()

    def hide(self, kind=Kind.MACVLAN, **fields):
        """Quarantine a port, whose interface its tenant has hidden."""
        self.plugger.plug(asked(kind, parent="enp1s0v0", **fields))
        self.host.hide("eth1")
        with (
            self.assertLogs(LOGGER, "ERROR"),
            self.assertRaises(errors.Quarantined),
        ):
            self.plugger.unplug(PORT)

    def states(self):
        return {each.port: each.state for each in self.plugger.show()}

    def test_a_parent_serves_again_when_the_container_has_ended(self):
        for kind in (Kind.MACVLAN, Kind.VF):
            with self.subTest(kind):
                before = self.host.state()
                self.hide(kind)
                self.tick()
                self.assertEqual({PORT: State.QUARANTINED}, self.states())
                with self.assertRaises(LinkError):
                    self.plugger.plan(asked(port=OTHER, parent="enp1s0v0"))
                self.host.end_namespace("hidden")
                with self.assertLogs(LOGGER, "WARNING") as logs:
                    self.tick()
                (line,) = logs.output
                self.assertRegex(
                    line,
                    f"port={PORT} vf=0000:01:10.0 host=[^ ]+: no longer "
                    "quarantined; enp1s0v0 serves ports again",
                )
                self.assertEqual({}, self.states())
                self.host.change("enp1s0v0", up=True)
                self.assertEqual(before, self.host.state())
                self.plugger.plug(asked(port=OTHER, parent="enp1s0v0"))
                self.plugger.unplug(OTHER)
                self.host.change("enp1s0v0", up=True)

    def test_it_is_said_once(self):
        self.hide()
        with self.assertLogs(LOGGER, "WARNING") as logs:
            for _ in range(5):
                self.tick()
        (line,) = logs.output
        self.assertRegex(line, f"port={PORT} vf=[^ ]+ host=[^ ]+: quarantined")
        self.assertIn("end the container", line)

    def test_one_that_is_kept_for_what_is_beside_it(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        self.plugger.plug(asked(port=OTHER, parent="enp1s0v0", name="eth2"))
        self.host.add(
            "mv0",
            kind="macvlan",
            namespace="box",
            parent=self.host.named("enp1s0v0").index,
        )
        self.host.hide("mv0")
        with self.assertLogs(LOGGER, "ERROR"):
            self.plugger.unplug(PORT)
        self.tick()
        self.assertEqual(
            {PORT: State.QUARANTINED, OTHER: State.PLUGGED}, self.states()
        )
        self.host.end_namespace("hidden")
        self.tick()
        self.assertEqual({OTHER: State.PLUGGED}, self.states())

    def test_without_one_the_kernel_is_not_asked(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        with (
            mock.patch.object(self.links, "all", side_effect=self.fail),
            mock.patch.object(self.links, "inventory", side_effect=self.fail),
            mock.patch.object(self.vfs, "list", side_effect=self.fail),
        ):
            self.tick()
        self.assertEqual({PORT: State.PLUGGED}, self.states())

    def test_one_that_another_works_on_is_left_to_it(self):
        self.hide()
        self.host.end_namespace("hidden")
        with Locks(self.directory, 0.0).port(PORT):
            self.tick()
            self.assertEqual({PORT: State.QUARANTINED}, self.states())
        self.tick()
        self.assertEqual({}, self.states())

    def test_nothing_is_waited_for(self):
        self.hide()
        with mock.patch("time.sleep", side_effect=self.fail):
            self.tick()
        self.assertEqual({PORT: State.QUARANTINED}, self.states())

    def test_records_that_cannot_be_read_are_said_once(self):
        self.hide()
        records = self.directory / "records"
        records.rename(self.directory / "away")
        records.write_text("")
        with self.assertLogs(LOGGER, "ERROR") as logs:
            for _ in range(3):
                self.tick()
        self.assertEqual(1, len(logs.output))
        records.unlink()
        (self.directory / "away").rename(records)
        self.host.end_namespace("hidden")
        self.tick()
        self.assertEqual({}, self.states())

    def test_what_cannot_be_freed_is_said_once(self):
        self.hide(Kind.VF)
        self.host.end_namespace("hidden")
        with (
            mock.patch.object(
                self.vfs, "reset", side_effect=RefusedByNic("enp1s0v0")
            ),
            self.assertLogs(LOGGER, "ERROR") as logs,
        ):
            for _ in range(3):
                self.tick()
        self.assertEqual(1, len(logs.output))
