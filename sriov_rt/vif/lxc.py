# SPDX-License-Identifier: Apache-2.0

"""The lines of an LXC configuration that plug and unplug a port."""

import shlex
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.kernel import namespaces
from sriov_rt.vif.model import Plug

#: A process that always exists, in place of the container's.
NAMESPACE = f"{namespaces.PID}1"

_COMMAND = "sriov-rt vif"

#: LXC's own variable for the container's first process, set before the
#: hook start-host (lxc_spawn in src/lxc/start.c); a shell reads the line.
_CONTAINER = f"{namespaces.PID}$LXC_PID"


def lines(request: Plug, config_files: Sequence[str]) -> list[str]:
    """Return the lines, for LXC 3.0 and later.

    Version 2 of its hooks passes everything in the environment; version 1 adds
    arguments to the command.

    :param request: a checked port; its namespace is the container's.
    """
    config = [f"--config-file={each}" for each in config_files]
    plug = [*config, *_words(request)]
    unplug = [*config, request.port]
    return [
        "# The container has no other network, and not the host's.",
        "lxc.net.0.type = empty",
        "lxc.hook.version = 1",
        f"lxc.hook.start-host = {_COMMAND} plug --json {shlex.join(plug)}"
        f" --namespace={_CONTAINER}",
        f"lxc.hook.post-stop = {_COMMAND} unplug {shlex.join(unplug)}",
    ]


def _words(request: Plug) -> Iterator[str]:
    for option, value in (
        ("port", request.port),
        ("owner", request.owner),
        ("kind", request.kind),
        ("mode", request.mode),
        ("network", request.physical_network),
        ("parent", request.parent),
        ("name", request.name),
        ("mac", request.mac),
        ("vlan", request.vlan or None),
        ("mtu", request.mtu),
        ("out-kbps", request.limits.out_kbps),
        ("in-kbps", request.limits.in_kbps),
        ("numa-node", request.numa_node),
        ("onload", request.network if request.onload else None),
    ):
        if value is not None:
            yield f"--{option}={value}"
    yield from (f"--address={each}" for each in request.addresses)
    yield from (f"--route={to}={by}" for to, by in request.routes)
