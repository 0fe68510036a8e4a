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

"""The fact source of ports: the pools' NICs, and who is accelerated.

The configuration is read below the root, and who has what is the kernel's to
tell: of the host that runs, to who may look into its namespaces.
"""

import contextlib
import re
from collections.abc import Mapping

from oslo_config import cfg

from sriov_rt.codec import Unknown
from sriov_rt.exceptions import SriovRtError
from sriov_rt.facts import Endpoint
from sriov_rt.facts import VifFacts
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.vif import options
from sriov_rt.vif.pools import Pools

NET = "sys/class/net"

#: What it takes to find a namespace by its processes, and to enter it
#: (include/uapi/linux/capability.h: CAP_SYS_PTRACE, CAP_SYS_ADMIN).
_RIGHTS = 1 << 19 | 1 << 21
_EFFECTIVE = re.compile(r"^CapEff:\t([0-9a-f]{16})$", re.MULTILINE)


def observe(root: Root) -> VifFacts:
    """Return the NICs of each physical network, and the accelerated ports."""
    return VifFacts(_pools(root), _endpoints(root))


def _pools(root: Root) -> Mapping[str, tuple[str, ...]] | Unknown:
    if root.exists(CONFIG) is False:
        return {}
    conf = cfg.ConfigOpts()
    options.register(conf)
    try:
        conf(
            [],
            project="sriov_rt",
            default_config_files=[str(root.path / CONFIG)],
        )
        pools = Pools.parse(conf[options.GROUP].parents)
    except (cfg.Error, SriovRtError) as error:
        return Unknown(str(error))
    found: dict[str, set[str]] = {each: set() for each in pools.networks}
    for member in pools.members:
        nic = nic_of(root, member.name)
        if isinstance(nic, Unknown):
            return nic
        if nic is not None:
            found[member.network].add(nic)
    return {name: tuple(sorted(nics)) for name, nics in found.items()}


def nic_of(root: Root, name: str) -> str | None | Unknown:
    """Return the NIC of an interface: the PF's, where it is a VF's.

    :returns: None if it is not here; a VF's may be in a container.
    """
    there = root.exists(f"{NET}/{name}")
    if there is not True:
        return there or None
    physfn = f"{NET}/{name}/device/physfn"
    is_vf = root.exists(physfn)
    if is_vf is not True:
        return is_vf or name
    names = root.list_dir(f"{physfn}/net")
    if isinstance(names, Unknown):
        return names
    return names[0] if names else None


def _endpoints(root: Root) -> tuple[Endpoint, ...] | Unknown:
    if root.is_confined:
        return Unknown("only the host that runs tells of its ports")
    status = root.read_text("proc/self/status")
    if isinstance(status, Unknown):
        return status
    rights = _EFFECTIVE.search(status)
    if rights is None or int(rights[1], 16) & _RIGHTS != _RIGHTS:
        return Unknown(
            "to look into network namespaces takes root, or CAP_SYS_ADMIN "
            "and CAP_SYS_PTRACE"
        )
    return _of_kernel()


def _of_kernel() -> tuple[Endpoint, ...] | Unknown:
    # The kernel's interfaces take long to import.
    from sriov_rt.nic.vfs import Vfs
    from sriov_rt.vif import endpoints
    from sriov_rt.vif import view
    from sriov_rt.vif.netlink import NetlinkLinks

    with contextlib.closing(NetlinkLinks()) as links:
        try:
            return endpoints.of(view.observe(links, Vfs.of_host()))
        except SriovRtError as error:
            return Unknown(str(error))
