# SPDX-License-Identifier: Apache-2.0

"""Kubernetes quantities, such as ``2``, ``500m`` or ``320Mi``.

The forms are those of k8s.io/apimachinery (pkg/api/resource/quantity.go). The
API server returns a count in one of them, with the largest suffix that leaves
it a whole number.
"""

import fractions
import re

from sriov_rt.parse import errors
from sriov_rt.parse import label

_QUANTITY = "Kubernetes quantity"

#: The longest accepted text: an int64 and a suffix need 22 characters.
MAX_TEXT = 40

_FORM = re.compile(
    r"\+?([0-9]{1,19})(Ki|Mi|Gi|Ti|Pi|Ei|[kMGTPE]|[eE][0-9]{1,2})?"
)

_DECIMAL = re.compile(
    r"\+?([0-9]{1,19}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})"
    r"([KMGTPE]i|[kMGTPEmun]|[eE][+-]?[0-9]{1,2})?"
)

_FRACTIONS = {"m": 10**3, "u": 10**6, "n": 10**9}

_UNITS = {
    **{name: 1000**power for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": 1024**power for power, name in enumerate("KMGTPE", 1)},
}


def parse_count(text: str) -> int:
    """Return a quantity as a whole number from 0 to 2^63 - 1.

    :param text: such as ``8``, ``1k``, ``2Ki`` or ``1e3``.
    :raises ParseError: for anything else, including fractions and negative
        numbers.
    """
    errors.check_length(_QUANTITY, text, MAX_TEXT)
    found = _FORM.fullmatch(text)
    if found is None:
        raise errors.ParseError(_QUANTITY, text, "a whole number expected")
    digits, suffix = found.groups()
    unit = 1
    if suffix in _UNITS:
        unit = _UNITS[suffix]
    elif suffix is not None:
        unit = 10 ** int(suffix[1:])
    value = int(digits) * unit
    if value > label.MAX_INTEGER:
        raise errors.ParseError(_QUANTITY, text, "out of range")
    return value


def parse(text: str) -> fractions.Fraction:
    """Return a quantity as a number from 0 to 2^63 - 1.

    :param text: such as ``500m``, ``1.5``, ``320Mi`` or ``8``.
    :raises ParseError: for anything else, including negative numbers.
    """
    errors.check_length(_QUANTITY, text, MAX_TEXT)
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise errors.ParseError(_QUANTITY, text, "a number expected")
    digits, suffix = found.groups()
    if suffix in _FRACTIONS:
        unit = fractions.Fraction(1, _FRACTIONS[suffix])
    elif suffix is None or suffix in _UNITS:
        unit = fractions.Fraction(_UNITS.get(suffix or "", 1))
    else:
        unit = fractions.Fraction(10) ** int(suffix[1:])
    value = fractions.Fraction(digits) * unit
    if value > label.MAX_INTEGER:
        raise errors.ParseError(_QUANTITY, text, "out of range")
    return value
