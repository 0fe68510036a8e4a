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

"""Rates of an interface by tc: what leaves by HTB, what comes in policed.

The classes are those of seed 000: ``1:`` and by default ``1:11`` below
``1:1``.
"""

import errno
import struct
from typing import Any

from pyroute2.netlink.rtnl.tcmsg import cls_u32
from pyroute2.netlink.rtnl.tcmsg import sched_htb
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from sriov_rt.vif import errors
from sriov_rt.vif.addressing import encoded
from sriov_rt.vif.attributes import Attributes
from sriov_rt.vif.edge import Link
from sriov_rt.vif.requests import NLM_F_CREATE
from sriov_rt.vif.requests import NLM_F_DUMP
from sriov_rt.vif.requests import NLM_F_EXCL
from sriov_rt.vif.rtnl import Channel
from sriov_rt.vif.words import Limits

#: include/uapi/linux/rtnetlink.h.
RTM_NEWQDISC = 36
RTM_DELQDISC = 37
RTM_NEWTCLASS = 40
RTM_GETTCLASS = 42
RTM_NEWTFILTER = 44
RTM_GETTFILTER = 46

#: Handles (include/uapi/linux/pkt_sched.h): a major number of 16 bits, and
#: a minor one.
TC_H_ROOT = 0xFFFFFFFF
TC_H_INGRESS = 0xFFFFFFF1
HTB = 0x10000
HTB_TOP = 0x10001
HTB_DEFAULT = 0x10011
INGRESS = 0xFFFF0000

#: tcm_info of a filter: its priority, and ETH_P_ALL in network order.
_EVERYTHING = (1 << 16) | struct.unpack("=H", struct.pack("!H", 3))[0]

#: A policer drops what is longer than its burst or its MTU at once. What
#: comes in may be several packets merged to 64 KiB (GRO_LEGACY_MAX_SIZE in
#: include/linux/netdevice.h); 50 ms of the rate let TCP reach it.
MERGED = 128 * 1024
BURST_S = 0.05

#: The greatest rate of 32 bits, which is all that pyroute2's policer takes.
MAX_IN_KBPS = 0xFFFFFFFF * 8 // 1000

#: struct tcmsg, and where its handle is.
_TCMSG = struct.Struct("=BxxxiIII")
_TCA_KIND = 1
_TCA_OPTIONS = 2
_TCA_HTB_PARMS = 1
_TCA_HTB_RATE64 = 6
_TCA_U32_POLICE = 6
_TCA_POLICE_TBF = 1

#: The rate within struct tc_htb_opt and struct tc_police: the last part of
#: a struct tc_ratespec.
_HTB_RATE = struct.Struct("=8xI")
_POLICE_RATE = struct.Struct("=20x8xI")

#: What the kernel says to the removal of what is not there: no such qdisc,
#: the default one (whose handle is 0), or one of another kind or handle.
_NOT_OURS = (errno.ENOENT, errno.EINVAL)


def apply(channel: Channel, link: Link, limits: Limits) -> None:
    """Set the rates of an interface, or remove those that were set.

    :param channel: in the namespace of the interface.
    :raises Unsupported: where the kernel has not what it takes; no limit is
        left then.
    :raises NotVerified: if a rate reads back as another.
    """
    _remove(channel, link)
    try:
        if limits.out_kbps is not None:
            _shape(channel, link, limits.out_kbps)
        if limits.in_kbps is not None:
            _police(channel, link, limits.in_kbps)
    except errors.VifError:
        _remove(channel, link)
        raise


def read(channel: Channel, link: Link) -> Limits:
    """Return the rates of an interface, as the kernel has them."""
    return Limits(_read_out(channel, link), _read_in(channel, link))


def _remove(channel: Channel, link: Link) -> None:
    for kind, parent, handle in (
        ("htb", TC_H_ROOT, HTB),
        ("ingress", TC_H_INGRESS, INGRESS),
    ):
        request = _request(RTM_DELQDISC, 0, link, parent, handle, kind)
        try:
            channel.ask(request)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise _refused(error, link, f"remove {kind}") from error


