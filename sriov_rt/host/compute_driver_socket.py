# SPDX-License-Identifier: Apache-2.0

"""The socket of the compute driver: which driver a running nova-compute has.

Ours binds an abstract Unix socket, which nobody connects to. The kernel lists
it while the process lives, and no longer: it needs no directory that both can
write, survives no crash and no boot, and holds for the process and not for
its configuration file. Who shares the host's network namespace sees it, in a
container, too. It proves nothing against somebody who runs programs on the
host itself, and need not.
"""

import dataclasses
import hashlib
import secrets
import socket

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

#: What the kernel lists: a line for each Unix socket (unix_seq_show in
#: net/unix/af_unix.c), an abstract one's name after an @. Below the root of
#: a container it is init's, whose network is the host's.
SOCKETS = "proc/net/unix"
SOCKETS_OF_INIT = "proc/1/net/unix"

#: The longest list that is taken, in bytes; a line has about 80.
_MAX_LIST = 16 * 1024 * 1024

#: sun_path is 108 bytes long.
_MAX_VERSION = 40


#: What the names of all such sockets begin with.
_PREFIX = "sriov-rt/nova-compute/"


@dataclasses.dataclass(frozen=True, slots=True)
class Driver:
    """Our driver in the nova-compute that runs.

    :param virt_type: ``[libvirt] virt_type``; empty in releases of before.
    """

    version: str
    virt_type: str


def prefix(host: str) -> str:
    """Return what the names of a host's sockets begin with.

    A digest, for Nova's name of a host may be longer than a socket's name.
    """
    digest = hashlib.sha256(host.encode()).hexdigest()[:16]
    return f"{_PREFIX}{digest}/"


def bind(host: str, driver: Driver) -> socket.socket:
    """Bind the socket of this process, a nova-compute with our driver.

    :param host: as Nova names it.
    :returns: it; the kernel drops it with the process at the latest.
    :raises OSError: if the kernel has no such socket for it.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # One nova-compute may start before the last one has ended.
        number = secrets.token_hex(4)
        version = driver.version[:_MAX_VERSION]
        name = f"{prefix(host)}{version}/{driver.virt_type}/{number}"
        bound.bind(b"\0" + name.encode())
    except OSError:
        bound.close()
        raise
    return bound


def observe(root: Root, host: str) -> Driver | None | Unknown:
    """Return our driver in the nova-compute that runs.

    :param host: as Nova names it.
    :returns: None where no nova-compute with our driver runs.
    """
    names = _listed(root)
    if isinstance(names, Unknown):
        return names
    begin = prefix(host)
    for name in names:
        if name.startswith(begin):
            version, *more = name.removeprefix(begin).split("/")
            return Driver(version or "?", more[0] if len(more) > 1 else "")
    return None


def has_other_names(root: Root, host: str) -> bool:
    """Return whether such a nova-compute runs, but not as this host."""
    names = _listed(root)
    return not isinstance(names, Unknown) and any(
        not name.startswith(prefix(host)) for name in names
    )


def _listed(root: Root) -> list[str] | Unknown:
    """Return the names of all such sockets."""
    path = SOCKETS_OF_INIT if root.is_confined else SOCKETS
    text = root.read_text(path, _MAX_LIST)
    if isinstance(text, Unknown):
        return text
    return [
        _PREFIX + line.partition(f"@{_PREFIX}")[2]
        for line in text.splitlines()
        if f"@{_PREFIX}" in line
    ]
