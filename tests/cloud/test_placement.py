# SPDX-License-Identifier: Apache-2.0

"""Where servers land."""

from collections.abc import Mapping

from tests.cloud.base import NOWHERE
from tests.cloud.base import REALTIME
from tests.cloud.base import CloudTestCase
from tests.cloud.scheduler import warm_up
from tests.periodic import periodic
from tests.testbed import guest_view
from tests.testbed.realtime_host import DEDICATED_CPUS
from tests.testbed.realtime_host import SHARED_CPUS
from tests.testbed.seed import ORDINARY_FLAVOR
from tests.testbed.services import RT
from tests.testbed.services import STD

#: Nova's weighers that prefer the bigger host, std-1, turned round.
PREFER_SMALL = {
    "ram_weight_multiplier": "-1.0",
    "cpu_weight_multiplier": "-1.0",
    "disk_weight_multiplier": "-1.0",
}
#: Enough that luck alone is no explanation.
BOOTS = 2


class TestWhereServersLand(CloudTestCase):
    """The filter and the weigher, in nova-scheduler's two workers."""

    @periodic
    def test_realtime_threads_run_on_isolated_cpus(self) -> None:
        server = self.boot_on(RT, self.flavor(REALTIME))
        threads = guest_view.threads(self.cloud.host(RT), server.domain)
        (vcpu,) = (each for each in threads if each.vcpu is not None)
        others = {each.allowed for each in threads if each.vcpu is None}
        self.assertEqual(1, len(vcpu.allowed))
        self.assertLess(vcpu.allowed, guest_view.cpus(DEDICATED_CPUS))
        self.assertEqual(("FIFO", 1), (vcpu.policy, vcpu.priority))
        self.assertEqual({guest_view.cpus(SHARED_CPUS)}, others)

    def test_the_weigher_keeps_the_realtime_host_free(self) -> None:
        """Where Nova's own weighers would rather have it."""
        # Before its first request a worker knows of no host.
        nowhere = self.flavor(NOWHERE)
        warm_up(self, lambda: self.assert_no_host(nowhere, "nic_missing × 2"))
        self.aggregate(PREFER_SMALL)
        for _ in range(BOOTS):
            self.delete(self.boot_on(STD, ORDINARY_FLAVOR).id)

    @periodic
    def test_without_the_weigher_it_would_not_be_free(self) -> None:
        self.aggregate(
            {**PREFER_SMALL, "realtime_host_weight_multiplier": "0.0"}
        )
        self.boot_on(RT, ORDINARY_FLAVOR)

    def aggregate(self, metadata: Mapping[str, str]) -> None:
        """Put std-1 into an aggregate until the test ends.

        :param metadata: the aggregate's.
        """
        compute = self.cloud.api.compute
        made = compute.create_aggregate(name=self.name)
        self.addCleanup(compute.delete_aggregate, made)
        compute.add_host_to_aggregate(made, STD)
        self.addCleanup(compute.remove_host_from_aggregate, made, STD)
        compute.set_aggregate_metadata(made, dict(metadata))
