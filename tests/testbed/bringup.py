# SPDX-License-Identifier: Apache-2.0

"""Bring the cloud up, inside its namespaces."""

import argparse
import concurrent.futures
import shutil
import sys
from collections.abc import Callable

from tests.testbed import api
from tests.testbed import catalog
from tests.testbed import container_host
from tests.testbed import controller_config
from tests.testbed import database
from tests.testbed import errors
from tests.testbed import infrastructure
from tests.testbed import ini
from tests.testbed import joining
from tests.testbed import network
from tests.testbed import nova_config
from tests.testbed import openstack_services
from tests.testbed import paths
from tests.testbed import prepare
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed import realtime_host
from tests.testbed import seed
from tests.testbed import steps
from tests.testbed.devstack import nodes
from tests.testbed.progress import Progress
from tests.testbed.rtvm.vm import RESTARTS
from tests.testbed.steps import Step

#: Directories that the services expect.
_DATA_DIRECTORIES = ("nova/instances", "neutron/lock", "glance")


class BringUp:
    """The steps from empty directories to a cloud that boots servers.

    :param place: the directories of the cloud.
    :param progress: shows progress.
    :param realtime: whether to start rt-1.
    :param containers: whether to start lxc-1.
    :param direct: whether servers on rt-1 have ports of type direct.
    """

    def __init__(
        self,
        place: paths.Paths,
        progress: Progress,
        *,
        realtime: bool,
        containers: bool,
        direct: bool,
    ) -> None:
        self._place = place
        self._direct = direct
        self._realtime = realtime
        self._containers = containers
        self._progress = progress
        self._env = python_env.PythonEnv.in_cache(place.cache)
        self._environment = programs.environment(place, self._env)
        self._catalog = catalog.Catalog(place, self._env)
        self._api = api.connect()
        self._host = realtime_host.RealtimeHost(place, self._env)

    def run(self) -> None:
        """Run all steps, in parallel if they don't depend on each other.

        :raises errors.TestbedError: when one fails.
        """
        Step.START.begin()
        self._configure()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            controller = pool.submit(self._controller)

            def after_it(step: Callable[[], None]) -> None:
                controller.result()
                step()

            others = [
                pool.submit(after_it, self._contents),
                pool.submit(after_it, self._ordinary_host),
            ]
            if self._realtime:
                others.append(pool.submit(self._realtime_host, controller))
            if self._containers:
                others.append(pool.submit(after_it, self._container_host))
            for step in (controller, *others):
                step.result()

    def _controller(self) -> None:
        self._infrastructure()
        self._control_plane()

    def _configure(self) -> None:
        place, env = self._place, self._env
        for name in _DATA_DIRECTORIES:
            (place.data / name).mkdir(parents=True, exist_ok=True)
        programs.write_sudo(place)
        infrastructure.configure(place)
        controller_config.write(place, env)
        ini.write(
            place.etc / "nova" / "nova.conf", nova_config.controller(place)
        )
        shutil.copy2(env.etc / "nova" / "api-paste.ini", place.etc / "nova")
        host = nova_config.Host(
            name=network.CONTROLLER,
            address=network.CONTROLLER_ADDRESS,
            state=place.data / "nova",
            log=place.log,
        )
        compute = place.etc / "nova-compute" / "nova.conf"
        ini.write(compute, nova_config.compute(host))
        nodes.configure_controller(place, env)
        nodes.configure_host(
            place,
            env,
            network.CONTROLLER,
            nova=compute,
            own=place.etc / "sriov_rt",
            variables={
                "SRIOV_RT_PARENTS": "none",
                # The machine's own /run is not the cloud's.
                "SRIOV_RT_RUN_DIR": place.data / "sriov-rt",
            },
        )
        if self._realtime:
            self._host.configure()

    def _infrastructure(self) -> None:
        self._together(
            self._databases,
            lambda: self._start("rabbitmq"),
            lambda: self._start("virtlogd", "libvirtd"),
        )

    def _databases(self) -> None:
        database.restore(
            self._place, self._env, self._environment, self._progress
        )
        self._start("mariadb")

    def _control_plane(self) -> None:
        with self._progress.step("control plane"):
            for service in openstack_services.interfaces(self._environment):
                service.start(self._place)
            # Nova's daemons end when these two don't answer.
            self._catalog.start("keystone", "placement")
            # If the first two requests come at once, Keystone may judge the
            # second by policies that it is still loading: 403.
            list(self._api.identity.services())
            self._catalog.start(
                *(
                    service.name
                    for service in openstack_services.workers(
                        self._place, self._environment
                    )
                ),
                "glance",
                "neutron",
                "nova-api",
            )

    def _contents(self) -> None:
        with self._progress.step("networks, flavors and images"):
            seed.networks(self._api)
            seed.flavors(self._api)
            nodes.make_flavors(self._place, self._env)
            seed.images(self._api, prepare.guest(self._place))

    def _ordinary_host(self) -> None:
        with self._progress.step(f"compute host {network.CONTROLLER}"):
            self._catalog.start("nova-compute", "sriov-rt-agent")
            joining.wait_compute(
                self._api,
                network.CONTROLLER,
                lambda: all(self._catalog.status().values()),
            )

    def _realtime_host(
        self, controller: concurrent.futures.Future[None]
    ) -> None:
        self._host.boot(self._progress, steps.note)
        controller.result()
        Step.JOIN.begin()
        with self._progress.step(f"compute host {network.REALTIME}"):
            for _ in range(RESTARTS):
                try:
                    self._join()
                except errors.MachineHangs as error:
                    steps.note(f"{error}; it is started again")
                    self._host.machine.stop()
                    joining.leave_realtime(self._host, self._api)
                    self._host.boot(self._progress, steps.note)
                else:
                    return
            self._join()

    def _join(self) -> None:
        joining.join_realtime(self._host, self._api, direct=self._direct)

    def _container_host(self) -> None:
        host = container_host.ContainerHost(self._place, self._env)
        with self._progress.step(f"compute host {network.CONTAINERS}"):
            joining.join_containers(host, self._api)

    def _start(self, *names: str) -> None:
        with self._progress.step(", ".join(names)):
            self._catalog.start(*names)

    def _together(self, *steps: Callable[[], None]) -> None:
        with concurrent.futures.ThreadPoolExecutor(len(steps)) as pool:
            futures = [pool.submit(step) for step in steps]
            for future in futures:
                future.result()


def main() -> int:
    """Bring up the cloud in our directories, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-rt", dest="realtime", action="store_false")
    parser.add_argument("--lxc", dest="containers", action="store_true")
    parser.add_argument("--no-direct", dest="direct", action="store_false")
    options = parser.parse_args()
    try:
        BringUp(
            paths.Paths.from_environment(),
            Progress(),
            realtime=options.realtime,
            containers=options.containers,
            direct=options.direct,
        ).run()
    except (errors.TestbedError, *api.ERRORS) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
