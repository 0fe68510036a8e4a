# SPDX-License-Identifier: Apache-2.0

"""KubeVirt's plugin contract: names, services and messages.

What goes over the wire is written down here as descriptors, from the
published contract of KubeVirt 1.9 (``plugin.kubevirt.io/v1alpha1``). Its
group may be renamed: no other module of the package names it.
"""

import functools
from collections.abc import Mapping
from typing import Any

from sriov_rt.kubevirt import messages
from sriov_rt.kubevirt.messages import BYTES
from sriov_rt.kubevirt.messages import STRING

#: The name of our Plugin, and of its directory below SOCKETS.
PLUGIN = "sriov-rt"

#: Where an API server has it, and where KubeVirt says what it is.
PLUGIN_PATH = f"/apis/plugin.kubevirt.io/v1alpha1/plugins/{PLUGIN}"
KUBEVIRT_PATH = "/apis/kubevirt.io/v1/kubevirts"

#: The feature gate of plugins.
GATE = "Plugins"

#: Where virt-launcher looks for the sockets of domain hooks, and virt-handler
#: by our manifest for that of node hooks.
DOMAIN_SOCKET = f"/var/run/kubevirt-plugin/{PLUGIN}/domain.sock"
NODE_SOCKET = f"/var/run/kubevirt/plugins/{PLUGIN}.sock"

#: kubelet's PodResources API, and sriov-cni's notes, as on every node
#: (DefaultCNIDir of sriov-cni's pkg/config/config.go).
POD_RESOURCES_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
SRIOV_CNI_DIRECTORY = "/var/lib/cni/sriov"

#: The package of the services and of their messages.
PACKAGE = "kubevirt.hooks.plugins.v1alpha1"
DOMAIN_SERVICE = f"{PACKAGE}.DomainHookService"
NODE_SERVICE = f"{PACKAGE}.NodeHookService"

#: ``domain_type`` of the one kind of domain that there is.
LIBVIRT = "libvirt"

#: ``invocation_context`` of a hook on a migration's target, whose result
#: nobody reads (pkg/virt-launcher/virtwrap/live-migration-target.go).
MIGRATION_TARGET = "MigrationTarget"


@functools.cache
def message(name: str) -> Any:
    """Return the class of a message."""
    return _messages()[name]


@functools.cache
def _messages() -> Mapping[str, Any]:
    return messages.build(
        PACKAGE,
        {
            "SidecarContext": (("invocation_context", 1, STRING),),
            "MutateDomainRequest": (
                ("domain_type", 1, STRING),
                ("domain", 2, BYTES),
                ("vmi", 3, BYTES),
                ("sidecar_context", 4, "SidecarContext"),
            ),
            "MutateDomainResponse": (("domain", 1, BYTES),),
            "NodeContext": (("node_name", 1, STRING),),
            "ExecuteNodeHookRequest": (
                ("hookPoint", 1, STRING),
                ("vmi", 2, BYTES),
                ("node_context", 3, "NodeContext"),
            ),
            "ExecuteNodeHookResponse": (),
        },
    )
