# SPDX-License-Identifier: Apache-2.0

"""The compute driver's socket: which driver a running nova-compute has.

Our driver binds an abstract Unix socket, to which nobody connects. The kernel
lists it exactly while the process lives. So it needs no shared directory,
leaves nothing after a crash or a reboot, and shows the process, not its
configuration file. Every process in the host's network namespace sees it, also
in a container. It proves nothing against somebody who runs programs on the
host itself, and need not.
"""

import dataclasses
import hashlib
import secrets
import socket

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

#: The kernel's list: a line for each Unix socket (unix_seq_show in
#: net/unix/af_unix.c), an abstract name after an @. Below the root of a
#: container it is init's, whose network is the host's.
SOCKETS = "proc/net/unix"
SOCKETS_OF_INIT = "proc/1/net/unix"

#: The longest list that is read, in bytes; a line has about 80.
_MAX_LIST = 16 * 1024 * 1024

#: sun_path is 108 bytes long.
_MAX_VERSION = 40


#: Prefix of the names of all such sockets.
_PREFIX = "sriov-rt/nova-compute/"


@dataclasses.dataclass(frozen=True, slots=True)
class Driver:
    """Our driver in a running nova-compute.

    :param virt_type: ``[libvirt] virt_type``; empty from older releases.
    """

    version: str
    virt_type: str


def prefix(host: str) -> str:
    """Return the prefix of the names of a host's sockets.

    It is a digest: Nova's name of a host may be too long for a socket.
    """
    digest = hashlib.sha256(host.encode()).hexdigest()[:16]
    return f"{_PREFIX}{digest}/"


def bind(host: str, driver: Driver) -> socket.socket:
    """Bind the socket of this process, a nova-compute with our driver.

    :param host: Nova's name of the host.
    :returns: the socket; the kernel drops it at the end of the process.
    :raises OSError: if the kernel does not bind it.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        # A nova-compute may start before the last one has ended.
        number = secrets.token_hex(4)
        version = driver.version[:_MAX_VERSION]
        name = f"{prefix(host)}{version}/{driver.virt_type}/{number}"
        bound.bind(b"\0" + name.encode())
    except OSError:
        bound.close()
        raise
    return bound


def observe(root: Root, host: str) -> Driver | None | Unknown:
    """Return our driver in the running nova-compute.

    :param host: Nova's name of the host.
    :returns: None if no nova-compute with our driver runs.
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
    """Return whether such a nova-compute runs under another host name."""
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
