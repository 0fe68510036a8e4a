# SPDX-License-Identifier: Apache-2.0

"""Errors of links and namespaces, named for what the operator does next."""

import errno
import os
from collections.abc import Mapping
from typing import ClassVar

from sriov_rt.exceptions import SriovRtError


class LinkError(SriovRtError):
    """An interface cannot be made, set, moved or found.

    :param device: subject of the error: an interface, a VF's address, a file.
    :param port: UUID of the port; None if it is not about a single port.
    :param detail: specifics of this case, as a clause.
    """

    problem: ClassVar[str] = "the interface cannot be made"
    advice: str = "see the log of this host"

    def __init__(
        self, device: str, *, port: str | None = None, detail: str = ""
    ) -> None:
        super().__init__(device, port, detail)
        self.device = device
        self.port = port
        self.detail = detail

    def __str__(self) -> str:
        about = f"port={self.port} " if self.port else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{about}{self.device}: {self.problem}{detail}; {self.advice}"


class ParentTaken(LinkError):
    """The parent is in use in a way that excludes the port: EBUSY.

    macvlan and ipvlan both need the parent's only rx_handler
    (netdev_rx_handler_register in net/core/dev.c).
    """

    problem = "the parent is taken by something that cannot share it"
    advice = (
        "unplug or delete what it carries ('sriov-rt vif show' lists ports,"
        " and 'ip -d link' all in its namespace) or name another parent"
    )


class ParentIsPort(ParentTaken):
    """The parent is a port of a bridge, a bond or a team."""

    problem = "the parent cannot have ports of its own"

    def __init__(self, device: str, master: str) -> None:
        super().__init__(device, detail=f"it is a port of {master}")
        self.advice = (
            f"take it out of {master} ('ip link set {device} nomaster'), or "
            "name another parent"
        )


class NameTaken(LinkError):
    """Another interface of the namespace has the name: EEXIST."""

    problem = "there is an interface of this name already"
    advice = "choose another name for the port, or delete that interface"


class NoSuchNamespace(LinkError):
    """The network namespace does not exist."""

    problem = "no such network namespace"
    advice = (
        "give a name that 'ip netns list' shows, or pid:N of a live process"
    )


class NoSuchLink(LinkError):
    """The interface does not exist, or no longer: ENODEV."""

    problem = "no such interface"
    advice = "see 'ip link' and the kernel's log: its VF may have been removed"


class NotPermitted(LinkError):
    """The kernel requires a capability that the caller lacks: EPERM."""

    problem = "not permitted"
    advice = (
        "run as root, or with CAP_NET_ADMIN, CAP_SYS_ADMIN (to enter a"
        " namespace) and CAP_SYS_PTRACE (to find one by its process)"
    )


class AnnouncingNotPermitted(NotPermitted):
    """The kernel refuses the caller a packet socket."""

    advice = "give it CAP_NET_RAW as well; the port itself works"


class TryAgain(LinkError):
    """The kernel was not ready for the request: EAGAIN."""

    problem = "the kernel was not ready for it"
    advice = "wait until the VF has finished its reset, then try again"


class Unsupported(LinkError):
    """The kernel has no such kind of interface or setting: EOPNOTSUPP."""

    problem = "the kernel does not support it"
    advice = (
        "load its module (modprobe macvlan, macvtap, ipvlan, sch_htb or"
        " act_police)"
    )


class NotVerified(LinkError):
    """A setting reads back as another value."""

    problem = "it is not what was set"
    advice = "see what else manages it (NetworkManager, udev, another agent)"


class LinkRefused(LinkError):
    """The kernel refused, with an errno that has no error of its own."""

    problem = "the kernel refused it"
    advice = "check the requested values; the kernel's log may say more"

    def __init__(
        self,
        device: str,
        *,
        port: str | None = None,
        detail: str = "",
        code: int = 0,
    ) -> None:
        super().__init__(device, port=port, detail=detail)
        self.code = code


#: include/linux/errno.h; drivers such as bnxt_en return it to user space.
ENOTSUPP = 524

# Numbers that have another name in Python, ENOTSUP, or none.
_NAMES = {errno.EOPNOTSUPP: "EOPNOTSUPP", ENOTSUPP: "ENOTSUPP"}

_NAMED: Mapping[int, type[LinkError]] = {
    errno.EPERM: NotPermitted,
    errno.EACCES: NotPermitted,
    errno.EBUSY: ParentTaken,
    errno.EAGAIN: TryAgain,
    errno.EEXIST: NameTaken,
    errno.ENODEV: NoSuchLink,
    errno.ENXIO: NoSuchLink,
    errno.EOPNOTSUPP: Unsupported,
    ENOTSUPP: Unsupported,
}


def name_of(code: int) -> str:
    """Return the kernel's name of an errno; its number if it has none."""
    return _NAMES.get(code) or errno.errorcode.get(code, str(code))


def from_errno(
    code: int, device: str, *, port: str | None = None, detail: str = ""
) -> LinkError:
    """Return the error for an errno of the kernel.

    :param device: interface or namespace of the request.
    :param detail: what was tried, as a clause.
    """
    if (named := _NAMED.get(code)) is not None:
        return named(device, port=port, detail=detail)
    text = f"{name_of(code)}: {os.strerror(code)}"
    detail = f"{detail}: {text}" if detail else text
    return LinkRefused(device, port=port, detail=detail, code=code)
