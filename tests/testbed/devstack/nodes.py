# SPDX-License-Identifier: Apache-2.0

"""The nodes of the test cloud, as our DevStack plugin configures them.

The test bed writes what is OpenStack's in their files; what is sriov-rt's is
written by the phases post-config and extra.
"""

import pathlib
import re
from collections.abc import Mapping
from collections.abc import Sequence

from tests.testbed import devstack
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import programs
from tests.testbed import python_env
from tests.testbed import settings

#: Nova's own default (nova/conf/scheduler.py).
_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
_INTERVAL_S = "5"

#: What goes from the configuration: ours, and nothing but ours.
_OURS = (
    (r"(?m)^available_filters = sriov_rt\..*\n", ""),
    (r",RealtimeSriovFilter\b", ""),
    (r",sriov_rt\.nova\.weights\.all_weighers", ""),
    (
        r"(?m)^compute_driver = sriov_rt\..*$",
        "compute_driver = libvirt.LibvirtDriver",
    ),
    (r"(?m)^mechanism_drivers = sriov_rt,", "mechanism_drivers = "),
)


def configure_controller(
    place: paths.Paths, env: python_env.PythonEnv
) -> None:
    """Add what is ours to the files of nova-scheduler and neutron-server.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack.
    :raises errors.TestbedError: when a phase fails.
    """
    # Without "key": Keystone is not up yet, and the databases have the user.
    node = _node(
        place,
        env,
        "controller",
        services=("n-sch", "q-svc"),
        variables={
            "NOVA_CONF": place.etc / "nova" / "nova.conf",
            "NOVA_FILTERS": ",".join(_FILTERS),
            # The last one is for the networks of projects (neutron_tap).
            "Q_ML2_PLUGIN_MECHANISM_DRIVERS": "sriovnicswitch,testbed_tap",
            "Q_PLUGIN_CONF_FILE": place.etc / "neutron" / "ml2_conf.ini",
            # Eight heartbeats of the agents; a test waits for it to pass.
            "SRIOV_RT_FACTS_MAX_AGE": "40",
        },
    )
    node.run(
        devstack.POST_CONFIG,
        environment=programs.environment(place, env),
    )


def make_flavors(place: paths.Paths, env: python_env.PythonEnv) -> None:
    """Make the flavors of a DevStack with sriov-rt, in the size of a test.

    :param place: the directories of the cloud, whose Nova answers.
    :param env: the environment with OpenStack.
    :raises errors.TestbedError: when a phase fails.
    """
    node = _node(
        place,
        env,
        "flavors",
        services=("n-api",),
        variables={
            "SRIOV_RT_FLAVOR_VCPUS": "1",
            "SRIOV_RT_FLAVOR_RAM": "128",
            "SRIOV_RT_FLAVOR_DISK": "0",
        },
    )
    clouds = node.directory / "clouds.yaml"
    clouds.parent.mkdir(parents=True, exist_ok=True)
    clouds.write_text(_clouds())
    node.run(
        devstack.EXTRA,
        environment={
            **programs.environment(place, env),
            "OS_CLIENT_CONFIG_FILE": str(clouds),
        },
    )


def configure_host(
    place: paths.Paths,
    env: python_env.PythonEnv,
    name: str,
    *,
    nova: pathlib.Path,
    own: pathlib.Path,
    variables: Mapping[str, str | pathlib.Path] | None = None,
    services: Sequence[str] = (),
) -> None:
    """Add what is ours to the files of a compute host, and write our own.

    :param place: the directories of the cloud.
    :param env: the environment with OpenStack.
    :param name: the host, and its hypervisor.
    :param nova: the nova.conf of its nova-compute.
    :param own: the directory of sriov-rt's files.
    :param variables: those of local.conf that are its own.
    :param services: DevStack's names of what else runs on it.
    :raises errors.TestbedError: when a phase fails.
    """
    node = _node(
        place,
        env,
        name,
        services=("n-cpu", *services),
        variables={
            "NOVA_CONF": nova,
            "NOVA_CPU_CONF": nova,
            "SRIOV_RT_CONF_DIR": own,
            "SRIOV_RT_HEARTBEAT_INTERVAL": _INTERVAL_S,
            "SRIOV_RT_NODE": name,
            # Half of the default: tests wait for changes to be seen.
            "SRIOV_RT_OBSERVE_INTERVAL": _INTERVAL_S,
            **(variables or {}),
        },
    )
    node.run(
        devstack.POST_CONFIG,
        environment=programs.environment(place, env),
    )


def without_ours(text: str) -> str:
    """Return a configuration file without sriov-rt.

    :param text: one of Nova's or Neutron's files.
    """
    for pattern, replacement in _OURS:
        text = re.sub(pattern, replacement, text)
    return text


def _node(
    place: paths.Paths,
    env: python_env.PythonEnv,
    name: str,
    *,
    services: Sequence[str],
    variables: Mapping[str, str | pathlib.Path],
) -> devstack.Node:
    directory = place.data / "devstack" / name
    every: dict[str, str | pathlib.Path] = {
        "DATA_DIR": directory,
        "DEVSTACK_TRANSPORT_URL": settings.TRANSPORT_URL,
        "ENABLE_DEBUG_LOG_LEVEL": "False",
        "DEVSTACK_VENV": env.root,
        "ENABLED_SERVICES": ",".join(services),
        "KEYSTONE_SERVICE_URI": network.url("keystone") + "/v3",
        "LIBVIRT_TYPE": "qemu",
        "REGION_NAME": settings.REGION,
        "SERVICE_DOMAIN_NAME": "Default",
        "SERVICE_PASSWORD": settings.PASSWORD,
        "SERVICE_PROJECT_NAME": "service",
        # The machine itself gets none: the agents keep no labels over a
        # restart, and nova-compute leaves those to the scheduler's filter.
        "SRIOV_RT_LIB_DIR": directory / "lib",
        "SRIOV_RT_PHYSICAL_NETWORKS": ",".join(
            (settings.POOL_NETWORK, settings.WIRE_NETWORK)
        ),
        "STACK_USER": "root",
        "SYSTEMD_DIR": directory / "units",
        "VIRT_DRIVER": "libvirt",
        **variables,
    }
    return devstack.Node(
        directory, {key: str(value) for key, value in every.items()}
    )


def _clouds() -> str:
    return f"""\
clouds:
  devstack-admin:
    auth:
      auth_url: {network.url("keystone")}/v3
      username: admin
      password: {settings.PASSWORD}
      project_name: admin
      user_domain_id: default
      project_domain_id: default
    region_name: {settings.REGION}
    identity_api_version: "3"
"""
