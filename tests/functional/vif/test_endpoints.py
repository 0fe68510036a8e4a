# SPDX-License-Identifier: Apache-2.0

"""Accelerated ports on real macvlans: one instance of a network a NIC.

Nothing of Onload's is needed for it; veths stand in for two NICs.
"""

import os
import threading
import uuid

from sriov_rt.facts import Endpoint
from sriov_rt.host.root import BOOT_ID
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.kernel.links import Links
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import errors
from sriov_rt.vif import vif_facts
from sriov_rt.vif.host import Host
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.plugger import Plugger
from sriov_rt.vif.records import Records
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from tests.functional.vif.test_plugger import PORT
from tests.functional.vif.test_plugger import PluggerTestCase
from tests.testbed.isolation import sh
from tests.testbed.isolation import wire

NETWORK = str(uuid.uuid4())

#: How many ports are asked for at once.
MANY = 20

#: What a process says of its port by its exit code.
WON, PLAIN, REFUSED = 0, 3, 4


class EndpointTestCase(PluggerTestCase):
    def setUp(self):
        super().setUp()
        if os.geteuid() == 0:
            wire("vf1", "peer1")

    def another(self, records=None, **rules) -> Plugger:
        return Plugger(
            Host(
                Links(),
                Vfs.of_host(),
                Pools.parse(["physnet1:vf0", "physnet1:vf1"]),
                records or Records(self.directory),
                Locks(self.directory, 60),
                Rules(carrier_wait_s=1.0, **rules),
            )
        )

    def wanted(self, number, **fields):
        return self.asked(
            port=str(uuid.uuid4()),
            owner=f"tester-{PORT[:8]}-{number}",
            name=f"eth{number}",
            **{"network": NETWORK, "onload": True, **fields},
        )

    def mine(self):
        return [
            each
            for each in self.plugger.show()
            if each.owner.startswith(f"tester-{PORT[:8]}-")
        ]

    def endpoints(self):
        return vif_facts.accelerated(Records(self.directory).all())

    def plug(self, want, **rules) -> int:
        """Plug a port in a process of its own, which says how it went."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            plugged = self.another(**rules).plug(want)
            code = WON if plugged.accelerated else PLAIN
        except errors.SpreadNeeded:
            code = REFUSED
        finally:
            os._exit(code)

    def at_once(self, **rules) -> list[int]:
        wants = [self.wanted(number) for number in range(MANY)]
        children = [self.plug(want, **rules) for want in wants]
        return sorted(
            os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            for pid in children
        )


class ParallelTest(EndpointTestCase):
    def test_two_of_twenty_processes_win_on_two_nics(self):
        before = self.machine()
        self.assertEqual([WON] * 2 + [REFUSED] * (MANY - 2), self.at_once())
        found = self.mine()
        self.assertEqual(["vf0", "vf1"], sorted(e.parent for e in found))
        self.assertEqual(
            ["vf0", "vf1"], sorted(each.nic for each in self.endpoints())
        )
        # Of the others nothing is left.
        host, tenant = self.machine()
        self.assertEqual(before[0], host)
        self.assertEqual(len(before[1]) + 2, len(tenant))
        self.assertEqual((), Records(self.directory).ports())
        for each in found:
            self.assertTrue(self.plugger.unplug(each.port))
        self.assertEqual(before, self.machine())

    def test_the_others_run_over_the_kernel_if_they_may(self):
        self.assertEqual(
            [WON] * 2 + [PLAIN] * (MANY - 2),
            self.at_once(unaccelerated=True),
        )
        self.assertEqual(MANY, len(self.mine()))
        self.assertEqual(
            ["vf0", "vf1"], sorted(each.nic for each in self.endpoints())
        )

    def test_two_of_twenty_threads_win(self):
        wants = [self.wanted(number) for number in range(MANY)]
        seen = []

        def plug(want):
            try:
                seen.append(self.plugger.plug(want).accelerated)
            except errors.SpreadNeeded:
                seen.append(False)

        threads = [threading.Thread(target=plug, args=(w,)) for w in wants]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual((MANY, 2), (len(seen), sum(seen)))
        self.assertEqual(2, len(self.mine()))


class SourceTest(EndpointTestCase):
    def observed(self):
        """Return what an agent with this host's configuration finds."""
        root = self.directory.parent
        records = f"[vif]\nrecords = /{self.directory.name}\n"
        for name, text in (
            (CONFIG, records),
            (BOOT_ID, Root().read_text(BOOT_ID)),
        ):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return vif_facts.observe(Root(root)).endpoints

    def test_the_facts_have_the_endpoints_of_all_namespaces(self):
        want = self.wanted(1, parent="vf0")
        self.plugger.plug(want)
        self.plugger.plug(self.wanted(2, parent="vf0", onload=False))
        found = self.observed()
        self.assertEqual(
            [Endpoint(want.port, want.owner, NETWORK, "vf0")],
            [each for each in found if each.network == NETWORK],
        )
        self.plugger.unplug(want.port)
        self.assertEqual(
            [],
            [each for each in self.observed() if each.network == NETWORK],
        )


class AliasTest(EndpointTestCase):
    def test_the_kernel_keeps_the_network(self):
        want = self.wanted(1)
        made = self.plugger.plug(want)
        (link,) = self.ip("link", "show", "eth1")
        self.assertEqual(
            f"sriov-rt:{want.port}:{want.owner}::{NETWORK}", link["ifalias"]
        )
        self.assertEqual([made], self.mine())
        self.assertEqual((True, NETWORK), (made.accelerated, made.network))

    def test_another_process_refuses_too(self):
        self.plugger.plug(self.wanted(1, parent="vf0"))
        # Its tenant says nothing of it any more.
        sh("ip", "-n", "tenant", "link", "set", "eth1", "alias", "")
        with self.assertRaises(errors.SpreadNeeded):
            self.another().plug(self.wanted(2, parent="vf0"))

    def test_a_container_that_ends_frees_its_nic(self):
        sh("ip", "netns", "add", "other")
        self.plugger.plug(self.wanted(1, parent="vf0", namespace="other"))
        sh("ip", "netns", "del", "other")
        self.plugger.plug(self.wanted(2, parent="vf0"))
        self.assertEqual(1, len(self.endpoints()))
