# SPDX-License-Identifier: Apache-2.0

"""Kernel events of devices that come and go.

sysfs sends no inotify events; the kernel announces devices on a netlink
socket instead (netlink(7), NETLINK_KOBJECT_UEVENT; lib/kobject_uevent.c).
"""

import errno
import logging
import socket
import threading
from collections.abc import Callable

from sriov_rt import exceptions

LOG = logging.getLogger(__name__)

#: NETLINK_KOBJECT_UEVENT, and the group of the kernel's own messages
#: (include/uapi/linux/netlink.h; group 2 is udev's).
NETLINK_KOBJECT_UEVENT = 15
KERNEL_GROUP = 1

#: The subsystems whose devices are facts: NICs and VFs, CPUs that go on and
#: offline, modules, and the device nodes of VFIO, KVM and Onload.
SUBSYSTEMS = frozenset({"cpu", "misc", "module", "net", "pci", "vfio"})

#: A message takes at most UEVENT_BUFFER_SIZE (2048) plus its header.
BUFFER_SIZE = 8192

#: Seconds between two checks whether the thread should end.
POLL_S = 1.0


def subsystem(message: bytes) -> str | None:
    """Return the subsystem that an event comes from.

    :param message: ``ACTION@DEVPATH``, then ``KEY=VALUE`` items, each ended
        by a zero byte.
    :returns: None for a message in another form.
    """
    for field in message.split(b"\0")[1:]:
        key, _, value = field.partition(b"=")
        if key == b"SUBSYSTEM":
            return value.decode("ascii", "replace")
    return None


def open_socket() -> socket.socket:
    """Return a socket that receives the kernel's events.

    :raises OSError: if the kernel or a sandbox refuses it.
    """
    found = socket.socket(
        socket.AF_NETLINK,
        socket.SOCK_DGRAM | socket.SOCK_CLOEXEC,
        NETLINK_KOBJECT_UEVENT,
    )
    try:
        found.bind((0, KERNEL_GROUP))
        found.settimeout(POLL_S)
    except OSError:
        found.close()
        raise
    return found


class Uevents:
    """Call a function when a device comes, goes or changes.

    :param changed: called once per event; often, when a driver is loaded.
    :param opener: returns the socket.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        opener: Callable[[], socket.socket] = open_socket,
    ) -> None:
        self._changed = changed
        self._opener = opener
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="uevents", daemon=True
        )

    def start(self) -> None:
        """Start to listen, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, within :data:`POLL_S`."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            with self._opener() as events:
                while not self._stopping.is_set():
                    if receive(events):
                        self._changed()
        except OSError as error:
            LOG.warning(
                "the kernel's device events cannot be read (%s); changes "
                "are seen at the next [agent] observe_interval. Allow "
                "AF_NETLINK sockets to sriov-rt-agent",
                exceptions.plain(error),
            )


def receive(events: socket.socket) -> bool:
    """Wait for an event and return whether it may change a fact.

    :param events: a socket with a timeout, which counts as no event.
    :raises OSError: if the socket has become unusable.
    """
    try:
        message, (sender, _groups) = events.recvfrom(BUFFER_SIZE)
    except TimeoutError:
        return False
    except OSError as error:
        if error.errno == errno.ENOBUFS:
            # The socket's buffer overflowed, so some events were lost.
            return True
        raise
    # Only port 0 is the kernel: any process may send to the group.
    return sender == 0 and subsystem(message) in SUBSYSTEMS
