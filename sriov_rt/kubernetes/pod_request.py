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

"""Needs of a pod on its node, read from a pod or a pod template. Pure."""

import dataclasses
import fractions
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.kubernetes import manifest
from sriov_rt.kubernetes import pod as pods

Amounts = Mapping[str, fractions.Fraction]

#: Resources of which a pod has an amount beside its containers'.
_OF_POD = frozenset({"cpu", "memory"})

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

#: Annotation by which a NetworkAttachmentDefinition names the VFs' resource.
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"


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
        try:
            ours, theirs = int(found or ""), int(self.values[0])
        except (IndexError, ValueError):
            return False
        return ours > theirs if self.operator == "Gt" else ours < theirs

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
class AntiAffinity:
    """An anti-affinity term: the pods whose nodes a pod avoids.

    :param expressions: conditions on their labels; None matches no pod.
    :param namespaces: of those pods; None for all.
    :param topology: label key of nodes; the pod avoids nodes that have the
        value of such a pod's node.
    """

    expressions: tuple[Expression, ...] | None
    namespaces: frozenset[str] | None
    topology: str

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether the term is about a pod."""
        if self.expressions is None:
            return False
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(each.matches(labels) for each in self.expressions)

    @property
    def onload_network(self) -> str | None:
        """The network of accelerated pods that the term spreads, if any."""
        for each in self.expressions or ():
            if each.key == pods.LABEL and each.values:
                return each.values[0]
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class PodRequest:
    """Fields of a pod that decide on its node.

    :param node_name: spec.nodeName.
    :param selector: conditions, all of which have to hold.
    :param terms: of its node affinity: one has to hold, if there are any.
    :param resources: amounts that the scheduler counts.
    :param exclusive_cpus: number of CPUs from the static CPU manager.
    :param networks: that Multus attaches, NAMESPACE/NAME each.
    :param requests_onload: by annotation, label or resource.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    node_name: str
    selector: tuple[Expression, ...]
    terms: tuple[tuple[Expression, ...], ...]
    tolerations: tuple[Mapping[str, Any], ...]
    resources: Amounts
    exclusive_cpus: int
    networks: tuple[str, ...]
    runtime_class: str
    requests_onload: bool
    anti_affinity: tuple[AntiAffinity, ...]
    spec: Mapping[str, Any]

    @property
    def full_name(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


def read(
    given: Mapping[str, Any],
    runtime_class: Mapping[str, Any] | None = None,
) -> PodRequest:
    """Return the Request of a pod.

    :param given: a Pod, or an object with a pod template.
    :param runtime_class: the pod's RuntimeClass, which the API server would
        add to it.
    :raises PodRejected: if it has no containers, or Multus could not read
        its networks.
    """
    template = given
    if "template" in manifest.mapping(given, "spec"):
        template = manifest.mapping(given, "spec", "template")
    spec = manifest.mapping(template, "spec")
    if not manifest.objects(spec, "containers"):
        raise pods.PodRejected("it has no containers")
    namespace = manifest.namespace(given)
    labels = manifest.texts(template, "metadata", "labels")
    resources = requests(spec, runtime_class)
    return PodRequest(
        name=manifest.name(given),
        namespace=namespace,
        labels=labels,
        node_name=manifest.text(spec, "nodeName"),
        selector=tuple(_selector(spec, runtime_class)),
        terms=tuple(_terms(spec)),
        tolerations=(
            *manifest.objects(spec, "tolerations"),
            *manifest.objects(runtime_class, "scheduling", "tolerations"),
        ),
        resources=resources,
        exclusive_cpus=exclusive_cpus(spec),
        networks=tuple(
            each if "/" in each else f"{namespace}/{each}"
            for each in pods.attached(template)
        ),
        runtime_class=manifest.text(spec, "runtimeClassName"),
        requests_onload=_requests_onload(template, labels, resources),
        anti_affinity=tuple(_anti_affinity(spec, namespace)),
        spec=spec,
    )


def requests(
    spec: Mapping[str, Any], runtime_class: Mapping[str, Any] | None = None
) -> Amounts:
    """Return the resources that the scheduler counts for a pod.

    As PodRequests of k8s.io/component-helpers (resource/helpers.go) does: the
    containers together, or an init container beside the sidecars before it if
    that is more, and the overhead.
    """
    total: dict[str, fractions.Fraction] = {}
    for each in manifest.objects(spec, "containers"):
        _add(total, _requested(each))
    sidecars: dict[str, fractions.Fraction] = {}
    starting: dict[str, fractions.Fraction] = {}
    for each in manifest.objects(spec, "initContainers"):
        needed = dict(_requested(each))
        if manifest.text(each, "restartPolicy") == "Always":
            _add(sidecars, needed)
            _add(total, needed)
            needed = dict(sidecars)
        else:
            _add(needed, sidecars)
        _most(starting, needed)
    _most(total, starting)
    total.update(manifest.amounts(spec, "resources", "requests"))
    overhead = manifest.amounts(spec, "overhead") or manifest.amounts(
        runtime_class, "overhead", "podFixed"
    )
    _add(total, overhead)
    return {key: value for key, value in total.items() if value}


def _requested(container: Mapping[str, Any]) -> Amounts:
    """Return a container's requests; a limit without a request counts."""
    limits = manifest.amounts(container, "resources", "limits")
    given = manifest.amounts(container, "resources", "requests")
    return {**limits, **given}


def _add(total: dict[str, fractions.Fraction], more: Amounts) -> None:
    for key, value in more.items():
        total[key] = total.get(key, fractions.Fraction()) + value


def _most(total: dict[str, fractions.Fraction], other: Amounts) -> None:
    for key, value in other.items():
        total[key] = max(total.get(key, value), value)


def exclusive_cpus(spec: Mapping[str, Any]) -> int:
    """Return the number of exclusive CPUs of a pod.

    The static CPU manager gives them to containers of a Guaranteed pod that
    request whole CPUs
    (pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs).
    """
    containers = [
        *manifest.objects(spec, "containers"),
        *manifest.objects(spec, "initContainers"),
    ]
    found = 0
    for each in containers:
        limits = manifest.amounts(each, "resources", "limits")
        requested = _requested(each)
        if any(
            not limits.get(key) or limits[key] != requested[key]
            for key in _OF_POD
        ):
            return 0
        cpus = limits["cpu"]
        if cpus.denominator == 1 and each in manifest.objects(
            spec, "containers"
        ):
            found += int(cpus)
    return found


def _selector(
    spec: Mapping[str, Any], runtime_class: Mapping[str, Any] | None
) -> Iterator[Expression]:
    for given in (
        manifest.texts(spec, "nodeSelector"),
        manifest.texts(runtime_class, "scheduling", "nodeSelector"),
    ):
        for key, value in given.items():
            yield Expression(key, "In", (value,))


def _terms(
    spec: Mapping[str, Any],
) -> Iterator[tuple[Expression, ...]]:
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


def _anti_affinity(
    spec: Mapping[str, Any], namespace: str
) -> Iterator[AntiAffinity]:
    given = manifest.mapping(spec, "affinity", "podAntiAffinity")
    for each in manifest.objects(given, _REQUIRED):
        selector = each.get("labelSelector")
        expressions = None
        if type(selector) is dict:
            labels = manifest.texts(selector, "matchLabels").items()
            expressions = (
                *(Expression(key, "In", (value,)) for key, value in labels),
                *_expressions(selector, "matchExpressions"),
            )
        namespaces: frozenset[str] | None = frozenset(
            manifest.words(each, "namespaces") or [namespace]
        )
        if type(each.get("namespaceSelector")) is dict:
            # One with conditions is taken for all: Namespaces are not read.
            namespaces = None
        yield AntiAffinity(
            expressions, namespaces, manifest.text(each, "topologyKey")
        )


def _requests_onload(
    template: Mapping[str, Any],
    labels: Mapping[str, str],
    resources: Amounts,
) -> bool:
    annotations = manifest.texts(template, "metadata", "annotations")
    return (
        pods.PROFILE in annotations
        or pods.LABEL in labels
        or not pods.RESOURCES.isdisjoint(resources)
    )
