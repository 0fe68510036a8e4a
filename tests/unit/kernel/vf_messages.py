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
