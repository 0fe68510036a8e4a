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

"""What the API server says of a Node, as far as labels go."""

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any

from sriov_rt import exceptions
from sriov_rt.parse import errors
from sriov_rt.parse import label
from sriov_rt.parse import quantity

#: The longest object that is taken in, in bytes: etcd takes 1.5 MiB in one
#: request (--max-request-bytes), and JSON is longer than what is stored.
MAX_OBJECT = 4 * 1024 * 1024

#: What Kubernetes itself calls a resource with a slash begins with a domain
#: that ends so; an extended resource never does.
_NATIVE = "kubernetes.io"


class Garbled(exceptions.SriovRtError):
    """The API server's answer is none of a Kubernetes API server.

    :param problem: a clause.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"the API server's answer is garbled ({problem}); see what "
            "answers at its address"
        )


class Kind(enum.StrEnum):
    """What a watch reports; ``OPENED`` is ours, that it has begun."""

    OPENED = "OPENED"
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


_KINDS = {str(kind): kind for kind in Kind if kind is not Kind.OPENED}


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One report of a watch.

    :param version: resourceVersion to go on from; empty for an error.
    :param labels: of the Node; None where the report is of none.
    :param code: HTTP status of an error; 0 for no error.
    :param message: the error's.
    """

    kind: Kind
    version: str
    labels: Mapping[str, str] | None = None
    code: int = 0
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """What a list of Nodes of one name found.

    :param version: resourceVersion to watch from.
    :param labels: the Node's; None if there is no such Node.
    """

    version: str
    labels: Mapping[str, str] | None


def parse_listing(data: bytes) -> Listing:
    """Return what a NodeList says.

    :raises Garbled: if it is none, or of more than one Node.
    """
    plain = _object(data)
    items = plain.get("items") or []
    if plain.get("kind") != "NodeList" or type(items) is not list:
        raise Garbled("no NodeList")
    if len(items) > 1:
        raise Garbled(f"{len(items)} Nodes of one name")
    version = _version(plain)
    return Listing(version, labels(items[0]) if items else None)


def parse_event(line: bytes) -> Event:
    """Return what a line of a watch says.

    :raises Garbled: if it says nothing known.
    """
    plain = _object(line)
    kind = _KINDS.get(str(plain.get("type")))
    if kind is None:
        raise Garbled("an event of no known type")
    found = plain.get("object")
    if type(found) is not dict:
        raise Garbled("an event without its object")
    if kind is Kind.ERROR:
        code, message = found.get("code"), found.get("message")
        return Event(
            kind,
            "",
            code=code if type(code) is int else 500,
            message=str(message)[:200],
        )
    if kind is Kind.BOOKMARK:
        return Event(kind, _version(found))
    return Event(kind, _version(found), labels(found))


def labels(node: Any) -> Mapping[str, str]:
    """Return a Node's labels, and its extended resources as labels.

    An extended resource (``solarflare.com/sfc``) is a label of its name
    whose value is how many of it can be allocated, a whole number, so that
    selectors can compare it. A label of the same key counts before it.

    :raises Garbled: if it is no Node.
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


def _object(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_OBJECT:
        raise Garbled(f"more than {MAX_OBJECT} bytes")
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        raise Garbled("no JSON") from None
    if type(plain) is not dict:
        raise Garbled("no object")
    return plain


def _mapping(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = plain.get(key)
    if found is None:
        return {}
    if type(found) is not dict:
        raise Garbled(f"{key} is no object")
    return found


def _version(plain: Mapping[str, Any]) -> str:
    version = _mapping(plain, "metadata").get("resourceVersion")
    if type(version) is not str or not version:
        raise Garbled("no resourceVersion")
    return version
