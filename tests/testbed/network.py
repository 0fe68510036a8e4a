# SPDX-License-Identifier: Apache-2.0

"""The cloud's network: a bridge, a wire to each host, standard ports."""

import pathlib
import socket
import subprocess
import urllib.error
import urllib.request

from tests.testbed import paths

#: Host name and address of the control plane and of std-1.
CONTROLLER = "std-1"
CONTROLLER_ADDRESS = "10.99.0.1"
#: Host name and address of the virtual machine.
REALTIME = "rt-1"
REALTIME_ADDRESS = "10.99.0.2"
#: Host name and address of a second one, which joins in tests of moves.
SECOND = "rt-2"
SECOND_ADDRESS = "10.99.0.4"
#: Host name and address of a third one, for a worker of Kubernetes.
WORKERS = "rt-3"
WORKERS_ADDRESS = "10.99.0.5"
#: Host name and address of the namespaces with containers.
CONTAINERS = "lxc-1"
CONTAINERS_ADDRESS = "10.99.0.3"
PREFIX_LENGTH = 24

BRIDGE = "srt0"
#: The machine's ends of the virtual machines' management NICs.
TAPS = {REALTIME: "srt-rt1", SECOND: "srt-rt2", WORKERS: "srt-rt3"}
#: The machine's end of the wire of rt-3's NICs; a test makes it.
OUTLET = "srt-rt3-wire"
#: The controller's end of the cable to lxc-1.
VETH = "srt-lxc1"

#: The ports that the services have in every OpenStack.
PORTS = {
    "mariadb": 3306,
    "rabbitmq": 5672,
    "keystone": 5000,
    "glance": 9292,
    "placement": 8778,
    "nova-api": 8774,
    "neutron": 9696,
    "magnum": 9511,
}

_SECONDS = 60.0


def url(service: str) -> str:
    """Return the URL of an HTTP service.

    :param service: a key of PORTS.
    """
    return f"http://{CONTROLLER_ADDRESS}:{PORTS[service]}"


def listens(service: str) -> bool:
    """Whether something accepts connections on a service's port.

    :param service: a key of PORTS.
    """
    try:
        with socket.create_connection(
            (CONTROLLER_ADDRESS, PORTS[service]), timeout=2
        ):
            return True
    except OSError:
        return False


def answers(service: str, path: str) -> bool:
    """Return whether an HTTP service answers without a server error.

    :param service: a key of PORTS.
    :param path: a path that needs no token.
    """
    # The machine's proxy can't reach the cloud's own network.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(url(service) + path, timeout=_SECONDS).close()
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True


def hosts() -> str:
    """Return the names of all hosts as text for /etc/hosts."""
    return (
        "127.0.0.1 localhost\n"
        f"{CONTROLLER_ADDRESS} {CONTROLLER}\n"
        f"{REALTIME_ADDRESS} {REALTIME}\n"
        f"{SECOND_ADDRESS} {SECOND}\n"
        f"{WORKERS_ADDRESS} {WORKERS}\n"
        f"{CONTAINERS_ADDRESS} {CONTAINERS}\n"
    )


def build(place: paths.Paths) -> None:
    """Make interfaces, addresses and names in new namespaces.

    :param place: the directories of the cloud.
    :raises subprocess.CalledProcessError: when the kernel refuses.
    """
    pathlib.Path("/proc/sys/kernel/hostname").write_text(CONTROLLER)
    names = place.etc / "hosts"
    names.parent.mkdir(parents=True, exist_ok=True)
    names.write_text(hosts())
    _run("mount", "--bind", str(names), "/etc/hosts")
    _ip("link", "set", "lo", "up")
    _ip("link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
    for tap in TAPS.values():
        _ip("tuntap", "add", "dev", tap, "mode", "tap")
        _ip("link", "set", tap, "master", BRIDGE, "up")
    address = f"{CONTROLLER_ADDRESS}/{PREFIX_LENGTH}"
    _ip("address", "add", address, "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")


def lay_cable(process: int, name: str) -> None:
    """Connect another network namespace to the bridge, by VETH.

    :param process: a process in the namespace.
    :param name: name of its new interface.
    :raises subprocess.CalledProcessError: when the kernel refuses.
    """
    if pathlib.Path("/sys/class/net", VETH).exists():
        # An earlier one: the kernel takes a while to remove its namespace.
        _ip("link", "delete", VETH)
    peer = ("peer", "name", name, "netns", str(process))
    _ip("link", "add", VETH, "type", "veth", *peer)
    _ip("link", "set", VETH, "master", BRIDGE, "up")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True, timeout=20)
