# SPDX-License-Identifier: Apache-2.0

"""Nova in one process: real API, scheduler, conductor and Placement.

Only libvirt, Glance, Neutron and Cinder are Nova's own fakes.
"""

import contextlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

from lxml import etree
from nova import conf as nova_conf
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base

from sriov_rt.facts import HostFacts
from sriov_rt.host.root import Root
from sriov_rt.nova import driver
from sriov_rt.nova import local_host
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.functional.nova.agents import Agents
from tests.unit import builders

CONF = nova_conf.CONF

#: A flavor that only realtime hosts may serve.
REALTIME = {
    "sriov_rt:realtime": "required",
    "sriov_rt:kernel": "preempt_rt",
    "hw:cpu_policy": "dedicated",
    "hw:cpu_realtime": "yes",
    "hw:cpu_realtime_mask": "^0",
}
LEAN = {**REALTIME, "sriov_rt:guest": "lean"}
BARE = {**REALTIME, "sriov_rt:guest": "bare"}

_NOWHERE = pathlib.Path("/nonexistent")


class LocalHost(local_host.LocalHost):
    """The host of a nova-compute, that observes what it is given.

    :param root: where the agent's stored labels are looked for.
    """

    def __init__(
        self, facts: HostFacts, root: pathlib.Path = _NOWHERE
    ) -> None:
        super().__init__(Root(str(root)))
        self.found = facts

    def facts(self) -> HostFacts:
        """Return the facts."""
        return self.found


#: How often Nova's helpers look for a new state, twice a second. Their own ten
#: times are too few on a machine that has much else to do.
_LOOKS = 80
_OWN_LOOKS = 10


