# SPDX-License-Identifier: Apache-2.0

"""Messages about PFs, with what they say of their VFs."""

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel import vf


def sent(*infos):
    """Return the bytes of a link with VFs."""
    link = ifinfmsg()
    link["index"] = 4
    if infos:
        link["attrs"] = [("IFLA_VFINFO_LIST", {"attrs": list(infos)})]
    with rtnetlink.conversation():
        link.encode()
    return bytes(link.data)


def message(*infos):
    """Return a link with VFs as it is received."""
    received = ifinfmsg(sent(*infos))
    received.decode()
    return received


def encoded(index, wanted):
    """Return the attributes of what is to be set."""
    attributes = list(vf.encode(index, wanted))
    return ("IFLA_VF_INFO", {"attrs": attributes})
