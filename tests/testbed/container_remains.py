# SPDX-License-Identifier: Apache-2.0

"""What instances have left on the compute host lxc-1."""

from tests.testbed import loops
from tests.testbed.container_host import URI
from tests.testbed.container_host import ContainerHost

#: Prints these, one item per line. Its arguments: the directory of instances,
#: and libvirt's driver.
_LEFTOVERS = """\
virsh --connect "$2" list --all --name | sed '/^$/d;s/^/domain /'
ls "$1" | sed 's/^/directory /'
for line in $(grep -ls 'instance-' /proc/[0-9]*/cmdline); do
    case $(readlink "${line%/*}/exe") in
    *libvirt_lxc) echo "process ${line#/proc/}";;
    esac
done
find /sys/fs/cgroup -type d -name '*lxc*instance-*' | sed 's/^/cgroup /'
sed -n "s|.* \\($1/[^ ]*\\) .*|mount \\1|p" /proc/self/mountinfo
ip -brief link | sed -n 's/^\\(srt[0-9a-f]\\{8\\}-[^ ]*\\).*/interface \\1/p'
"""


def find(host: ContainerHost) -> list[str]:
    """Return what is on the host because of instances.

    These are domains, directories, processes, control groups, mounts,
    interfaces and loop devices.

    :param host: the host, which is up.
    """
    places = host.places
    lines = host.run("sh", "-c", _LEFTOVERS, "sh", str(places.instances), URI)
    return [
        *lines.splitlines(),
        *(f"device {name}" for name in loops.attached(places.state)),
    ]
