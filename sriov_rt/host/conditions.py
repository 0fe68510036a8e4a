# SPDX-License-Identifier: Apache-2.0

"""Conditions on which a host's latency measurement depends.

A measured latency holds for the machine, kernel, firmware and settings of its
measurement. Each of them is text here, compared as a whole. One that cannot be
read, now or then, is unknown and counts as unchanged.
"""

import hashlib
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.decide import power
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import PowerManagement
from sriov_rt.host import cpus as host_cpus
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list

#: CPUs that Nova's power management took offline count as online.
ONLINE = "online CPUs"

#: Each condition and its file; white space is folded.
FILES: Mapping[str, str] = {
    "kernel release": "proc/sys/kernel/osrelease",
    "kernel version": "proc/sys/kernel/version",
    "kernel command line": "proc/cmdline",
    "microcode": "sys/devices/system/cpu/cpu0/microcode/version",
    "BIOS": "sys/class/dmi/id/bios_version",
    "BIOS date": "sys/class/dmi/id/bios_date",
    "SMT": "sys/devices/system/cpu/smt/active",
    ONLINE: "sys/devices/system/cpu/online",
    "isolated CPUs": "sys/devices/system/cpu/isolated",
    "clock source": (
        "sys/devices/system/clocksource/clocksource0/current_clocksource"
    ),
    "tuned profile": "etc/tuned/active_profile",
    "sched_rt_runtime_us": "proc/sys/kernel/sched_rt_runtime_us",
    "machine": "etc/machine-id",
    "host name": "proc/sys/kernel/hostname",
    "product": "sys/class/dmi/id/product_name",
}

#: Files that only root reads, and that distinguish machines of one image. A
#: certificate has their digests.
ROOT_FILES: Mapping[str, str] = {
    "product UUID": "sys/class/dmi/id/product_uuid",
    "product serial": "sys/class/dmi/id/product_serial",
}

#: The boot, which a certificate may depend on.
BOOT = "boot"
BOOT_FILE = "proc/sys/kernel/random/boot_id"

#: Placeholder for a file that does not exist.
ABSENT = "-"

#: Placeholder for a file of root's, for settings of offline CPUs, or for
#: anything that the kernel refuses to show.
UNREADABLE = "?"

#: A machine-id(5); images have "uninitialized" in its place.
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")

#: What firmware has in place of a UUID or a serial number.
_PLACEHOLDER = re.compile(
    r"(?i)[0 .f-]*|none|n/?a|not (specified|available|applicable|present)"
    r"|to be filled by o\.?e\.?m\.?|default string|system serial number"
    r"|0?123456789|chassis serial number"
    r"|03000200-0400-0500-0006-000700080009"
)

#: Length of a digest: enough to tell a cloud's machines apart.
_DIGEST = 16

_CPUS = "sys/devices/system/cpu"


def observe(
    root: Root, nova: ComputeFacts, *, boot: bool = False
) -> Mapping[str, str]:
    """Return each condition by its name.

    :param nova: facts of the same host; power management affects some.
    :param boot: whether to include the boot.
    """
    files = {**FILES, BOOT: BOOT_FILE} if boot else FILES
    found = {
        **{name: _text(root, path) for name, path in files.items()},
        **{name: _identity(root, path) for name, path in ROOT_FILES.items()},
        **{name: read(root, nova) for name, read in _READERS.items()},
    }
    found[ONLINE] = _online(root, nova, found[ONLINE])
    return found


def _online(root: Root, nova: ComputeFacts, online: str) -> str:
    """Return the CPUs that are online, or will be for a guest of Nova.

    Nova takes pCPUs offline and online as guests come and go.

    :param online: CPUs that are online, in the kernel's form.
    """
    managed = power.managed(nova, power.CPU_STATE)
    if not managed:
        return online
    known = values.cpu_set(root, FILES[ONLINE])
    offline = host_cpus.offline_of(root, known)
    if isinstance(known, Unknown) or isinstance(offline, Unknown):
        return online
    return format_cpu_list(known | managed & offline)


def changed(
    certified: Mapping[str, str], root: Root, nova: ComputeFacts
) -> tuple[tuple[str, str, str], ...]:
    """Return the changed conditions: name, value then and value now.

    A condition that cannot be read now is unchanged: a file that only root
    reads, and settings of CPUs that are offline (itself a condition).
    """
    now = observe(root, nova, boot=True)
    return tuple(
        (name, then, now.get(name, ABSENT))
        for name, then in certified.items()
        if UNREADABLE not in (then, now.get(name, ABSENT))
        and now.get(name, ABSENT) != then
    )


def missing(certified: Mapping[str, str]) -> tuple[str, ...]:
    """Return the conditions that an older sriov-rt did not record."""
    known = (*FILES, *ROOT_FILES, *_READERS)
    return tuple(name for name in known if name not in certified)


def is_identified(certified: Mapping[str, str]) -> bool:
    """Return whether conditions identify their machine."""
    if _MACHINE_ID.fullmatch(certified.get("machine", "")):
        return True
    return any(
        certified.get(name, ABSENT) not in (ABSENT, UNREADABLE)
        for name in ROOT_FILES
    )


