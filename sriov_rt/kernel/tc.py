# SPDX-License-Identifier: Apache-2.0

"""Rates of an interface by tc: HTB for egress, a policer for ingress.

The classes are those of CERN's LXC on SR-IOV: ``1:``, and ``1:11`` below
``1:1`` by default.
"""

import contextlib
import dataclasses
import errno
from collections.abc import Iterator

from sriov_rt.kernel import errors
from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.rtnetlink import Route

#: Handles (include/uapi/linux/pkt_sched.h): a major number of 16 bits, and
#: a minor one.
TC_H_ROOT = 0xFFFFFFFF
TC_H_INGRESS = 0xFFFFFFF1
HTB = 0x10000
HTB_TOP = 0x10001
HTB_DEFAULT = 0x10011
INGRESS = 0xFFFF0000

#: include/uapi/linux/if_ether.h.
ETH_P_ALL = 3

#: A policer immediately drops packets longer than its burst or its MTU.
#: Incoming packets may be merged to 64 KiB (GRO_LEGACY_MAX_SIZE in
#: include/linux/netdevice.h); 50 ms of the rate let TCP reach it.
MERGED = 128 * 1024
BURST_S = 0.05

#: The highest rate in 32 bits, which is all that pyroute2's policer takes.
MAX_IN_KBPS = 0xFFFFFFFF * 8 // 1000

#: Errors for the removal of something absent: no such qdisc, the default one
#: (whose handle is 0), or one of another kind or handle.
_NOT_OURS = (errno.ENOENT, errno.EINVAL)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Rates of a subinterface, kept by tc.

    :param out_kbps: limit of what it sends, kbit/s; None for no limit.
    :param in_kbps: limit of what it receives, likewise.
    """

    out_kbps: int | None = None
    in_kbps: int | None = None


UNLIMITED = Limits()


def apply(route: Route, link: Link, limits: Limits) -> None:
    """Set the rates of an interface, or remove the former ones.

    :param route: conversation in the namespace of the interface.
    :raises Unsupported: if the kernel lacks a module; then no limit is left.
    :raises NotVerified: if another rate is read back.
    """
    _remove(route, link)
    try:
        if limits.out_kbps is not None:
            _shape(route, link, limits.out_kbps)
        if limits.in_kbps is not None:
            _police(route, link, limits.in_kbps)
    except errors.LinkError:
        _remove(route, link)
        raise


def read(route: Route, link: Link) -> Limits:
    """Return the rates of an interface, as the kernel shows them."""
    return Limits(_read_out(route, link), _read_in(route, link))


def _remove(route: Route, link: Link) -> None:
    for kind, parent, handle in (
        ("htb", TC_H_ROOT, HTB),
        ("ingress", TC_H_INGRESS, INGRESS),
    ):
        with _named(link, f"remove {kind}"):
            try:
                with rtnetlink.refused():
                    route.tc("del", kind, link.index, handle, parent=parent)
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise


def _shape(route: Route, link: Link, kbps: int) -> None:
    index = link.index
    # An integer is in bytes per second, as in the kernel.
    rate = kbps * 125
    with _named(link, f"limit what leaves to {kbps} kbit/s"):
        route.tc("add", "htb", index, HTB, default=HTB_DEFAULT & 0xFFFF)
        for parent, handle in ((HTB, HTB_TOP), (HTB_TOP, HTB_DEFAULT)):
            route.tc(
                "add-class", "htb", index, handle, parent=parent, rate=rate
            )
        found = _read_out(route, link)
    _verify(link, "what leaves", kbps, found)


def _police(route: Route, link: Link, kbps: int) -> None:
    if kbps > MAX_IN_KBPS:
        raise errors.Unsupported(
            link.name, detail=f"at most {MAX_IN_KBPS} kbit/s can come in"
        )
    rate = kbps * 125
    with _named(link, f"limit what comes in to {kbps} kbit/s"):
        route.tc("add", "ingress", link.index, INGRESS)
        route.tc(
            "add-filter",
            "u32",
            link.index,
            parent=INGRESS,
            prio=1,
            protocol=ETH_P_ALL,
            target=1,
            keys=["0x0/0x0+0"],
            rate=rate,
            burst=max(MERGED, int(rate * BURST_S)),
            mtu=MERGED,
            action="drop",
        )
        found = _read_in(route, link)
    _verify(link, "what comes in", kbps, found)


def _read_out(route: Route, link: Link) -> int | None:
    for each in route.get_classes(index=link.index):
        if (
            each["handle"] == HTB_DEFAULT
            and each.get_attr("TCA_KIND") == "htb"
        ):
            options = each.get_attr("TCA_OPTIONS")
            wide = options.get_attr("TCA_HTB_RATE64")
            return _kbps(wide or options.get_attr("TCA_HTB_PARMS")["rate"])
    return None


def _read_in(route: Route, link: Link) -> int | None:
    for each in route.get_filters(index=link.index, parent=INGRESS):
        found = each
        for name in ("TCA_OPTIONS", "TCA_U32_POLICE", "TCA_POLICE_TBF"):
            found = None if found is None else found.get_attr(name)
        if found is not None:
            return _kbps(found["rate"])
    return None


def _kbps(rate: int) -> int:
    return rate * 8 // 1000


def _verify(link: Link, what: str, requested: int, found: int | None) -> None:
    if found != requested:
        detail = f"{what}: {found} kbit/s, not {requested}"
        raise errors.NotVerified(link.name, detail=detail)


@contextlib.contextmanager
def _named(link: Link, what: str) -> Iterator[None]:
    """Translate an error of the kernel to an error of an interface."""
    try:
        with rtnetlink.refused():
            yield
    except OSError as error:
        code = error.errno or errno.EIO
        detail = f"{what}: {error.strerror}"
        if code == errno.ENOENT:
            # The module of a scheduler, classifier or action is missing.
            raise errors.Unsupported(link.name, detail=detail) from error
        raise errors.from_errno(code, link.name, detail=detail) from error
