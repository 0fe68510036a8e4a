# SPDX-License-Identifier: Apache-2.0

"""Entry points of a namespace, in our package and others."""

from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

import stevedore


def load(
    namespace: str, names: Collection[str] | None = None
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the installed entry points, and why others can't be loaded.

    :param names: the names to load; None for all.
    :returns: name to the loaded object, and name to a clause that says why an
        entry point could not be loaded.
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
