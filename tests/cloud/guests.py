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

"""What the realtime host says about a guest: its XML and its threads."""

import dataclasses
import xml.etree.ElementTree as ET

from tests.testbed.compute_host import ComputeHost

#: Ours in a domain's metadata: part of what operators' scripts go by.
GUEST = "{https://docs.openstack.org/sriov-rt/guest/1.0}guest"

SCHED_OTHER, SCHED_FIFO = 0, 1

#: Prints a thread a line: its CPUs, then /proc's stat, then its name. QEMU's
#: I/O workers come and go; one that ended meanwhile is passed over.
_THREADS = """\
read -r pid < "/run/libvirt/qemu/$1.pid"
for thread in /proc/$pid/task/*; do
    cpus=
    name=$(cat "$thread/comm" 2>/dev/null) || continue
    while read -r key value; do
        [ "$key" = Cpus_allowed_list: ] && cpus=$value
    done 2>/dev/null < "$thread/status"
    stat=$(cat "$thread/stat" 2>/dev/null) || continue
    [ -n "$cpus" ] || continue
    echo "$cpus|${stat##*) }|$name"
done
"""
#: Of /proc/PID/stat after the name: rt_priority and policy are the fields
#: 40 and 41 of proc(5), and the name is field 2.
_PRIORITY, _POLICY = 40 - 3, 41 - 3


@dataclasses.dataclass(frozen=True)
class Thread:
    """A thread of a guest's QEMU.

    :param name: as in "CPU 0/TCG" or "IO mon_iothread".
    :param cpus: those that it may run on, as in "0-1".
    :param policy: SCHED_OTHER or SCHED_FIFO.
    :param priority: its realtime priority, 0 if it has none.
    """

    name: str
    cpus: str
    policy: int
    priority: int

    @property
    def vcpu(self) -> int | None:
        """The number of the vCPU that it runs, None for another thread."""
        kind, _, rest = self.name.partition(" ")
        if kind != "CPU":
            return None
        return int(rest.partition("/")[0])


def threads(host: ComputeHost, domain: str) -> list[Thread]:
    """Return the threads of a running guest, from /proc.

    :param host: where it runs.
    :param domain: its name in libvirt.
    """
    found = []
    for line in host.run("bash", "-c", _THREADS, "bash", domain).splitlines():
        cpus, stat, name = line.split("|", 2)
        fields = stat.split()
        found.append(
            Thread(name, cpus, int(fields[_POLICY]), int(fields[_PRIORITY]))
        )
    return found


def document(host: ComputeHost, domain: str) -> ET.Element:
    """Return a running domain's XML as libvirt has it.

    :param host: where it runs.
    :param domain: its name in libvirt.
    """
    return ET.fromstring(host.domain_xml(domain))


def devices(domain: ET.Element) -> list[str]:
    """Return the kinds of device in a domain, those of model none aside.

    :param domain: its XML.
    """
    return sorted(
        f"{each.tag} {each.get('type')}"
        if each.tag == "controller"
        else each.tag
        for each in domain.findall("devices/*")
        if each.get("model") != "none" and each.get("type") != "none"
    )


def pins(domain: ET.Element) -> dict[int, str]:
    """Return the CPUs that each vCPU is pinned to.

    :param domain: its XML.
    """
    return {
        int(each.get("vcpu", "")): each.get("cpuset", "")
        for each in domain.findall("cputune/vcpupin")
    }
