# SPDX-License-Identifier: Apache-2.0

"""Objects of a cluster for ``pod explain``, from an API server or a file."""

import functools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.kubernetes import errors
from sriov_rt.pods import manifest
from sriov_rt.pods.feasible_nodes import Cluster

#: Objects of one answer, and the most answers of one list: enough for 200,000
#: pods, while Kubernetes' own limit is 150,000.
PAGE = 500
MAX_PAGES = 400

#: Field of :class:`Cluster` to its kind and its path on an API server.
KINDS: Mapping[str, tuple[str, str]] = {
    "nodes": ("Node", "/api/v1/nodes"),
    "pods": ("Pod", "/api/v1/pods"),
    "networks": (
        "NetworkAttachmentDefinition",
        "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
    ),
    "runtime_classes": (
        "RuntimeClass",
        "/apis/node.k8s.io/v1/runtimeclasses",
    ),
    "topologies": (
        "NodeResourceTopology",
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
    ),
}

#: Returns the answer to a path and a query; None if the path does not exist.
Get = Callable[..., Any]


def connect(kubeconfig: str | None, context: str | None) -> Get:
    """Return a function that queries the API server of a kubeconfig file.

    :raises ApiProblem: if there are no credentials, or no client is
        installed.
    """
    try:
        from sriov_rt.kubernetes import api
    except ImportError as error:
        raise errors.CredentialsUnreadable(
            f"{error}; run 'pip install sriov-rt[kubernetes]'"
        ) from error
    return functools.partial(api.get, api.connect(kubeconfig, context))


def read(get: Get) -> Cluster:
    """Return the objects of a cluster, read from its API server.

    Kinds that the API server does not serve have no objects.

    :raises ApiProblem: if the API server does not answer.
    """
    return Cluster(
        **{
            field: tuple(_every(get, path))
            for field, (_, path) in KINDS.items()
        }
    )


def find_pod(get: Get, namespace: str, name: str) -> Any:
    """Return a pod; None if there is none.

    :raises ApiProblem: if the API server does not answer.
    """
    return get(f"/api/v1/namespaces/{namespace}/pods/{name}")


def of_objects(given: Iterable[Any]) -> Cluster:
    """Return a cluster with the objects from a file.

    :param given: objects of any kind, or Lists of objects.
    """
    found: dict[str, list[Any]] = {field: [] for field in KINDS}
    fields = {kind: field for field, (kind, _) in KINDS.items()}
    for each in _flat(given):
        field = fields.get(str(each.get("kind")))
        if field is not None:
            found[field].append(each)
    return Cluster(**{key: tuple(value) for key, value in found.items()})


def _flat(given: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    for each in given:
        if type(each) is not dict:
            continue
        if type(each.get("items")) is list:
            yield from (item for item in each["items"] if type(item) is dict)
        else:
            yield each


def _every(get: Get, path: str) -> Iterator[Mapping[str, Any]]:
    more = ""
    for _ in range(MAX_PAGES):
        query = {"limit": PAGE, **({"continue": more} if more else {})}
        answer = get(path, **query)
        if answer is None:
            return
        items = answer.get("items") if type(answer) is dict else None
        if items is None:
            items = []
        if type(answer) is not dict or type(items) is not list:
            raise errors.Garbled(f"{path} is no list")
        yield from (each for each in items if type(each) is dict)
        more = manifest.text(answer, "metadata", "continue")
        if not more:
            return
    raise errors.Garbled(f"{path} has more than {PAGE * MAX_PAGES} objects")
