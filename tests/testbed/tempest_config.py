# SPDX-License-Identifier: Apache-2.0

"""Configuration of Tempest for a cloud that is up."""

import pathlib
import shlex
import sys
from collections.abc import Mapping
from collections.abc import Sequence

from openstack.connection import Connection

from tests.testbed import container_host
from tests.testbed import guest_image
from tests.testbed import ini
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import seed
from tests.testbed import settings
from tests.testbed.cloud import Cloud

#: Flavors for Tempest's servers, with a disk, as it needs them.
FLAVOR, BIGGER_FLAVOR = "tempest.small", "tempest.bigger"
_SIZES: dict[str, dict[str, int]] = {
    FLAVOR: {"ram": 128, "vcpus": 1, "disk": 1},
    BIGGER_FLAVOR: {"ram": 192, "vcpus": 1, "disk": 1},
}
#: A network that routers use as the external one. It leads nowhere.
PUBLIC_NETWORK = "tempest-public"
_PUBLIC_SUBNET = "203.0.113.0/24"

#: Nova's extra specs for a realtime server on rt-1, with small huge pages.
_REALTIME = (
    "hw:cpu_policy=dedicated",
    "hw:cpu_realtime=yes",
    "hw:emulator_threads_policy=share",
    "hw:mem_page_size=2MB",
)

#: Seconds until a server is built, and until its guest has reached another:
#: both on an emulated host, and on busy CPUs.
_BUILD_SECONDS, _GUEST_SECONDS = 900, 900
#: A VF may have to wait for a privileged helper to start, in rt-1.
_FACTS_SECONDS = 600


def directory(place: paths.Paths) -> pathlib.Path:
    """Return the directory that Tempest runs in.

    :param place: the directories of the cloud.
    """
    return place.data / "tempest"


def write(
    cloud: Cloud,
    changes: Mapping[str, ini.Section] | None = None,
    *,
    ours: bool = True,
) -> pathlib.Path:
    """Write tempest.conf, and make the flavors and networks that it names.

    :param cloud: the cloud.
    :param changes: options that differ, by section.
    :param ours: whether the cloud runs sriov-rt.
    :returns: the file.
    :raises openstack.exceptions.HttpException: when the cloud refuses
        something.
    """
    home = directory(cloud.place)
    (home / "lock").mkdir(parents=True, exist_ok=True)
    sections = _sections(cloud, home)
    for each in (_ours(cloud) if ours else {}, changes or {}):
        for name, options in each.items():
            sections[name] = {**sections.get(name, {}), **options}
    file = home / "tempest.conf"
    ini.write(file, sections)
    return file


def containers(
    image: str, networks: Mapping[str, str]
) -> dict[str, ini.Section]:
    """Return the changed options for ports of containers.

    :param image: the id of the containers' image.
    :param networks: the physical network of each kind of port.
    """
    virsh = ("virsh", "--connect", container_host.URI)
    return {
        "compute": {"image_ref": image, "image_ref_alt": image},
        "sriov_rt": {
            "port_networks": ",".join(map(":".join, networks.items())),
            "port_network_type": "flat",
            "domain_xml_command": _on_host(*virsh, "dumpxml", "{name}"),
            "guest_command": _on_host(
                *(*virsh, "lxc-enter-namespace", "--noseclabel", "{name}"),
                *("/bin/busybox", "sh"),
                stdin=True,
            ),
        },
        "sriov_rt-feature-enabled": {"realtime": False},
    }


def two_hosts() -> dict[str, ini.Section]:
    """Return the changed options for a cloud with the second realtime host."""
    return {
        "sriov_rt": {"realtime_hosts": f"{network.REALTIME},{network.SECOND}"},
        "sriov_rt-feature-enabled": {
            "cold_migration": True,
            "live_migration": True,
        },
    }


def _sections(cloud: Cloud, home: pathlib.Path) -> dict[str, ini.Section]:
    api = cloud.api
    image = api.image.find_image(seed.IMAGE, ignore_missing=False).id
    flavors = {name: _flavor(api, name) for name in _SIZES}
    off = False
    return {
        "DEFAULT": {"log_file": cloud.place.log / "tempest.log"},
        "oslo_concurrency": {"lock_path": home / "lock"},
        "auth": {
            "use_dynamic_credentials": True,
            "admin_username": "admin",
            "admin_password": settings.PASSWORD,
            "admin_project_name": "admin",
            "admin_domain_name": "Default",
        },
        "identity": {
            "uri_v3": network.url("keystone") + "/v3",
            "auth_version": "v3",
            "region": settings.REGION,
        },
        "compute": {
            "image_ref": image,
            "image_ref_alt": image,
            "flavor_ref": flavors[FLAVOR],
            "flavor_ref_alt": flavors[BIGGER_FLAVOR],
            "build_interval": 1,
            "build_timeout": _BUILD_SECONDS,
            "ready_wait": 0,
            "min_microversion": "2.1",
            "max_microversion": "latest",
        },
        "compute-feature-enabled": {
            "resize": True,
            "suspend": True,
            "shelve": True,
            "console_output": True,
            # It needs a program that writes ISO 9660.
            "config_drive": off,
            "vnc_console": off,
            # The compute hosts here are of different kinds.
            "cold_migration": off,
            "live_migration": off,
            "attach_encrypted_volume": off,
            "swap_volume": off,
        },
        "placement": {"min_microversion": "1.0", "max_microversion": "latest"},
        "network": {
            "public_network_id": _public_network(api),
            "project_networks_reachable": off,
        },
        "network-feature-enabled": {
            "api_extensions": ",".join(_extensions(api)),
            "ipv6": off,
            "floating_ips": off,
            "port_security": True,
        },
        # Guests here have no SSH server, and networks lead nowhere.
        "validation": {"run_validation": off},
        "image": {"disk_formats": "raw,aki,ari", "container_formats": "bare"},
        "service_available": {
            "cinder": off,
            "glance": True,
            "horizon": off,
            "neutron": True,
            "nova": True,
            "swift": off,
        },
    }


