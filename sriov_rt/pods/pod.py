# SPDX-License-Identifier: Apache-2.0

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
from sriov_rt.pods import manifest
from sriov_rt.pods import runtime_class

#: Label of accelerated pods, with their network as value. Two pods with the
#: same value and namespace cannot share a node: packets that Onload sends past
#: macvlan are not looped back.
LABEL = "sriov-rt.openstack.org/onload"

#: Annotation by which a pod requests one of the operator's profiles.
PROFILE = "sriov-rt.openstack.org/onload-profile"

#: Annotations with the network of accelerated traffic, and a container.
NETWORK = "sriov-rt.openstack.org/onload-network"
CONTAINER = "sriov-rt.openstack.org/onload-container"

#: Extended resources of Onload's devices: AMD's operator's, and the older one.
RESOURCES = frozenset({"amd.com/onload", "solarflare.com/sfc"})

VOLUME = "sriov-rt-onload"

_TOPOLOGY = "kubernetes.io/hostname"

#: Annotation with the networks that Multus attaches a pod to: names separated
#: by commas, or a JSON list (Network Plumbing Working Group's CRD standard,
#: 4.1.2).
MULTUS = "k8s.v1.cni.cncf.io/networks"

#: A NetworkAttachmentDefinition's name (a DNS subdomain) that is short enough
#: to be a label's value too.
_NETWORK = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")

#: One name in the annotation: NAMESPACE/NAME@INTERFACE.
_ATTACHED = re.compile(r"(?:([^/@,\s]+)/)?([^/@,\s]+)(?:@[^/@,\s]+)?")

#: The deepest nesting of a document; a Pod has about 12 levels.
MAX_DEPTH = 64

#: The longest document that is accepted, bytes: etcd's limit of 1.5 MiB.
MAX_DOCUMENT = 1536 * 1024

#: Requirement for a document.
NEEDED = (
    "the JSON or YAML of a Pod, or of something with a pod template, as "
    "'kubectl get -o json' prints it"
)

Op = dict[str, Any]


