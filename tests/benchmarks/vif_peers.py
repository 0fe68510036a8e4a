# SPDX-License-Identifier: Apache-2.0

"""Who else makes a macvlan in a namespace: CNI, ip(8), and netlink alone."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from collections.abc import Iterable
from typing import Self

from pyroute2 import IPRoute

from sriov_rt.kernel import namespaces
from sriov_rt.kernel import rtnetlink

#: Debian's, with the macvlan plugin in PLUGINS.
PACKAGES = ("containernetworking-plugins", "iproute2")
PLUGINS = "/usr/lib/cni"


def name(number: int) -> str:
    """Return the name of a port's interface."""
    return f"srt{number}"


def mac(number: int) -> str:
    """Return the MAC of a port."""
    return f"02:00:5e:20:{number >> 8 & 255:02x}:{number & 255:02x}"


def _alias(number: int) -> str:
    return f"bench:{number:0>60}"


class Pyroute:
    """The same calls as one makes them with pyroute2, sockets reused.

    Its sockets belong to the thread that made them, so that all is done
    there, one after the other.
    """

    def __init__(
        self,
        parent: str,
        numbers: Iterable[int],
        namespace: Callable[[int], str],
    ) -> None:
        self._stack = contextlib.ExitStack()
        self._own = self._stack.enter_context(IPRoute())
        self._parent = self._own.link_lookup(ifname=parent)[0]
        self._places: dict[int, tuple[IPRoute, int]] = {}
        for number in numbers:
            name = namespace(number)
            file = self._stack.enter_context(namespaces.opened(name))
            inside = namespaces.inside(file, rtnetlink.open_socket)
            there = self._stack.enter_context(rtnetlink.conversation(inside))
            self._places[number] = (there, file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, number: int) -> None:
        """Make it, set its alias and it up, and read that."""
        there, file = self._places[number]
        self._own.link(
            "add",
            ifname=name(number),
            kind="macvlan",
            link=self._parent,
            macvlan_mode="bridge",
            address=mac(number),
            net_ns_fd=file,
        )
        (made,) = there.link("get", ifname=name(number))
        there.link(
            "set", index=made["index"], ifalias=_alias(number), state="up"
        )

    def delete(self, number: int) -> None:
        """Find and delete it."""
        there, _ = self._places[number]
        (found,) = there.link("get", ifname=name(number))
        there.link("del", index=found["index"])


def ip_add(parent: str, number: int, namespace: str) -> None:
    """Make it by ip(8), which sets an alias and what is up apart."""
    _run(
        "ip",
        "link",
        "add",
        "link",
        parent,
        "name",
        name(number),
        "netns",
        namespace,
        "address",
        mac(number),
        "type",
        "macvlan",
        "mode",
        "bridge",
    )
    _run(
        "ip",
        "-n",
        namespace,
        "link",
        "set",
        name(number),
        "alias",
        _alias(number),
        "up",
    )


def ip_delete(number: int, namespace: str) -> None:
    """Delete it by ip(8)."""
    _run("ip", "-n", namespace, "link", "del", name(number))


def cni(command: str, parent: str, number: int, namespace: str) -> None:
    """Let the plugin do it as a container runtime does.

    :param command: ADD or DEL.
    """
    config = {
        "cniVersion": "0.4.0",
        "name": "bench",
        "type": "macvlan",
        "master": parent,
        "mode": "bridge",
        "ipam": {},
    }
    environment = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": f"bench{number}",
        "CNI_NETNS": f"/run/netns/{namespace}",
        "CNI_IFNAME": name(number),
        "CNI_PATH": PLUGINS,
        "PATH": os.environ["PATH"],
    }
    subprocess.run(
        (f"{PLUGINS}/macvlan",),
        input=json.dumps(config).encode(),
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
