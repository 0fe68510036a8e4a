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

"""Moves of instances to this host: what is checked before they begin.

Nova renders no domain for a live migration: it changes the one that runs
(nova/virt/libvirt/migration.py), by pins that the destination names. And it
renders the one of a cold migration or resize on the destination when the
source has let go, which is too late for a refusal.
"""

import functools
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from lxml import etree
from nova.virt import hardware
from oslo_log import log as logging

from sriov_rt import request as requests
from sriov_rt.facts import HostFacts
from sriov_rt.guest import engine
from sriov_rt.parse import cpulist
from sriov_rt.reason import Reason
from sriov_rt.request.words import Guest
from sriov_rt.request.words import Request

LOG = logging.getLogger(__name__)

#: The hooks that write what a live migration changes.
_HOOKS = ("pin", "schedule")

#: Codes of what a server keeps whatever its new flavor says of it.
_KEPT = frozenset({"disk_on_virtio", "nic_on_virtio"})


def guard_claims(tracker: Any, judge: Callable[[Any, Any], None]) -> None:
    """Have this host judged when it is claimed for a cold migration.

    Nothing that a compute driver may override is called with the instance
    there. Nova's own late check, of server groups, is in the same place, and
    by the same exception Nova tries the next host, with the instance
    untouched where it runs.

    :param tracker: Nova's ResourceTracker.
    :param judge: takes instance and new flavor; raises
        InstanceFaultRollback.
    """
    claim = tracker.resize_claim

    @functools.wraps(claim)
    def resize_claim(
        context: Any, instance: Any, flavor: Any, *args: Any, **kwargs: Any
    ) -> Any:
        judge(instance, flavor)
        return claim(context, instance, flavor, *args, **kwargs)

    tracker.resize_claim = resize_claim


def kept_on_virtio(xml: str, specs: Mapping[str, str]) -> tuple[Reason, ...]:
    """Return what of a running domain no bare guest can have.

    A resize to such a flavor would fail on the destination: the models of
    disks and NICs are those that Nova recorded for the server.

    :param xml: the domain as it is.
    :param specs: extra specs of the new flavor.
    """
    if not requests.asks(specs):
        return ()
    request = requests.parse(specs)
    if request.guest is not Guest.BARE:
        return ()
    hooks = {"strip": engine.OWN_HOOKS["strip"]}
    try:
        engine.render(xml, Request(guest=Guest.BARE), hooks=hooks)
    except engine.Refused as error:
        return tuple(each for each in error.reasons if each.code in _KEPT)
    return ()


def place(info: Any, specs: Mapping[str, str], facts: HostFacts) -> None:
    """Change the pins of a live migration to those of a spawn on this host.

    :param info: LibvirtLiveMigrateNUMAInfo, as Nova made it.
    :param specs: extra specs of the flavor.
    :param facts: of this host, the destination.
    :raises Refused: if this host is no place for the guest.
    """
    if "cpu_pins" not in info:
        return
    request = requests.parse(specs)
    rendered = engine.render(
        _domain(info),
        request,
        facts,
        hooks={name: engine.OWN_HOOKS[name] for name in _HOOKS},
    )
    pin = etree.fromstring(rendered.xml).find("cputune/emulatorpin")
    if pin is not None:
        info.emulator_pins = set(cpulist.parse_cpu_list(pin.get("cpuset", "")))
    if request.vcpu_sched is not None and "sched_priority" in info:
        # Nova knows FIFO alone. What is not set stays as it is in the
        # domain, which has had it since it was made.
        del info.sched_vcpus
        del info.sched_priority


def _domain(info: Any) -> str:
    """Return a domain with what the information says of CPUs."""
    domain = etree.Element("domain", type="kvm")
    numbers = sorted(int(vcpu) for vcpu in info.cpu_pins)
    etree.SubElement(domain, "vcpu").text = str(len(numbers))
    tune = etree.SubElement(domain, "cputune")
    for vcpu in numbers:
        _cpus(tune, "vcpupin", info.cpu_pins[str(vcpu)], vcpu=str(vcpu))
    _cpus(tune, "emulatorpin", info.emulator_pins)
    if "sched_vcpus" in info and "sched_priority" in info:
        etree.SubElement(
            tune,
            "vcpusched",
            vcpus=hardware.format_cpu_spec(info.sched_vcpus),
            scheduler="fifo",
            priority=str(info.sched_priority),
        )
    found: str = etree.tostring(domain, encoding="unicode")
    return found


def _cpus(tune: Any, tag: str, cpus: set[int], **attributes: str) -> None:
    text = hardware.format_cpu_spec(cpus)
    etree.SubElement(tune, tag, {"cpuset": text, **attributes})
