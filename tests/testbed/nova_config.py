# SPDX-License-Identifier: Apache-2.0

"""Configuration of Nova: its control plane, and its compute hosts.

sriov-rt's options in it come from our DevStack plugin (devstack.nodes).
"""

import dataclasses
import pathlib

from tests.testbed import ini
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import settings


@dataclasses.dataclass(frozen=True)
class Host:
    """Properties of one compute host.

    :param name: its name.
    :param address: its address.
    :param state: Nova's state directory on it.
    :param log: Nova's log directory on it.
    :param device_specs: PCI devices that instances may have, as in the
        option device_spec of Nova's section pci.
    :param tb_cache_mb: MiB of translated code that QEMU keeps per instance;
        QEMU's default when 0.
    :param virt_type: "qemu" or "kvm" for virtual machines, "lxc" for
        containers.
    """

    name: str
    address: str
    state: pathlib.Path
    log: pathlib.Path
    device_specs: tuple[str, ...] = ()
    tb_cache_mb: int = 0
    virt_type: str = "qemu"


def controller(place: paths.Paths) -> dict[str, ini.Section]:
    """Return the configuration of API, conductor and scheduler.

    :param place: the directories of the cloud.
    """
    sections = _common(
        network.CONTROLLER,
        network.CONTROLLER_ADDRESS,
        place.data / "nova",
    )
    sections |= {
        "api_database": settings.database("nova_api"),
        "database": settings.database("nova_cell1"),
        "api": {"auth_strategy": "keystone"},
        "keystone_authtoken": settings.credentials("nova"),
        "conductor": {"workers": 1},
        # A test requests more at once than Nova's defaults allow.
        "quota": {"instances": -1, "cores": -1, "ram": -1},
        "scheduler": {
            "workers": 2,
            "discover_hosts_in_cells_interval": 2,
        },
        # Agents of emulated hosts may answer late.
        "sriov_rt": {"warmup_timeout": 50},
    }
    return sections


def compute(host: Host) -> dict[str, ini.Section]:
    """Return the configuration of nova-compute on a host.

    It has no database sections: nova-compute refuses to start with them.

    :param host: the host.
    """
    sections = _common(host.name, host.address, host.state)
    sections["DEFAULT"] = {
        **sections["DEFAULT"],
        # The driver logs each domain as Nova alone would make it.
        "default_log_levels": (
            "amqp=WARN,stevedore=WARN,urllib3.connectionpool=WARN,"
            "nova.virt.libvirt.driver=DEBUG"
        ),
        "compute_driver": "libvirt.LibvirtDriver",
        "log_dir": host.log,
        "instances_path": host.state / "instances",
        "force_config_drive": False,
        # Otherwise containers are mounted through nbd, which a kernel may
        # lack.
        "use_cow_images": host.virt_type != "lxc",
        "reserved_host_memory_mb": 512,
        # Disks are sparse, and rt-1 has a GiB for all of them.
        "disk_allocation_ratio": 8,
        # At its first port the SR-IOV agent of an emulated host starts a
        # privileged helper, which takes minutes if another machine runs.
        "vif_plugging_timeout": 600,
    }
    sections |= {
        "libvirt": {
            "virt_type": host.virt_type,
            # KVM's guests have the host's CPU.
            "cpu_mode": (
                "host-passthrough" if host.virt_type == "kvm" else "none"
            ),
            # Hosts cannot resolve each other's names.
            "live_migration_inbound_addr": host.address,
            **(
                {"tb_cache_size": host.tb_cache_mb} if host.tb_cache_mb else {}
            ),
        },
        "pci": {"device_spec": host.device_specs},
        "vnc": {"enabled": False},
        "spice": {"enabled": False},
        "serial_console": {"enabled": False},
        # Everything runs as root; see programs.write_sudo.
        "workarounds": {"disable_rootwrap": True},
    }
    return sections


def _common(
    name: str, address: str, state: pathlib.Path
) -> dict[str, ini.Section]:
    return {
        "DEFAULT": {
            "host": name,
            "my_ip": address,
            "state_path": state,
            "transport_url": settings.TRANSPORT_URL,
            # Services that are told to stop, stop.
            "graceful_shutdown_timeout": 5,
            # There is only one host of each kind.
            "allow_resize_to_same_host": True,
            "shutdown_timeout": 1,
            # A server that is deleted while RabbitMQ is down may be built
            # nevertheless; Nova's reaper finds it, by default every half
            # hour.
            "running_deleted_instance_poll_interval": 15,
        },
        "service_user": {
            "send_service_user_token": True,
            **settings.credentials("nova"),
        },
        "placement": settings.credentials("placement"),
        "neutron": settings.credentials("neutron"),
        "glance": {"region_name": settings.REGION},
        "cinder": {"auth_type": "password"},
        "oslo_concurrency": {"lock_path": state / "lock"},
    }
