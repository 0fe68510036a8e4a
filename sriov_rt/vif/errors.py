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


"""Errors of a port, named for what the operator does next."""

import errno
import os
from collections.abc import Mapping
from typing import ClassVar

from sriov_rt.exceptions import SriovRtError


class VifError(SriovRtError):
    """A port cannot be plugged, unplugged or shown.

    :param device: what it is about: an interface, a VF's address, a file.
    :param port: UUID of the port, None where no one port is meant.
    :param detail: a clause with what is particular to this case.
    """

    problem: ClassVar[str] = "the port cannot be made"
    advice: ClassVar[str] = "see the log of this host"

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


class NoParent(VifError):
    """No interface of the pool can carry the port."""

    problem = "no parent is available for the port"
    advice = "add VFs or interfaces to [vif] parents, or free one"


class ParentTaken(VifError):
    """The parent is in use in a way that excludes the port: EBUSY.

    macvlan and ipvlan both want the parent's one rx_handler
    (netdev_rx_handler_register in net/core/dev.c).
    """

    problem = "the parent is taken by something that cannot share it"
    advice = (
        "unplug what it carries ('sriov-rt vif show' lists it) or name"
        " another parent"
    )


class BudgetExceeded(VifError):
    """The parent has no room for another MAC; the NIC would drop silently."""

    problem = "the parent's MAC filters are used up"
    advice = (
        "use another parent, or ipvlan, whose ports share the parent's MAC"
    )


class TrustNeeded(VifError):
    """A macvlan with its own MAC on a VF with an administrative MAC."""

    problem = (
        "a macvlan's own MAC carries no traffic on a VF that has an"
        " administrative MAC and is not trusted"
    )
    advice = "set [vif] allow_trust, clear the VF's MAC, or use ipvlan"


class SpreadNeeded(VifError):
    """The NIC has an accelerated instance of the network (see endpoints)."""

    problem = (
        "onload_same_host: an accelerated instance of its network is there"
    )
    advice = (
        "use another host or NIC ('sriov-rt vif show' on this one says which "
        "instance it is); see also [onload] second_endpoint"
    )


class NameInvalid(VifError):
    """No interface can have this name."""

    problem = "not a name for an interface"
    advice = (
        "use 1 to 15 bytes of printable ASCII without '/', ':', '%' or spaces"
    )


class NameTaken(VifError):
    """Another interface of the namespace has the name: EEXIST."""

    problem = "there is an interface of this name already"
    advice = "choose another name for the port, or delete that interface"


class AlreadyPlugged(VifError):
    """The port is there, as something else than what is requested."""

    problem = "the port is plugged already, as something else"
    advice = "unplug it first, or request it as it is"


class Quarantined(VifError):
    """The port's interface was not seen to come back, or not clean.

    Until it is, its VF or parent is not reset and not given to others: that
    would be to set them under its tenant, or to hand on what it has left.
    """

    problem = "quarantined"
    advice = (
        "end the container that had it and unplug the port again; if it is"
        " sure to be gone, 'sriov-rt vif forget PORT --force'"
    )


class RecordBroken(VifError):
    """The record of a port cannot be read."""

    problem = "the record of a port cannot be read"
    advice = (
        "see what has written it; remove the file once no interface of the"
        " port is left"
    )


class NotForgotten(VifError):
    """Only a port that is quarantined is forgotten."""

    problem = "the port is not quarantined"
    advice = "unplug it instead"


class NotAllowed(VifError):
    """The caller may not have what it requests."""

    problem = "a service without privileges may not request it"
    advice = (
        "name the physical network of a parent in [vif] parents, or plug the"
        " port as root by 'sriov-rt vif plug'"
    )


class NoSuchNamespace(VifError):
    """The network namespace is not there."""

    problem = "no such network namespace"
    advice = (
        "give a name that 'ip netns list' shows, or pid:N of a live process"
    )


class NoSuchLink(VifError):
    """The interface is not there, or no longer: ENODEV."""

    problem = "no such interface"
    advice = "see 'ip link' and the kernel's log: its VF may have been removed"


class NotOurs(VifError):
    """The interface belongs to another port, or to nobody that we know."""

    problem = "it was not made for this port"
    advice = "choose another name; 'sriov-rt vif show' lists the ports"


class TooManyVfs(VifError):
    """The owner has as many VFs as a guest can take."""

    problem = "the owner has as many VFs as a guest takes"
    advice = "unplug one of them, or make the port a macvlan or ipvlan"


class JournalFull(VifError):
    """The journal cannot be written, so nothing was touched."""

    problem = "the journal cannot be written, and nothing was changed"
    advice = "free space on its file system, then try again"


class JournalBroken(VifError):
    """The journal's directory cannot be used."""

    problem = "the journal's directory cannot be used"
    advice = "make it a directory that only root can write ([vif] journal)"


class Busy(VifError):
    """Another process works on the port or on its parent."""

    problem = "another process is working on it"
    advice = "try again when that has ended; [vif] lock_timeout is the wait"


class NotPermitted(VifError):
    """The kernel requires a capability that the caller lacks: EPERM."""

    problem = "not permitted"
    advice = (
        "run as root, or with CAP_NET_ADMIN, CAP_SYS_ADMIN (to enter a"
        " namespace) and CAP_SYS_PTRACE (to find one by its process)"
    )


class AnnouncingNotPermitted(NotPermitted):
    """The kernel gives the caller no packet socket."""

    advice = "give it CAP_NET_RAW as well; the port itself works"


class TryAgain(VifError):
    """The kernel was not ready for it: EAGAIN."""

    problem = "the kernel was not ready for it"
    advice = "wait until the VF has finished its reset, then try again"


class Unsupported(VifError):
    """The kernel has no such kind of interface or setting: EOPNOTSUPP."""

    problem = "the kernel does not support it"
    advice = (
        "load its module (modprobe macvlan, macvtap, ipvlan, sch_htb or"
        " act_police)"
    )


class NotVerified(VifError):
    """What was set reads back as something else."""

    problem = "it is not what was set"
    advice = "see what else manages it (NetworkManager, udev, another agent)"


class LinkRefused(VifError):
    """The kernel refused it with an errno that no other error is for.

    :param code: the errno.
    """

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


_NAMED: Mapping[int, type[VifError]] = {
    errno.EPERM: NotPermitted,
    errno.EACCES: NotPermitted,
    errno.EBUSY: ParentTaken,
    errno.EAGAIN: TryAgain,
    errno.EEXIST: NameTaken,
    errno.ENODEV: NoSuchLink,
    errno.ENXIO: NoSuchLink,
    errno.EOPNOTSUPP: Unsupported,
}


def from_errno(
    code: int, device: str, *, port: str | None = None, detail: str = ""
) -> VifError:
    """Return the error that an errno of the kernel is.

    :param device: the interface or namespace that was spoken of.
    :param detail: what was tried, a clause.
    """
    if (named := _NAMED.get(code)) is not None:
        return named(device, port=port, detail=detail)
    text = errno.errorcode.get(code, str(code))
    text = f"{text}: {os.strerror(code)}"
    detail = f"{detail}: {text}" if detail else text
    return LinkRefused(device, port=port, detail=detail, code=code)
