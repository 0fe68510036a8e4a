# SPDX-License-Identifier: Apache-2.0

"""Contents of a new cloud: users, endpoints, networks, flavors, images."""

import pathlib

from openstack.connection import Connection

from tests.testbed import guest_image
from tests.testbed import network
from tests.testbed import settings

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
#: Flavor that any host can serve.
ORDINARY_FLAVOR = "std.small"
#: Flavor that only a realtime host can serve. Our DevStack plugin makes it.
REALTIME_FLAVOR = "rt.small"

#: The guest with Nova's defaults.
IMAGE = "guest"
#: The same without virtio.
SATA_IMAGE = "guest-sata"
#: These skip work that no guest here needs and that takes long to emulate:
#: tests of ciphers, a probe of the HPET, patching for one CPU, tracing,
#: certificates. That is a fifth of the boot: a minute in a busy rt-1.
_KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet no_timer_check mitigations=off "
    "cryptomgr.notests hpet=disable noreplace-smp "
    "initcall_blacklist=init_kprobe_trace,load_system_certificate_list"
)
_IMAGES: dict[str, dict[str, str]] = {
    IMAGE: {},
    SATA_IMAGE: {"hw_disk_bus": "sata"},
}


def users(api: Connection) -> None:
    """Register the services at Keystone.

    :param api: the cloud.
    :raises openstack.exceptions.HttpException: when Keystone refuses.
    """
    identity = api.identity
    project = identity.create_project(name="service", domain_id="default")
    roles = {role.name: role for role in identity.roles()}
    for name, needed in USERS.items():
        user = identity.create_user(
            name=name, password=settings.PASSWORD, domain_id="default"
        )
        for role in needed:
            identity.assign_project_role_to_user(project, user, roles[role])
    for name, (kind, url) in _SERVICES.items():
        service = identity.create_service(name=name, type=kind)
        for interface in ("public", "internal"):
            identity.create_endpoint(
                service_id=service.id,
                interface=interface,
                url=url,
                region_id=settings.REGION,
            )


def networks(api: Connection) -> None:
    """Make one VLAN network on each physical network.

    :param api: the cloud.
    :raises openstack.exceptions.HttpException: when Neutron refuses.
    """
    for name, (first, _) in settings.PHYSICAL_NETWORKS.items():
        network_on(api, name, name, f"{address(name, 0)}/24", vlan=first)


def network_on(
    api: Connection,
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
    :param vlan: its VLAN; None for the only network without one.
    :returns: its id; deleting it deletes the subnet, too.
    :raises openstack.exceptions.HttpException: when Neutron refuses.
    """
    kind: dict[str, object] = {"provider_network_type": "flat"}
    if vlan is not None:
        kind = {
            "provider_network_type": "vlan",
            "provider_segmentation_id": vlan,
        }
    made = api.network.create_network(
        name=name,
        is_shared=True,
        is_port_security_enabled=False,
        provider_physical_network=physical_network,
        **kind,
    )
    api.network.create_subnet(
        name=name,
        network_id=made.id,
        ip_version=4,
        cidr=subnet,
        gateway_ip=None,
        is_dhcp_enabled=False,
    )
    return str(made.id)


def address(physical_network: str, last: int) -> str:
    """Return an address of a physical network's one subnet, a /24.

    :param physical_network: a key of settings.PHYSICAL_NETWORKS.
    :param last: the address's last number.
    """
    first, _ = settings.PHYSICAL_NETWORKS[physical_network]
    return f"10.77.{first}.{last}"


def flavors(api: Connection) -> None:
    """Make the ordinary flavor.

    :param api: the cloud.
    :raises openstack.exceptions.HttpException: when Nova refuses.
    """
    flavor(api, ORDINARY_FLAVOR, {"ram": 128, "vcpus": 1, "disk": 0}, {})


def flavor(
    api: Connection, name: str, size: dict[str, int], specs: dict[str, str]
) -> str:
    """Make a flavor.

    :param api: the cloud.
    :param name: its name.
    :param size: ram in MiB, vcpus, and disk in GiB.
    :param specs: its extra specs.
    :returns: its id.
    :raises openstack.exceptions.HttpException: when Nova refuses.
    """
    made = api.compute.create_flavor(name=name, **size)
    if specs:
        api.compute.create_flavor_extra_specs(made, specs)
    return str(made.id)


def images(api: Connection, files: guest_image.GuestImage) -> None:
    """Upload the guest.

    :param api: the cloud.
    :param files: what the guest is made of.
    :raises openstack.exceptions.HttpException: when Glance refuses.
    """
    common = {
        **kernel(api, IMAGE, files.kernel, files.ramdisk),
        "os_command_line": _KERNEL_ARGUMENTS,
        "hw_machine_type": "q35",
    }
    for name, properties in _IMAGES.items():
        raw_image(api, name, files.disk, {**common, **properties})


def kernel(
    api: Connection, name: str, file: pathlib.Path, ramdisk: pathlib.Path
) -> dict[str, str]:
    """Upload a kernel; return the properties of an image that it boots.

    :param api: the cloud.
    :param name: prefix of both images' names.
    :param file: the kernel.
    :param ramdisk: its initramfs.
    :raises openstack.exceptions.HttpException: when Glance refuses.
    """
    return {
        "kernel_id": _image(api, f"{name}-kernel", "aki", file, {}),
        "ramdisk_id": _image(api, f"{name}-ramdisk", "ari", ramdisk, {}),
    }


def raw_image(
    api: Connection, name: str, file: pathlib.Path, properties: dict[str, str]
) -> str:
    """Upload an image that is used as it is.

    :param api: the cloud.
    :param name: its name.
    :param file: the image.
    :param properties: its properties.
    :returns: its id.
    :raises openstack.exceptions.HttpException: when Glance refuses.
    """
    return _image(api, name, "raw", file, properties)


def qcow2_image(
    api: Connection, name: str, file: pathlib.Path, properties: dict[str, str]
) -> str:
    """Upload an image that Nova unpacks.

    :param api: the cloud.
    :param name: its name.
    :param file: the image.
    :param properties: its properties.
    :returns: its id.
    :raises openstack.exceptions.HttpException: when Glance refuses.
    """
    return _image(api, name, "qcow2", file, properties)


def _image(
    api: Connection,
    name: str,
    kind: str,
    file: pathlib.Path,
    properties: dict[str, str],
) -> str:
    made = api.image.create_image(
        name,
        filename=str(file),
        disk_format=kind,
        container_format=kind if kind in ("aki", "ari") else "bare",
        visibility="public",
        allow_duplicates=True,
        meta=properties,
    )
    return str(made.id)
