# SPDX-License-Identifier: Apache-2.0

"""Versioned JSON documents of dataclasses."""

import json
from typing import Any
from typing import TypeVar

from sriov_rt import codec

T = TypeVar("T")


def plain(data: str | bytes, limit: int) -> Any:
    """Return the value of a JSON document.

    :param limit: the longest accepted document, in bytes.
    :raises SchemaError: if it is longer, or not JSON in UTF-8.
    """
    if len(data) > limit:
        raise codec.SchemaError("", f"longer than {limit} bytes")
    try:
        # json.loads would accept UTF-16 and UTF-32, too.
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise codec.SchemaError("", f"not UTF-8: {error.reason}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise codec.SchemaError("", f"not JSON: {error}") from None


def dump(value: Any, schema: int) -> bytes:
    """Return a dataclass instance as a document of one line, version first.

    :param schema: version of the document's form, checked by :func:`load`.
    """
    plain = {"schema": schema, **codec.to_plain(value)}
    return json.dumps(plain, separators=(",", ":")).encode()


def check_version(document: Any, schema: int, remedy: str = "") -> None:
    """Check the version of a document.

    :param remedy: what to do about another version, a clause.
    :raises SchemaError: if it has another version, or none.
    """
    version = document.get("schema") if type(document) is dict else None
    # In Python, true and 1.0 equal 1.
    if type(version) is not int or version != schema:
        raise codec.SchemaError("schema", remedy or f"{schema} expected")


def load(cls: type[T], data: bytes, limit: int, schema: int) -> T:
    """Build an instance of a dataclass from a document of a version.

    :param limit: the longest accepted document, in bytes.
    :param schema: the required version.
    :raises SchemaError: for an invalid document.
    """
    found = plain(data, limit)
    check_version(found, schema)
    return codec.from_plain(cls, found)
