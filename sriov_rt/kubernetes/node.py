# SPDX-License-Identifier: Apache-2.0

"""Labels of a Node, including those for its extended resources."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from sriov_rt.kubernetes.errors import Garbled
from sriov_rt.parse import errors
from sriov_rt.parse import label
from sriov_rt.parse import quantity

#: Resources of Kubernetes itself are below this domain.
_NATIVE = "kubernetes.io"

BOOKMARK = "BOOKMARK"
DELETED = "DELETED"
_TYPES = ("ADDED", "MODIFIED", DELETED, BOOKMARK)


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """Result of a list of the Nodes of one name.

    :param version: resourceVersion to watch from.
    :param labels: labels of the Node; None if there is no such Node.
    """

    version: str
    labels: Mapping[str, str] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One event of a watch.

    :param type: Kubernetes' name of the event.
    :param labels: labels of the Node; None in a bookmark.
    """

    type: str
    labels: Mapping[str, str] | None = None


def listing(plain: Any) -> Listing:
    """Return the Node of a NodeList.

    :param plain: decoded JSON.
    :raises Garbled: if it is not a NodeList, or has more than one Node.
    """
    if type(plain) is not dict or plain.get("kind") != "NodeList":
        raise Garbled("no NodeList")
    items = plain.get("items") or []
    if type(items) is not list or len(items) > 1:
        raise Garbled("not one Node")
    version = _mapping(plain, "metadata").get("resourceVersion")
    if type(version) is not str or not version:
        raise Garbled("no resourceVersion")
    return Listing(version, labels(items[0]) if items else None)


def event(plain: Any) -> Event:
    """Return an event of a watch.

    :param plain: decoded JSON.
    :raises Garbled: if its type is unknown.
    """
    if type(plain) is not dict or plain.get("type") not in _TYPES:
        raise Garbled("an event of no known type")
    if plain["type"] == BOOKMARK:
        return Event(BOOKMARK)
    return Event(plain["type"], labels(plain.get("object")))


def labels(node: Any) -> Mapping[str, str]:
    """Return a Node's labels, and its extended resources as labels.

    An extended resource (``solarflare.com/sfc``) becomes a label of its name.
    The value is the allocatable number, so that selectors can compare it. An
    existing label of the same key takes precedence.

    :raises Garbled: if it is not a Node.
    """
    if type(node) is not dict:
        raise Garbled("no Node")
    metadata, status = _mapping(node, "metadata"), _mapping(node, "status")
    found = dict(_resources(_mapping(status, "allocatable")))
    for key, value in _mapping(metadata, "labels").items():
        if type(value) is not str:
            raise Garbled("a label that is no text")
        if not label.why_not_key(key) and not label.why_not_value(value):
            found[key] = value
    return found


def _resources(allocatable: Mapping[str, Any]) -> Mapping[str, str]:
    found = {}
    for name, amount in allocatable.items():
        domain, slash, _ = name.partition("/")
        native = domain == _NATIVE or domain.endswith(f".{_NATIVE}")
        if not slash or native or label.why_not_key(name):
            continue
        try:
            found[name] = str(quantity.parse_count(str(amount)))
        except errors.ParseError:
            continue
    return found


def _mapping(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = plain.get(key)
    if found is None:
        return {}
    if type(found) is not dict:
        raise Garbled(f"{key} is no object")
    return found
