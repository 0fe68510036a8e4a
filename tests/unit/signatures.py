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

"""Fakes compared with the classes that they stand in for."""

import inspect
from collections.abc import Iterator
from collections.abc import Mapping


def differences(fake: type, real: type) -> list[str]:
    """Return where a fake takes other arguments than the real class.

    :param fake: may have methods of its own, for tests.
    """
    mine, theirs = _methods(fake), _methods(real)
    return [
        f"{name}{mine[name]}, not {theirs[name]}"
        for name in sorted(mine.keys() & theirs.keys())
        if mine[name] != theirs[name]
    ]


def missing(fake: type, real: type) -> set[str]:
    """Return the methods of the real class that a fake has not."""
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
