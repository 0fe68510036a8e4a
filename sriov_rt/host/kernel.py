# SPDX-License-Identifier: Apache-2.0

"""The running kernel, from ``/proc`` and its modules' directory."""

import posixpath
import types
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts import KernelFacts
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import kernel

SYSCTL = "proc/sys/kernel"
REALTIME = "sys/kernel/realtime"
COMMAND_LINE = "proc/cmdline"
VERSION = f"{SYSCTL}/version"
CLOCK_SOURCE = (
    "sys/devices/system/clocksource/clocksource0/current_clocksource"
)
OS_RELEASE = "etc/os-release"
WATCHDOG_CPUS = f"{SYSCTL}/watchdog_cpumask"

#: Kernel modules that sriov-rt uses, by their names in /sys/module.
MODULES = ("8021q", "ipvlan", "macvlan", "macvtap", "vfio_pci")

#: The longest modules.dep that is read, in bytes; Debian's of Linux 6.1 is 0.6
#: MB.
MAX_MODULES_DEP = 16 * 1024 * 1024


def observe(root: Root) -> KernelFacts:
    """Return the facts of the running kernel."""
    release = values.parsed(
        root,
        f"{SYSCTL}/osrelease",
        lambda text: kernel.parse_version(text).full,
    )
    return KernelFacts(
        release=release,
        preempt_rt=_preempt_rt(root),
        command_line=_command_line(root),
        rt_runtime_us=values.integer(
            root, f"{SYSCTL}/sched_rt_runtime_us", minimum=-1
        ),
        rt_period_us=values.integer(
            root, f"{SYSCTL}/sched_rt_period_us", minimum=1
        ),
        timer_migration=_sysctl(root, "timer_migration"),
        nmi_watchdog=_sysctl(root, "nmi_watchdog"),
        modules=_modules(root, release),
        clock_source=values.parsed(root, CLOCK_SOURCE, str.strip),
        watchdog=_watchdog(root),
        distribution=values.parsed(root, OS_RELEASE, _distribution),
    )


def _distribution(text: str) -> str:
    """Return the ID of os-release(5); "linux" where it has none."""
    lines = (line.partition("=") for line in text.splitlines())
    found = {key: value.strip("\"'") for key, _, value in lines}
    return found.get("ID", "linux")


def _watchdog(root: Root) -> CpuSet | Unknown:
    """Return the CPUs that the soft lockup detector wakes every 4 s.

    ``soft_watchdog`` says whether it is built in and enabled; ``watchdog``
    also turns it off (kernel/watchdog.c).
    """
    for name in ("soft_watchdog", "watchdog"):
        enabled = _sysctl(root, name)
        if isinstance(enabled, Unknown):
            return enabled
        if not enabled:
            return CpuSet()
    return values.cpu_set(root, WATCHDOG_CPUS)


def _preempt_rt(root: Root) -> bool | Unknown:
    """Return whether the kernel is PREEMPT_RT.

    Kernels with the realtime patches have a file for it. Those that have it
    from mainline (6.12 on) may not, but all name it in their version
    (init/Makefile).
    """
    found = values.switch(root, REALTIME)
    if root.exists(REALTIME) is not False:
        return found
    version = root.read_text(VERSION)
    if isinstance(version, Unknown):
        return version
    return "PREEMPT_RT" in version.split()


def _command_line(root: Root) -> str | Unknown:
    text = root.read_text(COMMAND_LINE)
    return text if isinstance(text, Unknown) else text.rstrip("\n")


def _sysctl(root: Root, name: str) -> bool | Unknown:
    """Return whether a kernel setting is on; off if it is not built in.

    nmi_watchdog needs HARDLOCKUP_DETECTOR, timer_migration NO_HZ_COMMON.
    """
    path = f"{SYSCTL}/{name}"
    return values.unless_absent(
        root,
        path,
        values.switch(root, path),
        False,
        beside=f"{SYSCTL}/osrelease",
    )


def _modules(
    root: Root, release: str | Unknown
) -> Mapping[str, str] | Unknown:
    """Return each module's state; depmod's lists show those not loaded."""
    states: dict[str, str] = {}
    for name in MODULES:
        state = _in_kernel(root, name)
        if state is not None:
            states[name] = state
    for file, state in (
        ("modules.dep", "available"),
        ("modules.builtin", "builtin"),
    ):
        if states.keys() >= set(MODULES):
            break
        listed = _listed(root, release, file)
        if isinstance(listed, Unknown):
            return listed
        for name in listed.intersection(MODULES):
            states.setdefault(name, state)
    return types.MappingProxyType(
        {name: states.get(name, "absent") for name in MODULES}
    )


def _in_kernel(root: Root, name: str) -> str | None:
    """Return ``loaded`` or ``builtin``; None if the module is not seen.

    A built-in module is seen only if it has parameters; only a loaded one has
    a state (kernel/module/sysfs.c).
    """
    if root.exists(f"sys/module/{name}/initstate") is True:
        return "loaded"
    return "builtin" if root.exists(f"sys/module/{name}") is True else None


def _listed(
    root: Root, release: str | Unknown, name: str
) -> frozenset[str] | Unknown:
    """Return the modules that a list of depmod names."""
    if isinstance(release, Unknown):
        return release
    text = root.read_text(
        f"lib/modules/{posixpath.basename(release)}/{name}",
        MAX_MODULES_DEP,
        may_be_empty=True,
    )
    if isinstance(text, Unknown):
        return text
    # kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/…
    files = (line.partition(":")[0] for line in text.splitlines())
    return frozenset(
        posixpath.basename(file).partition(".ko")[0].replace("-", "_")
        for file in files
    )
