# SPDX-License-Identifier: Apache-2.0

"""Commands on any compute host."""

import dataclasses
import pathlib
from collections.abc import Mapping

from tests.testbed import container_host
from tests.testbed import container_remains
from tests.testbed import network
from tests.testbed import paths
from tests.testbed.container_host import ContainerHost
from tests.testbed.realtime_host import RealtimeHost
from tests.testbed.waiting import run

#: Nova's own directories among those of instances.
_NOT_INSTANCES = frozenset(("_base", "compute_nodes", "locks", "snapshots"))

#: Prints what instances leave behind, one item per line.
_LEFTOVERS = """\
virsh --connect qemu:///system list --all --name | sed '/^$/d;s/^/domain /'
ls "$1" | sed 's/^/directory /'
# rt-1 itself is a QEMU too, but no guest of Nova's; this script isn't one.
for line in $(grep -ls 'guest=instance-' /proc/[0-9]*/cmdline); do
    case $(readlink "${line%/*}/exe") in
    *qemu-system-*) echo "process ${line#/proc/}";;
    esac
done
find /sys/fs/cgroup -type d -name '*qemu*instance-*' | sed 's/^/cgroup /'
for node in /sys/devices/system/node/node*/hugepages/hugepages-2048kB; do
    read -r all < "$node/nr_hugepages"
    read -r free < "$node/free_hugepages"
    [ "$all" = "$free" ] || echo "hugepages $((all - free))"
done
for link in /sys/bus/pci/drivers/vfio-pci/*:*; do
    [ -e "$link" ] && echo "vfio ${link##*/}"
done
ip -brief link | sed -n 's/^\\(tap[^ ]*\\|macvtap[^ ]*\\).*/interface \\1/p'
true
"""


@dataclasses.dataclass(frozen=True)
class ComputeHost:
    """A compute host of the cloud.

    :param name: its name in tests.testbed.network.
    :param place: the directories of the cloud.
    :param realtime: the virtual machines by their names.
    :param containers: the host with containers.
    """

    name: str
    place: paths.Paths
    realtime: Mapping[str, RealtimeHost]
    containers: ContainerHost

    def run(self, *command: str, timeout: float = 120.0) -> str:
        """Run a program on the host, as root.

        :param command: program and arguments.
        :param timeout: seconds it may take.
        :returns: what it printed.
        :raises errors.TestbedError: when it fails or takes too long.
        """
        if self.name in self.realtime:
            machine = self.realtime[self.name].machine
            return machine.run(command, timeout=timeout).text
        if self.name == network.CONTAINERS:
            return self.containers.run(*command, timeout=timeout)
        return run(command, timeout=timeout)

    @property
    def instances(self) -> pathlib.PurePath:
        """The directory with a directory for each instance."""
        if self.name in self.realtime:
            return pathlib.PurePath("/var/lib/nova/instances")
        if self.name == network.CONTAINERS:
            return self.containers.places.instances
        return self.place.data / "nova" / "instances"

    def domain_xml(self, domain: str) -> str:
        """Return the XML of a running domain.

        :param domain: its name in libvirt.
        :raises errors.CommandFailed: when there is none.
        """
        uri = "qemu:///system"
        if self.name == network.CONTAINERS:
            uri = container_host.URI
        return self.run("virsh", "--connect", uri, "dumpxml", domain)

    def leftovers(self) -> list[str]:
        """Return what is on the host because of instances.

        These are domains, directories, processes, control groups, hugepages
        in use, devices bound to vfio-pci, and taps. The list is empty if there
        is no instance and none left anything.
        """
        if self.name == network.CONTAINERS:
            lines = container_remains.find(self.containers)
        else:
            lines = self.run(
                "sh", "-c", _LEFTOVERS, "sh", str(self.instances)
            ).splitlines()
        return [
            line
            for line in lines
            if not (
                line.startswith("directory ")
                and line.removeprefix("directory ") in _NOT_INSTANCES
            )
        ]
