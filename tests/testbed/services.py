# SPDX-License-Identifier: Apache-2.0

"""The processes of a cloud: watch, start, stop and kill them."""

import pathlib
import signal

from tests.testbed import container_host
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed.catalog import Catalog
from tests.testbed.container_host import ContainerHost
from tests.testbed.realtime_host import NODES
from tests.testbed.realtime_host import RealtimeHost

STD = network.CONTROLLER
RT = network.REALTIME
RT2 = network.SECOND
RT3 = network.WORKERS
LXC = network.CONTAINERS


class Services:
    """The services of all compute hosts.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack.
    """

    def __init__(self, place: paths.Paths, env: python_env.PythonEnv) -> None:
        self._catalog = Catalog(place, env)
        self._realtime = {
            name: RealtimeHost(place, env, node)
            for name, node in NODES.items()
        }
        self._containers = ContainerHost(place, env)

    def start(
        self,
        name: str,
        host: str = STD,
        earlier: pathlib.Path | None = None,
    ) -> None:
        """Start a service; except on RT and RT2, wait until it is ready.

        :param name: its name in status().
        :param host: STD, RT, RT2 or LXC.
        :param earlier: directory with another sriov-rt to run; on LXC it runs
            the installed one.
        """
        if host in self._realtime:
            self._realtime[host].start(name, earlier)
        elif host == LXC:
            self._containers.start(name)
        else:
            self._catalog.start(name, earlier=earlier)

    def stop(self, name: str, host: str = STD) -> None:
        """Stop a service, and wait until it has ended.

        :param name: its name in status().
        :param host: STD, RT, RT2 or LXC.
        """
        if host in self._realtime:
            self._realtime[host].stop(name)
        elif host == LXC:
            self._containers.stop(name)
        else:
            self._catalog.stop(name)

    def kill(self, name: str, host: str = STD) -> None:
        """Kill a service, which gets no chance to clean up.

        :param name: its name in status().
        :param host: STD, RT, RT2 or LXC.
        """
        if host in self._realtime:
            self._realtime[host].stop(name, grace=0)
        elif host == LXC:
            self._containers.stop(name, signal.SIGKILL)
        else:
            self._catalog.stop(name, signal.SIGKILL)

    def restart(self, name: str, host: str = STD) -> None:
        """Stop a service and start it again.

        :param name: its name in status().
        :param host: STD, RT, RT2 or LXC.
        """
        self.stop(name, host)
        self.start(name, host)

    def status(self) -> dict[str, dict[str, bool]]:
        """Return whether each service runs, by host and name."""
        found = {STD: self._catalog.status()}
        for host, realtime in self._realtime.items():
            if realtime.machine.running:
                found[host] = {
                    name: realtime.running(name)
                    for name in realtime.node.services
                }
        if self._containers.is_up:
            found[LXC] = {
                name: self._containers.running(name)
                for name in container_host.SERVICES
            }
        return found
