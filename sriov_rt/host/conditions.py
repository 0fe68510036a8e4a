# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Conditions on which a host's latency measurement depends.

A latency that was measured holds for the kernel, the firmware and the
settings that it was measured with. Each of them is text here, compared as a
whole: what can't be read now and could be then has changed.
"""

from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root

#: Each condition and the file that says it, its white space folded.
FILES: Mapping[str, str] = {
    "kernel release": "proc/sys/kernel/osrelease",
    "kernel version": "proc/sys/kernel/version",
    "kernel command line": "proc/cmdline",
    "microcode": "sys/devices/system/cpu/cpu0/microcode/version",
    "BIOS": "sys/class/dmi/id/bios_version",
    "BIOS date": "sys/class/dmi/id/bios_date",
    "SMT": "sys/devices/system/cpu/smt/active",
    "online CPUs": "sys/devices/system/cpu/online",
    "isolated CPUs": "sys/devices/system/cpu/isolated",
    "clock source": (
        "sys/devices/system/clocksource/clocksource0/current_clocksource"
    ),
    "tuned profile": "etc/tuned/active_profile",
    "machine": "etc/machine-id",
}

#: The one that changes at each boot; a certificate may hang on it.
BOOT = "boot"
BOOT_FILE = "proc/sys/kernel/random/boot_id"

#: What stands for a file that is not there or can't be read.
ABSENT = "-"


def observe(root: Root, *, boot: bool = False) -> Mapping[str, str]:
    """Return each condition by its name.

    :param boot: whether the boot is one of them.
    """
    files = {**FILES, BOOT: BOOT_FILE} if boot else FILES
    return {name: _text(root, path) for name, path in files.items()}


def changed(
    certified: Mapping[str, str], root: Root
) -> tuple[tuple[str, str, str], ...]:
    """Return what is not as it was: name, value then and value now."""
    now = observe(root, boot=True)
    return tuple(
        (name, then, now.get(name, ABSENT))
        for name, then in certified.items()
        if now.get(name, ABSENT) != then
    )


def emulated(root: Root) -> bool:
    """Return whether the host is itself a virtual machine.

    Latencies measured in one say nothing of any hardware. The CPU has the
    flag "hypervisor" then (CPUID 1, ECX bit 31).
    """
    text = root.read_text("proc/cpuinfo", limit=4 * 1024 * 1024)
    if isinstance(text, Unknown):
        return False
    flags = (line for line in text.splitlines() if line.startswith("flags"))
    return "hypervisor" in next(flags, "").split()


def _text(root: Root, path: str) -> str:
    found = root.read_text(path, may_be_empty=True)
    if isinstance(found, Unknown):
        return ABSENT
    return " ".join(found.replace("\0", " ").split()) or ABSENT
