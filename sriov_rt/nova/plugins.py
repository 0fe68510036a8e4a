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

"""What the filter and the weigher need of stevedore and a RequestSpec."""

from collections.abc import Mapping
from typing import Any

from stevedore import extension


def load(namespace: str) -> list[Any]:
    """Return the classes of a stevedore namespace.

    :raises ImportError: for an entry point that can't be loaded. Without its
        filter, nova-scheduler would place realtime instances anywhere.
    """

    def fail(manager: Any, entry_point: Any, error: BaseException) -> None:
        raise error

    manager = extension.ExtensionManager(
        namespace, on_load_failure_callback=fail
    )
    return [each.plugin for each in manager]


def extra_specs(spec: Any) -> Mapping[str, str]:
    """Return the extra specs of a RequestSpec's flavor."""
    flavor = spec.flavor
    found = flavor.extra_specs if "extra_specs" in flavor else None
    return found or {}
