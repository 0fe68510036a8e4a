# SPDX-License-Identifier: Apache-2.0

"""The services of OpenStack on std-1, the controller."""

from collections.abc import Mapping

from tests.testbed import network
from tests.testbed import paths
from tests.testbed.service import Service

#: WSGI module and a path that answers without a token, by service.
_WSGI = {
    "keystone": ("keystone.wsgi.api", "/v3"),
    "placement": ("placement.wsgi.api", "/"),
    "glance": ("glance.wsgi.api", "/versions"),
    "neutron": ("neutron.wsgi.api", "/"),
    "nova-api": ("nova.wsgi.osapi_compute", "/"),
}


def interfaces(environment: Mapping[str, str]) -> tuple[Service, ...]:
    """Return the HTTP services, Keystone and Placement first.

    :param environment: their environment.
    """
    return tuple(_wsgi(name, environment) for name in _WSGI)


def workers(
    place: paths.Paths, environment: Mapping[str, str]
) -> tuple[Service, ...]:
    """Return the daemons; Nova's exit if Keystone doesn't answer yet.

    :param place: the directories of the cloud.
    :param environment: what they run with.
    """
    nova = f"--config-file={place.etc / 'nova' / 'nova.conf'}"
    neutron = place.etc / "neutron"
    return (
        *(
            _daemon(
                name, (nova, f"--log-file={place.log / name}.log"), environment
            )
            for name in ("nova-conductor", "nova-scheduler")
        ),
        _daemon(
            "neutron-rpc-server",
            (
                f"--config-file={neutron / 'neutron.conf'}",
                f"--config-file={neutron / 'ml2_conf.ini'}",
                f"--log-file={place.log / 'neutron-rpc-server.log'}",
            ),
            environment,
        ),
    )


def host_services(
    place: paths.Paths, environment: Mapping[str, str]
) -> tuple[Service, ...]:
    """Return what makes std-1 a compute host.

    :param place: the directories of the cloud.
    :param environment: what they run with.
    """
    compute = place.etc / "nova-compute" / "nova.conf"
    agent = place.etc / "sriov_rt" / "sriov-rt.conf"
    return (
        _daemon("nova-compute", (f"--config-file={compute}",), environment),
        _daemon(
            "sriov-rt-agent",
            (
                f"--config-file={agent}",
                f"--log-file={place.log / 'sriov-rt-agent.log'}",
            ),
            environment,
        ),
    )


def _daemon(
    name: str, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> Service:
    return Service(name, (name, *arguments), environment)


def _wsgi(name: str, environment: Mapping[str, str]) -> Service:
    module, path = _WSGI[name]
    address = f"{network.CONTROLLER_ADDRESS}:{network.PORTS[name]}"
    return Service(
        name=name,
        command=(
            "uwsgi",
            f"--http-socket={address}",
            f"--module={module}:application",
            "--master",
            "--die-on-term",
            "--processes=1",
            "--threads=4",
            "--enable-threads",
            "--lazy-apps",
            "--need-app",
            "--buffer-size=65535",
            "--add-header=Connection: close",
            # The default is 4 s: an emulated host takes longer between two
            # reads of an image when its machine is busy.
            "--socket-timeout=60",
        ),
        environment=environment,
        ready=lambda: network.answers(name, path),
    )
