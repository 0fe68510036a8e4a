# SPDX-License-Identifier: Apache-2.0

"""Nodes that can run a pod, and why the others cannot. Pure.

Networks, VFs, runtime classes, Onload, the topology manager and labels are
judged. The other rules are left to kube-scheduler, which reports why it could
not schedule an existing pod (:func:`said`).
"""

import collections
import dataclasses
import datetime
import fractions
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.parse import features
from sriov_rt.pods import manifest
from sriov_rt.pods import pod as pods
from sriov_rt.pods import pod_request
from sriov_rt.pods import runtime_class as runtime_classes
from sriov_rt.pods import sentences
from sriov_rt.pods import topology
from sriov_rt.pods.pod_request import Expression
from sriov_rt.pods.pod_request import PodRequest
from sriov_rt.pods.sentences import reason
from sriov_rt.reason import Reason

#: Label with the number of isolated CPUs from sriov-rt-agent (labels.own).
ISOLATED = f"{features.PREFIX}/sriov-rt.cpus.isolated"

#: The same on a node of a Magnum nodegroup, which has no agent and joins only
#: if its kernel has booted with isolcpus (magnum.nodegroup).
REALTIME_CPUS = "sriov-rt.openstack.org/realtime-cpus"

#: Annotation of a NetworkAttachmentDefinition with the runtime classes whose
#: sandboxes have a port for its VFs.
KATA_CLASSES = "sriov-rt.openstack.org/kata-classes"

#: Annotations of a NetworkAttachmentDefinition with the resource of its VFs,
#: and the label that network-resources-injector adds to a pod's nodeSelector.
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
NODE_SELECTOR = "k8s.v1.cni.cncf.io/nodeSelector"

#: The class whose sandboxes have their memory in huge pages
#: (addons/kata/policy.yaml refuses pods without any).
_KATA_PAGES = "kata-rt"

#: Rules that are left to kube-scheduler and the kubelet.
NOT_JUDGED = (
    "spec.nodeName",
    "cordons, conditions and taints",
    "free CPUs, memory, devices and pods of a Node",
    "podAffinity and podAntiAffinity",
    "topologySpreadConstraints",
    "devices of ResourceClaims",
    "volumes and ports of the host",
    "memory of NUMA nodes",
)

#: The longest message from Kubernetes that is passed on, in characters.
MAX_MESSAGE = 1000

