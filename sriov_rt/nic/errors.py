# SPDX-License-Identifier: Apache-2.0

"""Errors of a VF, named for what the operator does next."""

import errno
import os
import pathlib
import re
import types
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt import exceptions
from sriov_rt.kernel.errors import ENOTSUPP
from sriov_rt.kernel.errors import name_of

#: CAP_NET_ADMIN (include/uapi/linux/capability.h).
_NET_ADMIN = 12
#: Mapping of the initial user namespace (user_namespaces(7)).
_ALL_USERS = ["0", "0", "4294967295"]
_EFFECTIVE = re.compile(r"^CapEff:\t([0-9a-f]{1,16})$", re.MULTILINE)


class NicError(exceptions.SriovRtError):
    """A NIC did not do what was requested.

    :param device: an interface's name, a PCI address or ``PF/index``.
    :param attribute: attribute of the VF, such as ``max_tx_rate``; else None.
    :param problem: what is wrong, as a clause.
    :param code: the kernel's errno; None if there is none.
    """

    #: What to do next, as a clause.
    remedy = "see the kernel's log (dmesg) for the NIC's own message"

    def __init__(
        self,
        device: str,
        attribute: str | None = None,
        problem: str = "failed",
        code: int | None = None,
    ) -> None:
        self.device = device
        self.attribute = attribute
        self.problem = problem
        self.code = code
        where = device if attribute is None else f"{device}: {attribute}"
        super().__init__(f"{where}: {problem}; {self.remedy}")


class UnsupportedByNic(NicError):
    """The NIC or its driver does not have the attribute."""

    remedy = "leave it out, or use a NIC that has it"


class OutOfRange(NicError):
    """The NIC does not accept the value."""

    remedy = "give a value within the range"


class LinkNeeded(NicError):
    """The PF's link has to be up, or at another speed, for this."""

    remedy = "connect the PF, set it up and try again"


class RefusedByNic(NicError):
    """The driver rejected the value or the VF's state (EINVAL)."""

    remedy = "compare 'sriov-rt vf show' with what was requested"


class NoSuchDevice(NicError):
    """There is no such device, or it has gone."""

    remedy = "see 'sriov-rt vf list' for those that are there"


class NotAPf(NicError):
    """The device cannot have VFs."""

    remedy = "name the interface of a PF with SR-IOV"


class NotAVf(NicError):
    """The device is no VF."""

    remedy = "name a VF by PCI address, PF/index or its interface"


class BadName(NicError):
    """The text cannot be the name of a device."""

    remedy = (
        "give a PCI address such as 0000:01:10.0, PF/index such as enp1s0/3 "
        "or the name of an interface"
    )


class VfBusy(NicError):
    """The device is in use (EBUSY)."""

    remedy = "stop what uses it and try again"


class VfInUse(VfBusy):
    """A VF is in use.

    :param users: who or what uses it, as clauses.
    """

    remedy = "unplug or stop what uses it first"

    def __init__(self, device: str, users: Sequence[str]) -> None:
        self.users = tuple(users)
        super().__init__(device, None, f"it is in use: {', '.join(users)}")


class MacInUse(NicError):
    """Another VF of the PF has the MAC in the same VLAN.

    :param other: the VF that has it.
    """

    remedy = "give it a MAC of its own, or stop what has the other VF"

    def __init__(self, device: str, mac: str, other: str) -> None:
        self.other = other
        super().__init__(device, "mac", f"{other} has {mac} already")


class FiltersRemain(NicError):
    """A PF keeps MAC filters of a VF's last tenant: nobody else may get it."""

    def __init__(self, device: str, problem: str, pf: str) -> None:
        self.pf = pf
        self.remedy = (
            f"when no VF of {pf} is in use, make them again: write 0 to "
            f"/sys/class/net/{pf}/device/sriov_numvfs, then run 'sriov-rt vf "
            "provision'; if nobody else ever had the VF, remove its file in "
            "/run/sriov-rt/vfs"
        )
        super().__init__(device, None, f"its reset is done, but {problem}")


