# SPDX-License-Identifier: Apache-2.0

"""State of Onload in the instances in libvirt's LXC containers.

The owner of a process is never read from inside a container, which sets its
own environment and names. libvirt, as root, records the controller process of
each container (guest.running); all processes in it are descendants of that.
"""

import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import Workload
from sriov_rt.guest import metadata
from sriov_rt.guest import running
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.running import Guest
from sriov_rt.guest.xml import text_of
from sriov_rt.host import guest_processes
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.onload import plan
from sriov_rt.onload import status
from sriov_rt.onload.status import Effect
from sriov_rt.onload.status import Processes
from sriov_rt.onload.status import State
from sriov_rt.onload.status import driver
from sriov_rt.parse import process


@dataclasses.dataclass(frozen=True, slots=True)
class Container:
    """One container of libvirt.

    :param instance: its UUID, which is that of Nova's instance.
    :param keeper: process of its controller.
    :param requested: whether it requested Onload.
    :param is_plain: whether the injection was undone before it started.
    """

    instance: str
    keeper: int
    requested: bool
    is_plain: bool


def containers(root: Root) -> tuple[Container, ...] | Unknown:
    """Return the running containers, sorted by instance."""
    found = running.guests(root, guest_processes.CONTAINERS)
    if isinstance(found, Unknown):
        return found
    return tuple(map(_container, found))


def _container(guest: Guest) -> Container:
    domain = guest.domain
    is_plain = metadata.marked(domain, metadata.ONLOAD_MARK) is not None
    return Container(
        guest.instance,
        guest.process,
        is_plain or _has_preload(domain),
        is_plain,
    )


def _has_preload(domain: Domain) -> bool:
    system = domain.part("os")
    return system is not None and any(
        each.get("name") == plan.PRELOAD and status.is_library(text_of(each))
        for each in system.findall("initenv")
    )


def processes(root: Root, owners: tuple[Container, ...]) -> Mapping[int, str]:
    """Return the processes of containers, each with its owner.

    :param owners: the containers; if empty, nothing is read.
    :returns: process to instance; the controllers are left out.
    """
    return running.below(root, {each.keeper: each.instance for each in owners})


#: Directory of a kubelet's logs of pods, each in NAMESPACE_NAME_UID
#: (BuildPodLogsDirectory in its kuberuntime/helpers.go).
_POD_LOGS = "var/log/pods"


def pods(root: Root, numbers: Iterable[int]) -> Mapping[int, str]:
    """Return the processes of pods, each with its pod, NAMESPACE/NAME.

    The cgroup has the pod's UID, which is returned if no log has its name.

    :param numbers: numbers of processes.
    """
    logs = root.list_dir(_POD_LOGS)
    names = {}
    for each in () if isinstance(logs, Unknown) else logs:
        name, _, uid = each.rpartition("_")
        names[uid] = name.replace("_", "/")
    places = {
        pid: values.parsed(root, f"proc/{pid}/cgroup", process.parse_place)
        for pid in numbers
    }
    return {
        pid: names.get(each.pod, each.pod)
        for pid, each in places.items()
        if not isinstance(each, Unknown) and each.pod
    }


#: States in order; an instance has the last state of any of its processes.
_ORDER = tuple(State)

_PLAIN = (
    "a port shares its NIC with an accelerated instance of its network, and "
    "it runs over the kernel ([onload] second_endpoint)"
)
_NOBODY = "no process of it has Onload's library or preload"
_HIDDEN = "its processes can't be looked at"


def observe(root: Root) -> tuple[Workload, ...] | Unknown:
    """Return the state of each instance that requests Onload, sorted."""
    found = containers(root)
    if isinstance(found, Unknown):
        return found
    requesting = tuple(each for each in found if each.requested)
    if not requesting:
        return ()
    whose = processes(root, requesting)
    every = Processes(root)
    effects = tuple(status.all_of(every.of(whose), driver(root)))
    return tuple(
        judge(
            each,
            (e for e in effects if whose[e.process.pid] == each.instance),
            hidden=every.unreadable > 0,
        )
        for each in requesting
    )


def judge(
    container: Container, effects: Iterable[Effect], *, hidden: bool = False
) -> Workload:
    """Return the state of Onload in an instance. Pure.

    :param container: a container that requests Onload.
    :param hidden: whether some of its processes could not be inspected.
    """
    best = max(
        effects, key=lambda each: _ORDER.index(each.state), default=None
    )
    if best is None:
        why = _HIDDEN if hidden else _NOBODY
        if container.is_plain:
            why = _PLAIN
        return Workload(container.instance, State.REQUESTED.value, why)
    why = "" if best.state is State.ACCELERATED else best.why
    sentence = f"{why}{best.note}".strip()
    return Workload(container.instance, best.state.value, sentence)
