# SPDX-License-Identifier: Apache-2.0

"""Virtualization packages of the host, on which latency may depend."""

import shutil
from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.verify import process
from sriov_rt.verify.errors import RunFailed

#: Names of the packages in Debian and Red Hat.
NAMES = frozenset(
    """
    amd64-microcode dpdk edk2-ovmf intel-microcode kvm libvirt libvirt-daemon
    libvirt-daemon-system linux-firmware microcode_ctl nova-compute
    openstack-nova-compute openvswitch openvswitch-switch
    openvswitch-switch-dpdk ovmf qemu-kvm qemu-kvm-core qemu-system-x86
    seabios seabios-bin tuned vdsm
    """.split()  # noqa: SIM905
)

#: dpkg's status file, and the longest one that is read, in bytes.
STATUS = "var/lib/dpkg/status"
MAX_STATUS = 64 * 1024 * 1024

#: States of a package that is not installed, dpkg-query(1).
_GONE = ("none", "not-installed", "config-files")

_RPM_S = 30.0


def observe(root: Root) -> tuple[str, ...] | Unknown:
    """Return name and version of each installed package, sorted."""
    text = root.read_text(STATUS, MAX_STATUS)
    if not isinstance(text, Unknown):
        return tuple(sorted(_of_dpkg(text)))
    if shutil.which("rpm") is None:
        return text
    lines: list[bytes] = []
    form = "%{NAME} %{VERSION}-%{RELEASE}\\n"
    try:
        ended = process.run(
            ("rpm", "-qa", f"--qf={form}"), _RPM_S, lines.extend
        )
    except RunFailed as error:
        return Unknown(str(error))
    if ended.code or ended.interrupted:
        return Unknown(f"rpm: {ended.last_line()}")
    return tuple(
        sorted(_known(each.decode("ascii", "replace") for each in lines))
    )


def changes(then: Iterable[str], now: Iterable[str]) -> Iterator[str]:
    """Yield each package that has changed, a clause each."""
    before, after = (
        dict(each.split(" ", 1) for each in listed if " " in each)
        for listed in (then, now)
    )
    for name in sorted(before.keys() | after.keys()):
        was, is_ = before.get(name, "-"), after.get(name, "-")
        if was != is_:
            yield f"package {name} changed from '{was}' to '{is_}'"


def _of_dpkg(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line and not line.startswith(" ")
        )
        # During an upgrade a package is unpacked or half-installed.
        state = fields.get("Status", "none").split()[-1]
        if state not in _GONE:
            found = f"{fields.get('Package', '')} {fields.get('Version', '')}"
            yield from _known([found])


def _known(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        name, _, version = line.partition(" ")
        if name in NAMES and version and version.isprintable():
            yield line