class FunctionNotReset(NicError):
    """The function of a VF was not reset: it may keep its tenant's state."""

    remedy = (
        "see dmesg; when no VF of its PF is in use, make them again (0 to "
        "sriov_numvfs, then 'sriov-rt vf provision'), or reboot the host"
    )

    def __init__(self, device: str, problem: str, code: int | None) -> None:
        super().__init__(
            device, None, f"its function was not reset: {problem}", code
        )


class Locked(NicError):
    """Another process holds a VF."""

    remedy = "try again in a minute"

    def __init__(self, address: str) -> None:
        super().__init__(
            address, None, "another process is giving it out or resetting it"
        )


class NotRecorded(NicError):
    """The owner of a VF cannot be recorded."""

    remedy = (
        "free space on its file system and check that root can write there,"
        " then try again"
    )


class NotKept(NotRecorded):
    """The file of a VF would end with the container that writes it."""

    remedy = (
        "mount the host's /run into the container at /run, then start the "
        "service again"
    )

    def __init__(self, device: str, directory: pathlib.Path) -> None:
        self.directory = directory
        super().__init__(
            device,
            None,
            f"{directory} is the container's own, and what is noted there "
            "would end with it",
        )


class NameTaken(NicError):
    """Another interface has the name (EEXIST)."""

    remedy = "rename that interface"


class NotPermitted(NicError):
    """The caller lacks a privilege (EPERM, EACCES)."""

    remedy = "run it as root, or with CAP_NET_ADMIN"


class ReadOnly(NotPermitted):
    """The file system is mounted read-only (EROFS), as in a container."""

    remedy = "mount /sys read-write for it, or run it on the host"


class RefusedByDriver(NicError):
    """The driver refused, though the caller has privileges (EPERM, EACCES)."""

    remedy = (
        "see dmesg for the driver's message, and the NIC's page for what it "
        "refuses"
    )


class VfsNotMade(NicError):
    """The PF did not make the VFs."""

    def __init__(
        self,
        device: str,
        attribute: str | None = None,
        problem: str = "failed",
        code: int | None = None,
    ) -> None:
        self.remedy = _VFS_REMEDIES.get(code or 0, NicError.remedy)
        super().__init__(device, attribute, problem, code)


class SeveralRefused(NicError):
    """Several attributes of a VF were refused; the others were set.

    :param refused: an error for each of them.
    """

    def __init__(self, device: str, refused: Sequence[NicError]) -> None:
        self.refused = tuple(refused)
        self.remedy = "; ".join(dict.fromkeys(e.remedy for e in refused))
        listed = ", ".join(f"{e.attribute}: {e.problem}" for e in refused)
        super().__init__(device, None, listed, refused[0].code)


class TryAgain(NicError):
    """The VF was still resetting after all retries (EAGAIN)."""

    remedy = "try again in a few seconds"


class NoRoom(NicError):
    """The NIC's tables of MACs or VLANs are full (ENOSPC, ENOMEM)."""

    remedy = (
        "free MAC or VLAN filters of other VFs; if the VF stays so, reset it "
        "by 'sriov-rt vf reset --flr'"
    )


class NotReady(NicError):
    """A VF did not become ready in time."""

    remedy = "check that the PF is up and see dmesg, then try again"


class DriverMissing(NicError):
    """The kernel has no such driver."""

    remedy = "load its module (modprobe) or name another driver"


class BadState(NicError):
    """The kernel's data on a device cannot be parsed."""


class VerifyFailed(NicError):
    """The kernel accepted a write, but another value reads back.

    :param differences: (attribute, expected, found) of each difference.
    """

    remedy = "reset the VF; do not hand it out as it is"

    def __init__(
        self, device: str, differences: Sequence[tuple[str, Any, Any]]
    ) -> None:
        self.differences = tuple(differences)
        reported = ", ".join(
            f"{name} is {found} and not {desired}"
            for name, desired, found in differences
        )
        super().__init__(
            device, None, f"read back after the write: {reported}"
        )


