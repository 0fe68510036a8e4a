# SPDX-License-Identifier: Apache-2.0

"""Instances of which no two of a network may be on one NIC."""

import concurrent.futures
from collections.abc import Sequence

from tests.cloud import onload_host
from tests.cloud.base import COMPUTE_WORKS
from tests.cloud.base import NO_VALID_HOST
from tests.cloud.base import say
from tests.cloud.logs import Log
from tests.cloud.onload_base import COMPUTE_LOG
from tests.cloud.onload_base import FACTS_SECONDS
from tests.cloud.onload_base import ONLOAD
from tests.cloud.onload_base import OnloadTestCase
from tests.testbed import container_config
from tests.testbed import container_host
from tests.testbed.servers import Server
from tests.testbed.services import LXC

#: What the operator sets, and what the instance's owner then reads.
_UNACCELERATED = "second_endpoint = unaccelerated\n"
NOTICE = "sriov_rt_onload"

#: Seconds of a nova-compute that starts, on a busy machine.
START_SECONDS = 360.0


class SameHostTestCase(OnloadTestCase):
    """A test that fills a network."""

    #: The NICs that there are, each of which carries one instance.
    NICS = len(container_config.PARENTS)

    def setUp(self) -> None:
        """Make a flavor."""
        super().setUp()
        self.asks = self.flavor(ONLOAD, ram=64)

    def allow_unaccelerated(self) -> None:
        """Let schedulers and host take a second endpoint, for this test."""
        cloud = self.cloud
        self.reconfigure(
            cloud.place.etc / "nova" / "nova.conf",
            lambda text: f"{text}\n[onload]\n{_UNACCELERATED}",
            lambda: cloud.services.restart("nova-scheduler"),
        )
        self.reconfigure(
            cloud.containers.root / onload_host.CONFIG,
            lambda text: text.replace(
                "[onload]\n", f"[onload]\n{_UNACCELERATED}"
            ),
            self.restart_compute,
        )

    def restart_compute(self) -> None:
        """Start the host's nova-compute anew, and wait until it is up.

        One that starts gives up what is being built on its host.
        """
        log = self.log(COMPUTE_LOG)
        self.cloud.services.restart(container_host.COMPUTE, LXC)
        self.wait_for(
            "nova-compute is up",
            lambda: log.lines(COMPUTE_WORKS),
            timeout=START_SECONDS,
        )

    def metadata(self, server: Server) -> dict[str, str]:
        """Return the metadata of a server, as its owner sees them."""
        found = self.cloud.api.compute.get_server(server.id)
        return dict(found.metadata)

    def create(self) -> Server:
        """Boot a server with a port of the network; ACTIVE or in ERROR."""
        return self.boot(self.asks, image=self.image, ports=[self.port()])

    def create_when_told(self) -> Server:
        """Boot a server as soon as the host has told of its room."""
        made: list[Server] = []

        def active() -> bool:
            server = self.create()
            if server.status == "ACTIVE":
                made.append(server)
            else:
                self.delete(server.id)
            return bool(made)

        seconds = self.wait_for(
            "the network has room", active, timeout=FACTS_SECONDS
        )
        say(f"its NIC is taken again after {seconds:.1f} s")
        return made[0]

    def delete_all(self, servers: Sequence[Server]) -> None:
        """Delete servers, and see that nothing of them is left."""
        with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
            for _ in pool.map(self.delete, (each.id for each in servers)):
                pass
        self.assert_nothing_left(LXC)

    def assert_active(self, servers: Sequence[Server]) -> None:
        """Check that these are ACTIVE, one on each NIC, and no others."""
        self.assertEqual(
            ["ACTIVE"] * self.NICS,
            [each.status for each in servers],
            [each.fault for each in servers],
        )
        shown = self.sriov_rt("vif", "show")
        self.assertEqual(
            sorted(each.id for each in servers),
            sorted(each["owner"] for each in shown),
        )
        self.assertEqual(
            sorted(container_config.PARENTS),
            sorted(each["parent"] for each in shown),
        )

    def assert_refused(self, server: Server, log: Log) -> None:
        """Check that the scheduler found no host because of the rule.

        :param server: in ERROR.
        :param log: the scheduler's, from before it was asked for.
        """
        self.assertEqual("ERROR", server.status, f"on {server.host}")
        self.assertIn(NO_VALID_HOST, server.fault)
        (line,) = log.lines("No host satisfies", server.id)
        self.assertIn("onload_same_host × 1", line)
