# SPDX-License-Identifier: Apache-2.0

"""A guest's devices, from its XML, and its threads, from /proc."""

import collections
import dataclasses
import xml.etree.ElementTree as ET

from tests.testbed.compute_host import ComputeHost

#: The process in libvirt's pid file has a directory for each thread (proc(5)).
#: QEMU's I/O workers come and go; one that has ended meanwhile is ignored.
_THREADS = """\
read -r pid < "/run/libvirt/qemu/$1.pid"
for task in "/proc/$pid/task/"*; do
    allowed=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' "$task/status" \\
        2>/dev/null) || continue
    [ -n "$allowed" ] || continue
    name=$(cat "$task/comm" 2>/dev/null) || continue
    stat=$(cat "$task/stat" 2>/dev/null) || continue
    set -- ${stat##*) }
    # Fields 39 to 41 of stat; the name and what is before it are gone.
    shift 36
    echo "${task##*/}:$1:$2:$3:$allowed:$name"
done
"""
#: The scheduling policies by their numbers (sched(7)).
_POLICIES = {0: "OTHER", 1: "FIFO", 2: "RR", 3: "BATCH", 5: "IDLE"}
#: Attributes that distinguish a device from others of its kind.
_TELLING = ("type", "model", "bus", "mode")


@dataclasses.dataclass(frozen=True)
class Thread:
    """One thread of a guest's QEMU, as the kernel reports it.

    :param tid: its number.
    :param name: as in "CPU 0/TCG".
    :param processor: the CPU that it ran on last.
    :param priority: its realtime priority; 0 without one.
    :param policy: as in "FIFO".
    :param allowed: the CPUs that it may run on.
    """

    tid: int
    name: str
    processor: int
    priority: int
    policy: str
    allowed: frozenset[int]

    @property
    def vcpu(self) -> int | None:
        """The number of the vCPU that it runs, None for another thread."""
        kind, _, rest = self.name.partition(" ")
        if kind != "CPU":
            return None
        return int(rest.partition("/")[0])


def cpus(text: str) -> frozenset[int]:
    """Read a list of CPUs as the kernel or libvirt writes it.

    :param text: as in "0-1,3"; empty for none.
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


def threads(host: ComputeHost, domain: str) -> list[Thread]:
    """Return the threads of a running domain.

    :param host: where it runs.
    :param domain: its name in libvirt.
    :raises errors.CommandFailed: when it doesn't run there.
    """
    return parse_threads(host.run("sh", "-c", _THREADS, "sh", domain))


def parse_threads(text: str) -> list[Thread]:
    """Read what the script on the host printed.

    :param text: a line per thread, as in "71:2:1:1:2-3:CPU 0/TCG".
    """
    found = []
    for line in text.splitlines():
        tid, processor, priority, policy, allowed, name = line.split(":", 5)
        found.append(
            Thread(
                tid=int(tid),
                name=name,
                processor=int(processor),
                priority=int(priority),
                policy=_POLICIES.get(int(policy), policy),
                allowed=cpus(allowed),
            )
        )
    return found


def devices(xml: str) -> collections.Counter[str]:
    """Count the devices of a domain by kind.

    This excludes libvirt's own PCI controllers, which come with addresses.

    :param xml: the domain's XML.
    """
    found: collections.Counter[str] = collections.Counter()
    for device in ET.fromstring(xml).findall("./devices/*"):
        words = [device.get(name) for name in _TELLING]
        for part, attribute in (("model", "type"), ("target", "bus")):
            child = device.find(part)
            if child is not None:
                words.append(child.get(attribute))
        kind = " ".join([device.tag, *dict.fromkeys(filter(None, words))])
        if not kind.startswith("controller pci"):
            found[kind] += 1
    return found


def cpu_tuning(xml: str) -> list[str]:
    """Return the lines that pin and schedule a domain's threads.

    :param xml: the domain's XML.
    """
    tuning = ET.fromstring(xml).find("./cputune")
    if tuning is None:
        return []
    return [
        " ".join(
            [line.tag, *(f"{name}={value}" for name, value in line.items())]
        )
        for line in tuning
    ]


def our_metadata(xml: str) -> str:
    """Return what sriov-rt wrote into a domain's metadata.

    :param xml: the domain's XML.
    """
    metadata = ET.fromstring(xml).find("./metadata")
    for part in () if metadata is None else metadata:
        if "sriov-rt" in part.tag:
            attributes = " ".join(f"{k}={v}" for k, v in part.items())
            return f"{attributes}: {part.text or 'nothing to do'}"
    return ""
