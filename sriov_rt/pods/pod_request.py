# SPDX-License-Identifier: Apache-2.0

"""Needs of a pod on its node, read from a pod or a pod template. Pure."""

import dataclasses
import fractions
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.pods import manifest
from sriov_rt.pods import pod as pods
from sriov_rt.pods import topology

Amounts = Mapping[str, fractions.Fraction]

_CPU = "cpu"

#: Resources that decide on the QoS class of a pod.
_OF_POD = (_CPU, "memory")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

#: Integers for Gt and Lt, in the form of Go's ParseInt.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)

#: Resource that the admission policy requests for Onload, unless its ConfigMap
#: names another one (onload-pods/policy.yaml).
_ONLOAD = "amd.com/onload"


@dataclasses.dataclass(frozen=True, slots=True)
class Expression:
    """One condition of a Kubernetes label selector.

    :param operator: In, NotIn, Exists, DoesNotExist, Gt or Lt.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the condition, by Kubernetes' rules."""
        found = labels.get(self.key)
        if self.operator in ("Exists", "DoesNotExist"):
            return (found is not None) == (self.operator == "Exists")
        if self.operator == "In":
            return found in self.values
        if self.operator == "NotIn":
            return found not in self.values
        return self._compares(found)

    def _compares(self, found: str | None) -> bool:
        texts = (found or "", *self.values)
        if len(texts) != 2 or not all(map(_INTEGER.fullmatch, texts)):
            return False
        ours, theirs = map(int, texts)
        if self.operator == "Gt":
            return ours > theirs
        return self.operator == "Lt" and ours < theirs

    def __str__(self) -> str:
        listed = ",".join(self.values)
        if self.operator == "In" and len(self.values) == 1:
            return f"{self.key}={listed}"
        if self.operator == "Exists":
            return self.key
        if self.operator == "DoesNotExist":
            return f"!{self.key}"
        if self.operator in ("Gt", "Lt"):
            return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{listed}"
        word = "in" if self.operator == "In" else "notin"
        return f"{self.key} {word} ({listed})"


@dataclasses.dataclass(frozen=True, slots=True)
class PodRequest:
    """Fields of a pod that decide on its node, as far as sriov-rt judges.

    :param full_name: NAMESPACE/NAME.
    :param selector: conditions, all of which have to hold.
    :param terms: terms of its node affinity, of which any one has to hold.
    :param resources: total amounts of its containers.
    :param exclusive_cpus: number of CPUs that the static CPU manager gives
        to containers of a Guaranteed pod with whole CPUs
        (pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs).
    :param parts: needs of each container from NUMA nodes, in order.
    :param whole: needs of the whole pod from NUMA nodes.
    :param claims: names of its ResourceClaims.
    :param networks: networks that Multus attaches, NAMESPACE/NAME each.
    :param onload_network: network of its accelerated traffic; may be empty.
    :param requests_onload: whether it does, by annotation, label or resource.
    """

    full_name: str
    selector: tuple[Expression, ...]
    terms: tuple[tuple[Expression, ...], ...]
    resources: Amounts
    exclusive_cpus: int
    parts: tuple[topology.Part, ...]
    whole: topology.Part
    claims: tuple[str, ...]
    networks: tuple[str, ...]
    runtime_class: str
    onload_network: str
    requests_onload: bool
    spec: Mapping[str, Any]


