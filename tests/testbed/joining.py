# SPDX-License-Identifier: Apache-2.0

"""Compute hosts that join and leave the control plane."""

from collections.abc import Callable
from collections.abc import Collection

from openstack.connection import Connection

from tests.testbed import container_host
from tests.testbed import errors
from tests.testbed import network
from tests.testbed import realtime_host
from tests.testbed.api import UNANSWERED
from tests.testbed.container_host import ContainerHost
from tests.testbed.realtime_host import RealtimeHost
from tests.testbed.waiting import wait_for

#: An emulated host needs 60 s on an idle machine to import Nova, and eight
#: minutes if its agents start during the tests of another such host.
_HOST_SECONDS = 1200.0


def hypervisors(api: Connection) -> set[str]:
    """Return the compute hosts that Nova has in a cell and that are up.

    :param api: the cloud.
    """
    listed = api.compute.hypervisors(details=True)
    return {each.name for each in listed if each.state == "up"}


def _offers(api: Connection, host: str) -> bool:
    """Return whether a compute host has reported to Placement.

    It does so after it is known as a hypervisor; an emulated host does so
    seconds later.

    :param api: the cloud.
    :param host: its name.
    """
    placement = api.placement
    return any(
        list(placement.resource_provider_inventories(each))
        for each in placement.resource_providers(name=host)
    )


def wait_compute(api: Connection, host: str, well: Callable[[], bool]) -> None:
    """Wait until the scheduler can choose a host.

    :param api: the cloud.
    :param host: its name.
    :param well: whether its services run.
    :raises errors.TestbedError: when one has ended, or it takes too long.
    """

    def known() -> bool:
        if not well():
            raise errors.TestbedError(
                f"a service of {host} has ended; look into its log"
            )
        return host in hypervisors(api) and _offers(api, host)

    wait_for(
        f"nova-compute on {host} is known to the scheduler",
        known,
        timeout=_HOST_SECONDS,
        interval=1,
        unanswered=UNANSWERED,
    )


def wait_agents(api: Connection, host: str, binaries: Collection[str]) -> None:
    """Wait until Neutron can bind ports to a host.

    :param api: the cloud.
    :param host: its name.
    :param binaries: the agents that it needs.
    :raises errors.TimedOut: when they stay unknown.
    """

    def alive() -> bool:
        listed = api.network.agents(host=host)
        return {each.binary for each in listed if each.is_alive} >= set(
            binaries
        )

    wait_for(
        f"the agents of {host} are known to Neutron",
        alive,
        timeout=_HOST_SECONDS,
        interval=1,
        unanswered=UNANSWERED,
    )


def join_realtime(
    host: RealtimeHost, api: Connection, *, direct: bool = True
) -> None:
    """Start a host's services, and wait until servers can be booted on it.

    :param host: the host, whose machine has booted.
    :param api: the cloud that it becomes a part of.
    :param direct: whether servers on it have ports of type direct; their
        agent is not started otherwise.
    :raises errors.TestbedError: when it doesn't come up.
    """
    node = host.node
    services = [
        name
        for name in node.services
        if direct or name != realtime_host.SRIOV_AGENT
    ]
    for name in services:
        host.start(name)
    wait_compute(api, node.name, lambda: all(map(host.running, services)))
    agents = set(services) & set(realtime_host.PORT_AGENTS)
    wait_agents(api, node.name, agents)


def leave_realtime(host: RealtimeHost, api: Connection) -> None:
    """End a host that has no servers, as if there had never been one.

    :param host: the host.
    :param api: the cloud that it is a part of.
    :raises errors.TestbedError: when something of it stays.
    """
    if host.machine.running:
        for name in reversed(host.node.services):
            host.stop(name)
    host.machine.stop()
    _forget(api, host.node.name)


def join_containers(host: ContainerHost, api: Connection) -> None:
    """Start a host, and wait until servers can be booted on it.

    :param host: the host.
    :param api: the cloud that it becomes a part of.
    :raises errors.TestbedError: when it doesn't come up.
    """
    host.start()
    wait_compute(
        api,
        network.CONTAINERS,
        lambda: all(map(host.running, container_host.SERVICES)),
    )
    wait_agents(api, network.CONTAINERS, (container_host.NEUTRON_AGENT,))


def leave_containers(host: ContainerHost, api: Connection) -> None:
    """End a host that has no servers, as if there had never been one.

    :param host: the host.
    :param api: the cloud that it is a part of.
    :raises errors.TestbedError: when something of it stays.
    """
    host.stop()
    _forget(api, network.CONTAINERS)


def _forget(api: Connection, host: str) -> None:
    """Delete the records of a stopped host in Nova and Neutron."""
    for service in list(api.compute.services(host=host)):
        api.compute.delete_service(service)
    for agent in list(api.network.agents(host=host)):
        api.network.delete_agent(agent)
