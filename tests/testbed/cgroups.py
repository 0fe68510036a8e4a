# SPDX-License-Identifier: Apache-2.0

"""One control group of our own in each hierarchy of the machine.

The cloud's namespaces see them as the roots of the hierarchies, so that
what libvirt makes ends up below them and goes when they go.
"""

import dataclasses
import json
import os
import pathlib
import time
from collections.abc import Iterator

from tests.testbed import errors

#: The version 1 controllers that libvirt uses (src/util/vircgroup.c).
_CONTROLLERS = frozenset(
    ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory")
)
#: New version 1 groups of the cpuset hierarchy are unusable without these.
_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
#: The cloud's CPU shares; a process outside has 1024. By default the whole
#: cloud, including rt-1's emulated CPUs, would count as one such process.
_CPU_SHARES = 4 * 1024


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup file system.

    :param controllers: version 1 controllers; empty for version 2.
    :param own: path of our own group in it, absolute.
    """

    controllers: tuple[str, ...]
    own: str

    @property
    def members(self) -> pathlib.Path:
        """The group that the processes of the cloud are in.

        In version 2 a group with processes can't delegate controllers, so
        they are in a group of their own below.
        """
        own = pathlib.Path(self.own)
        return own if self.controllers else own / "services"


def plan(name: str) -> tuple[Hierarchy, ...]:
    """Choose our groups: below the caller's own, or at the top in version 2.

    If there are version 1 hierarchies, a version 2 one is not used: libvirt
    would then use no other.

    :param name: the name of our groups.
    """
    places = dict(_own_places())
    version1 = []
    version2 = []
    for line in (
        pathlib.Path("/proc/self/mounts")
        .read_text(errors="surrogateescape")
        .splitlines()
    ):
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup":
            found = _CONTROLLERS.intersection(options.split(","))
            if found:
                names = tuple(sorted(found))
                below = places.get(names[0], "/").strip("/")
                own = pathlib.Path(mount, below, name)
                version1.append(Hierarchy(names, str(own)))
        elif kind == "cgroup2":
            own = pathlib.Path(mount, name)
            version2.append(Hierarchy((), str(own)))
    return tuple(version1 or version2[:1])


def _own_places() -> Iterator[tuple[str, str]]:
    for line in (
        pathlib.Path("/proc/self/cgroup")
        .read_text(errors="surrogateescape")
        .splitlines()
    ):
        _, controllers, place = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, place


def make(hierarchies: tuple[Hierarchy, ...]) -> None:
    """Make the groups, usable by any process.

    :param hierarchies: what plan() chose.
    :raises OSError: when one can't be made.
    """
    for hierarchy in hierarchies:
        own = pathlib.Path(hierarchy.own)
        hierarchy.members.mkdir(parents=True, exist_ok=True)
        if "cpuset" in hierarchy.controllers:
            for name in _CPUSET_FILES:
                (own / name).write_text((own.parent / name).read_text())
        if "cpu" in hierarchy.controllers:
            (own / "cpu.shares").write_text(str(_CPU_SHARES))


def join_top(hierarchies: tuple[Hierarchy, ...]) -> None:
    """Move this process to the root of the future cgroup namespace.

    join() has to follow before anything delegates controllers.

    :param hierarchies: what plan() chose and make() made.
    :raises OSError: when a group is gone or refuses us.
    """
    for hierarchy in hierarchies:
        procs = pathlib.Path(hierarchy.own) / "cgroup.procs"
        procs.write_text(str(os.getpid()))


def join(hierarchies: tuple[Hierarchy, ...], pid: int) -> None:
    """Move a process into the groups.

    :param hierarchies: what plan() chose and make() made.
    :param pid: the process, as seen from here.
    :raises OSError: when a group is gone or refuses it.
    """
    for hierarchy in hierarchies:
        (hierarchy.members / "cgroup.procs").write_text(str(pid))


def remove(hierarchies: tuple[Hierarchy, ...]) -> None:
    """Remove the groups and all below them.

    :param hierarchies: what plan() chose.
    :raises errors.TestbedError: when one is still in use after 5 s.
    """
    deadline = time.monotonic() + 5
    while True:
        left = [each for each in hierarchies if not _removed(each)]
        if not left:
            return
        if time.monotonic() > deadline:
            names = ", ".join(each.own for each in left)
            raise errors.TestbedError(f"cgroups still in use: {names}")
        time.sleep(0.1)


def _removed(hierarchy: Hierarchy) -> bool:
    for directory, _, _ in os.walk(hierarchy.own, topdown=False):
        try:
            pathlib.Path(directory).rmdir()
        except OSError:
            # Busy until the kernel has finished the last exit; the caller
            # tries again.
            return False
    return not pathlib.Path(hierarchy.own).exists()


def save(hierarchies: tuple[Hierarchy, ...], path: pathlib.Path) -> None:
    """Write the choice to a file.

    :param hierarchies: what plan() chose.
    :param path: the file.
    """
    path.write_text(
        json.dumps([dataclasses.asdict(each) for each in hierarchies])
    )


def load(path: pathlib.Path) -> tuple[Hierarchy, ...]:
    """Read the choice back; empty when there is no file.

    :param path: the file that save() wrote.
    """
    if not path.exists():
        return ()
    return tuple(
        Hierarchy(tuple(each["controllers"]), each["own"])
        for each in json.loads(path.read_text())
    )
