# SPDX-License-Identifier: Apache-2.0

"""Sentences of the reasons that keep a pod off a node, by code."""

import types
from collections.abc import Mapping
from typing import Any

from sriov_rt import reason as reasons
from sriov_rt.reason import Reason

#: Code to the operator's sentence, with its fields in braces.
SENTENCES: Mapping[str, str] = types.MappingProxyType(
    {
        "pod_network_missing": (
            "no NetworkAttachmentDefinition {network} exists in namespace "
            "{namespace}; create it, or correct annotation "
            "k8s.v1.cni.cncf.io/networks"
        ),
        "pod_vf_not_requested": (
            "network {network} gives VFs of {resource}, and the pod requests "
            "{requested} for {attached} interfaces; set resources.limits of a "
            "container"
        ),
        "pod_class_missing": (
            "no RuntimeClass {runtime_class} exists; create it, or correct "
            "runtimeClassName"
        ),
        "pod_class_without_onload": (
            "{problem}; remove runtimeClassName, or the request for Onload"
        ),
        "pod_class_without_vf": (
            "network {network} gives a VF, for which the sandboxes of runtime "
            "class {runtime_class} are not known to have a port "
            "(cold_plug_vfio); use a class of its annotation "
            "sriov-rt.openstack.org/kata-classes"
        ),
        "pod_class_without_pages": (
            "sandboxes of runtime class {runtime_class} have their memory in "
            "huge pages, and the pod requests none; set resources.limits "
            "hugepages-2Mi or hugepages-1Gi of a container"
        ),
        "pod_term_empty": (
            "a term of the pod's required nodeAffinity has no condition, "
            "which matches no Node; remove the term, or add a condition"
        ),
        "pod_label_missing": (
            "the Node lacks the label of {needed}; use another Node, or label "
            "it with 'kubectl label nodes {node}' if the label is yours"
        ),
        "pod_label_differs": (
            "label {key} of the Node is {found!r}, and the pod needs "
            "{needed}; correct the pod's nodeSelector or affinity, or the "
            "label"
        ),
        "pod_of_another_node": (
            "the pod's nodeAffinity names its Node ({needed}), as that of a "
            "DaemonSet's pods does; see the row of that Node"
        ),
        "pod_labels_lost": (
            "the Node has no label of Node Feature Discovery at all, and the "
            "pod needs {needed}; check that nfd-worker and nfd-master run"
        ),
        "pod_resource_missing": (
            "the Node has no {resource}; check that its device plugin runs "
            "there and finds devices"
        ),
        "pod_spread": (
            "pod {other} on the Node and this one keep off each other's nodes "
            "({label}), since accelerated pods of one network do not reach "
            "each other on one node; use another node, or another network"
        ),
        "pod_handler_missing": (
            "the Node's container runtime has no handler {handler} of runtime "
            "class {runtime_class} (it has {found}); configure it in "
            "containerd, or keep the class off the Node by its "
            "scheduling.nodeSelector"
        ),
        "pod_numa_split": (
            "the topology manager of the Node (policy {policy}, scope "
            "{scope}) rejects {what}: {needed} have to be free together on "
            "{where} ({zones}); delete pods of the Node, or request less"
        ),
        # Notes: the pod starts all the same.
        "pod_cpus_not_isolated": (
            "the pod has {cpus} exclusive CPUs, and the Node reports "
            "{isolated} isolated CPUs; boot it with isolcpus for the "
            "kubelet's static CPUs, or run sriov-rt-agent there if it does "
            "not"
        ),
        "pod_claims": (
            "devices of the pod's ResourceClaims ({claims}) are "
            "kube-scheduler's to allocate, and are not judged here; see "
            "'kubectl describe pod' for what it says of them"
        ),
        "pod_network_elsewhere": (
            "network {network} is for Nodes with label {needed}, which the "
            "Node lacks; network-resources-injector adds that to the pod's "
            "nodeSelector where it runs, and elsewhere add it yourself"
        ),
        "pod_numa_unknown": (
            "whether a free VF and exclusive CPUs share a NUMA node is "
            "unknown, for the Node has no NodeResourceTopology; run "
            "nfd-topology-updater there"
        ),
    }
)

#: Codes of Reasons that do not keep a pod off.
NOTES = frozenset(
    {
        "pod_claims",
        "pod_cpus_not_isolated",
        "pod_network_elsewhere",
        "pod_numa_unknown",
    }
)


def reason(code: str, **fields: Any) -> Reason:
    """Return the Reason of a code, its sentence filled in.

    :param code: a key of :data:`SENTENCES`.
    :param fields: fields of the sentence, and any others.
    """
    return reasons.filled(code, SENTENCES[code], fields)
