# SPDX-License-Identifier: Apache-2.0

"""The running cloud, as the cloud tests and the demo use it."""

from tests.testbed import api
from tests.testbed import container_host
from tests.testbed import errors
from tests.testbed import joining
from tests.testbed import namespace
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed import realtime_host
from tests.testbed import seed
from tests.testbed import settings
from tests.testbed.compute_host import ComputeHost
from tests.testbed.progress import Progress
from tests.testbed.realtime_host import RealtimeHost
from tests.testbed.servers import Servers
from tests.testbed.services import Services
from tests.testbed.waiting import run


class Cloud:
    """A cloud that is up.

    Works inside the cloud's namespaces only: start programs that use it by
    `python3 -m tests.testbed inside -- ...`.

    :param place: the directories of the cloud; the default ones if None.
    :raises errors.TestbedError: when we aren't inside.
    """

    def __init__(self, place: paths.Paths | None = None) -> None:
        self.place = place or paths.Paths.from_environment()
        if not namespace.Namespace(self.place).inside:
            raise errors.TestbedError(
                "run this by `python3 -m tests.testbed inside -- ...`"
            )
        self.env = python_env.PythonEnv.in_cache(self.place.cache)
        self.api = api.connect()
        self.servers = Servers(self.api)
        self.realtime = realtime_host.RealtimeHost(self.place, self.env)
        self.second = realtime_host.RealtimeHost(
            self.place, self.env, realtime_host.SECOND
        )
        self.workers = realtime_host.RealtimeHost(
            self.place, self.env, realtime_host.WORKERS
        )
        self.containers = container_host.ContainerHost(self.place, self.env)
        self.services = Services(self.place, self.env)

    @property
    def _machines(self) -> tuple[RealtimeHost, ...]:
        return (self.realtime, self.second, self.workers)

    def check(self) -> None:
        """Check that the emulated hosts still run.

        :raises errors.MachineHangs: when one hangs.
        :raises errors.TestbedError: when one fails in another way.
        """
        for each in self._machines:
            if each.machine.running:
                each.machine.check()

    def host(self, name: str) -> ComputeHost:
        """Return a compute host to run commands on.

        :param name: STD, RT, RT2, RT3 or LXC.
        """
        machines = {each.node.name: each for each in self._machines}
        return ComputeHost(name, self.place, machines, self.containers)

    def join_containers(self) -> bool:
        """Start the host LXC and wait until servers can be booted on it.

        :returns: whether it had to be started; if so, the caller stops it.
        :raises errors.TestbedError: when it doesn't come up.
        """
        if self.containers.is_up:
            return False
        joining.join_containers(self.containers, self.api)
        return True

    def leave_containers(self) -> None:
        """Stop the host LXC, which has no more servers.

        :raises errors.TestbedError: when something of it stays.
        """
        joining.leave_containers(self.containers, self.api)

    def join(self, host: RealtimeHost, progress: Progress) -> None:
        """Start RT2 or RT3 and wait until servers can be booted on it.

        :param host: second or workers.
        :param progress: shows progress.
        :raises errors.TestbedError: when it doesn't come up.
        """
        if not host.machine.running:
            host.configure()
            host.boot(progress)
        joining.join_realtime(host, self.api)

    def leave(self, host: RealtimeHost) -> None:
        """Stop RT2 or RT3, which has no more servers.

        :param host: second or workers.
        :raises errors.TestbedError: when something of it stays.
        """
        joining.leave_realtime(host, self.api)

    def run(self, *command: str, timeout: float = 120.0) -> str:
        """Run a program of the environment as the cloud's administrator.

        :param command: as in ("openstack", "server", "list") or
            ("sriov-rt", "explain", "--flavor", "rt.small").
        :param timeout: seconds it may take.
        :returns: what it printed.
        :raises errors.CommandFailed: when it exits with a status not 0.
        """
        return run(
            command,
            timeout=timeout,
            environment={
                **programs.environment(self.place, self.env),
                **settings.client_environment(),
            },
        )

    def hypervisors(self) -> set[str]:
        """Return the compute hosts that are up, according to Nova."""
        return joining.hypervisors(self.api)

    def traits(self, host: str) -> set[str]:
        """Return the traits of a host's resource provider in Placement.

        :param host: STD, RT, RT2 or LXC.
        """
        placement = self.api.placement
        (provider,) = placement.resource_providers(name=host)
        return set(placement.get_resource_provider_trait(provider).traits)

    def create_flavor(
        self,
        name: str,
        specs: dict[str, str],
        *,
        ram: int = 128,
        vcpus: int = 1,
    ) -> str:
        """Make a flavor.

        :param name: its name.
        :param specs: its extra specs.
        :param ram: MiB of memory.
        :param vcpus: number of CPUs.
        :returns: its id.
        :raises openstack.exceptions.HttpException: when Nova refuses.
        """
        size: dict[str, int] = {"ram": ram, "vcpus": vcpus, "disk": 0}
        return seed.flavor(self.api, name, size, specs)

    def create_port(self, physical_network: str, **fields: object) -> str:
        """Make a port for an SR-IOV VF.

        :param physical_network: a key of settings.PHYSICAL_NETWORKS.
        :param fields: more fields of the port.
        :returns: its id.
        """
        port = {"binding_vnic_type": "direct", **fields}
        if "network_id" not in port:
            found = self.api.network.find_network(
                physical_network, ignore_missing=False
            )
            port["network_id"] = found.id
        return str(self.api.network.create_port(**port).id)