def _shape(channel: Channel, link: Link, kbps: int) -> None:
    root = sched_htb.get_parameters({"default": HTB_DEFAULT & 0xFFFF})
    # By pyroute2 in bytes a second, as in the kernel.
    rate = sched_htb.get_class_parameters({"rate": kbps * 125})
    _ask(
        channel,
        link,
        f"limit what leaves to {kbps} kbit/s",
        _new(RTM_NEWQDISC, link, TC_H_ROOT, HTB, "htb", root),
        _new(RTM_NEWTCLASS, link, HTB, HTB_TOP, "htb", rate),
        _new(RTM_NEWTCLASS, link, HTB_TOP, HTB_DEFAULT, "htb", rate),
    )
    _verify(link, "what leaves", kbps, _read_out(channel, link))


def _police(channel: Channel, link: Link, kbps: int) -> None:
    if kbps > MAX_IN_KBPS:
        raise errors.Unsupported(
            link.name, detail=f"at most {MAX_IN_KBPS} kbit/s can come in"
        )
    rate = kbps * 125
    match = cls_u32.get_parameters(
        {
            "target": 1,
            "keys": ["0x0/0x0+0"],
            "rate": rate,
            "burst": max(MERGED, int(rate * BURST_S)),
            "mtu": MERGED,
            "action": "drop",
        }
    )
    _ask(
        channel,
        link,
        f"limit what comes in to {kbps} kbit/s",
        _new(RTM_NEWQDISC, link, TC_H_INGRESS, INGRESS, "ingress"),
        _new(RTM_NEWTFILTER, link, INGRESS, 0, "u32", match, info=_EVERYTHING),
    )
    _verify(link, "what comes in", kbps, _read_in(channel, link))


def _read_out(channel: Channel, link: Link) -> int | None:
    request = _request(RTM_GETTCLASS, NLM_F_DUMP, link, 0, 0)
    for answer in channel.ask(request):
        handle, found = _parse(answer.body)
        options = found.nested(_TCA_OPTIONS)
        if handle == HTB_DEFAULT and found.text(_TCA_KIND, 16) == "htb":
            wide = options.number(_TCA_HTB_RATE64)
            return _kbps(options.get(_TCA_HTB_PARMS, b""), _HTB_RATE, wide)
    return None


def _read_in(channel: Channel, link: Link) -> int | None:
    request = _request(RTM_GETTFILTER, NLM_F_DUMP, link, INGRESS, 0)
    for answer in channel.ask(request):
        _, found = _parse(answer.body)
        police = found.nested(_TCA_OPTIONS).nested(_TCA_U32_POLICE)
        if _TCA_POLICE_TBF in police:
            return _kbps(police[_TCA_POLICE_TBF], _POLICE_RATE, None)
    return None


def _parse(body: bytes) -> tuple[int, Attributes]:
    if len(body) < _TCMSG.size:
        return 0, Attributes(b"")
    _, _, handle, _, _ = _TCMSG.unpack_from(body)
    return handle, Attributes(body[_TCMSG.size :])


def _kbps(data: bytes, rate: struct.Struct, wide: int | None) -> int | None:
    if len(data) < rate.size:
        return None
    return (wide or rate.unpack_from(data)[0]) * 8 // 1000


def _verify(link: Link, what: str, wanted: int, found: int | None) -> None:
    if found != wanted:
        detail = f"{what}: {found} kbit/s, not {wanted}"
        raise errors.NotVerified(link.name, detail=detail)


def _ask(channel: Channel, link: Link, what: str, *asked: bytes) -> None:
    try:
        channel.ask(*asked)
    except OSError as error:
        raise _refused(error, link, what) from error


def _refused(error: OSError, link: Link, what: str) -> errors.VifError:
    code = error.errno or errno.EIO
    detail = f"{what}: {error.strerror}"
    if code == errno.ENOENT:
        # The module of a scheduler, a classifier or an action is missing.
        return errors.Unsupported(link.name, detail=detail)
    return errors.from_errno(code, link.name, detail=detail)


def _new(
    kind: int,
    link: Link,
    parent: int,
    handle: int,
    module: str,
    options: Any = None,
    info: int = 0,
) -> bytes:
    flags = NLM_F_CREATE | NLM_F_EXCL
    return _request(kind, flags, link, parent, handle, module, options, info)


def _request(
    kind: int,
    flags: int,
    link: Link,
    parent: int,
    handle: int,
    module: str = "",
    options: Any = None,
    info: int = 0,
) -> bytes:
    attributes: list[Any] = [("TCA_KIND", module)] if module else []
    if options is not None:
        attributes.append(("TCA_OPTIONS", options))
    return encoded(
        tcmsg(),
        kind,
        flags,
        index=link.index,
        parent=parent,
        handle=handle,
        info=info,
        attrs=attributes,
    )
