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

"""The label sources that are installed (stevedore)."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import stevedore

from sriov_rt import exceptions
from sriov_rt.labels.source import Factory
from sriov_rt.labels.source import LabelSource
from sriov_rt.labels.source import Wiring

NAMESPACE = "sriov_rt.label_sources"

#: What the kernel tells is no source that can be named, moved or left out.
KERNEL = "kernel"


class LabelSourceMissing(exceptions.SriovRtError):
    """``[labels] sources`` names what cannot be had.

    :param name: of the source.
    :param why: a clause.
    """

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why
        super().__init__(
            f"there is no label source '{name}' ({why}); correct [labels] "
            "sources, or install the package that it comes with"
        )


def load(names: Sequence[str], wiring: Wiring) -> Mapping[str, LabelSource]:
    """Return the named sources in their order, not started.

    :raises LabelSourceMissing: if one is not installed or fails to load.
    """
    found: dict[str, LabelSource] = {}
    failed: dict[str, str] = {}

    def note(
        manager: object, entry_point: object, error: BaseException
    ) -> None:
        name = getattr(entry_point, "name", str(entry_point))
        failed[name] = f"{type(error).__name__}: {error}"

    wanted = dict.fromkeys(names)
    wanted.pop(KERNEL, None)
    if not wanted:
        return found
    manager: stevedore.NamedExtensionManager[Any] = (
        stevedore.NamedExtensionManager(
            NAMESPACE, list(wanted), on_load_failure_callback=note
        )
    )
    factories: dict[str, Factory] = {
        each.name: each.plugin for each in manager
    }
    for name in wanted:
        if name not in factories:
            raise LabelSourceMissing(
                name, failed.get(name, f"nothing in {NAMESPACE}")
            )
        found[name] = factories[name](wiring)
    return found
