# SPDX-License-Identifier: Apache-2.0

"""Processes of libvirt's running guests, from its status files.

libvirt's drivers keep a status file of each running domain; its root element
has the process. Only root has access to the files, so no guest can forge them.
"""

import re
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

#: Directories of the files: LXC_STATE_DIR of libvirt's src/lxc/lxc_conf.h, and
#: stateDir of its src/qemu/qemu_conf.c.
CONTAINERS = "run/libvirt/lxc"
MACHINES = "run/libvirt/qemu"
SUFFIX = ".xml"

#: The ``comm`` of the process that keeps a container.
KEEPER = "libvirt_lxc"

#: Root element of such a file: the state and the process.
STATUS = re.compile(r"<domstatus [^<>]*\bpid='([0-9]{1,7})'[^<>]*>")

#: Bytes that include the root element: a comment of 300 precedes it.
_HEAD = 4096

#: Bytes of a command line that include ``-name guest=``, QEMU's first
#: argument.
_COMMAND_HEAD = 4096


def observe(root: Root) -> Mapping[int, bool] | Unknown:
    """Return the process of each guest, and whether it keeps a container.

    :returns: unknown if a file of libvirt cannot be read.
    """
    found = {}
    for directory in (MACHINES, CONTAINERS):
        names = root.list_dir(directory)
        if isinstance(names, Unknown):
            if root.exists(directory) is False:
                continue  # that driver has run nothing since the boot
            return names
        is_container = directory == CONTAINERS
        for name in names:
            if not name.endswith(SUFFIX):
                continue
            head = _head(root, f"{directory}/{name}", _HEAD)
            if isinstance(head, Unknown):
                if root.exists(f"{directory}/{name}") is False:
                    continue  # it has ended
                return head
            status = STATUS.search(head)
            domain = name.removesuffix(SUFFIX)
            if status and _runs(root, int(status[1]), domain, is_container):
                found[int(status[1])] = is_container
    return found


def _runs(root: Root, process: int, domain: str, is_container: bool) -> bool:
    # A killed libvirtd leaves its files, and process ids are reused.
    if is_container:
        text = root.read_text(f"proc/{process}/comm")
        return isinstance(text, str) and text.strip() == KEEPER
    head = _head(root, f"proc/{process}/cmdline", _COMMAND_HEAD)
    if isinstance(head, Unknown):
        return root.exists(f"proc/{process}") is not False
    return domain in head


def _head(root: Root, path: str, length: int) -> str | Unknown:
    """Return the first bytes of a file as text."""
    stream = root.open_file(path)
    if isinstance(stream, Unknown):
        return stream
    with stream:
        try:
            return stream.read(length).decode(errors="replace")
        except OSError as error:
            return Unknown(f"/{path}: {error.strerror}")
