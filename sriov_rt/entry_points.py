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

"""Entry points of a namespace, ours and those of other packages."""

from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

import stevedore


def load(
    namespace: str, names: Collection[str] | None = None
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return what is installed, by name, and why the others can't be loaded.

    :param names: those that are wanted; all if it is None.
    :returns: name to what the entry point leads to, and name to a clause for
        each that could not be loaded.
    """
    failed: dict[str, str] = {}

    def note(
        manager: object, entry_point: object, error: BaseException
    ) -> None:
        name = getattr(entry_point, "name", str(entry_point))
        failed[name] = f"{type(error).__name__}: {error}"

    manager: stevedore.ExtensionManager[Any]
    if names is None:
        manager = stevedore.ExtensionManager(
            namespace, on_load_failure_callback=note
        )
    else:
        manager = stevedore.NamedExtensionManager(
            namespace, list(names), on_load_failure_callback=note
        )
    return {each.name: each.plugin for each in manager}, failed
