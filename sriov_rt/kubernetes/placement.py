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

"""Which nodes take a pod, and why the others do not. Pure.

It applies the rules of kube-scheduler's filters (NodeName, NodeUnschedulable,
TaintToleration, NodeAffinity, NodeResourcesFit, InterPodAffinity's
anti-affinity), and those by which the kubelet refuses a pod later: the
topology manager's single NUMA node, and the runtime's handler.
Volumes, ports of the host and required podAffinity are not judged.
"""

import dataclasses
import datetime
import fractions
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.kubernetes import manifest
from sriov_rt.kubernetes import pod_request
from sriov_rt.kubernetes import runtime_class as runtime_classes
from sriov_rt.kubernetes import sentences
from sriov_rt.kubernetes.pod_request import Expression
from sriov_rt.kubernetes.pod_request import PodRequest
from sriov_rt.kubernetes.sentences import reason
from sriov_rt.parse import features
from sriov_rt.reason import Reason

#: How many isolated CPUs sriov-rt-agent reports (labels.own).
ISOLATED = f"{features.PREFIX}/sriov-rt.cpus.isolated"

#: The same on a node of a Magnum nodegroup, which has no agent and joins only
#: if its kernel has booted with isolcpus (magnum.nodegroup).
REALTIME_CPUS = "sriov-rt.openstack.org/realtime-cpus"

#: Annotation of a NetworkAttachmentDefinition: runtime classes whose
#: sandboxes have a port for its VFs.
KATA_CLASSES = "sriov-rt.openstack.org/kata-classes"

_UNSCHEDULABLE = {
    "key": "node.kubernetes.io/unschedulable",
    "effect": "NoSchedule",
}

#: Taints that repeat a condition of the Node.
_OF_CONDITIONS = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
    }
)

#: Resources that are not devices.
_BYTES = frozenset({"memory", "ephemeral-storage"})
_PLAIN = _BYTES | {"cpu", "pods"}

_ONE_NODE = "single-numa-node"

