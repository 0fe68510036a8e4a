# SPDX-License-Identifier: Apache-2.0

"""VFIO devices and the processes that hold them, from ``/proc/*/fd``."""

import itertools
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

PROC = "proc"

#: The devices are /dev/vfio/<group>, and with iommufd (Linux 6.6)
#: /dev/vfio/devices/<name> (Documentation/driver-api/vfio.rst).
VFIO = "/dev/vfio/"

#: The longest command line read, in bytes; that of a guest of Nova's with 64
#: devices has about 30 kB.
MAX_COMMAND_LINE = 1024 * 1024


class Holders:
    """Processes that hold VFIO devices; looked up once, at the first call."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._found: dict[str, str] | None = None
        self._hidden: Unknown | None = None

    def of(
        self, device: str, group: int | None | Unknown
    ) -> str | None | Unknown:
        """Return the process that holds a device; None if none does.

        :param device: directory of the PCI device.
        :returns: such as ``pid 1234 qemu-system-x86 guest=instance-00000001``;
            unknown if it may be a process that cannot be inspected.
        """
        if self._found is None:
            self._found = dict(self._scan())
        directory, hidden = f"{device}/vfio-dev", self._hidden
        nodes = self._root.list_dir(directory)
        if isinstance(nodes, Unknown):
            # Before Linux 6.1, or without a driver of VFIO, there is none.
            if self._root.exists(directory) is not False:
                hidden = nodes
            nodes = ()
        for node in (str(group), *(f"devices/{name}" for name in nodes)):
            if node in self._found:
                return self._found[node]
        return hidden

    def _scan(self) -> Iterator[tuple[str, str]]:
        processes = self._root.list_dir(PROC)
        if isinstance(processes, Unknown):
            self._hidden = processes
            return
        for pid in processes:
            if not (pid.isascii() and pid.isdigit()):
                continue
            directory = f"{PROC}/{pid}/fd"
            files = self._root.list_dir(directory)
            if isinstance(files, Unknown):
                # It has ended, or is another user's.
                if self._root.exists(f"{PROC}/{pid}") is not False:
                    self._hidden = files
                continue
            for file in files:
                target = self._root.read_link(f"{directory}/{file}")
                if isinstance(target, Unknown):
                    # Listing them needs fewer privileges than reading
                    # (ptrace(2)).
                    self._hidden = target
                elif target is not None and target.startswith(VFIO):
                    yield target.removeprefix(VFIO), self._name(pid)

    def _name(self, pid: str) -> str:
        parts = [f"pid {pid}"]
        comm = self._root.read_text(f"{PROC}/{pid}/comm")
        if not isinstance(comm, Unknown):
            parts.append(comm.strip())
        text = self._root.read_text(f"{PROC}/{pid}/cmdline", MAX_COMMAND_LINE)
        if not isinstance(text, Unknown):
            parts.extend(_guest(text.split("\0")))
        return " ".join(parts)


def _guest(arguments: list[str]) -> Iterator[str]:
    """Yield ``guest=NAME`` of QEMU's ``-name guest=NAME,debug-threads=on``."""
    for option, value in itertools.pairwise(arguments):
        if option == "-name":
            # QEMU's options double a comma in a value.
            whole = value.replace(",,", "\0").split(",")[0]
            name = whole.replace("\0", ",").removeprefix("guest=")
            yield f"guest={name}"
            return
