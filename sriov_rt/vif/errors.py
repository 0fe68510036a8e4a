# SPDX-License-Identifier: Apache-2.0

"""Errors of a port, named for what the operator does next."""

import os

from sriov_rt.kernel.errors import LinkError


class VifError(LinkError):
    """A port cannot be plugged, unplugged or shown."""

    problem = "the port cannot be made"


class NoParent(VifError):
    """No interface of the pool can carry the port."""

    problem = "no parent is available for the port"
    advice = "add VFs or interfaces to [vif] parents, or free one"


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
    """The NIC has an accelerated instance of the network; see endpoints."""

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


class AlreadyPlugged(VifError):
    """The port exists, but differs from what is requested."""

    problem = "the port is plugged already, as something else"
    advice = "unplug it first, or request it as it is"


class Quarantined(VifError):
    """The port's interface was not seen to return, or is not clean.

    Until then its VF or parent is neither reset nor handed out: that would
    change it under its tenant, or pass on what the tenant has left.
    """

    problem = "quarantined"
    advice = (
        "end the container that had it and unplug the port again; if it is"
        " sure to be gone, 'sriov-rt vif forget PORT --force'"
    )

    def __init__(
        self,
        device: str,
        *,
        port: str | None = None,
        detail: str = "",
        removed: bool = False,
        remedy: str = "",
    ) -> None:
        super().__init__(device, port=port, detail=detail)
        self.removed = removed
        self.remedy = remedy or self.advice

    def __str__(self) -> str:
        return super().__str__().removesuffix(self.advice) + self.remedy


class Kept(Quarantined):
    """The port's interface is deleted, but its parent is quarantined.

    An interface that belongs to no port, or cannot be seen, may be on it.
    """

    problem = "unplugged, but the parent is quarantined"
    advice = (
        "end the container that had the port, or unplug what else is on the"
        " parent; 'sriov-rt vif recover' looks again"
    )


class RecordDamaged(Quarantined):
    """The record of a port is damaged: what is left of the port is unknown."""

    advice = (
        "check that no interface of the port is left, then 'sriov-rt vif"
        " forget PORT --force'"
    )

    @classmethod
    def advise(cls, port: str) -> str:
        """Return what to do about the record of a port, a clause."""
        return cls.advice.replace("PORT", port)


class NotForgotten(VifError):
    """Only a quarantined port can be forgotten."""

    problem = "the port is not quarantined"
    advice = "unplug it instead"


class InterfaceLeft(VifError):
    """A port whose interface still exists cannot be forgotten."""

    problem = "its interface is still there"
    advice = "delete it, or end who has it, and unplug the port"


class NotAllowed(VifError):
    """The caller may not have this port."""

    problem = "a service without privileges may not request it"
    advice = (
        "name the physical network of a parent in [vif] parents, or plug the"
        " port as root by 'sriov-rt vif plug'"
    )


class NotOurs(VifError):
    """The interface belongs to another port, or to an unknown owner."""

    problem = "it was not made for this port"
    advice = "choose another name; 'sriov-rt vif show' lists the ports"


class TooManyVfs(VifError):
    """The owner has as many VFs as a guest can take."""

    problem = "the owner has as many VFs as a guest takes"
    advice = "unplug one of them, or make the port a macvlan or ipvlan"


class RecordsFull(VifError):
    """The records cannot be written, so nothing was touched."""

    problem = "the records cannot be written, and nothing was changed"
    advice = "free space on its file system, then try again"


class RecordsBroken(VifError):
    """The directory of the records cannot be used."""

    problem = "the directory of the records cannot be used"
    advice = "make it a directory that only root can write ([vif] records)"

    def __str__(self) -> str:
        text = super().__str__()
        if isinstance(self.__cause__, PermissionError) and os.geteuid():
            return f"{text.removesuffix(self.advice)}run as root"
        return text


class RecordsNotKept(RecordsBroken):
    """The records would end with the container, but the ports would not."""

    problem = (
        "the directory is the container's own: records in it would end with "
        "the container, and those of the host are not seen"
    )
    advice = (
        "mount the host's /run into the container at /run, then start the "
        "service again"
    )


class NotLost(VifError):
    """A port was unplugged since, or its container has ended."""

    problem = "the port is not to be plugged again"


class NotRestorable(VifError):
    """QEMU keeps the device of an interface that has gone."""

    problem = "its guest has lost its interface, and takes no other"
    advice = "hard-reboot the instance, once its VFs are there again"


class ProcessUnseen(VifError):
    """A port in pid:N was requested, but pids here are a container's."""

    problem = (
        "process ids of this container are not the host's, so that it names "
        "no container of the host"
    )
    advice = (
        "run this on the host or in a container with the host's process ids "
        "(--pid=host, hostPID: true), or give the namespace a name in "
        "/run/netns"
    )


class Busy(VifError):
    """Another process works on the port or on its parent."""

    problem = "another process is working on it"
    advice = "try again when that has ended; [vif] lock_timeout is the wait"
