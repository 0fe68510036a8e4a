# SPDX-License-Identifier: Apache-2.0

"""Parents of a host, as it offers them to Neutron."""

from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.model import KINDS
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import View


def offer(view: View, pools: Pools, virt_type: str) -> Offer:
    """Return what a host offers.

    :param pools: those that the operator names; what is not there, or has
        been given away as a whole VF, carries nothing.
    :param virt_type: ``[libvirt] virt_type`` of its nova-compute.
    """
    parents: dict[str, set[str]] = {}
    vfs: dict[str, set[str]] = {}
    for member in pools.members:
        if not member.of_pf:
            link = view.on_host(member.name)
            if link is not None:
                parents.setdefault(member.network, set()).add(link.name)
                if view.vf_of(link) is not None:
                    vfs.setdefault(member.network, set()).add(link.name)
            continue
        for vf in view.vfs_of(member.name):
            netdev = vf.netdev or ""
            if pools.network_of(netdev, vf.id) == member.network:
                for found in (parents, vfs):
                    found.setdefault(member.network, set()).add(netdev)
    return Offer(
        {network: len(names) for network, names in parents.items()},
        {network: len(names) for network, names in vfs.items()},
        frozenset(KINDS.get(virt_type, {})),
    )
