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

"""The fact sources that are installed (stevedore)."""

from collections.abc import Mapping

import stevedore

from sriov_rt.codec import Unknown
from sriov_rt.host.observe import PARTS
from sriov_rt.host.observe import Source

NAMESPACE = "sriov_rt.fact_sources"


def load() -> Mapping[str, Source | Unknown]:
    """Return each part's source, or the reason why there is none.

    Entry points are there only where sriov-rt is installed as a package: in
    a checkout that is not, every part has that as its reason.
    """
    failed: dict[str, str] = {}

    def note(
        manager: object, entry_point: object, error: BaseException
    ) -> None:
        name = getattr(entry_point, "name", str(entry_point))
        failed[name] = f"{type(error).__name__}: {error}"

    manager: stevedore.ExtensionManager[Source] = stevedore.ExtensionManager(
        NAMESPACE, on_load_failure_callback=note
    )
    loaded = {each.name: each.plugin for each in manager}
    return {name: loaded.get(name, _why(name, failed)) for name in PARTS}


def _why(name: str, failed: Mapping[str, str]) -> Unknown:
    if name in failed:
        return Unknown(f"its source cannot be loaded: {failed[name]}")
    return Unknown(
        f"no fact source '{name}' is installed in {NAMESPACE}; install "
        "sriov-rt with pip"
    )
