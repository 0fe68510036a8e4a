# SPDX-License-Identifier: Apache-2.0

"""The namespaces of the compute host lxc-1: network, mounts, host name.

Started in new namespaces, this program makes a host of them; they last as long
as it runs. The process namespace is the cloud's, so its end stops them all.
"""

import os
import pathlib
import signal
import stat
import subprocess

from tests.testbed import network
from tests.testbed import paths
from tests.testbed import supervisor

#: The host's own copies of /etc and of libvirt's directories, below the
#: data directory of the cloud.
OWN = network.CONTAINERS
#: File that exists once the host is ready.
READY = f"{network.CONTAINERS}/host.ready"

#: Parents of ports. The machine has no SR-IOV NIC, so each parent is one end
#: of a veth whose other end is on a bridge, which stands for the wire.
PARENTS = ("fast0", "fast1")
_WIRE = "wire0"

#: Nodes of /dev: type, rights, major and minor number
#: (Documentation/admin-guide/devices.txt of Linux).
_NODES = {
    "null": (stat.S_IFCHR | 0o666, 1, 3),
    "zero": (stat.S_IFCHR | 0o666, 1, 5),
    "full": (stat.S_IFCHR | 0o666, 1, 7),
    "random": (stat.S_IFCHR | 0o666, 1, 8),
    "urandom": (stat.S_IFCHR | 0o666, 1, 9),
    "tty": (stat.S_IFCHR | 0o666, 5, 0),
    "fuse": (stat.S_IFCHR | 0o600, 10, 229),
    "loop-control": (stat.S_IFCHR | 0o600, 10, 237),
}
#: Number of loop devices; the kernel takes the machine's next free one.
_LOOPS = 32
_LINKS = {
    "fd": "/proc/self/fd",
    "ptmx": "pts/ptmx",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}


def etc(place: paths.Paths) -> pathlib.Path:
    """Return the directory with the host's own files of /etc.

    :param place: the directories of the cloud.
    """
    return place.data / OWN / "etc"


def libvirt(place: paths.Paths) -> pathlib.Path:
    """Return the directory with the host's own directories of libvirt.

    :param place: the directories of the cloud.
    """
    return place.data / OWN / "libvirt"


def make(place: paths.Paths) -> None:
    """Make a host of the namespaces that we are in.

    :param place: the directories of the cloud.
    :raises subprocess.CalledProcessError: when the kernel refuses.
    """
    pathlib.Path("/proc/sys/kernel/hostname").write_text(network.CONTAINERS)
    _mount_system()
    _mount_etc(place)
    _mount_dev()
    _ip("link", "set", "lo", "up")
    _ip("link", "add", _WIRE, "type", "bridge", "forward_delay", "0")
    _ip("link", "set", _WIRE, "up")
    for parent in PARENTS:
        end = f"{parent}-wire"
        _ip("link", "add", parent, "type", "veth", "peer", "name", end)
        _ip("link", "set", end, "master", _WIRE, "up")
        _ip("link", "set", parent, "up")


def _mount_system() -> None:
    """Mount a /sys of the network namespace, and an empty /run."""
    groups = "/sys/fs/cgroup"
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for name in ("lock", "libvirt", "netns", "groups"):
        pathlib.Path("/run", name).mkdir()
    _run("mount", "--move", groups, "/run/groups")
    # The machine's own /sys is below the cloud's: libvirt finds its cgroups in
    # /proc/mounts and regards them as reachable.
    while pathlib.Path("/sys").is_mount():
        _run("umount", "--recursive", "--lazy", "/sys")
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    _run("mount", "--move", "/run/groups", groups)


def _mount_etc(place: paths.Paths) -> None:
    work = place.data / OWN / "work"
    etc(place).mkdir(parents=True, exist_ok=True)
    work.mkdir(exist_ok=True)
    layers = f"lowerdir=/etc,upperdir={etc(place)},workdir={work}"
    _run("mount", "-t", "overlay", "-o", layers, "overlay", "/etc")
    for name, target in supervisor.LIBVIRT_DIRECTORIES.items():
        source = libvirt(place) / name
        source.mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", str(source), target)


def _mount_dev() -> None:
    """Mount the host's own /dev: the machine's is not for tests."""
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "dev", "/dev")
    before = os.umask(0)
    dev = pathlib.Path("/dev")
    for name, (mode, major, minor) in _NODES.items():
        os.mknod(dev / name, mode, os.makedev(major, minor))
    for number in range(_LOOPS):
        device = os.makedev(7, number)
        os.mknod(dev / f"loop{number}", stat.S_IFBLK | 0o600, device)
    os.umask(before)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    options = "newinstance,ptmxmode=0666,mode=620,gid=5"
    _run("mount", "-t", "devpts", "-o", options, "devpts", "/dev/pts")
    _run("mount", "-t", "tmpfs", "-o", "mode=1777", "shm", "/dev/shm")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True, timeout=20)


def main() -> None:
    """Make the host, report that it is ready, and wait for SIGTERM."""
    place = paths.Paths.from_environment()
    make(place)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    (place.run / READY).touch()
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