class PodRejected(OnloadError):
    """A document does not have a pod that can be patched.

    :param problem: what is wrong with it, a clause.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"no pod that can be patched: {problem}; give {NEEDED}"
        )


def parse(text: bytes) -> dict[str, Any]:
    """Return the object of a document with a pod, JSON or YAML.

    Of several documents, the one with a pod is returned.

    :raises PodRejected: if there is no such object, or it is too long.
    """
    every = decode(text, MAX_DOCUMENT)
    found = [each for each in every if _has_pod(each)] or every
    if len(found) != 1:
        raise PodRejected(f"{len(found)} documents, of which one is judged")
    return found[0]


def _has_pod(document: Mapping[str, Any]) -> bool:
    spec = document.get("spec")
    return type(spec) is dict and ("containers" in spec or "template" in spec)


def decode(text: bytes, limit: int) -> list[dict[str, Any]]:
    """Return the objects of documents of any kind.

    :param text: JSON, one document after the other, or YAML.
    :param limit: the longest text that is accepted, bytes.
    :raises PodRejected: if one is not an object, or the text is too long.
    """
    if len(text) > limit:
        raise PodRejected(f"more than {limit} bytes")
    is_json = text.lstrip()[:1] in (b"{", b"[", b"")
    try:
        found = list(_of_json(text) if is_json else _of_yaml(text))
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "JSON or YAML"
        raise PodRejected(f"not {kind} ({str(error)[:80]})") from None
    for each in found:
        _check_depth(each)
    return [_object(each, "the document") for each in found]


def _of_json(data: bytes) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    text, at = data.decode().rstrip(), 0
    while True:
        # raw_decode accepts no white space before a document.
        while text[at : at + 1].isspace():
            at += 1
        found, at = decoder.raw_decode(text, at)
        yield found
        if at == len(text):
            return


def _of_yaml(data: bytes) -> Iterator[Any]:
    # Imported here because few pods are read from YAML.
    from sriov_rt.pods import plain_yaml

    return plain_yaml.documents(data)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _check_depth(document: Any) -> None:
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise PodRejected(f"nested more than {MAX_DEPTH} deep")


def patch(
    pod: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    resource: str,
    network: str,
    container: str | None = None,
    mount: plan.Mount | None = None,
    runtime: Mapping[str, Any] | None = None,
) -> list[Op]:
    """Return the operations, none of them for a pod patched before.

    :param pod: a Pod, or an object with a pod template.
    :param environment: LD_PRELOAD and the profile's variables, which replace
        the pod's own Onload variables.
    :param resource: the extended resource by which it gets the devices.
    :param network: the NetworkAttachmentDefinition of its accelerated
        traffic, in the pod's namespace. Accelerated pods on one node may not
        share it.
    :param container: name of a container; the only one by default.
    :param mount: a directory of the node to mount, if no device plugin
        provides the library.
    :param runtime: the pod's RuntimeClass, if it is known.
    :raises PodRejected: if there is no such container or network, or the
        pod cannot have Onload.
    """
    if not _NETWORK.fullmatch(network):
        raise PodRejected(f"no network can have the name {network[:80]!r}")
    at, template = _template(pod)
    spec = _object(template.get("spec"), f"{at}/spec")
    if problem := runtime_class.why_not(spec, runtime):
        raise PodRejected(problem)
    index, chosen = _container(spec, container)
    place = f"{at}/spec/containers/{index}"
    return [
        *_env(chosen, place, environment),
        *_resources(chosen, place, resource),
        *(_mount(spec, chosen, f"{at}/spec", place, mount) if mount else ()),
        *_metadata(template, at, network),
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
    container: Mapping[str, Any], place: str, needed: Mapping[str, str]
) -> Iterator[Op]:
    had = _list(container.get("env"), f"{place}/env")
    others = [
        each for each in had if not plan.is_onloads(str(each.get("name")))
    ]
    ours = [{"name": name, "value": text} for name, text in needed.items()]
    if had != others + ours:
        yield _op("add", f"{place}/env", others + ours)


def _resources(
    container: Mapping[str, Any], place: str, resource: str
) -> Iterator[Op]:
    had = container.get("resources") or {}
    now = json.loads(json.dumps(_object(had, f"{place}/resources")))
    parts = [
        _object(now.get(each) or {}, f"{place}/resources/{each}")
        for each in ("limits", "requests")
    ]
    stated = [part[resource] for part in parts if resource in part]
    # Limit and request of an extended resource must be equal.
    if len({str(each) for each in stated}) > 1:
        raise PodRejected(f"limit and request of {resource} differ")
    amount = stated[0] if stated else "1"
    if str(amount) == "0":
        raise PodRejected(f"it asks for 0 of {resource}")
    for each, part in zip(("limits", "requests"), parts, strict=True):
        part.setdefault(resource, amount)
        now[each] = part
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
    for owner, where, key, entry in (
        (spec, at, "volumes", volume),
        (container, place, "volumeMounts", view),
    ):
        had = _list(owner.get(key), f"{where}/{key}")
        now = [each for each in had if each.get("name") != VOLUME]
        if [*now, entry] != had:
            yield _op("add", f"{where}/{key}", [*now, entry])


def _metadata(
    template: Mapping[str, Any], at: str, network: str
) -> Iterator[Op]:
    metadata = _object(template.get("metadata") or {}, f"{at}/metadata")
    additions = {
        "labels": {LABEL: network},
        "annotations": _annotations(metadata, at, network),
    }
    now = {}
    for key, added in additions.items():
        had = _object(metadata.get(key) or {}, f"{at}/metadata/{key}")
        if had != had | added:
            now[key] = had | added
    if template.get("metadata") is None:
        yield _op("add", f"{at}/metadata", now)
        return
    for key, value in now.items():
        yield _op("add", f"{at}/metadata/{key}", value)


def _annotations(
    metadata: Mapping[str, Any], at: str, network: str
) -> dict[str, str]:
    """Return the annotation, with a network added to the existing ones."""
    had = _object(metadata.get("annotations") or {}, f"{at}/annotations")
    text = had.get(MULTUS, "")
    if network in _attached(text, metadata.get("namespace")):
        return {}
    if not text.strip():
        return {MULTUS: network}
    if text.lstrip().startswith("["):
        every = [*json.loads(text), {"name": network}]
        return {MULTUS: json.dumps(every)}
    return {MULTUS: f"{text}, {network}"}


def _attached(text: Any, own: Any) -> tuple[str, ...]:
    """Return the networks in an annotation, with namespaces other than own.

    :param own: the pod's namespace, if it is stated.
    :raises PodRejected: if Multus could not read the annotation either.
    """
    found: list[tuple[str | None, str]] = []
    if type(text) is not str:
        raise PodRejected(f"annotation {MULTUS} is no text")
    if text.lstrip().startswith(("[", "{")):
        try:
            every = _list(json.loads(text), MULTUS)
        except (ValueError, RecursionError):
            raise PodRejected(f"annotation {MULTUS} is not JSON") from None
        for each in every:
            name, namespace = each.get("name"), each.get("namespace")
            if type(name) is not str or not isinstance(namespace, str | None):
                raise PodRejected(f"annotation {MULTUS} has no names")
            found.append((namespace, name))
    elif text.strip():
        for word in text.split(","):
            match = _ATTACHED.fullmatch(word.strip())
            if match is None:
                raise PodRejected(f"annotation {MULTUS} has no names")
            found.append((match[1], match[2]))
    return tuple(
        name if namespace in (None, "", own) else f"{namespace}/{name}"
        for namespace, name in found
    )


def attached(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the networks that Multus attaches a pod to, in order.

    Networks outside the pod's own namespace are NAMESPACE/NAME.

    :param pod: as for :func:`patch`.
    :raises PodRejected: if Multus could not read them either.
    """
    at, template = _template(pod)
    metadata = _object(template.get("metadata") or {}, f"{at}/metadata")
    had = _object(metadata.get("annotations") or {}, f"{at}/annotations")
    return _attached(had.get(MULTUS, ""), metadata.get("namespace"))


