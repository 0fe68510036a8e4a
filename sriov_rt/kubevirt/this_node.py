# SPDX-License-Identifier: Apache-2.0

"""The node hook with this node's kernel, kubelet and sriov-cni."""

import functools
import pathlib
import socket

from sriov_rt.cni import sriov_cni
from sriov_rt.host.observer import Observer
from sriov_rt.host.observer import load_sources
from sriov_rt.host.root import Root
from sriov_rt.kubevirt import pod_resources
from sriov_rt.kubevirt.node_hook import NodeHook
from sriov_rt.nic import mapping
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import tenants


def hook(kubelet: str, cni: pathlib.Path) -> NodeHook:
    """Return the node hook.

    :param kubelet: path of the socket of its PodResources API.
    :param cni: state directory of sriov-cni.
    """
    root = Root()
    name = socket.gethostname()
    return NodeHook(
        vfs=Vfs.of_host(
            functools.partial(tenants.uses, guests=True), Kind.VMI
        ),
        pods=functools.partial(pod_resources.pods, kubelet),
        network=functools.partial(sriov_cni.settings, directory=cni),
        observe=Observer(root, name, name, load_sources()).observe,
        owners=functools.partial(mapping.Owners, root),
    )
