# SPDX-License-Identifier: Apache-2.0

"""JSON schemas of documents that others read: ``python -m tests.schemas``.

They are made from the dataclasses that write and read the documents, and kept
next to them in the package. A document of a later version may have more keys.
"""

import dataclasses
import enum
import json
import pathlib
import re
import typing
from collections.abc import Mapping
from typing import Any

import sriov_rt
from sriov_rt import facts
from sriov_rt.codec import UNKNOWN_KEY
from sriov_rt.codec import Unknown
from sriov_rt.facts import certificate
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import disk
from sriov_rt.verify import network
from sriov_rt.verify import results

PACKAGE = pathlib.Path(sriov_rt.__file__).parent

#: Class and version of each document, by its file below the package.
SCHEMAS: Mapping[str, tuple[Any, int]] = {
    "facts/facts": (facts.HostFacts, facts.SCHEMA_VERSION),
    "facts/certificate": (
        certificate.Certificate,
        certificate.SCHEMA_VERSION,
    ),
    "verify/latency-result": (results.Result, results.SCHEMA_VERSION),
    "verify/disk-result": (disk.Measured, results.SCHEMA_VERSION),
    "verify/network-result": (network.Measured, results.SCHEMA_VERSION),
}

_SCALARS: Mapping[Any, Any] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
    CpuSet: {
        "type": "string",
        "description": "CPU list, such as 0-3,8",
        "pattern": r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$",
    },
    Unknown: {
        "type": "object",
        "description": "could not be read, and why",
        "properties": {UNKNOWN_KEY: {"type": "string"}},
        "required": [UNKNOWN_KEY],
        "additionalProperties": False,
    },
}

_PARAM = re.compile(r"^ *:param (\w+): (.*(?:\n +(?![ :]).*)*)", re.MULTILINE)


def path(name: str) -> pathlib.Path:
    """Return the file of a schema."""
    return PACKAGE / f"{name}.schema.json"


def make(name: str) -> dict[str, Any]:
    """Return the schema of a document in SCHEMAS."""
    cls, version = SCHEMAS[name]
    known: dict[str, Any] = {}
    _of(cls, known)
    whole = known.pop(cls.__name__)
    whole["properties"] = {
        "schema": {"const": version},
        **whole["properties"],
    }
    whole["required"] = ["schema", *whole["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:sriov-rt:{name.rpartition('/')[2]}:{version}",
        **whole,
        "$defs": dict(sorted(known.items())),
    }


def text(name: str) -> str:
    """Return the text of a schema's file."""
    return json.dumps(make(name), indent=1, ensure_ascii=False) + "\n"


def _of(hint: Any, known: dict[str, Any]) -> Any:
    """Return the schema of a type hint; add its classes to the known ones."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if dataclasses.is_dataclass(hint):
        name = typing.cast(Any, hint).__name__
        if name not in known:
            known[name] = {}
            known[name] |= _object(hint, known)
        return {"$ref": f"#/$defs/{name}"}
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return {"enum": [str(each) for each in hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _of(arguments[0], known)}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_of(each, known) for each in arguments],
            "items": False,
            "minItems": len(arguments),
        }
    if origin is Mapping:
        values = _of(arguments[1], known)
        return {"type": "object", "additionalProperties": values}
    return {"anyOf": [_of(each, known) for each in arguments]}


def _object(cls: Any, known: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    said = {
        name: " ".join(words.split())
        for name, words in _PARAM.findall(cls.__doc__ or "")
    }
    fields = dataclasses.fields(cls)
    properties = {
        each.name: {
            **_of(hints[each.name], known),
            **({"description": said[each.name]} if each.name in said else {}),
        }
        for each in fields
    }
    required = [
        each.name
        for each in fields
        if each.default is dataclasses.MISSING
        and each.default_factory is dataclasses.MISSING
    ]
    return {
        "description": (cls.__doc__ or "").strip().split("\n", 1)[0],
        "type": "object",
        "properties": properties,
        "required": required,
    }


if __name__ == "__main__":
    for each in SCHEMAS:
        path(each).write_text(text(each))
