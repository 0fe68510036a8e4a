# SPDX-License-Identifier: Apache-2.0

"""A guest that can't be what its flavor asks for, and what any leaves."""

import re

from tests.cloud import guests
from tests.cloud.base import REALTIME
from tests.cloud.base import RT_COMPUTE_LOG
from tests.cloud.base import CloudTestCase
from tests.periodic import periodic
from tests.testbed import seed
from tests.testbed.servers import Server
from tests.testbed.services import RT

BARE = {**REALTIME, "sriov_rt:guest": "bare"}


@periodic
class TestLeftovers(CloudTestCase):
    """What servers leave on the realtime host: nothing."""

    def setUp(self) -> None:
        """See that nobody else has left anything."""
        super().setUp()
        self.assert_nothing_left()

    def test_a_refused_guest_leaves_nothing(self) -> None:
        """Neither on the host, which Tempest can't see, nor in Placement."""
        log = self.log(RT_COMPUTE_LOG)
        server = self.boot(self.flavor(BARE), image=seed.IMAGE)
        self.assertEqual("ERROR", server.status, server.host)
        self.assertEqual(1, len(log.lines("Guest refused by sriov-rt")))
        self.assert_nothing_left()
        self.delete(server.id)
        self.assert_unallocated(server)

    def test_the_remedy_of_the_sentence_works(self) -> None:
        port = self.cloud.create_port("physnet1")
        self.addCleanup(self.cloud.api.network.delete_port, port)
        server = self.boot_on(
            RT, self.flavor(BARE), image=seed.SATA_IMAGE, ports=[port]
        )
        domain = guests.document(self.cloud.host(RT), server.domain)
        kinds = guests.devices(domain)
        self.assertIn(
            "hostdev",
            kinds
            + [
                f"{each.get('type')}"
                for each in domain.findall("devices/interface")
            ],
        )
        text = self.cloud.host(RT).domain_xml(server.domain)
        devices = text[text.index("<devices>") :]
        self.assertIsNone(re.search("virtio", devices), devices)
        self.assertIn("hugepages 64", self.cloud.host(RT).leftovers())
        self.delete(server.id)
        self.assert_nothing_left()
        self.assert_unallocated(server)

    def assert_unallocated(self, server: Server) -> None:
        """Check that Placement has nothing allocated to a server.

        :param server: one that is deleted.
        """
        path = f"/allocations/{server.id}"
        answer = self.cloud.api.placement.get(path).json()
        self.assertEqual({}, answer["allocations"])
