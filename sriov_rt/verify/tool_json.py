# SPDX-License-Identifier: Apache-2.0

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
    :raises OutputInvalid: if the value is missing or out of range.
    """
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OutputInvalid(tool, key)
    # The range check also refuses NaN.
    if not 0 <= value <= _LARGEST:
        raise OutputInvalid(tool, key)
    return float(value)
