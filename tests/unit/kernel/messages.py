# SPDX-License-Identifier: Apache-2.0

"""Messages of rtnetlink about links, as pyroute2 reads them."""

from pyroute2.netlink.rtnl import RTM_NEWLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.marshal import MarshalRtnl


def link(*attributes, index=2, flags=0, family=0):
    """Return the message of a link.

    :param attributes: such as ``("IFLA_MTU", 1400)``.
    """
    message = ifinfmsg()
    message["index"] = index
    message["flags"] = flags
    message["family"] = family
    message["attrs"] = list(attributes)
    message["header"]["type"] = RTM_NEWLINK
    message.encode()
    (read,) = MarshalRtnl().parse(bytes(message.data))
    return read


def info(kind, mode=None):
    """Return the attribute of a link's kind.

    :param mode: of its kind, as the kernel counts it.
    """
    data = [("IFLA_INFO_KIND", kind)]
    if mode is not None:
        modes = {"attrs": [(f"IFLA_{kind.upper()}_MODE", mode)]}
        data.append(("IFLA_INFO_DATA", modes))
    return "IFLA_LINKINFO", {"attrs": data}
