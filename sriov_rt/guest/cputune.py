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

"""Reading and writing ``<cputune>``, and telling of it."""

from collections.abc import Mapping

from sriov_rt.guest.domain import Domain
from sriov_rt.guest.elements import Element
from sriov_rt.guest.elements import attributes
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.values import CpuSet
from sriov_rt.guest.values import cpusets
from sriov_rt.request.words import Request

#: The schedulers of realtime threads (sched(7)).
REALTIME = frozenset({"fifo", "rr"})


def realtime_vcpus(domain: Domain, request: Request) -> CpuSet:
    """Return the vCPUs that are to be realtime.

    Those of ``<vcpusched>``, which is how ``hw:cpu_realtime_mask`` arrives;
    without any, all or none as the Request says.
    """
    found: CpuSet = frozenset()
    scheds = domain.tunes("vcpusched")
    for each, vcpus in cpusets(scheds, "vcpus"):
        if each.get("scheduler") in REALTIME:
            found |= vcpus
    if scheds or not (request.realtime_cpus or request.vcpu_sched):
        return found
    return domain.vcpus


def add(
    domain: Domain,
    tag: str,
    given: Mapping[str, str],
    why: str,
    report: Recorder,
) -> None:
    """Add an element to ``<cputune>`` and tell of it.

    :param given: its attributes.
    """
    domain.add_tune(tag, given)
    report.changed("added", tag, given, why)


def alter(
    element: Element, given: Mapping[str, str], why: str, report: Recorder
) -> None:
    """Set attributes of an element and tell of it if that changes any."""
    if all(element.get(name) == text for name, text in given.items()):
        return
    for name, text in given.items():
        element.set(name, text)
    report.changed("set", element.tag, attributes(element), why)
