# SPDX-License-Identifier: Apache-2.0

"""Container of this process: what it sees of its host, and what it loses.

A service in a container with the host's network makes interfaces on the host.
They outlive the container, so records of them have to, as well.
"""

import functools
import os
import pathlib

#: PROC_PID_INIT_INO (include/linux/proc_ns.h): inode of the process id
#: namespace that the kernel boots with, since Linux 3.8.
INITIAL_PID_NAMESPACE = 0xEFFFFFFC

#: The longest table of mounts that is read, in bytes.
MAX_MOUNTS = 1024 * 1024

#: File systems that engines use as a container's root: Docker, containerd,
#: CRI-O and Podman.
LAYERED = frozenset({"overlay", "fuse.fuse-overlayfs"})

#: Fields of a line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
_POINT = 4
_SEPARATOR = "-"


def sees_host_processes(proc: str = "/proc") -> bool:
    """Return whether /proc names processes by the host's process ids."""
    try:
        found = os.stat(f"{proc}/self/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        # A kernel without such namespaces has only host process ids.
        return True
    return found == INITIAL_PID_NAMESPACE


@functools.lru_cache(maxsize=64)
def ends_with_container(
    directory: pathlib.Path, root: str = "/", proc: str = "/proc"
) -> bool:
    """Return whether a directory is lost when its container is recreated.

    It is if it is on the container's own layer, without a mount of the host or
    a volume. For a missing directory, its nearest existing parent is judged. A
    container whose root is no overlay keeps its files, such as a machine that
    systemd boots in one.

    :param root: mount point of the container's root.
    """
    return (
        _is_contained(root, proc)
        and _file_system(root, proc) in LAYERED
        and _device(directory) == _device(pathlib.Path(root))
    )


def _is_contained(root: str, proc: str) -> bool:
    if not sees_host_processes(proc):
        return True
    try:
        of_init = os.stat(f"{proc}/1/root/")  # noqa: PTH116
        own = os.stat(root)  # noqa: PTH116
    except OSError:
        # Without CAP_SYS_PTRACE process 1 cannot be inspected. A host whose
        # own root is an overlay must not be taken for a container.
        return False
    return (of_init.st_dev, of_init.st_ino) != (own.st_dev, own.st_ino)


def _file_system(point: str, proc: str) -> str | None:
    """Return the type of the last mount at a mount point."""
    try:
        with pathlib.Path(proc, "self/mountinfo").open("rb") as file:
            text = file.read(MAX_MOUNTS).decode(errors="replace")
    except OSError:
        return None
    found = None
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) > _POINT and words[_POINT] == point:
            after = words.index(_SEPARATOR) if _SEPARATOR in words else -1
            if 0 < after < len(words) - 1:
                found = words[after + 1]
    return found


def _device(directory: pathlib.Path) -> int | None:
    for each in (directory, *directory.parents):
        try:
            return each.stat().st_dev
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None