def admitted(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod from a file, patched as by the policy for Onload.

    A pod without the annotations, or one that the policy leaves alone, is
    returned unchanged.
    """
    template = _template(given)
    annotations = manifest.texts(template, "metadata", "annotations")
    network = annotations.get(pods.NETWORK)
    if pods.PROFILE not in annotations or network is None:
        return given
    try:
        operations = pods.patch(
            given,
            {},
            resource=_ONLOAD,
            network=network,
            container=annotations.get(pods.CONTAINER),
        )
    except pods.PodRejected:
        return given
    return pods.apply(given, operations)


def read(
    given: Mapping[str, Any],
    runtime_class: Mapping[str, Any] | None = None,
) -> PodRequest:
    """Return the request of a pod.

    :param given: a Pod, or an object with a pod template.
    :param runtime_class: the pod's RuntimeClass, which the API server would
        add to it.
    :raises PodRejected: if it has no containers, or Multus could not read
        its networks.
    """
    template = _template(given)
    spec = manifest.mapping(template, "spec")
    if not manifest.objects(spec, "containers"):
        raise pods.PodRejected("it has no containers")
    namespace = manifest.namespace(given)
    resources, whole_pod = requests(spec), whole(spec)
    return PodRequest(
        full_name=f"{namespace}/{manifest.name(given)}",
        selector=tuple(_selector(spec, runtime_class)),
        terms=tuple(_terms(spec)),
        resources=resources,
        exclusive_cpus=int(whole_pod.needed.get(_CPU, 0)),
        parts=tuple(_parts(spec)),
        whole=whole_pod,
        claims=tuple(
            manifest.text(each, "name")
            for each in manifest.objects(spec, "resourceClaims")
        ),
        networks=tuple(
            each if "/" in each else f"{namespace}/{each}"
            for each in pods.attached(template)
        ),
        runtime_class=manifest.text(spec, "runtimeClassName"),
        onload_network=onload_network(template),
        requests_onload=_requests_onload(template, resources),
        spec=spec,
    )


def _template(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod, or the template of an object that has one."""
    if "template" in manifest.mapping(given, "spec"):
        return manifest.mapping(given, "spec", "template")
    return given


def onload_network(pod: Mapping[str, Any]) -> str:
    """Return the network of a pod's accelerated traffic; empty if none."""
    return manifest.text(pod, "metadata", "labels", pods.LABEL)


def requests(spec: Mapping[str, Any]) -> Amounts:
    """Return the resources that a pod requests."""
    return _sum(spec, _requested)


def _sum(
    spec: Mapping[str, Any],
    amounts_of: Callable[[Mapping[str, Any]], Amounts],
) -> Amounts:
    """Return the most that a pod needs of each resource at any time.

    This is the sum in PodRequests of k8s.io/component-helpers
    (resource/helpers.go): all containers together or, if more, an init
    container with the sidecars before it.
    """
    total: dict[str, fractions.Fraction] = {}
    sidecars: dict[str, fractions.Fraction] = {}
    starting: dict[str, fractions.Fraction] = {}
    for each in manifest.objects(spec, "containers"):
        _add(total, amounts_of(each))
    for each in manifest.objects(spec, "initContainers"):
        needed = dict(amounts_of(each))
        if _is_sidecar(each):
            _add(sidecars, needed)
            _add(total, needed)
            needed = dict(sidecars)
        else:
            _add(needed, sidecars)
        for key, value in needed.items():
            starting[key] = max(starting.get(key, value), value)
    for key, value in starting.items():
        total[key] = max(total.get(key, value), value)
    return {key: value for key, value in total.items() if value}


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    return manifest.text(container, "restartPolicy") == "Always"


def _requested(container: Mapping[str, Any]) -> Amounts:
    """Return a container's requests; a limit is the default request."""
    limits = manifest.amounts(container, "resources", "limits")
    given = manifest.amounts(container, "resources", "requests")
    return {**limits, **given}


def _add(total: dict[str, fractions.Fraction], more: Amounts) -> None:
    for key, value in more.items():
        total[key] = total.get(key, fractions.Fraction()) + value


def is_guaranteed(spec: Mapping[str, Any]) -> bool:
    """Return whether a pod's QoS class is Guaranteed, by its containers."""
    for each in _containers(spec):
        limits = manifest.amounts(each, "resources", "limits")
        requested = _requested(each)
        if any(
            not limits.get(key) or limits[key] != requested[key]
            for key in _OF_POD
        ):
            return False
    return True


def _containers(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return containers in the order in which the kubelet admits them."""
    return [
        *manifest.objects(spec, "initContainers"),
        *manifest.objects(spec, "containers"),
    ]


def _parts(spec: Mapping[str, Any]) -> Iterator[topology.Part]:
    aligned = _aligned(spec)
    starting = manifest.objects(spec, "initContainers")
    for index, each in enumerate(_containers(spec)):
        yield topology.Part(
            manifest.text(each, "name"),
            aligned(each),
            index < len(starting) and not _is_sidecar(each),
        )


def whole(spec: Mapping[str, Any]) -> topology.Part:
    """Return the needs of a whole pod from NUMA nodes."""
    return topology.Part(None, _sum(spec, _aligned(spec)))


def _aligned(
    spec: Mapping[str, Any],
) -> Callable[[Mapping[str, Any]], Amounts]:
    """Return a function for a container's resources with NUMA nodes.

    These are devices in a pod of any class, and whole CPUs in a Guaranteed
    one.
    """
    has_cpus = is_guaranteed(spec)

    def of(container: Mapping[str, Any]) -> Amounts:
        return {
            key: amount
            for key, amount in _requested(container).items()
            if amount > 0
            and (
                has_cpus and amount.denominator == 1
                if key == _CPU
                else is_device(key)
            )
        }

    return of


def is_device(resource: str) -> bool:
    """Return whether a resource belongs to a device plugin."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and not f".{domain}".endswith(".kubernetes.io")


def _selector(
    spec: Mapping[str, Any], runtime_class: Mapping[str, Any] | None
) -> Iterator[Expression]:
    for given in (
        manifest.texts(spec, "nodeSelector"),
        manifest.texts(runtime_class, "scheduling", "nodeSelector"),
    ):
        for key, value in given.items():
            yield Expression(key, "In", (value,))


def _terms(spec: Mapping[str, Any]) -> Iterator[tuple[Expression, ...]]:
    affinity = manifest.mapping(spec, "affinity", "nodeAffinity", _REQUIRED)
    for each in manifest.objects(affinity, "nodeSelectorTerms"):
        fields = tuple(
            dataclasses.replace(found, key="metadata.name")
            for found in _expressions(each, "matchFields")
        )
        yield (*_expressions(each, "matchExpressions"), *fields)


def _expressions(plain: Mapping[str, Any], key: str) -> Iterator[Expression]:
    for each in manifest.objects(plain, key):
        yield Expression(
            manifest.text(each, "key"),
            manifest.text(each, "operator"),
            tuple(manifest.words(each, "values")),
        )


def _requests_onload(template: Mapping[str, Any], resources: Amounts) -> bool:
    annotations = manifest.texts(template, "metadata", "annotations")
    return (
        pods.PROFILE in annotations
        or bool(onload_network(template))
        or not pods.RESOURCES.isdisjoint(resources)
    )
