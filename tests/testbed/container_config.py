# SPDX-License-Identifier: Apache-2.0

"""Configuration and directories of the compute host lxc-1."""

import dataclasses
import pathlib

from tests.testbed import container_world
from tests.testbed import controller_config
from tests.testbed import infrastructure
from tests.testbed import ini
from tests.testbed import network
from tests.testbed import nova_config
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed import settings
from tests.testbed.devstack import nodes

#: Physical network of ports and their parents; see container_world.
POOL_NETWORK = settings.POOL_NETWORK
PARENTS = container_world.PARENTS


@dataclasses.dataclass(frozen=True)
class Places:
    """The directories of lxc-1.

    :param place: the directories of its cloud.
    """

    place: paths.Paths

    @property
    def state(self) -> pathlib.Path:
        """All of its data."""
        return self.place.data / network.CONTAINERS

    @property
    def etc(self) -> pathlib.Path:
        """The configuration of its services."""
        return self.place.etc / network.CONTAINERS

    @property
    def log(self) -> pathlib.Path:
        """Their logs."""
        return self.place.log / network.CONTAINERS

    @property
    def nova(self) -> pathlib.Path:
        """Nova's state."""
        return self.state / "nova"

    @property
    def neutron(self) -> pathlib.Path:
        """The state of Neutron's agent."""
        return self.state / "neutron"

    @property
    def own(self) -> pathlib.Path:
        """The configuration of sriov-rt, mounted at /etc/sriov_rt."""
        return container_world.etc(self.place) / "sriov_rt"

    @property
    def records(self) -> pathlib.Path:
        """The records of ports."""
        return self.state / "records" / "vif"

    @property
    def instances(self) -> pathlib.Path:
        """A directory for each instance."""
        return self.nova / "instances"


def write(places: Places, env: python_env.PythonEnv) -> None:
    """Write the configuration of the host, before it is made.

    :param places: its directories.
    :param env: the environment with OpenStack.
    """
    place, etc = places.place, places.etc
    for each in (places.log, places.instances, places.neutron):
        each.mkdir(parents=True, exist_ok=True)
    host = nova_config.Host(
        name=network.CONTAINERS,
        address=network.CONTAINERS_ADDRESS,
        state=places.nova,
        log=places.log,
        virt_type="lxc",
    )
    ini.write(etc / "nova.conf", nova_config.compute(host))
    sections = controller_config.neutron(
        env, state=places.neutron, host=network.CONTAINERS
    )
    del sections["database"]
    ini.write(etc / "neutron.conf", sections)
    own = container_world.etc(place)
    nodes.configure_host(
        place,
        env,
        network.CONTAINERS,
        nova=etc / "nova.conf",
        # It is /etc/sriov_rt there.
        own=places.own,
        variables={
            "LIBVIRT_TYPE": "lxc",
            "SRIOV_RT_PARENTS": ",".join(
                f"{POOL_NETWORK}:{name}" for name in PARENTS
            ),
            # Its records are in vif below it.
            "SRIOV_RT_RUN_DIR": places.records.parent,
        },
    )
    (own / "hosts").write_text(network.hosts())
    infrastructure.configure_libvirt(
        container_world.libvirt(place) / "etc", places.log / "libvirtd.log"
    )
