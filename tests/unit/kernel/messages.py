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
