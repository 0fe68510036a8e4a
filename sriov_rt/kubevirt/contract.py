# SPDX-License-Identifier: Apache-2.0

"""KubeVirt's plugin contract: names, services and messages.

The messages are defined here as descriptors, from the published contract of
KubeVirt 1.9 (``plugin.kubevirt.io/v1alpha1``). Its API group may be renamed,
so no other module of the package names it.
"""

import functools
from collections.abc import Mapping
from typing import Any

from sriov_rt.kubevirt import messages
from sriov_rt.kubevirt.messages import BYTES
from sriov_rt.kubevirt.messages import STRING

#: The name of our Plugin, and of its directory below SOCKETS.
PLUGIN = "sriov-rt"

#: Paths of our Plugin and of the KubeVirt resources on an API server.
PLUGIN_PATH = f"/apis/plugin.kubevirt.io/v1alpha1/plugins/{PLUGIN}"
KUBEVIRT_PATH = "/apis/kubevirt.io/v1/kubevirts"

#: The feature gate for plugins.
GATE = "Plugins"

#: Socket where virt-launcher looks for our domain hook, and the one where our
#: manifest sends virt-handler for our node hook.
DOMAIN_SOCKET = f"/var/run/kubevirt-plugin/{PLUGIN}/domain.sock"
NODE_SOCKET = f"/var/run/kubevirt/plugins/{PLUGIN}.sock"

#: Socket of kubelet's PodResources API, and sriov-cni's state directory
#: (DefaultCNIDir of sriov-cni's pkg/config/config.go), the same on every node.
POD_RESOURCES_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
SRIOV_CNI_DIRECTORY = "/var/lib/cni/sriov"

#: The package of the services and their messages.
PACKAGE = "kubevirt.hooks.plugins.v1alpha1"
DOMAIN_SERVICE = f"{PACKAGE}.DomainHookService"
NODE_SERVICE = f"{PACKAGE}.NodeHookService"

#: The only ``domain_type`` that exists.
LIBVIRT = "libvirt"

#: ``invocation_context`` of a hook on a migration's target, whose result is
#: ignored (pkg/virt-launcher/virtwrap/live-migration-target.go).
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
