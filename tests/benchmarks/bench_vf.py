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


"""Attributes on every VF, beside ip(8)."""

from typing import Any

from tests.benchmarks import machine

NOTE = machine.NOTE


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    return machine.measure("attributes", "netdevsim", "enp1s0")