_NONE = fractions.Fraction()


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """Objects of a cluster, as the API server returns them.

    :param topologies: NodeResourceTopology objects; those without a Node are
        ignored.
    """

    nodes: Sequence[Mapping[str, Any]] = ()
    pods: Sequence[Mapping[str, Any]] = ()
    networks: Sequence[Mapping[str, Any]] = ()
    runtime_classes: Sequence[Mapping[str, Any]] = ()
    topologies: Sequence[Mapping[str, Any]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Judgement of whether a Node can run a pod.

    :param label_age_s: seconds since the last write of a label that the pod
        needs; None if it needs none, or the time is unknown.
    :param reasons: Reasons against it; none if the Node can run the pod.
    :param notes: Reasons that do not exclude the Node.
    """

    node: str
    label_age_s: int | None
    reasons: tuple[Reason, ...]
    notes: tuple[Reason, ...]

    @property
    def passes(self) -> bool:
        """Whether the Node can run the pod."""
        return not self.reasons

    def to_plain(self) -> dict[str, Any]:
        """Return the placement as a JSON object."""
        return {
            "node": self.node,
            "passes": self.passes,
            "label_age_s": self.label_age_s,
            "reasons": [each.to_plain() for each in self.reasons],
            "notes": [each.to_plain() for each in self.notes],
        }


def find_class(
    given: Mapping[str, Any], cluster: Cluster
) -> Mapping[str, Any] | None:
    """Return the RuntimeClass of a pod or pod template; None if none."""
    spec = manifest.mapping(given, "spec")
    if "template" in spec:
        spec = manifest.mapping(spec, "template", "spec")
    name = manifest.text(spec, "runtimeClassName")
    return _named(cluster.runtime_classes, name)


def judge(
    request: PodRequest, cluster: Cluster, now: float
) -> tuple[Placement, ...]:
    """Return the judgement of each Node, in the order of their names.

    :param now: Unix time, seconds.
    """
    everywhere = tuple(_why_nowhere(request, cluster))
    view = _View.of(request, cluster)
    found = []
    for node in sorted(cluster.nodes, key=manifest.name):
        every = (*everywhere, *_why_not(request, node, view))
        found.append(
            Placement(
                manifest.name(node),
                _label_age(request, node, now),
                tuple(e for e in every if e.code not in sentences.NOTES),
                tuple(e for e in every if e.code in sentences.NOTES),
            )
        )
    return tuple(found)


def said(given: Mapping[str, Any]) -> str | None:
    """Return the cluster's own reason why a pod waits or was rejected.

    :returns: the scheduler's condition, or the kubelet's reason to reject the
        pod; None if there is neither.
    """
    status = manifest.mapping(given, "status")
    message = manifest.text(status, "message")
    if manifest.text(status, "phase") == "Failed":
        why = manifest.text(status, "reason")
        return f"kubelet: {why}: {message}"[:MAX_MESSAGE]
    for each in manifest.objects(status, "conditions"):
        if (
            manifest.text(each, "type") == "PodScheduled"
            and manifest.text(each, "status") != "True"
        ):
            message = manifest.text(each, "message")
            message = message or manifest.text(each, "reason")
            return f"kube-scheduler: {message}"[:MAX_MESSAGE]
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """Objects of the cluster, indexed for judging each Node.

    :param accelerated: Node to its pods whose accelerated traffic is in the
        same network as this pod's.
    """

    accelerated: Mapping[str, Sequence[str]]
    topologies: Mapping[str, Mapping[str, Any]]
    networks: Sequence[tuple[str, Mapping[str, str]]]
    runtime_class: Mapping[str, Any] | None

    @classmethod
    def of(cls, request: PodRequest, cluster: Cluster) -> "_View":
        accelerated: dict[str, list[str]] = {}
        for each in cluster.pods if request.onload_network else ():
            node = manifest.text(each, "spec", "nodeName")
            phase = manifest.text(each, "status", "phase")
            if not node or phase in ("Succeeded", "Failed"):
                continue
            name = f"{manifest.namespace(each)}/{manifest.name(each)}"
            if (
                pod_request.onload_network(each) == request.onload_network
                and name != request.full_name
            ):
                accelerated.setdefault(node, []).append(name)
        return cls(
            accelerated,
            {manifest.name(each): each for each in cluster.topologies},
            [
                (full, _annotations(found))
                for full, found in _networks(cluster).items()
                if full in request.networks
            ],
            _named(cluster.runtime_classes, request.runtime_class),
        )


def _networks(cluster: Cluster) -> Mapping[str, Mapping[str, Any]]:
    return {
        f"{manifest.namespace(each)}/{manifest.name(each)}": each
        for each in cluster.networks
    }


def _annotations(network: Mapping[str, Any]) -> Mapping[str, str]:
    return manifest.texts(network, "metadata", "annotations")


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return manifest.texts(node, "metadata", "labels")


def _named(
    objects: Sequence[Mapping[str, Any]], name: str
) -> Mapping[str, Any] | None:
    found = (each for each in objects if manifest.name(each) == name)
    return next(found, None) if name else None


def _why_nowhere(request: PodRequest, cluster: Cluster) -> Iterator[Reason]:
    """Yield Reasons that exclude every Node."""
    found = _named(cluster.runtime_classes, request.runtime_class)
    if request.runtime_class and found is None:
        yield reason("pod_class_missing", runtime_class=request.runtime_class)
    if request.requests_onload and (
        problem := runtime_classes.why_not(request.spec, found)
    ):
        yield reason("pod_class_without_onload", problem=problem)
    if found is not None and _lacks_pages(request, found):
        yield reason(
            "pod_class_without_pages", runtime_class=request.runtime_class
        )
    if request.claims:
        yield reason("pod_claims", claims=", ".join(request.claims))
    networks = _networks(cluster)
    attached = collections.Counter(
        _annotations(networks[full]).get(RESOURCE)
        for full in request.networks
        if full in networks
    )
    for full in dict.fromkeys(request.networks):
        if full in networks:
            annotations = _annotations(networks[full])
            yield from _why_not_network(
                request, full, annotations, attached, found
            )
        else:
            namespace, _, name = full.partition("/")
            yield reason(
                "pod_network_missing", network=name, namespace=namespace
            )


def _why_not_network(
    request: PodRequest,
    full: str,
    annotations: Mapping[str, str],
    attached: Mapping[str | None, int],
    runtime_class: Mapping[str, Any] | None,
) -> Iterator[Reason]:
    """Yield why a pod cannot be attached to a network.

    :param attached: number of its interfaces by resource, which several
        networks may share.
    """
    resource = annotations.get(RESOURCE)
    if not resource:
        return
    requested = request.resources.get(resource, _NONE)
    # Multus also uses VFs of claims, by an attribute of their devices.
    if requested < attached[resource] and not request.claims:
        yield reason(
            "pod_vf_not_requested",
            network=full,
            resource=resource,
            requested=_number(requested),
            attached=attached[resource],
        )
    classes = annotations.get(KATA_CLASSES, "").split(",")
    if request.runtime_class in [each.strip() for each in classes]:
        return
    handler = manifest.text(runtime_class, "handler")
    if any(
        runtime_classes.is_kata(each)
        for each in (request.runtime_class, handler)
    ):
        yield reason(
            "pod_class_without_vf",
            network=full,
            runtime_class=request.runtime_class,
        )


def _lacks_pages(request: PodRequest, found: Mapping[str, Any]) -> bool:
    return manifest.text(found, "handler") == _KATA_PAGES and not any(
        each.startswith("hugepages-") for each in request.resources
    )


def _why_not(
    request: PodRequest, node: Mapping[str, Any], view: _View
) -> Iterator[Reason]:
    name = manifest.name(node)
    yield from _why_not_selected(request, node)
    yield from _why_no_vfs(request, node, view)
    for other in view.accelerated.get(name, ()):
        label = f"sriov-rt.openstack.org/onload={request.onload_network}"
        yield reason("pod_spread", other=other, label=label)
    yield from _why_no_handler(request, node, view)
    yield from _why_split(request, name, view)
    yield from _isolated(request, node)


def _why_no_vfs(
    request: PodRequest, node: Mapping[str, Any], view: _View
) -> Iterator[Reason]:
    """Yield the pod's networks and Onload devices that a Node lacks.

    A pod from a file has Onload's resource by its usual name, whatever the
    operator's ConfigMap names: a Node with either name has the device plugin.
    """
    there = manifest.amounts(node, "status", "allocatable")
    labels = _labels(node)
    selected = {each.key for each in request.selector}
    resources = {each.get(RESOURCE, "") for _, each in view.networks}
    for each in sorted(resources & request.resources.keys()):
        if not there.get(each):
            yield reason("pod_resource_missing", resource=each)
    onload = sorted(pods.RESOURCES & request.resources.keys())
    if onload and not any(there.get(each) for each in pods.RESOURCES):
        yield reason("pod_resource_missing", resource=onload[0])
    for full, annotations in view.networks:
        key, _, value = annotations.get(NODE_SELECTOR, "").partition("=")
        key, value = key.strip(), value.strip()
        if key and key not in selected and labels.get(key) != value:
            yield reason(
                "pod_network_elsewhere", network=full, needed=f"{key}={value}"
            )


def _why_not_selected(
    request: PodRequest, node: Mapping[str, Any]
) -> Iterator[Reason]:
    labels = {**_labels(node), "metadata.name": manifest.name(node)}
    for each in request.selector:
        if not each.matches(labels):
            yield _unmatched(each, node, labels)
    # An empty term matches nothing (comment of NodeSelectorTerm).
    missed = [
        [each for each in term if not each.matches(labels)]
        for term in request.terms
        if term
    ]
    if request.terms and not missed:
        yield reason("pod_term_empty")
    for each in min(missed, key=len, default=()):
        yield _unmatched(each, node, labels)


def _unmatched(
    expression: Expression,
    node: Mapping[str, Any],
    labels: Mapping[str, str],
) -> Reason:
    key, needed = expression.key, str(expression)
    if key == "metadata.name":
        return reason("pod_of_another_node", needed=needed)
    if key in labels:
        return reason(
            "pod_label_differs", key=key, found=labels[key], needed=needed
        )
    prefix = f"{features.PREFIX}/"
    if key.startswith(prefix) and not any(
        each.startswith(prefix) for each in labels
    ):
        return reason("pod_labels_lost", key=key, needed=needed)
    return reason(
        "pod_label_missing",
        key=key,
        needed=needed,
        node=manifest.name(node),
    )


def _why_no_handler(
    request: PodRequest, node: Mapping[str, Any], view: _View
) -> Iterator[Reason]:
    handler = manifest.text(view.runtime_class, "handler")
    found = [
        manifest.text(each, "name")
        for each in manifest.objects(node, "status", "runtimeHandlers")
    ]
    # Runtimes that report no handlers (containerd 1) omit the list.
    if handler and found and handler not in found:
        yield reason(
            "pod_handler_missing",
            handler=handler,
            runtime_class=request.runtime_class,
            found=", ".join(each for each in found if each) or "none",
        )


def _why_split(
    request: PodRequest, node: str, view: _View
) -> Iterator[Reason]:
    """Yield why a Node's topology manager rejects a pod."""
    known = view.topologies.get(node)
    if known is None:
        if request.exclusive_cpus and len(request.whole.needed) > 1:
            yield reason("pod_numa_unknown")
        return
    found = topology.why_not(known, request.parts, request.whole)
    if found is None:
        return
    needed = found.part.needed
    name = found.part.name
    yield reason(
        "pod_numa_split",
        what="the pod" if name is None else f"container {name}",
        needed=_listed(needed, needed),
        where="one NUMA node"
        if topology.REJECTING[found.policy] == 1
        else "as few NUMA nodes as on an idle Node",
        policy=found.policy,
        scope=found.scope,
        zones="; ".join(
            f"{name}: {_listed(needed, zone)}" for name, zone in found.zones
        )
        or "none",
    )


def _listed(
    keys: Mapping[str, fractions.Fraction],
    amounts: Mapping[str, fractions.Fraction],
) -> str:
    return ", ".join(
        f"{_number(amounts.get(key, _NONE))} {key}" for key in sorted(keys)
    )


def _isolated(
    request: PodRequest, node: Mapping[str, Any]
) -> Iterator[Reason]:
    if not request.exclusive_cpus:
        return
    labels = _labels(node)
    found = labels.get(ISOLATED) or labels.get(REALTIME_CPUS, "0")
    count = int(found) if found.isascii() and found.isdigit() else 0
    if count < request.exclusive_cpus:
        yield reason(
            "pod_cpus_not_isolated",
            cpus=request.exclusive_cpus,
            isolated=count,
        )


def _needed_labels(request: PodRequest) -> Iterator[str]:
    yield from (each.key for each in request.selector)
    for term in request.terms:
        yield from (each.key for each in term)


def _label_age(
    request: PodRequest, node: Mapping[str, Any], now: float
) -> int | None:
    """Return seconds since a label that a pod needs was last written.

    Only labels of Node Feature Discovery count. The API server records the
    time of the last write in managedFields.
    """
    needed = {
        f"f:{key}"
        for key in _needed_labels(request)
        if key.startswith(f"{features.PREFIX}/")
    }
    ages = []
    for entry in manifest.objects(node, "metadata", "managedFields"):
        at = _seconds(manifest.text(entry, "time"))
        fields = manifest.mapping(entry, "fieldsV1", "f:metadata", "f:labels")
        if at is not None and not needed.isdisjoint(fields):
            ages.append(max(0, int(now - at)))
    return min(ages, default=None)


def _seconds(text: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _number(value: fractions.Fraction) -> str:
    return f"{float(value):g}"
