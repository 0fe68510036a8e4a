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

"""Pinning of LXC containers: a cpuset, for they have no vCPUs.

libvirt binds a container's controller, and so all processes in it, to the
cpuset of ``<vcpu>`` (virLXCControllerSetupCpuAffinity in its
src/lxc/lxc_controller.c); ``<vcpupin>`` means nothing to it.
Nova's own driver has no pCPUs for containers (see sriov_rt/nova/containers.py
for why, and for what ours does): pins of our choice could be another's, so a
realtime container of Nova's is refused unless its pinning is given by
somebody who keeps account.
"""

from sriov_rt.guest import cpu_placement as cpu_placement
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.hook import Context
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.sentences import reason
from sriov_rt.guest.xml import cpuset
from sriov_rt.guest.xml import text_of
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list


def pin(domain: Domain, context: Context, report: Recorder) -> None:
    """Confine a container to quiet pCPUs, and check those that it has."""
    realtime = context.request.realtime_cpus
    if not realtime and not context.pinning:
        return
    cpus = _cpuset(domain, context, report)
    if cpus is None:
        return
    if not realtime:
        return
    if len(cpus) > 1:
        report.note(
            f"the scheduler moves no task among isolated pCPUs "
            f"{format_cpu_list(cpus)}: the container's own processes have "
            "to choose theirs"
        )
    if context.facts is None:
        report.note("the cpuset was not checked: there are no facts")
    else:
        cpu_placement.check({0: cpus}, context.facts, report)


def _cpuset(
    domain: Domain, context: Context, report: Recorder
) -> CpuSet | None:
    """Return the container's cpuset, set if need be; None if there is none."""
    vcpu = domain.part("vcpu")
    text = None if vcpu is None else vcpu.get("cpuset")
    had = None if text is None else cpuset(text)
    if context.pinning:
        if cpu_placement.beyond(context.pinning, domain.vcpus, report):
            return None
        cpus = CpuSet().union(*(p for _, p in context.pinning))
        why = "as the pinning that is given says"
    elif domain.from_nova:
        # What is there is Nova's cpu_shared_set, not a place of its own.
        report.refuse(reason("container_unpinned"))
        return None
    elif had is not None:
        return had
    elif context.facts is None:
        report.note("no cpuset was set: there are no facts of the host")
        return None
    else:
        found = cpu_placement.choose(domain, context.facts, report)
        if found is None:
            return None
        node, pcpus = found
        cpus = CpuSet(pcpus)
        why = f"quiet pCPUs of NUMA node {node}"
    if cpus != had:
        element = domain.ensure("vcpu")
        if not text_of(element):
            element.text = str(len(cpus))
        element.set("cpuset", format_cpu_list(cpus))
        now = {"cpuset": format_cpu_list(cpus)}
        report.changed("set", "vcpu", now, why)
    return cpus
