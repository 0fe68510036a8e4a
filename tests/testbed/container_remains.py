# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""What instances have left on the compute host lxc-1."""

from tests.testbed import loops
from tests.testbed.container_host import URI
from tests.testbed.container_host import ContainerHost

#: Prints it, one thing a line; the arguments: the directory of instances,
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

    Domains, directories, processes, control groups, mounts, interfaces and
    loop devices.

    :param host: the host, which is up.
    """
    places = host.places
    lines = host.run("sh", "-c", _LEFTOVERS, "sh", str(places.instances), URI)
    return [
        *lines.splitlines(),
        *(f"device {name}" for name in loops.attached(places.state)),
    ]
