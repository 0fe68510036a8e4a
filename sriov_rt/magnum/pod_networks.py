# SPDX-License-Identifier: Apache-2.0

"""Networks of pods, from a nodegroup's labels to manifests and node files.

As in the published set-up of Onload's operator, a NetworkAttachmentDefinition
has no configuration. Instead a file on each node names the interface and the
range of addresses there.
"""

import dataclasses
import ipaddress
import json
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import yaml

from sriov_rt.magnum import node
from sriov_rt.magnum import node_networks
from sriov_rt.magnum.addons import Addon
from sriov_rt.parse import selector
from sriov_rt.request import words

#: The add-on's name.
ADDON = "pod-networks"

#: Prefix of a node's labels, one for each network of its pods.
LABEL_PREFIX = "network.sriov-rt.openstack.org/"

#: Label of nodes with networks for pods.
NODE_LABEL = "sriov-rt.openstack.org/pod-networks"

#: Label of nodes whose VFs are for pods.
VF_LABEL = "sriov-rt.openstack.org/pod-vfs"

#: Annotation from which Multus learns the resource of the allocated device.
RESOURCE_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName"

#: Namespace of the definitions; pods elsewhere write NAMESPACE/NAME.
NAMESPACE = "default"

_VF = "-vf"

#: An RFC 1123 name that leaves room for the suffix.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,57}[a-z0-9])?")

#: Default number of pods of a node, which is the kubelet's limit.
DEFAULT_PODS = 110

#: The fewest nodes that a pod subnet has to serve.
MIN_NODES = 2


@dataclasses.dataclass(frozen=True, slots=True)
class PodNetworks:
    """Networks of a nodegroup's pods.

    :param networks: distinct names or UUIDs.
    :param subnets: one for each network.
    :param pods: addresses of each node in each subnet.
    """

    vif: words.Vif
    networks: tuple[str, ...]
    subnets: tuple[ipaddress.IPv4Network, ...]
    pods: int

    def problems(self, vif: words.Vif | None) -> list[str]:
        """Return why they cannot be configured, a clause each."""
        found = [
            f"network {name!r}: Kubernetes does not accept its name; put its "
            "UUID into the label"
            for name in self.networks
            if not _NAME.fullmatch(name)
        ]
        if len(self.subnets) != len(self.networks):
            found.append(
                "label sriov_rt_pod_subnets has to have one subnet for each "
                f"of {len(self.networks)} networks, and has "
                f"{len(self.subnets)}"
            )
        for each in self.subnets:
            if each.num_addresses < MIN_NODES * self.pods:
                found.append(
                    f"pod subnet {each} has no {self.pods} addresses for "
                    f"{MIN_NODES} nodes; choose a larger one, or set label "
                    "sriov_rt_pods_per_node"
                )
        found += [
            f"pod subnets {one} and {other} overlap"
            for index, one in enumerate(self.subnets)
            for other in self.subnets[:index]
            if one.overlaps(other)
        ]
        if self.vif.kind is words.VifKind.VF and not (
            vif and vif.kind is words.VifKind.VF
        ):
            found.append(
                "label sriov_rt_pod_vif gives VFs to pods, and the flavor's "
                "servers have none; choose a flavor with sriov_rt:vif=vf, or "
                "macvlan or ipvlan for pods"
            )
        return found

    def node_labels(self) -> dict[str, str]:
        """Return labels of the nodes."""
        kind = self.vif.kind.value
        found = {NODE_LABEL: kind}
        if self.vif.kind is words.VifKind.VF:
            found[VF_LABEL] = "true"
        for name in self.networks:
            found[LABEL_PREFIX + self._definition(name)] = kind
        return found

    def bootstrap(self, ids: Mapping[str, str]) -> dict[str, Any]:
        """Return the files and command of a node.

        :param ids: the UUID of each network.
        """
        config = {
            "kind": self.vif.kind.value,
            "mode": self.vif.mode,
            "pods": self.pods,
            "networks": [
                {
                    "name": self._definition(name),
                    "id": ids[name],
                    "subnet": str(subnet),
                    "resource": resource(name),
                }
                for name, subnet in zip(
                    self.networks, self.subnets, strict=True
                )
            ],
        }
        return node.pod_networks(json.dumps(config, indent=2))

    def _definition(self, name: str) -> str:
        return name + _VF if self.vif.kind is words.VifKind.VF else name


def resource(network: str) -> str:
    """Return the resource name of a network's VFs.

    The device plugin advises against hyphens.
    """
    return network.replace("-", "_")


def addon(nodes: Iterable[Mapping[str, str]]) -> Addon:
    """Return the add-on with the definitions of a cluster's networks.

    :param nodes: the labels of each kind of node.
    """
    names = {
        key.removeprefix(LABEL_PREFIX): value
        for labels in nodes
        for key, value in labels.items()
        if key.startswith(LABEL_PREFIX)
    }
    documents = []
    for name, kind in sorted(names.items()):
        metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
        if kind == words.VifKind.VF:
            network = resource(name.removesuffix(_VF))
            metadata["annotations"] = {
                RESOURCE_ANNOTATION: (
                    f"{node_networks.RESOURCE_PREFIX}/{network}"
                )
            }
        documents.append(
            {
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinition",
                "metadata": metadata,
            }
        )
    return Addon(
        name=ADDON,
        version=1,
        namespace=NAMESPACE,
        nodes=selector.parse_selector(NODE_LABEL),
        manifests={"networks.yaml": yaml.safe_dump_all(documents)},
    )
