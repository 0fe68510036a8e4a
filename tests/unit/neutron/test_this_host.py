# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib
import tempfile
import unittest
import unittest.mock

from oslo_config import cfg

from sriov_rt.config import OptionRejected
from sriov_rt.host import compute_driver_socket
from sriov_rt.host.root import Root
from sriov_rt.neutron import this_host
from sriov_rt.neutron.this_host import ThisHost
from sriov_rt.request.words import VifKind
from sriov_rt.vif.errors import Busy
from sriov_rt.vif.host_offer import NOTHING
from sriov_rt.vif.model import State
from sriov_rt.vif.recovery import Recovered
from sriov_rt.vif.view import View
from tests.unit.neutron import fakes
from tests.unit.vif.test_host_offer import FakeLinks
from tests.unit.vif.test_host_offer import Fixed
from tests.unit.vif.test_host_offer import link


class ThisHostTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "sriov-rt.conf")
        self.plugger = unittest.mock.Mock()
        self.now = 1000.0
        for where, name, value in (
            (this_host.plugger, "of", lambda _conf: self.plugger),
            (this_host, "Links", unittest.mock.Mock),
            (this_host.Vfs, "of_host", unittest.mock.Mock),
        ):
            patched = unittest.mock.patch.object(where, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def start(self, parents=""):
        """Return the host of a configuration."""
        self.path.write_text(f"[vif]\nparents = {parents}\n")
        return ThisHost(
            this_host.settings(str(self.path)),
            "rt-1",
            Root(str(self.path.parent)),
            lambda: self.now,
        )

    def run_driver(self, host="rt-1", virt_type="lxc"):
        """Have a nova-compute with our driver run; None for none."""
        name = compute_driver_socket.prefix(host) if host else "/run/other/"
        sockets = self.path.with_name("proc") / "1/net/unix"
        sockets.parent.mkdir(parents=True, exist_ok=True)
        sockets.write_text(f"0: 2 0 0 2 1 9 @{name}1.0/{virt_type}/77\n")

    def offered(self, found):
        """Return the offer of a host with eno1."""
        view = View(FakeLinks([link("eno1")]), Fixed(()))
        with unittest.mock.patch.object(this_host, "View", lambda *_: view):
            return found.offer()

    def test_its_ports_are_those_of_the_plugger(self):
        self.plugger.show.return_value = (fakes.plugged(1),)
        self.assertEqual([fakes.plugged(1)], list(self.start().ports()))

    def test_one_that_is_not_where_it_was_plugged_is_not_plugged(self):
        away = dataclasses.replace(fakes.plugged(2), state=State.ABSENT)
        self.plugger.show.return_value = (fakes.plugged(1), away)
        self.assertEqual([fakes.plugged(1)], list(self.start().ports()))

    def test_it_offers_what_is_configured_and_there(self):
        self.run_driver()
        offer = self.offered(self.start("physnet1:eno1"))
        self.assertEqual({"physnet1": 1}, offer.parents)
        self.assertEqual({}, offer.vfs)
        self.assertEqual(frozenset(VifKind), offer.kinds)

    def test_it_offers_the_kinds_that_its_guests_can_have(self):
        for virt_type in ("kvm", "qemu"):
            self.run_driver(virt_type=virt_type)
            offer = self.offered(self.start("physnet1:eno1"))
            self.assertEqual({VifKind.MACVLAN}, offer.kinds)
        self.run_driver(virt_type="parallels")
        offer = self.offered(self.start("physnet1:eno1"))
        self.assertEqual(frozenset(), offer.kinds)

    def test_without_our_driver_it_offers_nothing_and_says_so_once(self):
        """Nova's own driver does not know the vif type."""
        self.run_driver(None)
        found = self.start("physnet1:eno1")
        with self.assertLogs(this_host.LOG, "WARNING") as logged:
            self.assertEqual(NOTHING, self.offered(found))
            self.assertEqual(NOTHING, self.offered(found))
        (said,) = logged.output
        self.assertIn("host=rt-1 offers no parents", said)
        self.assertIn("sriov_rt.RealtimeLibvirtDriver", said)
        self.run_driver()
        self.assertEqual({"physnet1": 1}, self.offered(found).parents)

    def test_it_does_not_speak_for_another_host(self):
        """One whose neutron.conf was copied."""
        self.run_driver("rt-2")
        found = self.start("physnet1:eno1")
        with self.assertRaises(this_host.AnotherName) as caught:
            self.offered(found)
        said = str(caught.exception)
        self.assertIn("under another name than rt-1; set [DEFAULT] host", said)

    def test_a_list_that_cannot_be_read_is_told_as_that(self):
        with self.assertLogs(this_host.LOG, "WARNING") as logged:
            self.assertEqual(NOTHING, self.offered(self.start()))
        self.assertIn("it cannot be seen which driver runs", logged.output[0])

    def test_a_restart_of_nova_compute_takes_no_parents_away(self):
        self.run_driver()
        found = self.start("physnet1:eno1")
        self.assertEqual({"physnet1": 1}, self.offered(found).parents)
        self.run_driver(None)
        self.now += this_host.RESTART_S
        self.assertEqual({"physnet1": 1}, self.offered(found).parents)
        self.now += 1
        with self.assertLogs(this_host.LOG, "WARNING"):
            self.assertEqual(NOTHING, self.offered(found))

    def test_what_cannot_be_recovered_does_not_stop_the_agent(self):
        self.plugger.recover.side_effect = Busy("enp1s0v0")
        with self.assertLogs(this_host.LOG, "ERROR") as logged:
            self.start().recover()
        self.assertIn("enp1s0v0", logged.output[0])

    def test_processes_that_are_not_seen_are_warned_of(self):
        self.plugger.recover.return_value = Recovered()
        with (
            unittest.mock.patch.object(
                this_host.container, "sees_host_processes", return_value=False
            ),
            self.assertLogs(this_host.__name__, "WARNING") as logged,
        ):
            self.start().recover()
        self.assertIn("--pid=host", logged.output[0])

    def test_what_was_recovered_is_logged(self):
        self.plugger.recover.return_value = Recovered(
            undone=("p1",),
            finished=("p2",),
            failed=(("p3", "the VF is busy"),),
            cleaned=("enp1s0v3",),
        )
        with self.assertLogs(this_host.LOG, "INFO") as logged:
            self.start().recover()
        text = "\n".join(logged.output)
        for expected in (
            "INFO:sriov_rt.neutron.this_host:port=p1 its interrupted plug",
            "port=p2 its interrupted unplug was finished",
            "ERROR:sriov_rt.neutron.this_host:port=p3 its interrupted plug or "
            "unplug was not recovered (the VF is busy)",
            "vf=enp1s0v3",
        ):
            self.assertIn(expected, text)

    def test_parents_that_cannot_be_are_refused(self):
        with self.assertRaisesRegex(
            OptionRejected, rf"\[vif\] parents = nonsense in {self.path} is"
        ):
            self.start("nonsense")

    def test_a_file_that_is_not_there_is_refused(self):
        with self.assertRaises(cfg.Error):
            this_host.settings(str(self.path.with_name("other.conf")))