_NONE = fractions.Fraction()


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """Objects of a cluster, as the API server returns them.

    :param topologies: NodeResourceTopology objects; those of other Nodes are
        passed over.
    """

    nodes: Sequence[Mapping[str, Any]] = ()
    pods: Sequence[Mapping[str, Any]] = ()
    networks: Sequence[Mapping[str, Any]] = ()
    runtime_classes: Sequence[Mapping[str, Any]] = ()
    topologies: Sequence[Mapping[str, Any]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Whether a Node takes a pod.

    :param label_age_s: seconds since the youngest label that the pod needs
        was written; None if it needs none, or that is not known.
    :param reasons: why not; none if it does.
    :param notes: Reasons that do not keep the pod off.
    """

    node: str
    label_age_s: int | None
    reasons: tuple[Reason, ...]
    notes: tuple[Reason, ...]

    @property
    def passes(self) -> bool:
        """Whether the Node takes the pod."""
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
    """Return the RuntimeClass of a pod, or of its template; None if none."""
    spec = manifest.mapping(given, "spec")
    if "template" in spec:
        spec = manifest.mapping(spec, "template", "spec")
    name = manifest.text(spec, "runtimeClassName")
    return _named(cluster.runtime_classes, name)


def judge(
    request: PodRequest, cluster: Cluster, now: float
) -> tuple[Placement, ...]:
    """Return for each Node, by name, why it does not take a pod.

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


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """Objects of the cluster, indexed for judging each Node."""

    running: Mapping[str, Sequence[PodRequest]]
    labels: Mapping[str, Mapping[str, str]]
    topologies: Mapping[str, Mapping[str, Any]]
    runtime_class: Mapping[str, Any] | None

    @classmethod
    def of(cls, request: PodRequest, cluster: Cluster) -> "_View":
        running: dict[str, list[PodRequest]] = {}
        for each in cluster.pods:
            node = manifest.text(each, "spec", "nodeName")
            phase = manifest.text(each, "status", "phase")
            if not node or phase in ("Succeeded", "Failed"):
                continue
            if (other := _other(each)).full_name != request.full_name:
                running.setdefault(node, []).append(other)
        return cls(
            running,
            {manifest.name(each): _labels(each) for each in cluster.nodes},
            {manifest.name(each): each for each in cluster.topologies},
            _named(cluster.runtime_classes, request.runtime_class),
        )


def _other(given: Mapping[str, Any]) -> PodRequest:
    """Return the Request of a pod on a Node, without its networks."""
    metadata = {
        key: value
        for key, value in manifest.mapping(given, "metadata").items()
        if key != "annotations"
    }
    spec = manifest.mapping(given, "spec")
    if not manifest.objects(spec, "containers"):
        spec = {**spec, "containers": [{}]}
    return pod_request.read({"metadata": metadata, "spec": spec})


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    return manifest.texts(node, "metadata", "labels")


def _named(
    objects: Sequence[Mapping[str, Any]], name: str
) -> Mapping[str, Any] | None:
    found = (each for each in objects if manifest.name(each) == name)
    return next(found, None) if name else None


def _why_nowhere(request: PodRequest, cluster: Cluster) -> Iterator[Reason]:
    """Yield Reasons that keep a pod off every Node."""
    found = _named(cluster.runtime_classes, request.runtime_class)
    if request.runtime_class and found is None:
        yield reason("pod_class_missing", runtime_class=request.runtime_class)
    if request.requests_onload and (
        problem := runtime_classes.why_not(request.spec, found)
    ):
        yield reason("pod_class_without_onload", problem=problem)
    networks = {
        f"{manifest.namespace(each)}/{manifest.name(each)}": each
        for each in cluster.networks
    }
    for full in dict.fromkeys(request.networks):
        if full in networks:
            yield from _why_not_network(request, full, networks[full], found)
        else:
            namespace, _, name = full.partition("/")
            yield reason(
                "pod_network_missing", network=name, namespace=namespace
            )


def _why_not_network(
    request: PodRequest,
    full: str,
    network: Mapping[str, Any],
    runtime_class: Mapping[str, Any] | None,
) -> Iterator[Reason]:
    annotations = manifest.texts(network, "metadata", "annotations")
    resource = annotations.get(pod_request.RESOURCE)
    if not resource:
        return
    attached = request.networks.count(full)
    requested = request.resources.get(resource, _NONE)
    if requested < attached:
        yield reason(
            "pod_vf_not_requested",
            network=full,
            resource=resource,
            requested=_number(requested),
            attached=attached,
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


def _why_not(
    request: PodRequest, node: Mapping[str, Any], view: _View
) -> Iterator[Reason]:
    name = manifest.name(node)
    if request.node_name and request.node_name != name:
        yield reason("pod_other_node", node=request.node_name)
        return
    yield from _why_not_ready(request, node)
    yield from _why_not_tolerated(request, node)
    yield from _why_not_selected(request, node)
    yield from _why_not_fitting(request, node, view)
    yield from _why_not_apart(request, node, view)
    yield from _why_no_handler(request, node, view)
    yield from _why_split(request, name, view)
    yield from _isolated(request, node)


def _why_not_ready(
    request: PodRequest, node: Mapping[str, Any]
) -> Iterator[Reason]:
    if node_is_cordoned(node) and not _tolerates(request, _UNSCHEDULABLE):
        yield reason("pod_node_cordoned", node=manifest.name(node))
    why = _not_ready(node)
    if why is not None:
        yield reason("pod_node_not_ready", why=why[:200] or "no reason")


def _not_ready(node: Mapping[str, Any]) -> str | None:
    """Return why a Node reports that it is not ready; None if it is."""
    for each in manifest.objects(node, "status", "conditions"):
        if (
            manifest.text(each, "type") == "Ready"
            and manifest.text(each, "status") != "True"
        ):
            return manifest.text(each, "message") or manifest.text(
                each, "reason"
            )
    return None


def node_is_cordoned(node: Mapping[str, Any]) -> bool:
    """Return whether a Node is cordoned."""
    return manifest.mapping(node, "spec").get("unschedulable") is True


def _why_not_tolerated(
    request: PodRequest, node: Mapping[str, Any]
) -> Iterator[Reason]:
    reported = node_is_cordoned(node) or _not_ready(node) is not None
    for taint in manifest.objects(node, "spec", "taints"):
        key = manifest.text(taint, "key")
        effect = manifest.text(taint, "effect")
        if effect not in ("NoSchedule", "NoExecute"):
            continue
        if reported and key in _OF_CONDITIONS:
            continue
        if not _tolerates(request, taint):
            value = manifest.text(taint, "value")
            yield reason(
                "pod_taint",
                taint=f"{key}={value}:{effect}"
                if value
                else f"{key}:{effect}",
                node=manifest.name(node),
            )


def _tolerates(request: PodRequest, taint: Mapping[str, Any]) -> bool:
    return any(_is_tolerated(taint, each) for each in request.tolerations)


def _is_tolerated(
    taint: Mapping[str, Any], toleration: Mapping[str, Any]
) -> bool:
    effect = manifest.text(toleration, "effect")
    if effect and effect != manifest.text(taint, "effect"):
        return False
    key = manifest.text(toleration, "key")
    if key and key != manifest.text(taint, "key"):
        return False
    if manifest.text(toleration, "operator") == "Exists":
        return True
    return bool(key) and (
        manifest.text(toleration, "value") == manifest.text(taint, "value")
    )


def _why_not_selected(
    request: PodRequest, node: Mapping[str, Any]
) -> Iterator[Reason]:
    labels = {**_labels(node), "metadata.name": manifest.name(node)}
    for each in request.selector:
        if not each.matches(labels):
            yield _unmatched(each, node, labels)
    if not request.terms:
        return
    missed = [
        [each for each in term if not each.matches(labels)]
        for term in request.terms
    ]
    # A term without a condition matches nothing (NodeSelectorTerm's comment).
    if any(
        term and not unmet
        for term, unmet in zip(request.terms, missed, strict=True)
    ):
        return
    nearest = min(missed, key=len)
    for each in nearest:
        yield _unmatched(each, node, labels)


def _unmatched(
    expression: Expression,
    node: Mapping[str, Any],
    labels: Mapping[str, str],
) -> Reason:
    key, needed = expression.key, str(expression)
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


def _why_not_fitting(
    request: PodRequest, node: Mapping[str, Any], view: _View
) -> Iterator[Reason]:
    total = manifest.amounts(node, "status", "allocatable")
    running = view.running.get(manifest.name(node), ())
    if "pods" in total and len(running) >= total["pods"]:
        yield reason("pod_too_many", pods=len(running))
    for resource, needed in sorted(request.resources.items()):
        there = total.get(resource, _NONE)
        if not there:
            yield reason("pod_resource_missing", resource=resource)
            continue
        taken = sum(
            (each.resources.get(resource, 0) for each in running),
            _NONE,
        )
        if needed > there - taken:
            yield reason(
                "pod_resource_taken",
                resource=resource,
                needed=_amount(resource, needed),
                free=_amount(resource, max(there - taken, _NONE)),
                total=_amount(resource, there),
            )


def _why_not_apart(
    request: PodRequest, node: Mapping[str, Any], view: _View
) -> Iterator[Reason]:
    own = _labels(node)
    for name, others in view.running.items():
        labels = view.labels.get(name, {})
        for other in others:
            term = _keeps_off(request, other, own, labels) or _keeps_off(
                other, request, labels, own
            )
            if term is None:
                continue
            network = term.onload_network
            if network is None:
                yield reason("pod_anti_affinity", other=other.full_name)
            else:
                yield reason(
                    "pod_spread",
                    other=other.full_name,
                    label=f"sriov-rt.openstack.org/onload={network}",
                )


def _keeps_off(
    one: PodRequest,
    other: PodRequest,
    labels: Mapping[str, str],
    others: Mapping[str, str],
) -> pod_request.AntiAffinity | None:
    """Return the term by which a pod keeps off the Node of another one.

    :param labels: of the Node of the first pod.
    :param others: labels of the Node of the other pod.
    """
    for term in one.anti_affinity:
        place = labels.get(term.topology)
        if (
            place is not None
            and place == others.get(term.topology)
            and term.matches(other.namespace, other.labels)
        ):
            return term
    return None


def _why_no_handler(
    request: PodRequest, node: Mapping[str, Any], view: _View
) -> Iterator[Reason]:
    handler = manifest.text(view.runtime_class, "handler")
    found = [
        manifest.text(each, "name")
        for each in manifest.objects(node, "status", "runtimeHandlers")
    ]
    # Runtimes that do not report theirs (containerd 1) leave the list out.
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
    """Yield why no single NUMA node can serve a pod."""
    devices = {
        key: value
        for key, value in request.resources.items()
        if "/" in key and not key.startswith("kubernetes.io/")
    }
    if not (devices and request.exclusive_cpus):
        return
    topology = view.topologies.get(node)
    if topology is None:
        yield reason("pod_numa_unknown")
        return
    if _ONE_NODE not in _policies(topology):
        return
    needed = {"cpu": fractions.Fraction(request.exclusive_cpus), **devices}
    zones = [
        (manifest.text(each, "name"), _available(each))
        for each in manifest.objects(topology, "zones")
        if manifest.text(each, "type") in ("Node", "")
    ]
    if any(
        all(zone.get(key, 0) >= value for key, value in needed.items())
        for _, zone in zones
    ):
        return
    yield reason(
        "pod_numa_split",
        needed=_listed(needed, needed),
        zones="; ".join(
            f"{name}: {_listed(needed, zone)}" for name, zone in zones[:16]
        )
        or "none",
    )


def _policies(topology: Mapping[str, Any]) -> set[str]:
    found = {
        manifest.text(each, "value")
        for each in manifest.objects(topology, "attributes")
        if manifest.text(each, "name") == "topologyManagerPolicy"
    }
    # Until v1alpha2: SingleNUMANodeContainerLevel and the like.
    if any(
        each.startswith("SingleNUMANode")
        for each in manifest.words(topology, "topologyPolicies")
    ):
        found.add(_ONE_NODE)
    return found


def _available(zone: Mapping[str, Any]) -> Mapping[str, fractions.Fraction]:
    found: dict[str, fractions.Fraction] = {}
    for each in manifest.objects(zone, "resources"):
        amount = manifest.amounts(each).get("available")
        if amount is not None:
            found[manifest.text(each, "name")] = amount
    return found


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

    Only labels of Node Feature Discovery count; the API server notes in
    managedFields when they were written last.
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


def _amount(resource: str, value: fractions.Fraction) -> str:
    if resource in _BYTES or resource.startswith("hugepages-"):
        return f"{int(value) // 2**20}Mi"
    return _number(value)


def _number(value: fractions.Fraction) -> str:
    return f"{float(value):g}"
