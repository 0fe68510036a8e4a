# SPDX-License-Identifier: Apache-2.0

"""Remains of a cloud on the machine after it was taken down."""

import dataclasses
import json
import pathlib

from tests.testbed import loops
from tests.testbed import network
from tests.testbed.cgroups import Hierarchy
from tests.testbed.identity import ProcessId

#: Names of the links in /proc/PID/ns.
_KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "uts")


@dataclasses.dataclass(frozen=True)
class Traces:
    """Traces by which the parts of a cloud are identified later.

    :param namespaces: links of /proc/PID/ns, as in "net:[4026532008]".
    """

    namespaces: frozenset[str]

    @classmethod
    def of(cls, init: ProcessId) -> "Traces":
        """Return the traces of a running cloud.

        :param init: the first process of its namespaces.
        """
        return cls(frozenset(_namespaces(init.pid)))

    def save(self, path: pathlib.Path) -> None:
        """Write them to a file.

        :param path: the file.
        """
        path.write_text(json.dumps(sorted(self.namespaces)))

    @classmethod
    def load(cls, path: pathlib.Path) -> "Traces":
        """Read them back; there are none when there is no file.

        :param path: the file that save() wrote.
        """
        if not path.exists():
            return cls(frozenset())
        return cls(frozenset(json.loads(path.read_text())))


def find(
    traces: Traces,
    groups: tuple[Hierarchy, ...],
    state: pathlib.Path,
    before: int,
) -> list[str]:
    """Return what is left of a cloud, a line for each item.

    :param traces: traces of the cloud.
    :param groups: its control groups.
    :param state: its state directory.
    :param before: clock ticks from boot to the end of the cloud, since the
        kernel reuses the numbers of namespaces.
    """
    found = [
        f"process {pid} in {', '.join(sorted(shared))}"
        for pid, shared in _members(traces, before)
    ]
    found += [f"cgroup {each.own}" for each in groups if _exists(each.own)]
    for line in (
        pathlib.Path("/proc/self/mountinfo")
        .read_text(errors="surrogateescape")
        .splitlines()
    ):
        _, _, _, root, target, *_ = line.split()
        if root in traces.namespaces:
            found.append(f"namespace {root} mounted at {target}")
        if pathlib.PurePath(target).is_relative_to(state):
            found.append(f"mount {target}")
    found += [
        f"interface {name}"
        for name in (network.BRIDGE, *network.TAPS.values(), network.VETH)
        if _exists(f"/sys/class/net/{name}")
    ]
    found += [
        f"{name} of {file}" for name, file in loops.attached(state).items()
    ]
    return found


def _members(traces: Traces, before: int) -> list[tuple[int, set[str]]]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        shared = traces.namespaces.intersection(_namespaces(int(entry.name)))
        if not shared:
            continue
        try:
            process = ProcessId.of(int(entry.name))
        except ProcessLookupError:
            continue
        if process.start_time <= before:
            found.append((process.pid, set(shared)))
    return found


def _namespaces(pid: int) -> list[str]:
    """Return the namespaces of a process that aren't our own."""
    found = []
    for kind in _KINDS:
        try:
            link = str(pathlib.Path(f"/proc/{pid}/ns/{kind}").readlink())
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            # Not even root may inspect some of a container's outer
            # processes; our own processes run as root and can be seen.
            continue
        if link != str(pathlib.Path(f"/proc/self/ns/{kind}").readlink()):
            found.append(link)
    return found


def _exists(path: str) -> bool:
    return pathlib.Path(path).exists()
