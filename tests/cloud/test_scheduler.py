# SPDX-License-Identifier: Apache-2.0

"""A nova-scheduler that has just started."""

import functools
import time

from tests.cloud.base import KERNEL
from tests.cloud.base import CloudTestCase
from tests.cloud.base import say
from tests.cloud.scheduler import warm_up
from tests.periodic import periodic
from tests.testbed.services import RT

#: Seconds in which a scheduler that has just started decides.
DECIDED_SECONDS = 240.0


@periodic
class TestWarmUp(CloudTestCase):
    """A fresh worker knows no host, and asks before it decides."""

    def test_the_first_request_of_each_worker(self) -> None:
        flavor = self.flavor(KERNEL)
        began = time.monotonic()
        warm_up(self, lambda: self.delete(self.boot_on(RT, flavor).id))
        say(f"both workers served after {time.monotonic() - began:.1f} s")

    def test_restarted_or_killed_it_decides_right(self) -> None:
        flavor = self.flavor(KERNEL)
        services = self.cloud.services
        for what, end in (
            ("restarted", services.stop),
            ("killed", services.kill),
        ):
            with self.subTest(what):
                began = time.monotonic()
                end("nova-scheduler")
                services.start("nova-scheduler")
                server = self.cloud.servers.create(self.name, flavor)
                self.addCleanup(self.delete, server)
                self.wait_for(
                    f"server {server} has a host, or none",
                    functools.partial(self.is_decided, server),
                    timeout=DECIDED_SECONDS,
                )
                seconds = time.monotonic() - began
                found = self.cloud.servers.wait(server)
                self.assertEqual(("ACTIVE", RT), (found.status, found.host))
                self.delete(server)
                say(f"nova-scheduler {what}: decided after {seconds:.1f} s")

    def is_decided(self, server: str) -> bool:
        """Whether a server is on a host, or failed."""
        found = self.cloud.servers.get(server)
        return bool(found.host) or found.status == "ERROR"
