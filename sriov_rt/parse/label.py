# SPDX-License-Identifier: Apache-2.0

"""Keys and values of Kubernetes labels.

The rules are those of k8s.io/apimachinery (pkg/api/validate/content).
"""

import re

#: The longest name of a key and the longest value, in characters.
MAX_NAME = 63

#: The longest prefix of a key (RFC 1123), in characters.
MAX_PREFIX = 253

#: The greatest integer that ``>`` and ``<`` compare, an int64.
MAX_INTEGER = 2**63 - 1

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NAME = re.compile(r"[A-Za-z0-9]+(?:[-_.]+[A-Za-z0-9]+)*")
_PREFIX = re.compile(
    r"[a-z0-9]+(?:-+[a-z0-9]+)*(?:\.[a-z0-9]+(?:-+[a-z0-9]+)*)*"
)
_NAME_RULE = (
    f"1 to {MAX_NAME} letters, digits, - _ or ., "
    "a letter or digit first and last"
)


def why_not_key(text: str) -> str | None:
    """Return why a text is not a label key; None if it is.

    :param text: ``name`` or ``prefix/name``.
    """
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= MAX_PREFIX and _PREFIX.fullmatch(prefix)):
        return (
            "the prefix of a key has to be a DNS subdomain: lower-case "
            f"letters, digits, - and ., at most {MAX_PREFIX} characters"
        )
    return None if _is_name(name) else f"a key has to be {_NAME_RULE}"


def why_not_value(text: str) -> str | None:
    """Return why a text is not a label value; None if it is."""
    if not text or _is_name(text):
        return None
    return f"a value has to be empty or {_NAME_RULE}"


def integer(value: str) -> int | None:
    """Return a label's value as an integer; None if it is not one.

    An integer is what Go's strconv.ParseInt accepts: a decimal int64.
    """
    if value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    if not _INTEGER.fullmatch(value):
        return None
    digits = value.lstrip("+-").lstrip("0") or "0"
    if len(digits) > len(str(MAX_INTEGER)):
        return None
    number = -int(digits) if value[0] == "-" else int(digits)
    return number if -MAX_INTEGER - 1 <= number <= MAX_INTEGER else None


def _is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None
