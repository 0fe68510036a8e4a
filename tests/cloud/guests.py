# SPDX-License-Identifier: Apache-2.0

"""What libvirt says about a guest: its XML."""

import xml.etree.ElementTree as ET

from tests.testbed import guest_view
from tests.testbed.compute_host import ComputeHost

#: Ours in a domain's metadata: part of what operators' scripts go by.
GUEST = "{https://docs.openstack.org/sriov-rt/guest/1.0}guest"


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


def pins(domain: ET.Element) -> dict[int, frozenset[int]]:
    """Return the CPUs that each vCPU is pinned to.

    :param domain: its XML.
    """
    return {
        int(each.get("vcpu", "")): guest_view.cpus(each.get("cpuset", ""))
        for each in domain.findall("cputune/vcpupin")
    }
