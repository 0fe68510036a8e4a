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

"""What a fresh cloud is given: users, endpoints, networks, flavors, images."""

import pathlib
from typing import Any

from tests.testbed import guest_image
from tests.testbed import network
from tests.testbed import settings
from tests.testbed.rest import Rest

#: The user of sriov-rt's agents, which has no endpoint.
AGENT_USER = "sriov_rt"
#: Catalogue type and endpoint of each service, by the name of its user.
_SERVICES = {
    "glance": ("image", network.url("glance")),
    "neutron": ("network", network.url("neutron")),
    "nova": ("compute", network.url("nova-api") + "/v2.1"),
    "placement": ("placement", network.url("placement")),
}
#: The services' users, and the roles of each.
USERS = {
    **dict.fromkeys(_SERVICES, ("admin", "service")),
    AGENT_USER: ("service",),
}
#: Any host may serve this one.
ORDINARY_FLAVOR = "std.small"
#: Only a realtime host may serve this one. Our DevStack plugin makes it.
REALTIME_FLAVOR = "rt.small"

#: The guest with Nova's defaults.
IMAGE = "guest"
#: The same without virtio.
SATA_IMAGE = "guest-sata"
#: What takes long to emulate and no guest here needs is left out: tests of
#: ciphers, a probe of the HPET, patching for one CPU, tracing, certificates.
#: A fifth of the boot's work, which is a minute in a busy rt-1.
_KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet no_timer_check mitigations=off "
    "cryptomgr.notests hpet=disable noreplace-smp "
    "initcall_blacklist=init_kprobe_trace,load_system_certificate_list"
)
_IMAGES: dict[str, dict[str, str]] = {
    IMAGE: {},
    SATA_IMAGE: {"hw_disk_bus": "sata"},
}


def users(api: Rest) -> None:
    """Register the services at Keystone.

    :param api: the cloud.
    :raises errors.TestbedError: when Keystone refuses.
    """
    project = _create(
        api, "keystone", "project", name="service", domain_id="default"
    )
    roles = {
        role["name"]: role["id"]
        for role in api.get("keystone", "/roles")["roles"]
    }
    for name, needed in USERS.items():
        user = _create(
            api,
            "keystone",
            "user",
            name=name,
            password=settings.PASSWORD,
            domain_id="default",
        )
        for role in needed:
            api.put(
                "keystone",
                f"/projects/{project['id']}/users/{user['id']}"
                f"/roles/{roles[role]}",
            )
    for name, (kind, url) in _SERVICES.items():
        service = _create(api, "keystone", "service", name=name, type=kind)
        for interface in ("public", "internal"):
            _create(
                api,
                "keystone",
                "endpoint",
                service_id=service["id"],
                interface=interface,
                url=url,
                region_id=settings.REGION,
            )


def networks(api: Rest) -> None:
    """Make one VLAN network on each physical network.

    :param api: the cloud.
    :raises errors.TestbedError: when Neutron refuses.
    """
    for name, (first, _) in settings.PHYSICAL_NETWORKS.items():
        network_on(api, name, name, f"{address(name, 0)}/24", vlan=first)


def network_on(
    api: Rest,
    name: str,
    physical_network: str,
    subnet: str,
    *,
    vlan: int | None = None,
) -> str:
    """Make a network on a physical one.

    :param api: the cloud.
    :param name: its name, and that of its subnet.
    :param physical_network: a key of settings.PHYSICAL_NETWORKS.
    :param subnet: its addresses, as in "192.0.2.0/24".
    :param vlan: its VLAN; without one if None, of which there is one at most.
    :returns: its id; who deletes it deletes the subnet too.
    :raises errors.TestbedError: when Neutron refuses.
    """
    kind: dict[str, object] = {"provider:network_type": "flat"}
    if vlan is not None:
        kind = {
            "provider:network_type": "vlan",
            "provider:segmentation_id": vlan,
        }
    made = _create(
        api,
        "neutron",
        "network",
        name=name,
        shared=True,
        port_security_enabled=False,
        **{"provider:physical_network": physical_network, **kind},
    )
    _create(
        api,
        "neutron",
        "subnet",
        name=name,
        network_id=made["id"],
        ip_version=4,
        cidr=subnet,
        gateway_ip=None,
        enable_dhcp=False,
    )
    return str(made["id"])


def address(physical_network: str, last: int) -> str:
    """Return an address of a physical network's one subnet, a /24.

    :param physical_network: a key of settings.PHYSICAL_NETWORKS.
    :param last: its last number.
    """
    first, _ = settings.PHYSICAL_NETWORKS[physical_network]
    return f"10.77.{first}.{last}"


def flavors(api: Rest) -> None:
    """Make the ordinary flavor.

    :param api: the cloud.
    :raises errors.TestbedError: when Nova refuses.
    """
    flavor(api, ORDINARY_FLAVOR, {"ram": 128, "vcpus": 1, "disk": 0}, {})


def flavor(
    api: Rest, name: str, size: dict[str, object], specs: dict[str, str]
) -> str:
    """Make a flavor.

    :param api: the cloud.
    :param name: its name.
    :param size: ram in MiB, vcpus, and disk in GiB.
    :param specs: its extra specs.
    :returns: its id.
    :raises errors.TestbedError: when Nova refuses.
    """
    made = _create(api, "nova-api", "flavor", name=name, **size)
    if specs:
        api.post(
            "nova-api",
            f"/flavors/{made['id']}/os-extra_specs",
            {"extra_specs": specs},
        )
    return str(made["id"])


def images(api: Rest, files: guest_image.GuestImage) -> None:
    """Upload the guest.

    :param api: the cloud.
    :param files: what the guest is made of.
    :raises errors.TestbedError: when Glance refuses.
    """
    kernel = _image(api, "guest-kernel", "aki", {})
    api.upload(f"/images/{kernel}/file", files.kernel)
    ramdisk = _image(api, "guest-ramdisk", "ari", {})
    api.upload(f"/images/{ramdisk}/file", files.ramdisk)
    for name, properties in _IMAGES.items():
        common = {
            "kernel_id": kernel,
            "ramdisk_id": ramdisk,
            "os_command_line": _KERNEL_ARGUMENTS,
            "hw_machine_type": "q35",
        }
        raw_image(api, name, files.disk, {**common, **properties})


def raw_image(
    api: Rest, name: str, file: pathlib.Path, properties: dict[str, str]
) -> str:
    """Upload an image that is used as it is.

    :param api: the cloud.
    :param name: its name.
    :param file: the image.
    :param properties: its properties.
    :returns: its id.
    :raises errors.TestbedError: when Glance refuses.
    """
    made = _image(api, name, "raw", properties)
    api.upload(f"/images/{made}/file", file)
    return made


def _image(api: Rest, name: str, kind: str, properties: dict[str, str]) -> str:
    made = api.post(
        "glance",
        "/images",
        {
            "name": name,
            "disk_format": kind,
            "container_format": "bare" if kind == "raw" else kind,
            "visibility": "public",
            **properties,
        },
    )
    return str(made["id"])


def _create(api: Rest, service: str, kind: str, **fields: object) -> Any:
    return api.post(service, f"/{kind}s", {kind: fields})[kind]