def other_networks(pod: Mapping[str, Any], network: str) -> tuple[str, ...]:
    """Return the networks besides one that Multus attaches a pod to.

    :param pod: as for :func:`patch`.
    :raises PodRejected: if Multus could not read them either.
    """
    return tuple(each for each in attached(pod) if each != network)


def other_resources(pod: Mapping[str, Any], resource: str) -> tuple[str, ...]:
    """Return other resources of Onload's devices that a pod requests.

    :param pod: as for :func:`patch`.
    :param resource: the resource in its patch.
    """
    _, template = _template(pod)
    every = manifest.objects(template, "spec", "containers")
    requested = {
        name
        for each in every
        for part in ("limits", "requests")
        for name in manifest.mapping(each, "resources", part)
    }
    return tuple(sorted((RESOURCES - {resource}) & requested))


def _apart(spec: Mapping[str, Any], at: str, network: str) -> Iterator[Op]:
    # The term applies to the pod's own namespace, where the network is.
    term = {
        "labelSelector": {"matchLabels": {LABEL: network}},
        "topologyKey": _TOPOLOGY,
    }
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    had = _object(spec.get("affinity") or {}, f"{at}/affinity")
    anti = _object(had.get("podAntiAffinity") or {}, "podAntiAffinity")
    terms = _list(anti.get(key), key)
    if term not in terms and {**term, "namespaceSelector": {}} not in terms:
        now = {**had, "podAntiAffinity": {**anti, key: [*terms, term]}}
        yield _op("add", f"{at}/affinity", now)


def _op(op: str, path: str, value: Any) -> Op:
    return {"op": op, "path": path, "value": value}


def apply(pod: Mapping[str, Any], ops: Iterable[Op]) -> dict[str, Any]:
    """Return a pod with the operations of :func:`patch` applied.

    :param ops: operations from :func:`patch` for this pod, all of which add.
    """
    after: dict[str, Any] = copy.deepcopy(dict(pod))
    for each in ops:
        *parents, last = each["path"].lstrip("/").split("/")
        place: Any = after
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        place[last] = each["value"]
    return after
