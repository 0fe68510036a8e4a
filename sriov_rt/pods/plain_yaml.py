# SPDX-License-Identifier: Apache-2.0

"""Manifests in YAML, converted to JSON for an API server. Pure."""

import json
from collections.abc import Iterator
from typing import Any

import yaml


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader that leaves times as text, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in found if not each[0].endswith(":timestamp")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(data: bytes) -> Iterator[Any]:
    """Yield the documents of a stream, without empty ones.

    :raises ValueError: if it is not YAML, or has values unknown to JSON or
        an alias: a few lines of aliases can expand to gigabytes.
    """
    try:
        for each in yaml.load_all(data, _Loader):
            if each is not None:
                _check_aliases(each)
                yield json.loads(json.dumps(each, allow_nan=False))
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _check_aliases(document: Any) -> None:
    seen: set[int] = set()
    left = [document]
    while left:
        found = left.pop()
        if not isinstance(found, (dict, list)):
            continue
        if id(found) in seen:
            raise ValueError("an alias, which no manifest needs")
        seen.add(id(found))
        left += found.values() if isinstance(found, dict) else found
