# SPDX-License-Identifier: Apache-2.0

"""Moves of instances to this host: what is checked before they begin.

Nova renders no domain for a live migration: it changes the running one
(nova/virt/libvirt/migration.py), with pins that the destination chooses. For
a cold migration or resize, the destination renders the domain after the
source has released the guest, which is too late for a refusal.
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
from sriov_rt.nova import refusals
from sriov_rt.parse import cpulist

LOG = logging.getLogger(__name__)

#: The hooks that write what a live migration changes.
_HOOKS = ("pin", "schedule")


def guard_claims(
    tracker: Any,
    judge: Callable[[Any, Any], None],
    check: Callable[[Any, Any], None],
) -> None:
    """Judge this host when an instance claims it.

    Nova claims a host before it moves the instance's network and volumes
    there, and calls nothing before that which a compute driver may override.
    A refusal at the claim leaves the instance unchanged on its host. Nova
    then builds it elsewhere (instance_claim, also used for an unshelve),
    tries the next host for a cold migration or resize (resize_claim), and
    ends an evacuation (rebuild_claim). Nova's own late check, of server
    groups, is in the same place.

    :param judge: takes instance and flavor; raises HostRefused or
        GuestRefused if the host does not satisfy the flavor.
    :param check: takes the same, once a move is claimed; raises the same if
        the claimed pCPUs don't suit the guest.
    """
    build, move, evacuate = (
        tracker.instance_claim,
        tracker.resize_claim,
        tracker.rebuild_claim,
    )

    @functools.wraps(build)
    def instance_claim(
        context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        with refusals.recorded(context, instance):
            judge(instance, instance.flavor)
        return build(context, instance, *args, **kwargs)

    def claimed(claim: Any, instance: Any, flavor: Any) -> Any:
        try:
            check(instance, flavor)
        except refusals.REFUSED:
            # Nova drops the claim for later failures only.
            claim.abort()
            raise
        return claim

    @functools.wraps(move)
    def resize_claim(
        context: Any, instance: Any, flavor: Any, *args: Any, **kwargs: Any
    ) -> Any:
        with refusals.rolled_back():
            judge(instance, flavor)
            claim = move(context, instance, flavor, *args, **kwargs)
            return claimed(claim, instance, flavor)

    @functools.wraps(evacuate)
    def rebuild_claim(
        context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        with refusals.rolled_back():
            judge(instance, instance.flavor)
            claim = evacuate(context, instance, *args, **kwargs)
            return claimed(claim, instance, instance.flavor)

    tracker.instance_claim = instance_claim
    tracker.resize_claim = resize_claim
    tracker.rebuild_claim = rebuild_claim


def guard_rescue(manager: Any, check: Callable[[Any, Any], None]) -> None:
    """Check the image of a rescue before the server is stopped.

    Nova looks the image up, stops the server and only then calls the driver.

    :param manager: Nova's ComputeManager.
    :param check: takes instance and rescue image; raises GuestRefused if
        the server can't be rescued with it.
    """
    find = manager._get_rescue_image  # noqa: SLF001

    @functools.wraps(find)
    def _get_rescue_image(
        context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        image = find(context, instance, *args, **kwargs)
        check(instance, image)
        return image

    manager._get_rescue_image = _get_rescue_image  # noqa: SLF001


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
        # Nova supports FIFO alone. An unset value stays as it has been in
        # the domain since the guest was made.
        del info.sched_vcpus
        del info.sched_priority


def _domain(info: Any) -> str:
    """Return a domain with the CPU settings of a live migration's info."""
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
