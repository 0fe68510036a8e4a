# SPDX-License-Identifier: Apache-2.0

"""Fakes compared with the classes that they stand in for."""

import inspect
from collections.abc import Iterator
from collections.abc import Mapping


def differences(fake: type, real: type) -> list[str]:
    """Return where a fake has other parameters than the real class.

    :param fake: the fake; it may have more methods for tests.
    """
    mine, theirs = _methods(fake), _methods(real)
    return [
        f"{name}{mine[name]}, not {theirs[name]}"
        for name in sorted(mine.keys() & theirs.keys())
        if mine[name] != theirs[name]
    ]


def missing(fake: type, real: type) -> set[str]:
    """Return the methods of the real class that a fake lacks."""
    return _methods(real).keys() - _methods(fake).keys()


def _methods(of: type) -> Mapping[str, inspect.Signature]:
    return dict(_signatures(of))


def _signatures(of: type) -> Iterator[tuple[str, inspect.Signature]]:
    for name, found in inspect.getmembers(of, inspect.isfunction):
        if name.startswith("_"):
            continue
        bare = inspect.signature(found)
        yield (
            name,
            bare.replace(
                parameters=[
                    each.replace(annotation=inspect.Parameter.empty)
                    for each in bare.parameters.values()
                ],
                return_annotation=inspect.Signature.empty,
            ),
        )
