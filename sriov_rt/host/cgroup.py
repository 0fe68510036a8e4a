# SPDX-License-Identifier: Apache-2.0

"""The cgroup of libvirt's guests, and the CPUs that it leaves them.

isolcpus= has no effect if a cgroup keeps guests off the CPUs: ``AllowedCPUs=``
of a slice, or a partition that another program made
(Documentation/admin-guide/cgroup-v2.rst, "Cpuset").
"""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.facts import CgroupPartition
from sriov_rt.facts import CpuSet
from sriov_rt.facts import GuestCgroup
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import partition

ROOT = "sys/fs/cgroup"

#: Cgroup of libvirt's default partition /machine, with systemd and without
#: (src/util/vircgroup.c).
GUESTS = ("machine.slice", "machine")

#: cgroup v1 has a hierarchy for each controller, or for several.
LEGACY_ROOT = f"{ROOT}/cpuset"

EFFECTIVE = "cpuset.cpus.effective"
STATE = "cpuset.cpus.partition"

#: The most cgroups that are searched for partitions. A Kubernetes node has
#: some five for each of its pods, of which there are 110 by default.
MAX_CGROUPS = 4096


def observe(root: Root, offline: CpuSet) -> GuestCgroup | None | Unknown:
    """Return the cgroup of guests; None if no cgroup limits CPUs.

    :param offline: CPUs that are offline and can be brought online:
        ``cpuset.cpus.effective`` lists online CPUs only.
    """
    names = root.list_dir(ROOT)
    if isinstance(names, Unknown):
        # A kernel without cgroups limits no CPUs.
        return values.unless_absent(root, ROOT, names, None, "sys/kernel")
    if EFFECTIVE in names:
        return _unified(root, offline)
    if root.exists(f"{LEGACY_ROOT}/cpuset.cpus") is True:
        return _legacy(root, offline)
    return None


def _unified(root: Root, offline: CpuSet) -> GuestCgroup | Unknown:
    # If there is no guest, or libvirt has no cpuset controller for guests,
    # they will have the CPUs of the parent cgroup.
    directory = next(
        (
            path
            for path in (f"{ROOT}/{name}" for name in GUESTS)
            if root.exists(f"{path}/{EFFECTIVE}") is True
        ),
        ROOT,
    )
    effective = values.cpu_set(root, f"{directory}/{EFFECTIVE}")
    if isinstance(effective, Unknown):
        return effective
    state, configured = None, CpuSet()
    if directory != ROOT:
        found = _state(root, directory)
        if isinstance(found, Unknown):
            return found
        chosen = values.cpu_set(root, f"{directory}/cpuset.cpus")
        if isinstance(chosen, Unknown):
            return chosen
        state, configured = found, chosen
    others = tuple(_others(root, directory, offline))
    taken = CpuSet().union(*(each.cpus for each in others))
    later = (offline & configured if configured else offline) - taken
    return GuestCgroup(f"/{directory}", effective | later, state, others)


def _state(root: Root, directory: str) -> str | None | Unknown:
    """Return the state of a partition; None for a kernel without them."""
    path = f"{directory}/{STATE}"
    found: str | None | Unknown = values.parsed(
        root, path, partition.parse_partition
    )
    return values.unless_absent(
        root, path, found, None, f"{directory}/{EFFECTIVE}"
    )


def _others(
    root: Root, guests: str, offline: CpuSet
) -> Iterator[CgroupPartition]:
    """Yield the partitions whose CPUs guests cannot have.

    Partitions below the cgroup of guests are included: only their own members
    have their CPUs.
    """
    everything = values.cpu_set(root, f"{ROOT}/{EFFECTIVE}")
    online = values.cpu_set(root, "sys/devices/system/cpu/online")
    if everything == online and not offline:
        return  # no partition has CPUs
    waiting, looked_at = [ROOT], 0
    while waiting and looked_at < MAX_CGROUPS:
        directory = waiting.pop()
        for name in known_or(root.list_dir(directory), ()):
            path = f"{directory}/{name}"
            # Files, and cgroups without the controller, have no state.
            state = root.read_text(f"{path}/{STATE}")
            if isinstance(state, Unknown):
                continue
            looked_at += 1
            waiting.append(path)
            if path == guests or state.strip() not in partition.OWN:
                continue
            if cpus := _own(root, path, offline):
                yield CgroupPartition(f"/{path}", cpus)


def _own(root: Root, directory: str, offline: CpuSet) -> CpuSet:
    """Return the CPUs of a partition; none if it has ended."""
    cpus = known_or(values.cpu_set(root, f"{directory}/{EFFECTIVE}"), CpuSet())
    for name in ("cpuset.cpus", "cpuset.cpus.exclusive"):
        chosen = values.cpu_set(root, f"{directory}/{name}")
        if not isinstance(chosen, Unknown):
            cpus |= chosen & offline
    return cpus


def _legacy(root: Root, offline: CpuSet) -> GuestCgroup | Unknown:
    # A CPU that goes offline is removed from each cgroup but the root, and
    # does not return with the CPU (Documentation/admin-guide/cgroup-v1/
    # cpusets.rst).
    for name in GUESTS:
        directory = f"{LEGACY_ROOT}/{name}"
        if root.exists(f"{directory}/cpuset.cpus") is True:
            cpus = values.cpu_set(root, f"{directory}/cpuset.cpus")
            break
    else:
        directory = LEGACY_ROOT
        cpus = values.cpu_set(root, f"{directory}/cpuset.cpus")
        if not isinstance(cpus, Unknown):
            cpus |= offline
    if isinstance(cpus, Unknown):
        return cpus
    others = tuple(_exclusive(root, directory))
    return GuestCgroup(f"/{directory}", cpus, None, others)


def _exclusive(root: Root, guests: str) -> Iterator[CgroupPartition]:
    """Yield the siblings of the guests' cpuset that share no CPU with it."""
    for name in known_or(root.list_dir(LEGACY_ROOT), ()):
        path = f"{LEGACY_ROOT}/{name}"
        if (
            path == guests
            or values.integer(root, f"{path}/cpuset.cpu_exclusive", 0, 1) != 1
        ):
            continue
        cpus = values.cpu_set(root, f"{path}/cpuset.cpus")
        if cpus and not isinstance(cpus, Unknown):
            yield CgroupPartition(f"/{path}", cpus)
