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

"""Values in the JSON documents of measuring programs."""

from collections.abc import Mapping
from typing import Any

from sriov_rt.verify.errors import OutputInvalid

_LARGEST = 1e15


def table(tool: str, found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object of a key.

    :param tool: the program, for the error.
    :raises OutputInvalid: if there is none.
    """
    value = found.get(key)
    if type(value) is not dict:
        raise OutputInvalid(tool, key)
    return value


def number(tool: str, found: Mapping[str, Any], key: str) -> float:
    """Return the number of a key, from 0 to 1e15.

    :param tool: the program, for the error.
    :raises OutputInvalid: if there is none, or another.
    """
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OutputInvalid(tool, key)
    # NaN is in no range.
    if not 0 <= value <= _LARGEST:
        raise OutputInvalid(tool, key)
    return float(value)