class VfsInUse(NicError):
    """The number of VFs cannot change while some are in use.

    :param users: (VF, who or what uses it) of each VF in use.
    """

    remedy = "move or stop what uses them first"

    def __init__(self, device: str, users: Sequence[tuple[str, str]]) -> None:
        self.users = tuple(users)
        reported = ", ".join(f"{vf} ({user})" for vf, user in users)
        super().__init__(device, None, f"VFs are in use: {reported}")


#: Remedies for a write to sriov_numvfs: sriov_enable in drivers/pci/iov.c, and
#: what drivers return from their sriov_configure.
_VFS_REMEDIES: Mapping[int, str] = types.MappingProxyType(
    {
        errno.ENOSPC: (
            "make fewer VFs, or give each fewer interrupt vectors (mlxconfig "
            "NUM_VF_MSIX, or devlink's msix_vec_per_pf_max)"
        ),
        errno.ENOMEM: (
            "switch on SR-IOV and MMIO above 4 GiB in the firmware, boot with "
            "pci=realloc, or make fewer VFs"
        ),
        errno.EINVAL: (
            "make at most sriov_totalvfs VFs, and switch on SR-IOV in the "
            "firmware of the host and of the NIC"
        ),
        errno.ENOSYS: (
            "its driver makes VFs by a module parameter alone (num_vfs of "
            "mlx4_core): set that in /etc/modprobe.d and reload the driver"
        ),
        errno.ENOENT: (
            "its driver makes no VFs by sriov_numvfs; see dmesg and the "
            "driver's module parameters"
        ),
    }
)

_BY_CODE: Mapping[int, type[NicError]] = types.MappingProxyType(
    {
        errno.EOPNOTSUPP: UnsupportedByNic,
        errno.EPROTONOSUPPORT: UnsupportedByNic,
        ENOTSUPP: UnsupportedByNic,
        errno.EPERM: NotPermitted,
        errno.EACCES: NotPermitted,
        errno.EROFS: ReadOnly,
        errno.EBUSY: VfBusy,
        errno.EEXIST: NameTaken,
        errno.EAGAIN: TryAgain,
        errno.ENODEV: NoSuchDevice,
        errno.ENOENT: NoSuchDevice,
        errno.ENXIO: NoSuchDevice,
        errno.ERANGE: OutOfRange,
        errno.EINVAL: RefusedByNic,
        errno.EADDRNOTAVAIL: RefusedByNic,
        errno.EADDRINUSE: RefusedByNic,
        errno.ENETDOWN: LinkNeeded,
        errno.ENOSPC: NoRoom,
        errno.ENOMEM: NoRoom,
    }
)


#: Attributes that take entries in the NIC's filter tables.
_FILTERS = frozenset({None, "mac", "vlan"})


def kind(code: int, attribute: str | None) -> type[NicError]:
    """Return the error class of an errno, for the attribute written."""
    named = _BY_CODE.get(code, NicError)
    if named is NotPermitted and is_net_admin():
        return RefusedByDriver
    if attribute == "vfs" and code in _VFS_REMEDIES:
        return VfsNotMade
    if named is NoRoom and attribute not in _FILTERS:
        return NicError
    return named


def is_net_admin() -> bool:
    """Return whether this process may administer the host's network.

    It has CAP_NET_ADMIN in effect, and is in the initial user namespace.
    """
    process = pathlib.Path("/proc/thread-self")
    try:
        status = (process / "status").read_text()
        users = (process / "uid_map").read_text()
    except OSError:
        return os.geteuid() == 0
    found = _EFFECTIVE.search(status)
    has = found is not None and bool(int(found[1], 16) >> _NET_ADMIN & 1)
    return has and users.split() == _ALL_USERS


def from_errno(
    code: int,
    device: str,
    attribute: str | None = None,
    words: str | None = None,
) -> NicError:
    """Return the error for an errno of the kernel.

    :param code: a positive errno.
    :param words: the kernel's message with it; None if there is none.
    """
    named = kind(code, attribute)
    problem = f"{words or os.strerror(code)} ({name_of(code)})"
    return named(device, attribute, problem, code)
