# SPDX-License-Identifier: Apache-2.0

"""All services of the controller std-1, by name."""

import dataclasses
import pathlib
import signal

from tests.testbed import errors
from tests.testbed import infrastructure
from tests.testbed import openstack_services
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed.service import Service
from tests.testbed.service import running


@dataclasses.dataclass(frozen=True)
class Catalog:
    """The services of std-1, in the order in which they start.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack.
    """

    place: paths.Paths
    env: python_env.PythonEnv

    def services(
        self, earlier: pathlib.Path | None = None
    ) -> dict[str, Service]:
        """Return every service by its name.

        :param earlier: directory with another sriov-rt that they run.
        """
        environment = programs.environment(self.place, self.env, earlier)
        found = (
            infrastructure.mariadb(self.place, environment),
            infrastructure.rabbitmq(self.place, environment),
            infrastructure.virtlogd(environment),
            infrastructure.libvirtd(environment),
            *openstack_services.interfaces(environment),
            *openstack_services.workers(self.place, environment),
            *openstack_services.host_services(self.place, environment),
        )
        return {service.name: service for service in found}

    def start(self, *names: str, earlier: pathlib.Path | None = None) -> None:
        """Start services, and wait until they are ready.

        :param names: their names.
        :param earlier: directory with another sriov-rt that they run.
        :raises errors.TestbedError: when one doesn't come up.
        """
        chosen = [self._find(name, earlier) for name in names]
        for service in chosen:
            service.start(self.place)
        for service in chosen:
            service.wait(self.place)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop a service, if it is running.

        :param name: its name.
        :param how: SIGKILL to give it no chance to clean up.
        :raises errors.TestbedError: when it can't be stopped.
        """
        self._find(name).stop(self.place, how)

    def status(self) -> dict[str, bool]:
        """Return whether each service runs, by its name."""
        return {name: running(name, self.place) for name in self.services()}

    def _find(self, name: str, earlier: pathlib.Path | None = None) -> Service:
        services = self.services(earlier)
        if name not in services:
            raise errors.TestbedError(
                f"no service {name}; there are {', '.join(services)}"
            )
        return services[name]
