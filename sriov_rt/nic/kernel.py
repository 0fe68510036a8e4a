# SPDX-License-Identifier: Apache-2.0

"""PFs and VFs of a host, as its kernel shows them: sysfs and rtnetlink."""

import contextlib
import dataclasses
import errno
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.host.root import Root
from sriov_rt.kernel import addressing
from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import counters
from sriov_rt.kernel.vf import decode
from sriov_rt.kernel.vf import encode
from sriov_rt.nic import errors
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.sysfs import Sysfs
from sriov_rt.nic.tenancy import Tenancies


class Kernel(Sysfs):
    """PFs and VFs of a host. Errors of the kernel are raised as NicError.

    :param root: root of sysfs and procfs; rtnetlink is that of the caller's
        network namespace.
    :ivar tenancies: holders of the VFs.
    """

    def __init__(self, root: str = "/") -> None:
        super().__init__(Root(root))
        self.tenancies = Tenancies(self._root)

    def device(self, vf: VfId) -> VfDevice:
        """Return the PCI device of a VF and its interface.

        :raises NoSuchDevice: if it is gone.
        """
        found = super().device(vf)
        if found.netdev is None or not (found.promisc or found.allmulti):
            return found
        promisc, allmulti = self.flags(found.netdev)
        return dataclasses.replace(found, promisc=promisc, allmulti=allmulti)

    def read(self, pf: str) -> Mapping[int, VfSettings]:
        """Return the PF's settings of all its VFs, by one request."""
        return decode(_get(pf, ext_mask=rtnetlink.VFS_ONLY))

    def counters(self, pf: str) -> Mapping[int, Mapping[str, int]]:
        """Return the PF's counters of each VF, by one request."""
        return counters(_get(pf, ext_mask=rtnetlink.VFS_WITH_STATS))

    def write(self, pf: str, changes: Mapping[int, VfSettings]) -> None:
        """Set through the PF what is not None, by one request.

        VLAN and rates are each written as a whole, as the kernel requires. The
        first failure ends it; earlier changes stay.

        :param changes: settings by index of the VF.
        """
        infos = [
            ("IFLA_VF_INFO", {"attrs": list(encode(index, each))})
            for index, each in changes.items()
        ]
        device = f"{pf}/{min(changes)}" if len(changes) == 1 else pf
        with _conversation(device) as route:
            route.link(
                "set",
                index=rtnetlink.index_of(pf),
                IFLA_VFINFO_LIST={"attrs": infos},
            )

    def set_netdev(self, netdev: str, settings: VfSettings) -> None:
        """Set mtu, promisc and allmulti of an interface if not None."""
        flags = rtnetlink.flags(
            {
                rtnetlink.IFF_PROMISC: settings.promisc,
                rtnetlink.IFF_ALLMULTI: settings.allmulti,
            }
        )
        mtu = {} if settings.mtu is None else {"mtu": settings.mtu}
        self._set(netdev, **flags, **mtu)

    def set_mac(self, netdev: str, mac: str) -> None:
        """Give an interface a MAC of its own."""
        self._set(netdev, address=mac)

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._set(netdev, ifname=name)

    def flags(self, netdev: str) -> tuple[bool, bool]:
        """Return whether somebody has set promisc and allmulti.

        sysfs shows them also if only an upper interface needs them.
        """
        bits = _get(netdev)["flags"]
        return (
            bool(bits & rtnetlink.IFF_PROMISC),
            bool(bits & rtnetlink.IFF_ALLMULTI),
        )

    def mtus(self, netdev: str) -> tuple[int, int] | None:
        """Return the lowest and the highest MTU of an interface.

        :returns: None if its driver sets no bounds.
        """
        link = _get(netdev)
        least, greatest = (
            link.get_attr(f"IFLA_{each}_MTU") or 0 for each in ("MIN", "MAX")
        )
        return (least, greatest) if greatest else None

    def carries(self, netdev: str) -> bool:
        """Return whether an interface has a macvlan, ipvlan, bridge or bond.

        It is found in any namespace, seen or not: see
        :func:`rtnetlink.is_idle`.
        """
        with _named(netdev):
            return rtnetlink.is_idle(netdev) is False

    def addressed(self, netdev: str) -> bool:
        """Return whether an interface has an address that was set on it."""
        with _conversation(netdev) as route:
            index = rtnetlink.index_of(netdev)
            return addressing.is_addressed(route, index)

    def _set(self, netdev: str, **desired: Any) -> None:
        with _conversation(netdev) as route:
            route.link("set", index=rtnetlink.index_of(netdev), **desired)


def _get(interface: str, **requested: Any) -> Any:
    """Return the message of a link."""
    with _conversation(interface) as route:
        index = rtnetlink.index_of(interface)
        found = list(route.link("get", index=index, **requested))
    if not found:
        raise errors.BadState(interface, None, "the kernel says nothing")
    return found[0]


@contextlib.contextmanager
def _conversation(device: str) -> Iterator[rtnetlink.Route]:
    with _named(device), rtnetlink.conversation() as route:
        yield route


@contextlib.contextmanager
def _named(device: str) -> Iterator[None]:
    """Translate an error of the kernel to an error of a device."""
    try:
        yield
    except OSError as error:
        code = error.errno or errno.EIO
        raise errors.from_errno(code, device, words=error.strerror) from error
