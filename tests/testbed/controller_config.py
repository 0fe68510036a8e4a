# SPDX-License-Identifier: Apache-2.0

"""Configuration of Keystone, Placement, Glance and Neutron."""

import pathlib
import shutil

from tests.testbed import ini
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed import settings


def write(place: paths.Paths, env: python_env.PythonEnv) -> None:
    """Write the files of all four.

    :param place: the directories of the cloud.
    :param env: the environment whose paste files are used.
    """
    ini.write(place.etc / "keystone" / "keystone.conf", _keystone(place))
    ini.write(place.etc / "placement" / "placement.conf", _placement())
    ini.write(place.etc / "glance" / "glance-api.conf", _glance(place))
    shutil.copy2(
        env.etc / "glance" / "glance-api-paste.ini", place.etc / "glance"
    )
    sections = neutron(
        env, state=place.data / "neutron", host=network.CONTROLLER
    )
    ini.write(place.etc / "neutron" / "neutron.conf", sections)
    ini.write(place.etc / "neutron" / "ml2_conf.ini", _ml2())


def _keystone(place: paths.Paths) -> dict[str, ini.Section]:
    fernet = place.data / "keystone" / "fernet-keys"
    return {
        "DEFAULT": {"log_file": place.log / "keystone.log"},
        "database": settings.database("keystone"),
        "fernet_tokens": {"key_repository": fernet},
        "fernet_receipts": {"key_repository": fernet},
        "credential": {
            "key_repository": place.data / "keystone" / "credential-keys"
        },
        "token": {"provider": "fernet", "expiration": 86400},
        # The least that bcrypt accepts: strong hashes take seconds here.
        "identity": {"password_hash_rounds": 4},
    }


def _placement() -> dict[str, ini.Section]:
    return {
        "api": {"auth_strategy": "keystone"},
        "placement_database": settings.database("placement"),
        "keystone_authtoken": settings.credentials("placement"),
    }


def _glance(place: paths.Paths) -> dict[str, ini.Section]:
    staging = place.data / "glance-staging"
    return {
        "DEFAULT": {
            "log_file": place.log / "glance.log",
            "enabled_backends": "local:file",
            "node_staging_uri": f"file://{staging}",
        },
        "glance_store": {"default_backend": "local"},
        "local": {"filesystem_store_datadir": place.data / "glance"},
        "os_glance_staging_store": {"filesystem_store_datadir": staging},
        "os_glance_tasks_store": {
            "filesystem_store_datadir": place.data / "glance-tasks"
        },
        "database": settings.database("glance"),
        "keystone_authtoken": settings.credentials("glance"),
        "paste_deploy": {
            "flavor": "keystone",
            "config_file": place.etc / "glance" / "glance-api-paste.ini",
        },
    }


def neutron(
    env: python_env.PythonEnv, *, state: pathlib.Path, host: str
) -> dict[str, ini.Section]:
    """Return the configuration of a Neutron server or agent.

    :param env: the environment whose paste file is used.
    :param state: its state directory.
    :param host: the name of the host that it runs on.
    """
    return {
        "DEFAULT": {
            "core_plugin": "ml2",
            "service_plugins": "router,qos,placement,segments,tag",
            "auth_strategy": "keystone",
            "transport_url": settings.TRANSPORT_URL,
            "state_path": state,
            "api_paste_config": env.etc / "neutron" / "api-paste.ini",
            "notify_nova_on_port_status_changes": True,
            "notify_nova_on_port_data_changes": True,
            "rpc_workers": 1,
            "rpc_state_report_workers": 0,
            "api_workers": 1,
            "host": host,
        },
        "database": settings.database("neutron"),
        "keystone_authtoken": settings.credentials("neutron"),
        "nova": settings.credentials("nova"),
        "placement": settings.credentials("placement"),
        "oslo_concurrency": {"lock_path": state / "lock"},
        # Everything runs as root, so no helper is needed.
        "agent": {"root_helper": "", "report_interval": 10},
    }


def _ml2() -> dict[str, ini.Section]:
    ranges = ",".join(
        f"{name}:{first}:{last}"
        for name, (first, last) in settings.PHYSICAL_NETWORKS.items()
    )
    return {
        "ml2": {
            "type_drivers": "flat,vlan,local",
            "project_network_types": "local",
            "extension_drivers": "port_security,qos",
        },
        "ml2_type_flat": {
            "flat_networks": ",".join(settings.PHYSICAL_NETWORKS)
        },
        "ml2_type_vlan": {"network_vlan_ranges": ranges},
        "securitygroup": {
            "enable_security_group": True,
            "firewall_driver": "noop",
        },
    }
