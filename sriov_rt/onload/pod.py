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


"""A JSON patch (RFC 6902) that puts Onload into a pod. Pure."""

import copy
import json
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.onload import plan
from sriov_rt.onload.errors import OnloadError

#: Label of accelerated pods, its value their network. Two of one value do
#: not share a node: what Onload sends past macvlan does not come back in.
LABEL = "sriov-rt.openstack.org/onload"

VOLUME = "sriov-rt-onload"

_TOPOLOGY = "kubernetes.io/hostname"

#: A label's value: validation.IsValidLabelValue of k8s.io/apimachinery.
_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

#: The longest document that is taken: what etcd takes (1.5 MiB).
MAX_DOCUMENT = 1536 * 1024

Op = dict[str, Any]


class PodRejected(OnloadError):
    """A document is none that can be patched.

    :param problem: what is wrong with it, a clause.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"no pod that can be patched: {problem}; give the JSON of a Pod, "
            "or of something with a pod template, as 'kubectl get -o json' "
            "prints it"
        )


def parse(text: bytes) -> dict[str, Any]:
    """Return the object of a JSON document.

    :raises PodRejected: if it is none, or too long.
    """
    if len(text) > MAX_DOCUMENT:
        raise PodRejected(f"more than {MAX_DOCUMENT} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PodRejected(f"not JSON ({str(error)[:80]})") from None
    return _object(found, "the document")


def patch(
    pod: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    resource: str,
    network: str,
    container: str | None = None,
    mount: plan.Mount | None = None,
) -> list[Op]:
    """Return the operations; none for a pod that was patched before.

    :param pod: a Pod, or an object with a pod template.
    :param environment: LD_PRELOAD and the profile's variables; what the pod
        says of Onload's variables is replaced.
    :param resource: the extended resource by which it gets the devices.
    :param network: what accelerated pods of one node may not share.
    :param container: which one; the only one by default.
    :param mount: a directory of the node to mount, where no device plugin
        brings the library.
    :raises PodRejected: if there is no such container or network.
    """
    if not _VALUE.fullmatch(network):
        raise PodRejected(f"no label can have the value {network[:80]!r}")
    at, template = _template(pod)
    spec = _object(template.get("spec"), f"{at}/spec")
    index, chosen = _container(spec, container)
    place = f"{at}/spec/containers/{index}"
    return [
        *_env(chosen, place, environment),
        *_resources(chosen, place, resource),
        *(_mount(spec, chosen, f"{at}/spec", place, mount) if mount else ()),
        *_label(template, at, network),
        *_apart(spec, f"{at}/spec", network),
    ]


def _object(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise PodRejected(f"{what} is no object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if type(value) is not list or any(
        type(each) is not dict for each in value
    ):
        raise PodRejected(f"{what} is no list of objects")
    return value


def _template(pod: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    spec = _object(pod.get("spec"), "/spec")
    if "template" in spec:
        return "/spec/template", _object(spec["template"], "/spec/template")
    return "", dict(pod)


def _container(
    spec: Mapping[str, Any], name: str | None
) -> tuple[int, dict[str, Any]]:
    every = _list(spec.get("containers"), "containers")
    found = [
        (index, each)
        for index, each in enumerate(every)
        if name is None or each.get("name") == name
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(each.get("name"))[:64] for each in every[:16])
    if found:
        raise PodRejected(f"more than one container ({names}), name one")
    raise PodRejected(f"no container {name!r}, there are: {names or 'none'}")


def _env(
    container: Mapping[str, Any], place: str, wanted: Mapping[str, str]
) -> Iterator[Op]:
    had = _list(container.get("env"), f"{place}/env")
    others = [
        each for each in had if not plan.is_onloads(str(each.get("name")))
    ]
    ours = [{"name": name, "value": text} for name, text in wanted.items()]
    if had != others + ours:
        yield _op("add", f"{place}/env", others + ours)


def _resources(
    container: Mapping[str, Any], place: str, resource: str
) -> Iterator[Op]:
    had = container.get("resources") or {}
    now = json.loads(json.dumps(_object(had, f"{place}/resources")))
    # Of extended resources limit and request have to be the same.
    for each in ("limits", "requests"):
        part = _object(now.setdefault(each, {}), f"{place}/resources/{each}")
        part.setdefault(resource, "1")
    if now != had:
        yield _op("add", f"{place}/resources", now)


def _mount(
    spec: Mapping[str, Any],
    container: Mapping[str, Any],
    at: str,
    place: str,
    mount: plan.Mount,
) -> Iterator[Op]:
    volume = {
        "name": VOLUME,
        "hostPath": {"path": mount.source, "type": "Directory"},
    }
    view = {"name": VOLUME, "mountPath": mount.target, "readOnly": True}
    for owner, where, key, wanted in (
        (spec, at, "volumes", volume),
        (container, place, "volumeMounts", view),
    ):
        had = _list(owner.get(key), f"{where}/{key}")
        now = [each for each in had if each.get("name") != VOLUME]
        if [*now, wanted] != had:
            yield _op("add", f"{where}/{key}", [*now, wanted])


def _label(template: Mapping[str, Any], at: str, network: str) -> Iterator[Op]:
    metadata = _object(template.get("metadata") or {}, f"{at}/metadata")
    labels = _object(metadata.get("labels") or {}, f"{at}/metadata/labels")
    if labels.get(LABEL) == network:
        return
    if "metadata" not in template:
        yield _op("add", f"{at}/metadata", {"labels": {LABEL: network}})
    else:
        now = {**labels, LABEL: network}
        yield _op("add", f"{at}/metadata/labels", now)


def _apart(spec: Mapping[str, Any], at: str, network: str) -> Iterator[Op]:
    term = {
        "labelSelector": {"matchLabels": {LABEL: network}},
        "namespaceSelector": {},
        "topologyKey": _TOPOLOGY,
    }
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    had = _object(spec.get("affinity") or {}, f"{at}/affinity")
    anti = _object(had.get("podAntiAffinity") or {}, "podAntiAffinity")
    terms = _list(anti.get(key), key)
    if term not in terms:
        now = {**had, "podAntiAffinity": {**anti, key: [*terms, term]}}
        yield _op("add", f"{at}/affinity", now)


def _op(op: str, path: str, value: Any) -> Op:
    return {"op": op, "path": path, "value": value}


def apply(pod: Mapping[str, Any], ops: Iterable[Op]) -> dict[str, Any]:
    """Return a pod as it is after :func:`patch`'s operations.

    :param ops: of :func:`patch` for this pod: all of them add.
    """
    after: dict[str, Any] = copy.deepcopy(dict(pod))
    for each in ops:
        *parents, last = each["path"].lstrip("/").split("/")
        place: Any = after
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        place[last] = each["value"]
    return after
