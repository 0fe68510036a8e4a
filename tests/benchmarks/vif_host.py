# SPDX-License-Identifier: Apache-2.0

"""A host of its own for ports that benchmarks plug."""

import pathlib
import uuid

from sriov_rt.kernel.link import Link
from sriov_rt.kernel.links import Links
from sriov_rt.kernel.namespaces import PID
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import host
from sriov_rt.vif import validation
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.plugger import Plugger
from sriov_rt.vif.records import Records
from sriov_rt.vif.settings import Pools
from tests.benchmarks import vif_peers
from tests.testbed import isolation

#: What all are on.
PARENT = "vf0"

#: The most at once, each in a namespace of its own.
PORTS = 100


class Host:
    """This host, with a parent and namespaces for ports.

    :param directory: for the records.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        isolation.wire(PARENT, "peer0")
        for number in range(PORTS):
            isolation.sh("ip", "netns", "add", namespace(number))
        self.directory = directory
        self.links = Links()
        self.plugger = self.make(self.links)

    def make(self, links: Links) -> Plugger:
        """Return a plugger."""
        return Plugger(
            host.Host(
                links,
                Vfs.of_host(),
                Pools.parse([f"physnet1:{PARENT}"]),
                Records(self.directory),
                Locks(self.directory, 60.0),
            )
        )

    def plug(self, number: int) -> None:
        """Plug a port."""
        self.plugger.plug(want(number))

    def all(self) -> list[Link]:
        """Return the links of this host, and not the rest of the machine's.

        A namespace that only a process shows was there before, or is
        another's.
        """
        return [
            each
            for each in self.links.all(everywhere=True)
            if not (each.namespace or "").startswith(PID)
        ]

    def unplug(self, number: int) -> None:
        """Unplug it."""
        assert self.plugger.unplug(port(number))


def namespace(number: int) -> str:
    """Return the name of a port's namespace."""
    return f"bench{number % PORTS}"


def port(number: int) -> str:
    """Return a port's UUID."""
    return str(uuid.UUID(int=(number + 1) << 64))


def want(number: int) -> Plug:
    """Return a port as it is asked for."""
    return validation.checked(
        Plug(
            port=port(number),
            owner="bench",
            kind=Kind.MACVLAN,
            mode="bridge",
            physical_network="physnet1",
            namespace=namespace(number),
            name=vif_peers.name(number),
            mac=vif_peers.mac(number),
        )
    )