def emulated(root: Root) -> bool:
    """Return whether the host is itself a virtual machine.

    Latencies measured in one do not apply to hardware. Its CPU has the flag
    "hypervisor" (CPUID 1, ECX bit 31).
    """
    text = root.read_text("proc/cpuinfo", limit=4 * 1024 * 1024)
    if isinstance(text, Unknown):
        return False
    flags = (line for line in text.splitlines() if line.startswith("flags"))
    return "hypervisor" in next(flags, "").split()


def _text(root: Root, path: str) -> str:
    found = root.read_text(path, may_be_empty=True)
    if isinstance(found, Unknown):
        return _unread(root, path)
    return " ".join(found.replace("\0", " ").split()) or ABSENT


def _unread(root: Root, path: str) -> str:
    """Return the placeholder for a file or directory that was not read."""
    return ABSENT if root.exists(path) is False else UNREADABLE


def _joined(separator: str, texts: Iterable[str]) -> str:
    """Return texts as one; unreadable if any of them is."""
    found = list(texts)
    if UNREADABLE in found:
        return UNREADABLE
    return separator.join(found) or ABSENT


def _identity(root: Root, path: str) -> str:
    found = root.read_text(path, may_be_empty=True)
    if isinstance(found, Unknown):
        return _unread(root, path)
    text = found.strip()
    if _PLACEHOLDER.fullmatch(text):
        return ABSENT
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]


def _model(root: Root, nova: ComputeFacts) -> str:
    # Without the features after it, which depend on kernel options. On older
    # kernels, /proc/cpuinfo would interrupt each CPU.
    text, _, _ = _text(root, f"{_CPUS}/modalias").partition(":feature:")
    midr = _text(root, f"{_CPUS}/cpu0/regs/identification/midr_el1")
    return text if midr == ABSENT else _joined(" ", (text, midr))


def _governor(root: Root, nova: ComputeFacts) -> str:
    """Return the governors of the CPUs that are measured.

    If Nova manages them, it is the one that a guest's pCPU gets.
    """
    cpus = _isolated(root)
    by_nova = power.managed(nova, power.GOVERNOR)
    high = nova.power_management
    if not cpus:
        return UNREADABLE
    place = f"{_CPUS}/cpufreq"
    policies = root.list_dir(place)
    if isinstance(policies, Unknown):
        return _unread(root, place)
    found = set()
    for each in policies:
        its = values.cpu_set(root, f"{place}/{each}/affected_cpus")
        if isinstance(its, Unknown) or not its & cpus:
            continue
        if isinstance(high, PowerManagement) and its & cpus <= by_nova:
            found.add(high.governor_high)
        else:
            found.add(_text(root, f"{place}/{each}/scaling_governor"))
    return _joined(", ", sorted(found))


def _idle_states(root: Root, nova: ComputeFacts) -> str:
    """Return the idle states of the CPUs that are measured.

    The names are read from one CPU; from the others only what is off, as the
    agent does this every few seconds.
    """
    cpus = sorted(_isolated(root))
    if not cpus:
        return UNREADABLE
    names: dict[str, str] = {}
    found = set()
    for cpu in cpus:
        place = f"{_CPUS}/cpu{cpu}/cpuidle"
        states = root.list_dir(place)
        if isinstance(states, Unknown):
            found.add(_unread(root, place))
            continue
        texts = []
        for each in states:
            if each not in names:
                names[each] = _text(root, f"{place}/{each}/name")
            off = _text(root, f"{place}/{each}/disable")
            if off == UNREADABLE:
                texts.append(off)
            else:
                suffix = "=off" if off == "1" else ""
                texts.append(f"{names[each]}{suffix}")
        found.add(_joined(",", texts))
    return _joined("; ", sorted(found))


def _isolated(root: Root) -> CpuSet:
    """Return the online CPUs that are isolated, or all if none is isolated.

    If none of them is online, their settings are unknown.
    """
    online = values.cpu_set(root, f"{_CPUS}/online")
    if isinstance(online, Unknown):
        return CpuSet()
    isolated = values.cpu_set(root, f"{_CPUS}/isolated")
    if isinstance(isolated, Unknown) or not isolated:
        return online
    return isolated & online


def _swap(root: Root, nova: ComputeFacts) -> str:
    found = root.read_text("proc/swaps", may_be_empty=True)
    if isinstance(found, Unknown):
        return _unread(root, "proc/swaps")
    # The first line names the columns; the first word of each other line is
    # the device or the file. How much of it is used does not matter.
    lines = [each.split() for each in found.splitlines()[1:]]
    return " ".join(sorted(each[0] for each in lines if each)) or "none"


#: Conditions that need more than one file.
_READERS: Mapping[str, Callable[[Root, ComputeFacts], str]] = {
    "CPU model": _model,
    "governor": _governor,
    "idle states": _idle_states,
    "swap": _swap,
}
