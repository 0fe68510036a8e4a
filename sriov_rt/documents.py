# SPDX-License-Identifier: Apache-2.0

"""Versioned JSON documents of dataclasses."""

import json
from typing import Any
from typing import TypeVar

from sriov_rt import codec

T = TypeVar("T")


def plain(data: str | bytes, limit: int) -> Any:
    """Return the value of a JSON document.

    :param limit: the longest that is taken, in bytes.
    :raises SchemaError: if it is longer, or not JSON in UTF-8.
    """
    if len(data) > limit:
        raise codec.SchemaError("", f"longer than {limit} bytes")
    try:
        # json.loads would take UTF-16 and UTF-32 for JSON, too.
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise codec.SchemaError("", f"not UTF-8: {error.reason}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise codec.SchemaError("", f"not JSON: {error}") from None


def dump(value: Any, schema: int) -> bytes:
    """Return the document of a dataclass: one line, its version first.

    :param schema: the version of its form, as :func:`load` expects it.
    """
    plain = {"schema": schema, **codec.to_plain(value)}
    return json.dumps(plain, separators=(",", ":")).encode()


def check_version(document: Any, schema: int, remedy: str = "") -> None:
    """Check the version of a document.

    :param remedy: what to do about another version, a clause.
    :raises SchemaError: if it is of another one, or of none.
    """
    version = document.get("schema") if type(document) is dict else None
    # To Python, true equals 1, and 1.0 does.
    if type(version) is not int or version != schema:
        raise codec.SchemaError("schema", remedy or f"{schema} expected")


def load(cls: type[T], data: bytes, limit: int, schema: int) -> T:
    """Build an instance of a dataclass from a document of a version.

    :param limit: the longest that is taken, in bytes.
    :param schema: the version that it has to have.
    :raises SchemaError: for a document that is not in its form.
    """
    found = plain(data, limit)
    check_version(found, schema)
    return codec.from_plain(cls, found)
