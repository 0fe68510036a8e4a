# SPDX-License-Identifier: Apache-2.0

"""Fields of manifests from an API server or a file. Pure.

A field of the wrong type is treated as missing: the API server refuses such
an object, and these readers need not refuse it again.
"""

import fractions
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.parse import quantity
from sriov_rt.parse.errors import ParseError

#: The most items of a list that are read.
MAX_ITEMS = 10000


def mapping(plain: Any, *path: str) -> Mapping[str, Any]:
    """Return an object inside another one; empty if there is none."""
    for each in path:
        plain = plain.get(each) if type(plain) is dict else None
    return plain if type(plain) is dict else {}


def objects(plain: Any, *path: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects of a list inside an object."""
    *parents, last = path
    found = mapping(plain, *parents).get(last)
    if type(found) is not list:
        return ()
    return [each for each in found[:MAX_ITEMS] if type(each) is dict]


def text(plain: Any, *path: str) -> str:
    """Return a text inside an object; empty if there is none."""
    *parents, last = path
    found = mapping(plain, *parents).get(last)
    return found if type(found) is str else ""


def texts(plain: Any, *path: str) -> Mapping[str, str]:
    """Return an object with text values, such as labels."""
    return {
        key: value
        for key, value in mapping(plain, *path).items()
        if type(value) is str
    }


def words(plain: Any, *path: str) -> Sequence[str]:
    """Return the texts of a list inside an object."""
    *parents, last = path
    found = mapping(plain, *parents).get(last)
    if type(found) is not list:
        return ()
    return [each for each in found[:MAX_ITEMS] if type(each) is str]


def amounts(plain: Any, *path: str) -> Mapping[str, fractions.Fraction]:
    """Return the amount of each resource, such as those of ``requests``."""
    return dict(_amounts(mapping(plain, *path)))


def _amounts(
    plain: Mapping[str, Any],
) -> Iterator[tuple[str, fractions.Fraction]]:
    for key, value in plain.items():
        if type(value) in (str, int):
            try:
                yield key, quantity.parse(str(value))
            except ParseError:
                continue


def name(plain: Any) -> str:
    """Return an object's name."""
    return text(plain, "metadata", "name")


def namespace(plain: Any) -> str:
    """Return an object's namespace, ``default`` if it states none."""
    return text(plain, "metadata", "namespace") or "default"
