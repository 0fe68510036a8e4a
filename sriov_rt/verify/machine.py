# SPDX-License-Identifier: Apache-2.0

"""The machine that was measured, for the reader of a report."""

import dataclasses

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """Machine of a measurement; unknown fields are empty.

    :param host: its name.
    :param product: vendor and model, from its firmware.
    :param cpu: model of the first CPU.
    :param cpus: the online CPUs, as a CPU list.
    :param system: its operating system.
    :param nic: interface that the traffic leaves by; empty without traffic.
    """

    host: str = ""
    product: str = ""
    cpu: str = ""
    cpus: str = ""
    system: str = ""
    nic: str = ""


#: Machine of a result by an earlier version.
UNKNOWN = Machine()


def observe(root: Root, nic: str = "") -> Machine:
    """Return the machine of a root directory."""
    product = (
        _line(root, f"sys/class/dmi/id/{name}")
        for name in ("sys_vendor", "product_name")
    )
    return Machine(
        host=_line(root, "proc/sys/kernel/hostname"),
        product=" ".join(filter(None, product)),
        cpu=_field(root, "proc/cpuinfo", "model name", ":"),
        cpus=_line(root, "sys/devices/system/cpu/online"),
        system=_field(root, "etc/os-release", "PRETTY_NAME", "="),
        nic=nic,
    )


def _line(root: Root, path: str) -> str:
    found = root.read_text(path)
    return "" if isinstance(found, Unknown) else found.strip()


def _field(root: Root, path: str, name: str, separator: str) -> str:
    """Return the value of a file's first line with a name."""
    found = root.read_text(path, limit=16 * 1024 * 1024)
    if isinstance(found, Unknown):
        return ""
    for line in found.splitlines():
        key, _, value = line.partition(separator)
        if key.strip() == name:
            return value.strip().strip('"')
    return ""
