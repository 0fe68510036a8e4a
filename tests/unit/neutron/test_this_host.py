# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import dataclasses
import pathlib
import tempfile
import unittest
import unittest.mock

from oslo_config import cfg

from sriov_rt.config import OptionRejected
from sriov_rt.kernel.link import Link
from sriov_rt.neutron import this_host
from sriov_rt.neutron.this_host import ThisHost
from sriov_rt.neutron.this_host import parents
from sriov_rt.request.words import VifKind
from sriov_rt.vif.errors import Busy
from sriov_rt.vif.model import State
from sriov_rt.vif.recovery import Recovered
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import View
from tests.unit.neutron import fakes
from tests.unit.nic import fakes as nic_fakes


def link(name, namespace=None):
    """Return an interface of the host."""
    return Link(
        name=name,
        index=hash(name) % 1000 + 1,
        namespace=namespace,
        kind="",
        mode=None,
        parent=None,
        mac="02:00:00:00:00:01",
        mtu=1500,
        up=True,
        carrier=True,
        alias="",
    )


class FakeLinks:
    """The links of a host, and nothing in other namespaces."""

    def __init__(self, links):
        self.links = links

    def all(self):
        return self.links


class Fixed:
    """VFs that were read before."""

    def __init__(self, states):
        self.list = lambda: states

    def of(self, interface):
        found = (x for x in self.list() if x.netdev == interface)
        return next(found, None)


class ParentsTest(unittest.TestCase):
    def setUp(self):
        self.kernel = nic_fakes.FakeKernel("igb", vfs=4)

    def count(self, *items, links=()):
        """Return the parents of a host with enp1s0 and its four VFs."""
        vfs = nic_fakes.vfs(self.kernel).list()
        names = [vf.netdev for vf in vfs if vf.netdev]
        kernel = FakeLinks(list(map(link, (*names, *links))))
        return parents(View(kernel, Fixed(vfs)), Pools.parse(items))

    def test_interfaces_that_are_there_count(self):
        self.assertEqual(
            {"physnet1": 2, "physnet2": 1},
            self.count(
                "physnet1:enp1s0v0",
                "physnet1:enp1s0v1",
                "physnet1:enp1s0v9",
                "physnet2:eno1",
                links=["eno1"],
            ),
        )

    def test_a_pf_counts_by_its_vfs_that_are_here(self):
        self.kernel.change_device(3, netdev=None, elsewhere=True)
        self.assertEqual({"physnet1": 3}, self.count("physnet1:pf:enp1s0"))

    def test_a_vf_that_is_named_is_not_counted_with_its_pf(self):
        self.assertEqual(
            {"physnet1": 3, "physnet2": 1},
            self.count("physnet1:pf:enp1s0", "physnet2:enp1s0v2"),
        )

    def test_a_network_without_any_is_not_offered(self):
        self.assertEqual({}, self.count("physnet1:enp9s0v0"))


class ThisHostTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "sriov-rt.conf")
        self.plugger = unittest.mock.Mock()
        for where, name, value in (
            (this_host.host, "plugger", lambda _conf: self.plugger),
            (this_host, "Links", unittest.mock.Mock),
            (this_host.Vfs, "of_host", unittest.mock.Mock),
        ):
            patched = unittest.mock.patch.object(where, name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def start(self, parents=""):
        """Return the host of a configuration."""
        self.path.write_text(f"[vif]\nparents = {parents}\n")
        return ThisHost(this_host.settings(str(self.path)))

    def test_its_ports_are_those_of_the_plugger(self):
        self.plugger.show.return_value = (fakes.plugged(1),)
        self.assertEqual([fakes.plugged(1)], list(self.start().ports()))

    def test_one_that_is_not_where_it_was_plugged_is_not_plugged(self):
        away = dataclasses.replace(fakes.plugged(2), state=State.ABSENT)
        self.plugger.show.return_value = (fakes.plugged(1), away)
        self.assertEqual([fakes.plugged(1)], list(self.start().ports()))

    def test_it_offers_what_is_configured_and_there(self):
        found = self.start("physnet1:eno1")
        view = View(FakeLinks([link("eno1")]), Fixed(()))
        with unittest.mock.patch.object(this_host, "View", lambda *_: view):
            offer = found.offer()
        self.assertEqual({"physnet1": 1}, offer.parents)
        self.assertEqual(frozenset(VifKind), offer.kinds)

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