class CloudTest(base.ServersTestBase):
    """A cloud with our filter, weigher and compute driver."""

    #: [sriov_rt] warmup_timeout, seconds.
    WARMUP_S = 10.0

    microversion = "latest"
    ADMIN_API = True
    # A cast to all schedulers cannot be made a call.
    CAST_AS_CALL = False

    def setUp(self) -> None:
        self.domains: list[str] = []
        original = driver.RealtimeLibvirtDriver._get_guest_xml

        def record(self_: Any, *args: Any, **kwargs: Any) -> str:
            xml = original(self_, *args, **kwargs)
            self.domains.append(xml)
            return xml

        patched = mock.patch.object(
            driver.RealtimeLibvirtDriver, "_get_guest_xml", record
        )
        patched.start()
        self.addCleanup(patched.stop)
        super().setUp()

    def _wait_for_server_parameter(
        self,
        server: Any,
        expected_params: Any,
        max_retries: int = _LOOKS,
        **more: Any,
    ) -> Any:
        return super()._wait_for_server_parameter(
            server, expected_params, max(max_retries, _LOOKS), **more
        )

    def _wait_for_assert(
        self, assert_func: Any, max_retries: int = _LOOKS, sleep: float = 0.5
    ) -> Any:
        return super()._wait_for_assert(assert_func, max_retries, sleep)

    def _wait_for_migration_status(self, *args: Any) -> Any:
        return self._patiently(super()._wait_for_migration_status, *args)

    def _wait_for_instance_action_event(self, *args: Any) -> Any:
        return self._patiently(super()._wait_for_instance_action_event, *args)

    def _patiently(self, wait: Callable[..., Any], *args: Any) -> Any:
        for _ in range(_LOOKS // _OWN_LOOKS - 1):
            with contextlib.suppress(self.failureException):
                return wait(*args)
        return wait(*args)

    def _setup_services(self) -> None:
        paste = pathlib.Path(sys.prefix, "etc", "nova", "api-paste.ini")
        self.flags(api_paste_config=str(paste), group="wsgi")
        self.flags(
            cpu_dedicated_set="2,3", cpu_shared_set="0,1", group="compute"
        )
        self.flags(sysinfo_serial="none", group="libvirt")
        options.register(CONF)
        self.flags(
            transport_url="fake:/sriov_rt",
            warmup_timeout=self.WARMUP_S,
            group="sriov_rt",
        )
        self.agents = Agents(CONF)
        self.addCleanup(self.agents.stop)
        self.worker = worker.Worker(CONF)
        self.addCleanup(self.worker.stop)
        patched = mock.patch.object(
            worker, "of_this_process", lambda: self.worker
        )
        patched.start()
        self.addCleanup(patched.stop)
        super()._setup_services()

    def _setup_compute_service(self) -> None:
        self.flags(compute_driver="sriov_rt.RealtimeLibvirtDriver")

    def _setup_scheduler_service(self) -> Any:
        self.flags(
            available_filters=[
                "nova.scheduler.filters.all_filters",
                "sriov_rt.nova.filters.all_filters",
            ],
            enabled_filters=[
                "ComputeFilter",
                "ComputeCapabilitiesFilter",
                "RealtimeSriovFilter",
                "NUMATopologyFilter",
            ],
            weight_classes=[
                "nova.scheduler.weights.all_weighers",
                "sriov_rt.nova.weights.all_weighers",
            ],
            group="filter_scheduler",
        )
        return self.start_service("scheduler")

    def start_host(self, facts: HostFacts, *, agent: bool = True) -> None:
        """Start a compute host of which these facts are true.

        :param agent: whether an agent on it tells the scheduler so.
        """
        self.start_compute(
            hostname=facts.host,
            host_info=fakelibvirt.HostInfo(
                cpu_nodes=1, cpu_sockets=1, cpu_cores=4, cpu_threads=1
            ),
        )
        self.computes[facts.host].driver._sriov_rt_host = LocalHost(facts)
        if agent:
            self.report(facts)

    def report(self, facts: HostFacts) -> None:
        """Send a host's facts, as its agent does, and wait for them."""
        self.worker.start()
        self.assertTrue(self.agents.asked.wait(60))
        self.agents.send(facts)

        def arrived() -> None:
            entry = self.worker.table.entries.get(facts.host)
            self.assertIsNotNone(entry)
            self.assertEqual(facts.digest(), entry.digest.hex())

        self._wait_for_assert(arrived, max_retries=600, sleep=0.1)

    def boot(self, specs: dict[str, str], state: str = "ACTIVE") -> Any:
        """Boot a server of a flavor with these extra specs.

        :param state: the one that it has to come to.
        """
        flavor = self.flavor(specs)
        return self._create_server(
            flavor_id=flavor, networks="none", expected_state=state
        )

    def flavor(self, specs: dict[str, str]) -> str:
        """Make a flavor of two vCPUs and return its id."""
        return self._create_flavor(vcpu=2, extra_spec=specs)

    def host_of(self, server: Any) -> str:
        """Return the name of the host that a server is on."""
        host: str = server["OS-EXT-SRV-ATTR:host"]
        return host

    def fault(self, server: Any) -> str:
        """Return the message of a server's fault."""
        shown = self.admin_api.get_server(server["id"])
        message: str = shown["fault"]["message"]
        return message

    def domain(self) -> etree._Element:
        """Return the last domain that nova-compute made."""
        return etree.fromstring(self.domains[-1])

    def logged(self) -> str:
        """Return what was logged so far, from INFO up."""
        output: str = self.stdlog.logger.output
        return output


def realtime_host(name: str = "rt-1", **parts: Any) -> HostFacts:
    """Return the facts of a realtime host with CPUs 2 and 3 for guests."""
    return builders.realtime_host(name, **parts)


def ordinary_host(name: str = "std-1") -> HostFacts:
    """Return the facts of a host as a distribution installs it."""
    nothing = CpuSet()
    return builders.realtime_host(
        name,
        cpus={
            "isolated": nothing,
            "nohz_full": nothing,
            "rcu_nocbs": nothing,
            "isolcpus_flags": (),
        },
        kernel={"preempt_rt": False, "release": "6.1.0-44-amd64"},
        compute={"dedicated": builders.cpus("2-3")},
    )