def _ours(cloud: Cloud) -> dict[str, ini.Section]:
    """Return the options of the plugin.

    :param cloud: the cloud.
    """
    realtime = network.REALTIME in cloud.hypervisors()
    rt_only: ini.Section = {}
    if realtime:
        rt_only = {
            "realtime_hosts": network.REALTIME,
            "port_networks": f"macvlan:{settings.WIRE_NETWORK}",
            "port_network_type": "flat",
            "direct_physical_network": "physnet1",
            "vf_disturb_command": _on_host(
                *("ip", "link", "set", "{pf}", "vf", "{index}"),
                *("trust", "on", "mac", "02:00:5e:66:66:66"),
                *("vlan", "299", "qos", "3"),
            ),
            "degrade_command": _on_host(
                "sysctl", "-w", "kernel.sched_rt_runtime_us=950000"
            ),
            "restore_command": _on_host(
                "sysctl", "-w", "kernel.sched_rt_runtime_us=-1"
            ),
        }
    sriov_rt = cloud.env.program("sriov-rt")
    nova = cloud.place.etc / "nova" / "nova.conf"
    return {
        "service_available": {"sriov_rt": True},
        "sriov_rt": {
            "realtime_extra_specs": ",".join(_REALTIME),
            "server_ram": _SIZES[FLAVOR]["ram"],
            "bare_image_ref": cloud.api.image.find_image(
                seed.SATA_IMAGE, ignore_missing=False
            ).id,
            "guest_kernel_arguments": (
                f"{guest_image.ADDRESS}={{address}} "
                f"{guest_image.PEER}={{peer}}"
            ),
            "guest_reached": guest_image.REACHED,
            "domain_xml_command": _on_host("virsh", "dumpxml", "{name}"),
            "vf_list_command": _on_host(sriov_rt, "vf", "list", "--json"),
            "explain_command": shlex.join(
                (
                    "env",
                    *(f"{k}={v}" for k, v in _client(cloud).items()),
                    sriov_rt,
                    "explain",
                    f"--config-file={nova}",
                    "--json",
                    "--flavor={flavor}",
                )
            ),
            "facts_timeout": _FACTS_SECONDS,
            "guest_timeout": _GUEST_SECONDS,
            **rt_only,
        },
        "sriov_rt-feature-enabled": {
            "realtime": realtime,
            "cold_migration": False,
            "live_migration": False,
        },
    }


def _client(cloud: Cloud) -> dict[str, str]:
    return {**settings.client_environment(), "PYTHONWARNINGS": "ignore"}


def _on_host(*command: str, stdin: bool = False) -> str:
    """Return a command template that runs a program on {host}.

    :param command: the program and its arguments.
    :param stdin: whether it reads its standard input.
    """
    words: Sequence[str] = (
        *("env", f"PYTHONPATH={paths.CHECKOUT}"),
        *(sys.executable, "-m", "tests.testbed", "exec"),
        *(("--stdin",) if stdin else ()),
        *("{host}", "--"),
        *command,
    )
    return " ".join(words)


def _extensions(api: Connection) -> list[str]:
    """Return the extensions that Neutron has."""
    return sorted(each.alias for each in api.network.extensions())


def _flavor(api: Connection, name: str) -> str:
    found = api.compute.find_flavor(name)
    return found.id if found else seed.flavor(api, name, _SIZES[name], {})


def _public_network(api: Connection) -> str:
    found = api.network.find_network(PUBLIC_NETWORK)
    if found is None:
        found = api.network.create_network(
            name=PUBLIC_NETWORK,
            is_router_external=True,
            provider_network_type="local",
        )
        api.network.create_subnet(
            network_id=found.id,
            ip_version=4,
            cidr=_PUBLIC_SUBNET,
            is_dhcp_enabled=False,
        )
    return str(found.id)
